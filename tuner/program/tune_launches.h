/* Tunes a program with a space of its own: one launch after the other, each with some values of the
 * restart axes, if it has any, which all buckets share that want them.  Within a launch the other
 * axes vary.  What varies from launch to launch is what a plan is judged by: a launch gives a range
 * at most one sample of a plan, and launches of different plans take turns. */
#ifndef TUNE_LAUNCHES_H
#define TUNE_LAUNCHES_H

#include "live.h"
#include "pairs.h"
#include "session.h"
#include "tune_options.h"

struct launches_report {
    int64_t cluster, shape;    /* in the store; 0: it was never opened */
    uint32_t launches, values; /* how often it was started, and under how many sets of values */
    uint32_t buckets, decided, given_up;
    uint32_t steps; /* that a sample must have */
    /* Where the default launch stands for want of a proof: the one that is likely to be better.
     * doubt.arm -1: there is none. */
    struct doubt doubt;
    char doubted[DECLARATION_PLAN_BYTES]; /* its restart values */
};

/* Until all buckets that the program asks for are decided; ERR_CUT: time is up. */
int tune_launches(struct session *session, const struct table_setup *setup,
                  const struct tune_options *options, struct launches_report *out);

#endif
