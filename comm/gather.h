/* All-gather and reduce-scatter of weights inside a group of consecutive ranks.  Several tensors
 * share one batch.
 *
 * Where the wire's library has such a collective, it does the work.  Elsewhere every rank of the
 * group of g exchanges with every other: as many bytes as a ring, in one step instead of g - 1. */
#ifndef GATHER_H
#define GATHER_H

#include "wire.h"

/* Adds an all-gather: `whole` becomes the slices of all ranks of the group, in rank order. */
int gather_add(struct batch *batch, const struct wire *wire, struct group group, const void *slice,
               void *whole, size_t slice_bytes);

/* Adds the exchange of a reduce-scatter: slice j of `whole` goes to rank j of the group, and
 * `parts` receives the caller's slice from every rank, in rank order.  The caller then adds the
 * parts up by a copy with `count` terms: in f32, and in an order that does not depend on timing. */
int scatter_add(struct batch *batch, const struct wire *wire, struct group group, const void *whole,
                void *parts, size_t slice_bytes);

/* True where the wire's library has a reduce-scatter, so that reduce_add() does everything and no
 * parts are needed.  For 16-bit types a library rounds every partial sum, up to count - 1 of them;
 * scatter_add() and a copy round once.  We use it nevertheless: trainers sum 16-bit gradients by
 * the library's reduce-scatter (FSDP in the parameters' type), and moetune must time what they
 * run. */
bool reduce_applies(const struct wire *wire, struct group group);

/* Adds the library's reduce-scatter: `slice` becomes the group's sum of this rank's slice. */
int reduce_add(struct batch *batch, struct group group, const void *whole, void *slice,
               size_t slice_bytes, uint32_t dtype);

#endif
