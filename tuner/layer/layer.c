/* Allocates a rank's part of the layers of a step: parameters and gradients. */
#include "layer.h"

#include "arena.h"
#include "shape.h"
#include "status.h"

#include <stdlib.h>

uint64_t layer_units(const struct moe_shape *shape, uint32_t hidden, enum tensor tensor)
{
    uint64_t experts = shape_local_experts(shape), units = size_product(experts, hidden);

    switch (tensor) {
    case TENSOR_B1: return units;
    case TENSOR_B2: return size_product(experts, shape_bias2_slice(shape));
    case TENSOR_W3:
        if (shape->activation != MOE_SWIGLU)
            return 0;
        break;
    default: break;
    }
    return size_product(units, shape->model_dim);
}

uint64_t layer_slice(const struct moe_shape *shape, enum tensor tensor)
{
    uint32_t slices = shape_slices(shape);
    uint32_t hidden_most = shape->hidden_dim / slices + (shape->hidden_dim % slices != 0);

    return layer_units(shape, hidden_most, tensor);
}

uint64_t layer_cosine(const struct moe_shape *shape, enum cosine i)
{
    if (shape->router != MOE_ROUTER_COSINE)
        return 0;
    switch (i) {
    case COSINE_BIAS: return shape->projection;
    case COSINE_ROWS: return size_product(shape->experts, shape->projection);
    default: return 1;
    }
}

uint64_t layer_bias2_stride(const struct moe_shape *shape)
{
    return (uint64_t)shape_bias2_slice(shape) * shape_slices(shape);
}

uint32_t layer_count(const struct moe_shape *shape)
{
    return shape->layers ? shape->layers : 1;
}

static void layout(struct layer *layer, struct arena *arena)
{
    const struct moe_shape *shape = &layer->shape;
    uint64_t gate = size_product(shape_gate_rows(shape), shape->model_dim);

    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        uint64_t elements = layer_units(shape, layer->hidden, i);

        if (!elements)
            continue;
        layer->slice[i] = arena_alloc(arena, elements, dtype_bytes(shape->dtype));
        if (shape->pass == MOE_TRAIN)
            layer->grad[i] = arena_alloc(arena, elements, dtype_bytes(shape->dtype));
    }
    /* f32 on every device, because a layer's memory must not depend on its device. */
    layer->gate = arena_alloc(arena, gate, sizeof(float));
    if (shape->pass == MOE_TRAIN)
        layer->grad_gate = arena_alloc(arena, gate, sizeof(float));
    for (enum cosine i = 0; i < COSINE_COUNT && shape->router == MOE_ROUTER_COSINE; i++) {
        layer->cosine[i] = arena_alloc(arena, layer_cosine(shape, i), sizeof(float));
        if (shape->pass == MOE_TRAIN)
            layer->grad_cosine[i] = arena_alloc(arena, layer_cosine(shape, i), sizeof(float));
    }
    if (shape->router == MOE_ROUTER_SIGMOID)
        layer->bias = arena_alloc(arena, shape->experts, sizeof(float));
}

uint32_t layer_gate_type(const struct layer *layer)
{
    return layer->device->modelled ? MOE_F32
                                   : device_compute_type(layer->device, layer->shape.dtype);
}

size_t layer_bytes(const struct moe_shape *shape, uint32_t hidden)
{
    struct layer layer = { .shape = *shape, .hidden = hidden };
    struct arena arena = { 0 };

    layout(&layer, &arena);
    return size_product(arena.used_bytes, layer_count(shape));
}

int layer_open(struct device *device, const struct moe_shape *shape, int rank,
               const struct parts *parts, struct layer **out)
{
    struct layer *layers = calloc(layer_count(shape), sizeof(*layers));
    struct arena arena = { 0 };
    int rc;

    if (!layers)
        return fail(ERR_NOMEM, "a layer");
    for (uint32_t i = 0; i < layer_count(shape); i++) {
        layers[i] = (struct layer){ .shape = *shape,
                                    .rank = rank,
                                    .tokens = parts->tokens[rank],
                                    .hidden = parts->hidden[rank],
                                    .parts = parts,
                                    .device = device };
        layout(&layers[i], &arena);
    }
    layers->memory_bytes = arena.used_bytes;
    TRY_OUT(device_alloc(device, layers->memory_bytes, &layers->memory));
    arena = (struct arena){ .base = layers->memory };
    for (uint32_t i = 0; i < layer_count(shape); i++)
        layout(&layers[i], &arena);
    *out = layers;
    return OK;
out:
    layer_close(layers);
    return rc;
}

void layer_close(struct layer *layers)
{
    if (!layers)
        return;
    device_release(layers->device, layers->memory);
    free(layers);
}
