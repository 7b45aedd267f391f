/* Detects that steps have become slower than recorded: a one-sided CUSUM on log time.
 *
 * It adds up how far each step's log time lies above the upper end of the recorded interval and a
 * further 3 %.  The sum never falls below 0, and an alarm follows when it exceeds a limit.  The
 * limit follows from the noise of the steps (their median absolute deviation): steps that take the
 * recorded time raise at most one alarm in 100,000 uses (Siegmund's approximation).  The first 32
 * uses narrow the interval if few samples had left it wide.  A single step counts at most two
 * standard deviations, so outliers matter little. */
#ifndef DRIFT_H
#define DRIFT_H

#include <stdbool.h>
#include <stdint.h>

enum { DRIFT_WINDOW = 64 };

/* The detector of one entry; a plain value that drift_open() fills. */
struct drift {
    double reference;           /* log(ns), with which steps are compared */
    double least;               /* log(ns); the reference never falls below it */
    double sum, limit;          /* of log ratios; the alarm follows at the limit */
    double scale;               /* standard deviation of log(ns) */
    float recent[DRIFT_WINDOW]; /* log(ns) above the reference */
    uint64_t uses, above;       /* steps in all; steps since the sum was 0 */
    bool firm;                  /* as drift_open() has it */
};

/* Begins with the recorded time and the upper end of its interval.  `firm`: the first uses do not
 * narrow the interval.  The reference never falls below the recorded time, however fast the first
 * steps are. */
void drift_open(struct drift *drift, double recorded_ns, double high_ns, bool firm);

/* Adds the time of a step.  True: steps have been slower for a while; the sum then begins at 0. */
bool drift_tell(struct drift *drift, double ns);

/* The median of the steps that the sum is made of, and the time that they are compared with. */
double drift_level_ns(const struct drift *drift);
double drift_reference_ns(const struct drift *drift);

#endif
