/* Order statistics over samples. */
#ifndef STATS_H
#define STATS_H

#include <stddef.h>
#include <stdint.h>

/* What a set of samples says; times in ns. */
struct spread {
    size_t count;
    int64_t min_ns, median_ns, p95_ns;
    int64_t low_ns, high_ns; /* >= 95 % distribution-free interval of the median */
};

/* 1 - time / time of another, with a 95 % interval unless something else is said; NAN: not known.
 */
struct gain {
    double value, low, high;
};
#define GAIN_UNKNOWN                                                                               \
    {                                                                                              \
        NAN, NAN, NAN                                                                              \
    }

/* In ascending order. */
void sort_doubles(double *values, size_t count);
void sort_numbers(uint32_t *values, size_t count);

/* Sorts `values` in place; NAN for none of them. */
double median_of(double *values, size_t count);

/* Sorts `samples` in place. */
struct spread spread_of(int64_t *samples, size_t count);

/* The ranks (0-based) of the order statistics that enclose the median with probability at least
 * `confidence`; the whole range when there are too few samples for that. */
void median_interval(size_t count, double confidence, size_t *low, size_t *high);

#endif
