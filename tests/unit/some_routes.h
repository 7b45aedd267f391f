/* Routes a few tokens by any router, and computes its gates in double precision. */
#ifndef SOME_ROUTES_H
#define SOME_ROUTES_H

#include "host.h"
#include "random.h"
#include "shape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXPERTS = 24, COLUMNS = 48, TOKENS = 6 };

static uint64_t seed, drawn;

static inline uint32_t below(uint32_t n)
{
    return random_below(seed, drawn++, n);
}

static inline float draw(void)
{
    return random_unit(seed, drawn++);
}

/* Some tokens through one router, and all that came of it. */
struct routed {
    struct route r;
    uint32_t columns;
    float raw[TOKENS * COLUMNS], probability[TOKENS * COLUMNS], gate[TOKENS * EXPERTS];
    float bias[EXPERTS], importance[TOKENS];
    uint32_t turn[TOKENS];
    int32_t expert[TOKENS * EXPERTS];
    int64_t slot[TOKENS * EXPERTS], needed[EXPERTS];
};

static inline uint32_t some_divisor(uint32_t n)
{
    uint32_t d;

    do
        d = 1 + below(n);
    while (n % d);
    return d;
}

/* Few values, so that many are equal: then bias and sums of two tie as well. */
static inline float tied(bool ties)
{
    return ties ? (float)below(4) * 0.25f - 0.25f : 3 * draw();
}

static inline void some_router(struct route *r)
{
    r->experts = 1 + below(EXPERTS);
    r->router = below(3);
    r->groups = r->router == MOE_ROUTER_BILEVEL || below(4) ? some_divisor(r->experts) : 0;
    r->group_limit = r->groups ? 1 + below(r->groups) : 0;
    if (r->router == MOE_ROUTER_BILEVEL)
        r->group_limit = 1;
    r->top_k = r->groups ? r->group_limit * (r->experts / r->groups) : r->experts;
    r->top_k = r->router == MOE_ROUTER_BILEVEL ? 1 : 1 + below(r->top_k < 8 ? r->top_k : 8);
    r->tokens = 1 + below(TOKENS);
    r->capacity = below(5);
}

static inline void route_some(struct routed *x)
{
    bool ties = below(2);

    memset(x, 0, sizeof(*x));
    some_router(&x->r);
    x->columns = gate_columns(x->r.router, x->r.experts, x->r.groups);
    for (uint32_t i = 0; i < x->r.tokens * x->columns; i++)
        x->raw[i] = x->probability[i] = tied(ties);
    for (uint32_t e = 0; e < x->r.experts; e++)
        x->bias[e] = tied(ties) / 8;
    x->r.logits = x->probability;
    x->r.gate = x->gate;
    x->r.expert = x->expert;
    x->r.slot = x->slot;
    x->r.needed = x->needed;
    x->r.bias = x->r.router == MOE_ROUTER_SIGMOID && below(2) ? x->bias : NULL;
    if (below(2)) {
        x->r.importance = x->importance;
        x->r.turn = x->turn;
    }
    host_route(&x->r);
}

struct ranked {
    float score;
    uint32_t number;
};

static inline int by_score(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static inline void probabilities(const struct routed *x, const double *logits, double *out)
{
    uint32_t first = x->r.router == MOE_ROUTER_BILEVEL ? x->r.groups : x->columns;

    for (uint32_t c = 0; c < x->columns; c++)
        out[c] = x->r.router == MOE_ROUTER_SIGMOID ? 1 / (1 + exp(-logits[c])) : exp(logits[c]);
    for (uint32_t begin = 0; begin < x->columns && x->r.router != MOE_ROUTER_SIGMOID;) {
        uint32_t end = begin ? x->columns : first;
        double sum = 0;

        for (uint32_t c = begin; c < end; c++)
            sum += out[c];
        for (uint32_t c = begin; c < end; c++)
            out[c] /= sum;
        begin = end;
    }
}

static inline void gates(const struct routed *x, uint32_t t, const double *logits, double *gate)
{
    const int32_t *expert = x->expert + t * x->r.top_k;
    double p[COLUMNS], sum = 0;

    probabilities(x, logits, p);
    for (uint32_t j = 0; j < x->r.top_k; j++) {
        uint32_t each = x->r.groups ? x->r.experts / x->r.groups : 1, e = (uint32_t)expert[j];

        gate[j] =
            x->r.router == MOE_ROUTER_BILEVEL ? p[e / each] * p[x->r.groups + e % each] : p[e];
        sum += gate[j];
    }
    for (uint32_t j = 0; j < x->r.top_k; j++)
        gate[j] /= x->r.top_k > 1 ? sum : 1;
}

static inline void logits_of(const struct routed *x, uint32_t t, double *logits)
{
    for (uint32_t c = 0; c < x->columns; c++)
        logits[c] = (double)x->raw[t * x->columns + c];
}

#endif
