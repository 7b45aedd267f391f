/* Adds up the chances that single rivals are better (a union bound over normal differences). */
#include "bound.h"

#include <math.h>

double normal_density(double z)
{
    return 0.39894228040143268 * exp(-0.5 * z * z);
}

double normal_tail(double z)
{
    return 0.5 * erfc(-z * 0.70710678118654752);
}

double deviation_of(double variance, double least)
{
    return variance >= least ? sqrt(variance) : variance < least ? sqrt(least) : INFINITY;
}

static double chance_of_losing(const double *mean, const double *sd, size_t count, double log_loss)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        if (!isfinite(mean[i]) || isnan(sd[i]))
            sum += 1; /* of this rival nothing is known */
        else if (sd[i] > 0)
            sum += normal_tail((-log_loss - mean[i]) / sd[i]);
        else
            sum += mean[i] < -log_loss;
    return sum;
}

double bound_of(const double *mean, const double *sd, size_t count, double chance)
{
    double low = 0, high = 1e-3;

    if (chance_of_losing(mean, sd, count, 0) <= chance)
        return 0;
    while (chance_of_losing(mean, sd, count, high) > chance)
        if ((high *= 2) > 100)
            return NAN;
    for (int i = 0; i < 30; i++) {
        double middle = (low + high) / 2;

        if (chance_of_losing(mean, sd, count, middle) > chance)
            low = middle;
        else
            high = middle;
    }
    return expm1(high);
}
