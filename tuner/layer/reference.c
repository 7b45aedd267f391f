/* The layer as plain loops over tokens and choices, in double precision. */
#include "reference.h"

#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One routed token of any rank. */
struct choice {
    uint32_t expert;
    bool kept;
    double gate;
};

struct work {
    const struct data *data;
    const struct batch_of_tokens *batch;
    struct reference *out;
    int rank; /* whose result is wanted */
    uint32_t E, k, D, H;
    float *weight[TENSOR_COUNT];         /* whole: (E,H,D), (E,H), (E,D) */
    float *gate;                         /* (E,D) */
    double *x, *grad;                    /* one token's row and the gradient of its y */
    double *logits, *probability;        /* (E) */
    double *pre, *up, *post;             /* (H) */
    double *row, *hidden_grad, *up_grad; /* (D), (H), (H) */
    struct choice *choices;              /* (k) of the token at hand */
    uint64_t *filled;                    /* (E) slots given so far, in the order of the rule */
    bool *kept;                          /* of every rank, as the choices are */
};

static double dot(const float *a, const double *b, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

static void axpy(double scale, const float *from, double *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] += scale * (double)from[i];
}

static void add(double scale, const double *from, double *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] += scale * from[i];
}

static double act(uint32_t kind, double x)
{
    switch (kind) {
    case MOE_RELU: return x > 0 ? x : 0;
    case MOE_GELU: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    default: return x / (1 + exp(-x));
    }
}

static double act_slope(uint32_t kind, double x)
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

static const float *weight_row(const struct work *w, enum tensor tensor, uint64_t expert,
                               uint64_t hidden)
{
    return w->weight[tensor] + (expert * w->H + hidden) * w->D;
}

static void load_token(struct work *w, int rank, uint64_t t)
{
    for (uint32_t i = 0; i < w->D; i++) {
        w->x[i] = (double)data_token(w->data, rank, t, i);
        w->grad[i] = (double)data_grad(w->data, rank, t, i);
    }
}

/* Every expert left out must not be better than one chosen by more than f32 can tell: units that
 * multiply 16-bit numbers cut off what they add. */
static int check_choices(const struct work *w, int rank, uint64_t t, const int32_t *expert)
{
    const double slack = 1e-5 + (w->data->shape.dtype == MOE_F32 ? 0 : w->D * 0x1p-24);

    for (uint32_t j = 0; j < w->k; j++)
        for (uint32_t e = 0; e < w->E; e++) {
            bool earlier = false;

            for (uint32_t i = 0; i < j; i++)
                earlier |= (uint32_t)expert[i] == e;
            if (earlier && (uint32_t)expert[j] == e)
                return fail(ERR_WRONG, "rank %d token %llu: expert %u twice", rank,
                            (unsigned long long)t, e);
            if (!earlier && w->logits[e] > w->logits[expert[j]] + slack)
                return fail(ERR_WRONG, "rank %d token %llu choice %u: expert %u is better than %d",
                            rank, (unsigned long long)t, j, e, expert[j]);
        }
    return OK;
}

static int gate_token(struct work *w, int rank, uint64_t t)
{
    uint64_t at = (uint64_t)rank * w->batch->each + t * w->k;
    const int32_t *expert = w->batch->expert + at;
    double most = -INFINITY, sum = 0, chosen = 0;

    for (uint32_t e = 0; e < w->E; e++) {
        w->logits[e] = dot(w->gate + (uint64_t)e * w->D, w->x, w->D);
        most = fmax(most, w->logits[e]);
    }
    TRY(check_choices(w, rank, t, expert));
    for (uint32_t e = 0; e < w->E; e++) {
        w->probability[e] = exp(w->logits[e] - most);
        sum += w->probability[e];
    }
    for (uint32_t e = 0; e < w->E; e++)
        w->probability[e] /= sum;
    for (uint32_t j = 0; j < w->k; j++)
        chosen += w->probability[expert[j]];
    for (uint32_t j = 0; j < w->k; j++)
        w->choices[j] = (struct choice){
            .expert = (uint32_t)expert[j],
            .kept = w->kept[at + j],
            .gate = w->probability[expert[j]] / (w->k > 1 ? chosen : 1),
        };
    return OK;
}

/* All first choices in token order, then all second choices: whoever comes late is dropped. */
static int give_slots(struct work *w)
{
    for (int q = 0; q < w->batch->ranks; q++) {
        uint64_t tokens = w->batch->tokens[q];

        memset(w->filled, 0, w->E * sizeof(*w->filled));
        for (uint32_t j = 0; j < w->k; j++)
            for (uint64_t t = 0; t < tokens; t++) {
                uint64_t at = (uint64_t)q * w->batch->each + t * w->k + j;
                int32_t e = w->batch->expert[at];

                if (e < 0 || (uint32_t)e >= w->E)
                    return fail(ERR_WRONG, "rank %d: no expert %d", q, e);
                w->kept[at] = w->filled[e]++ < w->batch->capacity;
                w->out->dropped += q == w->rank && !w->kept[at];
            }
    }
    return OK;
}

/* Hidden units first .. first+count-1 of expert e for the token at hand. */
static void hidden_forward(struct work *w, uint64_t e, uint32_t first, uint32_t count)
{
    uint32_t kind = w->data->shape.activation;

    for (uint32_t h = first; h < first + count; h++) {
        w->pre[h] = (double)w->weight[TENSOR_B1][e * w->H + h] +
                    dot(weight_row(w, TENSOR_W1, e, h), w->x, w->D);
        w->up[h] = kind == MOE_SWIGLU ? dot(weight_row(w, TENSOR_W3, e, h), w->x, w->D) : 1;
        w->post[h] = act(kind, w->pre[h]) * w->up[h];
    }
}

static void hidden_backward(struct work *w, uint64_t e, double gate, uint32_t first, uint32_t count)
{
    uint32_t kind = w->data->shape.activation;

    for (uint32_t h = first; h < first + count; h++) {
        double grad = gate * dot(weight_row(w, TENSOR_W2, e, h), w->grad, w->D);

        w->hidden_grad[h] = grad * act_slope(kind, w->pre[h]) * w->up[h];
        w->up_grad[h] = grad * act(kind, w->pre[h]);
    }
}

/* One of the rank's own tokens: its row of y, its gradient, and the gate's. */
static void own_choice(struct work *w, uint64_t t, uint32_t j, double *gate_grad,
                       double *gate_grad_size)
{
    const struct choice *c = &w->choices[j];
    double *y = w->out->y + t * w->D, *grad_x = w->out->grad_x + t * w->D;

    for (uint32_t i = 0; i < w->D; i++)
        w->row[i] = (double)w->weight[TENSOR_B2][(uint64_t)c->expert * w->D + i];
    hidden_forward(w, c->expert, 0, w->H);
    for (uint32_t h = 0; h < w->H; h++)
        axpy(w->post[h], weight_row(w, TENSOR_W2, c->expert, h), w->row, w->D);
    add(c->gate, w->row, y, w->D);
    for (uint32_t i = 0; i < w->D; i++) {
        gate_grad[j] += w->row[i] * w->grad[i];
        gate_grad_size[j] += fabs(w->row[i] * w->grad[i]);
    }
    if (w->data->shape.pass != MOE_TRAIN)
        return;
    hidden_backward(w, c->expert, c->gate, 0, w->H);
    for (uint32_t h = 0; h < w->H; h++) {
        axpy(w->hidden_grad[h], weight_row(w, TENSOR_W1, c->expert, h), grad_x, w->D);
        if (w->data->shape.activation == MOE_SWIGLU)
            axpy(w->up_grad[h], weight_row(w, TENSOR_W3, c->expert, h), grad_x, w->D);
    }
}

static void own_gate(struct work *w, uint64_t t, const double *gate_grad,
                     const double *gate_grad_size)
{
    double mean = 0, size = 0;

    for (uint32_t j = 0; j < w->k; j++) {
        mean += w->choices[j].gate * gate_grad[j];
        size += w->choices[j].gate * gate_grad_size[j];
    }
    for (uint32_t e = 0; e < w->E; e++) {
        double grad = w->k == 1 ? -w->probability[e] * mean : 0;

        for (uint32_t j = 0; j < w->k; j++)
            if (w->choices[j].expert == e)
                grad += w->k == 1 ? mean : w->choices[j].gate * (gate_grad[j] - mean);
        axpy(grad, w->gate + (uint64_t)e * w->D, w->out->grad_x + t * w->D, w->D);
        add(grad, w->x, w->out->grad_gate + (uint64_t)e * w->D, w->D);
        for (uint32_t i = 0; i < w->D; i++)
            w->out->grad_gate_size[(uint64_t)e * w->D + i] += fabs(size * w->x[i]);
    }
}

static int own_tokens(struct work *w)
{
    /* k gradients, then the sizes of their terms */
    double *gate_grad = calloc(2 * (size_t)w->k, sizeof(*gate_grad));
    int rc = gate_grad ? OK : fail(ERR_NOMEM, "gate gradients");

    for (uint64_t t = 0; t < w->batch->tokens[w->rank] && !rc; t++) {
        load_token(w, w->rank, t);
        rc = gate_token(w, w->rank, t);
        memset(gate_grad, 0, 2 * w->k * sizeof(*gate_grad));
        for (uint32_t j = 0; j < w->k && !rc; j++)
            if (w->choices[j].kept)
                own_choice(w, t, j, gate_grad, gate_grad + w->k);
        if (!rc && w->data->shape.pass == MOE_TRAIN)
            own_gate(w, t, gate_grad, gate_grad + w->k);
    }
    free(gate_grad);
    return rc;
}

/* One token of any rank, seen by the slice of an expert that this rank owns. */
static void own_slice(struct work *w, const struct choice *c)
{
    const struct moe_shape *s = &w->data->shape;
    uint32_t slices = shape_slices(s), place = (uint32_t)w->rank % slices;
    uint32_t hidden = w->H / slices, first = place * hidden, cut = shape_bias2_slice(s);
    uint64_t local = c->expert - (uint64_t)w->rank / slices * shape_local_experts(s);
    double **grad = w->out->grad;

    hidden_forward(w, c->expert, first, hidden);
    hidden_backward(w, c->expert, c->gate, first, hidden);
    for (uint32_t h = 0; h < hidden; h++) {
        uint64_t at = local * hidden + h;

        add(w->hidden_grad[first + h], w->x, grad[TENSOR_W1] + at * w->D, w->D);
        if (s->activation == MOE_SWIGLU)
            add(w->up_grad[first + h], w->x, grad[TENSOR_W3] + at * w->D, w->D);
        grad[TENSOR_B1][at] += w->hidden_grad[first + h];
        w->out->grad_size[TENSOR_B1][at] += fabs(w->hidden_grad[first + h]);
        add(c->gate * w->post[first + h], w->grad, grad[TENSOR_W2] + at * w->D, w->D);
    }
    for (uint32_t i = 0; i < cut && place * cut + i < w->D; i++) {
        grad[TENSOR_B2][local * cut + i] += c->gate * w->grad[place * cut + i];
        w->out->grad_size[TENSOR_B2][local * cut + i] += fabs(c->gate * w->grad[place * cut + i]);
    }
}

static int own_weights(struct work *w)
{
    const struct moe_shape *s = &w->data->shape;
    uint32_t experts = shape_local_experts(s);
    uint32_t first = (uint32_t)w->rank / shape_slices(s) * experts;

    for (int q = 0; q < w->batch->ranks; q++)
        for (uint64_t t = 0; t < w->batch->tokens[q]; t++) {
            load_token(w, q, t);
            TRY(gate_token(w, q, t));
            for (uint32_t j = 0; j < w->k; j++)
                if (w->choices[j].kept && w->choices[j].expert - first < experts)
                    own_slice(w, &w->choices[j]);
        }
    return OK;
}

static void *zeros(uint64_t count, size_t width, int *rc)
{
    void *memory = calloc(count + 1, width);

    if (!memory && !*rc)
        *rc = fail(ERR_NOMEM, "%llu numbers of the reference", (unsigned long long)count);
    return memory;
}

static int load_weights(struct work *w)
{
    const struct data *data = w->data;
    int rc = OK;

    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        uint64_t rows = i == TENSOR_B2 ? 1 : w->H, columns = i == TENSOR_B1 ? 1 : w->D;

        if (!layer_slice(&data->shape, i))
            continue;
        w->weight[i] = zeros(w->E * rows * columns, sizeof(float), &rc);
        for (uint64_t e = 0; e < w->E && !rc; e++)
            for (uint64_t h = 0; h < rows; h++)
                for (uint64_t c = 0; c < columns; c++)
                    w->weight[i][(e * rows + h) * columns + c] = data_weight(data, i, e, h, c);
    }
    w->gate = zeros((uint64_t)w->E * w->D, sizeof(float), &rc);
    for (uint64_t e = 0; e < w->E && !rc; e++)
        for (uint64_t c = 0; c < w->D; c++)
            w->gate[e * w->D + c] = data_gate(data, e, c);
    return rc;
}

static int work_open(struct work *w)
{
    const struct moe_shape *s = &w->data->shape;
    struct reference *out = w->out;
    uint64_t tokens = w->batch->tokens[w->rank];
    int rc = load_weights(w);

    w->x = zeros(w->D, sizeof(double), &rc);
    w->grad = zeros(w->D, sizeof(double), &rc);
    w->row = zeros(w->D, sizeof(double), &rc);
    w->logits = zeros(w->E, sizeof(double), &rc);
    w->probability = zeros(w->E, sizeof(double), &rc);
    w->pre = zeros(w->H, sizeof(double), &rc);
    w->up = zeros(w->H, sizeof(double), &rc);
    w->post = zeros(w->H, sizeof(double), &rc);
    w->hidden_grad = zeros(w->H, sizeof(double), &rc);
    w->up_grad = zeros(w->H, sizeof(double), &rc);
    w->choices = zeros(w->k, sizeof(*w->choices), &rc);
    w->filled = zeros(w->E, sizeof(*w->filled), &rc);
    w->kept = zeros((uint64_t)w->batch->ranks * w->batch->each, sizeof(*w->kept), &rc);
    out->y = zeros(tokens * w->D, sizeof(double), &rc);
    out->grad_x = zeros(tokens * w->D, sizeof(double), &rc);
    out->grad_gate = zeros((uint64_t)w->E * w->D, sizeof(double), &rc);
    out->grad_gate_size = zeros((uint64_t)w->E * w->D, sizeof(double), &rc);
    out->grad_size[TENSOR_B1] = zeros(layer_slice(s, TENSOR_B1), sizeof(double), &rc);
    out->grad_size[TENSOR_B2] = zeros(layer_slice(s, TENSOR_B2), sizeof(double), &rc);
    for (enum tensor i = 0; i < TENSOR_COUNT; i++)
        out->grad[i] = zeros(layer_slice(s, i), sizeof(double), &rc);
    return rc;
}

static void work_close(struct work *w)
{
    void *owned[] = { w->gate,        w->x,       w->grad,   w->row,  w->logits,
                      w->probability, w->pre,     w->up,     w->post, w->hidden_grad,
                      w->up_grad,     w->choices, w->filled, w->kept };

    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        free(owned[i]);
    for (enum tensor i = 0; i < TENSOR_COUNT; i++)
        free(w->weight[i]);
}

int reference_open(const struct data *data, const struct batch_of_tokens *batch, int rank,
                   struct reference **out)
{
    struct reference *reference = calloc(1, sizeof(*reference));
    struct work w = { .data = data,
                      .batch = batch,
                      .out = reference,
                      .rank = rank,
                      .E = data->shape.experts,
                      .k = data->shape.top_k,
                      .D = data->shape.model_dim,
                      .H = data->shape.hidden_dim };
    int rc;

    if (!reference)
        return fail(ERR_NOMEM, "a reference");
    TRY_OUT(work_open(&w));
    TRY_OUT(give_slots(&w));
    TRY_OUT(own_tokens(&w));
    if (data->shape.pass == MOE_TRAIN)
        TRY_OUT(own_weights(&w));
    *out = reference;
    reference = NULL;
out:
    work_close(&w);
    reference_close(reference);
    return rc;
}

void reference_close(struct reference *reference)
{
    if (!reference)
        return;
    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        free(reference->grad[i]);
        free(reference->grad_size[i]);
    }
    free(reference->grad_gate_size);
    free(reference->y);
    free(reference->grad_x);
    free(reference->grad_gate);
    free(reference);
}

static uint32_t at_most(uint32_t value, uint32_t limit)
{
    return value < limit ? value : limit;
}

/* Plain loops in double precision do some 1e9 products a second. */
struct moe_shape reference_shape(struct moe_shape shape)
{
    static const double products_most = 1e9, weights_most = 1 << 20;
    uint32_t slices = shape_slices(&shape);
    double expert = (double)shape.model_dim * shape.hidden_dim;

    if (12 * expert * shape.tokens * shape.top_k < products_most &&
        expert * shape.experts <= weights_most)
        return shape;
    shape.tokens = at_most(shape.tokens, 96);
    shape.model_dim = at_most(shape.model_dim, 48);
    shape.hidden_dim = at_most(shape.hidden_dim, (48 + slices - 1) / slices * slices);
    return shape;
}

uint64_t reference_capacity(const struct moe_shape *shape)
{
    return (uint64_t)shape->tokens * shape->top_k / shape->experts + 1;
}

size_t reference_bytes(const struct moe_shape *s)
{
    uint64_t rows = (uint64_t)s->tokens * s->model_dim, gate = (uint64_t)s->experts * s->model_dim;
    uint64_t choices = (uint64_t)s->ranks * s->tokens * s->top_k;
    uint64_t floats = gate, doubles = 2 * rows + 2 * gate, compared = rows > gate ? rows : gate;

    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        uint64_t slice = layer_slice(s, i);

        floats += slice * s->ranks;
        doubles += i == TENSOR_B1 || i == TENSOR_B2 ? 2 * slice : slice;
        compared = slice > compared ? slice : compared;
    }
    return floats * sizeof(float) + doubles * sizeof(double) +
           choices * (2 * sizeof(int32_t) + sizeof(bool)) +
           compared * (sizeof(float) + dtype_bytes(s->dtype));
}
