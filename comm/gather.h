/* All-gather and reduce-scatter inside a group of consecutive ranks.
 *
 * Direct algorithms: every rank of the group exchanges with every other, the volume of a ring in
 * one step instead of g - 1.  Several tensors share one batch. */
#ifndef GATHER_H
#define GATHER_H

#include "wire.h"

struct group {
    int first, count; /* ranks first .. first+count-1, the caller among them */
};

/* Everybody's slice, in rank order, becomes whole. */
static inline int gather_add(struct batch *batch, const struct wire *wire, struct group group,
                             const void *slice, void *whole, size_t slice_bytes)
{
    return batch_add(batch, wire, (struct peers){ group.first, 1, group.count }, slice, 0, whole,
                     slice_bytes);
}

/* Slice j of whole goes to rank j of the group; parts receives everybody's version of the caller's
 * slice, in rank order.  Summing the parts (a move with `count` terms) ends the reduce-scatter: in
 * f32, and in an order that does not depend on timing. */
static inline int scatter_add(struct batch *batch, const struct wire *wire, struct group group,
                              const void *whole, void *parts, size_t slice_bytes)
{
    return batch_add(batch, wire, (struct peers){ group.first, 1, group.count }, whole, slice_bytes,
                     parts, slice_bytes);
}

#endif
