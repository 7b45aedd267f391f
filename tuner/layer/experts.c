/* Experts as batched products on (Eg, rows, D): the shape does not depend on how many ranks sent.
 */
#include "experts.h"

#include "shape.h"
#include "status.h"

static uint64_t rows(const struct experts *x)
{
    return geometry_chunk_rows(x->geometry);
}

/* Where the rows of each begin, if they differ: in the memory of the device. */
static const uint64_t *first_rows(const struct experts *x)
{
    return x->geometry->before ? x->uneven->local : NULL;
}

/* What kernels are told of a batch of experts: how many, and rows of each, or of all that differ.
 */
static uint32_t batch(const struct experts *x)
{
    return x->geometry->local * (x->rigid ? x->geometry->peers : 1);
}

static uint64_t batch_rows(const struct experts *x)
{
    if (x->rigid)
        return x->geometry->chunk_rows;
    return x->geometry->before ? geometry_seen_rows(x->geometry) : rows(x);
}

/* Of b1 and b2, from an expert to the next one. */
static uint64_t bias_stride(const struct experts *x, int i)
{
    return i ? layer_bias2_stride(x->shape) : x->geometry->hidden;
}

static void layout_rigid(struct experts *x, struct arena *arena)
{
    uint64_t rows = geometry_seen_rows(x->geometry);
    size_t width = dtype_bytes(x->dtype);

    for (int i = 0; i < 2; i++)
        x->peers_bias[i] = arena_take(arena, size_product(batch(x), bias_stride(x, i)), width);
    if (x->shape->pass != MOE_TRAIN)
        return;
    for (int i = 0; i < 2; i++)
        x->peers_grad[i] = arena_take(arena, size_product(batch(x), bias_stride(x, i)), width);
    x->aligned[0] = arena_take(arena, size_product(rows, x->geometry->hidden), width);
    x->aligned[1] = arena_take(arena, size_product(rows, x->shape->model_dim), width);
}

void experts_layout(struct experts *x, struct arena *arena)
{
    uint64_t elements = size_product(geometry_seen_rows(x->geometry), x->geometry->hidden);
    bool train = x->shape->pass == MOE_TRAIN;
    uint32_t kept = train ? x->geometry->chunks : 1;
    size_t width = dtype_bytes(x->dtype);

    x->pre = x->post = chunks_take(arena, elements, width, kept);
    if (x->shape->activation != MOE_RELU)
        x->post = chunks_take(arena, elements, width, kept);
    if (x->shape->activation == MOE_SWIGLU)
        x->up = chunks_take(arena, elements, width, kept);
    if (x->rigid)
        layout_rigid(x, arena);
    if (!train)
        return;
    x->grad_post = arena_take(arena, elements, width);
    if (x->shape->activation == MOE_SWIGLU)
        x->grad_up = arena_take(arena, elements, width);
}

/* The same where experts differ. */
static int product_of_rows(const struct experts *x, const struct gemm *g)
{
    return launch_gemm_rows(x->stream, &(struct gemm_rows){ .dtype = g->dtype,
                                                            .sums = g->transpose_a,
                                                            .transpose_b = g->transpose_b,
                                                            .keep = g->keep,
                                                            .experts = x->geometry->local,
                                                            .n = g->n,
                                                            .k = g->transpose_a ? g->m : g->k,
                                                            .first = x->uneven->seen,
                                                            .a = g->a,
                                                            .b = g->b,
                                                            .c = g->c });
}

/* Where rows stay as they arrived, each peer's are multiplied by themselves, all of one expert at
 * once. */
static int product_of_peers(const struct experts *x, struct gemm g)
{
    const struct geometry *at = x->geometry;
    size_t width = dtype_bytes(x->dtype);

    g.batch = at->peers;
    g.m = at->chunk_rows;
    g.stride_a = at->local * g.m * g.k;
    g.stride_c = at->local * g.m * g.n;
    for (uint32_t i = 0; i < at->local; i++) {
        TRY(launch_gemm(x->stream, &g));
        g.a = (const char *)g.a + g.m * g.k * width;
        g.b = (const char *)g.b + g.k * g.n * width;
        g.c = (char *)g.c + g.m * g.n * width;
    }
    return OK;
}

/* From (peers, local, rows) to (local, peers, rows): a sum over all rows of an expert wants them
 * together. */
static int align_rows(const struct experts *x, uint64_t columns, const void *from, void *to)
{
    const struct geometry *g = x->geometry;

    return launch_move(x->stream, &(struct move){ .from_type = x->dtype,
                                                  .to_type = x->dtype,
                                                  .block = g->chunk_rows * columns,
                                                  .dims = { g->peers, g->local, 1 },
                                                  .from_stride = { g->local, 1, 0 },
                                                  .to_stride = { 1, g->peers, 0 },
                                                  .terms = 1,
                                                  .from = from,
                                                  .to = to });
}

/* One product per local expert; its matrices lie one after the other. */
static int product(const struct experts *x, struct gemm g)
{
    g.dtype = x->dtype;
    if (x->geometry->before)
        return product_of_rows(x, &g);
    if (x->rigid && !g.transpose_a)
        return product_of_peers(x, g);
    if (x->rigid) {
        TRY(align_rows(x, g.m, g.a, x->aligned[0]));
        TRY(align_rows(x, g.n, g.b, x->aligned[1]));
        g.a = x->aligned[0];
        g.b = x->aligned[1];
    }
    g.batch = x->geometry->local;
    g.stride_a = g.m * g.k;
    g.stride_b = g.k * g.n;
    g.stride_c = g.m * g.n;
    return launch_gemm(x->stream, &g);
}

/* (rows, D) times a hidden-major matrix, transposed: (rows, hidden). */
static int to_hidden(const struct experts *x, const void *in, const void *weight, void *out)
{
    return product(x, (struct gemm){ .transpose_b = true,
                                     .m = rows(x),
                                     .n = x->geometry->hidden,
                                     .k = x->shape->model_dim,
                                     .a = in,
                                     .b = weight,
                                     .c = out });
}

/* (rows, hidden) times a hidden-major matrix: (rows, D). */
static int from_hidden(const struct experts *x, const void *in, const void *weight, bool keep,
                       void *out)
{
    return product(x, (struct gemm){ .keep = keep,
                                     .m = rows(x),
                                     .n = x->shape->model_dim,
                                     .k = x->geometry->hidden,
                                     .a = in,
                                     .b = weight,
                                     .c = out });
}

/* Gradient of a hidden-major matrix: (rows, hidden) transposed, times (rows, D). */
static int weight_grad(const struct experts *x, const void *hidden, const void *outer, bool keep,
                       void *grad)
{
    return product(x, (struct gemm){ .transpose_a = true,
                                     .keep = keep,
                                     .m = x->geometry->hidden,
                                     .n = x->shape->model_dim,
                                     .k = rows(x),
                                     .a = hidden,
                                     .b = outer,
                                     .c = grad });
}

static const enum tensor biases[] = { TENSOR_B1, TENSOR_B2 };

/* Biases are the same for all peers, whose rows lie apart. */
static int repeat_biases(const struct experts *x)
{
    for (int i = 0; i < 2; i++)
        TRY(launch_move(x->stream, &(struct move){ .from_type = x->dtype,
                                                   .to_type = x->dtype,
                                                   .block = x->geometry->local * bias_stride(x, i),
                                                   .dims = { x->geometry->peers, 1, 1 },
                                                   .to_stride = { 1, 0, 0 },
                                                   .terms = 1,
                                                   .from = x->weights->tensors[biases[i]].compute,
                                                   .to = x->peers_bias[i] }));
    return OK;
}

static const void *bias(const struct experts *x, int i)
{
    return x->rigid ? x->peers_bias[i] : x->weights->tensors[biases[i]].compute;
}

int experts_forward(void *self, uint32_t chunk, const void *in, void *out)
{
    const struct experts *x = self;
    const struct geometry *g = x->geometry;
    const struct weight *w = x->weights->tensors;
    void *pre = chunk_at(x->pre, chunk), *post = chunk_at(x->post, chunk);
    void *up = chunk_at(x->up, chunk);

    if (x->rigid && chunk == 0)
        TRY(repeat_biases(x));
    TRY(to_hidden(x, in, w[TENSOR_W1].compute, pre));
    if (up)
        TRY(to_hidden(x, in, w[TENSOR_W3].compute, up));
    TRY(launch_activate(x->stream, &(struct activate){ .dtype = x->dtype,
                                                       .kind = x->shape->activation,
                                                       .batch = batch(x),
                                                       .rows = batch_rows(x),
                                                       .width = g->hidden,
                                                       .first = first_rows(x),
                                                       .bias = bias(x, 0),
                                                       .pre = pre,
                                                       .up = up,
                                                       .post = post }));
    TRY(from_hidden(x, post, w[TENSOR_W2].compute, false, out));
    if (g->slice != 0)
        return OK; /* the slices' outputs are summed: only one may bring the bias */
    return launch_add_bias(x->stream,
                           &(struct add_bias){ .dtype = x->dtype,
                                               .batch = batch(x),
                                               .rows = batch_rows(x),
                                               .width = x->shape->model_dim,
                                               .first = first_rows(x),
                                               .bias_stride = layer_bias2_stride(x->shape),
                                               .bias = bias(x, 1),
                                               .to = out });
}

/* Of all rows, or of none: of b1 or b2. */
static int bias_grad(const struct experts *x, int i, const void *from, bool any, uint64_t width,
                     bool keep)
{
    void *grad = x->weights->tensors[biases[i]].grad;

    TRY(launch_sum_rows(x->stream, &(struct sum_rows){ .dtype = x->dtype,
                                                       .keep = keep,
                                                       .batch = batch(x),
                                                       .rows = any ? batch_rows(x) : 0,
                                                       .width = width,
                                                       .first = any ? first_rows(x) : NULL,
                                                       .to_stride = bias_stride(x, i),
                                                       .from = from,
                                                       .to = x->rigid ? x->peers_grad[i] : grad }));
    if (!x->rigid)
        return OK;
    return launch_move(x->stream, &(struct move){ .from_type = x->dtype,
                                                  .to_type = x->dtype,
                                                  .block = x->geometry->local * bias_stride(x, i),
                                                  .dims = { 1, 1, 1 },
                                                  .terms = x->geometry->peers,
                                                  .term_stride = 1,
                                                  .from = x->peers_grad[i],
                                                  .to = grad });
}

int experts_backward(void *self, uint32_t chunk, const void *in, void *out)
{
    const struct experts *x = self;
    const struct geometry *g = x->geometry;
    const struct weight *w = x->weights->tensors;
    const void *rows_in = chunk_at(*x->seen, chunk);
    void *pre = chunk_at(x->pre, chunk), *up = chunk_at(x->up, chunk);
    bool keep = chunk > 0; /* gradients of the chunks add up */

    /* Slices other than the first did not add b2: they give it a gradient of zero. */
    TRY(bias_grad(x, 1, in, g->slice == 0, x->shape->model_dim, keep));
    TRY(weight_grad(x, chunk_at(x->post, chunk), in, keep, w[TENSOR_W2].grad));
    TRY(to_hidden(x, in, w[TENSOR_W2].compute, x->grad_post));
    TRY(launch_activate_backward(x->stream,
                                 &(struct activate_backward){ .dtype = x->dtype,
                                                              .kind = x->shape->activation,
                                                              .batch = g->before ? 1 : batch(x),
                                                              .rows = batch_rows(x),
                                                              .width = g->hidden,
                                                              .pre = pre,
                                                              .up = up,
                                                              .grad_post = x->grad_post,
                                                              .grad_pre = x->grad_post,
                                                              .grad_up = x->grad_up }));
    TRY(bias_grad(x, 0, x->grad_post, true, g->hidden, keep));
    TRY(weight_grad(x, x->grad_post, rows_in, keep, w[TENSOR_W1].grad));
    TRY(from_hidden(x, x->grad_post, w[TENSOR_W1].compute, false, out));
    if (!up)
        return OK;
    TRY(weight_grad(x, x->grad_up, rows_in, keep, w[TENSOR_W3].grad));
    return from_hidden(x, x->grad_up, w[TENSOR_W3].compute, true, out);
}
