/* Computes medians, quantiles and distribution-free confidence intervals. */
#include "stats.h"

#include <math.h>
#include <stdlib.h>

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

void sort_doubles(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare_doubles);
}

void sort_numbers(uint32_t *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare_numbers);
}

double median_of(double *values, size_t count)
{
    if (!count)
        return NAN;
    sort_doubles(values, count);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* Returns the q-quantile (q from 0 to 1) of sorted values, linear between neighbours. count must be
 * above 0. */
static double quantile_sorted(const int64_t *sorted, size_t count, double q)
{
    double position = q * (double)(count - 1);
    size_t i = (size_t)position;

    if (i + 1 >= count)
        return (double)sorted[count - 1];
    return (double)sorted[i] + (position - (double)i) * (double)(sorted[i + 1] - sorted[i]);
}

void median_interval(size_t count, double confidence, size_t *low, size_t *high)
{
    /* The number of samples below the true median is binomial(count, 1/2). [x_k, x_(n-1-k)] misses
     * the median when at most k samples fall on one side. The chance of that is twice the lower
     * tail at k. */
    double tail = 0, term = exp2(-(double)count);
    size_t k = 0;

    for (size_t i = 0; i < count / 2; i++) {
        tail += term;
        if (2 * tail > 1 - confidence)
            break;
        k = i;
        term *= (double)(count - i) / (double)(i + 1);
    }
    *low = k;
    *high = count - 1 - k;
}

struct spread spread_of(int64_t *samples, size_t count)
{
    struct spread s = { .count = count };
    size_t low, high;

    if (!count)
        return s;
    qsort(samples, count, sizeof(*samples), compare_times);
    median_interval(count, 0.95, &low, &high);
    s.min_ns = samples[0];
    s.median_ns = (int64_t)quantile_sorted(samples, count, 0.5);
    s.p95_ns = (int64_t)quantile_sorted(samples, count, 0.95);
    s.low_ns = samples[low];
    s.high_ns = samples[high];
    return s;
}
