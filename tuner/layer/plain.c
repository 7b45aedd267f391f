/* Activations and sums of one token. */
#include "plain_cosine.h"

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

bool plain_is_at_bend(const struct plain *p, double bias, double x)
{
    static const double sums = 1e-5; /* numbers of order one, summed in f32 */
    static const double stored[] = { [MOE_F32] = 0, [MOE_F16] = 0x1p-11, [MOE_BF16] = 0x1p-8 };
    const struct moe_shape *s = &p->data->shape;

    return s->activation == MOE_RELU && fabs(x) <= sums + stored[s->dtype] * fabs(bias);
}

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
    };
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
        !p->choices || !p->loss || !p->row_grad || !p->row_size || plain_cosine_open(p)) {
        plain_close(p);
        return fail(ERR_NOMEM, "a token computed plainly");
    }
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
    plain_cosine_close(p);
    *p = (struct plain){ .E = 0 };
}

void plain_load(struct plain *p, int rank, uint64_t t)
{
    uint32_t rows = shape_result_rows(&p->data->shape);

    for (uint32_t i = 0; i < p->D; i++)
        p->x[i] = (double)data_token(p->data, rank, t, i);
    for (uint32_t j = 0; j < rows; j++)
        for (uint32_t i = 0; i < p->D; i++)
            p->grad[(size_t)j * p->D + i] = (double)data_grad(p->data, rank, t * rows + j, i);
    for (uint32_t j = 0; j < p->k; j++)
        p->loss[j] = (double)data_loss(p->data, rank, t * p->k + j);
}

const double *plain_grad_row(const struct plain *p, uint32_t j)
{
    return p->grad + (shape_result_rows(&p->data->shape) > 1 ? (size_t)j * p->D : 0);
}
