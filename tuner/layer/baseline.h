/* What other systems do where plans have something better: a layer can run it, so that it can be
 * measured beside a plan.  It gives the same results.  It is no part of a plan: no search tries it
 * and no table has it. */
#ifndef BASELINE_H
#define BASELINE_H

#include "capacities.h"
#include "moelookup.h"

/* Bits, which may go together.
 *
 * dense: tokens go to their rows and back by products with (T,E,C) matrices, as in GShard and
 * Fairseq.  rigid: rows stay (W,Eg,C,D) as they arrived, so the rows of each rank are a product of
 * their own.  naive: the all-to-all 2dh sends each block to its place inside the node by itself,
 * where else a copy puts those for the same rank next to each other. */
enum baseline { BASELINE_DENSE = 1, BASELINE_RIGID = 2, BASELINE_NAIVE = 4, BASELINE_COUNT = 3 };
extern const char *const baseline_words[]; /* of each bit; NULL ends them */

/* Why a layer under this plan has no such baseline; NULL: it has.  compute_type: of the device. */
const char *baseline_refuses(uint32_t baseline, const struct moe_shape *shape,
                             const struct moe_plan *plan, const struct capacities *capacities,
                             uint32_t compute_type);

#endif
