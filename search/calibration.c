/* The deviations between claims and what was found, and what they make of later claims. */
#include "calibration.h"

#include <math.h>

/* Half of an interval of 95 % in deviations; a tenth of a percent is below what anybody claims. */
static const double half_interval = 1.96, least_apart = 0.001;
static const double prior_claims = 10, kappa_least = 1, kappa_most = 3;
/* One claim that is off by more than so many deviations says that something happened there. */
static const double furthest = 4;

/* Of the log ratio of times. */
static double deviation_of(const struct gain *gain)
{
    return (log1p(-gain->low) - log1p(-gain->high)) / (2 * half_interval);
}

void calibration_add(struct calibration *c, const struct gain *claim, double kappa,
                     const struct gain *found)
{
    double claimed = deviation_of(claim) / fmax(kappa, kappa_least), seen = deviation_of(found);
    double apart = log1p(-claim->value) - log1p(-found->value);
    double z = apart / hypot(hypot(claimed, seen), least_apart);

    if (!isfinite(z) || !(claimed >= 0) || !(seen >= 0))
        return;
    z = fmin(fabs(z), furthest);
    c->squares += z * z;
    c->count++;
}

double calibration_kappa(const struct calibration *c)
{
    double square = (prior_claims + c->squares) / (prior_claims + c->count);

    return fmax(kappa_least, fmin(kappa_most, sqrt(square)));
}
