/* Whether steps have become slower than what was recorded for them: a one-sided CUSUM on log time.
 * Pure.
 *
 * Added up is how far each step's log time lies above the upper end of the recorded interval and an
 * allowance (3 %), never below 0; the sum at which it says so follows from the noise of the steps
 * themselves (their median absolute deviation) such that steps that take what was recorded give an
 * alarm in at most one of 100,000 uses (Siegmund's approximation).  The first 32 uses narrow the
 * interval where few samples had left it wide.  Single steps count at most two
 * standard deviations: outliers say little, however long. */
#ifndef DRIFT_H
#define DRIFT_H

#include <stdbool.h>
#include <stdint.h>

enum { DRIFT_WINDOW = 64 };

struct drift {
    double reference; /* log(ns) */
    double least;     /* what it never falls below */
    double sum, scale, limit;
    float recent[DRIFT_WINDOW]; /* log(ns) above the reference */
    uint64_t uses, above;       /* since the sum was 0 */
    bool firm;
};

/* What was recorded, and the upper end of its interval; if `firm`, of what was foreseen: the first
 * uses do not narrow that.  Steps that take what was recorded are not slower, however fast the
 * first ones were. */
void drift_open(struct drift *drift, double recorded_ns, double high_ns, bool firm);

/* True: slower, and has been for a while.  Then it begins anew. */
bool drift_tell(struct drift *drift, double ns);

/* The median of the uses that were added up; what they are compared with. */
double drift_level_ns(const struct drift *drift);
double drift_reference_ns(const struct drift *drift);

#endif
