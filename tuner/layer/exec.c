/* One step of a layer, kernel by kernel and exchange by exchange; tuner/layer/README.md explains
 * the order. */
#include "exec.h"

#include "status.h"

#include <stdlib.h>

static struct trip new_trip(const struct exec *x, uint32_t compute_type)
{
    const struct moe_shape *shape = &x->layer->shape;

    return (struct trip){ .geometry = &x->geometry,
                          .experts = shape->experts,
                          .width = shape->model_dim,
                          .dtype = shape->dtype,
                          .compute_type = compute_type,
                          .algorithm = x->plan.a,
                          .ctas = x->plan.ctas };
}

static bool is_sparse(const struct exec *x)
{
    return x->plan.e == MOE_SPARSE;
}

static void layout_padded(struct exec *x, const struct topology *topology, const struct wire *wire,
                          uint32_t compute_type, struct arena *arena)
{
    bool train = x->layer->shape.pass == MOE_TRAIN;

    x->forward = new_trip(x, compute_type);
    trip_layout(&x->forward, topology, wire, train, arena);
    if (train) {
        x->backward = new_trip(x, compute_type);
        trip_layout(&x->backward, topology, wire, false, arena);
    }
    x->experts = (struct experts){ .shape = &x->layer->shape,
                                   .geometry = &x->geometry,
                                   .weights = &x->weights,
                                   .seen = &x->forward.in,
                                   .dtype = compute_type };
    experts_layout(&x->experts, arena);
}

static void layout(struct exec *x, const struct topology *topology, uint32_t compute_type,
                   struct arena *arena)
{
    const struct wire *wire = x->engine ? x->engine->wire : NULL;

    router_layout(&x->router, x->layer, arena);
    weights_layout(&x->weights, x->layer, &x->geometry, compute_type, wire, arena);
    if (!is_sparse(x)) {
        layout_padded(x, topology, wire, compute_type, arena);
        return;
    }
    x->sparse = (struct sparse_experts){ .layer = x->layer,
                                         .geometry = &x->geometry,
                                         .weights = &x->weights,
                                         .router = &x->router,
                                         .dtype = compute_type };
    sparse_experts_layout(&x->sparse, arena);
}

size_t exec_bytes(const struct moe_shape *shape, const struct moe_plan *plan,
                  const struct topology *topology, uint32_t tokens, uint64_t capacity,
                  uint32_t compute_type)
{
    struct layer layer = { .shape = *shape, .rank = topology->rank, .tokens = tokens };
    struct exec x = { .layer = &layer, .plan = *plan };
    struct arena arena = { 0 };

    /* Only whether there are gradients counts here, not where they lie. */
    for (enum tensor i = 0; i < TENSOR_COUNT; i++)
        layer.grad[i] = shape->pass == MOE_TRAIN ? (void *)&layer : NULL;
    x.geometry = geometry_of(shape, plan, topology->rank, capacity);
    layout(&x, topology, compute_type, &arena);
    return arena.used_bytes;
}

static int prepare(struct exec *x)
{
    const struct topology *topology = &x->engine->wire->topology;
    uint32_t compute_type = device_compute_type(x->engine->device, x->layer->shape.dtype);
    struct arena arena = { 0 };

    layout(x, topology, compute_type, &arena);
    x->memory_bytes = arena.used_bytes;
    TRY(device_alloc(x->engine->device, x->memory_bytes, &x->memory));
    arena = (struct arena){ .base = x->memory };
    layout(x, topology, compute_type, &arena);
    x->experts.stream = x->sparse.stream = x->engine->compute;
    TRY(weights_open(&x->weights, x->engine));
    if (is_sparse(x))
        return OK;
    TRY(trip_open(&x->forward, x->engine));
    return x->layer->shape.pass == MOE_TRAIN ? trip_open(&x->backward, x->engine) : OK;
}

int exec_open(struct engine *engine, struct layer *layer, const struct moe_plan *plan,
              uint64_t capacity, struct exec **out)
{
    struct exec *x = calloc(1, sizeof(*x));
    int rc;

    if (!x)
        return fail(ERR_NOMEM, "an executor");
    x->engine = engine;
    x->layer = layer;
    x->plan = plan_canonical(*plan);
    x->geometry = geometry_of(&layer->shape, plan, layer->rank, capacity);
    TRY_OUT(prepare(x));
    *out = x;
    return OK;
out:
    exec_close(x);
    return rc;
}

void exec_close(struct exec *x)
{
    if (!x)
        return;
    trip_close(&x->backward);
    trip_close(&x->forward);
    weights_close(&x->weights);
    engine_release(x->engine, x->memory);
    free(x);
}

static struct routing routing(const struct exec *x)
{
    return router_routing(&x->router, x->geometry.capacity, x->geometry.rows);
}

static int forward_sparse(struct exec *x, const void *tokens, void *y)
{
    TRY(sparse_experts_begin(&x->sparse));
    TRY(weights_ready(&x->weights, x->engine));
    return sparse_experts_forward(&x->sparse, tokens, y);
}

static int forward_padded(struct exec *x, const void *tokens, void *y)
{
    struct engine *engine = x->engine;
    uint32_t dtype = x->layer->shape.dtype;

    TRY(launch_encode(engine->compute, &(struct encode){ .routing = routing(x),
                                                         .dtype = dtype,
                                                         .from = tokens,
                                                         .to = x->forward.home }));
    TRY(trip_depart(&x->forward, engine));
    TRY(weights_ready(&x->weights, engine));
    TRY(trip_compute(&x->forward, engine, experts_forward, &x->experts));
    TRY(trip_return(&x->forward, engine));
    TRY(trip_unpack(&x->forward, engine));
    return launch_decode(engine->compute, &(struct decode){ .routing = routing(x),
                                                            .dtype = dtype,
                                                            .gate = x->router.gate,
                                                            .from = x->forward.back,
                                                            .to = y });
}

int exec_forward(struct exec *x, const void *tokens, void *y)
{
    TRY(weights_gather(&x->weights, x->engine));
    TRY(router_forward(&x->router, x->engine, tokens, x->geometry.capacity));
    return is_sparse(x) ? forward_sparse(x, tokens, y) : forward_padded(x, tokens, y);
}

static int backward_sparse(struct exec *x, const void *grad_y, void *grad_x)
{
    TRY(sparse_experts_backward_out(&x->sparse, grad_y));
    TRY(router_backward(&x->router, x->engine));
    TRY(sparse_experts_backward_in(&x->sparse, grad_x));
    return weights_reduce(&x->weights, x->engine);
}

static int backward_padded(struct exec *x, const void *grad_y, void *grad_x)
{
    struct engine *engine = x->engine;
    uint32_t dtype = x->layer->shape.dtype;

    TRY(launch_decode_backward(engine->compute,
                               &(struct decode_backward){ .routing = routing(x),
                                                          .dtype = dtype,
                                                          .gate = x->router.gate,
                                                          .grad = grad_y,
                                                          .result = x->forward.back,
                                                          .to = x->backward.home,
                                                          .grad_gate = x->router.grad_gate }));
    TRY(trip_depart(&x->backward, engine));
    /* The gate's own gradient needs nothing that is under way: it fills the wait for chunk 0. */
    TRY(router_backward(&x->router, engine));
    TRY(trip_compute(&x->backward, engine, experts_backward, &x->experts));
    TRY(trip_return(&x->backward, engine));
    /* Before the unpacking, which waits for the last return: the two transfers follow each other.
     */
    TRY(weights_reduce(&x->weights, engine));
    TRY(trip_unpack(&x->backward, engine));
    return launch_encode_backward(engine->compute,
                                  &(struct encode_backward){ .routing = routing(x),
                                                             .dtype = dtype,
                                                             .from = x->backward.back,
                                                             .add = x->router.grad_x,
                                                             .to = grad_x });
}

int exec_backward(struct exec *x, const void *grad_y, void *grad_x)
{
    TRY(is_sparse(x) ? backward_sparse(x, grad_y, grad_x) : backward_padded(x, grad_y, grad_x));
    return weights_finish(&x->weights, x->engine);
}
