/* Takes padded rows through their trips, and through the experts: batched products on (Eg, rows,
 * D), whose shape does not depend on how many ranks sent. */
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

/* ---- What experts see of a chunk */

static uint64_t rows(const struct exec *x)
{
    return geometry_chunk_rows(&x->geometry);
}

static uint64_t expert_rows(const struct exec *x, uint32_t chunk, uint32_t local)
{
    const uint64_t *seen;

    if (!uneven_applies(&x->uneven))
        return rows(x);
    seen = uneven_seen(&x->uneven, &x->geometry, chunk);
    return seen[local + 1] - seen[local];
}

/* Elements of b1 or b2 (i = 0 or 1) from one expert to the next. */
static uint64_t bias_stride(const struct exec *x, int i)
{
    return i ? layer_bias2_stride(&x->layer->shape) : x->geometry.hidden;
}

/* ---- Blocks of rows */

/* What goes through all products of a pass before the next rows do: some rows of an expert, or all
 * rows of some experts. */
struct block {
    uint32_t chunk;
    uint32_t expert, experts; /* as kernels have them: batches */
    uint64_t at;              /* where its rows begin in the chunk */
    uint64_t row, rows;       /* of each expert; of all, where `first` is a table */
    const uint64_t *first;    /* where each one's rows begin, in the memory of the device */
};

/* How many rows a block has at most; 0: a chunk is one.  On cores what a product has made is read
 * again before it leaves the cache, so that rows take the same time whatever d is.  Each block also
 * reads the matrices, and adds to their gradients: where these are large, so is a block. */
static uint64_t block_most(const struct exec *x)
{
    uint64_t least = x->engine ? x->engine->device->block_rows : 0;
    uint64_t D = x->layer->shape.model_dim, H = x->geometry.hidden;
    uint64_t by_matrix = 2 * D * H / (D + H);

    if (!least || is_rigid(x))
        return 0;
    return by_matrix > least ? by_matrix : least;
}

/* From a block that is zeroed but for its chunk to the first one, and on; false: there is none.  An
 * expert's blocks are about equal: a last one of a few rows would read all the matrices for them.
 */
static bool block_next(const struct exec *x, struct block *b)
{
    const struct geometry *g = &x->geometry;
    uint64_t most = block_most(x), all, left, blocks;
    bool differ = uneven_applies(&x->uneven);

    if (!most) {
        bool more = !b->experts && g->local;

        *b = (struct block){ .chunk = b->chunk,
                             .experts = g->local * (is_rigid(x) ? g->peers : 1),
                             .rows = is_rigid(x) ? g->chunk_rows : rows(x) };
        if (differ) {
            b->first = uneven_local(&x->uneven, g, b->chunk);
            b->rows = uneven_seen(&x->uneven, g, b->chunk)[g->local];
        }
        return more;
    }
    b->at += b->experts * b->rows;
    b->row += b->rows;
    if (b->experts && b->row >= expert_rows(x, b->chunk, b->expert)) {
        b->expert += b->experts;
        b->row = 0;
    }
    if (b->expert >= g->local)
        return false;
    all = expert_rows(x, b->chunk, b->expert);
    left = all - b->row;
    blocks = (left + most - 1) / most;
    b->rows = blocks ? (left + blocks - 1) / blocks : 0;
    b->experts = differ || !all || most / all < 1 ? 1 : (uint32_t)(most / all);
    if (b->experts > g->local - b->expert)
        b->experts = g->local - b->expert;
    return true;
}

static void *rows_of(const struct exec *x, const struct block *b, const void *base, uint64_t width)
{
    return base ? (char *)base + b->at * width * dtype_bytes(x->compute_type) : NULL;
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
    uint32_t kept = train ? x->geometry.chunks : 1;
    size_t width = dtype_bytes(x->compute_type);
    uint64_t most = size_product(block_most(x), x->geometry.hidden);
    struct padded *p = x->state;

    p->forward = new_trip(x);
    trip_layout(&p->forward, x->topology, wire, train, arena);
    if (train) {
        p->backward = new_trip(x);
        trip_layout(&p->backward, x->topology, wire, false, arena);
    }
    /* What the experts keep. */
    p->pre = p->post = chunks_take(arena, elements, width, kept);
    if (s->activation != MOE_RELU)
        p->post = chunks_take(arena, elements, width, kept);
    if (s->activation == MOE_SWIGLU)
        p->up = chunks_take(arena, elements, width, kept);
    for (int i = 0; i < 2 && is_rigid(x); i++) {
        uint64_t n = size_product(x->geometry.local * x->geometry.peers, bias_stride(x, i));

        p->peers_bias[i] = arena_take(arena, n, width);
        if (train)
            p->peers_grad[i] = arena_take(arena, n, width);
    }
    if (!train)
        return;
    if (is_rigid(x)) {
        p->aligned[0] = arena_take(arena, elements, width);
        p->aligned[1] = arena_take(arena, size_product(seen, s->model_dim), width);
    }
    if (most && most < elements)
        elements = most;
    p->grad_post = arena_take(arena, elements, width);
    if (s->activation == MOE_SWIGLU)
        p->grad_up = arena_take(arena, elements, width);
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

/* Where rows stay as they arrived, each peer's are multiplied by themselves, all of one expert at
 * once. */
static int product_of_peers(const struct exec *x, struct gemm g)
{
    const struct geometry *at = &x->geometry;
    size_t width = dtype_bytes(x->compute_type);

    g.batch = at->peers;
    g.m = at->chunk_rows;
    g.stride_a = at->local * g.m * g.k;
    g.stride_c = at->local * g.m * g.n;
    for (uint32_t i = 0; i < at->local; i++) {
        TRY(launch_gemm(x->engine->compute, &g));
        g.a = (const char *)g.a + g.m * g.k * width;
        g.b = (const char *)g.b + g.k * g.n * width;
        g.c = (char *)g.c + g.m * g.n * width;
    }
    return OK;
}

/* From (peers, local, rows) to (local, peers, rows): a sum over all rows of an expert wants them
 * together. */
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

/* The block's products: one per expert, whose matrices lie one after the other. */
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
        g.k = rows(x);
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
static int to_hidden(const struct exec *x, const struct block *b, const void *in,
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
static int from_hidden(const struct exec *x, const struct block *b, const void *in,
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

/* Gradients add up over the chunks, and over an expert's blocks. */
static bool keeps(const struct block *b)
{
    return b->chunk > 0 || b->row > 0;
}

/* Gradient of a hidden-major matrix: (rows, hidden) transposed, times (rows, D). */
static int weight_grad(const struct exec *x, const struct block *b, const void *hidden,
                       const void *outer, void *grad)
{
    return multiply_rows(x, b,
                         (struct gemm){ .transpose_a = true,
                                        .keep = keeps(b),
                                        .m = x->geometry.hidden,
                                        .n = x->layer->shape.model_dim,
                                        .k = b->rows,
                                        .a = hidden,
                                        .b = outer,
                                        .c = grad });
}

/* ---- Biases */

static const enum tensor biases[] = { TENSOR_B1, TENSOR_B2 };

/* Those of the block's experts, of b1 or b2 (i = 0 or 1), or their gradients. */
static void *bias_of(const struct exec *x, const struct block *b, int i, const void *base)
{
    return (char *)base + b->expert * bias_stride(x, i) * dtype_bytes(x->compute_type);
}

static const void *bias(const struct exec *x, const struct block *b, int i)
{
    return is_rigid(x) ? padded_of(x)->peers_bias[i]
                       : bias_of(x, b, i, x->weights.tensors[biases[i]].compute);
}

/* The gradient of b1 or b2, a sum over all rows or over none. */
static int bias_grad(const struct exec *x, const struct block *b, int i, const void *from, bool any)
{
    void *grad = x->weights.tensors[biases[i]].grad;

    TRY(launch_sum_rows(
        x->engine->compute,
        &(struct sum_rows){ .dtype = x->compute_type,
                            .keep = keeps(b),
                            .batch = b->experts,
                            .rows = any ? b->rows : 0,
                            .width = i ? x->layer->shape.model_dim : x->geometry.hidden,
                            .first = any ? b->first : NULL,
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

/* ---- One block through the experts, and one chunk */

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
    TRY(to_hidden(x, b, in, w[TENSOR_W1].compute, pre));
    if (up)
        TRY(to_hidden(x, b, in, w[TENSOR_W3].compute, up));
    TRY(launch_activate(x->engine->compute, &(struct activate){ .dtype = x->compute_type,
                                                                .kind = x->layer->shape.activation,
                                                                .batch = b->experts,
                                                                .rows = b->rows,
                                                                .width = H,
                                                                .first = b->first,
                                                                .bias = bias(x, b, 0),
                                                                .pre = pre,
                                                                .up = up,
                                                                .post = post }));
    TRY(from_hidden(x, b, post, w[TENSOR_W2].compute, false, out));
    if (x->geometry.slice != 0)
        return OK; /* the slices' outputs are summed: only one may bring the bias */
    return launch_add_bias(x->engine->compute, &(struct add_bias){ .dtype = x->compute_type,
                                                                   .batch = b->experts,
                                                                   .rows = b->rows,
                                                                   .width = D,
                                                                   .first = b->first,
                                                                   .bias_stride = bias_stride(x, 1),
                                                                   .bias = bias(x, b, 1),
                                                                   .to = out });
}

static int experts_forward(void *self, uint32_t chunk, const void *in, void *out)
{
    struct exec *x = self;
    const struct padded *p = x->state;
    const struct geometry *g = &x->geometry;
    struct block b = { .chunk = chunk };

    /* Biases are the same for all peers, whose rows lie apart. */
    for (int i = 0; i < 2 && is_rigid(x) && chunk == 0; i++)
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
    /* Slices other than the first did not add b2: they give it a gradient of zero. */
    TRY(bias_grad(x, b, 1, in, x->geometry.slice == 0));
    TRY(weight_grad(x, b, rows_of(x, b, chunk_at(p->post, b->chunk), H), in, w[TENSOR_W2].grad));
    TRY(to_hidden(x, b, in, w[TENSOR_W2].compute, p->grad_post));
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
    TRY(bias_grad(x, b, 0, p->grad_post, true));
    TRY(weight_grad(x, b, p->grad_post, rows_in, w[TENSOR_W1].grad));
    TRY(from_hidden(x, b, p->grad_post, w[TENSOR_W1].compute, false, out));
    if (!up)
        return OK;
    TRY(weight_grad(x, b, p->grad_up, rows_in, w[TENSOR_W3].grad));
    return from_hidden(x, b, p->grad_up, w[TENSOR_W3].compute, true, out);
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
    if (way_is_known(x))
        TRY(router_gates(&x->router, x->engine, tokens)); /* while the first rows travel */
    TRY(weights_ready(&x->weights, x->engine, 0));
    TRY(trip_compute(trip, x->engine, experts_forward, x));
    TRY(trip_return(trip, x->engine));
    return trip_unpack(trip, x->engine);
}

int padded_trip_back(struct exec *x, bool meanwhile)
{
    struct trip *trip = &padded_of(x)->backward;

    TRY(trip_depart(trip, x->engine));
    /* The gate's own gradient needs nothing that is under way: it fills the wait for chunk 0. */
    if (meanwhile)
        TRY(router_backward(&x->router, x->engine, false));
    TRY(trip_compute(trip, x->engine, experts_backward, x));
    TRY(trip_return(trip, x->engine));
    /* Before the unpacking, which waits for the last return: the two transfers follow each other.
     */
    TRY(weights_reduce(&x->weights, x->engine));
    return trip_unpack(trip, x->engine);
}

/* ---- The way without anything between tokens and rows */

static struct routing routing(const struct exec *x)
{
    bool differ = uneven_applies(&x->uneven);
    struct routing r = router_routing(&x->router, x->geometry.capacity,
                                      differ ? x->uneven.total : x->geometry.rows);

    if (differ) {
        r.first = x->uneven.first;
        r.capacities = x->uneven.capacities;
    }
    return r;
}

static int forward(struct exec *x, const void *tokens, void *y)
{
    const struct padded *p = x->state;
    uint32_t dtype = x->layer->shape.dtype;
    struct encode encode = {
        .routing = routing(x), .dtype = dtype, .from = tokens, .to = p->forward.home
    };

    TRY(launch_encode(x->engine->compute, &encode));
    TRY(padded_trip(x, tokens));
    if (x->layer->shape.combine == MOE_COMBINE_CHOICES) { /* unweighted */
        struct encode_backward choices = { .routing = router_choices(&x->router, routing(x)),
                                           .dtype = dtype,
                                           .from = p->forward.back,
                                           .to = y };

        return launch_encode_backward(x->engine->compute, &choices);
    }
    return launch_decode(x->engine->compute, &(struct decode){ .routing = routing(x),
                                                               .dtype = dtype,
                                                               .gate = x->router.gate,
                                                               .from = p->forward.back,
                                                               .to = y });
}

static int backward(struct exec *x, const void *grad_y, void *grad_x)
{
    const struct padded *p = x->state;
    struct decode_backward decode = { .routing = router_choices(&x->router, routing(x)),
                                      .dtype = x->layer->shape.dtype,
                                      .gate = x->router.gate,
                                      .grad = grad_y,
                                      .result = p->forward.back,
                                      .to = p->backward.home,
                                      .grad_gate = x->router.grad_gate };
    struct encode_backward encode = { .routing = routing(x),
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
