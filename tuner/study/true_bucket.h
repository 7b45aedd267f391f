/* A bucket whose true times are known is tuned by noisy ones, as `tune` would: what it would
 * publish, what the truth says of that, and means over many such buckets. */
#ifndef TRUE_BUCKET_H
#define TRUE_BUCKET_H

#include "decision.h"
#include "noise.h"
#include "search.h"
#include "stats.h"

/* What came of one bucket. */
struct bucket_outcome {
    int arm; /* that would be published */
    double regret, bound, lost;
    double harm;                /* slower than the default by this share */
    uint32_t samples, searched; /* steps; those that the search asked for */
    bool first, bounded;
    bool undecided;   /* as entry_is_undecided() has it */
    struct gain gain; /* claimed, over the default */
};

struct true_bucket {
    uint64_t capacity;
    const double *ns;      /* by arm; borrowed, as usable */
    const double *seen_ns; /* what it is told instead, with noise; NULL: ns */
    const bool *usable;
    int default_arm;
    double best_ns; /* the least of the usable arms */
    /* NULL, or where the candidate and its pairs go; arm -1: there was none. */
    struct trial_of *trial;
    uint32_t patience; /* as decision_setup has it, where no effort is given */
};

/* What the truth says of an arm that is published; nothing of how it was found. */
struct bucket_outcome true_bucket_outcome(const struct true_bucket *bucket, int arm);

/* By search and decision together, every step counted.  effort NULL: the bucket's patience.
 * The search must be one that can say something of a bucket with a usable arm. */
struct bucket_outcome true_bucket_tune(const struct true_bucket *bucket, struct search *search,
                                       struct noise *noise, const struct effort *effort);

struct value_column {
    double *values;
    size_t count, room;
};

void column_add(struct value_column *c, double value);
double column_mean(const struct value_column *c); /* NAN if nothing was added */
double column_at(const struct value_column *c, double quantile);

/* All zero: nothing yet. */
struct summary {
    struct value_column regret, harm, samples, searched, first_samples, lost,
        bound;                    /* shares in % */
    size_t harmed, hurt, covered; /* slower than the default by 1 %, by 5 %; within the bound */
    size_t best;                  /* no plan is faster */
    size_t undecided;
    double hidden; /* the largest regret of those, a share */
};

void summary_add(struct summary *s, const struct bucket_outcome *o);
void summary_free(struct summary *s);

#endif
