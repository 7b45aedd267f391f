/* Medians, quantiles and confidence intervals of samples. */
#ifndef STATS_H
#define STATS_H

#include <stddef.h>
#include <stdint.h>

/* Summary of a set of samples, times in ns; a plain value. */
struct spread {
    size_t count;
    int64_t min_ns, median_ns, p95_ns;
    int64_t low_ns, high_ns; /* distribution-free confidence interval of the median, 95 % or more */
};

/* A saving, 1 - time / other time, with a confidence interval (95 % unless the place says
 * otherwise). NAN: not known. */
struct gain {
    double value, low, high;
};
#define GAIN_UNKNOWN                                                                               \
    {                                                                                              \
        NAN, NAN, NAN                                                                              \
    }

/* Sort in ascending order. */
void sort_doubles(double *values, size_t count);
void sort_numbers(uint32_t *values, size_t count);

/* Sorts `values` in place and returns their median; NAN where count is 0. */
double median_of(double *values, size_t count);

/* Sorts `samples` in place and summarises them. */
struct spread spread_of(int64_t *samples, size_t count);

/* Finds the two order statistics (0-based) that enclose the median with probability at least
 * `confidence`. With too few samples for that they are the first and the last. */
void median_interval(size_t count, double confidence, size_t *low, size_t *high);

#endif
