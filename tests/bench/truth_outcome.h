/* One result of bench_truth: a line of its file. */
#ifndef TRUTH_OUTCOME_H
#define TRUTH_OUTCOME_H

#include "paired_rounds.h"
#include "stats.h"

#include <stdbool.h>

struct outcome {
    char name[64];
    double plans, buckets, launches, seconds, tuning_steps;
    struct interval over_default, over_static, over_best, regret, worst;
    double worst_bucket, bad_buckets; /* bad: certainly above worst_most */
    /* Gains that are claimed of other plans than the default: how many, in how many of them the
     * claim and what was measured agree, the sum of z^2, and the mean half-widths of both. */
    double claims, claims_covered, claims_squares, claimed_half, measured_half;
    /* Gains over the default, every factor of c alike: the table's, and that of the best plan of
     * each bucket, which a table that proves little falls short of; what `moetune plan --worth`
     * expected, and over the best static plan, before anything was tuned.  NAN: not asked. */
    double gain, gain_there;
    struct interval expected, expected_static;
};

/* How far a claim lies from what was measured, in deviations of their difference: half-widths of 95
 * % intervals are 1.96 of them.  Of the claim's interval the half counts that lies towards what was
 * measured; a claim without an interval says that it is exact. */
double claim_z(const struct gain *claim, const struct interval *measured);

/* It is in the claim's interval, as far as was measured. */
bool claim_covers(double z);

/* Appends a line, under a header if it is the first.  ERR_IO after a message. */
int outcome_write(const char *path, struct outcome *o);

bool outcome_read(char *line, struct outcome *o);

#endif
