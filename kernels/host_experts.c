/* The kernels of experts on the host, in f32: matrix products, biases and activations. */
#include "blas.h"
#include "convert.h"
#include "fault.h"
#include "gemm_rows.h"
#include "host.h"
#include "moelookup.h"

#include <assert.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static int64_t thread_ran_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Imitates a slower core (fault_pace()): sleeps after work of `ns`, so that both take `pace`
 * percent of it.  Short sleeps are added up. */
static void sleep_as_slower_core(int pace, int64_t ns)
{
    enum { SLEEP_LEAST_NS = 100000 };
    static _Thread_local int64_t owed_ns;

    owed_ns += ns * (pace - 100) / 100;
    if (owed_ns < SLEEP_LEAST_NS)
        return;
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* by default it sleeps 50 us longer */
    nanosleep(&(struct timespec){ owed_ns / 1000000000, owed_ns % 1000000000 }, NULL);
    owed_ns = 0;
}

void host_gemm(const struct gemm *g)
{
    int pace = fault_pace();
    int64_t begin = pace > 100 ? thread_ran_ns() : 0;

    assert(g->dtype == MOE_F32);
    if (!g->m || !g->n)
        return;
    for (uint32_t i = 0; i < g->batch; i++) {
        float *c = (float *)g->c + i * g->stride_c;

        if (g->k)
            blas_product(g, (const float *)g->a + i * g->stride_a,
                         (const float *)g->b + i * g->stride_b, c);
        else if (!g->keep)
            memset(c, 0, g->m * g->n * sizeof(*c));
    }
    if (pace > 100)
        sleep_as_slower_core(pace, thread_ran_ns() - begin);
}

void host_gemm_rows(const struct gemm_rows *g)
{
    for (uint32_t i = 0; i < g->experts; i++) {
        struct gemm product = gemm_of_rows(g, i);

        host_gemm(&product);
    }
}

/* The first row of expert number b of a batch; starts NULL: each has `rows` rows. */
static inline uint64_t first_row_of(const uint64_t *starts, uint64_t rows, uint64_t b)
{
    return starts ? starts[b] : b * rows;
}

/* exp(x) to about 2 ulp for |x| <= 87, clamped outside.  libm's expf and tanhf do not vectorise,
 * and take as long as the product before them. */
static inline float exp_fast(float x)
{
    const float magic = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    float clamped = x < -87.0f ? -87.0f : (x > 87.0f ? 87.0f : x);
    float shifted = clamped * 0x1.715476p0f + magic;
    float n = shifted - magic;
    float r = (clamped - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f; /* x - n ln 2, in two parts */
    float p = 1.0f + r * (1.0f + r * (0.5f + r * (0x1.555556p-3f +
                                                  r * (0x1.55557cp-5f +
                                                       r * (0x1.1111p-7f + r * 0x1.6c16c2p-10f)))));

    return p * bits_float((float_bits(shifted) - float_bits(magic) + 127) << 23);
}

static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + exp_fast(-x));
}

/* GELU in its tanh form is x * sigmoid(2u), because tanh(u) = 2 sigmoid(2u) - 1; this is 2u. */
static inline float gelu_argument(float x)
{
    return 1.5957691216f * x * (1.0f + 0.044715f * x * x);
}

typedef void activation(float *restrict pre, const float *restrict bias, const float *restrict up,
                        float *restrict post, uint64_t n);

/* Defines a function for one row: pre += bias, and post = the activation's result. */
#define FORWARD_ROW(name, result)                                                                  \
    CLONES static void name(float *restrict pre, const float *restrict bias,                       \
                            const float *restrict up, float *restrict post, uint64_t n)            \
    {                                                                                              \
        (void)up;                                                                                  \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            float x = pre[i] + bias[i];                                                            \
                                                                                                   \
            pre[i] = x;                                                                            \
            post[i] = result;                                                                      \
        }                                                                                          \
    }
FORWARD_ROW(relu_row, x > 0 ? x : 0)
FORWARD_ROW(gelu_row, sigmoid(gelu_argument(x)) * x)
FORWARD_ROW(swiglu_row, sigmoid(x) * x * up[i])
#undef FORWARD_ROW

CLONES static void relu_row_in_place(float *restrict pre, const float *restrict bias,
                                     const float *restrict up, float *restrict post, uint64_t n)
{
    (void)up, (void)post;
    for (uint64_t i = 0; i < n; i++) {
        float x = pre[i] + bias[i];

        pre[i] = x > 0 ? x : 0;
    }
}

static activation *const forward_rows[] = {
    [MOE_RELU] = relu_row,
    [MOE_GELU] = gelu_row,
    [MOE_SWIGLU] = swiglu_row,
};

void host_activate(const struct activate *a)
{
    activation *activate_row = forward_rows[a->kind];

    assert(a->dtype == MOE_F32 && (a->pre != a->post || a->kind == MOE_RELU));
    if (a->pre == a->post)
        activate_row = relu_row_in_place;
    for (uint64_t expert = 0; expert < a->batch; expert++)
        for (uint64_t row = first_row_of(a->first, a->rows, expert);
             row < first_row_of(a->first, a->rows, expert + 1); row++) {
            uint64_t offset = row * a->width;

            activate_row((float *)a->pre + offset, (const float *)a->bias + expert * a->width,
                         a->up ? (const float *)a->up + offset : NULL, (float *)a->post + offset,
                         a->width);
        }
}

CLONES static void relu_backward(const float *pre, const float *grad_post, float *grad_pre,
                                 uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        grad_pre[i] = pre[i] > 0 ? grad_post[i] : 0;
}

CLONES static void gelu_backward(const float *pre, const float *grad_post, float *grad_pre,
                                 uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float x = pre[i], s = sigmoid(gelu_argument(x));
        float argument_slope = 1.5957691216f * (1.0f + 3 * 0.044715f * x * x);

        grad_pre[i] = grad_post[i] * (s + x * s * (1.0f - s) * argument_slope);
    }
}

CLONES static void swiglu_backward(const float *pre, const float *up, const float *grad_post,
                                   float *grad_pre, float *restrict grad_up, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float x = pre[i], s = sigmoid(x), grad = grad_post[i];

        grad_up[i] = grad * x * s;
        grad_pre[i] = grad * up[i] * s * (1.0f + x * (1.0f - s));
    }
}

void host_activate_backward(const struct activate_backward *a)
{
    uint64_t n = a->batch * a->rows * a->width;

    assert(a->dtype == MOE_F32);
    switch (a->kind) {
    case MOE_RELU: relu_backward(a->pre, a->grad_post, a->grad_pre, n); break;
    case MOE_GELU: gelu_backward(a->pre, a->grad_post, a->grad_pre, n); break;
    default: swiglu_backward(a->pre, a->up, a->grad_post, a->grad_pre, a->grad_up, n);
    }
}

CLONES static void add_row(const float *restrict from, float *restrict to, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        to[i] += from[i];
}

void host_add_bias(const struct add_bias *a)
{
    assert(a->dtype == MOE_F32);
    for (uint64_t expert = 0; expert < a->batch; expert++)
        for (uint64_t row = first_row_of(a->first, a->rows, expert);
             row < first_row_of(a->first, a->rows, expert + 1); row++)
            add_row((const float *)a->bias + expert * a->bias_stride,
                    (float *)a->to + row * a->width, a->width);
}

void host_sum_rows(const struct sum_rows *s)
{
    assert(s->dtype == MOE_F32);
    for (uint64_t expert = 0; expert < s->batch; expert++) {
        float *to = (float *)s->to + expert * s->to_stride;

        if (!s->keep)
            memset(to, 0, s->to_stride * sizeof(*to));
        for (uint64_t row = first_row_of(s->first, s->rows, expert);
             row < first_row_of(s->first, s->rows, expert + 1); row++)
            add_row((const float *)s->from + row * s->width, to, s->width);
    }
}
