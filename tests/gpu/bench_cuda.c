/* The CUDA kernels against what the GPU can do: each takes turns with a copy of as many bytes, or
 * with an 8192^3 product, in one run.  Random data; buffers beyond the cache.
 *
 *   bench_cuda [JSON]     a table on standard output, and the same as JSON into the file named */
#include "duels.h"
#include "rivals.h"

#include "moelookup.h"
#include "random.h"
#include "status.h"

#include <math.h>

enum { GATES = 20 };

struct shape {
    const char *name;
    uint32_t T, D, H, E, k;
    bool gated;
};

static const struct shape shapes[] = {
    { "Tutel", 16384, 2048, 2048, 8, 2, false },
    { "Mixtral", 16384, 4096, 14336, 8, 2, true },
    { "DeepSeek-V3", 16384, 7168, 2048, 256, 8, true },
};

static float *taken_logits(uint32_t tokens, uint32_t experts, uint64_t key)
{
    uint64_t n = (uint64_t)tokens * experts;
    float *host = malloc(n * 4), *memory = take(n * 4);

    for (uint64_t i = 0; i < n; i++)
        host[i] = random_unit(key, i);
    must(device_upload(duel_device, memory, host, n * 4));
    free(host);
    return memory;
}

static struct route taken_route(const struct shape *s, uint64_t key)
{
    uint64_t choices = (uint64_t)s->T * s->k;

    return (struct route){ .tokens = s->T,
                           .experts = s->E,
                           .top_k = s->k,
                           .capacity = UINT64_MAX,
                           .logits = taken_logits(s->T, s->E, key),
                           .gate = take(choices * 4),
                           .expert = take(choices * 4),
                           .slot = take(choices * 8),
                           .needed = take(s->E * 8) };
}

/* A routing without drops: every expert has the rows of the fullest. */
static struct routing taken_routing(const struct shape *s, float **gate)
{
    struct route route = taken_route(s, s->T);
    int64_t needed[256], most = 0;

    must(launch_route(duel_stream, &route));
    must(stream_sync(duel_stream));
    must(device_download(duel_device, needed, route.needed, s->E * sizeof(*needed)));
    for (uint32_t e = 0; e < s->E; e++)
        most = needed[e] > most ? needed[e] : most;
    *gate = route.gate;
    return (struct routing){ .tokens = s->T,
                             .experts = s->E,
                             .top_k = s->k,
                             .width = s->D,
                             .rows = (uint64_t)most,
                             .capacity = (uint64_t)most,
                             .expert = route.expert,
                             .slot = route.slot,
                             .needed = route.needed };
}

static void bench_tokens(const struct shape *s)
{
    float *gate;
    struct routing routing = taken_routing(s, &gate);
    uint64_t own = (uint64_t)s->T * s->D, kept = own * s->k, all = s->E * routing.rows * s->D;
    void *x = taken_random(own), *y = take(own * 2), *rows = taken_random(all);
    void *home = take(all * 2);
    float *grad_gate = take((uint64_t)s->T * s->k * 4);
    struct work encode = { 0 }, decode = { 0 }, encode_back = { 0 }, decode_back = { 0 };

    STEP(&encode, encode, (struct encode){ routing, MOE_BF16, x, home });
    STEP(&decode, decode, (struct decode){ routing, MOE_BF16, gate, rows, y });
    STEP(&encode_back, encode_backward,
         (struct encode_backward){ routing, MOE_BF16, rows, NULL, y });
    STEP(&decode_back, decode_backward,
         (struct decode_backward){ routing, MOE_BF16, gate, x, rows, home, grad_gate });
    against_copy("encode", s->name, &encode, 2 * (own + all), 0.90);
    against_copy("decode", s->name, &decode, 2 * (own + kept), 0.90);
    against_copy("encode backward", s->name, &encode_back, 2 * (own + kept), 0.90);
    against_copy("decode backward", s->name, &decode_back, 2 * (own + kept + all), 0.90);
    give_all();
}

/* Of tokens and the gate's weights, in 16 bits, into f32 logits: no more than the tokens are read.
 */
static void bench_gate_product(const struct shape *s)
{
    uint64_t own = (uint64_t)s->T * s->D;
    struct work product = { 0 };

    STEP(&product, gemm,
         (struct gemm){ .dtype = MOE_BF16,
                        .c_f32 = true,
                        .transpose_b = true,
                        .batch = 1,
                        .m = s->T,
                        .n = s->E,
                        .k = s->D,
                        .a = taken_random(own),
                        .b = taken_random((uint64_t)s->E * s->D),
                        .c = take((uint64_t)s->T * s->E * 4) });
    against_copy("the gate's product", s->name, &product, 2 * own + 4 * (uint64_t)s->T * s->E, 0);
    give_all();
}

/* As comm/ and tuner/ use it, for 8 ranks and 2 slices. */
static void bench_moves(const struct shape *s)
{
    uint64_t W = 8, local = s->E / W ? s->E / W : 1, elements = (uint64_t)s->T * s->k * s->D / 2;
    uint64_t block = elements / (W * local);
    void *from = taken_random(2 * elements), *to = take(2 * elements * 2);
    struct move common = { .from_type = MOE_BF16,
                           .to_type = MOE_BF16,
                           .block = block,
                           .dims = { local, W, 1 },
                           .from_stride = { 1, local, 0 },
                           .to_stride = { W, 1, 0 },
                           .terms = 1,
                           .from = from,
                           .to = to };
    struct work stride = { 0 }, repeat = { 0 }, sum = { 0 };
    struct move repeated = common, summed = common;

    repeated.dims[0] = 2;
    repeated.dims[1] = W * local;
    repeated.from_stride[0] = 0;
    repeated.from_stride[1] = 1;
    repeated.to_stride[0] = W * local;
    repeated.to_stride[1] = 1;
    summed.terms = 2;
    summed.term_stride = W * local;
    STEP(&stride, move, common);
    STEP(&repeat, move, repeated);
    STEP(&sum, move, summed);
    elements = block * W * local;
    against_copy("stride copy", s->name, &stride, 2 * 2 * elements, 0.92);
    against_copy("repeat", s->name, &repeat, 2 * 3 * elements, 0.92);
    against_copy("sum", s->name, &sum, 2 * 3 * elements, 0.92);
    give_all();
}

static void bench_activation(const struct shape *s)
{
    uint32_t kind = s->gated ? MOE_SWIGLU : MOE_GELU;
    uint64_t rows = (uint64_t)s->T * s->k / s->E, n = (uint64_t)s->E * rows * s->H;
    void *pre = taken_random(n), *up = s->gated ? taken_random(n) : NULL, *post = take(n * 2);
    void *grad = taken_random(n), *grad_up = s->gated ? take(n * 2) : NULL;
    void *bias = taken_random((uint64_t)s->E * s->H);
    struct work forward = { 0 }, backward = { 0 };

    STEP(&forward, activate,
         (struct activate){ MOE_BF16, kind, s->E, rows, s->H, bias, pre, up, post });
    STEP(&backward, activate_backward,
         (struct activate_backward){ MOE_BF16, kind, s->E, rows, s->H, pre, up, grad, grad,
                                     grad_up });
    against_copy("activation", s->name, &forward, 2 * n * (s->gated ? 4 : 3), 0.90);
    against_copy("activation backward", s->name, &backward, 2 * n * (s->gated ? 5 : 3), 0.90);
    give_all();
}

static struct gemm product(const struct shape *s, uint64_t rows, uint64_t out, uint64_t in,
                           bool transpose_b, const void *x, const void *w, void *y)
{
    return (struct gemm){ .dtype = MOE_BF16,
                          .transpose_b = transpose_b,
                          .batch = s->E,
                          .m = rows,
                          .n = out,
                          .k = in,
                          .a = x,
                          .b = w,
                          .c = y,
                          .stride_a = rows * in,
                          .stride_b = in * out,
                          .stride_c = rows * out };
}

/* One forward chunk, as tuner/layer/padded.c launches it, and its products alone. */
static void bench_ffn(const struct shape *s)
{
    uint64_t rows = (uint64_t)s->T * s->k / s->E, E = s->E, D = s->D, H = s->H;
    double flops = 2.0 * (double)(E * rows) * (double)(D * H) * (s->gated ? 3 : 2);
    void *x = taken_random(E * rows * D), *y = take(E * rows * D * 2);
    void *w1 = taken_random(E * H * D), *w2 = taken_random(E * H * D);
    void *w3 = s->gated ? taken_random(E * H * D) : NULL;
    void *pre = take(E * rows * H * 2), *post = take(E * rows * H * 2);
    void *up = s->gated ? take(E * rows * H * 2) : NULL;
    void *b1 = taken_random(E * H), *b2 = taken_random(E * D);
    struct work bare = { 0 }, ffn = { 0 };

    STEP(&ffn, gemm, product(s, rows, H, D, true, x, w1, pre));
    if (s->gated)
        STEP(&ffn, gemm, product(s, rows, H, D, true, x, w3, up));
    bare = ffn;
    STEP(&ffn, activate,
         (struct activate){ MOE_BF16, s->gated ? MOE_SWIGLU : MOE_RELU, E, rows, H, b1, pre, up,
                            post });
    STEP(&ffn, gemm, product(s, rows, D, H, false, post, w2, y));
    STEP(&bare, gemm, product(s, rows, D, H, false, post, w2, y));
    STEP(&ffn, add_bias, (struct add_bias){ MOE_BF16, E, rows, D, D, b2, y });
    against_dense("experts' products", s->name, &bare, flops, rows >= 2048 ? 0.90 : 0);
    against_dense("experts", s->name, &ffn, flops, 0);
    give_all();
}

struct layer {
    const struct shape *shape;
    struct routing routing;
    uint32_t kind;
    float *gate;
    void *x, *y, *w1, *w2, *w3, *b1, *b2, *pre, *up, *post;
};

/* By cuBLAS, on as many rows of every expert as the fullest has. */
static void padded_steps(const struct layer *l, struct work *work)
{
    const struct shape *s = l->shape;
    uint64_t rows = l->routing.rows, all = s->E * rows * s->D;
    void *in = take(all * 2), *out = take(all * 2);

    STEP(work, encode, (struct encode){ l->routing, MOE_BF16, l->x, in });
    if (s->gated)
        STEP(work, gemm, product(s, rows, s->H, s->D, true, in, l->w3, l->up));
    STEP(work, gemm, product(s, rows, s->H, s->D, true, in, l->w1, l->pre));
    STEP(work, activate,
         (struct activate){ MOE_BF16, l->kind, s->E, rows, s->H, l->b1, l->pre, l->up, l->post });
    STEP(work, gemm, product(s, rows, s->D, s->H, false, l->post, l->w2, out));
    STEP(work, add_bias, (struct add_bias){ MOE_BF16, s->E, rows, s->D, s->D, l->b2, out });
    STEP(work, decode, (struct decode){ l->routing, MOE_BF16, l->gate, out, l->y });
}

static void sparse_steps(const struct layer *l, struct work *work)
{
    const struct routing *r = &l->routing;
    uint64_t choices = (uint64_t)r->tokens * r->top_k;
    int64_t *first = take((r->experts + 1) * sizeof(*first)), *choice = take(choices * 8);
    struct esmm m = { .at = { r->tokens, r->experts, r->top_k, MOE_BF16, MOE_BF16, l->shape->H,
                              r->width, r->capacity, r->expert, r->slot, first, choice },
                      .form = ESMM_FORWARD,
                      .kind = l->kind,
                      .weights = l->w3,
                      .tokens = l->x,
                      .pre = l->up };

    STEP(work, reindex,
         (struct reindex){ r->tokens, r->experts, r->top_k, r->capacity, r->expert, r->slot,
                           r->needed, first, choice });
    if (l->shape->gated)
        STEP(work, esmm, m);
    m.weights = l->w1, m.bias = l->b1, m.bias_stride = l->shape->H;
    m.pre = l->pre, m.up = l->up, m.post = l->post;
    STEP(work, esmm, m);
    m.at.room.results = take(kept_results_bytes(&m.at, 2));
    STEP(work, esmm,
         (struct esmm){ .at = m.at,
                        .form = ESMM_TOKENS,
                        .weights = l->w2,
                        .bias = l->b2,
                        .bias_stride = r->width,
                        .gate = l->gate,
                        .rows = l->post,
                        .sums = take((uint64_t)r->tokens * r->width * sizeof(float)) });
}

/* What both give, from the same tokens: sums in f32 beside results that were rounded on the way.
 * No result is far from the other's, measured by what results are as a rule. */
static void must_agree(const char *name, const struct layer *l, const struct work *sparse,
                       const struct work *padded)
{
    enum { FAR = 16 }; /* of roundings of bf16, 2^-8 each, at k results of three products */
    uint64_t n = (uint64_t)l->shape->T * l->shape->D;
    float *sums = malloc(n * sizeof(*sums)), value;
    double square = 0, worst = 0, far;
    uint16_t *rows = malloc(n * sizeof(*rows));

    must(sums && rows ? OK : ERR_NOMEM);
    timed_work(sparse);
    must(device_download(duel_device, sums, sparse->steps[sparse->count - 1].args.esmm.sums,
                         n * sizeof(*sums)));
    timed_work(padded);
    must(device_download(duel_device, rows, l->y, n * sizeof(*rows)));
    for (uint64_t i = 0; i < n; i++) {
        row_load(MOE_BF16, rows, i, &value, 1);
        square += (double)value * value;
        far = fabs((double)value - sums[i]);
        worst = far <= worst ? worst : far; /* NAN stays */
    }
    square = sqrt(square / (double)n);
    free(sums), free(rows);
    if (!(worst <= FAR * 0x1p-8 * square))
        must(fail(ERR_WRONG, "%s: sparse and padded experts differ by %g, where results are %g",
                  name, worst, square));
}

/* Random tokens: about even, so little is padded. */
static void bench_sparse(const struct shape *s)
{
    uint64_t own = (uint64_t)s->T * s->D, matrix = (uint64_t)s->E * s->H * s->D, rows;
    double flops = 2.0 * (double)s->T * s->k * s->D * s->H * (s->gated ? 3 : 2);
    struct layer l = { .shape = s, .kind = s->gated ? MOE_SWIGLU : MOE_GELU };
    struct work sparse = { 0 }, padded = { 0 };

    l.routing = taken_routing(s, &l.gate);
    rows = s->E * l.routing.rows * s->H;
    l.x = taken_random(own), l.y = take(own * 2);
    l.w1 = taken_random(matrix), l.w2 = taken_random(matrix);
    l.w3 = s->gated ? taken_random(matrix) : NULL;
    l.b1 = taken_random((uint64_t)s->E * s->H), l.b2 = taken_random((uint64_t)s->E * s->D);
    l.pre = take(rows * 2), l.post = take(rows * 2), l.up = s->gated ? take(rows * 2) : NULL;
    sparse_steps(&l, &sparse);
    padded_steps(&l, &padded);
    must_agree(s->name, &l, &sparse, &padded);
    against_others("sparse, against padded", s->name, &sparse, &padded, flops);
    give_all();
}

/* Twenty gates in a graph, each on logits of its own, which route overwrites: set again before
 * every sample, outside of what is timed. */
static void bench_gate(const char *name, const struct shape *s, double wanted_us)
{
    cudaStream_t stream = cuda_stream(duel_stream);
    uint64_t bytes = (uint64_t)s->T * s->E * 4;
    struct route route = taken_route(s, 1);
    char *fresh = (char *)taken_logits(s->T, s->E, 2), *used = take(bytes * GATES);
    int64_t eager[RIVAL_ROUNDS], replayed[RIVAL_ROUNDS];
    struct work graph = { 0 };
    cudaGraph_t captured;

    must(CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)));
    for (int i = 0; i < GATES; i++) {
        route.logits = (float *)(used + (uint64_t)i * bytes);
        must(launch_route(duel_stream, &route));
    }
    must(CUDA(cudaStreamEndCapture(stream, &captured)));
    must(CUDA(cudaGraphInstantiate(&graph.graph, captured, 0)));
    for (int round = 0; round < 2 * RIVAL_ROUNDS; round++) {
        struct work once = { 0 };

        for (int i = 0; i < GATES; i++)
            must(CUDA(cudaMemcpyAsync(used + (uint64_t)i * bytes, fresh, bytes,
                                      cudaMemcpyDeviceToDevice, stream)));
        route.logits = (float *)used;
        STEP(&once, route, route);
        *(round % 2 ? &eager[round / 2] : &replayed[round / 2]) =
            round % 2 ? timed_work(&once) : timed_work(&graph) / GATES;
    }
    cudaGraphExecDestroy(graph.graph);
    cudaGraphDestroy(captured);
    give_all();
    for (int way = 0; way < 2; way++) {
        struct spread t = spread_of(way ? eager : replayed, RIVAL_ROUNDS);
        double us = (double)t.median_ns * 1e-3, goal = way ? 0 : wanted_us;

        report(way ? "gate and slots, once" : "gate and slots", name, us, (double)s->T / us,
               "token/us", goal > 0 ? goal / us : 0, goal * 1e3 / (double)t.high_ns,
               goal * 1e3 / (double)t.low_ns, goal > 0 ? 1 : 0);
    }
}

int main(int argc, char **argv)
{
    duels_begin(argc > 1 ? argv[1] : NULL);
    bench_gate("E=256 k=8", &(struct shape){ "", 4096, 0, 0, 256, 8, false }, 25);
    bench_gate("E=8 k=2", &(struct shape){ "", 16384, 0, 0, 8, 2, false }, 0);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const struct shape *s = &shapes[i];
        uint64_t rows_bytes = 2 * (uint64_t)s->T * s->k, matrices = s->gated ? 3 : 2;

        if (fits("tokens", s->name, 3 * rows_bytes * s->D))
            bench_tokens(s), bench_gate_product(s);
        if (fits("moves", s->name, 2 * rows_bytes * s->D))
            bench_moves(s);
        if (fits("activations", s->name, 5 * rows_bytes * s->H))
            bench_activation(s);
        if (fits("experts", s->name,
                 2 * rows_bytes * s->D + 3 * rows_bytes * s->H + 2 * matrices * s->E * s->D * s->H))
            bench_ffn(s);
        if (fits("sparse", s->name,
                 5 * rows_bytes * (s->D + s->H) + 2 * matrices * s->E * s->D * s->H))
            bench_sparse(s);
    }
    return duels_end();
}
