/* Attention's operations as products of one size. */
#include "attention.h"

#include "phases.h"
#include "random.h"
#include "rows.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

/* Large enough for a device to run at its speed, small enough for its memory. */
enum { SIDE_MOST = 1024 };

void attention_layout(struct attention *at, double gflop, uint32_t compute_type,
                      struct arena *arena)
{
    double operations = gflop * 1e9, side = ceil(cbrt(operations / 2));
    uint64_t elements;
    size_t width = dtype_bytes(compute_type);

    *at = (struct attention){ .operations = operations, .dtype = compute_type };
    if (!(operations > 0))
        return;
    at->side = side < SIDE_MOST ? (uint64_t)side : SIDE_MOST;
    elements = at->side * at->side;
    at->a = arena_take(arena, elements, width);
    at->b = arena_take(arena, elements, width);
    at->c = arena_take(arena, elements, width);
}

int attention_fill(const struct attention *at, struct device *device)
{
    uint64_t elements = at->side * at->side;
    float *values = malloc(elements * sizeof(*values) + 1);
    void *stored = malloc(elements * dtype_bytes(at->dtype) + 1);
    int rc = values && stored ? OK : fail(ERR_NOMEM, "attention's factors");

    for (uint64_t i = 0; i < elements && !rc; i++)
        values[i] = random_unit(1, i);
    if (!rc)
        row_store(at->dtype, stored, 0, values, elements);
    if (!rc && elements)
        rc = device_upload(device, at->a, stored, elements * dtype_bytes(at->dtype));
    if (!rc && elements)
        rc = device_upload(device, at->b, stored, elements * dtype_bytes(at->dtype));
    free(values);
    free(stored);
    return rc;
}

int attention_run(const struct attention *at, struct stream *stream, bool backward)
{
    uint64_t n = at->side, rows, now;
    int rc = OK;

    if (!n)
        return OK;
    rows = (uint64_t)ceil((backward ? 2 : 1) * at->operations / (2.0 * (double)n * (double)n));
    stream->purpose = PHASE_OTHER;
    for (; rows && !rc; rows -= now) {
        now = rows < n ? rows : n;
        rc = launch_gemm(stream, &(struct gemm){ .dtype = at->dtype,
                                                 .batch = 1,
                                                 .m = now,
                                                 .n = n,
                                                 .k = n,
                                                 .a = at->a,
                                                 .b = at->b,
                                                 .c = at->c });
    }
    stream->purpose = 0;
    return rc;
}
