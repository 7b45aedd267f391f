/* Sizes that follow from shape, plan, rank and capacity: who computes which rows of which expert.
 * Pure: no memory, no ranks. */
#ifndef GEOMETRY_H
#define GEOMETRY_H

#include "gather.h"
#include "plan.h"

struct geometry {
    uint64_t capacity;    /* c: rows from here on are padding */
    uint64_t rows;        /* C: rows per expert before they leave, a multiple of shares * chunks */
    uint64_t chunk_rows;  /* per expert, source rank and chunk */
    uint64_t hidden;      /* hidden units of each local expert that are computed here */
    uint32_t chunks;      /* d */
    uint32_t copies;      /* ranks that get the same row: model slices of an expert */
    uint32_t shares;      /* ranks that share the rows of one slice */
    uint32_t peers;       /* ranks among which tokens travel: W, or 1 when they stay (r = 0) */
    uint32_t local;       /* experts computed here: Eg, or all E when tokens stay */
    uint32_t slice;       /* which model slice is computed here; slice 0 adds b2 */
    struct group weights; /* ranks that gather W1, W3, b1 and W2 together */
    struct group bias2;   /* ranks that gather b2 together */
};

/* The plan must be legal for the shape. */
struct geometry geometry_of(const struct moe_shape *shape, const struct moe_plan *plan, int rank,
                            uint64_t capacity);

/* Rows of one chunk as experts see them: per local expert, from all peers. */
static inline uint64_t geometry_chunk_rows(const struct geometry *g)
{
    return g->peers * g->chunk_rows;
}

#endif
