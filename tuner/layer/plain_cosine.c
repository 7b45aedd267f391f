/* A token's cosines with the experts' rows, and the gradients of all that makes them. */
#include "plain_cosine.h"

#include "kernels.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *doubles(uint64_t count)
{
    return calloc(count, sizeof(double));
}

/* Makes the row one of length 1; returns what it was divided by. */
static double normalise(double *row, uint32_t n)
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

int plain_cosine_open(struct plain *p)
{
    struct plain_cosine *c = &p->cosine;
    double scale = p->rows ? (double)data_cosine(p->data, COSINE_SCALE, 0) : 0;
    size_t all = (size_t)p->E * p->rows;

    if (p->data->shape.router != MOE_ROUTER_COSINE)
        return OK;
    c->factor = exp(fmin(scale, (double)UNIT_ROWS_MOST));
    c->trained = scale <= (double)UNIT_ROWS_MOST;
    c->experts = doubles(all);
    c->expert_length = doubles(p->E);
    c->token = doubles(p->rows);
    c->grad_experts = doubles(all);
    c->grad_experts_size = doubles(all);
    c->grad_bias = doubles(p->rows);
    c->grad_bias_size = doubles(p->rows);
    if (!c->experts || !c->expert_length || !c->token || !c->grad_experts ||
        !c->grad_experts_size || !c->grad_bias || !c->grad_bias_size)
        return ERR_NOMEM;
    for (size_t i = 0; i < all; i++)
        c->experts[i] = (double)data_cosine(p->data, COSINE_ROWS, i);
    for (uint32_t e = 0; e < p->E; e++)
        c->expert_length[e] = normalise(c->experts + (size_t)e * p->rows, p->rows);
    return OK;
}

void plain_cosine_close(struct plain *p)
{
    struct plain_cosine *c = &p->cosine;
    double *owned[] = { c->experts,           c->expert_length, c->token,         c->grad_experts,
                        c->grad_experts_size, c->grad_bias,     c->grad_bias_size };

    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        free(owned[i]);
}

void plain_cosine_logits(struct plain *p)
{
    struct plain_cosine *c = &p->cosine;

    for (uint32_t i = 0; i < p->rows; i++)
        c->token[i] = plain_dot(p->gate + (uint64_t)i * p->D, p->x, p->D) +
                      (double)data_cosine(p->data, COSINE_BIAS, i);
    c->length = normalise(c->token, p->rows);
    for (uint32_t e = 0; e < p->E; e++)
        p->logits[e] = c->factor * dot(c->token, c->experts + (size_t)e * p->rows, p->rows);
}

/* What the length of a row takes off its gradient is what lies along the row. */
static void back_to_expert(struct plain *p, uint32_t e, double grad, double size)
{
    struct plain_cosine *c = &p->cosine;
    size_t at = (size_t)e * p->rows;
    double cosine = p->logits[e] / c->factor, scale = c->factor / c->expert_length[e];

    for (uint32_t i = 0; i < p->rows; i++) {
        double token = c->token[i], along = c->experts[at + i] * cosine;

        c->grad_experts[at + i] += scale * grad * (token - along);
        c->grad_experts_size[at + i] += scale * size * (fabs(token) + fabs(along));
        p->row_grad[i] += c->factor * grad * c->experts[at + i];
        p->row_size[i] += c->factor * size * fabs(c->experts[at + i]);
    }
    c->grad_scale += c->trained ? grad * p->logits[e] : 0;
    c->grad_scale_size += c->trained ? size * fabs(p->logits[e]) : 0;
}

void plain_cosine_back(struct plain *p, const double *grad, const double *size)
{
    struct plain_cosine *c = &p->cosine;
    double along, along_size = 0;

    memset(p->row_grad, 0, p->rows * sizeof(*p->row_grad));
    memset(p->row_size, 0, p->rows * sizeof(*p->row_size));
    for (uint32_t e = 0; e < p->E; e++)
        back_to_expert(p, e, grad[e], size[e]);
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
