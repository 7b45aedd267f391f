/* Which launch of a program is best for its whole table.  A job has one set of restart values, a
 * table many buckets: the best launch is the one whose buckets, each under its best live plan, take
 * least time together, by how often each of them is asked for.
 *
 * It is a decision (decision.h) whose plans are launches.  A sample of one is what one process
 * shows: the sum over buckets of weight times time.  What the buckets' own searches believe of
 * single plans says which launch to start next; fresh pairs of processes say whether the chosen one
 * is faster than the default launch.  Pure: the same launches told again give the same state.
 *
 *     launch_decision_open(&setup, &c);  launch_decision_add(c, search, weight) for each range;
 *     while ((launch = launch_decision_next(c, &purpose)) != DECISION_DONE) {
 *         launch_decision_begin(c, launch, purpose);
 *         while a range has launch_decision_next_arm(c, range) >= 0
 *             launch_decision_tell(c, range, arm, ns);   or launch_decision_drop(c, range, arm)
 *         launch_decision_end(c);
 *     }
 */
#ifndef LAUNCH_DECISION_H
#define LAUNCH_DECISION_H

#include "decision.h"

struct launch_decision;

struct launch_decision_setup {
    size_t arm_count;          /* plans */
    const uint32_t *launch_of; /* by arm: the launch that it needs; borrowed */
    size_t launch_count;
    int default_arm;
    const uint32_t *distance; /* by arm, as in struct decision_setup; borrowed; NULL: all alike */
    double harm, margin;      /* as there */
    uint64_t seed;
};

int launch_decision_open(const struct launch_decision_setup *setup, struct launch_decision **out);
void launch_decision_close(struct launch_decision *decision); /* NULL is fine */

/* One more range, of this weight; `search`: borrowed, in a visit of its own.  Samples that the
 * range has are told by launch_decision_tell() alone.  Returns its number, or an error. */
int launch_decision_add(struct launch_decision *decision, struct search *search, double weight);
/* Changes the weight; 0: the range counts no more.  What was told counts anew. */
void launch_decision_set_weight(struct launch_decision *decision, int range, double weight);

/* What a start costs, as a share of all that a launch may save. */
void launch_decision_set_cost(struct launch_decision *decision, double share);

/* The launch to start next and what for; DECISION_DONE: it is decided. */
int launch_decision_next(struct launch_decision *decision, enum decision_purpose *purpose);

void launch_decision_begin(struct launch_decision *decision, int launch,
                           enum decision_purpose purpose);
/* The arm that the launch under way is to show next in a range; -1: no more.  `needed`: the launch
 * is of little use without it. */
int launch_decision_next_arm(struct launch_decision *decision, int range, bool *needed);
int launch_decision_tell(struct launch_decision *decision, int range, int arm, int64_t ns);
void launch_decision_drop(struct launch_decision *decision, int range,
                          int arm); /* it cannot run there */
int launch_decision_end(struct launch_decision *decision);

/* What is believed of a plan in a range: its log(ns). */
struct normal launch_decision_level(const struct launch_decision *decision, int range, int arm);

/* The best live plan of a launch in a range; -1: none can run. */
int launch_decision_live_arm(const struct launch_decision *decision, int launch, int range);

struct launch_result {
    int launch; /* that is to be told */
    enum decision_word word;
    /* What it saves, by pairs of processes: over the default launch; over the best single plan for
     * all buckets, which is fixed_arm (-1: not known). */
    struct gain over_default, over_fixed;
    int fixed_arm;
    struct doubt doubt;       /* where the default stands; `arm` is a launch */
    uint32_t pairs, launches; /* of processes; that were started */
};
/* What the chosen launch saves in one range over the default plan, by pairs of processes; unknown
 * before there are some. */
struct gain launch_decision_gain(const struct launch_decision *decision, int range);

/* At any time: what would be published now.  False: no launch can run all buckets. */
bool launch_decision_result(struct launch_decision *decision, struct launch_result *out);

/* ---- what launches are worth by what is believed of their plans, however they are measured */

/* What a range takes under a launch, and under the best plan of all launches that ran there. */
struct launch_part {
    double weight, log_ns, best_log_ns;
    double sd; /* of the two logarithms' difference */
};

/* The best plan of a launch in the range that a search visits, one that ran there if any did; -1:
 * none can run.  `launch_of`: by arm. */
int launch_live_arm(struct search *search, const uint32_t *launch_of, int launch);
struct launch_part launch_part_of(struct search *search, int arm, double weight);

/* What a job would save beside the launch of these parts that had a launch of its own for each. */
struct gain launch_price(const struct launch_part *parts, size_t count);

/* The launch of least weighted time: of those as good within half a percent the default's, else the
 * nearest to it.  totals: by launch; NAN: it cannot run all buckets.  -1: none can. */
int launch_choose(const double *totals, const uint32_t *distance, size_t count, int default_launch);

#endif
