/* Allocates a rank's part of the layer: parameters and gradients. */
#include "layer.h"

#include "arena.h"
#include "shape.h"
#include "status.h"

#include <stdlib.h>

uint64_t layer_slice(const struct moe_shape *shape, enum tensor tensor)
{
    uint64_t experts = shape_local_experts(shape);
    uint64_t hidden = size_product(experts, shape->hidden_dim / shape_slices(shape));

    switch (tensor) {
    case TENSOR_B1: return hidden;
    case TENSOR_B2: return size_product(experts, shape_bias2_slice(shape));
    case TENSOR_W3:
        if (shape->activation != MOE_SWIGLU)
            return 0;
        break;
    default: break;
    }
    return size_product(hidden, shape->model_dim);
}

uint64_t layer_bias2_stride(const struct moe_shape *shape)
{
    return (uint64_t)shape_bias2_slice(shape) * shape_slices(shape);
}

static void layout(struct layer *layer, struct arena *arena)
{
    const struct moe_shape *shape = &layer->shape;
    uint64_t gate = size_product(shape->experts, shape->model_dim);

    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        uint64_t elements = layer_slice(shape, i);

        if (!elements)
            continue;
        layer->slice[i] = arena_take(arena, elements, dtype_bytes(shape->dtype));
        if (shape->pass == MOE_TRAIN)
            layer->grad[i] = arena_take(arena, elements, dtype_bytes(shape->dtype));
    }
    /* Room for any type: what a layer takes must not depend on its device. */
    layer->gate = arena_take(arena, gate, sizeof(float));
    if (shape->pass == MOE_TRAIN)
        layer->grad_gate = arena_take(arena, gate, sizeof(float));
}

uint32_t layer_gate_type(const struct layer *layer)
{
    return layer->device->modelled ? MOE_F32
                                   : device_compute_type(layer->device, layer->shape.dtype);
}

size_t layer_bytes(const struct moe_shape *shape)
{
    struct layer layer = { .shape = *shape };
    struct arena arena = { 0 };

    layout(&layer, &arena);
    return arena.used_bytes;
}

int layer_open(struct device *device, const struct moe_shape *shape, int rank, uint32_t tokens,
               struct layer **out)
{
    struct layer *layer = calloc(1, sizeof(*layer));
    struct arena arena = { 0 };
    int rc;

    if (!layer)
        return fail(ERR_NOMEM, "a layer");
    layer->shape = *shape;
    layer->rank = rank;
    layer->tokens = tokens;
    layer->device = device;
    layer->memory_bytes = layer_bytes(shape);
    TRY_OUT(device_alloc(device, layer->memory_bytes, &layer->memory));
    arena.base = layer->memory;
    layout(layer, &arena);
    *out = layer;
    return OK;
out:
    layer_close(layer);
    return rc;
}

void layer_close(struct layer *layer)
{
    if (!layer)
        return;
    device_release(layer->device, layer->memory);
    free(layer);
}
