/* Routes a rank's tokens once with a made-up gate, gives slots in both orders, and counts what is
 * dropped. */
#include "drops.h"

#include "random.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What gets no slot at one capacity factor. */
struct drops {
    double factor;
    uint64_t capacity;
    double choices; /* share of choices, the same in both orders */
    double token_gate,
        priority_gate; /* share of the gates' weight, in token order and by priority */
};

enum { DROP_FACTORS = 2 };
static const double drop_factors[DROP_FACTORS] = { 1, 0.5 };

enum { ROUTED_TOKENS_MAX = 4096, COUNTS_BYTES = 4096 };

/* ---- the load of the experts */

/* Gives expert e (e+1)^-a times the load of expert 0.  Finds the a at which the largest load is
 * `skew` times the mean. */
static void fill_skew(double skew, double *popularity, uint32_t experts)
{
    enum { HALVINGS = 60 };    /* until a double hardly changes */
    double low = 0, high = 64; /* of a */

    for (int i = 0; i < HALVINGS; i++) {
        double a = (low + high) / 2, sum = 0;

        for (uint32_t e = 0; e < experts; e++)
            sum += pow(e + 1, -a);
        if (experts / sum < skew)
            low = a;
        else
            high = a;
    }
    for (uint32_t e = 0; e < experts; e++)
        popularity[e] = pow(e + 1, -low);
}

/* Reads "counts 12 7 ..." up to ';'.  Returns false unless there is one count for each expert. */
static bool fill_counts(const char *text, double *popularity, uint32_t experts)
{
    uint32_t count = 0;
    const char *number;
    char *end;

    if (strncmp(text, "counts", 6) != 0)
        return false; /* of several steps */
    number = text + strcspn(text, "0123456789");
    while (*number && *number != ';' && count < experts) {
        popularity[count++] =
            strtod(number, &end) + 1e-3; /* an expert without tokens may get some */
        number = end + strcspn(end, "0123456789;");
    }
    return count == experts;
}

/* Returns the load of the last entry that has one, or "". */
static const char *last_load(const struct layer_facts *layer)
{
    const char *load = "";

    for (size_t i = 0; i < layer->entry_count; i++)
        load = *layer->entries[i].load ? layer->entries[i].load : load;
    return load;
}

int drops_read(struct store *store, struct layer_facts *layer)
{
    static const char skew[] = "skew ", counts[] = "max/mean ";
    const char *load = last_load(layer);
    uint32_t experts = layer->shape.experts;
    char text[COUNTS_BYTES] = "";
    bool known = false;
    int rc = OK;

    if (strncmp(load, skew, strlen(skew)) != 0 && strncmp(load, counts, strlen(counts)) != 0)
        return OK;
    layer->popularity = calloc(experts, sizeof(*layer->popularity));
    if (!layer->popularity)
        return fail(ERR_NOMEM, "the load of %u experts", experts);
    if (!strncmp(load, skew, strlen(skew))) {
        fill_skew(strtod(load + strlen(skew), NULL), layer->popularity, experts);
        return OK;
    }
    rc = store_load_get(store, load, text, sizeof(text));
    known = !rc && fill_counts(text, layer->popularity, experts);
    if (!known) { /* counts of another database: the load's name has at least its skew */
        fill_skew(strtod(load + strlen(counts), NULL), layer->popularity, experts);
        rc = rc == UNSUPPORTED ? OK : rc;
    }
    return rc;
}

/* ---- routing */

/* The tokens of one rank with their choices.  drops_of() opens and frees it. */
struct routed {
    uint32_t tokens, experts, top_k;
    double *logits;     /* (E) of the token that is routed now */
    int32_t *expert;    /* (T,k) the choices, best first */
    double *gate;       /* (T,k) as the layer weights them */
    double *importance; /* (T) probability of the first choice */
    uint32_t *turn;     /* (T) tokens by priority */
    uint64_t *filled;   /* (E) slots in use */
};

static double logit_noise(uint64_t token, uint32_t expert)
{
    uint64_t bits = random_bits(20, token << 24 | expert);

    return -log(-log(((double)(bits >> 12) + 0.5) * 0x1p-52)); /* of Gumbel's distribution */
}

/* Returns the expert with the largest logit that the token has not chosen yet. */
static uint32_t next_choice(const struct routed *r, const int32_t *chosen, uint32_t count)
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
    double *gate = r->gate + (size_t)t * r->top_k, weight_of_all = 0, weight_of_chosen = 0;

    for (uint32_t e = 0; e < r->experts; e++)
        r->logits[e] = (popularity ? log(popularity[e]) : 0) + logit_noise(t, e);
    for (uint32_t j = 0; j < r->top_k; j++) {
        expert[j] = (int32_t)next_choice(r, expert, j);
        gate[j] = exp(r->logits[expert[j]] - r->logits[expert[0]]);
        weight_of_chosen += gate[j];
    }
    for (uint32_t e = 0; e < r->experts; e++)
        weight_of_all += exp(r->logits[e] - r->logits[expert[0]]);
    r->importance[t] = 1 / weight_of_all;
    for (uint32_t j = 0; j < r->top_k; j++)
        gate[j] /= r->top_k > 1 ? weight_of_chosen : weight_of_all;
}

/* Orders tokens by importance, the largest first; equal ones by their number. */
static int by_importance(const void *a, const void *b, void *importance)
{
    const double *importance_of = importance;
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    if (importance_of[left] != importance_of[right])
        return importance_of[left] > importance_of[right] ? -1 : 1;
    return left < right ? -1 : 1;
}

static bool route_tokens(const struct layer_facts *layer, struct routed *r)
{
    const struct moe_shape *s = &layer->shape;
    double tokens_per_second = 0x1p28 / ((double)s->experts * s->top_k * s->top_k); /* about */
    size_t choices;

    *r = (struct routed){ .tokens =
                              (uint32_t)fmin(fmin(s->tokens, ROUTED_TOKENS_MAX), tokens_per_second),
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

/* Shares of all choices, and of the weight of all gates. */
struct drop_shares {
    double choices, gate;
};

/* Returns what gets no slot when tokens come in this order; turn NULL: by their number. */
static struct drop_shares dropped_shares(const struct routed *r, const uint32_t *turn,
                                         uint64_t capacity)
{
    struct drop_shares all = { 0 }, lost = { 0 };

    memset(r->filled, 0, r->experts * sizeof(*r->filled));
    for (uint32_t j = 0; j < r->top_k; j++)
        for (uint32_t i = 0; i < r->tokens; i++) {
            size_t choice = (size_t)(turn ? turn[i] : i) * r->top_k + j;
            double dropped = r->filled[r->expert[choice]]++ < capacity ? 0 : 1;

            all.choices += 1;
            all.gate += r->gate[choice];
            lost.choices += dropped;
            lost.gate += dropped * r->gate[choice];
        }
    return (struct drop_shares){ lost.choices / all.choices, lost.gate / all.gate };
}

/* Routes at most TOKENS_MOST tokens by a softmax gate.  Its logits are the logarithm of the
 * experts' load plus seeded noise.  Returns false if there is no token, or no memory. */
static bool measure_drops(const struct layer_facts *layer, struct drops out[DROP_FACTORS])
{
    struct routed r;
    bool routed = route_tokens(layer, &r);

    for (int i = 0; i < DROP_FACTORS && routed; i++) {
        uint64_t capacity = moe_capacity(drop_factors[i], r.top_k, r.experts, r.tokens, 0);
        struct drop_shares by_token = dropped_shares(&r, NULL, capacity),
                           by_priority = dropped_shares(&r, r.turn, capacity);

        out[i] = (struct drops){ drop_factors[i], capacity, by_token.choices, by_token.gate,
                                 by_priority.gate };
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
    if (layer->shape.experts < 2 || !measure_drops(layer, drops))
        return;
    line = out->lines[out->count++];
    used = (size_t)snprintf(line, REMARK_BYTES,
                            "Slots by priority: a seeded softmax gate %s%s routes tokens.",
                            layer->popularity ? "under the load " : "without preferred experts",
                            layer->popularity ? last_load(layer) : "");
    for (int i = 0; i < DROP_FACTORS; i++) {
        const struct drops *d = &drops[i];

        used += (size_t)snprintf(line + used, REMARK_BYTES - used,
                                 "  At capacity factor %g (c=%llu) %.1f %% of the choices get no "
                                 "slot; they carry %.1f %% of the gates' weight with order=token, "
                                 "%.1f %% with order=priority.",
                                 d->factor, (unsigned long long)d->capacity, 100 * d->choices,
                                 100 * d->token_gate, 100 * d->priority_gate);
    }
}
