/* Tests each host kernel against the plainest loop that computes the same, on random inputs. */
#include "check.h"

#include "host.h"
#include "random.h"
#include "rows.h"
#include "shape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed, drawn;

static float draw(void)
{
    return random_unit(seed, drawn++);
}

static uint32_t below(uint32_t n)
{
    return random_below(seed, drawn++, n);
}

static float *floats(uint64_t n)
{
    float *f = malloc((n + 1) * sizeof(*f));

    for (uint64_t i = 0; i < n; i++)
        f[i] = draw();
    return f;
}

/* n random values in a storage type, and the same values in f32. */
static void *typed(uint32_t dtype, uint64_t n, float **values)
{
    void *memory = malloc((n + 1) * 4);

    *values = floats(n);
    row_store(dtype, memory, 0, *values, n);
    row_load(dtype, memory, 0, *values, n);
    return memory;
}

/* By chance: 1e-6: in 151 seeds f32 sums came to .10 of this, other types to .67, half a step. */
static bool near(double got, double want, double allowed)
{
    return fabs(got - want) <= allowed * (1 + fabs(want));
}

static double epsilon(uint32_t dtype)
{
    return dtype == MOE_F32 ? 1e-5 : (dtype == MOE_BF16 ? 0x1p-8 : 0x1p-10);
}

static void storage_types_round_to_nearest_and_keep_their_own_values(void)
{
    for (uint32_t type = MOE_F16; type <= MOE_BF16; type++)
        for (uint32_t bits = 0; bits < 65536; bits++) {
            uint16_t h = (uint16_t)bits, again;
            float f;

            row_load(type, &h, 0, &f, 1);
            row_store(type, &again, 0, &f, 1);
            CHECK(again == h || isnan(f));
        }
    for (int i = 0; i < 200000; i++) {
        float f = draw() * exp2f((float)below(60) - 30), h_f, b_f, up, down;
        uint16_t h, b, near_h;

        row_store(MOE_F16, &h, 0, &f, 1);
        row_load(MOE_F16, &h, 0, &h_f, 1);
        near_h = (uint16_t)(h + 1);
        row_load(MOE_F16, &near_h, 0, &up, 1);
        near_h = (uint16_t)(h - 1);
        row_load(MOE_F16, &near_h, 0, &down, 1);
        if (isfinite(h_f) && (h & 0x7fff) && isfinite(up) && isfinite(down))
            CHECK(fabsf(h_f - f) <= fabsf(up - f) && fabsf(h_f - f) <= fabsf(down - f));
        row_store(MOE_BF16, &b, 0, &f, 1);
        row_load(MOE_BF16, &b, 0, &b_f, 1);
        CHECK(fabsf(b_f - f) <= fabsf(f) * 0x1p-8f);
    }
}

static void gemm_multiplies_in_every_orientation(void)
{
    for (int round = 0; round < 40; round++) {
        uint64_t m = 1 + below(20), n = 1 + below(20), k = below(20), batch = 1 + below(3);
        struct gemm g = { .dtype = MOE_F32,
                          .transpose_a = below(2),
                          .transpose_b = below(2),
                          .keep = below(2),
                          .batch = (uint32_t)batch,
                          .m = m,
                          .n = n,
                          .k = k,
                          .stride_a = m * k,
                          .stride_b = k * n,
                          .stride_c = m * n };
        float *a = floats(batch * m * k), *b = floats(batch * k * n), *c = floats(batch * m * n);
        float *before = malloc(batch * m * n * sizeof(*before));

        memcpy(before, c, batch * m * n * sizeof(*c));
        g.a = a;
        g.b = b;
        g.c = c;
        host_gemm(&g);
        for (uint64_t x = 0; x < batch; x++)
            for (uint64_t i = 0; i < m; i++)
                for (uint64_t j = 0; j < n; j++) {
                    double want = g.keep ? (double)before[x * m * n + i * n + j] : 0;

                    for (uint64_t l = 0; l < k; l++)
                        want += (double)a[x * m * k + (g.transpose_a ? l * m + i : i * k + l)] *
                                (double)b[x * k * n + (g.transpose_b ? j * k + l : l * n + j)];
                    CHECK(near((double)c[x * m * n + i * n + j], want, 1e-5));
                }
        free(a);
        free(b);
        free(c);
        free(before);
    }
}

static double act(uint32_t kind, double x)
{
    switch (kind) {
    case MOE_RELU: return x > 0 ? x : 0;
    case MOE_GELU: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    default: return x / (1 + exp(-x));
    }
}

static void activations_and_their_slopes_are_right_over_their_whole_range(void)
{
    for (uint32_t kind = MOE_RELU; kind <= MOE_SWIGLU; kind++)
        for (int round = 0; round < 30; round++) {
            uint64_t batch = 1 + below(3), rows = below(9), width = 1 + below(40);
            uint64_t n = batch * rows * width;
            float *pre = floats(n), *up = floats(n), *post = floats(n),
                  *bias = floats(batch * width);
            float *grad = floats(n), *grad_pre = floats(n), *grad_up = floats(n);
            float *raw = malloc((n + 1) * sizeof(*raw));
            bool in_place = kind == MOE_RELU && below(2);

            for (uint64_t i = 0; i < n; i++)
                raw[i] = pre[i] *= (float)(1u << below(8));
            if (in_place)
                memcpy(post, pre, n * sizeof(*post));
            host_activate(&(struct activate){ MOE_F32, kind, batch, rows, width, bias,
                                              in_place ? post : pre, up, post });
            if (in_place)
                memcpy(pre, post, n * sizeof(*post));
            host_activate_backward(&(struct activate_backward){ MOE_F32, kind, batch, rows, width,
                                                                pre, up, grad, grad_pre, grad_up });
            for (uint64_t i = 0; i < n; i++) {
                double x = (double)raw[i] + (double)bias[i / (rows * width) * width + i % width];
                double h = 1e-5, slope = (act(kind, x + h) - act(kind, x - h)) / (2 * h);
                double gate = kind == MOE_SWIGLU ? (double)up[i] : 1;

                CHECK(near((double)post[i], act(kind, x) * gate, 2e-6));
                if (fabs(x) > 1e-3 || kind != MOE_RELU)
                    CHECK(near((double)grad_pre[i], (double)grad[i] * slope * gate, 1e-5));
                if (kind == MOE_SWIGLU)
                    CHECK(near((double)grad_up[i], (double)grad[i] * act(kind, x), 2e-6));
            }
            free(pre), free(up), free(post), free(bias), free(raw);
            free(grad), free(grad_pre), free(grad_up);
        }
}

static void biases_are_added_and_summed_with_their_padding(void)
{
    for (int round = 0; round < 30; round++) {
        uint64_t batch = 1 + below(3), rows = below(9), width = 1 + below(40);
        uint64_t stride = width + below(5), n = batch * rows * width;
        float *to = floats(n), *bias = floats(batch * stride), *sum = floats(batch * stride);
        float *before = malloc((n + 1) * sizeof(*before));
        bool keep = below(2);

        memcpy(before, to, n * sizeof(*to));
        host_add_bias(&(struct add_bias){ MOE_F32, batch, rows, width, stride, bias, to });
        for (uint64_t i = 0; i < n; i++)
            CHECK(to[i] == before[i] + bias[i / (rows * width) * stride + i % width]);
        memcpy(bias, sum, batch * stride * sizeof(*sum));
        host_sum_rows(&(struct sum_rows){ MOE_F32, keep, batch, rows, width, stride, to, sum });
        for (uint64_t b = 0; b < batch; b++)
            for (uint64_t i = 0; i < stride; i++) {
                double want = keep ? (double)bias[b * stride + i] : 0;

                for (uint64_t r = 0; r < rows && i < width; r++)
                    want += (double)to[(b * rows + r) * width + i];
                CHECK(near((double)sum[b * stride + i], want, 1e-5));
            }
        free(to), free(bias), free(sum), free(before);
    }
}

static void move_copies_repeats_sums_and_converts(void)
{
    for (int round = 0; round < 200; round++) {
        uint32_t from_type = below(3), to_type = below(3);
        uint64_t dims[3] = { below(4), 1 + below(4), 1 + below(3) }, terms = 1 + below(3);
        uint64_t block = 1 + below(below(4) ? 9 : 2500), cells = dims[0] * dims[1] * dims[2];
        bool repeat = below(2);
        float *from, *got = malloc((cells * block + 1) * sizeof(*got));
        void *in = typed(from_type, cells * terms * block, &from);
        void *out = malloc(cells * block * 4 + 4);
        /* from (i, term, j, k) or, repeated, the same for every j; to (k, j, i) */
        struct move m = { .from_type = from_type,
                          .to_type = to_type,
                          .block = block,
                          .dims = { dims[0], dims[1], dims[2] },
                          .from_stride = { terms * dims[1] * dims[2], repeat ? 0 : dims[2], 1 },
                          .to_stride = { 1, dims[0], dims[1] * dims[0] },
                          .terms = terms,
                          .term_stride = dims[1] * dims[2],
                          .from = in,
                          .to = out };

        host_move(&m);
        row_load(to_type, out, 0, got, cells * block);
        for (uint64_t i = 0; i < dims[0]; i++)
            for (uint64_t j = 0; j < dims[1]; j++)
                for (uint64_t k = 0; k < dims[2]; k++)
                    for (uint64_t b = 0; b < block; b += 1 + block / 7) {
                        double want = 0;

                        for (uint64_t t = 0; t < terms; t++)
                            want += (double)from[((i * terms + t) * dims[1] * dims[2] +
                                                  (repeat ? 0 : j * dims[2]) + k) *
                                                     block +
                                                 b];
                        CHECK(near((double)got[((k * dims[1] + j) * dims[0] + i) * block + b], want,
                                   epsilon(to_type)));
                    }
        free(from), free(got), free(in), free(out);
    }
}

/* A random routing of T tokens, as the route kernel makes it. */
struct routed {
    uint32_t tokens, experts, k;
    uint64_t capacity, *capacities; /* of each expert its own; NULL: all have that */
    float *raw, *logits, *gate;
    int32_t *expert;
    int64_t *slot, *needed;
};

static struct routed route_some(void)
{
    struct routed r = { .tokens = below(30), .experts = 1 + below(9) };
    uint64_t choices;

    r.k = 1 + below(r.experts < 3 ? r.experts : 3);
    r.capacity = below(2) ? below(8) : 1000;
    choices = (uint64_t)r.tokens * r.k;
    r.logits = floats((uint64_t)r.tokens * r.experts);
    for (uint64_t i = 0; i < (uint64_t)r.tokens * r.experts; i++)
        if (below(4) == 0)
            r.logits[i] = 0.25f; /* ties */
    r.raw = malloc(((uint64_t)r.tokens * r.experts + 1) * sizeof(float));
    memcpy(r.raw, r.logits, (uint64_t)r.tokens * r.experts * sizeof(float));
    r.gate = floats(choices);
    r.expert = malloc((choices + 1) * sizeof(*r.expert));
    r.slot = malloc((choices + 1) * sizeof(*r.slot));
    r.needed = malloc(r.experts * sizeof(*r.needed));
    if (below(2))
        r.capacities = malloc(r.experts * sizeof(*r.capacities));
    for (uint32_t e = 0; r.capacities && e < r.experts; e++)
        r.capacities[e] = below(3) * below(8);
    host_route(&(struct route){ .tokens = r.tokens,
                                .experts = r.experts,
                                .top_k = r.k,
                                .capacity = r.capacity,
                                .logits = r.logits,
                                .gate = r.gate,
                                .expert = r.expert,
                                .slot = r.slot,
                                .needed = r.needed,
                                .capacities = r.capacities });
    return r;
}

static uint64_t capacity_of(const struct routed *r, int32_t expert)
{
    return r->capacities ? r->capacities[expert] : r->capacity;
}

static void routed_free(struct routed *r)
{
    free(r->raw), free(r->logits), free(r->gate), free(r->expert), free(r->slot), free(r->needed);
    free(r->capacities);
}

static void route_picks_the_best_and_gives_slots_in_order(void)
{
    for (int round = 0; round < 300; round++) {
        struct routed r = route_some();
        int64_t given[16] = { 0 }, total = 0;

        for (uint32_t j = 0; j < r.k; j++)
            for (uint32_t t = 0; t < r.tokens; t++) {
                const float *logits = r.raw + t * r.experts;
                int32_t e = r.expert[t * r.k + j];
                uint32_t better = 0;
                int64_t slot = given[e]++;

                /* Rank j in descending order, ties by the lowest number. */
                for (uint32_t o = 0; o < r.experts; o++)
                    better += logits[o] > logits[e] || (logits[o] == logits[e] && o < (uint32_t)e);
                CHECK(better == j);
                CHECK(r.slot[t * r.k + j] == ((uint64_t)slot < capacity_of(&r, e) ? slot : -1));
            }
        for (uint32_t e = 0; e < r.experts; e++) {
            CHECK(r.needed[e] == given[e]);
            total += r.needed[e];
        }
        CHECK(total == (int64_t)r.tokens * r.k); /* no token is lost or made */
        for (uint32_t t = 0; t < r.tokens; t++) {
            double sum = 0, chosen = 0;

            for (uint32_t e = 0; e < r.experts; e++)
                sum += exp((double)r.raw[t * r.experts + e]);
            for (uint32_t j = 0; j < r.k; j++)
                chosen += exp((double)r.raw[t * r.experts + (uint32_t)r.expert[t * r.k + j]]);
            for (uint32_t j = 0; j < r.k; j++)
                CHECK(near((double)r.gate[t * r.k + j],
                           exp((double)r.raw[t * r.experts + (uint32_t)r.expert[t * r.k + j]]) /
                               (r.k > 1 ? chosen : sum),
                           1e-5));
        }
        routed_free(&r);
    }
}

/* The loss sum(grad * gate) as a function of one logit, differentiated numerically. */
static double gate_loss(const struct routed *r, const float *grad, uint32_t t, uint32_t at,
                        double h)
{
    double sum = 0, chosen = 0, loss = 0, e[16];

    for (uint32_t i = 0; i < r->experts; i++)
        sum += e[i] = exp((double)r->raw[t * r->experts + i] + (i == at ? h : 0));
    for (uint32_t j = 0; j < r->k; j++)
        chosen += e[r->expert[t * r->k + j]];
    for (uint32_t j = 0; j < r->k; j++)
        loss += (double)grad[t * r->k + j] * e[r->expert[t * r->k + j]] / (r->k > 1 ? chosen : sum);
    return loss;
}

static void the_gradient_of_the_gate_is_its_slope(void)
{
    for (int round = 0; round < 100; round++) {
        struct routed r = route_some();
        float *grad = floats((uint64_t)r.tokens * r.k);
        float *got = floats((uint64_t)r.tokens * r.experts);

        host_route_backward(&(struct route_backward){ r.tokens, r.experts, r.k, r.logits, r.gate,
                                                      r.expert, grad, got });
        for (uint32_t t = 0; t < r.tokens; t++)
            for (uint32_t e = 0; e < r.experts; e++)
                CHECK(near((double)got[t * r.experts + e],
                           (gate_loss(&r, grad, t, e, 1e-5) - gate_loss(&r, grad, t, e, -1e-5)) /
                               2e-5,
                           1e-4));
        free(grad), free(got);
        routed_free(&r);
    }
}

/* Rows of a routing on their way out and home, and room for what comes of them. */
struct moved {
    struct routed r;
    struct routing routing;
    uint32_t dtype, D;
    uint64_t own, all; /* numbers in the tokens, and in all rows */
    float *x, *back, *add, *rows, *y_f, *grad_gate;
    void *tokens, *result, *home, *y;
    uint64_t first[16]; /* of capacities that differ */
};

/* Each expert its capacity and a little more; the sum. */
static uint64_t room_of_each(struct moved *m)
{
    uint64_t sum = 0;

    for (uint32_t e = 0; e < m->r.experts; e++) {
        m->first[e] = sum;
        sum += m->r.capacities[e] + below(3);
    }
    m->first[m->r.experts] = sum;
    return sum;
}

static struct moved move_some(void)
{
    struct moved m = { .r = route_some(), .dtype = below(3), .D = 1 + below(below(5) ? 40 : 2300) };
    uint64_t most = 0, rows;

    for (uint32_t e = 0; e < m.r.experts; e++)
        most = (uint64_t)m.r.needed[e] > most ? (uint64_t)m.r.needed[e] : most;
    rows = (most < m.r.capacity ? most : m.r.capacity) + below(4);
    if (m.r.capacities)
        rows = room_of_each(&m);
    m.own = (uint64_t)m.r.tokens * m.D;
    m.all = (m.r.capacities ? rows : m.r.experts * rows) * m.D;
    m.tokens = typed(m.dtype, m.own, &m.x);
    m.result = typed(m.dtype, m.all, &m.back);
    m.home = malloc(m.all * 4 + 4);
    m.y = malloc(m.own * 4 + 4);
    m.rows = malloc((m.all + 1) * sizeof(float));
    m.y_f = malloc((m.own + 1) * sizeof(float));
    m.add = floats(m.own);
    m.grad_gate = floats((uint64_t)m.r.tokens * m.r.k);
    memset(m.home, 0x7f, m.all * 4);
    m.routing = (struct routing){ .tokens = m.r.tokens,
                                  .experts = m.r.experts,
                                  .top_k = m.r.k,
                                  .width = m.D,
                                  .rows = rows,
                                  .capacity = m.r.capacity,
                                  .expert = m.r.expert,
                                  .slot = m.r.slot,
                                  .needed = m.r.needed,
                                  .capacities = m.r.capacities };
    return m;
}

static void moved_free(struct moved *m)
{
    free(m->x), free(m->back), free(m->add), free(m->rows), free(m->y_f), free(m->grad_gate);
    free(m->tokens), free(m->result), free(m->home), free(m->y);
    routed_free(&m->r);
}

/* Where the row of a token's choice lies among all; only if it has a slot. */
static uint64_t row_of(const struct moved *m, uint64_t choice)
{
    int32_t e = m->r.expert[choice];

    return (m->routing.first ? m->first[e] : (uint64_t)e * m->routing.rows) +
           (uint64_t)m->r.slot[choice];
}

static void encode_moves_each_token_into_its_slots(struct moved *m)
{
    uint64_t choices = (uint64_t)m->r.tokens * m->r.k;

    host_encode(&(struct encode){ m->routing, m->dtype, m->tokens, m->home });
    row_load(m->dtype, m->home, 0, m->rows, m->all);
    for (uint64_t row = 0; row < m->all / m->D; row++) {
        const float *want = NULL;

        for (uint64_t i = 0; i < choices; i++)
            if (m->r.slot[i] >= 0 && row_of(m, i) == row)
                want = m->x + i / m->r.k * m->D;
        for (uint32_t d = 0; d < m->D; d++)
            CHECK(m->rows[row * m->D + d] == (want ? want[d] : 0));
    }
}

/* What `y` holds is the sum of a token's rows, weighted by its gates or not, and of `add`. */
static void is_sum_of_rows(struct moved *m, bool weighted, const float *add)
{
    row_load(m->dtype, m->y, 0, m->y_f, m->own);
    for (uint64_t at = 0; at < m->own; at++) {
        double want = add ? (double)add[at] : 0;

        for (uint64_t i = at / m->D * m->r.k; i < (at / m->D + 1) * m->r.k; i++)
            if (m->r.slot[i] >= 0)
                want += (weighted ? (double)m->r.gate[i] : 1) *
                        (double)m->back[row_of(m, i) * m->D + at % m->D];
        CHECK(near((double)m->y_f[at], want, epsilon(m->dtype)));
    }
}

static void decode_backward_gives_rows_and_gates_their_gradients(struct moved *m)
{
    host_decode_backward(&(struct decode_backward){ m->routing, m->dtype, m->r.gate, m->tokens,
                                                    m->result, m->home, m->grad_gate });
    row_load(m->dtype, m->home, 0, m->rows, m->all);
    for (uint64_t i = 0; i < (uint64_t)m->r.tokens * m->r.k; i++) {
        const float *x = m->x + i / m->r.k * m->D;
        double want = 0;

        for (uint32_t d = 0; d < m->D && m->r.slot[i] >= 0; d++) {
            uint64_t at = row_of(m, i) * m->D + d;

            want += (double)x[d] * (double)m->back[at];
            CHECK(
                near((double)m->rows[at], (double)m->r.gate[i] * (double)x[d], epsilon(m->dtype)));
        }
        CHECK(near((double)m->grad_gate[i], want, 1e-4));
    }
}

static void one_hot_rows_have_one_column_and_nonzero_finds_it(void)
{
    for (int round = 0; round < 100; round++) {
        struct moved m = move_some();
        uint64_t choices = (uint64_t)m.r.tokens * m.r.k, most = m.r.experts, all;
        bool by_slot = below(2);
        const float *scale = below(2) ? m.r.gate : NULL;
        float *to, *grad, *grads = floats(choices), *ones;
        void *found;

        for (uint64_t j = 0; j < choices; j++)
            if (m.r.slot[j] >= (int64_t)most)
                most = (uint64_t)m.r.slot[j] + 1;
        all = m.r.tokens * most;
        grad = floats(all);
        to = malloc((all + 1) * sizeof(*to)), ones = malloc((all + 1) * sizeof(*ones));
        found = malloc(all * 4 + 4);
        for (uint32_t j = 0; j < m.r.k; j++) {
            memset(to, 0x7f, all * sizeof(*to));
            host_one_hot(&(struct one_hot){ m.r.tokens, m.r.k, j, most, by_slot, m.r.expert,
                                            m.r.slot, scale, to });
            host_one_hot_backward(&(struct one_hot_backward){ m.r.tokens, m.r.k, j, most,
                                                              m.r.expert, m.r.slot, grad, grads });
            host_nonzero(&(struct nonzero){ all, m.dtype, to, found });
            row_load(m.dtype, found, 0, ones, all);
            for (uint64_t at = 0; at < all; at++) {
                uint64_t choice = at / most * m.r.k + j;
                int64_t column = by_slot ? m.r.slot[choice] : (int64_t)m.r.expert[choice];
                bool here = m.r.slot[choice] >= 0 && column == (int64_t)(at % most);

                CHECK(to[at] == (!here ? 0 : scale ? scale[choice] : 1));
                CHECK(ones[at] == (to[at] != 0));
            }
        }
        for (uint64_t i = 0; i < choices; i++)
            CHECK(grads[i] ==
                  (m.r.slot[i] < 0 ? 0 : grad[i / m.r.k * most + (uint64_t)m.r.expert[i]]));
        free(grad), free(to), free(grads), free(ones), free(found);
        moved_free(&m);
    }
}

static void encode_and_decode_and_their_backwards_move_the_right_rows(void)
{
    for (int round = 0; round < 150; round++) {
        struct moved m = move_some();

        m.routing.first = m.r.capacities ? m.first : NULL;
        encode_moves_each_token_into_its_slots(&m);
        host_decode(&(struct decode){ m.routing, m.dtype, m.r.gate, m.result, m.y });
        is_sum_of_rows(&m, true, NULL);
        decode_backward_gives_rows_and_gates_their_gradients(&m);
        host_encode_backward(&(struct encode_backward){ m.routing, m.dtype, m.result, m.add, m.y });
        is_sum_of_rows(&m, false, m.add);
        moved_free(&m);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(storage_types_round_to_nearest_and_keep_their_own_values),
        TEST(gemm_multiplies_in_every_orientation),
        TEST(activations_and_their_slopes_are_right_over_their_whole_range),
        TEST(biases_are_added_and_summed_with_their_padding),
        TEST(move_copies_repeats_sums_and_converts),
        TEST(route_picks_the_best_and_gives_slots_in_order),
        TEST(the_gradient_of_the_gate_is_its_slope),
        TEST(encode_and_decode_and_their_backwards_move_the_right_rows),
        TEST(one_hot_rows_have_one_column_and_nonzero_finds_it),
    };

    seed = test_seed();
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
