/* Pieces of a buffer that are worked on one after the other. */
#ifndef CHUNKS_H
#define CHUNKS_H

#include "arena.h"

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
