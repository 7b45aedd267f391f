/* How much a chosen arm may be worse than the best of its rivals. */
#ifndef BOUND_H
#define BOUND_H

#include <stddef.h>

/* The standard normal density and its lower tail. */
double normal_density(double z);
double normal_tail(double z);

/* The root of a variance that rounding may have made less than `least`; infinite where it is no
 * number: fmax() would make certainty of that. */
double deviation_of(double variance, double least);

/* The least share u with  sum_i P(rival i is better by more than u) <= chance,  where rival i's
 * log time minus the chosen one's is normal with mean[i] and sd[i].  The sum bounds the chance that
 * any rival is: no independence is assumed.  NAN: there is none, for of a rival nothing is known.
 */
double bound_of(const double *mean, const double *sd, size_t count, double chance);

#endif
