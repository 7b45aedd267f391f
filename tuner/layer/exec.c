/* One step of a layer, kernel by kernel and exchange by exchange; tuner/layer/README.md explains
 * the order. */
#include "exec.h"

#include "status.h"

#include <stdlib.h>

static bool is_relayed(const struct exec *x)
{
    return x->plan.a == MOE_A2A_RAIL;
}

/* Of its trips. */
static uint32_t algorithm(const struct exec *x)
{
    return is_relayed(x) ? MOE_A2A_LINEAR : x->plan.a;
}

static struct trip new_trip(const struct exec *x, uint32_t compute_type)
{
    const struct moe_shape *shape = &x->layer->shape;

    return (struct trip){ .geometry = &x->geometry,
                          .uneven = &x->uneven,
                          .experts = shape->experts / x->geometry.sources,
                          .width = shape->model_dim,
                          .dtype = shape->dtype,
                          .compute_type = compute_type,
                          .algorithm = algorithm(x),
                          .rigid = x->baseline & BASELINE_RIGID,
                          .naive = x->baseline & BASELINE_NAIVE,
                          .ctas = x->plan.ctas };
}

static bool is_sparse(const struct exec *x)
{
    return x->plan.e == MOE_SPARSE;
}

static bool is_tour(const struct exec *x)
{
    return is_sparse(x) && x->plan.r > 0;
}

static struct stream *compute_of(const struct exec *x)
{
    return x->engine ? x->engine->compute : NULL;
}

static void layout_relay(struct exec *x, struct arena *arena)
{
    x->relay = (struct relay){ .layer = x->layer,
                               .geometry = &x->geometry,
                               .uneven = &x->uneven,
                               .router = &x->router,
                               .stream = compute_of(x),
                               .ctas = x->plan.ctas };
    relay_layout(&x->relay, arena);
}

static bool is_dense(const struct exec *x)
{
    return x->baseline & BASELINE_DENSE;
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
    if (is_relayed(x))
        layout_relay(x, arena);
    if (is_dense(x)) {
        x->dense = (struct dense){ .router = &x->router, .dtype = x->layer->shape.dtype };
        dense_layout(&x->dense, x->geometry.rows, arena);
    }
    x->experts = (struct experts){ .shape = &x->layer->shape,
                                   .geometry = &x->geometry,
                                   .uneven = &x->uneven,
                                   .weights = &x->weights,
                                   .seen = &x->forward.in,
                                   .rigid = x->forward.rigid,
                                   .dtype = compute_type };
    experts_layout(&x->experts, arena);
}

static void layout_sparse(struct exec *x, uint32_t compute_type, struct arena *arena)
{
    x->sparse = (struct sparse_experts){ .layer = x->layer,
                                         .geometry = &x->geometry,
                                         .uneven = &x->uneven,
                                         .weights = &x->weights,
                                         .router = &x->router,
                                         .stream = compute_of(x),
                                         .dtype = compute_type };
    sparse_experts_layout(&x->sparse, arena);
}

static bool is_cached(const struct exec *x)
{
    return x->plan.w == MOE_CACHE;
}

static void layout_tour(struct exec *x, uint32_t compute_type, struct arena *arena)
{
    x->tour = (struct tour){ .layer = x->layer,
                             .geometry = &x->geometry,
                             .uneven = &x->uneven,
                             .weights = &x->weights,
                             .router = &x->router,
                             .stream = compute_of(x),
                             .dtype = compute_type };
    tour_layout(&x->tour, arena);
}

/* first: of those after it, the first layer, whose numbers they share and whose weights' rooms. */
static void layout(struct exec *x, const struct exec *first, const struct topology *topology,
                   uint32_t compute_type, struct arena *arena)
{
    const struct wire *wire = x->engine ? x->engine->wire : NULL;

    if (first)
        x->uneven = first->uneven;
    else
        uneven_layout(&x->uneven, &x->layer->shape, &x->geometry, algorithm(x), topology, arena);
    router_layout(&x->router, x->layer, arena);
    x->router.capacities = x->uneven.capacities;
    x->weights.first = first ? &first->weights : NULL;
    x->weights.rooms = is_cached(x) ? CACHE_ROOMS : 0;
    x->weights.proto = x->plan.proto;
    weights_layout(&x->weights, x->layer, &x->geometry, compute_type, wire, arena);
    if (!is_sparse(x))
        layout_padded(x, topology, wire, compute_type, arena);
    else if (is_tour(x))
        layout_tour(x, compute_type, arena);
    else
        layout_sparse(x, compute_type, arena);
}

/* Why not; NULL: it can. */
static const char *refuses_known(const struct moe_shape *shape, const struct moe_plan *plan)
{
    if (shape->order == MOE_ORDER_PRIORITY)
        return "slots by priority wait for the gate";
    if (plan->a == MOE_A2A_RAIL && plan->r)
        return "rows that go to a node once travel with their gates";
    if (plan->e == MOE_SPARSE && plan->r)
        return "choices that go to all ranks travel with their gates";
    return NULL;
}

bool exec_can_know(const struct moe_shape *shape, const struct moe_plan *plan)
{
    return !refuses_known(shape, plan);
}

int exec_check_known(const struct moe_shape *shape, const struct moe_plan *plan)
{
    const char *why = refuses_known(shape, plan);

    return why ? fail(ERR_ARGUMENT, "known routes do not go with %s%s: %s",
                      shape->order == MOE_ORDER_PRIORITY ? "order=priority, " : "", PLAN_TEXT(plan),
                      why)
               : OK;
}

size_t exec_bytes(const struct moe_shape *shape, const struct parts *parts,
                  const struct moe_plan *plan, const struct topology *topology,
                  const struct capacities *capacities, uint32_t compute_type, uint32_t baseline)
{
    struct layer layer = { .shape = *shape,
                           .rank = topology->rank,
                           .parts = parts,
                           .tokens = parts->tokens[topology->rank],
                           .hidden = parts->hidden[topology->rank] };
    struct exec x = { .layer = &layer, .plan = plan_canonical(*plan, shape), .baseline = baseline },
                other;
    struct arena arena = { 0 }, more = { 0 };
    uint64_t rest;

    x.geometry = geometry_of(shape, plan, topology->rank, capacities->most);
    if (uneven_open(shape, capacities, &x.geometry, &x.uneven))
        return SIZE_MAX;
    other = x;
    layout(&x, NULL, topology, compute_type, &arena);
    layout(&other, &x, topology, compute_type, &more);
    uneven_close(&x.uneven);
    rest = size_product(more.used_bytes, layer_count(shape) - 1);
    return __builtin_add_overflow(arena.used_bytes, rest, &rest) ? SIZE_MAX : rest;
}

static uint32_t count(const struct exec *x)
{
    return layer_count(&x->layer->shape);
}

static void layout_all(struct exec *x, struct arena *arena)
{
    uint32_t compute_type = device_compute_type(x->engine->device, x->layer->shape.dtype);

    for (uint32_t i = 0; i < count(x); i++)
        layout(&x[i], i ? x : NULL, &x->engine->wire->topology, compute_type, arena);
}

static int prepare(struct exec *x)
{
    x->experts.stream = x->engine->compute;
    TRY(weights_open(&x->weights, x->engine));
    if (is_tour(x))
        return tour_open(&x->tour, x->engine);
    if (is_sparse(x))
        return OK;
    if (is_relayed(x))
        TRY(relay_open(&x->relay, x->engine));
    TRY(trip_open(&x->forward, x->engine));
    return x->layer->shape.pass == MOE_TRAIN ? trip_open(&x->backward, x->engine) : OK;
}

static int open_cache(struct exec *x)
{
    struct weights **layers = calloc(count(x), sizeof(struct weights *));
    int rc = layers ? OK : fail(ERR_NOMEM, "weights of %u layers", count(x));

    for (uint32_t i = 0; i < count(x) && !rc; i++) {
        layers[i] = &x[i].weights;
        x[i].sparse.cache = &x->cache;
        x[i].sparse.number = i;
    }
    if (!rc)
        rc = cache_open(&x->cache, x->engine->device, layers, count(x));
    free(layers);
    return rc;
}

static int prepare_all(struct exec *x)
{
    struct arena arena = { 0 };

    layout_all(x, &arena);
    x->memory_bytes = arena.used_bytes;
    TRY(device_alloc(x->engine->device, x->memory_bytes, &x->memory));
    arena = (struct arena){ .base = x->memory };
    layout_all(x, &arena);
    TRY(uneven_fill(&x->uneven, &x->layer->shape, &x->geometry, algorithm(x),
                    &x->engine->wire->topology, x->engine->device));
    for (uint32_t i = 0; i < count(x); i++)
        TRY(prepare(&x[i]));
    return is_cached(x) ? open_cache(x) : OK;
}

static int check_baseline(const struct engine *engine, const struct layer *layer,
                          const struct moe_plan *plan, const struct capacities *capacities)
{
    const char *why =
        layer->routes != ROUTES_FRESH && layer->baseline
            ? "baselines route afresh at every step"
            : baseline_refuses(layer->baseline, &layer->shape, plan, capacities,
                               device_compute_type(engine->device, layer->shape.dtype));

    return why ? fail(ERR_ARGUMENT, "no such baseline under %s: %s", PLAN_TEXT(plan), why) : OK;
}

int exec_open(struct engine *engine, struct layer *layer, const struct moe_plan *plan,
              const struct capacities *capacities, struct exec **out)
{
    struct exec *x = calloc(layer_count(&layer->shape), sizeof(*x));
    int rc = layer->routes == ROUTES_FRESH ? OK : exec_check_known(&layer->shape, plan);

    if (!rc)
        rc = check_baseline(engine, layer, plan, capacities);
    if (!x || rc) {
        free(x);
        return rc ? rc : fail(ERR_NOMEM, "an executor");
    }
    for (uint32_t i = 0; i < layer_count(&layer->shape); i++)
        x[i] = (struct exec){ .engine = engine,
                              .layer = &layer[i],
                              .plan = plan_canonical(*plan, &layer->shape),
                              .baseline = layer->baseline,
                              .geometry =
                                  geometry_of(&layer->shape, plan, layer->rank, capacities->most) };
    TRY_OUT(uneven_open(&layer->shape, capacities, &x->geometry, &x->uneven));
    for (uint32_t i = 1; i < layer_count(&layer->shape); i++)
        x[i].geometry = x->geometry;
    TRY_OUT(prepare_all(x));
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
    cache_close(&x->cache);
    for (uint32_t i = 0; i < count(x); i++) {
        tour_close(&x[i].tour);
        relay_close(&x[i].relay);
        trip_close(&x[i].backward);
        trip_close(&x[i].forward);
        weights_close(&x[i].weights);
    }
    uneven_close(&x->uneven);
    engine_release(x->engine, x->memory);
    free(x);
}

static struct routing routing(const struct exec *x)
{
    const struct uneven *u = x->geometry.before ? &x->uneven : NULL;
    struct routing r =
        router_routing(&x->router, x->geometry.capacity, u ? u->rows : x->geometry.rows);

    if (u) {
        r.first = u->first;
        r.capacities = u->capacities;
    }
    return r;
}

static int encode(struct exec *x, const void *tokens)
{
    if (is_relayed(x))
        return relay_send(&x->relay, x->engine, tokens, x->forward.home);
    if (is_dense(x))
        return dense_encode(&x->dense, x->engine, tokens, x->forward.home);
    return launch_encode(x->engine->compute, &(struct encode){ .routing = routing(x),
                                                               .dtype = x->layer->shape.dtype,
                                                               .from = tokens,
                                                               .to = x->forward.home });
}

static struct routing choices(const struct exec *x)
{
    return router_choices(&x->router, routing(x));
}

static int decode(struct exec *x, void *y)
{
    if (is_relayed(x))
        return relay_return(&x->relay, x->engine, x->forward.back, y);
    if (is_dense(x))
        return dense_decode(&x->dense, x->engine, x->forward.back, y);
    if (x->layer->shape.combine == MOE_COMBINE_CHOICES) /* unweighted */
        return launch_encode_backward(x->engine->compute,
                                      &(struct encode_backward){ .routing = choices(x),
                                                                 .dtype = x->layer->shape.dtype,
                                                                 .from = x->forward.back,
                                                                 .to = y });
    return launch_decode(x->engine->compute, &(struct decode){ .routing = routing(x),
                                                               .dtype = x->layer->shape.dtype,
                                                               .gate = x->router.gate,
                                                               .from = x->forward.back,
                                                               .to = y });
}

static bool is_known(const struct exec *x)
{
    return x->router.routes != ROUTES_FRESH;
}

static int forward_padded(struct exec *x, const void *tokens, void *y)
{
    struct engine *engine = x->engine;

    TRY(encode(x, tokens));
    TRY(trip_depart(&x->forward, engine));
    if (is_known(x))
        TRY(router_gates(&x->router, engine, tokens)); /* while the first rows travel */
    TRY(weights_ready(&x->weights, engine, 0));
    TRY(trip_compute(&x->forward, engine, experts_forward, &x->experts));
    TRY(trip_return(&x->forward, engine));
    TRY(trip_unpack(&x->forward, engine));
    return decode(x, y);
}

int exec_fetch(struct exec *x)
{
    if (!is_cached(x))
        return weights_gather(&x->weights, x->engine);
    return x->cache.layers ? cache_begin(&x->cache, x->engine) : OK; /* it fetches the others */
}

int exec_forward(struct exec *x, const void *tokens, void *y)
{
    if (is_known(x))
        TRY(router_slots(&x->router, x->engine, x->geometry.capacity));
    else
        TRY(router_forward(&x->router, x->engine, tokens, x->geometry.capacity));
    if (is_known(x) && is_sparse(x))
        TRY(router_gates(&x->router, x->engine, tokens));
    if (is_tour(x))
        return tour_forward(&x->tour, x->engine, tokens, y);
    return is_sparse(x) ? sparse_experts_forward(&x->sparse, x->engine, tokens, y)
                        : forward_padded(x, tokens, y);
}

static int backward_sparse(struct exec *x, const void *grad_y, void *grad_x)
{
    if (is_cached(x)) {
        TRY(sparse_experts_backward_cached(&x->sparse, x->engine, &x->router, grad_y, grad_x));
        return weights_reduce(&x->weights, x->engine);
    }
    TRY(sparse_experts_backward_out(&x->sparse, grad_y));
    TRY(router_backward(&x->router, x->engine, false));
    TRY(sparse_experts_backward_in(&x->sparse, grad_x));
    return weights_reduce(&x->weights, x->engine);
}

static int decode_backward(struct exec *x, const void *grad_y)
{
    if (is_relayed(x))
        return relay_send_grads(&x->relay, x->engine, grad_y, x->forward.back, x->backward.home);
    if (is_dense(x))
        return dense_decode_backward(&x->dense, x->engine, grad_y, x->forward.back,
                                     x->backward.home);
    return launch_decode_backward(x->engine->compute,
                                  &(struct decode_backward){ .routing = choices(x),
                                                             .dtype = x->layer->shape.dtype,
                                                             .gate = x->router.gate,
                                                             .grad = grad_y,
                                                             .result = x->forward.back,
                                                             .to = x->backward.home,
                                                             .grad_gate = x->router.grad_gate });
}

static int encode_backward(struct exec *x, void *grad_x)
{
    if (is_dense(x))
        return dense_encode_backward(&x->dense, x->engine, x->backward.back, grad_x);
    return launch_encode_backward(x->engine->compute,
                                  &(struct encode_backward){ .routing = routing(x),
                                                             .dtype = x->layer->shape.dtype,
                                                             .from = x->backward.back,
                                                             .add = x->router.grad_x,
                                                             .to = grad_x });
}

static int encode_backward_relayed(struct exec *x, void *grad_x)
{
    TRY(relay_return_grads(&x->relay, x->engine, x->backward.back));
    TRY(router_backward(&x->router, x->engine, false));
    return relay_sum_grads(&x->relay, grad_x);
}

static int backward_padded(struct exec *x, const void *grad_y, void *grad_x)
{
    struct engine *engine = x->engine;

    TRY(decode_backward(x, grad_y));
    TRY(trip_depart(&x->backward, engine));
    /* The gate's own gradient needs nothing that is under way: it fills the wait for chunk 0. */
    if (!is_relayed(x))
        TRY(router_backward(&x->router, engine, false));
    TRY(trip_compute(&x->backward, engine, experts_backward, &x->experts));
    TRY(trip_return(&x->backward, engine));
    /* Before the unpacking, which waits for the last return: the two transfers follow each other.
     */
    TRY(weights_reduce(&x->weights, engine));
    TRY(trip_unpack(&x->backward, engine));
    return is_relayed(x) ? encode_backward_relayed(x, grad_x) : encode_backward(x, grad_x);
}

int exec_backward(struct exec *x, const void *grad_y, void *grad_x)
{
    if (is_tour(x))
        return tour_backward(&x->tour, x->engine, grad_y, grad_x);
    return is_sparse(x) ? backward_sparse(x, grad_y, grad_x) : backward_padded(x, grad_y, grad_x);
}

int exec_finish(struct exec *x)
{
    return weights_finish(&x->weights, x->engine);
}
