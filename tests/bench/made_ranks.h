/* Ranks that answer from made-up times instead of running anything.  A program that is linked with
 * --wrap for the functions of crew.h has them instead of real ranks.  They test what `tune` as a
 * whole makes of times whose truth is known. */
#ifndef MADE_RANKS_H
#define MADE_RANKS_H

#include "shape.h"

/* What all crews answer by, from the next order on. */
struct made_ranks {
    /* A step's time of that layer without noise; NAN: the plan fails. */
    double (*true_ns)(const void *self, const struct moe_shape *shape, const struct moe_plan *plan,
                      uint64_t capacity);
    const void *self;
    double noise, outliers; /* of each step: deviation of the logarithm; share that takes 3 times as
                             * long */
    double luck;            /* of each plan of a layer at a capacity in a launch: likewise */
    uint64_t seed;
    int64_t launch_ns; /* what it takes to start the ranks again, as crews tell it */
};
extern struct made_ranks made_ranks;

/* That luck's logarithm. */
double made_luck(const struct moe_shape *shape, const struct moe_plan *plan, uint64_t capacity,
                 uint32_t launch);

#endif
