/* Loops over one row of elements, for the host's kernels: from and to f32, copies and weighted
 * sums.  `offset` and `n` count elements. */
#ifndef ROWS_H
#define ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ROW_LINE: columns of an f32 accumulator on the stack, which stays in the L1 cache. */
enum { ROW_LINE = 1024, ROW_BYPASS_BYTES = 8 << 20 };

/* Converts n elements of `type` to f32. */
void row_load(uint32_t type, const void *from, uint64_t offset, float *to, uint64_t n);

/* Converts n elements from f32 to `type`. */
void row_store(uint32_t type, void *to, uint64_t offset, const float *from, uint64_t n);

/* Adds scale * n elements of `type` to f32. */
void row_add(uint32_t type, const void *from, uint64_t offset, float scale, float *to, uint64_t n);

/* Rows to sum, each with its factor.  A value that borrows the rows. */
enum { ROW_TERMS = 32 };
struct row_terms {
    const void *rows[ROW_TERMS];
    float scale[ROW_TERMS];
    uint32_t count;
};

/* Writes to[i] = add[i] (NULL: 0) + sum over terms of scale * row[i], in one pass.  `next` are the
 * rows of the next call, which it prefetches, since the hardware cannot predict their addresses.
 * For bypass see row_copy(). */
void row_combine(uint32_t type, const struct row_terms *now, const struct row_terms *next,
                 const float *add, void *to, uint64_t width, bool bypass);

/* Copies a row of bytes.  With bypass, it writes around the cache, for results that are larger than
 * the cache; after the last row the caller must call row_fence(). */
void row_copy(void *to, const void *from, size_t bytes, bool bypass);

/* Makes rows that were written with bypass visible to other threads. */
void row_fence(void);

/* True for results so large that their beginning leaves the cache before anybody reads it. */
static inline bool row_bypass(uint64_t bytes_written)
{
    return bytes_written > (uint64_t)ROW_BYPASS_BYTES;
}

#endif
