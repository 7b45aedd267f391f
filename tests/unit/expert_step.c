/* Runs a step of the experts by padded kernels and by kernels without padding, in the order in
 * which the executor would launch them. */
#include "expert_step.h"

#include "random.h"
#include "rows.h"

#include <stdlib.h>

static float *room(uint64_t n)
{
    return calloc(n + 1, sizeof(float));
}

static float *drawn(uint64_t seed, uint64_t stream, uint64_t n)
{
    float *f = room(n);

    for (uint64_t i = 0; i < n; i++)
        f[i] = random_unit(seed + stream, i);
    return f;
}

static void *tokens_drawn(const struct expert_step *s, uint64_t seed, uint64_t stream)
{
    uint64_t n = (uint64_t)s->T * s->D;
    float *f = drawn(seed, stream, n);
    void *tokens = room(n);

    row_store(s->dtype, tokens, 0, f, n);
    free(f);
    return tokens;
}

static struct expert_matrices matrices(const struct expert_step *s, uint64_t seed)
{
    uint64_t matrix = (uint64_t)s->E * s->H * s->D;
    bool gated = s->act == MOE_SWIGLU;

    return (struct expert_matrices){ drawn(seed, 3, matrix), gated ? drawn(seed, 4, matrix) : NULL,
                                     drawn(seed, 5, (uint64_t)s->E * s->H), drawn(seed, 6, matrix),
                                     drawn(seed, 7, (uint64_t)s->E * s->D) };
}

void expert_step_open(struct expert_step *s, uint64_t seed, uint64_t padded_rows)
{
    uint64_t choices = (uint64_t)s->T * s->k, rows = s->E * padded_rows;
    uint64_t most = (rows > choices ? rows : choices) * s->H, tokens = (uint64_t)s->T * s->D;

    s->x = tokens_drawn(s, seed, 0);
    s->dy = tokens_drawn(s, seed, 1);
    s->gate = drawn(seed, 2, choices);
    s->weights = matrices(s, seed);
    s->grads = matrices(s, seed + 1); /* what is there must not count */
    s->expert = calloc(choices + 1, sizeof(*s->expert));
    s->slot = calloc(choices + 1, sizeof(*s->slot));
    s->needed = calloc(s->E + 1, sizeof(*s->needed));
    s->first = calloc(s->E + 1, sizeof(*s->first));
    s->choice = calloc(choices + 1, sizeof(*s->choice));
    s->y = room(tokens), s->dx = room(tokens), s->grad_gate = room(choices);
    s->scratch = malloc(kept_scratch_bytes(s->H, s->D));
    s->pre = room(most), s->up = room(most), s->post = room(most);
    s->hidden_grad = room(most), s->up_grad = room(most);
    s->home = room(rows * s->D), s->back = room(rows * s->D);
}

static void matrices_free(struct expert_matrices *m)
{
    free(m->w1), free(m->w3), free(m->b1), free(m->w2), free(m->b2);
}

void expert_step_close(struct expert_step *s)
{
    free(s->x), free(s->dy), free(s->gate), free(s->expert), free(s->slot), free(s->needed);
    matrices_free(&s->weights);
    matrices_free(&s->grads);
    free(s->y), free(s->dx), free(s->grad_gate), free(s->first), free(s->choice);
    free(s->scratch), free(s->pre), free(s->up), free(s->post);
    free(s->hidden_grad), free(s->up_grad), free(s->home), free(s->back);
}

/* ReLU needs no row but the one after it. */
static float *pre_of(const struct expert_step *s)
{
    return s->act == MOE_RELU ? s->post : s->pre;
}

static float *up_of(const struct expert_step *s)
{
    return s->act == MOE_SWIGLU ? s->up : NULL;
}

static struct kept_rows kept(const struct expert_step *s)
{
    return (struct kept_rows){ .tokens = s->T,
                               .experts = s->E,
                               .top_k = s->k,
                               .token_type = s->dtype,
                               .dtype = MOE_F32,
                               .hidden = s->H,
                               .width = s->D,
                               .capacity = s->capacity,
                               .first = s->first,
                               .choice = s->choice,
                               .room.scratch = s->scratch,
                               .unit_stride = s->units_first ? (uint64_t)s->E * s->D : 0,
                               .expert_stride = s->D };
}

void expert_step_forward(struct expert_step *s)
{
    const struct kept_rows at = kept(s);
    struct esmm m = { .at = at, .form = ESMM_FORWARD, .kind = s->act, .tokens = s->x };

    host_reindex(&(struct reindex){ s->T, s->E, s->k, s->capacity, s->expert, s->slot, s->needed,
                                    s->first, s->choice });
    if (up_of(s)) {
        m.weights = s->weights.w3;
        m.pre = s->up;
        host_esmm(&m);
    }
    m.weights = s->weights.w1;
    m.bias = s->weights.b1;
    m.bias_stride = s->H;
    m.pre = pre_of(s);
    m.up = up_of(s);
    m.post = s->post;
    host_esmm(&m);
    host_esmm(&(struct esmm){ .at = at,
                              .form = ESMM_TOKENS,
                              .weights = s->weights.w2,
                              .bias = s->weights.b2,
                              .bias_stride = s->D,
                              .gate = s->gate,
                              .rows = s->post,
                              .sums = s->y });
}

static void apart(const struct esfk *f)
{
    const struct esmm *m = &f->product;
    bool tokens = m->form == ESMM_TOKENS;

    host_esmm(m);
    host_estmm(&(struct estmm){ .at = m->at,
                                .tokens = m->tokens,
                                .gate = m->gate,
                                .rows = tokens ? m->rows : m->post,
                                .grad = f->grad });
    if (f->grad_bias)
        host_ess(&(struct ess){ .at = m->at,
                                .rows = tokens ? m->rows : NULL,
                                .tokens = m->tokens,
                                .gate = m->gate,
                                .grad = f->grad_bias,
                                .stride = f->grad_stride });
}

void expert_step_backward(struct expert_step *s, bool fused)
{
    void (*run)(const struct esfk *f) = fused ? host_esfk : apart;
    const struct kept_rows at = kept(s);
    /* Fused, gradients take the place of what they are of. */
    float *grad_pre = fused ? pre_of(s) : s->hidden_grad;
    float *grad_up = up_of(s) ? (fused ? s->post : s->up_grad) : NULL;
    struct esmm back = { .at = at, .form = ESMM_TOKENS, .tokens = s->x, .sums = s->dx };

    run(&(struct esfk){ .product = { .at = at,
                                     .form = ESMM_BACKWARD,
                                     .kind = s->act,
                                     .weights = s->weights.w2,
                                     .bias = s->weights.b2,
                                     .bias_stride = s->D,
                                     .tokens = s->dy,
                                     .gate = s->gate,
                                     .pre = pre_of(s),
                                     .up = up_of(s),
                                     .post = s->post,
                                     .grad_gate = s->grad_gate,
                                     .grad_pre = grad_pre,
                                     .grad_up = grad_up },
                        .grad = s->grads.w2,
                        .grad_bias = s->grads.b2,
                        .grad_stride = s->D });
    back.weights = s->weights.w1;
    back.rows = grad_pre;
    run(&(struct esfk){ back, s->grads.w1, s->grads.b1, s->H });
    if (!grad_up)
        return;
    back.weights = s->weights.w3;
    back.rows = grad_up;
    back.keep = true;
    run(&(struct esfk){ .product = back, .grad = s->grads.w3 });
}

static struct routing padded(const struct expert_step *s)
{
    return (struct routing){ s->T,        s->E,      s->k,    s->D,     s->capacity,
                             s->capacity, s->expert, s->slot, s->needed };
}

/* rows (E,C,D) with a matrix (E,H,D): into hidden rows, back, or the matrix' gradient. */
enum way { INTO_HIDDEN, FROM_HIDDEN, OF_MATRIX };
static void product(const struct expert_step *s, enum way way, float *rows, float *matrix,
                    float *hidden, bool keep)
{
    uint64_t c = s->capacity, d = s->D, h = s->H;
    uint64_t all[3] = { c * d, h * d, c * h };
    const struct gemm ways[] = {
        { .transpose_b = true,
          .m = c,
          .n = h,
          .k = d,
          .a = rows,
          .b = matrix,
          .c = hidden,
          .stride_a = all[0],
          .stride_b = all[1],
          .stride_c = all[2] },
        { .m = c,
          .n = d,
          .k = h,
          .a = hidden,
          .b = matrix,
          .c = rows,
          .stride_a = all[2],
          .stride_b = all[1],
          .stride_c = all[0] },
        { .transpose_a = true,
          .m = h,
          .n = d,
          .k = c,
          .a = hidden,
          .b = rows,
          .c = matrix,
          .stride_a = all[2],
          .stride_b = all[0],
          .stride_c = all[1] },
    };
    struct gemm g = ways[way];

    g.batch = s->E;
    g.keep = keep;
    host_gemm(&g);
}

static void padded_forward(struct expert_step *s)
{
    const struct expert_matrices *w = &s->weights;
    uint64_t c = s->capacity;

    host_encode(&(struct encode){ padded(s), s->dtype, s->x, s->home });
    product(s, INTO_HIDDEN, s->home, w->w1, pre_of(s), false);
    if (up_of(s))
        product(s, INTO_HIDDEN, s->home, w->w3, s->up, false);
    host_activate(
        &(struct activate){ MOE_F32, s->act, s->E, c, s->H, w->b1, pre_of(s), up_of(s), s->post });
    product(s, FROM_HIDDEN, s->back, w->w2, s->post, false);
    host_add_bias(&(struct add_bias){ MOE_F32, s->E, c, s->D, s->D, w->b2, s->back });
    host_decode(&(struct decode){ padded(s), s->dtype, s->gate, s->back, s->y });
}

static void sum(const struct expert_step *s, uint64_t width, const float *from, float *to)
{
    host_sum_rows(&(struct sum_rows){ MOE_F32, false, s->E, s->capacity, width, width, from, to });
}

static void padded_backward(struct expert_step *s)
{
    const struct expert_matrices *w = &s->weights, *g = &s->grads;
    float *grad = s->hidden_grad, *rows = s->back;

    /* Row for row, so that the gradients may take the place of the results. */
    host_decode_backward(
        &(struct decode_backward){ padded(s), s->dtype, s->gate, s->dy, rows, rows, s->grad_gate });
    sum(s, s->D, rows, g->b2);
    product(s, OF_MATRIX, rows, g->w2, s->post, false);
    product(s, INTO_HIDDEN, rows, w->w2, grad, false);
    host_activate_backward(&(struct activate_backward){ MOE_F32, s->act, s->E, s->capacity, s->H,
                                                        pre_of(s), up_of(s), grad, grad,
                                                        up_of(s) ? s->up_grad : NULL });
    sum(s, s->H, grad, g->b1);
    product(s, OF_MATRIX, s->home, g->w1, grad, false);
    product(s, FROM_HIDDEN, rows, w->w1, grad, false);
    if (up_of(s)) {
        product(s, OF_MATRIX, s->home, g->w3, s->up_grad, false);
        product(s, FROM_HIDDEN, rows, w->w3, s->up_grad, true);
    }
    host_encode_backward(&(struct encode_backward){ padded(s), s->dtype, rows, NULL, s->dx });
}

void expert_step_padded(struct expert_step *s)
{
    padded_forward(s);
    padded_backward(s);
}
