/* Routers other than a softmax over all experts, and the loss of balance: CUDA against the host. */
#ifndef ROUTER_CASES_H
#define ROUTER_CASES_H

#include "cuda_cases.h"
#include "host.h"

/* All logits from a few values: ties everywhere, among the best above all. */
static float tied(void)
{
    static const float values[] = { 0.5f, 0.5f, 0.25f, 0.0f, -0.0f };

    return values[below(5)];
}

static struct route some_router(uint32_t tokens)
{
    struct route r = { .tokens = tokens,
                       .router = below(3),
                       .capacity = below(2) ? below(8) : 1000 };
    uint32_t each = 1 + below(below(4) ? 9 : 70), most;

    r.groups = 1 + below(below(4) ? 12 : 70);
    r.experts = r.groups * each;
    r.group_limit = r.router == MOE_ROUTER_BILEVEL ? 1 : 1 + below(r.groups);
    most = r.group_limit * each;
    r.top_k = r.router == MOE_ROUTER_BILEVEL ? 1 : 1 + below(most < 8 ? most : 8);
    if (r.router != MOE_ROUTER_BILEVEL && below(4) == 0)
        r.groups = r.group_limit = 0;
    return r;
}

/* On the host, with memory of its own for all but the logits. */
static void route_on_host(struct route *r, float *probability)
{
    uint64_t choices = (uint64_t)r->tokens * r->top_k;

    r->logits = probability;
    r->gate = malloc((choices + 1) * sizeof(*r->gate));
    r->expert = malloc((choices + 1) * sizeof(*r->expert));
    r->slot = malloc((choices + 1) * sizeof(*r->slot));
    r->needed = malloc(r->experts * sizeof(*r->needed));
    r->importance = below(2) ? malloc((r->tokens + 1) * sizeof(*r->importance)) : NULL;
    r->turn = r->importance ? malloc((r->tokens + 1) * sizeof(*r->turn)) : NULL;
    host_route(r);
}

static const float *compared;

static int by_importance(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (compared[x] != compared[y])
        return compared[x] > compared[y] ? -1 : 1;
    return x < y ? -1 : 1;
}

/* Slots in the order of importance, as the subject found it: its last bit is a matter of taste. */
static void check_turns(const struct route *args, const int32_t *expert)
{
    uint32_t *turn = malloc((args->tokens + 1) * sizeof(*turn));
    int64_t *given = calloc(args->experts, sizeof(*given));
    const int64_t *slot = after(args->slot);
    uint32_t wrong = 0;

    compared = after(args->importance);
    for (uint32_t t = 0; t < args->tokens; t++)
        turn[t] = t;
    qsort(turn, args->tokens, sizeof(*turn), by_importance);
    CHECK(!memcmp(turn, after(args->turn), args->tokens * sizeof(*turn)));
    for (uint32_t j = 0; j < args->top_k; j++)
        for (uint32_t i = 0; i < args->tokens; i++) {
            uint64_t at = (uint64_t)turn[i] * args->top_k + j;
            int64_t want = given[expert[at]]++;

            wrong += slot[at] != ((uint64_t)want < args->capacity ? want : -1);
        }
    CHECK(!wrong);
    free(turn), free(given);
}

/* What is chosen already: slots as for fresh choices, their gates to the last bit, and no gradient
 * for a token that would choose others. */
static void check_given(const struct route *fresh, const float *raw, const float *gate,
                        uint64_t cells)
{
    uint64_t choices = (uint64_t)fresh->tokens * fresh->top_k;
    struct slots s = { fresh->tokens, fresh->experts, fresh->top_k, fresh->capacity,
                       NULL,          NULL,           NULL };
    struct slots host = s;
    struct route args = *fresh;
    int64_t *slot = malloc((choices + 1) * 8), *needed = malloc(fresh->experts * 8);

    host.expert = fresh->expert, host.slot = slot, host.needed = needed;
    host_slots(&host);
    s.expert = on_subject(fresh->expert, choices * sizeof(int32_t), 4);
    s.slot = on_subject(NULL, choices * 8, 8);
    s.needed = on_subject(NULL, fresh->experts * 8, 8);
    RUN(slots, &s);
    CHECK(!memcmp(after(s.slot), slot, choices * 8));
    CHECK(!memcmp(after(s.needed), needed, fresh->experts * 8));
    free_buffers();
    args.logits = on_subject(raw, cells * 4, 4);
    args.given = on_subject(fresh->expert, choices * sizeof(int32_t), 4);
    args.bias = fresh->bias ? on_subject(fresh->bias, fresh->experts * 4, 4) : NULL;
    args.expert = on_subject(NULL, choices * sizeof(int32_t), 4);
    args.gate = room(MOE_F32, choices);
    args.slot = NULL, args.needed = NULL, args.importance = NULL, args.turn = NULL;
    RUN(route, &args);
    CHECK(!memcmp(after(args.gate), gate, choices * 4));
    CHECK(!memcmp(after(args.expert), fresh->expert, choices * sizeof(int32_t)));
    free_buffers();
    free(slot), free(needed);
}

/* Known choices so far below the best that each weighs nothing: their sum is 0 on both sides. */
static void check_stale(const struct route *fresh, const float *raw, uint64_t cells)
{
    uint64_t choices = (uint64_t)fresh->tokens * fresh->top_k;
    int32_t *known = malloc((choices + 1) * sizeof(*known)), *live = malloc((choices + 1) * 4);
    float *low = malloc((cells + 1) * 4), *logits = malloc((cells + 1) * 4);
    float *gate = malloc((choices + 1) * 4);
    struct route host = *fresh, args;

    memcpy(low, raw, cells * 4);
    for (uint64_t i = 0; i < choices; i++) {
        known[i] = (int32_t)((i / fresh->top_k + i % fresh->top_k) % fresh->experts);
        low[i / fresh->top_k * fresh->experts + (uint64_t)known[i]] -= 300;
    }
    memcpy(logits, low, cells * 4);
    host.logits = logits, host.given = known, host.expert = live, host.gate = gate;
    host.slot = NULL, host.needed = NULL, host.importance = NULL, host.turn = NULL;
    host_route(&host);
    args = host;
    args.logits = on_subject(low, cells * 4, 4);
    args.given = on_subject(known, choices * sizeof(*known), 4);
    args.bias = fresh->bias ? on_subject(fresh->bias, fresh->experts * 4, 4) : NULL;
    args.expert = on_subject(NULL, choices * sizeof(*live), 4);
    args.gate = room(MOE_F32, choices);
    RUN(route, &args);
    for (uint64_t i = 0; i < choices; i++)
        CHECK(isfinite(gate[i]) && isfinite(((const float *)after(args.gate))[i]));
    check_values(MOE_F32, args.gate, gate, choices, 64, 0);
    free_buffers();
    free(known), free(live), free(low), free(logits), free(gate);
}

static void check_router_backward(const struct route *r, uint64_t cells)
{
    uint64_t choices = (uint64_t)r->tokens * r->top_k;
    float *grad = floats(choices), *want = floats(cells);
    int32_t *live = malloc((choices + 1) * sizeof(*live));
    struct route_backward host = { r->tokens, r->experts, r->top_k,  r->logits, r->gate, r->expert,
                                   grad,      want,       r->groups, r->router, live };
    struct route_backward args;

    /* Some in another order, which is no change, some others. */
    for (uint64_t i = 0; i < choices; i++)
        live[i] = r->expert[i / r->top_k * r->top_k + (i + 1) % r->top_k];
    for (uint32_t t = 0; t < r->tokens; t += 3)
        live[(uint64_t)t * r->top_k] = (int32_t)below(r->experts);
    host.live = below(2) ? live : NULL;
    args = host;

    host_route_backward(&host);
    args.probability = on_subject(r->logits, cells * 4, 4);
    args.gate = on_subject(r->gate, choices * 4, 4);
    args.expert = on_subject(r->expert, choices * 4, 4);
    args.live = host.live ? on_subject(live, choices * 4, 4) : NULL;
    args.grad_gate = on_subject(grad, choices * 4, 4);
    args.grad_logits = room(MOE_F32, cells);
    RUN(route_backward, &args);
    check_values(MOE_F32, args.grad_logits, want, cells, 4 + r->top_k, 1);
    free_buffers();
    free(grad), free(want), free(live);
}

static void check_balance(const struct route *r, uint64_t cells)
{
    uint32_t columns = gate_columns(r->router, r->experts, r->groups);
    float *share = floats(columns), *mean = floats(columns), *grad = floats(cells);
    struct balance host = { r->tokens, r->experts, r->top_k, r->groups, r->router,
                            r->logits, r->needed,  share,    mean };
    struct balance args = host;
    struct balance_backward back = { r->tokens, r->experts, r->groups, r->router,
                                     r->logits, share,      { 2, 3 },  grad };
    struct balance_backward back_args = back;

    host_balance(&host);
    args.probability = on_subject(r->logits, cells * 4, 4);
    args.needed = on_subject(r->needed, r->experts * sizeof(int64_t), 8);
    args.share = room(MOE_F32, columns);
    args.mean = room(MOE_F32, columns);
    RUN(balance, &args);
    check_values(MOE_F32, args.share, share, columns, 1, 0);
    check_values(MOE_F32, args.mean, mean, columns, 20, 0);
    free_buffers();
    back_args.probability = on_subject(r->logits, cells * 4, 4);
    back_args.share = on_subject(share, columns * 4, 4);
    back_args.grad_logits = on_subject(grad, cells * 4, 4);
    host_balance_backward(&back);
    RUN(balance_backward, &back_args);
    check_values(MOE_F32, back_args.grad_logits, grad, cells, 8, 1);
    free_buffers();
    free(share), free(mean), free(grad);
}

static void check_router(uint32_t tokens)
{
    struct route host = some_router(tokens), args = host;
    uint32_t columns = gate_columns(host.router, host.experts, host.groups);
    uint64_t choices = (uint64_t)host.tokens * host.top_k, cells = (uint64_t)host.tokens * columns;
    float *logits = floats(cells), *bias = floats(host.experts), *raw, *gate;
    bool ties = below(2), biased = host.router == MOE_ROUTER_SIGMOID && below(2);

    for (uint64_t i = 0; i < cells && ties; i++)
        logits[i] = tied();
    for (uint32_t e = 0; e < host.experts && ties; e++)
        bias[e] = 0.25f * (float)below(2);
    args.logits = on_subject(logits, cells * 4, 4);
    args.gate = room(MOE_F32, choices);
    args.expert = on_subject(NULL, choices * sizeof(int32_t), 4);
    args.slot = on_subject(NULL, choices * sizeof(int64_t), 8);
    args.needed = on_subject(NULL, args.experts * sizeof(int64_t), 8);
    args.bias = biased ? on_subject(bias, host.experts * 4, 4) : NULL;
    host.bias = biased ? bias : NULL;
    raw = malloc((cells + 1) * 4), memcpy(raw, logits, cells * 4);
    gate = malloc((choices + 1) * 4);
    route_on_host(&host, logits);
    if (host.importance) {
        args.importance = room(MOE_F32, host.tokens);
        args.turn = on_subject(NULL, host.tokens * sizeof(uint32_t), 4);
    }
    RUN(route, &args);
    CHECK(!memcmp(after(args.expert), host.expert, choices * sizeof(int32_t)));
    if (host.importance) {
        check_values(MOE_F32, args.importance, host.importance, host.tokens, 64, 0);
        check_turns(&args, host.expert);
    }
    /* Where instructions are the same, so are orders. */
    if (!host.importance || !subject_has(KERNEL_gemm))
        CHECK(!memcmp(after(args.slot), host.slot, choices * sizeof(int64_t)));
    memcpy(gate, after(args.gate), choices * 4);
    CHECK(!memcmp(after(args.needed), host.needed, host.experts * sizeof(int64_t)));
    check_values(MOE_F32, args.gate, host.gate, choices, 64, 0);
    check_values(MOE_F32, args.logits, logits, cells, 64, 0);
    free_buffers();
    check_given(&host, raw, gate, cells);
    if (host.router != MOE_ROUTER_BILEVEL && host.top_k < host.experts)
        check_stale(&host, raw, cells);
    check_router_backward(&host, cells);
    check_balance(&host, cells);
    free(logits), free(bias), free(host.gate), free(host.expert), free(host.slot);
    free(host.needed), free(host.importance), free(host.turn), free(raw), free(gate);
}

/* Cosines: lengths and slopes, also of rows of zeros and beyond the limit of the exponent. */
static void check_unit_rows(uint64_t rows, uint64_t width)
{
    float exponent = below(3) ? 3 * draw() : 5 + draw(), *from = floats(rows * width), *at = NULL;
    float *to = floats(rows * width), *length = floats(rows), *grad = floats(rows * width);
    float *back = floats(rows * width), *slope = floats(rows);
    struct unit_rows host = { rows, width, below(2) ? &exponent : NULL, from, to, length }, args;
    struct unit_rows_backward host_back = {
        rows, width, host.exponent, to, length, grad, back, host.exponent ? slope : NULL
    };
    struct unit_rows_backward back_args;
    double factor = host.exponent ? exp(fmin((double)exponent, 4.60517)) : 1;

    for (uint64_t i = 0; rows && i < width && below(4) == 0; i++)
        from[i] = 0;
    host_unit_rows(&host);
    args = host;
    at = host.exponent ? on_subject(&exponent, 4, 4) : NULL;
    args.exponent = at;
    args.from = on_subject(from, rows * width * 4, 4);
    args.to = room(MOE_F32, rows * width);
    args.length = room(MOE_F32, rows);
    RUN(unit_rows, &args);
    check_values(MOE_F32, args.to, to, rows * width, 16, factor);
    check_values(MOE_F32, args.length, length, rows, 16, 0);
    free_buffers();
    host_unit_rows_backward(&host_back);
    back_args = host_back;
    back_args.exponent = host.exponent ? on_subject(&exponent, 4, 4) : NULL;
    back_args.to = on_subject(to, rows * width * 4, 4);
    back_args.length = on_subject(length, rows * 4, 4);
    back_args.grad_to = on_subject(grad, rows * width * 4, 4);
    back_args.grad_from = room(MOE_F32, rows * width);
    back_args.grad_exponent = host.exponent ? room(MOE_F32, rows) : NULL;
    RUN(unit_rows_backward, &back_args);
    for (uint64_t r = 0; r < rows; r++) /* what is of order factor / length is compared so */
        for (uint64_t i = 0; i < width; i++) {
            double got = (double)((const float *)after(back_args.grad_from))[r * width + i];
            double scale = factor / (double)length[r];

            CHECK(fabs(got - (double)back[r * width + i]) <= 3e-5 * scale);
        }
    if (host.exponent)
        check_values(MOE_F32, back_args.grad_exponent, slope, rows, 64,
                     factor * sqrt((double)width));
    free_buffers();
    free(from), free(to), free(length), free(grad), free(back), free(slope);
}

static void rows_get_their_length_and_its_slope(void)
{
    for (int round = 0; round < 20 * rounds; round++)
        check_unit_rows(below(30), 1 + below(below(3) ? 40 : 300));
}

static void only_kept_choices_have_losses(void)
{
    for (int round = 0; round < 10 * rounds; round++) {
        uint64_t n = below(400);
        float *loss = floats(n), *want = floats(n);
        int64_t *slot = malloc((n + 1) * 8);
        struct keep_losses args = { n, slot, loss, want };

        for (uint64_t i = 0; i < n; i++)
            slot[i] = (int64_t)below(3) - 1;
        host_keep_losses(&args);
        args.slot = on_subject(slot, n * 8, 8);
        args.loss = on_subject(loss, n * 4, 4);
        args.grad_gate = room(MOE_F32, n);
        RUN(keep_losses, &args);
        CHECK(!memcmp(after(args.grad_gate), want, n * 4));
        free_buffers();
        free(loss), free(want), free(slot);
    }
}

static void every_router_chooses_as_the_host_does(void)
{
    for (int round = 0; round < 60 * rounds; round++)
        check_router(below(40));
    check_router(700); /* several ranges of tokens */
}

#endif
