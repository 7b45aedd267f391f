/* Makes random numbers for every tensor of a layer.  Each has a size that makes results of order
 * one, so that an error in any tensor shows. */
#include "data.h"

#include "random.h"
#include "rows.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

enum stream_key { KEY_TOKEN = TENSOR_COUNT, KEY_GRAD, KEY_GATE, KEY_BIAS, KEY_COSINE, KEY_LOSS };

static float rounded_to(uint32_t dtype, float value)
{
    uint16_t half[2];

    if (dtype == MOE_F32)
        return value;
    row_store(dtype, half, 0, &value, 1);
    row_load(dtype, half, 0, &value, 1);
    return value;
}

static uint64_t row_seed(const struct data *data, int key, uint64_t group, uint64_t row)
{
    return random_bits(data->seed * 16 + (uint64_t)key, group << 32 | row);
}

static float draw_number(const struct data *data, int key, uint64_t group, uint64_t row,
                         uint64_t column, float scale)
{
    return scale * random_unit(row_seed(data, key, group, row), column);
}

struct data data_of_layer(const struct data *data, uint32_t i)
{
    struct data copy = *data;

    copy.seed ^= i * UINT64_C(0x9e3779b97f4a7c15);
    return copy;
}

static float given_value(const struct data *data, const float *rows, int rank, uint64_t token,
                         uint64_t column)
{
    uint64_t before = (uint64_t)(rank - data->given->first) * data->given->each;

    return rows[(before + token) * data->shape.model_dim + column];
}

float data_token(const struct data *data, int rank, uint64_t token, uint64_t column)
{
    uint64_t experts = data->shape.experts;
    float value;

    if (data->given)
        return given_value(data, data->given->tokens, rank, token, column);
    value = draw_number(data, KEY_TOKEN, (uint64_t)rank, token, column, 1);
    /* With a load, column i E + e of a token determines whether it chooses expert e in step i: 1/2
     * to 1 if it does, else -1/2 to -1. */
    if (data->load && column < load_step_count(data->load) * experts) {
        bool chosen = load_chooses(data->load, (uint32_t)(column / experts), (uint32_t)rank, token,
                                   (uint32_t)(column % experts));

        value = (chosen ? 0.75f : -0.75f) + value / 4;
    }
    return rounded_to(data->shape.dtype, value);
}

float data_grad(const struct data *data, int rank, uint64_t row, uint64_t column)
{
    if (data->given)
        return given_value(data, data->given->grads, rank, row, column);
    return rounded_to(data->shape.dtype,
                      draw_number(data, KEY_GRAD, (uint64_t)rank, row, column, 1));
}

float data_loss(const struct data *data, int rank, uint64_t choice)
{
    return 1 + draw_number(data, KEY_LOSS, (uint64_t)rank, choice, 0, 1);
}

/* With a load, the gate's row of expert e has 4 in the expert's column of the current step, so its
 * logit is larger by 4 or more where a token chooses it.  The other columns add a number with a
 * standard deviation below 0.25. */
float data_gate(const struct data *data, uint64_t row, uint64_t column)
{
    float scale = (data->load ? 0.5f : 4) / sqrtf((float)data->shape.model_dim);
    uint64_t looks_at = row < data->shape.experts
                            ? (uint64_t)data->replayed * data->shape.experts
                            : 0; /* a cosine router has rows without an expert */

    if (data->load && column == row + looks_at)
        return 4;
    return rounded_to(data->shape.dtype, draw_number(data, KEY_GATE, 0, row, column, scale));
}

/* With a load, dimension e of the projection belongs to expert e. */
float data_cosine(const struct data *data, enum cosine i, uint64_t element)
{
    uint64_t p = data->shape.projection;
    float value = draw_number(data, KEY_COSINE, (uint64_t)i, element, 0, 1);

    switch (i) {
    case COSINE_BIAS: return value / 8;
    case COSINE_ROWS:
        return data->load ? (float)(element / p == element % p) + value / (64 * (float)p) : value;
    default: return 2 + value; /* cosines times 3 to 20 */
    }
}

/* A tenth of the usual difference between sigmoids, so that the bias sometimes decides. */
float data_bias(const struct data *data, uint64_t expert)
{
    return draw_number(data, KEY_BIAS, 0, expert, 0, 0.05f);
}

/* With several layers, each makes its input smaller and b2 adds to it, so that rows stay of order
 * one, even with the squares of SwiGLU. */
static float weight_scale(const struct data *data, enum tensor tensor)
{
    switch (tensor) {
    case TENSOR_W1:
    case TENSOR_W3: return 3 / sqrtf((float)data->shape.model_dim);
    case TENSOR_W2:
        return (layer_count(&data->shape) > 1 ? 1 : 3) / sqrtf((float)data->shape.hidden_dim);
    default: return 0.5f;
    }
}

float data_weight(const struct data *data, enum tensor tensor, uint64_t expert, uint64_t hidden,
                  uint64_t column)
{
    if (column >= data->shape.model_dim)
        return 0;
    return rounded_to(data->shape.dtype, draw_number(data, (int)tensor, expert, hidden, column,
                                                     weight_scale(data, tensor)));
}

void data_weight_row(const struct data *data, enum tensor tensor, uint64_t expert, uint64_t hidden,
                     float *to)
{
    uint64_t seed = row_seed(data, (int)tensor, expert, hidden), width = data->shape.model_dim;
    float scale = weight_scale(data, tensor);
    uint16_t half[ROW_LINE];

    for (uint64_t i = 0; i < width; i++)
        to[i] = scale * random_unit(seed, i);
    for (uint64_t begin = 0; begin < width && data->shape.dtype != MOE_F32; begin += ROW_LINE) {
        uint64_t n = width - begin < ROW_LINE ? width - begin : ROW_LINE;

        row_store(data->shape.dtype, half, 0, to + begin, n);
        row_load(data->shape.dtype, half, 0, to + begin, n);
    }
}

/* How to fill one tensor of a layer: the function that gives its elements, and its arguments. */
struct filling {
    const struct data *data;
    const struct layer *layer;
    enum tensor tensor;                                                /* of weight_at() */
    enum cosine cosine;                                                /* of cosine_at() */
    float (*input)(const struct data *, int rank, uint64_t, uint64_t); /* of input_at() */
    float (*value_at)(const struct filling *filling, uint64_t element);
};

/* Fills a tensor in pieces, because the host may lack memory for a second copy of a large one. */
static int fill_tensor(const struct filling *f, uint32_t dtype, uint64_t elements, void *to)
{
    enum { PIECE = 64 << 10 };
    float *values = malloc(PIECE * sizeof(*values)),
          *converted = malloc(PIECE * sizeof(*converted));
    int rc = values && converted ? OK : fail(ERR_NOMEM, "%d elements", PIECE);

    for (uint64_t begin = 0; begin < elements && !rc; begin += PIECE) {
        uint64_t n = elements - begin < PIECE ? elements - begin : PIECE;

        for (uint64_t i = 0; i < n; i++)
            values[i] = f->value_at(f, begin + i);
        row_store(dtype, converted, 0, values, n);
        rc = device_upload(f->layer->device, (char *)to + begin * dtype_bytes(dtype), converted,
                           n * dtype_bytes(dtype));
    }
    free(values);
    free(converted);
    return rc;
}

/* One weight of this rank's slice: some hidden units of each of its experts, or some columns of
 * b2. */
static float weight_at(const struct filling *f, uint64_t element)
{
    const struct moe_shape *s = &f->layer->shape;
    uint32_t slices = shape_slices(s), experts = shape_local_experts(s);
    uint64_t rank = (uint64_t)f->layer->rank, first = rank / slices * experts;
    uint64_t columns = f->tensor == TENSOR_B1 ? 1 : s->model_dim, row = element / columns;
    uint64_t bias_columns = shape_bias2_slice(s), hidden = f->layer->hidden, unit, expert;

    if (f->tensor == TENSOR_B2)
        return data_weight(f->data, f->tensor, first + element / bias_columns, 0,
                           rank % slices * bias_columns + element % bias_columns);
    unit = s->layout == MOE_LAYOUT_HIDDEN ? row / experts : row % hidden;
    expert = s->layout == MOE_LAYOUT_HIDDEN ? row % experts : row / hidden;
    return data_weight(f->data, f->tensor, first + expert,
                       f->layer->parts->first_unit[f->layer->rank] + unit, element % columns);
}

static float gate_at(const struct filling *f, uint64_t element)
{
    return data_gate(f->data, element / f->layer->shape.model_dim,
                     element % f->layer->shape.model_dim);
}

static float bias_at(const struct filling *f, uint64_t element)
{
    return data_bias(f->data, element);
}

static float cosine_at(const struct filling *f, uint64_t element)
{
    return data_cosine(f->data, f->cosine, element);
}

static float loss_at(const struct filling *f, uint64_t element)
{
    return data_loss(f->data, f->layer->rank, element);
}

static float input_at(const struct filling *f, uint64_t element)
{
    return f->input(f->data, f->layer->rank, element / f->layer->shape.model_dim,
                    element % f->layer->shape.model_dim);
}

int data_fill_gate(const struct data *data, const struct layer *layer)
{
    const struct moe_shape *s = &layer->shape;
    struct filling f = { .data = data, .layer = layer, .value_at = gate_at };

    return fill_tensor(&f, layer_gate_type(layer), (uint64_t)shape_gate_rows(s) * s->model_dim,
                       layer->gate);
}

int data_fill_layer(const struct data *data, struct layer *layers)
{
    const struct moe_shape *s = &layers->shape;

    for (uint32_t i = 0; i < layer_count(&data->shape); i++) {
        struct data layer_data = data_of_layer(data, i);
        struct layer *layer = &layers[i];
        struct filling f = { .data = &layer_data, .layer = layer, .value_at = bias_at };

        TRY(data_fill_gate(&layer_data, layer));
        if (layer->bias)
            TRY(fill_tensor(&f, MOE_F32, s->experts, layer->bias));
        f.value_at = cosine_at;
        for (f.cosine = 0; f.cosine < COSINE_COUNT; f.cosine++)
            if (layer->cosine[f.cosine])
                TRY(fill_tensor(&f, MOE_F32, layer_cosine(s, f.cosine), layer->cosine[f.cosine]));
        f.value_at = weight_at;
        for (f.tensor = 0; f.tensor < TENSOR_COUNT; f.tensor++)
            if (layer->slice[f.tensor])
                TRY(fill_tensor(&f, s->dtype, layer_units(s, layer->hidden, f.tensor),
                                layer->slice[f.tensor]));
    }
    return OK;
}

int data_fill_rows(const struct data *data, const struct layer *layer,
                   float (*value)(const struct data *, int, uint64_t, uint64_t), void *to)
{
    uint64_t rows_per_token = value == data_grad ? shape_result_rows(&layer->shape) : 1;
    struct filling f = { .data = data, .layer = layer, .input = value, .value_at = input_at };

    return fill_tensor(&f, layer->shape.dtype,
                       layer->tokens * rows_per_token * layer->shape.model_dim, to);
}

int data_fill_losses(const struct data *data, const struct layer *layer, float *to)
{
    struct filling f = { .data = data, .layer = layer, .value_at = loss_at };

    return fill_tensor(&f, MOE_F32, (uint64_t)layer->tokens * layer->shape.top_k, to);
}
