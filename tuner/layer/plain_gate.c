/* The gate of one token: whether the choices of a step may be right, what they weigh, and slopes.
 */
#include "plain_cosine.h"

#include "shape.h"
#include "status.h"

#include <math.h>
#include <string.h>

static uint32_t router_of(const struct plain *p)
{
    return p->data->shape.router;
}

/* Experts of a group; all where there are no groups. */
static uint32_t each_of(const struct plain *p)
{
    return p->data->shape.groups ? p->E / p->data->shape.groups : p->E;
}

/* What f32 cannot tell: units that multiply 16-bit numbers cut off what they add. */
static double slack_of(const struct plain *p)
{
    double slack = 1e-5 + (p->data->shape.dtype == MOE_F32 ? 0 : p->D * 0x1p-24);

    return router_of(p) == MOE_ROUTER_COSINE ? slack * fmax(1, p->cosine.factor) : slack;
}

/* ---- choices */

static bool is_among(const int32_t *expert, uint32_t count, uint32_t e)
{
    for (uint32_t j = 0; j < count; j++)
        if ((uint32_t)expert[j] == e)
            return true;
    return false;
}

/* The best expert of first .. first+n-1 that is not among the first j choices. */
static uint32_t best_left(const struct plain *p, uint32_t first, uint32_t n, const int32_t *expert,
                          uint32_t j)
{
    uint32_t best = p->E;

    for (uint32_t e = first; e < first + n; e++)
        if (!is_among(expert, j, e) && (best == p->E || p->score[e] > p->score[best]))
            best = e;
    return best;
}

/* The choices are the best of a group, as far as they are in it; false: *choice misses *better. */
static bool best_of_group(const struct plain *p, uint32_t group, const int32_t *expert,
                          uint32_t *choice, uint32_t *better)
{
    uint32_t each = each_of(p);

    for (uint32_t j = 0; j < p->k; j++) {
        uint32_t left = best_left(p, group * each, each, expert, j);

        if (left < p->E && p->score[left] > p->score[expert[j]] + slack_of(p)) {
            *choice = j;
            *better = left;
            return false;
        }
    }
    return true;
}

static double group_score(const struct plain *p, uint32_t group)
{
    uint32_t each = each_of(p), first = group * each;
    uint32_t best = best_left(p, first, each, NULL, 0);
    int32_t taken = (int32_t)best;

    if (router_of(p) != MOE_ROUTER_SIGMOID || each == 1)
        return p->score[best];
    return p->score[best] + p->score[best_left(p, first, each, &taken, 1)];
}

/* Groups that are better than this one by more than rounding explains. */
static uint32_t groups_above(const struct plain *p, uint32_t group)
{
    double limit = group_score(p, group) + 2 * slack_of(p);
    uint32_t count = 0;

    for (uint32_t g = 0; g < p->data->shape.groups; g++)
        count += group_score(p, g) > limit;
    return count;
}

static uint32_t groups_below(const struct plain *p, uint32_t group)
{
    double limit = group_score(p, group) - 2 * slack_of(p);
    uint32_t count = 0;

    for (uint32_t g = 0; g < p->data->shape.groups; g++)
        count += group_score(p, g) < limit;
    return count;
}

static int wrong_groups(int rank, uint64_t t, const char *what)
{
    return fail(ERR_WRONG, "rank %d token %llu: %s", rank, (unsigned long long)t, what);
}

/* A set of L groups must exist that rounding may have chosen: with all that are surely among the
 * best, all that hold choices, none that surely is not, and in none a better expert left out. */
static int check_groups(const struct plain *p, int rank, uint64_t t, const int32_t *expert)
{
    const struct moe_shape *s = &p->data->shape;
    uint32_t taken = 0, possible = 0, choice, better;

    for (uint32_t g = 0; g < s->groups; g++) {
        bool holds = false, surely = s->groups - 1 - groups_below(p, g) < s->group_limit;
        bool never = groups_above(p, g) >= s->group_limit;
        bool quiet = best_of_group(p, g, expert, &choice, &better);

        for (uint32_t j = 0; j < p->k; j++)
            holds |= (uint32_t)expert[j] / each_of(p) == g;
        if (holds && never)
            return wrong_groups(rank, t, "an expert of a group that is not among the best");
        if (!quiet && (holds || surely))
            return fail(ERR_WRONG, "rank %d token %llu choice %u: expert %u is better than %d",
                        rank, (unsigned long long)t, choice, better, expert[choice]);
        taken += holds || surely;
        possible += quiet && !never;
    }
    if (taken > s->group_limit)
        return wrong_groups(rank, t, "experts of too many groups");
    return possible >= s->group_limit
               ? OK
               : wrong_groups(rank, t, "better experts of a good group are left out");
}

/* The place of a choice among n columns from `first` on. */
static int check_level(const struct plain *p, int rank, uint64_t t, uint32_t first, uint32_t n,
                       uint32_t chosen)
{
    for (uint32_t c = first; c < first + n; c++)
        if (p->logits[c] > p->logits[first + chosen] + slack_of(p))
            return fail(ERR_WRONG, "rank %d token %llu: column %u is better than %u", rank,
                        (unsigned long long)t, c, first + chosen);
    return OK;
}

static int check_bilevel(const struct plain *p, int rank, uint64_t t, uint32_t expert)
{
    uint32_t groups = p->data->shape.groups, each = each_of(p);

    TRY(check_level(p, rank, t, 0, groups, expert / each));
    return check_level(p, rank, t, groups, each, expert % each);
}

static int check_choices(const struct plain *p, int rank, uint64_t t, const int32_t *expert)
{
    for (uint32_t j = 0; j < p->k; j++)
        if (expert[j] < 0 || (uint32_t)expert[j] >= p->E)
            return fail(ERR_WRONG, "rank %d: no expert %d", rank, expert[j]);
    for (uint32_t j = 0; j < p->k; j++)
        if (is_among(expert, j, (uint32_t)expert[j]))
            return fail(ERR_WRONG, "rank %d token %llu: expert %d twice", rank,
                        (unsigned long long)t, expert[j]);
    if (router_of(p) == MOE_ROUTER_BILEVEL)
        return check_bilevel(p, rank, t, (uint32_t)expert[0]);
    if (p->data->shape.groups)
        return check_groups(p, rank, t, expert);
    for (uint32_t j = 0; j < p->k; j++) {
        uint32_t left = best_left(p, 0, p->E, expert, j);

        if (p->score[left] > p->score[expert[j]] + slack_of(p))
            return fail(ERR_WRONG, "rank %d token %llu choice %u: expert %u is better than %d",
                        rank, (unsigned long long)t, j, left, expert[j]);
    }
    return OK;
}

/* ---- gates */

static void softmax(const double *logits, uint32_t n, double *probability)
{
    double most = -INFINITY, sum = 0;

    for (uint32_t e = 0; e < n; e++)
        most = fmax(most, logits[e]);
    for (uint32_t e = 0; e < n; e++) {
        probability[e] = exp(logits[e] - most);
        sum += probability[e];
    }
    for (uint32_t e = 0; e < n; e++)
        probability[e] /= sum;
}

/* Columns of the first softmax; of the second, if any, all others. */
static uint32_t first_level(const struct plain *p)
{
    return router_of(p) == MOE_ROUTER_BILEVEL ? p->data->shape.groups : p->columns;
}

static void normalise(struct plain *p)
{
    uint32_t first = first_level(p);

    softmax(p->logits, first, p->probability);
    if (first < p->columns)
        softmax(p->logits + first, p->columns - first, p->probability + first);
    memcpy(p->score, p->logits, p->columns * sizeof(*p->score));
    if (router_of(p) != MOE_ROUTER_SIGMOID)
        return;
    for (uint32_t e = 0; e < p->E; e++) {
        p->probability[e] = 1 / (1 + exp(-p->logits[e]));
        p->score[e] = p->probability[e] + (double)data_bias(p->data, e);
    }
}

static double weight_of(const struct plain *p, uint32_t expert)
{
    uint32_t each = each_of(p);

    if (router_of(p) == MOE_ROUTER_BILEVEL)
        return p->probability[expert / each] *
               p->probability[p->data->shape.groups + expert % each];
    return p->probability[expert];
}

int plain_route(struct plain *p, int rank, uint64_t t, const int32_t *expert)
{
    return plain_route_known(p, rank, t, expert, expert);
}

static bool equal_sets(const struct plain *p, const int32_t *a, const int32_t *b)
{
    for (uint32_t j = 0; j < p->k; j++)
        if (!is_among(b, p->k, (uint32_t)a[j]))
            return false;
    return true;
}

int plain_route_known(struct plain *p, int rank, uint64_t t, const int32_t *expert,
                      const int32_t *live)
{
    double chosen = ROUTE_LEAST;

    if (router_of(p) == MOE_ROUTER_COSINE)
        plain_cosine_logits(p);
    else
        for (uint32_t e = 0; e < p->columns; e++)
            p->logits[e] = plain_dot(p->gate + (uint64_t)e * p->D, p->x, p->D);
    normalise(p);
    TRY(check_choices(p, rank, t, live));
    p->changed = !equal_sets(p, expert, live);
    for (uint32_t j = 0; j < p->k; j++)
        chosen += weight_of(p, (uint32_t)expert[j]);
    for (uint32_t j = 0; j < p->k; j++)
        p->choices[j] = (struct choice){
            .expert = (uint32_t)expert[j],
            .gate = weight_of(p, (uint32_t)expert[j]) / (p->k > 1 ? chosen : 1),
        };
    return OK;
}

double plain_importance(const struct plain *p)
{
    double largest = 0;

    for (uint32_t j = 0; j < p->k; j++)
        largest = fmax(largest, weight_of(p, p->choices[j].expert));
    return largest;
}

double plain_importance_slack(const struct plain *p)
{
    return 2 * slack_of(p);
}

/* ---- balance */

static bool is_second(const struct plain *p, uint32_t column)
{
    return column >= first_level(p);
}

/* The columns of an expert, one of each level. */
static uint32_t column_of(const struct plain *p, uint32_t expert, bool second)
{
    if (router_of(p) != MOE_ROUTER_BILEVEL)
        return expert;
    return second ? p->data->shape.groups + expert % each_of(p) : expert / each_of(p);
}

void plain_count(struct plain *p, const int32_t *expert, uint64_t tokens)
{
    double each = 1 / ((double)tokens * p->k);

    memset(p->share, 0, p->columns * sizeof(*p->share));
    p->tokens = tokens;
    for (uint64_t i = 0; i < tokens * p->k; i++) {
        p->share[column_of(p, (uint32_t)expert[i], false)] += each;
        if (router_of(p) == MOE_ROUTER_BILEVEL)
            p->share[column_of(p, (uint32_t)expert[i], true)] += each;
    }
}

static void range_of(const struct plain *p, bool second, uint32_t *first, uint32_t *end)
{
    *first = second ? first_level(p) : 0;
    *end = second ? p->columns : first_level(p);
}

/* Sums over a level of the token's probabilities, and of those times the shares. */
static void sum_level(const struct plain *p, bool second, double *sum, double *busy)
{
    uint32_t first, end;

    range_of(p, second, &first, &end);
    *sum = *busy = 0;
    for (uint32_t c = first; c < end; c++) {
        *sum += p->probability[c];
        *busy += p->probability[c] * p->share[c];
    }
}

/* Of one token: the weight that was asked for times columns, over tokens. */
static double level_weight(const struct plain *p, bool second)
{
    uint32_t first, end;

    range_of(p, second, &first, &end);
    return p->data->balance[second] * (end - first) / (double)p->tokens;
}

double plain_balance(const struct plain *p)
{
    double loss = 0, sum, busy;

    for (int second = 0; second < (router_of(p) == MOE_ROUTER_BILEVEL ? 2 : 1); second++) {
        sum_level(p, second, &sum, &busy);
        loss += level_weight(p, second) * busy / sum;
    }
    return loss;
}

static double balance_grad(const struct plain *p, uint32_t column)
{
    double slope = router_of(p) == MOE_ROUTER_SIGMOID ? 1 - p->probability[column] : 1, sum, busy;

    if (!p->data->balance)
        return 0;
    sum_level(p, is_second(p, column), &sum, &busy);
    return level_weight(p, is_second(p, column)) * slope * p->probability[column] / sum *
           (p->share[column] - busy / sum);
}

/* ---- slopes */

static double logit_grad(const struct plain *p, uint32_t column, const double *gate_grad)
{
    bool whole = p->k == 1 && router_of(p) != MOE_ROUTER_SIGMOID, second = is_second(p, column);
    double mean = 0, grad;

    for (uint32_t j = 0; j < p->k; j++)
        mean += p->choices[j].gate * gate_grad[j];
    grad = whole ? -p->probability[column] * mean : 0;
    for (uint32_t j = 0; j < p->k; j++) {
        const struct choice *c = &p->choices[j];

        if (column_of(p, c->expert, second) != column)
            continue;
        grad += p->k == 1 ? mean : c->gate * (gate_grad[j] - mean);
    }
    if (router_of(p) == MOE_ROUTER_SIGMOID)
        grad *= 1 - p->probability[column];
    return grad + balance_grad(p, column);
}

void plain_route_back(struct plain *p, const double *gate_grad, double size)
{
    bool cosine = router_of(p) == MOE_ROUTER_COSINE;
    double *grads = cosine ? p->row_grad + p->rows : p->row_grad;
    double *sizes = cosine ? grads + p->columns : p->row_size;

    for (uint32_t c = 0; c < p->columns; c++) {
        grads[c] = logit_grad(p, c, gate_grad);
        sizes[c] = p->data->balance ? size + fabs(grads[c]) : size;
        if (cosine && grads[c] == 0)
            sizes[c] = 0;
    }
    if (cosine)
        plain_cosine_back(p, grads, sizes);
}
