/* The router on the host: chooses each token's experts, their gates and slots; the balance loss;
 * and the gradients of both. */
#include "host.h"

#include <math.h>
#include <string.h>

/* ---- choosing */

/* Turns a float into an unsigned number with the same order: -0 equals 0, and NaN comes last. */
static inline uint32_t key_of(float x)
{
    uint32_t bits;

    x += 0.0f;
    memcpy(&bits, &x, sizeof(bits));
    if (x != x)
        return 1;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* An expert or a group with its key.  The order is by descending key, then by ascending number. */
struct ranked_key {
    uint32_t key, number;
};
static const struct ranked_key before_all = { UINT32_MAX, 0 };

/* True where (key, number) comes after `a`. */
static inline bool comes_after(struct ranked_key a, uint32_t key, uint32_t number)
{
    return key < a.key || (key == a.key && number > a.number);
}

/* As many parts as a GPU's warp has lanes, so that host and GPU add up a row in the same order. */
enum { IMPORTANCE_PARTS = 32 };

/* The scores by which one token chooses. */
struct scores {
    const float *row, *bias; /* bias NULL: 0 */
    uint32_t groups, group_size;
    bool sums_two; /* a group counts by the sum of its best two experts */
    bool limited;  /* the token chooses only from groups up to `last` */
    struct ranked_key last;
};

static inline float score(const struct scores *s, uint32_t expert)
{
    return s->bias ? s->row[expert] + s->bias[expert] : s->row[expert];
}

static uint32_t group_key(const struct scores *s, uint32_t group)
{
    float best = -INFINITY, second = -INFINITY;

    for (uint32_t i = 0; i < s->group_size; i++) {
        float x = score(s, group * s->group_size + i);

        if (x > best) {
            second = best;
            best = x;
        } else if (x > second) {
            second = x;
        }
    }
    return key_of(s->sums_two ? best + second : best);
}

/* Limits the choice to the `limit` best groups. */
static void limit_groups(struct scores *s, uint32_t limit)
{
    s->limited = limit < s->groups;
    s->last = before_all;
    for (uint32_t i = 0; i < limit && s->limited; i++) {
        struct ranked_key best = { 0, 0 };

        for (uint32_t g = 0; g < s->groups; g++) {
            uint32_t key = group_key(s, g);

            if (key > best.key && comes_after(s->last, key, g))
                best = (struct ranked_key){ key, g };
        }
        s->last = best;
    }
}

/* Replaces *best by a better expert of the group that comes after `last`, if there is one. */
static void best_in_group(const struct scores *s, uint32_t group, struct ranked_key last,
                          struct ranked_key *best)
{
    for (uint32_t e = group * s->group_size; e < (group + 1) * s->group_size; e++) {
        uint32_t key = key_of(score(s, e));

        if (key > best->key && comes_after(last, key, e))
            *best = (struct ranked_key){ key, e };
    }
}

/* Chooses the k best experts of the allowed groups, best first. */
static void choose_experts(const struct scores *s, uint32_t k, int32_t *expert)
{
    struct ranked_key last = before_all;

    for (uint32_t j = 0; j < k; j++) {
        struct ranked_key best = { 0, 0 };

        for (uint32_t g = 0; g < s->groups; g++)
            if (!s->limited || !comes_after(s->last, group_key(s, g), g))
                best_in_group(s, g, last, &best);
        expert[j] = (int32_t)best.number;
        last = best;
    }
}

/* ---- gates */

/* Adds up a row in the order that struct route defines. */
static float sum_by_parts(const float *row, uint32_t n)
{
    float part[IMPORTANCE_PARTS] = { 0 };

    for (uint32_t i = 0; i < n; i++)
        part[i % IMPORTANCE_PARTS] += row[i];
    for (uint32_t half = IMPORTANCE_PARTS / 2; half; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            part[i] += part[i + half];
    return part[0];
}

/* Softmax in place; multiplies *largest (NULL: none) by the largest probability. */
static void softmax(float *row, uint32_t n, float *largest)
{
    float top = row[0], sum;

    for (uint32_t i = 1; i < n; i++)
        top = row[i] > top ? row[i] : top;
    for (uint32_t i = 0; i < n; i++)
        row[i] = expf(row[i] - top);
    sum = sum_by_parts(row, n);
    if (largest)
        *largest *= 1 / sum;
    for (uint32_t i = 0; i < n; i++)
        row[i] /= sum;
}

static void normalise_gates(const float *probability, const int32_t *expert, uint32_t k,
                            float *gate)
{
    float sum = ROUTE_LEAST;

    for (uint32_t j = 0; j < k; j++)
        sum += probability[expert[j]];
    for (uint32_t j = 0; j < k; j++)
        gate[j] = k > 1 ? probability[expert[j]] / sum : probability[expert[j]];
}

static int32_t best_column(const float *row, uint32_t n)
{
    int32_t best;

    choose_experts(&(struct scores){ .row = row, .groups = 1, .group_size = n }, 1, &best);
    return best;
}

/* Chooses a group, then a place in it. */
static void route_bilevel(const struct route *r, float *row, uint64_t t, float *largest)
{
    uint32_t group_size = r->experts / r->groups;
    int32_t group = best_column(row, r->groups), place = best_column(row + r->groups, group_size);

    softmax(row, r->groups, largest);
    softmax(row + r->groups, group_size, largest);
    r->expert[t] = group * (int32_t)group_size + place;
    if (r->given) {
        group = r->given[t] / (int32_t)group_size;
        place = r->given[t] % (int32_t)group_size;
    }
    r->gate[t] = row[group] * row[r->groups + (uint32_t)place];
}

static float largest_of(const float *probability, const int32_t *expert, uint32_t k)
{
    float largest = 0;

    for (uint32_t j = 0; j < k; j++)
        largest = probability[expert[j]] > largest ? probability[expert[j]] : largest;
    return largest;
}

/* Chooses a token's experts and gates; its logits become probabilities. */
static void route_token(const struct route *r, uint64_t t)
{
    uint32_t groups = r->groups ? r->groups : 1, k = r->top_k;
    float *row = r->logits + t * gate_columns(r->router, r->experts, r->groups);
    float *largest = r->importance ? &r->importance[t] : NULL;
    bool sigmoids = r->router == MOE_ROUTER_SIGMOID;
    struct scores s = { .row = row,
                        .bias = r->bias,
                        .groups = groups,
                        .group_size = r->experts / groups,
                        .sums_two = sigmoids && r->experts > groups };

    if (largest)
        *largest = 1;
    if (r->router == MOE_ROUTER_BILEVEL) {
        route_bilevel(r, row, t, largest);
        return;
    }
    if (sigmoids)
        for (uint32_t e = 0; e < r->experts; e++)
            row[e] = 1 / (1 + expf(-row[e]));
    if (r->groups)
        limit_groups(&s, r->group_limit);
    choose_experts(&s, k, r->expert + t * k);
    if (!sigmoids)
        softmax(row, r->experts, largest);
    else if (largest)
        *largest = largest_of(row, r->expert + t * k, k);
    normalise_gates(row, (r->given ? r->given : r->expert) + t * k, k, r->gate + t * k);
}

/* ---- slots */

/* True where token a comes after token b.  -0 equals 0, and all NaN are equal. */
static bool goes_later(const struct route *r, uint32_t a, uint32_t b)
{
    uint32_t x = key_of(r->importance[a]), y = key_of(r->importance[b]);

    return x < y || (x == y && a > b);
}

/* Moves the token at this place of the heap down, until no child goes later.  The root goes last.
 */
static void sift_down(const struct route *r, uint32_t place, uint32_t count)
{
    uint32_t token = r->turn[place];

    for (uint64_t child = 2 * (uint64_t)place + 1; child < count; child = 2 * (uint64_t)place + 1) {
        if (child + 1 < count && goes_later(r, r->turn[child + 1], r->turn[child]))
            child++;
        if (!goes_later(r, r->turn[child], token))
            break;
        r->turn[place] = r->turn[child];
        place = (uint32_t)child;
    }
    r->turn[place] = token;
}

/* Sorts tokens by importance.  A heap sort, because it works in place and a step must not allocate.
 */
static void sort_by_importance(const struct route *r)
{
    for (uint32_t t = 0; t < r->tokens; t++)
        r->turn[t] = t;
    for (uint32_t place = r->tokens / 2; place-- > 0;)
        sift_down(r, place, r->tokens);
    for (uint32_t count = r->tokens; count-- > 1;) {
        uint32_t last = r->turn[0];

        r->turn[0] = r->turn[count];
        r->turn[count] = last;
        sift_down(r, 0, count);
    }
}

/* Gives slots to tokens in the order of `turn`; NULL: in their own order. */
static void assign_slots(const struct slots *s, const uint32_t *turn)
{
    uint32_t k = s->top_k;

    memset(s->needed, 0, s->experts * sizeof(*s->needed));
    for (uint32_t j = 0; j < k; j++)
        for (uint64_t i = 0; i < s->tokens; i++) {
            uint64_t choice = (turn ? turn[i] : i) * k + j;
            int32_t e = s->expert[choice];
            uint64_t capacity = s->capacities ? s->capacities[e] : s->capacity;
            int64_t slot = s->needed[e]++;

            s->slot[choice] = (uint64_t)slot < capacity ? slot : -1;
        }
}

void host_slots(const struct slots *s)
{
    assign_slots(s, NULL);
}

void host_route(const struct route *r)
{
    for (uint64_t t = 0; t < r->tokens; t++)
        route_token(r, t);
    if (r->given)
        return;
    if (r->turn)
        sort_by_importance(r);
    assign_slots(&(struct slots){ r->tokens, r->experts, r->top_k, r->capacity, r->expert, r->slot,
                                  r->needed, r->capacities },
                 r->turn);
}

/* ---- backward */

static void softmax_backward(const float *probability, uint32_t n, uint32_t chosen, float grad,
                             float *to)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = -probability[i] * grad;
    to[chosen] += grad;
}

/* True where both sets have the same experts; no expert is twice in a set. */
static bool equal_sets(const int32_t *a, const int32_t *b, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++) {
        uint32_t j = 0;

        while (j < k && b[j] != a[i])
            j++;
        if (j == k)
            return false;
    }
    return true;
}

static void route_backward_token(const struct route_backward *r, uint64_t t)
{
    uint32_t columns = gate_columns(r->router, r->experts, r->groups), k = r->top_k;
    const float *gate = r->gate + t * k, *grad = r->grad_gate + t * k;
    const float *probability = r->probability + t * columns;
    const int32_t *expert = r->expert + t * k;
    float *grad_logits = r->grad_logits + t * columns;
    float dot = 0;

    if (r->live && !equal_sets(expert, r->live + t * k, k)) {
        memset(grad_logits, 0, columns * sizeof(*grad_logits));
        return;
    }
    for (uint32_t j = 0; j < k; j++)
        dot += gate[j] * grad[j];
    if (r->router == MOE_ROUTER_BILEVEL) {
        uint32_t groups = r->groups, group_size = columns - groups;

        softmax_backward(probability, groups, (uint32_t)expert[0] / group_size, dot, grad_logits);
        softmax_backward(probability + groups, group_size, (uint32_t)expert[0] % group_size, dot,
                         grad_logits + groups);
        return;
    }
    if (r->router == MOE_ROUTER_SOFTMAX && k == 1) {
        softmax_backward(probability, columns, (uint32_t)expert[0], dot, grad_logits);
        return;
    }
    /* Normalised over the chosen experts, the gate is a softmax of the chosen logits alone.  For
     * sigmoids, it is a softmax of their logarithms, whose slope is 1 - sigmoid. */
    memset(grad_logits, 0, columns * sizeof(*grad_logits));
    for (uint32_t j = 0; j < k; j++) {
        float grad_logit = k > 1 ? gate[j] * (grad[j] - dot) : dot;

        grad_logits[expert[j]] = r->router == MOE_ROUTER_SIGMOID
                                     ? grad_logit * (1 - probability[expert[j]])
                                     : grad_logit;
    }
}

void host_route_backward(const struct route_backward *r)
{
    for (uint64_t t = 0; t < r->tokens; t++)
        route_backward_token(r, t);
}

/* ---- balance */

/* The sum by which a token's probabilities are divided: 1 except for sigmoids. */
static double sum_of(uint32_t router, const float *probability, uint32_t n)
{
    double sum = 0;

    if (router != MOE_ROUTER_SIGMOID)
        return 1;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)probability[i];
    return sum;
}

/* Number of choices of a column.  With a bilevel router, the first `groups` columns are groups, and
 * each column after them is a place within every group. */
static double count_of(const struct balance *b, uint32_t column)
{
    uint32_t group_size = b->router == MOE_ROUTER_BILEVEL ? b->experts / b->groups : 1;
    bool is_place = b->router == MOE_ROUTER_BILEVEL && column >= b->groups;
    uint32_t count = is_place ? b->groups : group_size, step = is_place ? group_size : 1;
    uint32_t expert0 = is_place ? column - b->groups : column * group_size;
    int64_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += b->needed[expert0 + i * step];
    return (double)sum;
}

enum { MEANS = 64 }; /* columns that one pass over the tokens sums */

/* Computes the means of columns column0 to column0 + n - 1; n is at most MEANS. */
static void compute_means(const struct balance *b, uint32_t columns, uint32_t column0, uint32_t n)
{
    double sums[MEANS] = { 0 };

    for (uint64_t t = 0; t < b->tokens; t++) {
        const float *row = b->probability + t * columns;
        double row_sum = sum_of(b->router, row, columns);

        for (uint32_t i = 0; i < n; i++)
            sums[i] += (double)row[column0 + i] / row_sum;
    }
    for (uint32_t i = 0; i < n; i++)
        b->mean[column0 + i] = b->tokens ? (float)(sums[i] / b->tokens) : 0;
}

void host_balance(const struct balance *b)
{
    uint32_t columns = gate_columns(b->router, b->experts, b->groups);
    double choices = (double)b->tokens * b->top_k;

    for (uint32_t c = 0; c < columns; c++)
        b->share[c] = b->tokens ? (float)(count_of(b, c) / choices) : 0;
    for (uint32_t c = 0; c < columns; c += MEANS)
        compute_means(b, columns, c, columns - c < MEANS ? columns - c : MEANS);
}

/* Adds one token's gradient of the balance loss for n columns; `weight` is per token. */
static void balance_columns(uint32_t router, const float *probability, const float *share,
                            uint32_t n, double weight, float *to)
{
    double row_sum = sum_of(router, probability, n), mean = 0;

    for (uint32_t i = 0; i < n; i++)
        mean += (double)share[i] * (double)probability[i] / row_sum;
    for (uint32_t i = 0; i < n; i++) {
        double p = (double)probability[i], slope = router == MOE_ROUTER_SIGMOID ? 1 - p : 1;

        to[i] += (float)(weight * p / row_sum * slope * ((double)share[i] - mean));
    }
}

void host_balance_backward(const struct balance_backward *b)
{
    uint32_t columns = gate_columns(b->router, b->experts, b->groups);
    /* columns of the first level; only a bilevel router has a second one */
    uint32_t level1 = b->router == MOE_ROUTER_BILEVEL ? b->groups : columns;

    for (uint64_t t = 0; t < b->tokens; t++) {
        const float *row = b->probability + t * columns;
        float *to = b->grad_logits + t * columns;

        balance_columns(b->router, row, b->share, level1, (double)b->weight[0] / b->tokens, to);
        if (level1 < columns)
            balance_columns(b->router, row + level1, b->share + level1, columns - level1,
                            (double)b->weight[1] / b->tokens, to + level1);
    }
}
