/* All-gather and reduce-scatter inside a group of consecutive ranks.
 *
 * Where the wire's library has its own, that is what it gets.  Elsewhere every rank of the group
 * exchanges with every other, the volume of a ring in one step instead of g - 1.  Several tensors
 * share one batch. */
#ifndef GATHER_H
#define GATHER_H

#include "wire.h"

/* Everybody's slice, in rank order, becomes whole. */
int gather_add(struct batch *batch, const struct wire *wire, struct group group, const void *slice,
               void *whole, size_t slice_bytes);

/* Slice j of whole goes to rank j of the group; parts receives everybody's version of the caller's
 * slice, in rank order.  Summing the parts (a move with `count` terms) ends the reduce-scatter: in
 * f32, and in an order that does not depend on timing. */
int scatter_add(struct batch *batch, const struct wire *wire, struct group group, const void *whole,
                void *parts, size_t slice_bytes);

/* Whether the wire sums on the way, so that reduce_add() does all of it and no parts are needed.
 * Of 16-bit types a library rounds every partial sum, up to count - 1 of them, where scatter_add()
 * and a move round once.  We take it nevertheless: trainers sum 16-bit gradients by the library's
 * reduce-scatter (FSDP in the parameters' type), and a plan is to be timed as they will run it. */
bool reduce_applies(const struct wire *wire, struct group group);
int reduce_add(struct batch *batch, struct group group, const void *whole, void *slice,
               size_t slice_bytes, uint32_t dtype);

#endif
