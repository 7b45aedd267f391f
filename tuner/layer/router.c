/* The router of a layer: computes the gate's logits by a product, launches the kernel that routes
 * tokens, and the backward pass of both. */
#include "router.h"

#include "phase.h"
#include "shape.h"
#include "status.h"

#include <stdlib.h>

void router_layout(struct router *router, const struct layer *layer, struct arena *arena)
{
    const struct moe_shape *s = &layer->shape;
    struct cosine_rows *c = &router->cosine;
    uint64_t tokens = layer->tokens, columns = shape_gate_columns(s);
    uint64_t projected = size_product(tokens, s->projection);
    uint64_t cosine_rows = layer_cosine(s, COSINE_ROWS);

    router->layer = layer;
    router->routes = layer->routes;
    if (s->dtype != MOE_F32) /* even if unused: a plan needs the same memory on every device */
        router->wide = arena_alloc(arena, tokens * s->model_dim, sizeof(float));
    router->probability = arena_alloc(arena, tokens * columns, sizeof(float));
    if (s->order == MOE_ORDER_PRIORITY) {
        router->importance = arena_alloc(arena, tokens, sizeof(*router->importance));
        router->turn = arena_alloc(arena, tokens, sizeof(*router->turn));
    }
    if (s->router == MOE_ROUTER_COSINE) {
        c->token = arena_alloc(arena, projected, sizeof(*c->token));
        c->token_length = arena_alloc(arena, tokens, sizeof(*c->token_length));
        c->expert = arena_alloc(arena, cosine_rows, sizeof(*c->expert));
        c->expert_length = arena_alloc(arena, s->experts, sizeof(*c->expert_length));
    }
    if (s->router == MOE_ROUTER_COSINE && s->pass == MOE_TRAIN) {
        c->grad_token = arena_alloc(arena, projected, sizeof(*c->grad_token));
        c->grad_expert = arena_alloc(arena, cosine_rows, sizeof(*c->grad_expert));
        c->grad_scale = arena_alloc(arena, s->experts, sizeof(*c->grad_scale));
    }
    router->gate = arena_alloc(arena, tokens * s->top_k, sizeof(float));
    router->expert = arena_alloc(arena, tokens * s->top_k, sizeof(int32_t));
    router->slot = arena_alloc(arena, tokens * s->top_k, sizeof(int64_t));
    if (router->routes != ROUTES_FRESH)
        router->live = arena_alloc(arena, tokens * s->top_k, sizeof(int32_t));
    router->needed = arena_alloc(arena, s->experts, sizeof(int64_t));
    if (layer->balance) {
        router->share = arena_alloc(arena, columns, sizeof(float));
        router->mean = arena_alloc(arena, columns, sizeof(float));
    }
    if (s->pass != MOE_TRAIN)
        return;
    router->grad_gate = arena_alloc(arena, tokens * s->top_k, sizeof(float));
    router->grad_logits = arena_alloc(arena, tokens * columns, sizeof(float));
    router->grad_x = arena_alloc(arena, tokens * s->model_dim, sizeof(float));
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

/* Launches a product of matrices of this type, with an f32 result. */
static int product_of(struct engine *engine, uint32_t dtype, struct gemm g)
{
    g.dtype = dtype;
    g.c_f32 = true;
    g.batch = 1;
    return launch_gemm(engine->compute, &g);
}

static int gate_product(const struct router *router, struct engine *engine, struct gemm g)
{
    return product_of(engine, layer_gate_type(router->layer), g);
}

/* Multiplies tokens by the gate's matrix. */
static int project_tokens(const struct router *router, struct engine *engine, float *to)
{
    const struct moe_shape *s = &router->layer->shape;

    return gate_product(router, engine,
                        (struct gemm){ .transpose_b = true,
                                       .m = router->layer->tokens,
                                       .n = shape_gate_rows(s),
                                       .k = s->model_dim,
                                       .a = router->x,
                                       .b = router->layer->gate,
                                       .c = to });
}

/* Computes a cosine router's logits from projected tokens. */
static int compute_cosines(const struct router *router, struct engine *engine)
{
    const struct layer *layer = router->layer;
    const struct moe_shape *s = &layer->shape;
    const struct cosine_rows *c = &router->cosine;

    TRY(launch_add_bias(engine->compute, &(struct add_bias){ .batch = 1,
                                                             .rows = layer->tokens,
                                                             .width = s->projection,
                                                             .bias_stride = s->projection,
                                                             .bias = layer->cosine[COSINE_BIAS],
                                                             .to = c->token }));
    TRY(launch_unit_rows(engine->compute, &(struct unit_rows){ .rows = layer->tokens,
                                                               .width = s->projection,
                                                               .from = c->token,
                                                               .to = c->token,
                                                               .length = c->token_length }));
    TRY(launch_unit_rows(engine->compute,
                         &(struct unit_rows){ .rows = s->experts,
                                              .width = s->projection,
                                              .exponent = layer->cosine[COSINE_SCALE],
                                              .from = layer->cosine[COSINE_ROWS],
                                              .to = c->expert,
                                              .length = c->expert_length }));
    return product_of(engine, MOE_F32,
                      (struct gemm){ .transpose_b = true,
                                     .m = layer->tokens,
                                     .n = s->experts,
                                     .k = s->projection,
                                     .a = c->token,
                                     .b = c->expert,
                                     .c = router->probability });
}

/* The router for the kernels: after its logits, a cosine router works as softmax does. */
static uint32_t kind_of(const struct router *router)
{
    uint32_t kind = router->layer->shape.router;

    return kind == MOE_ROUTER_COSINE ? (uint32_t)MOE_ROUTER_SOFTMAX : kind;
}

/* ---- the loss of balance */

int balance_parse(const char *text, const struct moe_shape *shape, double weight[2])
{
    static const double weight_most = 1000;
    char *end;

    weight[1] = 0;
    weight[0] = strtod(text, &end);
    if (end != text && *end == ',' && shape->router == MOE_ROUTER_BILEVEL) {
        const char *second = end + 1;

        weight[1] = strtod(second, &end);
        end = end == second ? "?" : end;
    }
    if (end == text || *end || !(weight[0] >= 0 && weight[0] <= weight_most) ||
        !(weight[1] >= 0 && weight[1] <= weight_most))
        return fail(ERR_ARGUMENT, "--balance \"%s\": write %s from 0 to %g", text,
                    shape->router == MOE_ROUTER_BILEVEL ? "one or two weights, A or A,B, each"
                                                        : "one weight",
                    weight_most);
    return OK;
}

/* Number of columns of the first level; the second level has the rest. */
static uint32_t balance_first_columns(const struct moe_shape *shape)
{
    return shape->router == MOE_ROUTER_BILEVEL ? shape->groups : shape->experts;
}

/* The factor of the sum of f P, such that a level's loss equals its weight under a balanced load.
 */
static double balance_factor(const struct moe_shape *shape, const double weight[2], int level)
{
    uint32_t first = balance_first_columns(shape);

    return weight[level] * (level ? shape_gate_columns(shape) - first : first);
}

/* Launches the kernel that finds the shares of choices and the means of probabilities. */
static int measure_balance(const struct router *router, struct engine *engine)
{
    const struct moe_shape *s = &router->layer->shape;

    if (!router->share)
        return OK;
    return launch_balance(engine->compute, &(struct balance){ .tokens = router->layer->tokens,
                                                              .experts = s->experts,
                                                              .top_k = s->top_k,
                                                              .groups = s->groups,
                                                              .router = kind_of(router),
                                                              .probability = router->probability,
                                                              .needed = router->needed,
                                                              .share = router->share,
                                                              .mean = router->mean });
}

static int balance_backward(const struct router *router, struct engine *engine)
{
    const struct layer *layer = router->layer;
    const struct moe_shape *s = &layer->shape;

    if (!router->share)
        return OK;
    return launch_balance_backward(
        engine->compute,
        &(struct balance_backward){ .tokens = layer->tokens,
                                    .experts = s->experts,
                                    .groups = s->groups,
                                    .router = kind_of(router),
                                    .probability = router->probability,
                                    .share = router->share,
                                    .weight = { (float)balance_factor(s, layer->balance, 0),
                                                (float)balance_factor(s, layer->balance, 1) },
                                    .grad_logits = router->grad_logits });
}

/* Known routes have their choices and slots already; only their gates are computed. */
enum route_source { NEW_ROUTES, KNOWN_ROUTES };

static int forward_gate(struct router *router, struct engine *engine, const void *x,
                        enum route_source source, uint64_t capacity)
{
    const struct moe_shape *s = &router->layer->shape;
    bool widen = layer_gate_type(router->layer) != s->dtype;

    router->x = widen ? router->wide : x;
    if (widen)
        TRY(router_convert(router, engine->compute, s->model_dim, s->dtype, x, MOE_F32,
                           router->wide));
    if (s->router == MOE_ROUTER_COSINE) {
        TRY(project_tokens(router, engine, router->cosine.token));
        TRY(compute_cosines(router, engine));
    } else {
        TRY(project_tokens(router, engine, router->probability));
    }
    TRY(launch_route(
        engine->compute,
        &(struct route){ .tokens = router->layer->tokens,
                         .experts = s->experts,
                         .top_k = s->top_k,
                         .capacity = capacity,
                         .logits = router->probability,
                         .gate = router->gate,
                         .expert = source == KNOWN_ROUTES ? router->live : router->expert,
                         .given = source == KNOWN_ROUTES ? router->expert : NULL,
                         .slot = router->slot,
                         .needed = router->needed,
                         .groups = s->groups,
                         .group_limit = s->group_limit,
                         .router = kind_of(router),
                         .bias = router->layer->bias,
                         .importance = router->importance,
                         .turn = router->turn,
                         .capacities = router->capacities }));
    return measure_balance(router, engine);
}

int router_forward(struct router *router, struct engine *engine, const void *x, uint64_t capacity)
{
    int rc;

    engine->compute->purpose = PHASE_GATE;
    rc = forward_gate(router, engine, x, NEW_ROUTES, capacity);
    engine->compute->purpose = 0;
    return rc;
}

int router_gates(struct router *router, struct engine *engine, const void *x)
{
    int rc;

    engine->compute->purpose = PHASE_GATE;
    rc = forward_gate(router, engine, x, KNOWN_ROUTES, 0);
    engine->compute->purpose = 0;
    return rc;
}

int router_slots(struct router *router, struct engine *engine, uint64_t capacity)
{
    const struct moe_shape *s = &router->layer->shape;

    return launch_slots(engine->compute, &(struct slots){ .tokens = router->layer->tokens,
                                                          .experts = s->experts,
                                                          .top_k = s->top_k,
                                                          .capacity = capacity,
                                                          .expert = router->expert,
                                                          .slot = router->slot,
                                                          .needed = router->needed,
                                                          .capacities = router->capacities });
}

int router_set_known_routes(struct router *router, const int32_t *expert)
{
    const struct moe_shape *s = &router->layer->shape;
    uint64_t choices = (uint64_t)router->layer->tokens * s->top_k;

    for (uint64_t choice = 0; choice < choices; choice++) {
        uint64_t first = choice - choice % s->top_k; /* of this token's choices */
        unsigned long long token = choice / s->top_k;

        if (expert[choice] < 0 || (uint32_t)expert[choice] >= s->experts)
            return fail(ERR_ARGUMENT,
                        "known routes: token %llu goes to expert %d; experts are 0 to %u", token,
                        expert[choice], s->experts - 1);
        for (uint64_t i = first; i < choice; i++)
            if (expert[i] == expert[choice])
                return fail(ERR_ARGUMENT, "known routes: token %llu goes to expert %d twice", token,
                            expert[choice]);
    }
    return device_upload(router->layer->device, router->expert, expert, choices * sizeof(*expert));
}

/* Computes a cosine router's gradients from those of its logits: of the unit rows, then of the
 * projected tokens and of the router's own tensors. */
static int compute_cosines_backward(const struct router *router, struct engine *engine)
{
    const struct layer *layer = router->layer;
    const struct moe_shape *s = &layer->shape;
    const struct cosine_rows *c = &router->cosine;

    TRY(product_of(engine, MOE_F32,
                   (struct gemm){ .transpose_a = true,
                                  .m = s->experts,
                                  .n = s->projection,
                                  .k = layer->tokens,
                                  .a = router->grad_logits,
                                  .b = c->token,
                                  .c = c->grad_expert }));
    TRY(product_of(engine, MOE_F32,
                   (struct gemm){ .m = layer->tokens,
                                  .n = s->projection,
                                  .k = s->experts,
                                  .a = router->grad_logits,
                                  .b = c->expert,
                                  .c = c->grad_token }));
    TRY(launch_unit_rows_backward(
        engine->compute, &(struct unit_rows_backward){ .rows = s->experts,
                                                       .width = s->projection,
                                                       .exponent = layer->cosine[COSINE_SCALE],
                                                       .to = c->expert,
                                                       .length = c->expert_length,
                                                       .grad_to = c->grad_expert,
                                                       .grad_from = layer->grad_cosine[COSINE_ROWS],
                                                       .grad_exponent = c->grad_scale }));
    TRY(launch_sum_rows(engine->compute,
                        &(struct sum_rows){ .batch = 1,
                                            .rows = s->experts,
                                            .width = 1,
                                            .to_stride = 1,
                                            .from = c->grad_scale,
                                            .to = layer->grad_cosine[COSINE_SCALE] }));
    TRY(launch_unit_rows_backward(engine->compute,
                                  &(struct unit_rows_backward){ .rows = layer->tokens,
                                                                .width = s->projection,
                                                                .to = c->token,
                                                                .length = c->token_length,
                                                                .grad_to = c->grad_token,
                                                                .grad_from = c->grad_token }));
    return launch_sum_rows(engine->compute,
                           &(struct sum_rows){ .batch = 1,
                                               .rows = layer->tokens,
                                               .width = s->projection,
                                               .to_stride = s->projection,
                                               .from = c->grad_token,
                                               .to = layer->grad_cosine[COSINE_BIAS] });
}

static int backward_gate(struct router *router, struct engine *engine, bool keep)
{
    const struct moe_shape *s = &router->layer->shape;
    bool cosine = s->router == MOE_ROUTER_COSINE;
    uint32_t tokens = router->layer->tokens, rows = shape_gate_rows(s);
    uint32_t type = layer_gate_type(router->layer);
    void *f32_grad = cosine ? router->cosine.grad_token : router->grad_logits;
    void *converted_grad =
        cosine ? router->cosine.token : router->probability; /* not needed any more */
    void *grad = type == MOE_F32 ? f32_grad : converted_grad;

    TRY(launch_route_backward(
        engine->compute,
        &(struct route_backward){ .tokens = tokens,
                                  .experts = s->experts,
                                  .top_k = s->top_k,
                                  .probability = router->probability,
                                  .gate = router->gate,
                                  .expert = router->expert,
                                  .grad_gate = router->grad_gate,
                                  .grad_logits = router->grad_logits,
                                  .groups = s->groups,
                                  .router = kind_of(router),
                                  .live = router->routes == ROUTES_ZERO ? router->live : NULL }));
    TRY(balance_backward(router, engine));
    if (cosine)
        TRY(compute_cosines_backward(router, engine));
    if (type != MOE_F32)
        TRY(router_convert(router, engine->compute, rows, MOE_F32, f32_grad, type, grad));
    TRY(gate_product(router, engine,
                     (struct gemm){ .transpose_a = true,
                                    .m = rows,
                                    .n = s->model_dim,
                                    .k = tokens,
                                    .a = grad,
                                    .b = router->x,
                                    .c = router->layer->grad_gate }));
    return gate_product(router, engine,
                        (struct gemm){ .keep = keep,
                                       .m = tokens,
                                       .n = s->model_dim,
                                       .k = rows,
                                       .a = grad,
                                       .b = router->layer->gate,
                                       .c = router->grad_x });
}

/* With MOE_COMBINE_CHOICES, the gradient of a gate is the loss of its choice. */
static int keep_losses(const struct router *router, struct engine *engine)
{
    const struct layer *layer = router->layer;

    if (layer->shape.combine != MOE_COMBINE_CHOICES)
        return OK;
    return launch_keep_losses(
        engine->compute,
        &(struct keep_losses){ .choices = (uint64_t)layer->tokens * layer->shape.top_k,
                               .slot = router->slot,
                               .loss = layer->losses,
                               .grad_gate = router->grad_gate });
}

int router_backward(struct router *router, struct engine *engine, bool keep)
{
    int rc;

    engine->compute->purpose = PHASE_GATE;
    rc = keep_losses(router, engine);
    if (!rc)
        rc = backward_gate(router, engine, keep);
    engine->compute->purpose = 0;
    return rc;
}

struct routing router_choices(const struct router *router, struct routing routing)
{
    if (router->layer->shape.combine == MOE_COMBINE_CHOICES) {
        routing.tokens *= routing.top_k;
        routing.top_k = 1;
    }
    return routing;
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

/* The sum and the largest of the choices of experts beyond their capacity. */
static int count_needed(const struct router *router, const struct capacities *capacities,
                        int64_t *sum, int64_t *largest)
{
    uint32_t experts = router->layer->shape.experts;
    int64_t *needed = calloc(experts, sizeof(*needed));
    int rc;

    if (!needed)
        return fail(ERR_NOMEM, "%u counts", experts);
    TRY_OUT(
        device_download(router->layer->device, needed, router->needed, experts * sizeof(*needed)));
    *sum = *largest = 0;
    for (uint32_t e = 0; e < experts; e++) {
        int64_t beyond = needed[e] - (int64_t)capacity_of(capacities, e);

        beyond = beyond > 0 ? beyond : 0;
        *sum += beyond;
        *largest = beyond > *largest ? beyond : *largest;
    }
out:
    free(needed);
    return rc;
}

int router_needed(const struct layer *layer, struct engine *engine, const void *x, int64_t *most)
{
    const struct capacities none = { 0, NULL };
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
    rc = count_needed(&router, &none, &sum, most);
out:
    device_release(engine->device, memory);
    return rc;
}

int router_balance(const struct router *router, double *loss)
{
    const struct moe_shape *s = &router->layer->shape;
    uint32_t columns = shape_gate_columns(s);
    uint32_t first = balance_first_columns(s);
    struct device *device = router->layer->device;
    float *share = NULL, *mean = NULL;
    double sum = 0;
    int rc = OK;

    *loss = 0;
    if (!router->share)
        return OK;
    share = calloc(columns, sizeof(*share));
    mean = calloc(columns, sizeof(*mean));
    TRY_OUT(share && mean ? OK : fail(ERR_NOMEM, "%u shares", columns));
    TRY_OUT(device_download(device, share, router->share, columns * sizeof(*share)));
    TRY_OUT(device_download(device, mean, router->mean, columns * sizeof(*mean)));
    for (uint32_t c = 0; c < columns; c++)
        sum += balance_factor(s, router->layer->balance, c >= first) * (double)share[c] *
               (double)mean[c];
    *loss = sum;
out:
    free(share);
    free(mean);
    return rc;
}

int router_dropped(const struct router *router, const struct capacities *capacities,
                   int64_t *dropped)
{
    int64_t most;

    return count_needed(router, capacities, dropped, &most);
}
