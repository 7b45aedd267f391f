/* What pairs of samples say when a few of them are far off: means of log ratios, and how sure they
 * are.  Pure. */
#ifndef PAIRS_H
#define PAIRS_H

#include <stdint.h>

/* Of one bucket's log ratios of two contestants; halves: of even and odd ones. */
struct mean {
    uint32_t count, half_count[2];
    double mean, half[2], variance; /* variance: of one value */
};

/* At most PAIRS_MAX values, two at least, which it changes: those further than `limit` from their
 * centre count as if they lay there. */
enum { PAIRS_MAX = 64 };
struct mean mean_of_pairs(double *values, uint32_t count, double limit);

/* A weighted mean with the variance of it, and Satterthwaite's degrees of freedom. */
struct total {
    double mean, variance, spent; /* spent: sum of variance^2 / freedom of the parts */
};

/* That of a part: of its weighted mean, from `count` values. */
void total_add_variance(struct total *total, double variance, uint32_t count);

/* With 95 % what is stated, with 99.9 % what ends the rounds: who is asked after every cycle is
 * wrong more often than who is asked once. */
enum level { STATED, STRICT, LEVELS };

/* Student's two-sided quantiles. */
double student(double freedom, enum level level);

struct range {
    double mean, low, high;
};
struct range range_of(const struct total *total, enum level level);

#endif
