/* Adds gathers and sums of weights to a batch: the library's own collective where there is one,
 * else a transfer with every rank of the group. */
#include "gather.h"

int gather_add(struct batch *batch, const struct wire *wire, struct group group, const void *slice,
               void *whole, size_t slice_bytes)
{
    struct collective own = { COLLECTIVE_GATHER, group, slice, whole, slice_bytes };

    if (group.count > 1 && wire_has(wire, own.kind, group))
        return batch_add_collective(batch, &own);
    return batch_add(batch, wire, (struct peers){ group.first, 1, group.count }, slice, 0, whole,
                     slice_bytes);
}

int scatter_add(struct batch *batch, const struct wire *wire, struct group group, const void *whole,
                void *parts, size_t slice_bytes)
{
    return batch_add(batch, wire, (struct peers){ group.first, 1, group.count }, whole, slice_bytes,
                     parts, slice_bytes);
}

bool reduce_applies(const struct wire *wire, struct group group)
{
    return group.count > 1 && wire_has(wire, COLLECTIVE_SUM, group);
}

int reduce_add(struct batch *batch, struct group group, const void *whole, void *slice,
               size_t slice_bytes, uint32_t dtype)
{
    return batch_add_collective(
        batch, &(struct collective){ COLLECTIVE_SUM, group, whole, slice, slice_bytes, dtype });
}
