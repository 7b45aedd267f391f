/* What an entry claims of a plan that is not the default, and whether the claim is sound enough to
 * answer trainers. */
#ifndef CLAIM_H
#define CLAIM_H

#include "stats.h"

#include <stdbool.h>

/* The numbers of one entry: a plain value. Times are in microseconds; a number that is not known is
 * NAN. */
struct claim {
    double time_us, low_us, high_us, default_us;
    struct gain gain; /* saving over the default plan */
    double bound;
    bool faster;   /* the decision found the plan faster than the default */
    double pooled; /* gain of the whole table, if the plan was chosen for all buckets together; else
                    * NAN */
};

/* Why a plan does not answer: the number that is wrong, and what is wrong with it. */
struct claim_fault {
    const char *field, *why; /* for example "gain", "is ..." */
};

/* Returns NULL where nothing speaks against the plan, else the reason, which is never freed.
 *
 * A claim is unsound if a number is impossible, or if its gain (else its times) says that the plan
 * is not faster than the default. A gain that is not known follows from the times. Where the
 * default has no time, it cannot run, and the plan answers. Where the plan was chosen for its whole
 * table, the gain of that table counts instead of the bucket's. */
const struct claim_fault *claim_fault(const struct claim *claim);

#endif
