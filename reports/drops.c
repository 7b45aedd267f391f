/* Routes a rank's tokens once, and gives slots in both orders. */
#include "drops.h"

#include "random.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What finds no slot at a capacity factor, as shares of all. */
struct drops {
    double factor;
    uint64_t capacity;
    double choices;
    double gate[2]; /* of the gates as the layer takes them: by token, by priority */
};

enum { DROP_FACTORS = 2 };
static const double factors[DROP_FACTORS] = { 1, 0.5 };

enum { TOKENS_MOST = 4096, COUNTS_BYTES = 4096 };

/* ---- what experts get */

/* Expert e gets as much as (e+1)^-a of expert 0: finds the a by which the largest is so many times
 * the mean. */
static void fill_skew(double skew, double *popularity, uint32_t experts)
{
    double low = 0, high = 64;

    for (int i = 0; i < 60; i++) {
        double a = (low + high) / 2, sum = 0;

        for (uint32_t e = 0; e < experts; e++)
            sum += pow(e + 1, -a);
        *(experts / sum < skew ? &low : &high) = a;
    }
    for (uint32_t e = 0; e < experts; e++)
        popularity[e] = pow(e + 1, -low);
}

/* Reads "counts 12 7 ...", whatever stands between them; false: they are not of these experts. */
static bool fill_counts(const char *text, double *popularity, uint32_t experts)
{
    uint32_t n = 0;

    if (strncmp(text, "counts", 6) != 0)
        return false; /* of several steps */
    for (const char *at = text + strcspn(text, "0123456789"); *at && *at != ';' && n < experts;
         at += strcspn(at, "0123456789;")) {
        char *end;

        popularity[n++] = strtod(at, &end) + 1e-3; /* who got none may get some */
        at = end;
    }
    return n == experts;
}

/* The load of the last entry that has one. */
static const char *load_of(const struct layer_facts *layer)
{
    const char *load = "";

    for (size_t i = 0; i < layer->entry_count; i++)
        load = *layer->entries[i].load ? layer->entries[i].load : load;
    return load;
}

int drops_read(struct store *store, struct layer_facts *layer)
{
    static const char skew[] = "skew ", counts[] = "max/mean ";
    const char *load = load_of(layer);
    uint32_t experts = layer->shape.experts;
    char text[COUNTS_BYTES] = "";
    bool known = false;
    int rc = OK;

    if (strncmp(load, skew, strlen(skew)) != 0 && strncmp(load, counts, strlen(counts)) != 0)
        return OK;
    layer->popularity = calloc(experts, sizeof(*layer->popularity));
    if (!layer->popularity)
        return fail(ERR_NOMEM, "what %u experts get", experts);
    if (!strncmp(load, skew, strlen(skew))) {
        fill_skew(strtod(load + strlen(skew), NULL), layer->popularity, experts);
        return OK;
    }
    rc = store_load_get(store, load, text, sizeof(text));
    known = !rc && fill_counts(text, layer->popularity, experts);
    if (!known) { /* it came from elsewhere: its skew is in its name */
        fill_skew(strtod(load + strlen(counts), NULL), layer->popularity, experts);
        rc = rc == UNSUPPORTED ? OK : rc;
    }
    return rc;
}

/* ---- routing */

struct routed {
    uint32_t tokens, experts, top_k;
    double *logits;     /* (E) of the token at hand */
    int32_t *expert;    /* (T,k) */
    double *gate;       /* (T,k) */
    double *importance; /* (T) */
    uint32_t *turn;     /* (T) */
    uint64_t *filled;   /* (E) */
};

static double noise(uint64_t token, uint32_t expert)
{
    uint64_t bits = random_bits(20, token << 24 | expert);

    return -log(-log(((double)(bits >> 12) + 0.5) * 0x1p-52)); /* Gumbel's */
}

static uint32_t best_left(const struct routed *r, const int32_t *chosen, uint32_t count)
{
    uint32_t best = r->experts;

    for (uint32_t e = 0; e < r->experts; e++) {
        bool taken = false;

        for (uint32_t j = 0; j < count; j++)
            taken |= (uint32_t)chosen[j] == e;
        if (!taken && (best == r->experts || r->logits[e] > r->logits[best]))
            best = e;
    }
    return best;
}

static void route_token(struct routed *r, const double *popularity, uint32_t t)
{
    int32_t *expert = r->expert + (size_t)t * r->top_k;
    double *gate = r->gate + (size_t)t * r->top_k, all = 0, chosen = 0;

    for (uint32_t e = 0; e < r->experts; e++)
        r->logits[e] = (popularity ? log(popularity[e]) : 0) + noise(t, e);
    for (uint32_t j = 0; j < r->top_k; j++) {
        expert[j] = (int32_t)best_left(r, expert, j);
        gate[j] = exp(r->logits[expert[j]] - r->logits[expert[0]]);
        chosen += gate[j];
    }
    for (uint32_t e = 0; e < r->experts; e++)
        all += exp(r->logits[e] - r->logits[expert[0]]);
    r->importance[t] = 1 / all;
    for (uint32_t j = 0; j < r->top_k; j++)
        gate[j] /= r->top_k > 1 ? chosen : all;
}

/* Orders tokens by their importance, those of equal importance as they lie. */
static int by_importance(const void *a, const void *b, void *importance)
{
    const double *of = importance;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (of[x] != of[y])
        return of[x] > of[y] ? -1 : 1;
    return x < y ? -1 : 1;
}

static bool route_all(const struct layer_facts *layer, struct routed *r)
{
    const struct moe_shape *s = &layer->shape;
    double a_second = 0x1p28 / ((double)s->experts * s->top_k * s->top_k); /* tokens that take it */
    size_t choices;

    *r = (struct routed){ .tokens = (uint32_t)fmin(fmin(s->tokens, TOKENS_MOST), a_second),
                          .experts = s->experts,
                          .top_k = s->top_k };
    choices = (size_t)r->tokens * r->top_k;
    r->logits = calloc(r->experts, sizeof(*r->logits));
    r->expert = calloc(choices + 1, sizeof(*r->expert));
    r->gate = calloc(choices + 1, sizeof(*r->gate));
    r->importance = calloc((size_t)r->tokens + 1, sizeof(*r->importance));
    r->turn = calloc((size_t)r->tokens + 1, sizeof(*r->turn));
    r->filled = calloc(r->experts, sizeof(*r->filled));
    if (!r->tokens || !r->logits || !r->expert || !r->gate || !r->importance || !r->turn ||
        !r->filled)
        return false;
    for (uint32_t t = 0; t < r->tokens; t++) {
        route_token(r, layer->popularity, t);
        r->turn[t] = t;
    }
    qsort_r(r->turn, r->tokens, sizeof(*r->turn), by_importance, r->importance);
    return true;
}

/* ---- slots */

struct drop_shares {
    double choices, gate;
};

/* Sums up what finds no slot; turn NULL: tokens come as they lie. */
static struct drop_shares dropped_shares(const struct routed *r, const uint32_t *turn,
                                         uint64_t capacity)
{
    struct drop_shares all = { 0 }, lost = { 0 };

    memset(r->filled, 0, r->experts * sizeof(*r->filled));
    for (uint32_t j = 0; j < r->top_k; j++)
        for (uint32_t i = 0; i < r->tokens; i++) {
            size_t at = (size_t)(turn ? turn[i] : i) * r->top_k + j;
            double dropped = r->filled[r->expert[at]]++ < capacity ? 0 : 1;

            all.choices += 1;
            all.gate += r->gate[at];
            lost.choices += dropped;
            lost.gate += dropped * r->gate[at];
        }
    return (struct drop_shares){ lost.choices / all.choices, lost.gate / all.gate };
}

/* Routes a rank's tokens, at most 4,096 of them, by a softmax gate whose logits are what experts
 * get, as a logarithm, plus seeded noise.  False: there is nothing to route, or no memory. */
static bool drops_of(const struct layer_facts *layer, struct drops out[DROP_FACTORS])
{
    struct routed r;
    bool routed = route_all(layer, &r);

    for (int i = 0; i < DROP_FACTORS && routed; i++) {
        uint64_t capacity = moe_capacity(factors[i], r.top_k, r.experts, r.tokens, 0);
        struct drop_shares token = dropped_shares(&r, NULL, capacity),
                           priority = dropped_shares(&r, r.turn, capacity);

        out[i] =
            (struct drops){ factors[i], capacity, token.choices, { token.gate, priority.gate } };
    }
    free(r.logits);
    free(r.expert);
    free(r.gate);
    free(r.importance);
    free(r.turn);
    free(r.filled);
    return routed;
}

void drops_remarks(const struct layer_facts *layer, struct remarks *out)
{
    struct drops drops[DROP_FACTORS];
    size_t used;
    char *line;

    out->count = 0;
    if (layer->shape.experts < 2 || !drops_of(layer, drops))
        return;
    line = out->lines[out->count++];
    used = (size_t)snprintf(line, REMARK_BYTES, "Slots by priority: with a seeded softmax gate%s%s",
                            layer->popularity ? " and the load " : " to which experts are alike",
                            layer->popularity ? load_of(layer) : "");
    for (int i = 0; i < DROP_FACTORS; i++) {
        const struct drops *d = &drops[i];

        used += (size_t)snprintf(line + used, REMARK_BYTES - used,
                                 "%s capacity factor %g (c=%llu) %.1f %% of the choices find no "
                                 "slot; they carry %.1f %% of the gates' weight with order=token, "
                                 "%.1f %% with order=priority.",
                                 i ? " At" : ", at", d->factor, (unsigned long long)d->capacity,
                                 100 * d->choices, 100 * d->gate[0], 100 * d->gate[1]);
    }
}
