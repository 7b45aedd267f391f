/* Adds up what was asked for one layer's buckets. */
#include "traffic_weights.h"

#include "shape.h"
#include "status.h"

#include <math.h>

int traffic_weights(const struct traffic *traffic, const struct moe_shape *shape, uint32_t window,
                    double *weights, size_t buckets)
{
    bool met = false;
    double all = 0;

    for (size_t b = 0; b < buckets; b++)
        weights[b] = 0;
    for (size_t i = 0; i < traffic->count; i++) {
        const struct traffic_layer *layer = &traffic->layers[i];
        struct moe_shape own = layer->shape;

        own.tokens = own.tokens ? own.tokens : shape->tokens;
        if (layer->window != window || !shape_equal(&own, shape))
            continue;
        met = true;
        for (size_t k = 0; k < layer->bucket_count; k++)
            if (layer->buckets[k].bucket < buckets) {
                weights[layer->buckets[k].bucket] += (double)traffic_asked(&layer->buckets[k]);
                all += (double)traffic_asked(&layer->buckets[k]);
            }
    }
    if (!met)
        return fail(ERR_ARGUMENT, "the traffic is of other spaces or layers than %s",
                    SHAPE_TEXT(shape));
    if (!(all > 0))
        return fail(ERR_ARGUMENT, "the traffic asked for no range of %s", SHAPE_TEXT(shape));
    return OK;
}

void traffic_even(struct ranges ranges, double *weights, size_t buckets)
{
    for (size_t b = 0; b < buckets; b++) {
        uint64_t from = ranges_from(ranges, (uint32_t)b), to = ranges_to(ranges, (uint32_t)b);

        weights[b] = from > 1 && to < UINT64_MAX ? log2((double)to / (double)(from - 1)) : 1;
    }
}
