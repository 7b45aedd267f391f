/* Allocates the memory of chores, and queues their tasks in the order in which a step of a layer
 * would queue them. */
#include "workbench.h"

#include "moelookup.h"
#include "random.h"
#include "rows.h"
#include "shape.h"
#include "status.h"

#include <stdlib.h>

enum { ROW_FLOATS = 1024 };

static size_t weight_elements(const struct products *p)
{
    return (size_t)p->model_dim * p->hidden_dim;
}

static size_t product_elements(const struct products *p)
{
    size_t rows = p->rows[PROBE_PRODUCTS - 1];

    return 2 * weight_elements(p) + rows * (2 * (size_t)p->model_dim + p->hidden_dim);
}

static size_t round_to_rows(size_t bytes)
{
    size_t row = ROW_FLOATS * sizeof(float);

    return (bytes + row - 1) / row * row;
}

size_t workbench_bytes(size_t bytes, const struct products *products)
{
    return 2 * round_to_rows(bytes) + product_elements(products) * dtype_bytes(products->dtype);
}

/* Writes all memory: memory that was never written is one shared page of zeros, and products of
 * zeros may be faster than others. */
static int fill_memory(struct workbench *b)
{
    enum { BLOCK = (1 << 20) - 3 }; /* elements, repeated over the memory */
    const struct products *p = &b->products;
    size_t width = dtype_bytes(p->dtype), bytes = product_elements(p) * width;
    char *products = b->weights[0], *values = malloc(BLOCK * width);
    int rc = values ? OK : fail(ERR_NOMEM, "%d numbers to multiply", BLOCK);

    for (size_t i = 0; values && i < BLOCK; i++) {
        float value = random_unit(1, i);

        row_store(p->dtype, values, i, &value, 1);
    }
    for (size_t offset = 0; offset < bytes && !rc; offset += BLOCK * width)
        rc = device_upload(b->engine->device, products + offset, values,
                           bytes - offset < BLOCK * width ? bytes - offset : BLOCK * width);
    free(values);
    if (!rc)
        rc = launch_fill(b->engine->compute, &(struct fill){ b->from, 2 * b->bytes });
    return rc ? rc : stream_sync(b->engine->compute);
}

int workbench_open(struct engine *engine, size_t bytes, const struct products *products,
                   struct workbench *out)
{
    struct workbench b = { .engine = engine, .bytes = round_to_rows(bytes), .products = *products };
    size_t width = dtype_bytes(products->dtype), most_rows = products->rows[PROBE_PRODUCTS - 1];
    char *free_place;
    int rc;

    TRY_OUT(engine_alloc(engine, workbench_bytes(bytes, products), &b.memory));
    b.from = b.memory;
    b.to = b.from + b.bytes;
    free_place = b.to + b.bytes;
    for (int i = 0; i < 2; i++) {
        b.weights[i] = free_place;
        free_place += weight_elements(products) * width;
    }
    for (int i = 0; i < 3; i++) {
        b.rows[i] = free_place;
        free_place += most_rows * (i == 1 ? products->hidden_dim : products->model_dim) * width;
    }
    TRY_OUT(event_open(engine->device, &b.comm));
    TRY_OUT(event_open(engine->device, &b.compute));
    TRY_OUT(fill_memory(&b));
    *out = b;
    return OK;
out:
    workbench_close(&b);
    return rc;
}

void workbench_close(struct workbench *b)
{
    if (!b->engine)
        return;
    event_close(b->compute);
    event_close(b->comm);
    engine_release(b->engine, b->memory);
    *b = (struct workbench){ 0 };
}

int workbench_add_messages(struct workbench *b, const int *peers, int count, int copies,
                           size_t bytes, struct chore *chore)
{
    size_t offset = 0;

    for (int copy = 0; copy < copies; copy++)
        for (int i = 0; i < count; i++, offset += bytes) {
            if (offset + bytes > b->bytes)
                return fail(ERR_ARGUMENT, "%d messages of %zu bytes do not fit", copies * count,
                            bytes);
            TRY(batch_add(&chore->batch, b->engine->wire, (struct peers){ peers[i], 1, 1 },
                          b->from + offset, 0, b->to + offset, bytes));
        }
    return wire_reserve(b->engine->wire, &chore->batch);
}

double products_ops(const struct products *p, uint64_t rows)
{
    return 2 * 2 * (double)rows * (double)weight_elements(p);
}

double products_bytes(const struct products *p, uint64_t rows)
{
    double ends = (double)p->model_dim + p->hidden_dim;

    return 2 * (double)dtype_bytes(p->dtype) * ((double)rows * ends + (double)weight_elements(p));
}

double workbench_copy_bytes(const struct workbench *b)
{
    return 2 * (double)b->bytes;
}

/* The halves of a product: from the model dimension to hidden units, and back.  Half i reads
 * rows[i] and writes rows[i + 1]. */
enum product_half { TO_HIDDEN, FROM_HIDDEN };

/* Queues half a product as padded.c does: weights are stored by hidden unit, so TO_HIDDEN
 * transposes them. */
static int queue_half(struct workbench *b, uint64_t rows, enum product_half half)
{
    const struct products *p = &b->products;
    struct gemm gemm = { .dtype = p->dtype,
                         .transpose_b = half == TO_HIDDEN,
                         .batch = 1,
                         .m = rows,
                         .n = half == FROM_HIDDEN ? p->model_dim : p->hidden_dim,
                         .k = half == FROM_HIDDEN ? p->hidden_dim : p->model_dim,
                         .a = b->rows[half],
                         .b = b->weights[half],
                         .c = b->rows[half + 1] };

    return launch_gemm(b->engine->compute, &gemm);
}

/* Queues a copy row by row, as encode and the strided copies of a layer move tokens. */
static int queue_copy(struct workbench *b)
{
    return launch_move(b->engine->compute,
                       &(struct move){ .from_type = MOE_F32,
                                       .to_type = MOE_F32,
                                       .block = ROW_FLOATS,
                                       .dims = { b->bytes / (ROW_FLOATS * sizeof(float)), 1, 1 },
                                       .from_stride = { 1 },
                                       .to_stride = { 1 },
                                       .terms = 1,
                                       .from = b->from,
                                       .to = b->to });
}

static int queue_chore(struct workbench *b, const struct chore *chore)
{
    struct engine *engine = b->engine;

    for (int i = 0; i < chore->exchanges; i++)
        TRY(wire_exchange(engine->wire, engine->comm, &chore->batch));
    for (int i = 0; i < chore->products; i++) {
        TRY(queue_half(b, chore->rows, TO_HIDDEN));
        TRY(queue_half(b, chore->rows, FROM_HIDDEN));
    }
    for (int i = 0; i < chore->halves; i++)
        TRY(queue_half(b, chore->rows, TO_HIDDEN));
    for (int i = 0; i < chore->copies; i++)
        TRY(queue_copy(b));
    for (int i = 0; i < chore->launches; i++)
        TRY(launch_fill(engine->compute, &(struct fill){ b->to, sizeof(float) }));
    /* Events make a chore without work wake the same threads as one with work. */
    TRY(event_record(b->comm, engine->comm));
    return event_record(b->compute, engine->compute);
}

int workbench_run(struct workbench *b, const struct chore *chore)
{
    int rc = queue_chore(b, chore), synced = engine_sync(b->engine);

    return rc ? rc : synced;
}
