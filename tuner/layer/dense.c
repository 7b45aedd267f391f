/* Encode and decode as dense products (Fairseq's and GShard's einsum). */
#include "dense.h"

#include "phase.h"
#include "shape.h"
#include "status.h"

static const struct moe_shape *shape_of(const struct dense *d)
{
    return &d->router->layer->shape;
}

static uint64_t tokens_of(const struct dense *d)
{
    return d->router->layer->tokens;
}

static uint64_t places(const struct dense *d)
{
    return size_product(shape_of(d)->experts, d->rows);
}

void dense_layout(struct dense *d, uint64_t rows, struct arena *arena)
{
    uint64_t tokens = tokens_of(d), k = shape_of(d)->top_k, all;

    d->rows = rows;
    all = size_product(tokens, places(d));
    d->gates = arena_take(arena, tokens * k * shape_of(d)->experts, sizeof(*d->gates));
    d->locations = arena_take(arena, size_product(tokens * k, rows), sizeof(*d->locations));
    d->choices = arena_take(arena, size_product(all, k), sizeof(*d->choices));
    d->sum = k == 1 ? d->choices : arena_take(arena, all, sizeof(*d->sum));
    d->combine = d->dtype == MOE_F32 ? d->sum : arena_take(arena, all, dtype_bytes(d->dtype));
    d->dispatch = arena_take(arena, all, dtype_bytes(d->dtype));
    if (shape_of(d)->pass != MOE_TRAIN)
        return;
    d->grad_sum = arena_take(arena, all, sizeof(*d->grad_sum));
    d->grad_combine =
        d->dtype == MOE_F32 ? d->grad_sum : arena_take(arena, all, dtype_bytes(d->dtype));
    d->grad_gates = arena_take(arena, tokens * shape_of(d)->experts, sizeof(*d->grad_gates));
}

/* The sum of `terms` tensors that lie one after the other; nothing where it is its only term. */
static int add_up(struct stream *stream, uint64_t block, uint64_t terms, uint32_t from_type,
                  const void *from, uint32_t to_type, void *to)
{
    if (from == to)
        return OK;
    return launch_move(stream, &(struct move){ .from_type = from_type,
                                               .to_type = to_type,
                                               .block = block,
                                               .dims = { 1, 1, 1 },
                                               .terms = terms,
                                               .term_stride = 1,
                                               .from = from,
                                               .to = to });
}

static const float *gates_of(const struct dense *d, uint32_t j)
{
    return d->gates + j * tokens_of(d) * shape_of(d)->experts;
}

static const float *locations_of(const struct dense *d, uint32_t j)
{
    return d->locations + j * tokens_of(d) * d->rows;
}

/* Products of experts are counted apart. */
static int multiply(struct stream *stream, struct gemm g)
{
    int rc;

    stream->purpose = PHASE_ENCODE;
    rc = launch_gemm(stream, &g);
    stream->purpose = 0;
    return rc;
}

/* einsum("TE,TC->TEC"): a column times a row for each token. */
static int make_choice(const struct dense *d, struct stream *stream, uint32_t j)
{
    const struct router *r = d->router;
    struct one_hot gates = { .tokens = (uint32_t)tokens_of(d),
                             .top_k = shape_of(d)->top_k,
                             .choice = j,
                             .columns = shape_of(d)->experts,
                             .expert = r->expert,
                             .slot = r->slot,
                             .scale = r->gate,
                             .to = (float *)gates_of(d, j) };
    struct one_hot locations = gates;

    locations.columns = d->rows;
    locations.by_slot = true;
    locations.scale = NULL;
    locations.to = (float *)locations_of(d, j);
    TRY(launch_one_hot(stream, &gates));
    TRY(launch_one_hot(stream, &locations));
    return multiply(stream, (struct gemm){ .dtype = MOE_F32,
                                           .batch = gates.tokens,
                                           .m = shape_of(d)->experts,
                                           .n = d->rows,
                                           .k = 1,
                                           .a = gates.to,
                                           .b = locations.to,
                                           .c = d->choices + j * tokens_of(d) * places(d),
                                           .stride_a = shape_of(d)->experts,
                                           .stride_b = d->rows,
                                           .stride_c = places(d) });
}

static int make_matrices(const struct dense *d, struct stream *stream)
{
    uint64_t all = tokens_of(d) * places(d);

    for (uint32_t j = 0; j < shape_of(d)->top_k; j++)
        TRY(make_choice(d, stream, j));
    TRY(add_up(stream, all, shape_of(d)->top_k, MOE_F32, d->choices, MOE_F32, d->sum));
    TRY(add_up(stream, all, 1, MOE_F32, d->sum, d->dtype, d->combine));
    return launch_nonzero(stream, &(struct nonzero){ all, d->dtype, d->sum, d->dispatch });
}

/* (E C,D) from a matrix and something of tokens (T,D). */
static struct gemm to_rows(const struct dense *d, const void *matrix, const void *tokens,
                           void *rows)
{
    return (struct gemm){ .dtype = d->dtype,
                          .transpose_a = true,
                          .batch = 1,
                          .m = places(d),
                          .n = shape_of(d)->model_dim,
                          .k = tokens_of(d),
                          .a = matrix,
                          .b = tokens,
                          .c = rows };
}

/* (T,D) from a matrix and rows. */
static struct gemm to_tokens(const struct dense *d, const void *matrix, const void *rows, bool keep,
                             void *tokens)
{
    return (struct gemm){ .dtype = d->dtype,
                          .keep = keep,
                          .batch = 1,
                          .m = tokens_of(d),
                          .n = shape_of(d)->model_dim,
                          .k = places(d),
                          .a = matrix,
                          .b = rows,
                          .c = tokens };
}

int dense_encode(const struct dense *d, struct engine *engine, const void *tokens, void *rows)
{
    TRY(make_matrices(d, engine->compute));
    return multiply(engine->compute, to_rows(d, d->dispatch, tokens, rows));
}

int dense_decode(const struct dense *d, struct engine *engine, const void *rows, void *y)
{
    return multiply(engine->compute, to_tokens(d, d->combine, rows, false, y));
}

/* The gradient of the gates of choice j: of each token (E,C) times its location. */
static int grad_of_choice(const struct dense *d, struct stream *stream, uint32_t j)
{
    const struct router *r = d->router;
    struct gemm by_expert = { .dtype = MOE_F32,
                              .batch = (uint32_t)tokens_of(d),
                              .m = shape_of(d)->experts,
                              .n = 1,
                              .k = d->rows,
                              .a = d->grad_sum,
                              .b = locations_of(d, j),
                              .c = d->grad_gates,
                              .stride_a = places(d),
                              .stride_b = d->rows,
                              .stride_c = shape_of(d)->experts };

    TRY(multiply(stream, by_expert));
    return launch_one_hot_backward(stream,
                                   &(struct one_hot_backward){ .tokens = by_expert.batch,
                                                               .top_k = shape_of(d)->top_k,
                                                               .choice = j,
                                                               .columns = shape_of(d)->experts,
                                                               .expert = r->expert,
                                                               .slot = r->slot,
                                                               .grad = d->grad_gates,
                                                               .grad_scale = r->grad_gate });
}

int dense_decode_backward(const struct dense *d, struct engine *engine, const void *grad_y,
                          const void *rows, void *grad_rows)
{
    struct stream *stream = engine->compute;
    struct gemm of_matrix = { .dtype = d->dtype,
                              .transpose_b = true,
                              .batch = 1,
                              .m = tokens_of(d),
                              .n = places(d),
                              .k = shape_of(d)->model_dim,
                              .a = grad_y,
                              .b = rows,
                              .c = d->grad_combine };

    TRY(multiply(stream, to_rows(d, d->combine, grad_y, grad_rows)));
    TRY(multiply(stream, of_matrix));
    TRY(add_up(stream, of_matrix.m * of_matrix.n, 1, d->dtype, d->grad_combine, MOE_F32,
               d->grad_sum));
    for (uint32_t j = 0; j < shape_of(d)->top_k; j++)
        TRY(grad_of_choice(d, stream, j));
    return OK;
}

int dense_encode_backward(const struct dense *d, struct engine *engine, const void *grad_rows,
                          void *grad_x)
{
    TRY(router_convert(d->router, engine->compute, shape_of(d)->model_dim, MOE_F32,
                       d->router->grad_x, d->dtype, grad_x));
    return multiply(engine->compute, to_tokens(d, d->dispatch, grad_rows, true, grad_x));
}
