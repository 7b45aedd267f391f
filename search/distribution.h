/* Tails and quantiles of the normal distribution and of Student's t, for beliefs about times. */
#ifndef DISTRIBUTION_H
#define DISTRIBUTION_H

#include <stddef.h>

/* A normally distributed belief about a logarithm.  An infinite sd: nothing is known.  Where a
 * model failed, a strategy may return a NAN; search_level() and search_compare() turn it into {0,
 * INFINITY}. */
struct normal {
    double mean, sd;
};

/* The standard normal density and its lower tail. */
double normal_density(double z);
double normal_tail(double z);

/* The expected gain of learning before a choice between two plans (the "knowledge gradient").  Now
 * the second plan is slower by `gap`; learning will move the difference by a normal deviation
 * `moved`.  A `moved` below 0.000001 gains nothing. */
double gain_of_learning(double gap, double moved);

/* The square root of a variance.  Rounding may have made the variance less than `least`: then the
 * root of `least`.  A NAN becomes INFINITY; fmax() would turn it into certainty. */
double safe_deviation(double variance, double least);

/* STATED: 95 %, for intervals that moetune prints.  STRICT: 99.9 %, for the test that ends the
 * rounds, because a test after every cycle errs more often than a single one. */
enum certainty { STATED, STRICT, LEVELS };

/* The two-sided quantile of Student's t, and the chance that such a value lies above t. */
double student_quantile(double freedom, enum certainty certainty);
double student_tail(double t, double freedom);

/* The least share u with  sum_i P(rival i is faster by more than u) <= chance.  Rival i's log time
 * minus the chosen plan's is normal with mean[i] and sd[i].  The sum bounds the chance that any
 * rival is faster by more, without assuming independence.  NAN: nothing is known of some rival. */
double bound_of(const double *mean, const double *sd, size_t count, double chance);

#endif
