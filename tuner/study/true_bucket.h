/* A bucket whose true times are known is tuned by noisy ones, as `tune` would: what it would
 * publish, and what the truth says of that. */
#ifndef TRUE_BUCKET_H
#define TRUE_BUCKET_H

#include "decision.h"
#include "noise.h"
#include "outcomes.h"
#include "search.h"

struct true_bucket {
    uint64_t capacity;
    const double *ns;      /* by arm; borrowed, as usable */
    const double *seen_ns; /* what it is told instead, with noise; NULL: ns */
    const bool *usable;
    int default_arm;
    double best_ns; /* the least of the usable arms */
    /* NULL, or where the candidate and its pairs go; arm -1: there was none. */
    struct trial_of *trial;
};

/* What the truth says of an arm that is published; nothing of how it was found. */
struct outcome true_bucket_outcome(const struct true_bucket *bucket, int arm);

/* By search and decision together, every step counted.  effort NULL: the decision's own patience.
 * The search must be one that can say something of a bucket with a usable arm. */
struct outcome true_bucket_tune(const struct true_bucket *bucket, struct search *search,
                                struct noise *noise, const struct effort *effort);

#endif
