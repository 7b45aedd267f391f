/* Values of order one everywhere, so that an error in any tensor shows. */
#include "data.h"

#include "random.h"
#include "rows.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

enum stream_key { KEY_TOKEN = TENSOR_COUNT, KEY_GRAD, KEY_GATE };

static float stored(uint32_t dtype, float value)
{
    uint16_t half[2];

    if (dtype == MOE_F32)
        return value;
    row_store(dtype, half, 0, &value, 1);
    row_load(dtype, half, 0, &value, 1);
    return value;
}

static float draw(const struct data *data, int key, uint64_t group, uint64_t row, uint64_t column,
                  float scale)
{
    uint64_t where = random_bits(data->seed * 16 + (uint64_t)key, group << 32 | row);

    return scale * random_unit(where, column);
}

float data_token(const struct data *data, int rank, uint64_t token, uint64_t column)
{
    return stored(data->shape.dtype, draw(data, KEY_TOKEN, (uint64_t)rank, token, column, 1));
}

float data_grad(const struct data *data, int rank, uint64_t token, uint64_t column)
{
    return stored(data->shape.dtype, draw(data, KEY_GRAD, (uint64_t)rank, token, column, 1));
}

float data_gate(const struct data *data, uint64_t expert, uint64_t column)
{
    return draw(data, KEY_GATE, 0, expert, column, 4 / sqrtf((float)data->shape.model_dim));
}

float data_weight(const struct data *data, enum tensor tensor, uint64_t expert, uint64_t hidden,
                  uint64_t column)
{
    float scale = 0.5f; /* biases */

    if (tensor == TENSOR_W1 || tensor == TENSOR_W3)
        scale = 3 / sqrtf((float)data->shape.model_dim);
    else if (tensor == TENSOR_W2)
        scale = 3 / sqrtf((float)data->shape.hidden_dim);
    if (column >= data->shape.model_dim)
        return 0;
    return stored(data->shape.dtype, draw(data, (int)tensor, expert, hidden, column, scale));
}

static int upload(struct device *device, uint32_t dtype, float *values, uint64_t n, void *to)
{
    void *converted;
    int rc;

    if (dtype == MOE_F32)
        return device_upload(device, to, values, n * sizeof(*values));
    converted = malloc(n * dtype_bytes(dtype) + 1);
    if (!converted)
        return fail(ERR_NOMEM, "%llu elements", (unsigned long long)n);
    row_store(dtype, converted, 0, values, n);
    rc = device_upload(device, to, converted, n * dtype_bytes(dtype));
    free(converted);
    return rc;
}

/* One expert's slice: `hidden` rows from `first` on of `columns` columns from `left` on. */
static void fill_slice(const struct data *data, enum tensor tensor, uint64_t expert, uint64_t first,
                       uint64_t hidden, uint64_t left, uint64_t columns, float *to)
{
    for (uint64_t h = 0; h < hidden; h++)
        for (uint64_t i = 0; i < columns; i++)
            to[h * columns + i] = data_weight(data, tensor, expert, first + h, left + i);
}

static int fill_tensor(const struct data *data, const struct layer *layer, enum tensor tensor)
{
    const struct moe_shape *s = &layer->shape;
    uint32_t slices = shape_slices(s), experts = shape_local_experts(s);
    uint64_t first = (uint64_t)layer->rank / slices * experts,
             place = (uint64_t)layer->rank % slices;
    uint64_t elements = layer_slice(s, tensor), each = elements / experts;
    float *values = malloc(elements * sizeof(*values) + 1);
    int rc;

    if (!values)
        return fail(ERR_NOMEM, "%llu parameters", (unsigned long long)elements);
    for (uint64_t e = 0; e < experts; e++) {
        uint64_t hidden = s->hidden_dim / slices;

        if (tensor == TENSOR_B2)
            fill_slice(data, tensor, first + e, 0, 1, place * each, each, values + e * each);
        else
            fill_slice(data, tensor, first + e, place * hidden, hidden, 0,
                       tensor == TENSOR_B1 ? 1 : s->model_dim, values + e * each);
    }
    rc = upload(layer->device, s->dtype, values, elements, layer->slice[tensor]);
    free(values);
    return rc;
}

int data_fill_layer(const struct data *data, struct layer *layer)
{
    const struct moe_shape *s = &layer->shape;
    float *gate = malloc((size_t)s->experts * s->model_dim * sizeof(*gate));
    int rc;

    if (!gate)
        return fail(ERR_NOMEM, "the gate's parameters");
    for (uint64_t e = 0; e < s->experts; e++)
        for (uint64_t i = 0; i < s->model_dim; i++)
            gate[e * s->model_dim + i] = data_gate(data, e, i);
    rc = device_upload(layer->device, layer->gate, gate,
                       (size_t)s->experts * s->model_dim * sizeof(*gate));
    free(gate);
    for (enum tensor i = 0; i < TENSOR_COUNT && !rc; i++)
        if (layer->slice[i])
            rc = fill_tensor(data, layer, i);
    return rc;
}

int data_fill_rows(const struct data *data, const struct layer *layer,
                   float (*value)(const struct data *, int, uint64_t, uint64_t), void *to)
{
    uint64_t columns = layer->shape.model_dim, n = layer->tokens * columns;
    float *values = malloc(n * sizeof(*values) + 1);
    int rc;

    if (!values)
        return fail(ERR_NOMEM, "%llu inputs", (unsigned long long)n);
    for (uint64_t t = 0; t < layer->tokens; t++)
        for (uint64_t i = 0; i < columns; i++)
            values[t * columns + i] = value(data, layer->rank, t, i);
    rc = upload(layer->device, layer->shape.dtype, values, n, to);
    free(values);
    return rc;
}
