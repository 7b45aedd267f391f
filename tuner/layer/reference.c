/* The layer as plain loops over tokens and choices, in double precision. */
#include "reference.h"

#include "plain.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct work {
    struct plain p;
    const struct batch_of_tokens *batch;
    struct reference *out;
    int rank;                            /* whose result is wanted */
    float *weight[TENSOR_COUNT];         /* whole: (E,H,D), (E,H), (E,D) */
    double *pre, *up, *post;             /* (H) */
    double *row, *hidden_grad, *up_grad; /* (D), (H), (H) */
    double *hidden_slack; /* (H): by how much hidden_grad may be off at ReLU's bend */
    uint64_t *filled;     /* (E) slots given so far, in the order of the rule */
    bool *kept;           /* of every rank, as the choices are */
    struct parts parts;
};

static void add(double scale, const double *from, double *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] += scale * from[i];
}

static double largest(const double *of, uint32_t n)
{
    double most = 0;

    for (uint32_t i = 0; i < n; i++)
        most = fmax(most, fabs(of[i]));
    return most;
}

static const float *weight_row(const struct work *w, enum tensor tensor, uint64_t expert,
                               uint64_t hidden)
{
    return w->weight[tensor] + (expert * w->p.H + hidden) * w->p.D;
}

/* Also whether its choices were kept. */
static int gate_token(struct work *w, int rank, uint64_t t)
{
    uint64_t at = (uint64_t)rank * w->batch->each + t * w->p.k;

    plain_load(&w->p, rank, t);
    TRY(plain_route_known(&w->p, rank, t, w->batch->expert + at,
                          (w->batch->live ? w->batch->live : w->batch->expert) + at));
    for (uint32_t j = 0; j < w->p.k; j++)
        w->p.choices[j].kept = w->kept[at + j];
    return OK;
}

/* The tokens as they take their turns, of which rounding may explain the order. */
static int check_turns(struct work *w, int q)
{
    const uint32_t *turn = w->batch->turn + (size_t)q * w->batch->each_turn;
    uint64_t tokens = w->batch->tokens[q];
    bool *seen = calloc(tokens + 1, sizeof(*seen));
    double least = INFINITY;
    int rc = seen ? OK : fail(ERR_NOMEM, "turns");

    for (uint64_t i = 0; i < tokens && !rc; i++) {
        if (turn[i] >= tokens || seen[turn[i]]) {
            rc = fail(ERR_WRONG, "rank %d: token %u takes a turn twice, or is none", q, turn[i]);
            break;
        }
        seen[turn[i]] = true;
        rc = gate_token(w, q, turn[i]);
        if (!rc && plain_importance(&w->p) > least + plain_importance_slack(&w->p))
            rc = fail(ERR_WRONG, "rank %d token %u: a less important one went before", q, turn[i]);
        least = rc ? 0 : fmin(least, plain_importance(&w->p));
    }
    free(seen);
    return rc;
}

/* All first choices in the order of turns, then all second choices: whoever comes late is dropped.
 */
static int give_slots(struct work *w)
{
    for (int q = 0; q < w->batch->ranks; q++) {
        const uint32_t *turn = w->batch->turn ? w->batch->turn + q * w->batch->each_turn : NULL;
        uint64_t tokens = w->batch->tokens[q];

        if (turn)
            TRY(check_turns(w, q));
        memset(w->filled, 0, w->p.E * sizeof(*w->filled));
        for (uint32_t j = 0; j < w->p.k; j++)
            for (uint64_t i = 0; i < tokens; i++) {
                uint64_t t = turn ? turn[i] : i;
                uint64_t at = (uint64_t)q * w->batch->each + t * w->p.k + j;
                int32_t e = w->batch->expert[at];

                if (e < 0 || (uint32_t)e >= w->p.E)
                    return fail(ERR_WRONG, "rank %d: no expert %d", q, e);
                w->kept[at] = w->filled[e]++ < capacity_of(&w->batch->capacities, (uint64_t)e);
                w->out->dropped += q == w->rank && !w->kept[at];
            }
    }
    return OK;
}

/* Hidden units first .. first+count-1 of expert e for the token at hand. */
static void hidden_forward(struct work *w, uint64_t e, uint32_t first, uint32_t count)
{
    uint32_t kind = w->p.data->shape.activation;

    for (uint32_t h = first; h < first + count; h++) {
        w->pre[h] = (double)w->weight[TENSOR_B1][e * w->p.H + h] +
                    plain_dot(weight_row(w, TENSOR_W1, e, h), w->p.x, w->p.D);
        w->up[h] =
            kind == MOE_SWIGLU ? plain_dot(weight_row(w, TENSOR_W3, e, h), w->p.x, w->p.D) : 1;
        w->post[h] = plain_act(kind, w->pre[h]) * w->up[h];
    }
}

static bool at_bend(const struct work *w, uint64_t e, uint32_t h)
{
    return plain_is_at_bend(&w->p, (double)w->weight[TENSOR_B1][e * w->p.H + h], w->pre[h]);
}

/* grad: of the row of y that it gave. */
static void hidden_backward(struct work *w, uint64_t e, double gate, const double *row,
                            uint32_t first, uint32_t count)
{
    uint32_t kind = w->p.data->shape.activation;

    for (uint32_t h = first; h < first + count; h++) {
        double grad = gate * plain_dot(weight_row(w, TENSOR_W2, e, h), row, w->p.D);

        w->hidden_grad[h] = grad * plain_act_slope(kind, w->pre[h]) * w->up[h];
        w->hidden_slack[h] = at_bend(w, e, h) ? fabs(grad) : 0;
        w->up_grad[h] = grad * plain_act(kind, w->pre[h]);
    }
}

/* One of the rank's own tokens: its row of y, its gradient, and the gate's. */
static void own_choice(struct work *w, uint64_t t, uint32_t j, double *gate_grad,
                       double *gate_grad_size)
{
    const struct choice *c = &w->p.choices[j];
    const double *row_grad = plain_grad_row(&w->p, j);
    bool alone = w->p.data->shape.combine == MOE_COMBINE_CHOICES;
    double *y = w->out->y + (alone ? t * w->p.k + j : t) * w->p.D;
    double *grad_x = w->out->grad_x + t * w->p.D;

    for (uint32_t i = 0; i < w->p.D; i++)
        w->row[i] = (double)w->weight[TENSOR_B2][(uint64_t)c->expert * w->p.D + i];
    hidden_forward(w, c->expert, 0, w->p.H);
    for (uint32_t h = 0; h < w->p.H; h++)
        plain_axpy(w->post[h], weight_row(w, TENSOR_W2, c->expert, h), w->row, w->p.D);
    add(alone ? 1 : c->gate, w->row, y, w->p.D);
    for (uint32_t i = 0; i < w->p.D && !alone; i++) {
        gate_grad[j] += w->row[i] * row_grad[i];
        gate_grad_size[j] += fabs(w->row[i] * row_grad[i]);
    }
    if (alone) /* of sum(gate * loss) */
        gate_grad[j] = gate_grad_size[j] = w->p.loss[j];
    if (w->p.data->shape.pass != MOE_TRAIN)
        return;
    hidden_backward(w, c->expert, c->gate, row_grad, 0, w->p.H);
    for (uint32_t h = 0; h < w->p.H; h++) {
        plain_axpy(w->hidden_grad[h], weight_row(w, TENSOR_W1, c->expert, h), grad_x, w->p.D);
        if (w->p.data->shape.activation == MOE_SWIGLU)
            plain_axpy(w->up_grad[h], weight_row(w, TENSOR_W3, c->expert, h), grad_x, w->p.D);
        if (w->hidden_slack[h] > 0)
            plain_add_sizes(w->hidden_slack[h], weight_row(w, TENSOR_W1, c->expert, h),
                            w->out->grad_x_slack + t * w->p.D, w->p.D);
    }
}

static void own_gate(struct work *w, uint64_t t, double *gate_grad, const double *gate_grad_size)
{
    double *grad_x = w->out->grad_x + t * w->p.D;
    double size = 0, *term = &w->out->grad_x_term;

    *term = fmax(*term, largest(grad_x, w->p.D)); /* what experts gave */
    for (uint32_t j = 0; j < w->p.k; j++) {
        gate_grad[j] = w->batch->zero && w->p.changed ? 0 : gate_grad[j];
        size += w->p.choices[j].gate * gate_grad_size[j];
    }
    plain_route_back(&w->p, gate_grad, size);
    for (uint32_t r = 0; r < w->p.rows; r++) {
        double grad = w->p.row_grad[r];

        const float *gate = w->p.gate + (uint64_t)r * w->p.D;

        plain_axpy(grad, gate, grad_x, w->p.D);
        add(grad, w->p.x, w->out->grad_gate + (uint64_t)r * w->p.D, w->p.D);
        for (uint32_t i = 0; i < w->p.D; i++) {
            w->out->grad_gate_size[(uint64_t)r * w->p.D + i] += fabs(w->p.row_size[r] * w->p.x[i]);
            /* D terms of random signs add up to a sqrt(D)-th of their sizes. */
            *term = fmax(*term, fabs(w->p.row_size[r] * (double)gate[i]) / sqrt(w->p.D));
        }
    }
}

static int own_tokens(struct work *w)
{
    /* k gradients, then the sizes of their terms */
    double *gate_grad = calloc(2 * (size_t)w->p.k, sizeof(*gate_grad));
    uint64_t tokens = w->batch->tokens[w->rank];
    int rc = gate_grad ? OK : fail(ERR_NOMEM, "gate gradients");

    if (w->p.data->balance)
        plain_count(&w->p, w->batch->expert + (uint64_t)w->rank * w->batch->each, tokens);

    for (uint64_t t = 0; t < tokens && !rc; t++) {
        rc = gate_token(w, w->rank, t);
        w->out->balance += rc || !w->p.data->balance ? 0 : plain_balance(&w->p);
        memset(gate_grad, 0, 2 * w->p.k * sizeof(*gate_grad));
        for (uint32_t j = 0; j < w->p.k && !rc; j++)
            if (w->p.choices[j].kept)
                own_choice(w, t, j, gate_grad, gate_grad + w->p.k);
        if (!rc && w->p.data->shape.pass == MOE_TRAIN)
            own_gate(w, t, gate_grad, gate_grad + w->p.k);
    }
    free(gate_grad);
    return rc;
}

/* Of unit `at` of this rank's slice, for the token at hand. */
static void add_slack(struct work *w, double slack, uint64_t at)
{
    double *row = w->out->grad_slack[TENSOR_W1] + at * w->p.D;

    for (uint32_t i = 0; i < w->p.D; i++)
        row[i] += slack * fabs(w->p.x[i]);
    w->out->grad_slack[TENSOR_B1][at] += slack;
}

/* One token of any rank, seen by the slice of an expert that this rank owns. */
static void own_slice(struct work *w, uint32_t j)
{
    const struct choice *c = &w->p.choices[j];
    const double *row = plain_grad_row(&w->p, j);
    const struct moe_shape *s = &w->p.data->shape;
    uint32_t slices = shape_slices(s), place = (uint32_t)w->rank % slices;
    uint32_t hidden = w->parts.hidden[w->rank], first = w->parts.first_unit[w->rank];
    uint32_t cut = shape_bias2_slice(s), experts = shape_local_experts(s);
    uint64_t local = c->expert - (uint64_t)w->rank / slices * experts;
    double **grad = w->out->grad, *term = w->out->grad_term, x = largest(w->p.x, w->p.D);

    hidden_forward(w, c->expert, first, hidden);
    hidden_backward(w, c->expert, c->gate, row, first, hidden);
    term[TENSOR_W1] = fmax(term[TENSOR_W1], x * largest(w->hidden_grad + first, hidden));
    term[TENSOR_W3] = fmax(term[TENSOR_W3], x * largest(w->up_grad + first, hidden));
    term[TENSOR_W2] =
        fmax(term[TENSOR_W2], c->gate * largest(w->post + first, hidden) * largest(row, w->p.D));
    for (uint32_t h = 0; h < hidden; h++) {
        uint64_t at =
            s->layout == MOE_LAYOUT_HIDDEN ? (uint64_t)h * experts + local : local * hidden + h;

        add(w->hidden_grad[first + h], w->p.x, grad[TENSOR_W1] + at * w->p.D, w->p.D);
        if (s->activation == MOE_SWIGLU)
            add(w->up_grad[first + h], w->p.x, grad[TENSOR_W3] + at * w->p.D, w->p.D);
        if (w->hidden_slack[first + h] > 0)
            add_slack(w, w->hidden_slack[first + h], at);
        grad[TENSOR_B1][at] += w->hidden_grad[first + h];
        w->out->grad_size[TENSOR_B1][at] += fabs(w->hidden_grad[first + h]);
        add(c->gate * w->post[first + h], row, grad[TENSOR_W2] + at * w->p.D, w->p.D);
    }
    for (uint32_t i = 0; i < cut && place * cut + i < w->p.D; i++) {
        grad[TENSOR_B2][local * cut + i] += c->gate * row[place * cut + i];
        w->out->grad_size[TENSOR_B2][local * cut + i] += fabs(c->gate * row[place * cut + i]);
    }
}

static int own_weights(struct work *w)
{
    const struct moe_shape *s = &w->p.data->shape;
    uint32_t experts = shape_local_experts(s);
    uint32_t first = (uint32_t)w->rank / shape_slices(s) * experts;

    for (int q = 0; q < w->batch->ranks; q++)
        for (uint64_t t = 0; t < w->batch->tokens[q]; t++) {
            TRY(gate_token(w, q, t));
            for (uint32_t j = 0; j < w->p.k; j++)
                if (w->p.choices[j].kept && w->p.choices[j].expert - first < experts)
                    own_slice(w, j);
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
    const struct data *data = w->p.data;
    int rc = OK;

    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        uint64_t rows = i == TENSOR_B2 ? 1 : w->p.H, columns = i == TENSOR_B1 ? 1 : w->p.D;

        if (!layer_slice(&data->shape, i))
            continue;
        w->weight[i] = zeros(w->p.E * rows * columns, sizeof(float), &rc);
        for (uint64_t e = 0; e < w->p.E && !rc; e++)
            for (uint64_t h = 0; h < rows; h++)
                for (uint64_t c = 0; c < columns; c++)
                    w->weight[i][(e * rows + h) * columns + c] = data_weight(data, i, e, h, c);
    }
    return rc;
}

static int work_open(struct work *w)
{
    const struct moe_shape *s = &w->p.data->shape;
    struct reference *out = w->out;
    uint64_t tokens = w->batch->tokens[w->rank];
    uint32_t hidden = w->parts.hidden[w->rank];
    int rc = load_weights(w);

    w->row = zeros(w->p.D, sizeof(double), &rc);
    w->pre = zeros(w->p.H, sizeof(double), &rc);
    w->up = zeros(w->p.H, sizeof(double), &rc);
    w->post = zeros(w->p.H, sizeof(double), &rc);
    w->hidden_grad = zeros(w->p.H, sizeof(double), &rc);
    w->up_grad = zeros(w->p.H, sizeof(double), &rc);
    w->hidden_slack = zeros(w->p.H, sizeof(double), &rc);
    w->filled = zeros(w->p.E, sizeof(*w->filled), &rc);
    w->kept = zeros((uint64_t)w->batch->ranks * w->batch->each, sizeof(*w->kept), &rc);
    out->y = zeros(tokens * shape_result_rows(s) * w->p.D, sizeof(double), &rc);
    out->grad_x = zeros(tokens * w->p.D, sizeof(double), &rc);
    out->grad_gate = zeros((uint64_t)w->p.rows * w->p.D, sizeof(double), &rc);
    out->grad_gate_size = zeros((uint64_t)w->p.rows * w->p.D, sizeof(double), &rc);
    out->grad_size[TENSOR_B1] = zeros(layer_units(s, hidden, TENSOR_B1), sizeof(double), &rc);
    out->grad_size[TENSOR_B2] = zeros(layer_units(s, hidden, TENSOR_B2), sizeof(double), &rc);
    for (enum tensor i = 0; i < TENSOR_COUNT; i++)
        out->grad[i] = zeros(layer_units(s, hidden, i), sizeof(double), &rc);
    if (s->activation == MOE_RELU) {
        out->grad_x_slack = zeros(tokens * w->p.D, sizeof(double), &rc);
        out->grad_slack[TENSOR_W1] = zeros(layer_units(s, hidden, TENSOR_W1), sizeof(double), &rc);
        out->grad_slack[TENSOR_B1] = zeros(layer_units(s, hidden, TENSOR_B1), sizeof(double), &rc);
    }
    return rc;
}

static void work_close(struct work *w)
{
    void *owned[] = { w->pre,     w->up,           w->post,   w->row, w->hidden_grad,
                      w->up_grad, w->hidden_slack, w->filled, w->kept };

    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        free(owned[i]);
    for (enum tensor i = 0; i < TENSOR_COUNT; i++)
        free(w->weight[i]);
    parts_close(&w->parts);
    plain_close(&w->p);
}

/* What the plain layer has added up over the rank's own tokens. */
static void take_cosine(struct work *w)
{
    struct plain_cosine *c = &w->p.cosine;
    struct reference *out = w->out;

    out->grad_cosine[COSINE_BIAS] = c->grad_bias;
    out->grad_cosine[COSINE_ROWS] = c->grad_experts;
    out->grad_cosine_size[COSINE_BIAS] = c->grad_bias_size;
    out->grad_cosine_size[COSINE_ROWS] = c->grad_experts_size;
    out->grad_scale = c->grad_scale;
    out->grad_scale_size = c->grad_scale_size;
    c->grad_bias = c->grad_experts = c->grad_bias_size = c->grad_experts_size = NULL;
}

int reference_open(const struct data *data, const struct batch_of_tokens *batch, int rank,
                   struct reference **out)
{
    struct reference *reference = calloc(1, sizeof(*reference));
    struct work w = { .batch = batch, .out = reference, .rank = rank };
    int rc;

    if (!reference)
        return fail(ERR_NOMEM, "a reference");
    TRY_OUT(plain_open(data, &w.p));
    TRY_OUT(parts_open(&data->shape, data->speeds, &w.parts));
    TRY_OUT(work_open(&w));
    TRY_OUT(give_slots(&w));
    TRY_OUT(own_tokens(&w));
    if (data->shape.pass == MOE_TRAIN)
        TRY_OUT(own_weights(&w));
    take_cosine(&w);
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
        free(reference->grad_slack[i]);
    }
    for (enum cosine i = 0; i < COSINE_COUNT; i++) {
        free(reference->grad_cosine[i]);
        free(reference->grad_cosine_size[i]);
    }
    free(reference->grad_gate_size);
    free(reference->y);
    free(reference->grad_x);
    free(reference->grad_x_slack);
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
    uint32_t slices = shape_slices(&shape), cut = (48 + slices - 1) / slices * slices;
    double expert = (double)shape.model_dim * shape.hidden_dim;

    shape.layers = at_most(shape.layers, 3); /* a first one, a last one, and one between */
    if (layer_count(&shape) * 12 * expert * shape.tokens * shape.top_k < products_most &&
        expert * shape.experts <= weights_most)
        return shape;
    shape.tokens = at_most(shape.tokens, 96);
    shape.model_dim = at_most(shape.model_dim, 48);
    if (shape.hidden_dim > cut) /* what is cut unevenly stays so */
        shape.hidden_dim = cut + shape.hidden_dim % slices;
    return shape;
}

bool reference_is_bearable(const struct moe_shape *s)
{
    static const double products_most = 2e10, weights_most = 1 << 28;
    double expert = (double)s->model_dim * s->hidden_dim;

    return layer_count(s) * 12 * expert * s->tokens * s->top_k < products_most &&
           expert * s->experts < weights_most;
}

uint64_t reference_capacity(const struct moe_shape *shape)
{
    return (uint64_t)shape->tokens * shape->top_k / shape->experts + 1;
}

size_t reference_bytes(const struct moe_shape *s)
{
    uint64_t rows = (uint64_t)s->tokens * s->model_dim,
             gate = (uint64_t)shape_gate_rows(s) * s->model_dim;
    uint64_t choices = (uint64_t)s->ranks * s->tokens * s->top_k;
    uint64_t results = rows * shape_result_rows(s), cosine = layer_cosine(s, COSINE_ROWS);
    uint64_t floats = gate, doubles = results + rows + 2 * gate + 3 * cosine;
    uint64_t compared = results > gate ? results : gate;
    bool bends = s->activation == MOE_RELU;

    if (layer_count(s) > 1) /* tokens and gradients that it is given: of all ranks, and to send */
        floats += 2 * ((uint64_t)s->ranks + 1) * rows;
    doubles += bends ? rows : 0;
    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        uint64_t slice = layer_slice(s, i);

        floats += slice * s->ranks;
        doubles += i == TENSOR_B1 || i == TENSOR_B2 ? 2 * slice : slice;
        doubles += bends && (i == TENSOR_W1 || i == TENSOR_B1) ? slice : 0;
        compared = slice > compared ? slice : compared;
    }
    return floats * sizeof(float) + doubles * sizeof(double) +
           choices * (2 * sizeof(int32_t) + sizeof(bool)) +
           (s->order == MOE_ORDER_PRIORITY ? 2 * (uint64_t)s->ranks * s->tokens * sizeof(uint32_t)
                                           : 0) +
           compared * (sizeof(float) + dtype_bytes(s->dtype));
}
