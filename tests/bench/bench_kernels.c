/* Compares host kernels with what the machine can do: kernels that move with memcpy, experts with
 * bare OpenBLAS.  "speed" is the rival's time / ours for the same traffic or the same products. */
#include "rivals.h"

#include "random.h"
#include "shape.h"

#include <cblas.h>
#include <string.h>

struct tokens {
    uint32_t T, E, k, D, dtype;
    struct routing routing;
    float *logits, *gate;
    int32_t *expert;
    int64_t *slot, *needed;
    void *x, *home;
    size_t copy_bytes; /* a memcpy of these moves as many bytes */
    char *from, *to;
    bool decode;
};

static int64_t run_tokens(void *self)
{
    struct tokens *t = self;
    int64_t begin = host_clock_ns();

    if (t->decode)
        host_decode(&(struct decode){ t->routing, t->dtype, t->gate, t->home, t->x });
    else
        host_encode(&(struct encode){ t->routing, t->dtype, t->x, t->home });
    return host_clock_ns() - begin;
}

static int64_t run_memcpy(void *self)
{
    struct tokens *t = self;
    int64_t begin = host_clock_ns();

    memcpy(t->to, t->from, t->copy_bytes);
    return host_clock_ns() - begin;
}

static void bench_tokens(uint32_t T, uint32_t D, uint32_t dtype)
{
    struct tokens t = { .T = T, .E = 8, .k = 2, .D = D, .dtype = dtype };
    uint64_t most = 0, width = dtype_bytes(dtype), choices = (uint64_t)T * t.k;
    double moved;

    t.logits = malloc((size_t)T * t.E * 4);
    t.gate = malloc(choices * 4);
    t.expert = malloc(choices * 4);
    t.slot = malloc(choices * 8);
    t.needed = malloc(t.E * 8);
    for (uint64_t i = 0; i < (uint64_t)T * t.E; i++)
        t.logits[i] = random_unit(T, i);
    host_route(
        &(struct route){ T, t.E, t.k, UINT64_MAX, t.logits, t.gate, t.expert, t.slot, t.needed });
    for (uint32_t e = 0; e < t.E; e++)
        most = (uint64_t)t.needed[e] > most ? (uint64_t)t.needed[e] : most;
    t.routing = (struct routing){ T, t.E, t.k, D, most, most, t.expert, t.slot, t.needed };
    t.x = malloc((size_t)T * D * width);
    t.home = malloc(t.E * most * D * width);
    memset(t.x, 1, (size_t)T * D * width);
    memset(t.home, 1, t.E * most * D * width);
    for (int decode = 0; decode < 2; decode++) {
        struct rivals c;

        /* encode reads every token and writes every row, filled or not; decode reads filled rows.
         */
        moved = (double)width * D * (decode ? (double)choices + T : (double)(t.E * most) + T);
        t.copy_bytes = (size_t)(moved / 2);
        t.from = malloc(t.copy_bytes);
        t.to = malloc(t.copy_bytes);
        memset(t.from, 1, t.copy_bytes);
        memset(t.to, 1, t.copy_bytes);
        t.decode = decode;
        c = rivals_run(run_tokens, run_memcpy, &t);
        printf("%-8s T=%-6u D=%-5u k=2 %-5s speed %.2f of memcpy [%.2f, %.2f]   %.1f GB/s\n",
               decode ? "decode" : "encode", T, D, dtype_words[dtype], 1 / c.ratio, 1 / c.high,
               1 / c.low, moved / c.ours_ns);
        free(t.from), free(t.to);
    }
    free(t.logits), free(t.gate), free(t.expert), free(t.slot), free(t.needed);
    free(t.x), free(t.home);
}

struct ffn {
    uint64_t E, rows, D, H;
    uint32_t act;
    float *x, *w1, *w3, *b1, *w2, *b2, *pre, *up, *post, *y;
};

/* The kernels of one forward chunk, as tuner/layer/padded.c launches them. */
static int64_t run_ffn(void *self)
{
    struct ffn *f = self;
    struct gemm up = { .dtype = MOE_F32,
                       .transpose_b = true,
                       .batch = (uint32_t)f->E,
                       .m = f->rows,
                       .n = f->H,
                       .k = f->D,
                       .a = f->x,
                       .b = f->w1,
                       .c = f->pre,
                       .stride_a = f->rows * f->D,
                       .stride_b = f->H * f->D,
                       .stride_c = f->rows * f->H };
    struct gemm down = { .dtype = MOE_F32,
                         .batch = (uint32_t)f->E,
                         .m = f->rows,
                         .n = f->D,
                         .k = f->H,
                         .a = f->post,
                         .b = f->w2,
                         .c = f->y,
                         .stride_a = f->rows * f->H,
                         .stride_b = f->H * f->D,
                         .stride_c = f->rows * f->D };
    int64_t begin = host_clock_ns();

    host_gemm(&up);
    if (f->act == MOE_SWIGLU) {
        up.b = f->w3;
        up.c = f->up;
        host_gemm(&up);
    }
    host_activate(
        &(struct activate){ MOE_F32, f->act, f->E, f->rows, f->H, f->b1, f->pre, f->up, f->post });
    host_gemm(&down);
    host_add_bias(&(struct add_bias){ MOE_F32, f->E, f->rows, f->D, f->D, f->b2, f->y });
    return host_clock_ns() - begin;
}

static int64_t run_bare(void *self)
{
    struct ffn *f = self;
    int m = (int)f->rows, h = (int)f->H, d = (int)f->D;
    int64_t begin = host_clock_ns();

    for (uint64_t e = 0; e < f->E; e++) {
        const float *x = f->x + e * f->rows * f->D;

        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, h, d, 1, x, d,
                    f->w1 + e * f->H * f->D, d, 0, f->pre + e * f->rows * f->H, h);
        if (f->act == MOE_SWIGLU)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, h, d, 1, x, d,
                        f->w3 + e * f->H * f->D, d, 0, f->up + e * f->rows * f->H, h);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, d, h, 1,
                    f->post + e * f->rows * f->H, h, f->w2 + e * f->H * f->D, d, 0,
                    f->y + e * f->rows * f->D, d);
    }
    return host_clock_ns() - begin;
}

static float *filled(uint64_t n)
{
    float *f = malloc(n * sizeof(*f));

    for (uint64_t i = 0; i < n; i++)
        f[i] = random_unit(n, i);
    return f;
}

static void bench_ffn(uint32_t act, uint64_t rows, uint64_t D, uint64_t H)
{
    struct ffn f = { .E = 8, .rows = rows, .D = D, .H = H, .act = act };
    struct rivals c;

    f.x = filled(f.E * rows * D);
    f.w1 = filled(f.E * H * D);
    f.w3 = filled(f.E * H * D);
    f.w2 = filled(f.E * H * D);
    f.b1 = filled(f.E * H);
    f.b2 = filled(f.E * D);
    f.pre = filled(f.E * rows * H);
    f.up = act == MOE_SWIGLU ? filled(f.E * rows * H) : NULL;
    f.post = act == MOE_RELU ? f.pre : filled(f.E * rows * H);
    f.y = filled(f.E * rows * D);
    c = rivals_run(run_ffn, run_bare, &f);
    printf("experts  E=8 rows=%-4llu D=%llu H=%llu %-6s speed %.3f of bare OpenBLAS [%.3f, %.3f]\n",
           (unsigned long long)rows, (unsigned long long)D, (unsigned long long)H,
           activation_words[act], 1 / c.ratio, 1 / c.high, 1 / c.low);
    free(f.x), free(f.w1), free(f.w3), free(f.w2), free(f.b1), free(f.b2);
    if (f.post != f.pre)
        free(f.post);
    free(f.pre), free(f.up), free(f.y);
}

int main(void)
{
    openblas_set_num_threads(1);
    for (uint32_t dtype = MOE_F32; dtype <= MOE_BF16; dtype += 2) {
        bench_tokens(1024, 512, dtype);
        bench_tokens(4096, 1024, dtype);
        bench_tokens(16384, 2048, dtype);
    }
    for (uint32_t act = MOE_RELU; act <= MOE_SWIGLU; act++)
        bench_ffn(act, 256, 512, 512);
    bench_ffn(MOE_RELU, 512, 1024, 1024);
    return 0;
}
