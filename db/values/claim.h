/* What an entry says of a plan other than the default one of its layer, and whether it may answer.
 */
#ifndef CLAIM_H
#define CLAIM_H

#include "stats.h"

#include <stdbool.h>

/* Numbers that are not known are NAN. */
struct claim {
    double time_us, low_us, high_us, default_us;
    struct gain gain; /* over the default plan */
    double bound;
    bool faster;   /* the decision's word is that the plan is faster than the default */
    double pooled; /* of the best static plan: what its whole table gains; NAN: of another plan */
};

/* Why such a plan does not answer: what is wrong with which number. */
struct claim_fault {
    const char *field, *why; /* "gain" "is ..." */
};

/* NULL: nothing speaks against it.  Either a number is impossible, or by the gain, else by the
 * times, the plan is not faster than the default.  A gain that is not known follows from the times.
 * A plan answers where the default has no time, for then the default cannot run.  Where the plan
 * was chosen for its whole table, its gain over that table counts, and not the one in the bucket.
 */
const struct claim_fault *claim_fault(const struct claim *claim);

#endif
