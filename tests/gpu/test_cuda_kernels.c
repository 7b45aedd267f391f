/* Each CUDA kernel against its host twin, on random inputs: types, odd sizes, nothing at all,
 * pointers that are not aligned, ties, drops.  Each runs twice and must give the same bits. */
#include "check.h"

#include "cuda_cases.h"
#include "cuda_subject.h"
#include "host.h"
#include "moelookup.h"
#include "random.h"
#include "router_cases.h"
#include "row_cases.h"
#include "rows.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Routing */

struct routed {
    uint32_t tokens, experts, k;
    uint64_t capacity;
    uint64_t *capacities; /* of each expert's own; NULL: they do not differ */
    float *logits, *probability, *gate;
    int32_t *expert;
    int64_t *slot, *needed;
};

static uint32_t some_experts(void)
{
    switch (below(12)) {
    case 0: return 1;
    case 1: return 33 + below(500);
    case 2: return 500 + below(1500);
    default: return 2 + below(31);
    }
}

static struct routed route_some(uint32_t experts, uint32_t tokens, uint32_t k)
{
    bool ties = below(2);
    struct routed r = { .tokens = tokens, .experts = experts };
    uint64_t choices, cells;

    r.k = k ? k : 1 + below(experts < 4 || !below(5) ? (experts < 40 ? experts : 40) : 4);
    r.capacity = below(2) ? below(8) : 1000;
    choices = (uint64_t)r.tokens * r.k;
    cells = (uint64_t)r.tokens * r.experts;
    r.logits = floats(cells);
    for (uint64_t i = 0; i < cells; i++)
        if (ties || below(8) == 0)
            r.logits[i] = tied();
    r.probability = malloc((cells + 1) * sizeof(float));
    memcpy(r.probability, r.logits, cells * sizeof(float));
    r.gate = malloc((choices + 1) * sizeof(*r.gate));
    r.expert = malloc((choices + 1) * sizeof(*r.expert));
    r.slot = malloc((choices + 1) * sizeof(*r.slot));
    r.needed = malloc((r.experts + 1) * sizeof(*r.needed));
    if (below(2))
        r.capacities = malloc((r.experts + 1) * sizeof(*r.capacities));
    for (uint32_t e = 0; r.capacities && e < r.experts; e++)
        r.capacities[e] = below(3) * below(8);
    host_route(&(struct route){ .tokens = r.tokens,
                                .experts = r.experts,
                                .top_k = r.k,
                                .capacity = r.capacity,
                                .logits = r.probability,
                                .gate = r.gate,
                                .expert = r.expert,
                                .slot = r.slot,
                                .needed = r.needed,
                                .capacities = r.capacities });
    return r;
}

static void routed_free(struct routed *r)
{
    free(r->logits), free(r->probability), free(r->gate), free(r->expert), free(r->slot);
    free(r->needed), free(r->capacities);
}

static const uint64_t *capacities_on_subject(const struct routed *r)
{
    return r->capacities ? on_subject(r->capacities, r->experts * sizeof(*r->capacities), 8) : NULL;
}

/* In double: the host's f32 sum over hundreds of experts is off by more than the kernel is. */
static void softmax_exactly(struct routed *r)
{
    for (uint64_t t = 0; t < r->tokens; t++) {
        const float *logits = r->logits + t * r->experts;
        double sum = 0, chosen = 0;

        for (uint32_t e = 0; e < r->experts; e++)
            sum += exp((double)logits[e]);
        for (uint32_t e = 0; e < r->experts; e++)
            r->probability[t * r->experts + e] = (float)(exp((double)logits[e]) / sum);
        for (uint32_t j = 0; j < r->k; j++)
            chosen += exp((double)logits[r->expert[t * r->k + j]]);
        for (uint32_t j = 0; j < r->k; j++)
            r->gate[t * r->k + j] =
                (float)(exp((double)logits[r->expert[t * r->k + j]]) / (r->k > 1 ? chosen : sum));
    }
}

static void check_route(uint32_t experts, uint32_t tokens)
{
    struct routed r = route_some(experts, tokens, 0);
    uint64_t choices = (uint64_t)r.tokens * r.k, cells = (uint64_t)r.tokens * r.experts;
    struct route args = { r.tokens,
                          r.experts,
                          r.k,
                          r.capacity,
                          on_subject(r.logits, cells * sizeof(float), 4),
                          room(MOE_F32, choices),
                          on_subject(NULL, choices * sizeof(int32_t), 4),
                          on_subject(NULL, choices * sizeof(int64_t), 8),
                          on_subject(NULL, r.experts * sizeof(int64_t), 8) };

    args.capacities = capacities_on_subject(&r);
    softmax_exactly(&r);
    RUN(route, &args);
    CHECK(!memcmp(after(args.expert), r.expert, choices * sizeof(int32_t)));
    CHECK(!memcmp(after(args.slot), r.slot, choices * sizeof(int64_t)));
    CHECK(!memcmp(after(args.needed), r.needed, r.experts * sizeof(int64_t)));
    check_values(MOE_F32, args.gate, r.gate, choices, 16, 0);
    check_values(MOE_F32, args.logits, r.probability, cells, 16, 0);
    free_buffers();
    routed_free(&r);
}

static void route_chooses_the_same_experts_and_gives_the_same_slots(void)
{
    for (int round = 0; round < 60 * rounds; round++)
        check_route(some_experts(), below(40));
    /* So many choices that the order is cut into ranges; more experts than are counted at a time.
     */
    for (int i = 0; i < 3; i++)
        check_route(2 + below(7), 5000);
    check_route(9000, 9);
}

static void logits_that_are_no_numbers_still_give_experts_that_exist(void)
{
    enum { TOKENS = 5, EXPERTS = 70, K = 3 };
    float logits[TOKENS * EXPERTS];
    const int32_t *expert;
    struct route args;

    for (int i = 0; i < TOKENS * EXPERTS; i++)
        logits[i] = i < EXPERTS ? NAN : (below(3) ? (below(2) ? NAN : -INFINITY) : draw());
    args = (struct route){ TOKENS,
                           EXPERTS,
                           K,
                           100,
                           on_subject(logits, sizeof(logits), 4),
                           room(MOE_F32, TOKENS * K),
                           on_subject(NULL, TOKENS * K * sizeof(int32_t), 4),
                           on_subject(NULL, TOKENS * K * sizeof(int64_t), 8),
                           on_subject(NULL, EXPERTS * sizeof(int64_t), 8) };
    RUN(route, &args);
    expert = after(args.expert);
    for (int t = 0; t < TOKENS; t++)
        for (int j = 0; j < K; j++) {
            CHECK(expert[t * K + j] >= 0 && expert[t * K + j] < EXPERTS);
            CHECK(j == 0 || expert[t * K + j] != expert[t * K + j - 1]);
        }
    free_buffers();
}

static void the_gradient_of_the_gate_is_the_hosts(void)
{
    for (int round = 0; round < 60 * rounds; round++) {
        struct routed r = route_some(some_experts(), below(30), 0);
        uint64_t choices = (uint64_t)r.tokens * r.k, cells = (uint64_t)r.tokens * r.experts;
        float *grad = floats(choices), *want = floats(cells);
        struct route_backward host = { r.tokens, r.experts, r.k,  r.probability,
                                       r.gate,   r.expert,  grad, want };
        struct route_backward args = host;

        host_route_backward(&host);
        args.probability = on_subject(r.probability, cells * 4, 4);
        args.gate = on_subject(r.gate, choices * 4, 4);
        args.expert = on_subject(r.expert, choices * 4, 4);
        args.grad_gate = on_subject(grad, choices * 4, 4);
        args.grad_logits = room(MOE_F32, cells);
        RUN(route_backward, &args);
        check_values(MOE_F32, args.grad_logits, want, cells, 4 + r.k, 1);
        free_buffers();
        free(grad), free(want);
        routed_free(&r);
    }
}

/* ---- Tokens */

struct tokens_case {
    struct routed r;
    struct routing host, subject;
    uint32_t dtype;
    uint64_t own, all; /* elements of (T,D) and of (E,C,D) */
    uint64_t *first;   /* of the routing's own capacities */
};

/* Of an expert its capacity and a little more; the sum. */
static uint64_t room_of_each(struct tokens_case *c)
{
    uint64_t sum = 0;

    c->first = malloc((c->r.experts + 1) * sizeof(*c->first));
    for (uint32_t e = 0; e < c->r.experts; e++) {
        c->first[e] = sum;
        sum += c->r.capacities[e] + below(3);
    }
    c->first[c->r.experts] = sum;
    return sum;
}

static void tokens_free(struct tokens_case *c)
{
    free(c->first);
    routed_free(&c->r);
}

static struct tokens_case some_tokens(void)
{
    bool many = below(8) == 0; /* choices: more than are summed at a time */
    struct tokens_case c = { .r = many ? route_some(36, below(9), 33 + below(4))
                                       : route_some(1 + below(9), below(30), 0),
                             .dtype = below(3) };
    uint64_t most = 0, choices = (uint64_t)c.r.tokens * c.r.k, rows;
    uint32_t width = (uint32_t)some_width();

    for (uint32_t e = 0; e < c.r.experts; e++)
        most = (uint64_t)c.r.needed[e] > most ? (uint64_t)c.r.needed[e] : most;
    rows = (most < c.r.capacity ? most : c.r.capacity) + below(4);
    if (below(20) == 0)
        width =
            below(2) ? 7168 : 8400; /* in f32, and the second in 16 bits, more than a block holds */
    c.host = (struct routing){ .tokens = c.r.tokens,
                               .experts = c.r.experts,
                               .top_k = c.r.k,
                               .width = width,
                               .rows = rows,
                               .capacity = c.r.capacity,
                               .expert = c.r.expert,
                               .slot = c.r.slot,
                               .needed = c.r.needed,
                               .capacities = c.r.capacities };
    if (c.r.capacities)
        c.host.rows = rows = room_of_each(&c);
    c.host.first = c.r.capacities ? c.first : NULL;
    c.subject = c.host;
    c.subject.capacities = capacities_on_subject(&c.r);
    if (c.r.capacities)
        c.subject.first = on_subject(c.first, (c.r.experts + 1) * sizeof(*c.first), 8);
    c.subject.expert = on_subject(c.r.expert, choices * sizeof(int32_t), 4);
    c.subject.slot = on_subject(c.r.slot, choices * sizeof(int64_t), 8);
    c.subject.needed = on_subject(c.r.needed, c.r.experts * sizeof(int64_t), 8);
    c.own = (uint64_t)c.r.tokens * width;
    c.all = routing_rows(&c.host) * width;
    return c;
}

static void encode_fills_every_row(void)
{
    for (int round = 0; round < 60 * rounds; round++) {
        struct tokens_case c = some_tokens();
        float *x, *want = malloc((c.all + 1) * sizeof(float));
        struct encode args = { c.subject, c.dtype, typed(c.dtype, c.own, 1, &x),
                               room(c.dtype, c.all) };

        host_encode(&(struct encode){ c.host, MOE_F32, x, want });
        RUN(encode, &args);
        check_values(c.dtype, args.to, want, c.all, 0, 0);
        free_buffers();
        free(x), free(want);
        tokens_free(&c);
    }
}

static void one_hot_rows_and_nonzero_are_the_hosts(void)
{
    for (int round = 0; round < 60 * rounds; round++) {
        struct tokens_case c = some_tokens();
        uint64_t choices = (uint64_t)c.r.tokens * c.r.k, columns = c.r.experts + below(40), all;
        bool by_slot = below(2), scaled = below(2);
        float *grad, *want, *from, *scales = floats(choices);

        for (uint64_t i = 0; i < choices; i++)
            columns = c.r.slot[i] >= (int64_t)columns ? (uint64_t)c.r.slot[i] + 1 : columns;
        all = c.r.tokens * columns;
        want = malloc((all + 1) * sizeof(*want));
        {
            struct one_hot args = {
                c.r.tokens,        c.r.k,
                below(c.r.k),      columns,
                by_slot,           c.subject.expert,
                c.subject.slot,    scaled ? on_subject(c.r.gate, choices * 4, 4) : NULL,
                room(MOE_F32, all)
            };
            struct one_hot_backward back = { c.r.tokens,
                                             c.r.k,
                                             args.choice,
                                             columns,
                                             c.subject.expert,
                                             c.subject.slot,
                                             typed(MOE_F32, all, 1, &grad),
                                             on_subject(scales, choices * 4, 4) };
            struct nonzero ones = { all, c.dtype, NULL, room(c.dtype, all) };

            host_one_hot(&(struct one_hot){ c.r.tokens, c.r.k, args.choice, columns, by_slot,
                                            c.r.expert, c.r.slot, scaled ? c.r.gate : NULL, want });
            RUN(one_hot, &args);
            check_values(MOE_F32, args.to, want, all, 0, 0);
            host_one_hot_backward(&(struct one_hot_backward){
                c.r.tokens, c.r.k, args.choice, columns, c.r.expert, c.r.slot, grad, scales });
            RUN(one_hot_backward, &back);
            check_values(MOE_F32, back.grad_scale, scales, choices, 0, 0);
            ones.from = typed(MOE_F32, all, 1, &from);
            for (uint64_t i = 0; i < all; i++)
                from[i] = below(2) ? 0 : from[i];
            ones.from = on_subject(from, all * 4, 4);
            host_nonzero(&(struct nonzero){ all, MOE_F32, from, want });
            RUN(nonzero, &ones);
            check_values(c.dtype, ones.to, want, all, 0, 0);
        }
        free_buffers();
        free(grad), free(want), free(scales), free(from);
        tokens_free(&c);
    }
}

static void decode_and_encode_backward_sum_a_tokens_rows(void)
{
    for (int round = 0; round < 60 * rounds; round++) {
        struct tokens_case c = some_tokens();
        uint64_t choices = (uint64_t)c.r.tokens * c.r.k;
        bool plus = below(2);
        float *rows, *add = floats(c.own), *want = malloc((c.own + 1) * sizeof(float));
        struct decode decode = { c.subject, c.dtype, on_subject(c.r.gate, choices * 4, 4),
                                 typed(c.dtype, c.all, 1, &rows), room(c.dtype, c.own) };
        struct encode_backward back = { c.subject, c.dtype, decode.from,
                                        plus ? on_subject(add, c.own * 4, 4) : NULL,
                                        room(c.dtype, c.own) };

        host_decode(&(struct decode){ c.host, MOE_F32, c.r.gate, rows, want });
        RUN(decode, &decode);
        check_values(c.dtype, decode.to, want, c.own, c.r.k, 1);
        host_encode_backward(
            &(struct encode_backward){ c.host, MOE_F32, rows, plus ? add : NULL, want });
        RUN(encode_backward, &back);
        check_values(c.dtype, back.to, want, c.own, c.r.k + 1, 1);
        free_buffers();
        free(rows), free(add), free(want);
        tokens_free(&c);
    }
}

static void decode_backward_scatters_and_takes_dot_products(void)
{
    for (int round = 0; round < 60 * rounds; round++) {
        struct tokens_case c = some_tokens();
        uint64_t choices = (uint64_t)c.r.tokens * c.r.k;
        float *grad, *result, *want = malloc((c.all + 1) * sizeof(float)), *dots = floats(choices);
        struct decode_backward args = { c.subject,
                                        c.dtype,
                                        on_subject(c.r.gate, choices * 4, 4),
                                        typed(c.dtype, c.own, 1, &grad),
                                        typed(c.dtype, c.all, 1, &result),
                                        room(c.dtype, c.all),
                                        room(MOE_F32, choices) };

        host_decode_backward(
            &(struct decode_backward){ c.host, MOE_F32, c.r.gate, grad, result, want, dots });
        RUN(decode_backward, &args);
        check_values(c.dtype, args.to, want, c.all, 1, 0);
        check_values(MOE_F32, args.grad_gate, dots, choices, 2 * sqrt(c.host.width), 2);
        free_buffers();
        free(grad), free(result), free(want), free(dots);
        tokens_free(&c);
    }
}

/* ---- Moving */

static void move_copies_repeats_sums_and_converts(void)
{
    for (int round = 0; round < 150 * rounds; round++) {
        uint32_t from_type = below(3), to_type = below(2) ? from_type : below(3);
        uint64_t dims[3] = { below(4), 1 + below(4), 1 + below(3) }, terms = 1 + below(3);
        uint64_t block = some_width(), cells = dims[0] * dims[1] * dims[2];
        bool repeat = below(2);
        float *from, *want = malloc((cells * block + 1) * sizeof(*want));
        /* from (i, term, j, k) or, repeated, the same for every j; to (k, j, i) */
        struct move args = { .from_type = from_type,
                             .to_type = to_type,
                             .block = block,
                             .dims = { dims[0], dims[1], dims[2] },
                             .from_stride = { terms * dims[1] * dims[2], repeat ? 0 : dims[2], 1 },
                             .to_stride = { 1, dims[0], dims[1] * dims[0] },
                             .terms = terms,
                             .term_stride = dims[1] * dims[2] };
        struct move host = args;

        args.from = typed(from_type, cells * terms * block, 1, &from);
        args.to = room(to_type, cells * block);
        host.from_type = host.to_type = MOE_F32;
        host.from = from;
        host.to = want;
        host_move(&host);
        RUN(move, &args);
        check_values(to_type, args.to, want, cells * block, (double)(terms - 1), 1);
        free_buffers();
        free(from), free(want);
    }
}

static void fill_clears_what_it_is_told(void)
{
    for (int round = 0; round < 10; round++) {
        uint64_t bytes = below(5000);
        struct fill args = { on_subject(NULL, bytes, 1), bytes };
        const char *got;

        RUN(fill, &args);
        got = after(args.to);
        for (uint64_t i = 0; i < bytes; i++)
            CHECK(got[i] == 0);
        free_buffers();
    }
}

/* ---- Experts */

static void activations_and_their_slopes_are_the_hosts(void)
{
    for (int round = 0; round < 90 * rounds; round++) {
        uint32_t dtype = below(3), kind = below(3);
        uint64_t batch = 1 + below(3), rows = below(9), width = some_width();
        uint64_t n = batch * rows * width;
        float scale = (float)(1u << below(6)), *pre, *up, *bias, *grad;
        float *post = floats(n), *grad_pre = floats(n), *grad_up = floats(n), *raw;
        bool in_place = kind == MOE_RELU && below(2), in_place_back = below(2);
        struct activate args = { dtype, kind, batch, rows, width };
        struct activate_backward back = { dtype, kind, batch, rows, width };

        args.bias = typed(dtype, batch * width, 1, &bias);
        args.pre = typed(dtype, n, scale, &pre);
        args.up = typed(dtype, n, 1, &up);
        args.post = in_place ? args.pre : room(dtype, n);
        raw = malloc((n + 1) * sizeof(float));
        memcpy(raw, pre, n * sizeof(float));
        host_activate(&(struct activate){ MOE_F32, kind, batch, rows, width, bias, pre, up,
                                          in_place ? pre : post });
        RUN(activate, &args);
        if (!in_place)
            check_values(dtype, args.pre, pre, n, 0, 0);
        check_values(dtype, args.post, in_place ? pre : post, n, 32, 0.05);
        free_buffers();
        free(pre), free(up);

        up = NULL;
        back.pre = typed(dtype, n, scale, &pre);
        back.up = kind == MOE_SWIGLU ? typed(dtype, n, 1, &up) : NULL;
        back.grad_post = typed(dtype, n, 1, &grad);
        back.grad_pre = in_place_back ? (void *)back.grad_post : room(dtype, n);
        back.grad_up = kind == MOE_SWIGLU ? room(dtype, n) : NULL;
        host_activate_backward(&(struct activate_backward){ MOE_F32, kind, batch, rows, width, pre,
                                                            up, grad, grad_pre, grad_up });
        RUN(activate_backward, &back);
        check_values(dtype, back.grad_pre, grad_pre, n, 64, (double)scale);
        if (kind == MOE_SWIGLU)
            check_values(dtype, back.grad_up, grad_up, n, 32, 0.05);
        free_buffers();
        free(pre), free(up), free(bias), free(grad), free(post), free(grad_pre), free(grad_up);
        free(raw);
    }
}

static void biases_are_added_and_summed_with_their_padding(void)
{
    for (int round = 0; round < 60 * rounds; round++) {
        uint32_t dtype = below(3);
        uint64_t batch = below(4), rows = below(8) ? below(40) : 200 + below(400);
        uint64_t width = below(20) ? some_width() : 0, pad = below(2) ? 8 * below(2) : below(5);
        uint64_t n, stride = width + pad;
        bool keep = below(2);
        float *to, *bias, *sum;
        struct add_bias add = { dtype, batch, rows, width, stride };
        struct sum_rows sums = { dtype, keep, batch, rows, width, stride };

        if (rows > 100)
            width = width > 100 ? 100 : width, stride = width + pad;
        add.width = sums.width = width;
        add.bias_stride = sums.to_stride = stride;
        n = batch * rows * width;
        add.to = typed(dtype, n, 1, &to);
        add.bias = typed(dtype, batch * stride, 1, &bias);
        sums.from = add.to;
        sums.to = typed(dtype, batch * stride, 1, &sum);
        host_sum_rows(&(struct sum_rows){ MOE_F32, keep, batch, rows, width, stride, to, sum });
        host_add_bias(&(struct add_bias){ MOE_F32, batch, rows, width, stride, bias, to });
        RUN(add_bias, &add);
        check_values(dtype, add.to, to, n, 0, 0);
        RUN(sum_rows, &sums);
        check_values(dtype, sums.to, sum, batch * stride, (double)rows / 4 + 8, 2);
        free_buffers();
        free(to), free(bias), free(sum);
    }
}

static void gemm_multiplies_in_every_orientation(void)
{
    for (int round = 0; round < 60 * rounds && subject_has(KERNEL_gemm); round++) {
        uint32_t dtype = below(3);
        uint64_t m = below(40), n = below(40), k = below(8) ? below(70) : 0, batch = below(4);
        float *a, *b, *c;
        struct gemm args = { .dtype = dtype,
                             .c_f32 = below(2),
                             .transpose_a = below(2),
                             .transpose_b = below(2),
                             .keep = below(2),
                             .batch = (uint32_t)batch,
                             .m = m,
                             .n = n,
                             .k = k,
                             .stride_a = m * k,
                             .stride_b = k * n,
                             .stride_c = m * n + (k ? 0 : below(3)) };
        struct gemm host = args;
        uint64_t room_c = batch ? (batch - 1) * args.stride_c + m * n : 0;

        args.a = typed(dtype, batch * m * k, 1, &a);
        args.b = typed(dtype, batch * k * n, 1, &b);
        args.c = typed(gemm_result_type(&args), room_c, 1, &c);
        host.dtype = MOE_F32;
        host.a = a;
        host.b = b;
        host.c = c;
        host_gemm(&host);
        RUN(gemm, &args);
        check_values(gemm_result_type(&args), args.c, c, room_c, 2 * (double)k, 1);
        free_buffers();
        free(a), free(b), free(c);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(route_chooses_the_same_experts_and_gives_the_same_slots),
        TEST(logits_that_are_no_numbers_still_give_experts_that_exist),
        TEST(the_gradient_of_the_gate_is_the_hosts),
        TEST(every_router_chooses_as_the_host_does),
        TEST(rows_get_their_length_and_its_slope),
        TEST(only_kept_choices_have_losses),
        TEST(encode_fills_every_row),
        TEST(one_hot_rows_and_nonzero_are_the_hosts),
        TEST(decode_and_encode_backward_sum_a_tokens_rows),
        TEST(decode_backward_scatters_and_takes_dot_products),
        TEST(move_copies_repeats_sums_and_converts),
        TEST(move_rows_follows_its_table),
        TEST(fill_clears_what_it_is_told),
        TEST(activations_and_their_slopes_are_the_hosts),
        TEST(biases_are_added_and_summed_with_their_padding),
        TEST(rows_that_differ_get_the_biases_of_their_owners),
        TEST(gemm_multiplies_in_every_orientation),
        TEST(gemm_rows_multiplies_each_experts_own_rows),
    };
    const char *more = getenv("MOETUNE_TEST_ROUNDS");
    int failed;

    seed = test_seed();
    rounds = more ? strtod(more, NULL) : 1;
    srand((unsigned)seed);
    if (subject_open(&device) || stream_open(device, &stream))
        return 2;
    printf("  %s\n", device->ops->name);
    failed = check_all(tests, sizeof(tests) / sizeof(tests[0]));
    stream_close(stream);
    device_close(device);
    return failed;
}
