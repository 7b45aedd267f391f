/* Estimates how much longer a plan that never ran may take than one that did.
 *
 * No estimate is certain.  This one holds for the plans of a layer, and for most knobs of other
 * programs: from one value of an axis to the next a step takes at most three times as long.  If
 * both values are numbers, it takes at most their ratio: twice as many chunks, or half of them,
 * take at most twice as long.  The model of the search is not used, because it may be wrong. */
#ifndef REACH_H
#define REACH_H

#include "moelookup.h"

#include <stddef.h>
#include <stdint.h>

/* The owner frees it by reach_close(). */
struct reach {
    size_t axes;
    double
        *places; /* places[i * axes + a]: where arm i lies on axis a, as the logarithm of a time */
    uint32_t words; /* a bit for each axis whose values have no order */
};

/* Places all arms.  ERR_NOMEM. */
int reach_open(const struct moe_plan *arms, size_t count, struct reach *out);
void reach_close(struct reach *reach);

/* Returns how many times as long as under `from` a step under `to` takes at most. */
double reach_factor(const struct reach *reach, int from, int to);

#endif
