/* Baselines: methods of other systems that plans replace by something better.  A layer can run them
 * to measure them beside a plan, and they give the same results.  A baseline is not part of a plan:
 * no search tries it and no table has it. */
#ifndef BASELINE_H
#define BASELINE_H

#include "capacities.h"
#include "moelookup.h"

/* Bits that may be combined.
 *
 * dense: products with (T,E,C) matrices move tokens to rows and back, as in GShard and Fairseq.
 * rigid: rows stay (W,Eg,C,D) as they arrived, so the rows of each rank need their own product.
 * naive: the all-to-all 2dh sends each block inside the node as a message, instead of first copying
 * blocks for the same rank next to each other. */
enum baseline { BASELINE_DENSE = 1, BASELINE_RIGID = 2, BASELINE_NAIVE = 4, BASELINE_COUNT = 3 };
extern const char *const baseline_words[]; /* one for each bit, then NULL */

/* The reason why a layer cannot run this baseline under this plan; NULL: it can.  compute_type is
 * that of the device. */
const char *baseline_refuses(uint32_t baseline, const struct moe_shape *shape,
                             const struct moe_plan *plan, const struct capacities *capacities,
                             uint32_t compute_type);

#endif
