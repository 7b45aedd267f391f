/* Constants that may not be negative, from more equations than there are constants. */
#ifndef LEAST_SQUARES_H
#define LEAST_SQUARES_H

#include <stdbool.h>
#include <stddef.h>

enum { UNKNOWNS_MAX = 4 };

/* One equation: sum of part[i] * x[i] should be 1.  Whoever divides each part by what was measured
 * so has relative deviations, each of which counts `weight` times. */
struct equation {
    double part[UNKNOWNS_MAX], weight;
};

/* The x >= 0 with (nearly) the least sum of absolute deviations: a few equations that are far
 * off do not matter.  False, and x is left alone, if they do not determine every unknown. */
bool least_deviations(const struct equation *equations, size_t count, int unknowns, double *x);

#endif
