/* How much longer a plan that never ran may take than one that did.
 *
 * Nobody knows: it may take any time.  This holds for the plans of a layer, and for most knobs of
 * other programs.  From one value of an axis to the next a step takes at most three times as long,
 * and where both are numbers at most in proportion: twice as many chunks, or half of them, take at
 * most twice as long.  No model has a part in it, for a model may be wrong. */
#ifndef REACH_H
#define REACH_H

#include "moelookup.h"

#include <stddef.h>
#include <stdint.h>

struct reach {
    size_t axes;
    double *at;     /* arm i on axis a: at[i * axes + a], the logarithm of a time */
    uint32_t words; /* a bit for each axis whose values have no order: all are as far apart */
};

int reach_open(const struct moe_plan *arms, size_t count, struct reach *out);
void reach_close(struct reach *reach);

/* A step under `to` takes at most so many times as long as one under `from`. */
double reach_factor(const struct reach *reach, int from, int to);

#endif
