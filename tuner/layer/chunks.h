/* Pieces of a buffer that are worked on one after the other. */
#ifndef CHUNKS_H
#define CHUNKS_H

#include <stddef.h>
#include <stdint.h>

/* Chunk i lies at base + i * step; step 0: one buffer serves all chunks in turn. */
struct chunks {
    char *base;
    size_t step;
};

static inline void *chunk_at(struct chunks chunks, uint32_t i)
{
    return chunks.base ? chunks.base + i * chunks.step : NULL;
}

#endif
