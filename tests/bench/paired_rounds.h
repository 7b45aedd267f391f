/* Rounds of timed steps, every plan once per round at every bucket, and what they say of a table of
 * plans.  Pure: knows nothing of ranks and databases.
 *
 * Plans are compared within a round: the round's level, the median over its plans, is taken out
 * first, so that a disturbance which hits all of them cancels.  Over rounds the middle half is
 * averaged: a step three times as long decides nothing. */
#ifndef PAIRED_ROUNDS_H
#define PAIRED_ROUNDS_H

#include <stddef.h>
#include <stdint.h>

/* Rounds at a bucket come a few in a row, since plans stay open only so long.  Whole visits belong
 * to one half or the other: what an open plan happened to get of memory is then not in both. */
enum { ROUNDS_IN_VISIT = 4, ROUNDS_BUCKETS = 16, ROUNDS_PLANS = 256 };

struct paired_rounds {
    size_t plans, buckets, count;
    double *level;     /* [round][bucket]: median over plans of log(ns) */
    double *deviation; /* [round][bucket][plan]: log(ns) less the level; INFINITY: it failed */
};

/* One visit more at every bucket, to be told.  ERR_NOMEM leaves it as it was. */
int paired_rounds_grow(struct paired_rounds *rounds);
void paired_rounds_free(struct paired_rounds *rounds);

/* ns of every plan; INFINITY: it failed. */
void paired_rounds_tell(struct paired_rounds *rounds, size_t round, size_t bucket,
                        const double *ns);

/* A value with its 95 % bootstrap interval. */
struct interval {
    double value, low, high;
};

/* What a table is worth.  Its rivals are chosen by one half of the rounds and timed by the other,
 * both ways, and the two averaged: the best of noisy values would flatter them. */
struct estimate {
    struct interval over_default; /* time of the table / time of the default, sums over buckets */
    struct interval over_static;  /* / one plan for all buckets */
    struct interval over_best;    /* / a plan per bucket */
    struct interval regret;       /* mean over buckets of what follows; may be below 0 */
    struct interval bucket_regret[ROUNDS_BUCKETS]; /* time / time of the best plan - 1 */
    struct interval bucket_gain[ROUNDS_BUCKETS];   /* 1 - time / time of the default */
    int static_plan[2];                            /* as each half chose */
};

/* table[bucket] and `default_plan` are plans.  Needs two visits at least.  The rivals are not
 * chosen anew in the bootstrap: rounds drawn twice would choose worse than rounds do. */
int paired_rounds_estimate(const struct paired_rounds *rounds, const int *table, int default_plan,
                           uint64_t seed, struct estimate *out);

#endif
