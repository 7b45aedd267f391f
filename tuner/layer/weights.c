/* Gathers, converts and reduces the tensors of the experts: the same three steps for each of them.
 */
#include "weights.h"

#include "shape.h"
#include "status.h"

static uint64_t whole(const struct weight *w)
{
    return size_product(w->slice, (uint64_t)w->group.count);
}

static void weight_layout(struct weight *w, void *slice, void *grad_slice, uint32_t storage,
                          uint32_t compute, const struct wire *wire, struct arena *arena)
{
    bool shared = w->group.count > 1, same = storage == compute;
    bool reduced = wire && reduce_applies(wire, w->group, storage);

    w->whole = shared ? arena_take(arena, whole(w), dtype_bytes(storage)) : slice;
    w->compute = same ? w->whole : arena_take(arena, whole(w), dtype_bytes(compute));
    if (!grad_slice)
        return;
    w->grad = shared || !same ? arena_take(arena, whole(w), dtype_bytes(compute)) : grad_slice;
    if (!shared) {
        w->grad_out = grad_slice;
        return;
    }
    w->grad_out = same ? w->grad : arena_take(arena, whole(w), dtype_bytes(storage));
    w->parts = reduced ? NULL : arena_take(arena, whole(w), dtype_bytes(storage));
}

void weights_layout(struct weights *weights, const struct layer *layer, const struct geometry *g,
                    uint32_t compute_type, const struct wire *wire, struct arena *arena)
{
    weights->layer = layer;
    weights->compute_type = compute_type;
    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        struct weight *w = &weights->tensors[i];

        w->group = i == TENSOR_B2 ? g->bias2 : g->weights;
        w->slice = layer_slice(&layer->shape, i);
        if (w->slice)
            weight_layout(w, layer->slice[i],
                          layer->shape.pass == MOE_TRAIN ? layer->grad[i] : NULL,
                          layer->shape.dtype, compute_type, wire, arena);
    }
}

static int add_reduction(struct weights *weights, const struct wire *wire, enum tensor i,
                         size_t bytes)
{
    const struct weight *w = &weights->tensors[i];

    if (reduce_applies(wire, w->group, weights->layer->shape.dtype))
        return reduce_add(&weights->scatter, w->group, w->grad_out, weights->layer->grad[i], bytes);
    return scatter_add(&weights->scatter, wire, w->group, w->grad_out, w->parts, bytes);
}

int weights_open(struct weights *weights, struct engine *engine)
{
    uint32_t storage = weights->layer->shape.dtype;

    TRY(event_open(engine->device, &weights->gathered));
    TRY(event_open(engine->device, &weights->summed));
    TRY(event_open(engine->device, &weights->scattered));
    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        struct weight *w = &weights->tensors[i];
        size_t bytes = w->slice * dtype_bytes(storage);

        if (!w->slice || w->group.count == 1)
            continue;
        TRY(gather_add(&weights->gather, engine->wire, w->group, weights->layer->slice[i], w->whole,
                       bytes));
        if (w->grad)
            TRY(add_reduction(weights, engine->wire, i, bytes));
    }
    TRY(wire_reserve(engine->wire, &weights->gather));
    return wire_reserve(engine->wire, &weights->scatter);
}

void weights_close(struct weights *weights)
{
    batch_free(&weights->gather);
    batch_free(&weights->scatter);
    event_close(weights->gathered);
    event_close(weights->summed);
    event_close(weights->scattered);
    *weights = (struct weights){ 0 };
}

int weights_gather(struct weights *weights, struct engine *engine)
{
    if (batch_is_empty(&weights->gather))
        return OK;
    TRY(wire_exchange(engine->wire, engine->comm, &weights->gather));
    return event_record(weights->gathered, engine->comm);
}

/* `terms` runs of `elements`, one after the other, are summed; one term is a conversion. */
static int sum(struct stream *stream, uint64_t elements, uint64_t terms, uint32_t from_type,
               const void *from, uint32_t to_type, void *to)
{
    return launch_move(stream, &(struct move){ .from_type = from_type,
                                               .to_type = to_type,
                                               .block = elements,
                                               .dims = { 1, 1, 1 },
                                               .terms = terms,
                                               .term_stride = 1,
                                               .from = from,
                                               .to = to });
}

int weights_ready(struct weights *weights, struct engine *engine)
{
    if (!batch_is_empty(&weights->gather))
        TRY(event_wait(weights->gathered, engine->compute));
    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        const struct weight *w = &weights->tensors[i];

        if (w->slice && w->compute != w->whole)
            TRY(sum(engine->compute, whole(w), 1, weights->layer->shape.dtype, w->whole,
                    weights->compute_type, w->compute));
    }
    return OK;
}

int weights_reduce(struct weights *weights, struct engine *engine)
{
    uint32_t storage = weights->layer->shape.dtype;

    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        const struct weight *w = &weights->tensors[i];

        if (w->slice && w->grad_out != w->grad)
            TRY(sum(engine->compute, whole(w), 1, weights->compute_type, w->grad, storage,
                    w->grad_out));
    }
    if (batch_is_empty(&weights->scatter))
        return OK;
    TRY(event_record(weights->summed, engine->compute));
    TRY(event_wait(weights->summed, engine->comm));
    TRY(wire_exchange(engine->wire, engine->comm, &weights->scatter));
    return event_record(weights->scattered, engine->comm);
}

int weights_finish(struct weights *weights, struct engine *engine)
{
    uint32_t storage = weights->layer->shape.dtype;

    if (!batch_is_empty(&weights->scatter))
        TRY(event_wait(weights->scattered, engine->compute));
    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        const struct weight *w = &weights->tensors[i];

        if (w->slice && w->parts)
            TRY(sum(engine->compute, w->slice, (uint64_t)w->group.count, storage, w->parts, storage,
                    weights->layer->grad[i]));
    }
    return OK;
}
