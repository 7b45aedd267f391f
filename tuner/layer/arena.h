/* Many buffers in one allocation.  The same layout code runs twice: first without memory, to find
 * how many bytes it needs, then with memory, to place the buffers. */
#ifndef ARENA_H
#define ARENA_H

#include <stddef.h>
#include <stdint.h>

/* The state of one run.  A value; `base` is borrowed. */
struct arena {
    char *base;        /* NULL: only the size is wanted */
    size_t used_bytes; /* SIZE_MAX: it overflowed */
};

/* Gives count * width bytes at a 256-byte boundary; NULL without memory.  A buffer of 0 bytes also
 * gets its own address, because code compares buffers by address. */
static inline void *arena_alloc(struct arena *arena, uint64_t count, size_t width)
{
    size_t bytes, begin = arena->used_bytes, end;

    if (__builtin_mul_overflow(count, width, &bytes) ||
        __builtin_add_overflow(bytes, bytes ? (size_t)255 : (size_t)256, &bytes) ||
        __builtin_add_overflow(begin, bytes & ~(size_t)255, &end)) {
        arena->used_bytes = SIZE_MAX;
        return NULL;
    }
    arena->used_bytes = end;
    return arena->base ? arena->base + begin : NULL;
}

/* a * b; UINT64_MAX where it overflows.  For counts of arena_alloc(). */
static inline uint64_t size_product(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Buffers of chunks: chunk i lies at base + i * step.  step 0: all chunks use one buffer in turn.
 */
struct chunks {
    char *base;
    size_t step;
};

/* Gives buffers for `count` chunks of so many elements. */
static inline struct chunks chunks_alloc(struct arena *arena, uint64_t elements, size_t width,
                                         uint32_t count)
{
    char *base = arena_alloc(arena, size_product(elements, count), width);

    return (struct chunks){ base, count > 1 ? (size_t)size_product(elements, width) : 0 };
}

/* The buffer of chunk i; NULL without memory. */
static inline void *chunk_at(struct chunks chunks, uint32_t i)
{
    return chunks.base ? chunks.base + i * chunks.step : NULL;
}

#endif
