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

/* Where the rows of each expert begin, if they differ: in the memory of the device. */
static const uint64_t *first_rows(const struct exec *x)
{
    return x->geometry.before ? x->uneven.local : NULL;
}

/* What kernels are told of a batch of experts: how many, and rows of each, or of all that differ.
 */
static uint32_t batch(const struct exec *x)
{
    return x->geometry.local * (is_rigid(x) ? x->geometry.peers : 1);
}

static uint64_t batch_rows(const struct exec *x)
{
    if (is_rigid(x))
        return x->geometry.chunk_rows;
    return x->geometry.before ? geometry_seen_rows(&x->geometry) : rows(x);
}

/* Elements of b1 or b2 (i = 0 or 1) from one expert to the next. */
static uint64_t bias_stride(const struct exec *x, int i)
{
    return i ? layer_bias2_stride(&x->layer->shape) : x->geometry.hidden;
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
        uint64_t n = size_product(batch(x), bias_stride(x, i));

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

/* One product per local expert; its matrices lie one after the other. */
static int multiply_rows(const struct exec *x, struct gemm g)
{
    g.dtype = x->compute_type;
    if (x->geometry.before) /* the experts' numbers of rows differ */
        return launch_gemm_rows(x->engine->compute,
                                &(struct gemm_rows){ .dtype = g.dtype,
                                                     .sums = g.transpose_a,
                                                     .transpose_b = g.transpose_b,
                                                     .keep = g.keep,
                                                     .experts = x->geometry.local,
                                                     .n = g.n,
                                                     .k = g.transpose_a ? g.m : g.k,
                                                     .first = x->uneven.seen,
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
    }
    g.batch = x->geometry.local;
    g.stride_a = g.m * g.k;
    g.stride_b = g.k * g.n;
    g.stride_c = g.m * g.n;
    return launch_gemm(x->engine->compute, &g);
}

/* (rows, D) times a hidden-major matrix, transposed: (rows, hidden). */
static int to_hidden(const struct exec *x, const void *in, const void *weight, void *out)
{
    return multiply_rows(x, (struct gemm){ .transpose_b = true,
                                           .m = rows(x),
                                           .n = x->geometry.hidden,
                                           .k = x->layer->shape.model_dim,
                                           .a = in,
                                           .b = weight,
                                           .c = out });
}

/* (rows, hidden) times a hidden-major matrix: (rows, D). */
static int from_hidden(const struct exec *x, const void *in, const void *weight, bool keep,
                       void *out)
{
    return multiply_rows(x, (struct gemm){ .keep = keep,
                                           .m = rows(x),
                                           .n = x->layer->shape.model_dim,
                                           .k = x->geometry.hidden,
                                           .a = in,
                                           .b = weight,
                                           .c = out });
}

/* Gradient of a hidden-major matrix: (rows, hidden) transposed, times (rows, D). */
static int weight_grad(const struct exec *x, const void *hidden, const void *outer, bool keep,
                       void *grad)
{
    return multiply_rows(x, (struct gemm){ .transpose_a = true,
                                           .keep = keep,
                                           .m = x->geometry.hidden,
                                           .n = x->layer->shape.model_dim,
                                           .k = rows(x),
                                           .a = hidden,
                                           .b = outer,
                                           .c = grad });
}

static const enum tensor biases[] = { TENSOR_B1, TENSOR_B2 };

static const void *bias(const struct exec *x, int i)
{
    return is_rigid(x) ? padded_of(x)->peers_bias[i] : x->weights.tensors[biases[i]].compute;
}

/* ---- One chunk through the experts */

static int experts_forward(void *self, uint32_t chunk, const void *in, void *out)
{
    struct exec *x = self;
    const struct padded *p = x->state;
    const struct geometry *g = &x->geometry;
    const struct weight *w = x->weights.tensors;
    void *pre = chunk_at(p->pre, chunk), *post = chunk_at(p->post, chunk);
    void *up = chunk_at(p->up, chunk);

    /* Biases are the same for all peers, whose rows lie apart. */
    for (int i = 0; i < 2 && is_rigid(x) && chunk == 0; i++)
        TRY(launch_move(x->engine->compute, &(struct move){ .from_type = x->compute_type,
                                                            .to_type = x->compute_type,
                                                            .block = g->local * bias_stride(x, i),
                                                            .dims = { g->peers, 1, 1 },
                                                            .to_stride = { 1, 0, 0 },
                                                            .terms = 1,
                                                            .from = w[biases[i]].compute,
                                                            .to = p->peers_bias[i] }));
    TRY(to_hidden(x, in, w[TENSOR_W1].compute, pre));
    if (up)
        TRY(to_hidden(x, in, w[TENSOR_W3].compute, up));
    TRY(launch_activate(x->engine->compute, &(struct activate){ .dtype = x->compute_type,
                                                                .kind = x->layer->shape.activation,
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
    return launch_add_bias(x->engine->compute,
                           &(struct add_bias){ .dtype = x->compute_type,
                                               .batch = batch(x),
                                               .rows = batch_rows(x),
                                               .width = x->layer->shape.model_dim,
                                               .first = first_rows(x),
                                               .bias_stride = layer_bias2_stride(&x->layer->shape),
                                               .bias = bias(x, 1),
                                               .to = out });
}

/* The gradient of b1 or b2 (i = 0 or 1), a sum over all rows or over none. */
static int bias_grad(const struct exec *x, int i, const void *from, bool any, uint64_t width,
                     bool keep)
{
    void *grad = x->weights.tensors[biases[i]].grad;

    TRY(launch_sum_rows(
        x->engine->compute,
        &(struct sum_rows){ .dtype = x->compute_type,
                            .keep = keep,
                            .batch = batch(x),
                            .rows = any ? batch_rows(x) : 0,
                            .width = width,
                            .first = any ? first_rows(x) : NULL,
                            .to_stride = bias_stride(x, i),
                            .from = from,
                            .to = is_rigid(x) ? padded_of(x)->peers_grad[i] : grad }));
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

static int experts_backward(void *self, uint32_t chunk, const void *in, void *out)
{
    struct exec *x = self;
    const struct padded *p = x->state;
    const struct geometry *g = &x->geometry;
    const struct weight *w = x->weights.tensors;
    const void *rows_in = chunk_at(p->forward.in, chunk);
    void *pre = chunk_at(p->pre, chunk), *up = chunk_at(p->up, chunk);
    bool keep = chunk > 0; /* gradients of the chunks add up */

    /* Slices other than the first did not add b2: they give it a gradient of zero. */
    TRY(bias_grad(x, 1, in, g->slice == 0, x->layer->shape.model_dim, keep));
    TRY(weight_grad(x, chunk_at(p->post, chunk), in, keep, w[TENSOR_W2].grad));
    TRY(to_hidden(x, in, w[TENSOR_W2].compute, p->grad_post));
    TRY(launch_activate_backward(x->engine->compute,
                                 &(struct activate_backward){ .dtype = x->compute_type,
                                                              .kind = x->layer->shape.activation,
                                                              .batch = g->before ? 1 : batch(x),
                                                              .rows = batch_rows(x),
                                                              .width = g->hidden,
                                                              .pre = pre,
                                                              .up = up,
                                                              .grad_post = p->grad_post,
                                                              .grad_pre = p->grad_post,
                                                              .grad_up = p->grad_up }));
    TRY(bias_grad(x, 0, p->grad_post, true, g->hidden, keep));
    TRY(weight_grad(x, p->grad_post, rows_in, keep, w[TENSOR_W1].grad));
    TRY(from_hidden(x, p->grad_post, w[TENSOR_W1].compute, false, out));
    if (!up)
        return OK;
    TRY(weight_grad(x, p->grad_up, rows_in, keep, w[TENSOR_W3].grad));
    return from_hidden(x, p->grad_up, w[TENSOR_W3].compute, true, out);
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
    bool differ = x->geometry.before;
    struct routing r = router_routing(&x->router, x->geometry.capacity,
                                      differ ? x->uneven.rows : x->geometry.rows);

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
