/* One allocation, cut twice: the first cut, from no memory, tells how much is needed; and buffers
 * whose pieces are worked on one after the other. */
#ifndef ARENA_H
#define ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena {
    char *base;        /* NULL while measuring */
    size_t used_bytes; /* SIZE_MAX: more than an address can count */
};

/* count * width bytes at a 256-byte boundary; NULL while measuring.  No bytes get an address of
 * their own too: buffers are told apart by where they lie. */
static inline void *arena_take(struct arena *arena, uint64_t count, size_t width)
{
    size_t bytes, at = arena->used_bytes, end;

    if (__builtin_mul_overflow(count, width, &bytes) ||
        __builtin_add_overflow(bytes, bytes ? (size_t)255 : (size_t)256, &bytes) ||
        __builtin_add_overflow(at, bytes & ~(size_t)255, &end)) {
        arena->used_bytes = SIZE_MAX;
        return NULL;
    }
    arena->used_bytes = end;
    return arena->base ? arena->base + at : NULL;
}

/* A product of sizes, SIZE_MAX when it does not fit: for arena_take's count. */
static inline uint64_t size_product(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Chunk i lies at base + i * step; step 0: one buffer serves all chunks in turn. */
struct chunks {
    char *base;
    size_t step;
};

/* Room for `count` of them. */
static inline struct chunks chunks_take(struct arena *arena, uint64_t elements, size_t width,
                                        uint32_t count)
{
    char *base = arena_take(arena, size_product(elements, count), width);

    return (struct chunks){ base, count > 1 ? (size_t)size_product(elements, width) : 0 };
}

static inline void *chunk_at(struct chunks chunks, uint32_t i)
{
    return chunks.base ? chunks.base + i * chunks.step : NULL;
}

#endif
