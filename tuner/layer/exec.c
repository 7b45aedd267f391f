/* Prepares the layers of a step under one plan, and begins their passes; the plan's way (way.h)
 * does the rest.  tuner/layer/README.md explains the order. */
#include "way.h"

#include "baseline.h"
#include "status.h"

#include <stddef.h>
#include <stdlib.h>

static const struct way_ops *way_of(const struct moe_plan *plan, const struct moe_shape *shape,
                                    uint32_t baseline)
{
    if (plan_is_counted(plan, shape))
        return &way_counted;
    if (plan->e == MOE_SPARSE)
        return plan->r ? &way_tour : (plan->w == MOE_CACHE ? &way_cached : &way_sparse);
    if (plan->a == MOE_A2A_RAIL)
        return &way_relayed;
    return baseline & BASELINE_DENSE ? &way_dense : &way_padded;
}

static struct exec new_exec(const struct moe_plan *plan, const struct layer *layer,
                            uint32_t baseline, const struct topology *topology,
                            uint32_t compute_type)
{
    struct exec x = { .topology = topology,
                      .layer = layer,
                      .plan = plan_canonical(*plan, &layer->shape),
                      .baseline = baseline,
                      .compute_type = compute_type };

    x.way = way_of(&x.plan, &layer->shape, baseline);
    x.algorithm = x.plan.a == MOE_A2A_RAIL ? (uint32_t)MOE_A2A_LINEAR : x.plan.a;
    return x;
}

/* True where this layer owns its `uneven`: the first layer does, and every layer that counts rows
 * in each step.  The others borrow it from the first. */
static bool owns_uneven(const struct exec *x)
{
    return x == x->first || x->way->waits;
}

/* Places all buffers of a layer.  Later layers share the first one's buffers for weights. */
static void layout(struct exec *x, struct arena *arena)
{
    struct exec *first = x == x->first ? NULL : x->first;

    if (!owns_uneven(x))
        x->uneven = first->uneven;
    else
        uneven_layout(&x->uneven, &x->layer->shape, &x->geometry, x->algorithm, x->topology, arena);
    router_layout(&x->router, x->layer, arena);
    x->router.capacities = x->uneven.capacity ? x->uneven.capacities : NULL;
    x->weights.first = first ? &first->weights : NULL;
    x->weights.rooms = x->way->weight_rooms;
    x->weights.proto = x->plan.proto;
    weights_layout(&x->weights, x->layer, &x->geometry, x->compute_type,
                   x->engine ? x->engine->wire : NULL, arena);
    x->way->layout(x, arena);
}

/* ---- Memory */

size_t exec_bytes(const struct moe_shape *shape, const struct parts *parts,
                  const struct moe_plan *plan, const struct topology *topology,
                  const struct capacities *capacities, uint32_t compute_type, uint32_t baseline)
{
    struct layer layer = { .shape = *shape,
                           .rank = topology->rank,
                           .parts = parts,
                           .tokens = parts->tokens[topology->rank],
                           .hidden = parts->hidden[topology->rank] };
    struct exec x = new_exec(plan, &layer, baseline, topology, compute_type), later_layer;
    struct arena first_arena = { 0 }, later_arena = { 0 };
    uint64_t bytes = SIZE_MAX;
    /* On the stack, so that a rank with little memory computes the same as all others. */
    _Alignas(max_align_t) unsigned char state[WAY_STATE_MOST] = { 0 };

    x.first = &x;
    x.state = state;
    x.geometry = geometry_of(shape, &x.plan, topology->rank, capacities->most);
    if (!uneven_open(shape, capacities, x.way->waits, &x.geometry, &x.uneven)) {
        later_layer = x;
        layout(&x, &first_arena);
        layout(&later_layer, &later_arena);
        uneven_close(&x.uneven);
        bytes = size_product(later_arena.used_bytes, layer_count(shape) - 1);
        if (__builtin_add_overflow(first_arena.used_bytes, bytes, &bytes))
            bytes = SIZE_MAX;
    }
    return bytes;
}

/* ---- Plans that cannot use known routes */

/* The reason why this plan cannot use known routes; NULL: it can. */
static const char *why_no_known_routes(const struct moe_shape *shape, const struct moe_plan *plan)
{
    struct moe_plan canonical = plan_canonical(*plan, shape);

    if (shape->order == MOE_ORDER_PRIORITY)
        return "order=priority needs the gate before it gives slots";
    return way_of(&canonical, shape, 0)->why_no_known_routes;
}

bool exec_supports_known_routes(const struct moe_shape *shape, const struct moe_plan *plan)
{
    return !why_no_known_routes(shape, plan);
}

int exec_check_known_routes(const struct moe_shape *shape, const struct moe_plan *plan)
{
    const char *why = why_no_known_routes(shape, plan);

    return why ? fail(ERR_ARGUMENT, "known routes cannot be used with %s%s: %s",
                      shape->order == MOE_ORDER_PRIORITY ? "order=priority, " : "", PLAN_TEXT(plan),
                      why)
               : OK;
}

/* ---- Open and close */

int exec_open(struct engine *engine, const struct layer *layer, const struct moe_plan *plan,
              const struct capacities *capacities, struct exec **out)
{
    uint32_t count = layer_count(&layer->shape);
    uint32_t compute_type = device_compute_type(engine->device, layer->shape.dtype);
    struct arena arena = { 0 };
    const char *reason;
    struct exec *x;
    int rc;

    if (layer->routes != ROUTES_FRESH)
        TRY(exec_check_known_routes(&layer->shape, plan));
    reason = layer->routes != ROUTES_FRESH && layer->baseline
                 ? "baselines cannot use known routes"
                 : baseline_refuses(layer->baseline, &layer->shape, plan, capacities, compute_type);
    if (reason)
        return fail(ERR_ARGUMENT, "this baseline cannot run with %s: %s", PLAN_TEXT(plan), reason);
    x = calloc(count, sizeof(*x));
    if (!x)
        return fail(ERR_NOMEM, "an executor");
    for (uint32_t i = 0; i < count; i++) {
        x[i] = new_exec(plan, &layer[i], layer->baseline, &engine->wire->topology, compute_type);
        x[i].engine = engine;
        x[i].first = x;
        x[i].state = calloc(1, x->way->state_bytes);
        TRY_OUT(x[i].state ? OK : fail(ERR_NOMEM, "an executor's state"));
    }
    for (uint32_t i = 0; i < count; i++) {
        x[i].geometry = geometry_of(&layer->shape, &x->plan, layer->rank, capacities->most);
        if (owns_uneven(&x[i]))
            TRY_OUT(uneven_open(&layer->shape, capacities, x->way->waits, &x[i].geometry,
                                &x[i].uneven));
        else
            x[i].geometry = x->geometry;
    }
    /* The first layout finds how much memory is needed; the second one places the buffers. */
    for (uint32_t i = 0; i < count; i++)
        layout(&x[i], &arena);
    x->memory_bytes = arena.used_bytes;
    TRY_OUT(engine_alloc(engine, x->memory_bytes, &x->memory));
    arena = (struct arena){ .base = x->memory };
    for (uint32_t i = 0; i < count; i++)
        layout(&x[i], &arena);
    for (uint32_t i = 0; i < count; i++) {
        if (owns_uneven(&x[i]))
            TRY_OUT(uneven_fill(&x[i].uneven, &layer->shape, &x[i].geometry, x->algorithm,
                                x->topology, engine->device));
        else
            x[i].uneven = x->uneven;
        TRY_OUT(weights_open(&x[i].weights, engine));
        if (x->way->open)
            TRY_OUT(x->way->open(&x[i]));
    }
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
    for (uint32_t i = 0; i < layer_count(&x->layer->shape); i++) {
        if (x->way->close && x[i].state)
            x->way->close(&x[i]);
        free(x[i].state);
        weights_close(&x[i].weights);
        if (owns_uneven(&x[i]))
            uneven_close(&x[i].uneven);
    }
    engine_release(x->engine, x->memory);
    free(x);
}

/* ---- A step */

int exec_fetch(struct exec *x)
{
    return x->way->fetch ? x->way->fetch(x) : weights_gather(&x->weights, x->engine);
}

int exec_forward(struct exec *x, const void *tokens, void *y)
{
    if (way_has_known_routes(x))
        TRY(router_slots(&x->router, x->engine, x->geometry.capacity));
    else
        TRY(router_forward(&x->router, x->engine, tokens, x->geometry.capacity));
    return x->way->forward(x, tokens, y);
}

int exec_backward(struct exec *x, const void *grad_y, void *grad_x)
{
    return x->way->backward(x, grad_y, grad_x);
}

int exec_finish(struct exec *x)
{
    return weights_finish(&x->weights, x->engine);
}
