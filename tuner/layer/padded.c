/* The way of padded experts: rows travel to their experts (trip.h), which compute them by batched
 * products on (Eg, rows, D), and the results travel back. */
#include "padded.h"

#include "baseline.h"
#include "shape.h"
#include "status.h"

static struct padded *padded_of(const struct exec *x)
{
    return x->state;
}

static bool is_rigid(const struct exec *x)
{
    return x->baseline & BASELINE_RIGID;
}

/* ---- Rows of a chunk, from all peers */

static uint64_t chunk_rows(const struct exec *x)
{
    return geometry_chunk_rows(&x->geometry);
}

static uint64_t expert_rows(const struct exec *x, uint32_t chunk, uint32_t local)
{
    const uint64_t *seen;

    if (!uneven_applies(&x->uneven))
        return chunk_rows(x);
    seen = uneven_seen(&x->uneven, &x->geometry, chunk);
    return seen[local + 1] - seen[local];
}

/* The two biases, in the order of `biases` below. */
enum bias { BIAS_B1, BIAS_B2, BIAS_COUNT };

/* Elements of b1 or b2 from one expert to the next. */
static uint64_t bias_stride(const struct exec *x, enum bias i)
{
    return i == BIAS_B2 ? layer_bias2_stride(&x->layer->shape) : x->geometry.hidden;
}

/* ---- Blocks of rows */

/* Rows that go through all products of a pass before the next block does: some rows of one expert,
 * or all rows of some experts. */
struct block {
    uint32_t chunk;
    uint32_t expert, experts; /* first expert, and number of experts (the kernels' batch) */
    uint64_t first_row;       /* where its rows begin in the chunk */
    uint64_t row, rows;       /* of each expert; with `first`, rows of all experts together */
    const uint64_t *first;    /* where each expert's rows begin, in the device's memory; or NULL */
};

/* The most rows of a block; 0: a whole chunk is one block.  On cores a block's result is read again
 * before it leaves the cache, so that a row takes the same time whatever d is.  But each block
 * reads the matrices and adds to their gradients; so large matrices need large blocks. */
static uint64_t block_rows_limit(const struct exec *x)
{
    uint64_t least = x->engine ? x->engine->device->block_rows : 0;
    uint64_t D = x->layer->shape.model_dim, H = x->geometry.hidden;
    uint64_t by_matrix = 2 * D * H / (D + H);

    if (!least || is_rigid(x))
        return 0;
    return by_matrix > least ? by_matrix : least;
}

/* Goes to the next block of b->chunk, or from a zeroed block to the first; false: there is none. An
 * expert's blocks have about equal sizes, because a small last block would read all matrices for a
 * few rows. */
static bool block_next(const struct exec *x, struct block *b)
{
    const struct geometry *g = &x->geometry;
    uint64_t limit = block_rows_limit(x), expert_total, rows_left, blocks;
    bool is_uneven = uneven_applies(&x->uneven);

    if (!limit) {
        bool is_first = !b->experts && g->local;

        *b = (struct block){ .chunk = b->chunk,
                             .experts = g->local * (is_rigid(x) ? g->peers : 1),
                             .rows = is_rigid(x) ? g->chunk_rows : chunk_rows(x) };
        if (is_uneven) {
            b->first = uneven_local(&x->uneven, g, b->chunk);
            b->rows = uneven_seen(&x->uneven, g, b->chunk)[g->local];
        }
        return is_first;
    }
    b->first_row += b->experts * b->rows;
    b->row += b->rows;
    if (b->experts && b->row >= expert_rows(x, b->chunk, b->expert)) {
        b->expert += b->experts;
        b->row = 0;
    }
    if (b->expert >= g->local)
        return false;
    expert_total = expert_rows(x, b->chunk, b->expert);
    rows_left = expert_total - b->row;
    blocks = (rows_left + limit - 1) / limit;
    b->rows = blocks ? (rows_left + blocks - 1) / blocks : 0;
    b->experts = is_uneven || !expert_total || limit / expert_total < 1
                     ? 1
                     : (uint32_t)(limit / expert_total);
    if (b->experts > g->local - b->expert)
        b->experts = g->local - b->expert;
    return true;
}

static void *rows_of(const struct exec *x, const struct block *b, const void *base, uint64_t width)
{
    return base ? (char *)base + b->first_row * width * dtype_bytes(x->compute_type) : NULL;
}

/* ---- Layout */

static struct trip new_trip(const struct exec *x)
{
    const struct moe_shape *shape = &x->layer->shape;

    return (struct trip){ .geometry = &x->geometry,
                          .uneven = &x->uneven,
                          .experts = shape->experts / x->geometry.sources,
                          .width = shape->model_dim,
                          .dtype = shape->dtype,
                          .compute_type = x->compute_type,
                          .algorithm = x->algorithm,
                          .rigid = is_rigid(x),
                          .naive = x->baseline & BASELINE_NAIVE,
                          .ctas = x->plan.ctas };
}

void padded_layout(struct exec *x, struct arena *arena)
{
    const struct moe_shape *s = &x->layer->shape;
    const struct wire *wire = x->engine ? x->engine->wire : NULL;
    uint64_t seen = geometry_seen_rows(&x->geometry);
    uint64_t elements = size_product(seen, x->geometry.hidden);
    bool train = s->pass == MOE_TRAIN;
    uint32_t kept_chunks = train ? x->geometry.chunks : 1;
    size_t width = dtype_bytes(x->compute_type);
    uint64_t block_elements = size_product(block_rows_limit(x), x->geometry.hidden);
    struct padded *p = x->state;

    p->forward = new_trip(x);
    trip_layout(&p->forward, x->topology, wire, train, arena);
    if (train) {
        p->backward = new_trip(x);
        trip_layout(&p->backward, x->topology, wire, false, arena);
    }
    /* Results of the experts that backward needs. */
    p->pre = p->post = chunks_alloc(arena, elements, width, kept_chunks);
    if (s->activation != MOE_RELU)
        p->post = chunks_alloc(arena, elements, width, kept_chunks);
    if (s->activation == MOE_SWIGLU)
        p->up = chunks_alloc(arena, elements, width, kept_chunks);
    for (enum bias i = 0; i < BIAS_COUNT && is_rigid(x); i++) {
        uint64_t n = size_product(x->geometry.local * x->geometry.peers, bias_stride(x, i));

        p->peers_bias[i] = arena_alloc(arena, n, width);
        if (train)
            p->peers_grad[i] = arena_alloc(arena, n, width);
    }
    if (!train)
        return;
    if (is_rigid(x)) {
        p->aligned[0] = arena_alloc(arena, elements, width);
        p->aligned[1] = arena_alloc(arena, size_product(seen, s->model_dim), width);
    }
    if (block_elements && block_elements < elements)
        elements = block_elements;
    p->grad_post = arena_alloc(arena, elements, width);
    if (s->activation == MOE_SWIGLU)
        p->grad_up = arena_alloc(arena, elements, width);
}

int padded_open(struct exec *x)
{
    struct padded *p = x->state;

    TRY(trip_open(&p->forward, x->engine));
    return x->layer->shape.pass == MOE_TRAIN ? trip_open(&p->backward, x->engine) : OK;
}

void padded_close(struct exec *x)
{
    struct padded *p = x->state;

    trip_close(&p->backward);
    trip_close(&p->forward);
}

/* ---- Products */

/* The product of the baseline `rigid`: one batch for each expert, with a product for each peer's
 * rows. */
static int product_of_peers(const struct exec *x, struct gemm g)
{
    const struct geometry *geometry = &x->geometry;
    size_t width = dtype_bytes(x->compute_type);

    g.batch = geometry->peers;
    g.m = geometry->chunk_rows;
    g.stride_a = geometry->local * g.m * g.k;
    g.stride_c = geometry->local * g.m * g.n;
    for (uint32_t i = 0; i < geometry->local; i++) {
        TRY(launch_gemm(x->engine->compute, &g));
        g.a = (const char *)g.a + g.m * g.k * width;
        g.b = (const char *)g.b + g.k * g.n * width;
        g.c = (char *)g.c + g.m * g.n * width;
    }
    return OK;
}

/* Reorders (peers, local, rows) to (local, peers, rows), for sums over all rows of an expert. */
static int align_rows(const struct exec *x, uint64_t columns, const void *from, void *to)
{
    const struct geometry *g = &x->geometry;

    return launch_move(x->engine->compute, &(struct move){ .from_type = x->compute_type,
                                                           .to_type = x->compute_type,
                                                           .block = g->chunk_rows * columns,
                                                           .dims = { g->peers, g->local, 1 },
                                                           .from_stride = { g->local, 1, 0 },
                                                           .to_stride = { 1, g->peers, 0 },
                                                           .terms = 1,
                                                           .from = from,
                                                           .to = to });
}

/* Launches the products of a block, one per expert; the experts' matrices lie one after the other.
 */
static int multiply_rows(const struct exec *x, const struct block *b, struct gemm g)
{
    size_t width = dtype_bytes(x->compute_type);

    g.dtype = x->compute_type;
    if (b->first) /* the experts' numbers of rows differ */
        return launch_gemm_rows(
            x->engine->compute,
            &(struct gemm_rows){ .dtype = g.dtype,
                                 .sums = g.transpose_a,
                                 .transpose_b = g.transpose_b,
                                 .keep = g.keep,
                                 .experts = b->experts,
                                 .n = g.n,
                                 .k = g.transpose_a ? g.m : g.k,
                                 .first = uneven_seen(&x->uneven, &x->geometry, b->chunk),
                                 .a = g.a,
                                 .b = g.b,
                                 .c = g.c });
    if (is_rigid(x) && !g.transpose_a)
        return product_of_peers(x, g);
    if (is_rigid(x)) {
        TRY(align_rows(x, g.m, g.a, padded_of(x)->aligned[0]));
        TRY(align_rows(x, g.n, g.b, padded_of(x)->aligned[1]));
        g.a = padded_of(x)->aligned[0];
        g.b = padded_of(x)->aligned[1];
        g.k = chunk_rows(x);
        g.batch = x->geometry.local;
    } else {
        g.batch = b->experts;
    }
    g.stride_a = g.m * g.k;
    g.stride_b = g.k * g.n;
    g.stride_c = g.m * g.n;
    if (g.transpose_a)
        g.c = (char *)g.c + b->expert * g.stride_c * width;
    else
        g.b = (const char *)g.b + b->expert * g.stride_b * width;
    return launch_gemm(x->engine->compute, &g);
}

/* (rows, D) times a hidden-major matrix, transposed: (rows, hidden). */
static int multiply_to_hidden(const struct exec *x, const struct block *b, const void *in,
                              const void *weight, void *out)
{
    return multiply_rows(x, b,
                         (struct gemm){ .transpose_b = true,
                                        .m = b->rows,
                                        .n = x->geometry.hidden,
                                        .k = x->layer->shape.model_dim,
                                        .a = in,
                                        .b = weight,
                                        .c = out });
}

/* (rows, hidden) times a hidden-major matrix: (rows, D). */
static int multiply_from_hidden(const struct exec *x, const struct block *b, const void *in,
                                const void *weight, bool keep, void *out)
{
    return multiply_rows(x, b,
                         (struct gemm){ .keep = keep,
                                        .m = b->rows,
                                        .n = x->layer->shape.model_dim,
                                        .k = x->geometry.hidden,
                                        .a = in,
                                        .b = weight,
                                        .c = out });
}

/* True for every block but the first of an expert: gradients add up over chunks and blocks. */
static bool adds_to_gradients(const struct block *b)
{
    return b->chunk > 0 || b->row > 0;
}

/* Gradient of a hidden-major matrix: (rows, hidden) transposed, times (rows, D). */
static int compute_weight_grad(const struct exec *x, const struct block *b, const void *hidden,
                               const void *outer, void *grad)
{
    return multiply_rows(x, b,
                         (struct gemm){ .transpose_a = true,
                                        .keep = adds_to_gradients(b),
                                        .m = x->geometry.hidden,
                                        .n = x->layer->shape.model_dim,
                                        .k = b->rows,
                                        .a = hidden,
                                        .b = outer,
                                        .c = grad });
}

/* ---- Biases */

static const enum tensor biases[BIAS_COUNT] = { [BIAS_B1] = TENSOR_B1, [BIAS_B2] = TENSOR_B2 };

/* The biases of the block's experts, b1 or b2, or their gradients. */
static void *bias_of(const struct exec *x, const struct block *b, enum bias i, const void *base)
{
    return (char *)base + b->expert * bias_stride(x, i) * dtype_bytes(x->compute_type);
}

static const void *forward_bias(const struct exec *x, const struct block *b, enum bias i)
{
    return is_rigid(x) ? padded_of(x)->peers_bias[i]
                       : bias_of(x, b, i, x->weights.tensors[biases[i]].compute);
}

/* Computes the gradient of b1 or b2: the sum over all rows; zero where this slice did not add the
 * bias. */
static int compute_bias_grad(const struct exec *x, const struct block *b, enum bias i,
                             const void *from, bool was_added)
{
    void *grad = x->weights.tensors[biases[i]].grad;

    TRY(launch_sum_rows(
        x->engine->compute,
        &(struct sum_rows){ .dtype = x->compute_type,
                            .keep = adds_to_gradients(b),
                            .batch = b->experts,
                            .rows = was_added ? b->rows : 0,
                            .width = i == BIAS_B2 ? x->layer->shape.model_dim : x->geometry.hidden,
                            .first = was_added ? b->first : NULL,
                            .to_stride = bias_stride(x, i),
                            .from = from,
                            .to = is_rigid(x) ? padded_of(x)->peers_grad[i]
                                              : bias_of(x, b, i, grad) }));
    if (!is_rigid(x))
        return OK;
    return launch_move(x->engine->compute,
                       &(struct move){ .from_type = x->compute_type,
                                       .to_type = x->compute_type,
                                       .block = x->geometry.local * bias_stride(x, i),
                                       .dims = { 1, 1, 1 },
                                       .terms = x->geometry.peers,
                                       .term_stride = 1,
                                       .from = padded_of(x)->peers_grad[i],
                                       .to = grad });
}

/* ---- Experts: one block, and one chunk */

static int block_forward(const struct exec *x, const struct block *b, const void *in, void *out)
{
    const struct padded *p = x->state;
    const struct weight *w = x->weights.tensors;
    uint64_t D = x->layer->shape.model_dim, H = x->geometry.hidden;
    void *pre = rows_of(x, b, chunk_at(p->pre, b->chunk), H);
    void *post = rows_of(x, b, chunk_at(p->post, b->chunk), H);
    void *up = rows_of(x, b, chunk_at(p->up, b->chunk), H);

    in = rows_of(x, b, in, D);
    out = rows_of(x, b, out, D);
    TRY(multiply_to_hidden(x, b, in, w[TENSOR_W1].compute, pre));
    if (up)
        TRY(multiply_to_hidden(x, b, in, w[TENSOR_W3].compute, up));
    TRY(launch_activate(x->engine->compute, &(struct activate){ .dtype = x->compute_type,
                                                                .kind = x->layer->shape.activation,
                                                                .batch = b->experts,
                                                                .rows = b->rows,
                                                                .width = H,
                                                                .first = b->first,
                                                                .bias = forward_bias(x, b, BIAS_B1),
                                                                .pre = pre,
                                                                .up = up,
                                                                .post = post }));
    TRY(multiply_from_hidden(x, b, post, w[TENSOR_W2].compute, false, out));
    if (x->geometry.slice != 0)
        return OK; /* the outputs of all slices are added up, so only one adds the bias */
    return launch_add_bias(x->engine->compute,
                           &(struct add_bias){ .dtype = x->compute_type,
                                               .batch = b->experts,
                                               .rows = b->rows,
                                               .width = D,
                                               .first = b->first,
                                               .bias_stride = bias_stride(x, BIAS_B2),
                                               .bias = forward_bias(x, b, BIAS_B2),
                                               .to = out });
}

static int experts_forward(void *self, uint32_t chunk, const void *in, void *out)
{
    struct exec *x = self;
    const struct padded *p = x->state;
    const struct geometry *g = &x->geometry;
    struct block b = { .chunk = chunk };

    /* For `rigid`: each peer's rows need a copy of the biases. */
    for (enum bias i = 0; i < BIAS_COUNT && is_rigid(x) && chunk == 0; i++)
        TRY(launch_move(x->engine->compute,
                        &(struct move){ .from_type = x->compute_type,
                                        .to_type = x->compute_type,
                                        .block = g->local * bias_stride(x, i),
                                        .dims = { g->peers, 1, 1 },
                                        .to_stride = { 1, 0, 0 },
                                        .terms = 1,
                                        .from = x->weights.tensors[biases[i]].compute,
                                        .to = p->peers_bias[i] }));
    while (block_next(x, &b))
        TRY(block_forward(x, &b, in, out));
    return OK;
}

static int block_backward(const struct exec *x, const struct block *b, const void *in, void *out)
{
    const struct padded *p = x->state;
    const struct weight *w = x->weights.tensors;
    uint64_t D = x->layer->shape.model_dim, H = x->geometry.hidden;
    const void *rows_in = rows_of(x, b, chunk_at(p->forward.in, b->chunk), D);
    void *pre = rows_of(x, b, chunk_at(p->pre, b->chunk), H);
    void *up = rows_of(x, b, chunk_at(p->up, b->chunk), H);

    in = rows_of(x, b, in, D);
    out = rows_of(x, b, out, D);
    /* Other slices than the first did not add b2, so their gradient of b2 is zero. */
    TRY(compute_bias_grad(x, b, BIAS_B2, in, x->geometry.slice == 0));
    TRY(compute_weight_grad(x, b, rows_of(x, b, chunk_at(p->post, b->chunk), H), in,
                            w[TENSOR_W2].grad));
    TRY(multiply_to_hidden(x, b, in, w[TENSOR_W2].compute, p->grad_post));
    TRY(launch_activate_backward(x->engine->compute,
                                 &(struct activate_backward){ .dtype = x->compute_type,
                                                              .kind = x->layer->shape.activation,
                                                              .batch = b->first ? 1 : b->experts,
                                                              .rows = b->rows,
                                                              .width = H,
                                                              .pre = pre,
                                                              .up = up,
                                                              .grad_post = p->grad_post,
                                                              .grad_pre = p->grad_post,
                                                              .grad_up = p->grad_up }));
    TRY(compute_bias_grad(x, b, BIAS_B1, p->grad_post, true));
    TRY(compute_weight_grad(x, b, p->grad_post, rows_in, w[TENSOR_W1].grad));
    TRY(multiply_from_hidden(x, b, p->grad_post, w[TENSOR_W1].compute, false, out));
    if (!up)
        return OK;
    TRY(compute_weight_grad(x, b, p->grad_up, rows_in, w[TENSOR_W3].grad));
    return multiply_from_hidden(x, b, p->grad_up, w[TENSOR_W3].compute, true, out);
}

static int experts_backward(void *self, uint32_t chunk, const void *in, void *out)
{
    const struct exec *x = self;
    struct block b = { .chunk = chunk };

    while (block_next(x, &b))
        TRY(block_backward(x, &b, in, out));
    return OK;
}

/* ---- The trips */

int padded_trip(struct exec *x, const void *tokens)
{
    struct trip *trip = &padded_of(x)->forward;

    TRY(trip_depart(trip, x->engine));
    if (way_has_known_routes(x))
        TRY(router_gates(&x->router, x->engine, tokens)); /* while the first rows travel */
    TRY(weights_ready(&x->weights, x->engine, 0));
    TRY(trip_compute(trip, x->engine, experts_forward, x));
    TRY(trip_return(trip, x->engine));
    return trip_unpack(trip, x->engine);
}

int padded_trip_back(struct exec *x, bool with_router)
{
    struct trip *trip = &padded_of(x)->backward;

    TRY(trip_depart(trip, x->engine));
    /* The gate's gradient needs no row that travels, so it fills the wait for chunk 0. */
    if (with_router)
        TRY(router_backward(&x->router, x->engine, false));
    TRY(trip_compute(trip, x->engine, experts_backward, x));
    TRY(trip_return(trip, x->engine));
    /* Before the unpacking, which waits for the last return: so the two exchanges follow each other
     * without a gap. */
    TRY(weights_reduce(&x->weights, x->engine));
    return trip_unpack(trip, x->engine);
}

/* ---- The way `padded` itself */

static struct routing padded_routing(const struct exec *x)
{
    bool is_uneven = uneven_applies(&x->uneven);
    struct routing routing = router_routing(&x->router, x->geometry.capacity,
                                            is_uneven ? x->uneven.total : x->geometry.rows);

    if (is_uneven) {
        routing.first = x->uneven.first;
        routing.capacities = x->uneven.capacities;
    }
    return routing;
}

static int forward(struct exec *x, const void *tokens, void *y)
{
    const struct padded *p = x->state;
    uint32_t dtype = x->layer->shape.dtype;
    struct encode encode = {
        .routing = padded_routing(x), .dtype = dtype, .from = tokens, .to = p->forward.home
    };

    TRY(launch_encode(x->engine->compute, &encode));
    TRY(padded_trip(x, tokens));
    if (x->layer->shape.combine == MOE_COMBINE_CHOICES) { /* unweighted */
        struct encode_backward choices = { .routing = router_choices(&x->router, padded_routing(x)),
                                           .dtype = dtype,
                                           .from = p->forward.back,
                                           .to = y };

        return launch_encode_backward(x->engine->compute, &choices);
    }
    return launch_decode(x->engine->compute, &(struct decode){ .routing = padded_routing(x),
                                                               .dtype = dtype,
                                                               .gate = x->router.gate,
                                                               .from = p->forward.back,
                                                               .to = y });
}

static int backward(struct exec *x, const void *grad_y, void *grad_x)
{
    const struct padded *p = x->state;
    struct decode_backward decode = { .routing = router_choices(&x->router, padded_routing(x)),
                                      .dtype = x->layer->shape.dtype,
                                      .gate = x->router.gate,
                                      .grad = grad_y,
                                      .result = p->forward.back,
                                      .to = p->backward.home,
                                      .grad_gate = x->router.grad_gate };
    struct encode_backward encode = { .routing = padded_routing(x),
                                      .dtype = x->layer->shape.dtype,
                                      .from = p->backward.back,
                                      .add = x->router.grad_x,
                                      .to = grad_x };

    TRY(launch_decode_backward(x->engine->compute, &decode));
    TRY(padded_trip_back(x, true));
    return launch_encode_backward(x->engine->compute, &encode);
}

const struct way_ops way_padded = { .state_bytes = WAY_STATE_BYTES(struct padded),
                                    .layout = padded_layout,
                                    .open = padded_open,
                                    .close = padded_close,
                                    .forward = forward,
                                    .backward = backward };
