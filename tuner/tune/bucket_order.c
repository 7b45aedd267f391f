/* Lists the buckets to measure, a coarse grid over the whole range first. */
#include "bucket_order.h"

#include "status.h"

#include <math.h>
#include <stdlib.h>

static uint32_t next_anchor(const struct space *space, uint32_t bucket, double per_octave)
{
    double capacity = (double)space_capacity(space, bucket) * exp2(1 / per_octave);
    uint32_t next = per_octave > 0 ? (uint32_t)(capacity / space->window) : 0;

    if (next <= bucket)
        next = bucket + 1;
    return next < space->last ? next : space->last;
}

/* A sweep that is cut off has seen the whole range: that is why coarse ones come first. */
int bucket_order(struct space *space, double per_octave)
{
    size_t room = space->last - space->first + 1;
    size_t stride = per_octave > 0 ? (size_t)ceil(per_octave) : 16;

    space->anchors = malloc(room * sizeof(*space->anchors));
    if (!space->anchors)
        return fail(ERR_NOMEM, "%zu buckets", room);
    for (int fine = 0; fine < 2; fine++) {
        uint32_t b = space->first;

        for (size_t i = 0;; i++, b = next_anchor(space, b, per_octave)) {
            if ((i % stride != 0 && b != space->last) == fine)
                space->anchors[space->anchor_count++] = b;
            if (b == space->last)
                break;
        }
    }
    return OK;
}
