/* A bucket whose true times are known is tuned by noisy ones, as `tune` would: what it would
 * publish, and what the truth says of that. */
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
    size_t arm_count;
    int default_arm;
    double best_ns; /* the least of the usable arms */
    /* By arm. */
    double ns[SEARCH_ARMS_MAX];
    double seen_ns[SEARCH_ARMS_MAX]; /* what a search is told, with noise */
    bool usable[SEARCH_ARMS_MAX];
};

/* How much slower than the best arm that one is, as a share. */
double true_bucket_regret(const struct true_bucket *bucket, int arm);

/* What the truth says of an arm that is published; nothing of how it was found. */
struct bucket_outcome true_bucket_outcome(const struct true_bucket *bucket, int arm);

/* By search and decision together, every step counted.  `patience`: as decision_setup has it.
 * The search must be one that can say something of a bucket with a usable arm.  `decision`: how it
 * ended; NULL: nobody asks. */
struct bucket_outcome true_bucket_tune(const struct true_bucket *bucket, struct search *search,
                                       struct noise *noise, uint32_t patience,
                                       struct decision *decision);

#endif
