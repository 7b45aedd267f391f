/* The memory of chores, and tasks queued in the order in which a step of the layer would queue
 * them. */
#include "workbench.h"

#include "moelookup.h"
#include "random.h"
#include "status.h"

#include <stdlib.h>

enum { ROW_FLOATS = 1024, WEIGHT_FLOATS = PRODUCT_WIDTH * PRODUCT_WIDTH };
enum { ROWS_FLOATS = PRODUCT_ROWS * PRODUCT_WIDTH };

static const size_t floats = 2 * (size_t)WEIGHT_FLOATS + 3 * (size_t)ROWS_FLOATS;

static size_t whole_rows(size_t bytes)
{
    size_t row = ROW_FLOATS * sizeof(float);

    return (bytes + row - 1) / row * row;
}

size_t workbench_bytes(size_t bytes)
{
    return 2 * whole_rows(bytes) + floats * sizeof(float);
}

/* Writes all memory: what was never written is all one page of zeros, and products of zeros may be
 * faster than others. */
static int fill_memory(struct workbench *b)
{
    float *values = malloc(floats * sizeof(*values));
    int rc = values ? OK : fail(ERR_NOMEM, "%zu numbers to multiply", floats);

    for (size_t i = 0; values && i < floats; i++)
        values[i] = random_unit(1, i);
    if (!rc)
        rc = device_upload(b->engine->device, b->weights[0], values, floats * sizeof(*values));
    free(values);
    if (!rc)
        rc = launch_fill(b->engine->compute, &(struct fill){ b->from, 2 * b->bytes });
    return rc ? rc : stream_sync(b->engine->compute);
}

int workbench_open(struct engine *engine, size_t bytes, struct workbench *out)
{
    struct workbench b = { .engine = engine, .bytes = whole_rows(bytes) };
    float *next;
    int rc;

    TRY_OUT(engine_alloc(engine, workbench_bytes(bytes), &b.memory));
    b.from = b.memory;
    b.to = b.from + b.bytes;
    next = (float *)(void *)(b.to + b.bytes);
    for (int i = 0; i < 2; i++, next += WEIGHT_FLOATS)
        b.weights[i] = next;
    for (int i = 0; i < 3; i++, next += ROWS_FLOATS)
        b.rows[i] = next;
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

int workbench_add(struct workbench *b, const int *peers, int count, int copies, size_t bytes,
                  struct chore *chore)
{
    size_t at = 0;

    for (int copy = 0; copy < copies; copy++)
        for (int i = 0; i < count; i++, at += bytes) {
            if (at + bytes > b->bytes)
                return fail(ERR_ARGUMENT, "%d messages of %zu bytes do not fit", copies * count,
                            bytes);
            TRY(batch_add(&chore->batch, b->engine->wire, (struct peers){ peers[i], 1, 1 },
                          b->from + at, 0, b->to + at, bytes));
        }
    return wire_reserve(b->engine->wire, &chore->batch);
}

double workbench_product_ops(uint64_t rows)
{
    return 2 * 2 * (double)rows * WEIGHT_FLOATS;
}

double workbench_product_bytes(uint64_t rows)
{
    return 2 * sizeof(float) * (2 * (double)rows * PRODUCT_WIDTH + WEIGHT_FLOATS);
}

double workbench_copy_bytes(const struct workbench *b)
{
    return 2 * (double)b->bytes;
}

/* Queues half a product as padded.c does: weights by hidden unit, transposed on the way in. */
static int queue_half(struct workbench *b, uint64_t rows, bool out)
{
    struct gemm gemm = { .dtype = MOE_F32,
                         .transpose_b = !out,
                         .batch = 1,
                         .m = rows,
                         .n = PRODUCT_WIDTH,
                         .k = PRODUCT_WIDTH,
                         .a = b->rows[out],
                         .b = b->weights[out],
                         .c = b->rows[out + 1] };

    return launch_gemm(b->engine->compute, &gemm);
}

/* Queues a copy row by row, as encode and the stride copies move tokens. */
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

static int queue(struct workbench *b, const struct chore *chore)
{
    struct engine *engine = b->engine;

    for (int i = 0; i < chore->exchanges; i++)
        TRY(wire_exchange(engine->wire, engine->comm, &chore->batch));
    for (int i = 0; i < chore->products; i++) {
        TRY(queue_half(b, chore->rows, false));
        TRY(queue_half(b, chore->rows, true));
    }
    for (int i = 0; i < chore->halves; i++)
        TRY(queue_half(b, chore->rows, false));
    for (int i = 0; i < chore->copies; i++)
        TRY(queue_copy(b));
    for (int i = 0; i < chore->launches; i++)
        TRY(launch_fill(engine->compute, &(struct fill){ b->to, sizeof(float) }));
    /* So that a chore without work wakes the same threads as one with it. */
    TRY(event_record(b->comm, engine->comm));
    return event_record(b->compute, engine->compute);
}

int workbench_do(struct workbench *b, const struct chore *chore)
{
    int rc = queue(b, chore), synced = engine_sync(b->engine);

    return rc ? rc : synced;
}
