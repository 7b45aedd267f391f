/* A loss that keeps experts equally busy, added to what a step is trained for: of each rank's own
 * tokens, weight * n * sum of f P over the n columns of a level of the gate (kernels.h, struct
 * balance).  Bilevel has two levels, and a weight for each. */
#ifndef BALANCE_H
#define BALANCE_H

#include "moelookup.h"

/* "A" or, for bilevel, "A,B".  ERR_ARGUMENT after a message that names the range. */
int balance_parse(const char *text, const struct moe_shape *shape, double weight[2]);

/* Columns of the first level; all others are of the second. */
uint32_t balance_first_columns(const struct moe_shape *shape);

/* The factor of the sum of f P: where all is equal, a level's loss is the weight that was asked
 * for. */
double balance_factor(const struct moe_shape *shape, const double weight[2], int level);

#endif
