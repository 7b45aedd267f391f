/* One token of the layer in double precision: its gates, a check of a step's choices, and all
 * gradients. */
#include "plain.h"

#include "kernels.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- sums and activations */

/* Keeps eight partial sums, because one sum would wait for each of its additions. */
double plain_dot(const float *a, const double *b, uint32_t n)
{
    enum { SUMS = 8 };
    double sums[SUMS] = { 0 }, sum = 0;
    uint32_t i = 0;

    for (; i + SUMS <= n; i += SUMS)
        for (uint32_t j = 0; j < SUMS; j++)
            sums[j] += (double)a[i + j] * b[i + j];
    for (; i < n; i++)
        sum += (double)a[i] * b[i];
    for (int j = 0; j < SUMS; j++)
        sum += sums[j];
    return sum;
}

void plain_axpy(double scale, const float *from, double *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] += scale * (double)from[i];
}

void plain_add_sizes(double scale, const float *from, double *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] += scale * fabs((double)from[i]);
}

double plain_act(uint32_t kind, double x)
{
    switch (kind) {
    case MOE_RELU: return x > 0 ? x : 0;
    case MOE_GELU: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    default: return x / (1 + exp(-x));
    }
}

double plain_act_slope(uint32_t kind, double x)
{
    double sigmoid, tangent, scale;

    switch (kind) {
    case MOE_RELU: return x > 0 ? 1 : 0;
    case MOE_GELU:
        scale = sqrt(2 / M_PI);
        tangent = tanh(scale * (x + 0.044715 * x * x * x));
        return 0.5 * (1 + tangent) +
               0.5 * x * (1 - tangent * tangent) * scale * (1 + 3 * 0.044715 * x * x);
    default: sigmoid = 1 / (1 + exp(-x)); return sigmoid * (1 + x * (1 - sigmoid));
    }
}

bool plain_is_at_kink(const struct plain *p, double bias, double x)
{
    static const double sums = 1e-5; /* rounding of f32 sums of order one */
    static const double stored[] = { [MOE_F32] = 0, [MOE_F16] = 0x1p-11, [MOE_BF16] = 0x1p-8 };
    const struct moe_shape *s = &p->data->shape;

    return s->activation == MOE_RELU && fabs(x) <= sums + stored[s->dtype] * fabs(bias);
}

/* ---- the cosine router */

/* Scales a row to length 1, and returns the length before. */
static double make_unit(double *row, uint32_t n)
{
    double length = 0;

    for (uint32_t i = 0; i < n; i++)
        length += row[i] * row[i];
    length = fmax(sqrt(length), (double)UNIT_ROWS_LEAST);
    for (uint32_t i = 0; i < n; i++)
        row[i] /= length;
    return length;
}

static double dot(const double *a, const double *b, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Opens nothing for another router.  ERR_NOMEM without a message; close_cosine() also frees a
 * half-open one. */
static int open_cosine(struct plain *p)
{
    struct plain_cosine *c = &p->cosine;
    double scale = p->rows ? (double)data_cosine(p->data, COSINE_SCALE, 0) : 0;
    size_t all = (size_t)p->E * p->rows;

    if (p->data->shape.router != MOE_ROUTER_COSINE)
        return OK;
    c->factor = exp(fmin(scale, (double)UNIT_ROWS_MOST));
    c->trained = scale <= (double)UNIT_ROWS_MOST;
    c->experts = calloc(all, sizeof(*c->experts));
    c->expert_length = calloc(p->E, sizeof(*c->expert_length));
    c->token = calloc(p->rows, sizeof(*c->token));
    c->grad_experts = calloc(all, sizeof(*c->grad_experts));
    c->grad_experts_size = calloc(all, sizeof(*c->grad_experts_size));
    c->grad_bias = calloc(p->rows, sizeof(*c->grad_bias));
    c->grad_bias_size = calloc(p->rows, sizeof(*c->grad_bias_size));
    if (!c->experts || !c->expert_length || !c->token || !c->grad_experts ||
        !c->grad_experts_size || !c->grad_bias || !c->grad_bias_size)
        return ERR_NOMEM;
    for (size_t i = 0; i < all; i++)
        c->experts[i] = (double)data_cosine(p->data, COSINE_ROWS, i);
    for (uint32_t e = 0; e < p->E; e++)
        c->expert_length[e] = make_unit(c->experts + (size_t)e * p->rows, p->rows);
    return OK;
}

static void close_cosine(struct plain *p)
{
    struct plain_cosine *c = &p->cosine;
    double *owned[] = { c->experts,           c->expert_length, c->token,         c->grad_experts,
                        c->grad_experts_size, c->grad_bias,     c->grad_bias_size };

    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        free(owned[i]);
}

/* Computes the logits of the current token. */
static void cosine_logits(struct plain *p)
{
    struct plain_cosine *c = &p->cosine;

    for (uint32_t i = 0; i < p->rows; i++)
        c->token[i] = plain_dot(p->gate + (uint64_t)i * p->D, p->x, p->D) +
                      (double)data_cosine(p->data, COSINE_BIAS, i);
    c->length = make_unit(c->token, p->rows);
    for (uint32_t e = 0; e < p->E; e++)
        p->logits[e] = c->factor * dot(c->token, c->experts + (size_t)e * p->rows, p->rows);
}

/* Computes the gradients of the projection and of the cosine router's tensors, from those of the
 * logits (E).  Dividing by a row's length removes the part of the gradient along the row. */
static void cosine_back(struct plain *p, const double *grad, const double *size)
{
    struct plain_cosine *c = &p->cosine;
    double along, along_size = 0;

    memset(p->row_grad, 0, p->rows * sizeof(*p->row_grad));
    memset(p->row_size, 0, p->rows * sizeof(*p->row_size));
    for (uint32_t e = 0; e < p->E; e++) {
        size_t row = (size_t)e * p->rows;
        double cosine = p->logits[e] / c->factor, scale = c->factor / c->expert_length[e];

        for (uint32_t i = 0; i < p->rows; i++) {
            double token = c->token[i], part = c->experts[row + i] * cosine;

            c->grad_experts[row + i] += scale * grad[e] * (token - part);
            c->grad_experts_size[row + i] += scale * size[e] * (fabs(token) + fabs(part));
            p->row_grad[i] += c->factor * grad[e] * c->experts[row + i];
            p->row_size[i] += c->factor * size[e] * fabs(c->experts[row + i]);
        }
        c->grad_scale += c->trained ? grad[e] * p->logits[e] : 0;
        c->grad_scale_size += c->trained ? size[e] * fabs(p->logits[e]) : 0;
    }
    along = dot(p->row_grad, c->token, p->rows);
    for (uint32_t i = 0; i < p->rows; i++)
        along_size += p->row_size[i] * fabs(c->token[i]);
    for (uint32_t i = 0; i < p->rows; i++) {
        p->row_grad[i] = (p->row_grad[i] - c->token[i] * along) / c->length;
        p->row_size[i] = (p->row_size[i] + fabs(c->token[i]) * along_size) / c->length;
        c->grad_bias[i] += p->row_grad[i];
        c->grad_bias_size[i] += p->row_size[i];
    }
}

/* ---- choices */

static bool is_among(const int32_t *expert, uint32_t count, uint32_t e)
{
    for (uint32_t j = 0; j < count; j++)
        if ((uint32_t)expert[j] == e)
            return true;
    return false;
}

/* The best of experts first to first + n - 1 that is not among the first j choices. */
static uint32_t best_left(const struct plain *p, uint32_t first, uint32_t n, const int32_t *expert,
                          uint32_t j)
{
    uint32_t best = p->E;

    for (uint32_t e = first; e < first + n; e++)
        if (!is_among(expert, j, e) && (best == p->E || p->score[e] > p->score[best]))
            best = e;
    return best;
}

/* True where no choice misses a better expert of this group; else *better is better than *choice.
 */
static bool has_best_of_group(const struct plain *p, uint32_t group, const int32_t *expert,
                              uint32_t *choice, uint32_t *better)
{
    for (uint32_t j = 0; j < p->k; j++) {
        uint32_t left = best_left(p, group * p->group_size, p->group_size, expert, j);

        if (left < p->E && p->score[left] > p->score[expert[j]] + p->slack) {
            *choice = j;
            *better = left;
            return false;
        }
    }
    return true;
}

static double group_score(const struct plain *p, uint32_t group)
{
    uint32_t first = group * p->group_size, best = best_left(p, first, p->group_size, NULL, 0);
    int32_t taken = (int32_t)best;

    if (p->router != MOE_ROUTER_SIGMOID || p->group_size == 1)
        return p->score[best];
    return p->score[best] + p->score[best_left(p, first, p->group_size, &taken, 1)];
}

static int wrong_groups(int rank, uint64_t token, const char *what)
{
    return fail(ERR_WRONG, "rank %d token %llu: %s", rank, (unsigned long long)token, what);
}

/* Checks that rounding explains the choice of groups.  There must be L groups with all groups that
 * are surely among the best, all groups with choices, no group that surely is not among the best,
 * and no better expert left out in any of them. */
static int check_groups(const struct plain *p, int rank, uint64_t token, const int32_t *expert)
{
    const struct moe_shape *s = &p->data->shape;
    uint32_t taken = 0, possible = 0, choice, better;

    for (uint32_t g = 0; g < s->groups; g++) {
        bool has_choice = false, must_be_chosen, cannot_be_chosen,
             has_best = has_best_of_group(p, g, expert, &choice, &better);
        double score = group_score(p, g);
        uint32_t above = 0, below = 0; /* groups that differ by more than rounding explains */

        for (uint32_t other = 0; other < s->groups; other++) {
            above += group_score(p, other) > score + 2 * p->slack;
            below += group_score(p, other) < score - 2 * p->slack;
        }
        must_be_chosen = s->groups - 1 - below < s->group_limit;
        cannot_be_chosen = above >= s->group_limit;
        for (uint32_t j = 0; j < p->k; j++)
            has_choice |= (uint32_t)expert[j] / p->group_size == g;
        if (has_choice && cannot_be_chosen)
            return wrong_groups(rank, token,
                                "it chose an expert of a group that is not among the best");
        if (!has_best && (has_choice || must_be_chosen))
            return fail(ERR_WRONG, "rank %d token %llu choice %u: expert %u is better than %d",
                        rank, (unsigned long long)token, choice, better, expert[choice]);
        taken += has_choice || must_be_chosen;
        possible += has_best && !cannot_be_chosen;
    }
    if (taken > s->group_limit)
        return wrong_groups(rank, token, "it chose experts of too many groups");
    return possible >= s->group_limit
               ? OK
               : wrong_groups(rank, token, "it left out better experts of a good group");
}

/* Checks a choice of the bilevel router among n columns from `first` on. */
static int check_level(const struct plain *p, int rank, uint64_t token, uint32_t first, uint32_t n,
                       uint32_t chosen)
{
    for (uint32_t c = first; c < first + n; c++)
        if (p->logits[c] > p->logits[first + chosen] + p->slack)
            return fail(ERR_WRONG, "rank %d token %llu: column %u is better than %u", rank,
                        (unsigned long long)token, c, first + chosen);
    return OK;
}

static int check_choices(const struct plain *p, int rank, uint64_t token, const int32_t *expert)
{
    for (uint32_t j = 0; j < p->k; j++)
        if (expert[j] < 0 || (uint32_t)expert[j] >= p->E)
            return fail(ERR_WRONG, "rank %d token %llu: there is no expert %d", rank,
                        (unsigned long long)token, expert[j]);
    for (uint32_t j = 0; j < p->k; j++)
        if (is_among(expert, j, (uint32_t)expert[j]))
            return fail(ERR_WRONG, "rank %d token %llu: it chose expert %d twice", rank,
                        (unsigned long long)token, expert[j]);
    if (p->router == MOE_ROUTER_BILEVEL) {
        TRY(check_level(p, rank, token, 0, p->first_columns, (uint32_t)expert[0] / p->group_size));
        return check_level(p, rank, token, p->first_columns, p->group_size,
                           (uint32_t)expert[0] % p->group_size);
    }
    if (p->data->shape.groups)
        return check_groups(p, rank, token, expert);
    for (uint32_t j = 0; j < p->k; j++) {
        uint32_t left = best_left(p, 0, p->E, expert, j);

        if (p->score[left] > p->score[expert[j]] + p->slack)
            return fail(ERR_WRONG, "rank %d token %llu choice %u: expert %u is better than %d",
                        rank, (unsigned long long)token, j, left, expert[j]);
    }
    return OK;
}

/* ---- gates */

static void softmax(const double *logits, uint32_t n, double *probability)
{
    double largest = -INFINITY, sum = 0;

    for (uint32_t e = 0; e < n; e++)
        largest = fmax(largest, logits[e]);
    for (uint32_t e = 0; e < n; e++) {
        probability[e] = exp(logits[e] - largest);
        sum += probability[e];
    }
    for (uint32_t e = 0; e < n; e++)
        probability[e] /= sum;
}

static double weight_of(const struct plain *p, uint32_t expert)
{
    if (p->router == MOE_ROUTER_BILEVEL)
        return p->probability[expert / p->group_size] *
               p->probability[p->first_columns + expert % p->group_size];
    return p->probability[expert];
}

int plain_route(struct plain *p, int rank, uint64_t token, const int32_t *expert,
                const int32_t *live)
{
    double chosen = ROUTE_LEAST;

    if (p->router == MOE_ROUTER_COSINE)
        cosine_logits(p);
    else
        for (uint32_t e = 0; e < p->columns; e++)
            p->logits[e] = plain_dot(p->gate + (uint64_t)e * p->D, p->x, p->D);
    softmax(p->logits, p->first_columns, p->probability);
    if (p->first_columns < p->columns)
        softmax(p->logits + p->first_columns, p->columns - p->first_columns,
                p->probability + p->first_columns);
    memcpy(p->score, p->logits, p->columns * sizeof(*p->score));
    for (uint32_t e = 0; e < p->E && p->router == MOE_ROUTER_SIGMOID; e++) {
        p->probability[e] = 1 / (1 + exp(-p->logits[e]));
        p->score[e] = p->probability[e] + (double)data_bias(p->data, e);
    }
    TRY(check_choices(p, rank, token, live));
    p->changed = false;
    for (uint32_t j = 0; j < p->k; j++) {
        p->changed |= !is_among(live, p->k, (uint32_t)expert[j]);
        chosen += weight_of(p, (uint32_t)expert[j]);
    }
    for (uint32_t j = 0; j < p->k; j++)
        p->choices[j] = (struct token_choice){
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
    return 2 * p->slack;
}

/* ---- balance */

/* The column of an expert in the first or second level. */
static uint32_t column_of(const struct plain *p, uint32_t expert, bool second)
{
    if (p->router != MOE_ROUTER_BILEVEL)
        return expert;
    return second ? p->first_columns + expert % p->group_size : expert / p->group_size;
}

void plain_count(struct plain *p, const int32_t *expert, uint64_t tokens)
{
    double share_of_choice = 1 / ((double)tokens * p->k);

    memset(p->share, 0, p->columns * sizeof(*p->share));
    p->tokens = tokens;
    for (uint64_t i = 0; i < tokens * p->k; i++) {
        p->share[column_of(p, (uint32_t)expert[i], false)] += share_of_choice;
        if (p->router == MOE_ROUTER_BILEVEL)
            p->share[column_of(p, (uint32_t)expert[i], true)] += share_of_choice;
    }
}

/* One token's sums for the balance loss of one level of the gate, and for its gradients. */
struct level_sums {
    double sum;            /* of the token's probabilities */
    double weighted_share; /* sum of probability times share */
    double weight;         /* the loss's weight, times columns, over tokens */
};

static struct level_sums level_sums(const struct plain *p, bool second)
{
    uint32_t first = second ? p->first_columns : 0, end = second ? p->columns : p->first_columns;
    struct level_sums s = { .weight =
                                p->data->balance[second] * (end - first) / (double)p->tokens };

    for (uint32_t c = first; c < end; c++) {
        s.sum += p->probability[c];
        s.weighted_share += p->probability[c] * p->share[c];
    }
    return s;
}

double plain_balance(const struct plain *p)
{
    double loss = 0;

    for (int second = 0; second < (p->router == MOE_ROUTER_BILEVEL ? 2 : 1); second++) {
        struct level_sums s = level_sums(p, second);

        loss += s.weight * s.weighted_share / s.sum;
    }
    return loss;
}

static double balance_grad(const struct plain *p, uint32_t column)
{
    double slope = p->router == MOE_ROUTER_SIGMOID ? 1 - p->probability[column] : 1;
    struct level_sums s;

    if (!p->data->balance)
        return 0;
    s = level_sums(p, column >= p->first_columns);
    return s.weight * slope * p->probability[column] / s.sum *
           (p->share[column] - s.weighted_share / s.sum);
}

/* ---- slopes */

static double logit_grad(const struct plain *p, uint32_t column, const double *gate_grad)
{
    bool over_all_columns = p->k == 1 && p->router != MOE_ROUTER_SIGMOID,
         second = column >= p->first_columns;
    double mean = 0, grad;

    for (uint32_t j = 0; j < p->k; j++)
        mean += p->choices[j].gate * gate_grad[j];
    grad = over_all_columns ? -p->probability[column] * mean : 0;
    for (uint32_t j = 0; j < p->k; j++) {
        const struct token_choice *c = &p->choices[j];

        if (column_of(p, c->expert, second) != column)
            continue;
        grad += p->k == 1 ? mean : c->gate * (gate_grad[j] - mean);
    }
    if (p->router == MOE_ROUTER_SIGMOID)
        grad *= 1 - p->probability[column];
    return grad + balance_grad(p, column);
}

void plain_route_back(struct plain *p, const double *gate_grad, double size)
{
    bool cosine = p->router == MOE_ROUTER_COSINE;
    double *grads = cosine ? p->row_grad + p->rows : p->row_grad;
    double *sizes = cosine ? grads + p->columns : p->row_size;

    for (uint32_t c = 0; c < p->columns; c++) {
        grads[c] = logit_grad(p, c, gate_grad);
        sizes[c] = p->data->balance ? size + fabs(grads[c]) : size;
        if (cosine && grads[c] == 0)
            sizes[c] = 0;
    }
    if (cosine)
        cosine_back(p, grads, sizes);
}

/* ---- open, load, close */

int plain_open(const struct data *data, struct plain *p)
{
    const struct moe_shape *s = &data->shape;

    *p = (struct plain){
        .data = data,
        .E = s->experts,
        .k = s->top_k,
        .D = s->model_dim,
        .H = s->hidden_dim,
        .columns = shape_gate_columns(s),
        .rows = shape_gate_rows(s),
        .router = s->router,
        .group_size = s->groups ? s->experts / s->groups : s->experts,
    };
    p->first_columns = p->router == MOE_ROUTER_BILEVEL ? s->groups : p->columns;
    p->gate = calloc((size_t)p->rows * p->D, sizeof(*p->gate));
    p->x = calloc(p->D, sizeof(*p->x));
    p->grad = calloc((size_t)shape_result_rows(s) * p->D, sizeof(*p->grad));
    p->loss = calloc(p->k, sizeof(*p->loss));
    p->logits = calloc(p->columns, sizeof(*p->logits));
    p->probability = calloc(p->columns, sizeof(*p->probability));
    p->score = calloc(p->columns, sizeof(*p->score));
    p->share = calloc(p->columns, sizeof(*p->share));
    p->choices = calloc(p->k, sizeof(*p->choices));
    p->row_grad = calloc((size_t)p->rows + 2 * p->columns, sizeof(*p->row_grad));
    p->row_size = calloc(p->rows, sizeof(*p->row_size));
    if (!p->gate || !p->x || !p->grad || !p->logits || !p->probability || !p->score || !p->share ||
        !p->choices || !p->loss || !p->row_grad || !p->row_size || open_cosine(p)) {
        plain_close(p);
        return fail(ERR_NOMEM, "the reference of a token");
    }
    p->slack = 1e-5 + (s->dtype == MOE_F32 ? 0 : p->D * 0x1p-24);
    if (p->router == MOE_ROUTER_COSINE)
        p->slack *= fmax(1, p->cosine.factor);
    for (uint64_t e = 0; e < p->rows; e++)
        for (uint64_t c = 0; c < p->D; c++)
            p->gate[e * p->D + c] = data_gate(data, e, c);
    return OK;
}

void plain_close(struct plain *p)
{
    free(p->gate);
    free(p->x);
    free(p->grad);
    free(p->logits);
    free(p->probability);
    free(p->score);
    free(p->share);
    free(p->choices);
    free(p->loss);
    free(p->row_grad);
    free(p->row_size);
    close_cosine(p);
    *p = (struct plain){ .E = 0 };
}

void plain_load(struct plain *p, int rank, uint64_t token)
{
    uint32_t rows = shape_result_rows(&p->data->shape);

    for (uint32_t i = 0; i < p->D; i++)
        p->x[i] = (double)data_token(p->data, rank, token, i);
    for (uint32_t j = 0; j < rows; j++)
        for (uint32_t i = 0; i < p->D; i++)
            p->grad[(size_t)j * p->D + i] = (double)data_grad(p->data, rank, token * rows + j, i);
    for (uint32_t j = 0; j < p->k; j++)
        p->loss[j] = (double)data_loss(p->data, rank, token * p->k + j);
}

const double *plain_grad_row(const struct plain *p, uint32_t j)
{
    return p->grad + (shape_result_rows(&p->data->shape) > 1 ? (size_t)j * p->D : 0);
}
