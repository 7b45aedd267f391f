/* How many steps of a launch make a sample, by what launches cost.  Pure. */
#ifndef LAUNCH_COST_H
#define LAUNCH_COST_H

#include "launch_watch.h"

/* Of a run's launches: their starts and ends, and what lies between the first question and the last
 * answer; and when these were in the launch under way. */
struct launch_cost {
    double outside_ns, inside_ns;

    int64_t started_ns, asked_ns, told_ns; /* asked: first; told: last; 0: not yet */
};

void launch_cost_started(struct launch_cost *cost, int64_t now_ns);
void launch_cost_asked(struct launch_cost *cost, int64_t now_ns);
void launch_cost_told(struct launch_cost *cost, int64_t now_ns);
/* -1: how long it took to end says nothing of others. */
void launch_cost_ended(struct launch_cost *cost, int64_t now_ns);

/* More steps make a sample surer as far as steps scatter; as far as launches differ by luck, only
 * launches do, and these cost their starts. */
enum { LAUNCH_STEPS_LEAST = 5 };
uint32_t launch_pace(const struct launch_cost *cost, const struct watched *ranges);

#endif
