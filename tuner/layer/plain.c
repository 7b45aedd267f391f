/* Gate, activations and sums of one token. */
#include "plain.h"

#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

/* Sums side by side: one alone would wait for each of its additions. */
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
    double s, t, u;

    switch (kind) {
    case MOE_RELU: return x > 0 ? 1 : 0;
    case MOE_GELU:
        u = sqrt(2 / M_PI);
        t = tanh(u * (x + 0.044715 * x * x * x));
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * u * (1 + 3 * 0.044715 * x * x);
    default: s = 1 / (1 + exp(-x)); return s * (1 + x * (1 - s));
    }
}

int plain_open(const struct data *data, struct plain *p)
{
    const struct moe_shape *s = &data->shape;

    *p = (struct plain){
        .data = data, .E = s->experts, .k = s->top_k, .D = s->model_dim, .H = s->hidden_dim
    };
    p->gate = calloc((size_t)p->E * p->D, sizeof(*p->gate));
    p->x = calloc(p->D, sizeof(*p->x));
    p->grad = calloc(p->D, sizeof(*p->grad));
    p->logits = calloc(p->E, sizeof(*p->logits));
    p->probability = calloc(p->E, sizeof(*p->probability));
    p->choices = calloc(p->k, sizeof(*p->choices));
    if (!p->gate || !p->x || !p->grad || !p->logits || !p->probability || !p->choices) {
        plain_close(p);
        return fail(ERR_NOMEM, "a token computed plainly");
    }
    for (uint64_t e = 0; e < p->E; e++)
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
    free(p->choices);
    *p = (struct plain){ .E = 0 };
}

void plain_load(struct plain *p, int rank, uint64_t t)
{
    for (uint32_t i = 0; i < p->D; i++) {
        p->x[i] = (double)data_token(p->data, rank, t, i);
        p->grad[i] = (double)data_grad(p->data, rank, t, i);
    }
}

/* Every expert left out must not be better than one chosen by more than f32 can tell: units that
 * multiply 16-bit numbers cut off what they add. */
static int check_choices(const struct plain *p, int rank, uint64_t t, const int32_t *expert)
{
    const double slack = 1e-5 + (p->data->shape.dtype == MOE_F32 ? 0 : p->D * 0x1p-24);

    for (uint32_t j = 0; j < p->k; j++)
        for (uint32_t e = 0; e < p->E; e++) {
            bool earlier = false;

            for (uint32_t i = 0; i < j; i++)
                earlier |= (uint32_t)expert[i] == e;
            if (earlier && (uint32_t)expert[j] == e)
                return fail(ERR_WRONG, "rank %d token %llu: expert %u twice", rank,
                            (unsigned long long)t, e);
            if (!earlier && p->logits[e] > p->logits[expert[j]] + slack)
                return fail(ERR_WRONG, "rank %d token %llu choice %u: expert %u is better than %d",
                            rank, (unsigned long long)t, j, e, expert[j]);
        }
    return OK;
}

/* Softmax over the logits at hand. */
static void normalise(struct plain *p)
{
    double most = -INFINITY, sum = 0;

    for (uint32_t e = 0; e < p->E; e++)
        most = fmax(most, p->logits[e]);
    for (uint32_t e = 0; e < p->E; e++) {
        p->probability[e] = exp(p->logits[e] - most);
        sum += p->probability[e];
    }
    for (uint32_t e = 0; e < p->E; e++)
        p->probability[e] /= sum;
}

int plain_route(struct plain *p, int rank, uint64_t t, const int32_t *expert)
{
    double chosen = 0;

    for (uint32_t j = 0; j < p->k; j++)
        if (expert[j] < 0 || (uint32_t)expert[j] >= p->E)
            return fail(ERR_WRONG, "rank %d: no expert %d", rank, expert[j]);
    for (uint32_t e = 0; e < p->E; e++)
        p->logits[e] = plain_dot(p->gate + (uint64_t)e * p->D, p->x, p->D);
    TRY(check_choices(p, rank, t, expert));
    normalise(p);
    for (uint32_t j = 0; j < p->k; j++)
        chosen += p->probability[expert[j]];
    for (uint32_t j = 0; j < p->k; j++)
        p->choices[j] = (struct choice){
            .expert = (uint32_t)expert[j],
            .gate = p->probability[expert[j]] / (p->k > 1 ? chosen : 1),
        };
    return OK;
}

double plain_logit_grad(const struct plain *p, uint32_t expert, const double *gate_grad)
{
    double mean = 0, grad;

    for (uint32_t j = 0; j < p->k; j++)
        mean += p->choices[j].gate * gate_grad[j];
    grad = p->k == 1 ? -p->probability[expert] * mean : 0;
    for (uint32_t j = 0; j < p->k; j++)
        if (p->choices[j].expert == expert)
            grad += p->k == 1 ? mean : p->choices[j].gate * (gate_grad[j] - mean);
    return grad;
}
