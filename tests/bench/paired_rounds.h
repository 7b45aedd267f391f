/* Judges a table of plans by rounds of timed steps over several launches of the ranks; a round
 * times every plan once in every bucket.  Pure: knows nothing of ranks and databases.
 *
 * Plans are compared within a round.  The median over the round's plans is removed first, so a
 * disturbance that hits all plans cancels.  The middle half of the rounds of a launch is averaged,
 * so a step that takes three times as long decides nothing.  A process gets its memory, cores and
 * ports once, and they favour other plans in each launch.  So a launch counts as one sample, and an
 * interval is Student's over launches, for their mean.  The number of launches must be fixed before
 * the first one; otherwise the interval is not valid. */
#ifndef PAIRED_ROUNDS_H
#define PAIRED_ROUNDS_H

#include <stddef.h>
#include <stdint.h>

/* Of a launch: what it costs to open a plan is worth about as many steps. */
enum { ROUNDS_IN_LAUNCH = 4, ROUNDS_BUCKETS = 16, ROUNDS_PLANS = 256, LAUNCHES_MOST = 64 };

struct paired_rounds {
    size_t plans, buckets, launches;
    double *level;     /* [launch][round][bucket]: median over plans of log(ns) */
    double *deviation; /* [launch][round][bucket][plan]: log(ns) less it; INFINITY: it failed */
};

/* So many launches, to be told.  ERR_NOMEM leaves nothing to free. */
int paired_rounds_open(size_t plans, size_t buckets, size_t launches, struct paired_rounds *out);
void paired_rounds_free(struct paired_rounds *rounds);

/* ns of every plan; INFINITY: it failed. */
void paired_rounds_tell(struct paired_rounds *rounds, size_t launch, size_t round, size_t bucket,
                        const double *ns);

/* A value with its 95 % interval. */
struct interval {
    double value, low, high;
};

/* What a table is worth.  The rivals that it meets in a launch are chosen by all other launches:
 * the best of noisy values would flatter them. */
struct estimate {
    struct interval over_default; /* time of the table / time of the default, sums over buckets */
    struct interval over_static;  /* / one plan for all buckets */
    struct interval over_best;    /* / a plan per bucket */
    struct interval regret;       /* mean over buckets of what follows; may be below 0 */
    struct interval bucket_regret[ROUNDS_BUCKETS]; /* time / time of the best plan - 1 */
    struct interval bucket_gain[ROUNDS_BUCKETS];   /* 1 - time / time of the default */
    int static_plan[LAUNCHES_MOST];                /* that the others chose for this launch */
};

/* table[bucket] and `default_plan` are plans.  Needs two launches at least. */
void paired_rounds_estimate(const struct paired_rounds *rounds, const int *table, int default_plan,
                            struct estimate *out);

#endif
