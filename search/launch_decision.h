/* Decides which launch values a program should have for its whole table.  Launch values are the
 * values of the axes that need a restart.  A job has one set of them for all of its ranges.  The
 * best set is the one under which all ranges together take least time, each with its best live plan
 * and weighted by its traffic.  A live plan is one that needs no other launch values.
 *
 * In this file "a launch" is such a set of values, by its number, and "a process" is one start of
 * the program with it.
 *
 * It is a decision (decision.h) whose plans are launches.  A sample of a launch is one process: the
 * sum over ranges of weight times time.  The ranges' own searches say which launch to start next.
 * Fresh pairs of processes prove that the chosen launch is faster than the default one.  The state
 * follows from the samples and their order alone.
 *
 *     launch_decision_open(&setup, &c);  launch_decision_add(c, search, weight) for each range;
 *     while ((launch = launch_decision_next(c, &purpose)) != DECISION_DONE) {
 *         launch_decision_begin(c, launch, purpose);
 *         while launch_decision_next_arm(c, range, &needed) >= 0 for some range
 *             launch_decision_tell(c, range, arm, ns);   or launch_decision_drop(c, range, arm)
 *         launch_decision_end(c);
 *     }
 */
#ifndef LAUNCH_DECISION_H
#define LAUNCH_DECISION_H

#include "decision.h"

struct launch_decision;

/* What is to be decided.  launch_decision_open() copies it; the pointers are borrowed. */
struct launch_decision_setup {
    size_t arm_count;          /* plans */
    const uint32_t *launch_of; /* by arm: the launch that the plan needs */
    size_t launch_count;
    int default_arm;
    const uint32_t *distance; /* by arm, as in struct decision_setup */
    double harm, margin;      /* as in struct decision_setup */
    uint64_t seed;
};

/* Begins a decision without ranges; ERR_NOMEM after a message. */
int launch_decision_open(const struct launch_decision_setup *setup, struct launch_decision **out);
void launch_decision_close(struct launch_decision *decision); /* NULL is fine */

/* Adds a range with this weight.  `search` is borrowed; it has begun a bucket of its own for the
 * range, and gets its samples from launch_decision_tell() alone.  Returns the range's number, or an
 * error. */
int launch_decision_add(struct launch_decision *decision, struct search *search, double weight);
/* Changes a weight; 0: the range no longer counts.  All samples are weighted again. */
void launch_decision_set_weight(struct launch_decision *decision, int range, double weight);

/* Sets the cost of a process, as a share of all that a launch may save. */
void launch_decision_set_cost(struct launch_decision *decision, double share);

/* The launch to start next and its purpose; DECISION_DONE: it is decided. */
int launch_decision_next(struct launch_decision *decision, enum decision_purpose *purpose);

/* A process of the launch has started. */
void launch_decision_begin(struct launch_decision *decision, int launch,
                           enum decision_purpose purpose);
/* The arm that the running process should sample next in a range; -1: none.  `needed`: without it
 * the process is of little use. */
int launch_decision_next_arm(struct launch_decision *decision, int range, bool *needed);
/* Hands over a sample of the running process, or a recorded one before any process; ERR_NOMEM after
 * a message. */
int launch_decision_tell(struct launch_decision *decision, int range, int arm, int64_t ns);
/* Takes an arm that cannot run in a range out of it. */
void launch_decision_drop(struct launch_decision *decision, int range, int arm);
/* The process has ended. */
int launch_decision_end(struct launch_decision *decision);

/* The belief about a plan's log(ns) in a range. */
struct normal launch_decision_level(const struct launch_decision *decision, int range, int arm);

/* The best live plan of a launch in a range; -1: none can run. */
int launch_decision_live_arm(const struct launch_decision *decision, int launch, int range);

/* The result; a plain value. */
struct launch_result {
    int launch; /* to publish */
    enum decision_word word;
    /* Its gain by pairs of processes: over the default launch; over the best single plan for all
     * ranges. */
    struct gain over_default, over_fixed;
    int fixed_arm;            /* that single plan; -1: not known */
    struct doubt doubt;       /* if the default is published; its `arm` is a launch */
    uint32_t pairs, launches; /* pairs of processes; processes started */
};
/* The gain of the chosen launch over the default plan in one range, by pairs of processes; unknown
 * without pairs. */
struct gain launch_decision_gain(const struct launch_decision *decision, int range);

/* At any time: what would be published now.  False: no launch can run all ranges. */
bool launch_decision_result(struct launch_decision *decision, struct launch_result *out);

/* ---- launches compared by the beliefs about their plans; `tune` uses it for its own layers, too
 */

/* The log(ns) of a range under a launch, and under the best plan of all launches that ran there. */
struct launch_part {
    double weight, log_ns, best_log_ns;
    double sd; /* of log_ns - best_log_ns */
};

/* The best plan of a launch in the search's present bucket.  Plans that ran there go before others.
 * -1: none can run.  `launch_of`: by arm. */
int launch_live_arm(struct search *search, const uint32_t *launch_of, int launch);
struct launch_part launch_part_of(struct search *search, int arm, double weight);

/* What one launch for all parts costs: the share of time that a job would save if it could have the
 * best launch for each part. */
struct gain launch_price(const struct launch_part *parts, size_t count);

/* Chooses the launch with the least weighted time.  Among launches that are as good within half a
 * percent it chooses the default, else the nearest to the default.  totals: by launch; NAN: it
 * cannot run all ranges.  -1: none can. */
int launch_choose(const double *totals, const uint32_t *distance, size_t count, int default_launch);

#endif
