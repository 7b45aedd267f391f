/* What tests of single kernels share: random values in memory of the subject, as it was before a
 * kernel and is after it, and what is compared. */
#ifndef CUDA_CASES_H
#define CUDA_CASES_H

#include "check.h"
#include "cuda_subject.h"
#include "moelookup.h"
#include "random.h"
#include "rows.h"
#include "shape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 16, GUARD_BYTES = 64 };

static uint64_t seed, drawn;
static double rounds = 1; /* a GPU has time for more, others for a part */
static bool all_wide;     /* sizes and addresses of this case are for accesses of 16 bytes */
static struct device *device;
static struct stream *stream;

static float draw(void)
{
    return random_unit(seed, drawn++);
}

static uint32_t below(uint32_t n)
{
    return random_below(seed, drawn++, n);
}

/* ---- Memory on the subject, as it was before a kernel and is after it */

struct buffer {
    char *base, *at; /* on the subject; `at` lies a little off now and then */
    size_t bytes, front;
    char *before, *after; /* with the guard in front */
};

static struct buffer buffers[BUFFERS];
static int buffer_count;

static size_t some_offset(size_t element)
{
    return all_wide || below(4) ? 0 : element * (1 + below(7));
}

/* A copy of `from`, or poison (NaN in every type) where it is NULL.  The subject's memory ends
 * where the buffer ends, so that a checker of memory sees what goes beyond. */
static void *on_subject(const void *from, size_t bytes, size_t element)
{
    struct buffer *b = &buffers[buffer_count++];
    void *base = NULL;

    b->front = GUARD_BYTES + some_offset(element);
    b->bytes = b->front + bytes;
    CHECK(!device_alloc(device, b->bytes, &base));
    b->base = base;
    b->at = b->base + b->front;
    b->before = malloc(b->bytes);
    b->after = malloc(b->bytes);
    memset(b->before, 0xff, b->bytes);
    if (from)
        memcpy(b->before + b->front, from, bytes);
    return b->at;
}

static const struct buffer *buffer_at(const void *at)
{
    int i = 0;

    while (buffers[i].at != at)
        i++;
    return &buffers[i];
}

/* What lies there after the kernel. */
static const void *after(const void *at)
{
    const struct buffer *b = buffer_at(at);

    return b->after + b->front;
}

static void free_buffers(void)
{
    for (int i = 0; i < buffer_count; i++) {
        device_release(device, buffers[i].base);
        free(buffers[i].before);
        free(buffers[i].after);
    }
    buffer_count = 0;
    all_wide = below(2);
}

static void run_once(enum kernel kernel, const void *args, size_t bytes)
{
    for (int i = 0; i < buffer_count; i++)
        CHECK(!device_upload(device, buffers[i].base, buffers[i].before, buffers[i].bytes));
    CHECK(!stream_launch(stream, kernel, args, bytes));
    CHECK(!stream_sync(stream));
}

#ifdef RUN_ONCE /* the subject knows no chance, and has little time */
enum { RUNS = 1 };
#else
enum { RUNS = 2 };
#endif

static void run_twice(enum kernel kernel, const void *args, size_t bytes)
{
    run_once(kernel, args, bytes);
    for (int i = 0; i < buffer_count; i++) {
        CHECK(!device_download(device, buffers[i].after, buffers[i].base, buffers[i].bytes));
        CHECK(!memcmp(buffers[i].after, buffers[i].before, buffers[i].front));
    }
    if (RUNS == 1)
        return;
    run_once(kernel, args, bytes);
    for (int i = 0; i < buffer_count; i++) {
        char *again = malloc(buffers[i].bytes);

        CHECK(!device_download(device, again, buffers[i].base, buffers[i].bytes));
        CHECK(!memcmp(again, buffers[i].after, buffers[i].bytes));
        free(again);
    }
}
#define RUN(name, args) run_twice(KERNEL_##name, args, sizeof(*(args)))

/* ---- Values */

static float *floats(uint64_t n)
{
    float *f = malloc((n + 1) * sizeof(*f));

    for (uint64_t i = 0; i < n; i++)
        f[i] = draw();
    return f;
}

/* n random values of a type on the subject, and the same values in f32. */
static void *typed(uint32_t dtype, uint64_t n, float scale, float **values)
{
    void *memory = malloc((n + 1) * 4), *at;

    *values = floats(n);
    for (uint64_t i = 0; i < n; i++)
        (*values)[i] *= scale;
    row_store(dtype, memory, 0, *values, n);
    row_load(dtype, memory, 0, *values, n);
    at = on_subject(memory, n * dtype_bytes(dtype), dtype_bytes(dtype));
    free(memory);
    return at;
}

static void *room(uint32_t dtype, uint64_t n)
{
    return on_subject(NULL, n * dtype_bytes(dtype), dtype_bytes(dtype));
}

/* The distance between neighbours of a type near x. */
static double ulp(uint32_t dtype, double x)
{
    int exponent, digits = dtype == MOE_F32 ? 24 : (dtype == MOE_F16 ? 11 : 8);

    frexp(fabs(x), &exponent);
    if (dtype == MOE_F16 && exponent < -13)
        exponent = -13;
    return ldexp(1, exponent - digits);
}

/* n values there against f32 ones: rounded to the type once, and `terms` f32 sums of values up to
 * `size` that may be made in another order. */
static void check_values(uint32_t dtype, const void *at, const float *want, uint64_t n,
                         double terms, double size)
{
    float *got = malloc((n + 1) * sizeof(*got));
    uint64_t wrong = 0;

    row_load(dtype, after(at), 0, got, n);
    for (uint64_t i = 0; i < n; i++) {
        double allowed = terms * 0x1p-23 * (size + fabs((double)want[i])) +
                         (dtype == MOE_F32 ? 0 : 0.5001 * ulp(dtype, (double)want[i]));

        if (!(fabs((double)got[i] - (double)want[i]) <= allowed) && !wrong++)
            printf("    %s [%llu of %llu]: %.9g, wanted %.9g\n", dtype_words[dtype],
                   (unsigned long long)i, (unsigned long long)n, (double)got[i], (double)want[i]);
    }
    CHECK(wrong == 0);
    free(got);
}

#endif
