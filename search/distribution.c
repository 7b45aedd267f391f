/* Tails and quantiles of the normal distribution and of Student's t, and a union bound over the
 * rivals of a chosen plan. */
#include "distribution.h"

#include <math.h>

double normal_density(double z)
{
    return 0.39894228040143268 * exp(-0.5 * z * z);
}

double normal_tail(double z)
{
    return 0.5 * erfc(-z * 0.70710678118654752);
}

double gain_of_learning(double gap, double moved)
{
    double z = gap / moved;

    return moved > 1e-6 ? moved * (normal_density(z) - z * normal_tail(-z)) : 0;
}

double safe_deviation(double variance, double least)
{
    return variance >= least ? sqrt(variance) : variance < least ? sqrt(least) : INFINITY;
}

/* Between two rows the quantile is nearly linear in 1 / freedom. */
double student_quantile(double freedom, enum certainty certainty)
{
    static const struct {
        double freedom, quantile[LEVELS];
    } rows[] = { { 1, { 12.706, 636.62 } }, { 2, { 4.303, 31.599 } }, { 3, { 3.182, 12.924 } },
                 { 4, { 2.776, 8.610 } },   { 5, { 2.571, 6.869 } },  { 7, { 2.365, 5.408 } },
                 { 10, { 2.228, 4.587 } },  { 20, { 2.086, 3.850 } }, { 1e9, { 1.960, 3.291 } } };
    size_t i = 1;
    double share;

    freedom = fmax(1, fmin(1e9, freedom));
    while (rows[i].freedom < freedom)
        i++;
    share =
        (1 / rows[i - 1].freedom - 1 / freedom) / (1 / rows[i - 1].freedom - 1 / rows[i].freedom);
    return rows[i - 1].quantile[certainty] +
           share * (rows[i].quantile[certainty] - rows[i - 1].quantile[certainty]);
}

/* With t = sqrt(freedom) tan(x) the density is cos(x)^(freedom - 1), which Simpson's rule
 * integrates to eight digits, whatever t and the freedom are. */
double student_tail(double t, double freedom)
{
    enum { PARTS = 128 };
    double sum = 0, width, tail;

    if (isnan(t) || !(freedom > 0))
        return 1;
    if (freedom > 1e6 || isinf(t))
        return 0.5 * erfc(t * 0.70710678118654752);
    freedom = fmax(1, freedom);
    width = atan(fabs(t) / sqrt(freedom)) / PARTS;
    for (int i = 0; i <= PARTS; i++)
        sum += (i == 0 || i == PARTS ? 1 : i % 2 ? 4 : 2) * pow(cos(i * width), freedom - 1);
    tail = 0.5 - exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(3.14159265358979324) *
                     sum * width / 3;
    tail = fmax(0, tail);
    return t > 0 ? tail : 1 - tail;
}

/* ---- the best of several rivals */

static double chance_of_losing(const double *mean, const double *sd, size_t count, double log_loss)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        if (!isfinite(mean[i]) || isnan(sd[i]))
            sum += 1; /* nothing is known of this rival */
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
    while (chance_of_losing(mean, sd, count, high) > chance) {
        high *= 2;
        if (high > 100)
            return NAN;
    }
    for (int i = 0; i < 30; i++) {
        double middle = (low + high) / 2;

        if (chance_of_losing(mean, sd, count, middle) > chance)
            low = middle;
        else
            high = middle;
    }
    return expm1(high);
}
