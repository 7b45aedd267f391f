/* The normal distribution and Student's, and what they say of a chosen arm's rivals. */
#ifndef DISTRIBUTION_H
#define DISTRIBUTION_H

#include <stddef.h>

/* A normal belief about a logarithm; an infinite sd: nothing is known.  What a strategy answers may
 * be no number where a model has failed; search_level() and search_compare() make {0, infinite} of
 * it. */
struct normal {
    double mean, sd;
};

/* The standard normal density and its lower tail. */
double normal_density(double z);
double normal_tail(double z);

/* What is gained on average by a choice between two that are a gap apart, if what is learned before
 * it moves their difference by a normal deviation `moved`; below 0.000001: nothing. */
double gain_of_learning(double gap, double moved);

/* The root of a variance that rounding may have made less than `least`; infinite where it is no
 * number: fmax() would make certainty of that. */
double safe_deviation(double variance, double least);

/* With 95 % what is stated, with 99.9 % what ends the rounds: who is asked after every cycle is
 * wrong more often than who is asked once. */
enum certainty { STATED, STRICT, LEVELS };

/* Student's two-sided quantiles; the chance that a value of his lies above t. */
double student_quantile(double freedom, enum certainty certainty);
double student_tail(double t, double freedom);

/* The least share u with  sum_i P(rival i is better by more than u) <= chance,  where rival i's
 * log time minus the chosen one's is normal with mean[i] and sd[i].  The sum bounds the chance that
 * any rival is: no independence is assumed.  NAN: there is none, for of a rival nothing is known.
 */
double bound_of(const double *mean, const double *sd, size_t count, double chance);

#endif
