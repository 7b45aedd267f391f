/* A row of elements in a storage type, to and from f32.  `at` and `n` count elements. */
#ifndef ROWS_H
#define ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Columns handled at a time by those who need f32 accumulators: they stay on the stack, in L1. */
enum { ROW_LINE = 1024, ROW_BYPASS_BYTES = 8 << 20 };

void row_load(uint32_t type, const void *from, uint64_t at, float *to, uint64_t n);
void row_store(uint32_t type, void *to, uint64_t at, const float *from, uint64_t n);
void row_add(uint32_t type, const void *from, uint64_t at, float scale, float *to, uint64_t n);

/* Rows that are summed, each with its factor. */
enum { ROW_TERMS = 32 };
struct row_terms {
    const void *rows[ROW_TERMS];
    float scale[ROW_TERMS];
    uint32_t count;
};

/* to[i] = add[i] (NULL: 0) + sum over terms of scale * row[i], in one pass.  `next`: the rows that
 * will be wanted after these; the hardware cannot guess where they lie.  bypass as below. */
void row_combine(uint32_t type, const struct row_terms *now, const struct row_terms *next,
                 const float *add, void *to, uint64_t width, bool bypass);

/* A row of bytes.  bypass: write around the cache, for results larger than it; the caller then ends
 * with row_fence(). */
void row_copy(void *to, const void *from, size_t bytes, bool bypass);
void row_fence(void);

/* True for results so large that what is written first has left the cache before it is read. */
static inline bool row_bypass(uint64_t bytes_written)
{
    return bytes_written > (uint64_t)ROW_BYPASS_BYTES;
}

#endif
