/* Baselines: their words, the plans that they cannot run with, and the way `dense`, which encodes
 * and decodes by products (the einsum of Fairseq and GShard, figure 20a of the Tutel paper). */
#include "baseline.h"

#include "padded.h"
#include "phase.h"
#include "shape.h"
#include "status.h"

const char *const baseline_words[] = { "dense", "rigid", "naive", NULL };

const char *baseline_refuses(uint32_t baseline, const struct moe_shape *shape,
                             const struct moe_plan *plan, const struct capacities *capacities,
                             uint32_t compute_type)
{
    if (!baseline)
        return NULL;
    if (plan->e == MOE_SPARSE || plan->a == MOE_A2A_RAIL)
        return "baselines need padded experts (no e=sparse) and rows that go directly to them (no "
               "a=rail)";
    if (capacities->rows)
        return "baselines need experts with equal capacities";
    if (baseline & BASELINE_DENSE && shape->combine == MOE_COMBINE_CHOICES)
        return "dense adds up a token's choices, so it cannot run with combine=choices";
    if (baseline & BASELINE_NAIVE && plan->a != MOE_A2A_2DH)
        return "naive needs a=2dh";
    if (baseline & BASELINE_RIGID && !plan->r)
        return "rigid needs r >= 1: with r=0 no rows travel";
    if (baseline & (BASELINE_DENSE | BASELINE_RIGID) && shape->dtype != compute_type)
        return "dense and rigid need dtype=f32 here: they multiply rows in the type in which rows "
               "travel, and cores multiply only f32";
    return NULL;
}

/* ---- dense */

/* The state of way_dense.  A matrix (T,E,C) has a gate, or 1, at the row of each choice, and zero
 * elsewhere.  Each operation writes its own result, as in a framework that runs them one by one. */
struct dense {
    struct padded padded;
    uint64_t tokens, experts, rows, places; /* T, E, C, E C */
    float *gates;       /* (k,T,E): for each choice, its gate in the column of its expert */
    float *locations;   /* (k,T,C): for each choice, 1 in the column of its slot */
    float *choices;     /* (k,T,E,C): products of gates and locations */
    float *sum;         /* (T,E,C): sum over the choices */
    void *combine;      /* sum, in the type of tokens */
    void *dispatch;     /* (T,E,C): 1 where combine is not zero */
    void *grad_combine; /* gradient of combine, in training */
    float *grad_sum;    /* gradient of combine, in f32 */
    float *grad_gates;  /* (T,E): gradient of one choice's gates */
};

static void layout(struct exec *x, struct arena *arena)
{
    const struct moe_shape *s = &x->layer->shape;
    uint64_t k = s->top_k, matrix, by_expert = (uint64_t)x->layer->tokens * s->experts;
    size_t width = dtype_bytes(s->dtype);
    struct dense *d = x->state;

    padded_layout(x, arena);
    d->tokens = x->layer->tokens;
    d->experts = s->experts;
    d->rows = x->geometry.rows;
    d->places = size_product(d->experts, d->rows);
    matrix = size_product(d->tokens, d->places);
    d->gates = arena_alloc(arena, by_expert * k, sizeof(*d->gates));
    d->locations = arena_alloc(arena, size_product(d->tokens * k, d->rows), sizeof(*d->locations));
    d->choices = arena_alloc(arena, size_product(matrix, k), sizeof(*d->choices));
    d->sum = k == 1 ? d->choices : arena_alloc(arena, matrix, sizeof(*d->sum));
    d->combine = s->dtype == MOE_F32 ? d->sum : arena_alloc(arena, matrix, width);
    d->dispatch = arena_alloc(arena, matrix, width);
    if (s->pass != MOE_TRAIN)
        return;
    d->grad_sum = arena_alloc(arena, matrix, sizeof(*d->grad_sum));
    d->grad_combine = s->dtype == MOE_F32 ? d->grad_sum : arena_alloc(arena, matrix, width);
    d->grad_gates = arena_alloc(arena, by_expert, sizeof(*d->grad_gates));
}

/* Launches a product that counts as encode, not as experts. */
static int encode_product(const struct exec *x, struct gemm g)
{
    struct stream *stream = x->engine->compute;
    int rc;

    stream->purpose = PHASE_ENCODE;
    rc = launch_gemm(stream, &g);
    stream->purpose = 0;
    return rc;
}

/* Adds up `terms` tensors that lie one after the other; nothing where `to` is the only term. */
static int add_up(const struct exec *x, uint64_t block, uint64_t terms, uint32_t from_type,
                  const void *from, uint32_t to_type, void *to)
{
    if (from == to)
        return OK;
    return launch_move(x->engine->compute, &(struct move){ .from_type = from_type,
                                                           .to_type = to_type,
                                                           .block = block,
                                                           .dims = { 1, 1, 1 },
                                                           .terms = terms,
                                                           .term_stride = 1,
                                                           .from = from,
                                                           .to = to });
}

/* Makes the matrix of choice j, einsum("TE,TC->TEC"): a column times a row for each token. */
static int make_choice_matrix(const struct exec *x, uint32_t j)
{
    const struct dense *d = x->state;
    struct one_hot gates = { .tokens = x->layer->tokens,
                             .top_k = x->layer->shape.top_k,
                             .choice = j,
                             .columns = d->experts,
                             .expert = x->router.expert,
                             .slot = x->router.slot,
                             .scale = x->router.gate,
                             .to = d->gates + j * d->tokens * d->experts };
    struct one_hot locations = gates;

    locations.columns = d->rows;
    locations.by_slot = true;
    locations.scale = NULL;
    locations.to = d->locations + j * d->tokens * d->rows;
    TRY(launch_one_hot(x->engine->compute, &gates));
    TRY(launch_one_hot(x->engine->compute, &locations));
    return encode_product(x, (struct gemm){ .dtype = MOE_F32,
                                            .batch = gates.tokens,
                                            .m = d->experts,
                                            .n = d->rows,
                                            .k = 1,
                                            .a = gates.to,
                                            .b = locations.to,
                                            .c = d->choices + j * d->tokens * d->places,
                                            .stride_a = d->experts,
                                            .stride_b = d->rows,
                                            .stride_c = d->places });
}

/* The product that makes rows (E C,D) from a matrix and tokens (T,D). */
static struct gemm product_to_rows(const struct exec *x, const void *matrix, const void *tokens,
                                   void *rows)
{
    const struct dense *d = x->state;

    return (struct gemm){ .dtype = x->layer->shape.dtype,
                          .transpose_a = true,
                          .batch = 1,
                          .m = d->places,
                          .n = x->layer->shape.model_dim,
                          .k = d->tokens,
                          .a = matrix,
                          .b = tokens,
                          .c = rows };
}

/* The product that makes tokens (T,D) from a matrix and rows. */
static struct gemm product_to_tokens(const struct exec *x, const void *matrix, const void *rows,
                                     bool keep, void *tokens)
{
    const struct dense *d = x->state;

    return (struct gemm){ .dtype = x->layer->shape.dtype,
                          .keep = keep,
                          .batch = 1,
                          .m = d->tokens,
                          .n = x->layer->shape.model_dim,
                          .k = d->places,
                          .a = matrix,
                          .b = rows,
                          .c = tokens };
}

static int forward(struct exec *x, const void *tokens, void *y)
{
    const struct dense *d = x->state;
    uint32_t dtype = x->layer->shape.dtype, k = x->layer->shape.top_k;
    uint64_t matrix = d->tokens * d->places;

    for (uint32_t j = 0; j < k; j++)
        TRY(make_choice_matrix(x, j));
    TRY(add_up(x, matrix, k, MOE_F32, d->choices, MOE_F32, d->sum));
    TRY(add_up(x, matrix, 1, MOE_F32, d->sum, dtype, d->combine));
    TRY(launch_nonzero(x->engine->compute,
                       &(struct nonzero){ matrix, dtype, d->sum, d->dispatch }));
    TRY(encode_product(x, product_to_rows(x, d->dispatch, tokens, d->padded.forward.home)));
    TRY(padded_trip(x, tokens));
    return encode_product(x, product_to_tokens(x, d->combine, d->padded.forward.back, false, y));
}

/* Computes the gradient of the gates of choice j: each token's (E,C) times its location. */
static int grad_of_choice(const struct exec *x, uint32_t j)
{
    const struct dense *d = x->state;
    struct one_hot_backward gates = { .tokens = x->layer->tokens,
                                      .top_k = x->layer->shape.top_k,
                                      .choice = j,
                                      .columns = d->experts,
                                      .expert = x->router.expert,
                                      .slot = x->router.slot,
                                      .grad = d->grad_gates,
                                      .grad_scale = x->router.grad_gate };

    TRY(encode_product(x, (struct gemm){ .dtype = MOE_F32,
                                         .batch = gates.tokens,
                                         .m = d->experts,
                                         .n = 1,
                                         .k = d->rows,
                                         .a = d->grad_sum,
                                         .b = d->locations + j * d->tokens * d->rows,
                                         .c = d->grad_gates,
                                         .stride_a = d->places,
                                         .stride_b = d->rows,
                                         .stride_c = d->experts }));
    return launch_one_hot_backward(x->engine->compute, &gates);
}

static int backward(struct exec *x, const void *grad_y, void *grad_x)
{
    const struct dense *d = x->state;
    const struct moe_shape *s = &x->layer->shape;

    TRY(encode_product(x, product_to_rows(x, d->combine, grad_y, d->padded.backward.home)));
    TRY(encode_product(x, (struct gemm){ .dtype = s->dtype,
                                         .transpose_b = true,
                                         .batch = 1,
                                         .m = d->tokens,
                                         .n = d->places,
                                         .k = s->model_dim,
                                         .a = grad_y,
                                         .b = d->padded.forward.back,
                                         .c = d->grad_combine }));
    TRY(add_up(x, d->tokens * d->places, 1, s->dtype, d->grad_combine, MOE_F32, d->grad_sum));
    for (uint32_t j = 0; j < s->top_k; j++)
        TRY(grad_of_choice(x, j));
    TRY(padded_trip_back(x, true));
    TRY(router_convert(&x->router, x->engine->compute, s->model_dim, MOE_F32, x->router.grad_x,
                       s->dtype, grad_x));
    return encode_product(x,
                          product_to_tokens(x, d->dispatch, d->padded.backward.back, true, grad_x));
}

const struct way_ops way_dense = { .state_bytes = WAY_STATE_BYTES(struct dense),
                                   .layout = layout,
                                   .open = padded_open,
                                   .close = padded_close,
                                   .forward = forward,
                                   .backward = backward };
