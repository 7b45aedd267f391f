/* The plans that a search chooses from. */
#ifndef ARMS_H
#define ARMS_H

#include "search.h"

/* Every legal plan of the layer in which only `axes` ("r,d,a") differ from the default plan, at
 * most SEARCH_ARMS_MAX.  ERR_ARGUMENT after a message. */
int arms_list(const struct moe_shape *shape, const char *axes, struct moe_plan *arms,
              size_t *count);

/* The index of a plan, or -1. */
int arms_find(const struct moe_plan *arms, size_t count, const struct moe_plan *plan);

#endif
