/* The gate's logits by one product, then the kernel that routes tokens; and the backward pass of
 * both. */
#include "router.h"

#include "status.h"

#include <stdlib.h>

void router_layout(struct router *router, const struct layer *layer, struct arena *arena)
{
    const struct moe_shape *s = &layer->shape;
    uint64_t tokens = layer->tokens;

    router->layer = layer;
    if (s->dtype != MOE_F32) /* also where it is not used: a plan takes the same on every device */
        router->wide = arena_take(arena, tokens * s->model_dim, sizeof(float));
    router->probability = arena_take(arena, tokens * s->experts, sizeof(float));
    router->gate = arena_take(arena, tokens * s->top_k, sizeof(float));
    router->expert = arena_take(arena, tokens * s->top_k, sizeof(int32_t));
    router->slot = arena_take(arena, tokens * s->top_k, sizeof(int64_t));
    router->needed = arena_take(arena, s->experts, sizeof(int64_t));
    if (s->pass != MOE_TRAIN)
        return;
    router->grad_gate = arena_take(arena, tokens * s->top_k, sizeof(float));
    router->grad_logits = arena_take(arena, tokens * s->experts, sizeof(float));
    router->grad_x = arena_take(arena, tokens * s->model_dim, sizeof(float));
}

int router_convert(const struct router *router, struct stream *stream, uint64_t width,
                   uint32_t from_type, const void *from, uint32_t to_type, void *to)
{
    return launch_move(stream, &(struct move){ .from_type = from_type,
                                               .to_type = to_type,
                                               .block = width,
                                               .dims = { router->layer->tokens, 1, 1 },
                                               .from_stride = { 1, 0, 0 },
                                               .to_stride = { 1, 0, 0 },
                                               .terms = 1,
                                               .from = from,
                                               .to = to });
}

static int product(const struct router *router, struct engine *engine, struct gemm g)
{
    g.dtype = layer_gate_type(router->layer);
    g.c_f32 = true;
    g.batch = 1;
    return launch_gemm(engine->compute, &g);
}

int router_forward(struct router *router, struct engine *engine, const void *x, uint64_t capacity)
{
    const struct moe_shape *s = &router->layer->shape;
    bool widen = layer_gate_type(router->layer) != s->dtype;

    router->x = widen ? router->wide : x;
    if (widen)
        TRY(router_convert(router, engine->compute, s->model_dim, s->dtype, x, MOE_F32,
                           router->wide));
    TRY(product(router, engine,
                (struct gemm){ .transpose_b = true,
                               .m = router->layer->tokens,
                               .n = s->experts,
                               .k = s->model_dim,
                               .a = router->x,
                               .b = router->layer->gate,
                               .c = router->probability }));
    return launch_route(engine->compute, &(struct route){ .tokens = router->layer->tokens,
                                                          .experts = s->experts,
                                                          .top_k = s->top_k,
                                                          .capacity = capacity,
                                                          .logits = router->probability,
                                                          .gate = router->gate,
                                                          .expert = router->expert,
                                                          .slot = router->slot,
                                                          .needed = router->needed });
}

int router_backward(struct router *router, struct engine *engine)
{
    const struct moe_shape *s = &router->layer->shape;
    uint32_t tokens = router->layer->tokens;
    uint32_t type = layer_gate_type(router->layer);
    void *grad = type == MOE_F32 ? router->grad_logits : router->probability;

    TRY(launch_route_backward(engine->compute,
                              &(struct route_backward){ .tokens = tokens,
                                                        .experts = s->experts,
                                                        .top_k = s->top_k,
                                                        .probability = router->probability,
                                                        .gate = router->gate,
                                                        .expert = router->expert,
                                                        .grad_gate = router->grad_gate,
                                                        .grad_logits = router->grad_logits }));
    if (type != MOE_F32)
        TRY(router_convert(router, engine->compute, s->experts, MOE_F32, router->grad_logits, type,
                           grad));
    TRY(product(router, engine,
                (struct gemm){ .transpose_a = true,
                               .m = s->experts,
                               .n = s->model_dim,
                               .k = tokens,
                               .a = grad,
                               .b = router->x,
                               .c = router->layer->grad_gate }));
    return product(router, engine,
                   (struct gemm){ .m = tokens,
                                  .n = s->model_dim,
                                  .k = s->experts,
                                  .a = grad,
                                  .b = router->layer->gate,
                                  .c = router->grad_x });
}

struct routing router_routing(const struct router *router, uint64_t capacity, uint64_t rows)
{
    const struct moe_shape *s = &router->layer->shape;

    return (struct routing){ .tokens = router->layer->tokens,
                             .experts = s->experts,
                             .top_k = s->top_k,
                             .width = s->model_dim,
                             .rows = rows,
                             .capacity = capacity,
                             .expert = router->expert,
                             .slot = router->slot,
                             .needed = router->needed };
}

/* The sum and the largest of max(0, needed - floor) over the experts. */
static int count_needed(const struct router *router, uint64_t floor, int64_t *sum, int64_t *most)
{
    uint32_t experts = router->layer->shape.experts;
    int64_t *needed = calloc(experts, sizeof(*needed));
    int rc;

    if (!needed)
        return fail(ERR_NOMEM, "%u counts", experts);
    TRY_OUT(
        device_download(router->layer->device, needed, router->needed, experts * sizeof(*needed)));
    *sum = *most = 0;
    for (uint32_t e = 0; e < experts; e++) {
        int64_t over = (uint64_t)needed[e] > floor ? needed[e] - (int64_t)floor : 0;

        *sum += over;
        *most = over > *most ? over : *most;
    }
out:
    free(needed);
    return rc;
}

int router_needed(const struct layer *layer, struct engine *engine, const void *x, int64_t *most)
{
    struct router router = { 0 };
    struct arena arena = { 0 };
    int64_t sum;
    void *memory;
    size_t bytes;
    int rc;

    router_layout(&router, layer, &arena);
    bytes = arena.used_bytes;
    TRY(device_alloc(engine->device, bytes, &memory));
    arena = (struct arena){ .base = memory };
    router_layout(&router, layer, &arena);
    TRY_OUT(router_forward(&router, engine, x, 0));
    TRY_OUT(engine_sync(engine));
    rc = count_needed(&router, 0, &sum, most);
out:
    device_release(engine->device, memory);
    return rc;
}

int router_dropped(const struct router *router, uint64_t capacity, int64_t *dropped)
{
    int64_t most;

    return count_needed(router, capacity, dropped, &most);
}
