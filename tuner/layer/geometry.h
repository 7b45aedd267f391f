/* Who computes which rows of which expert: numbers that follow from shape, plan, rank and capacity.
 * Pure functions; they allocate and exchange nothing. */
#ifndef GEOMETRY_H
#define GEOMETRY_H

#include "capacities.h"
#include "gather.h"
#include "plan.h"

/* The numbers of one rank.  A value; `before` is borrowed.  Peers are the ranks among which tokens
 * travel; a slice is a part of an expert's hidden units. */
struct geometry {
    uint64_t capacity;   /* c: most rows of an expert from one source; later rows are padding */
    uint64_t rows;       /* C: rows per expert at the source, a multiple of shares * chunks */
    uint64_t chunk_rows; /* rows per expert, source and chunk */
    /* Where experts have different capacities: rows of a chunk of all experts before each.  The
     * three numbers above are then those of the largest.  NULL: all experts are equal. */
    const uint64_t *before;
    uint64_t hidden;      /* hidden units of each local expert that this rank computes */
    uint32_t chunks;      /* d */
    uint32_t copies;      /* r: ranks that get the same row, one for each slice of an expert */
    uint32_t shares;      /* g: ranks that divide the rows of one slice among them */
    uint32_t peers;       /* number of peers: W; with a=rail m; 1 if tokens do not travel */
    int first_peer;       /* rank of the first peer */
    uint32_t self;        /* this rank's number among the peers */
    uint32_t sources;     /* ranks whose rows this rank sends: with a=rail one per node, else 1 */
    uint32_t local;       /* experts computed here: Eg, or all E if tokens do not travel */
    uint32_t first;       /* the first of them, among the experts that tokens travel to */
    uint32_t slice;       /* number of the slice that this rank computes; slice 0 adds b2 */
    struct group weights; /* ranks that gather W1, W3, b1 and W2 together */
    struct group bias2;   /* ranks that gather b2 together */
};

/* Computes the geometry of a rank.  The plan must be legal for the shape. */
struct geometry geometry_of(const struct moe_shape *shape, const struct moe_plan *plan, int rank,
                            uint64_t capacity);

/* Number of experts that tokens travel to: all, or with a=rail those of this node. */
uint32_t geometry_experts(const struct geometry *g, const struct moe_shape *shape);

/* The first of these experts. */
uint32_t geometry_first_expert(const struct geometry *g, const struct moe_shape *shape);

/* Sets `before` for different capacities; where capacities are equal, it changes nothing.  `before`
 * has room for geometry_experts() + 1 numbers, and must outlive the geometry. */
void geometry_divide(struct geometry *g, const struct moe_shape *shape,
                     const struct capacities *capacities, uint64_t *before);

/* Rows of all experts before this one, in one chunk from one source. */
static inline uint64_t geometry_before(const struct geometry *g, uint64_t expert)
{
    return g->before ? g->before[expert] : expert * g->chunk_rows;
}

/* Rows of this expert, in one chunk from one source. */
static inline uint64_t geometry_rows_of(const struct geometry *g, uint64_t expert)
{
    return g->before ? g->before[expert + 1] - g->before[expert] : g->chunk_rows;
}

/* Where chunk i of a share of an expert begins in the source's rows (E,C,D). */
static inline uint64_t geometry_home_row(const struct geometry *g, uint64_t expert, uint64_t share,
                                         uint32_t i)
{
    return geometry_before(g, expert) * g->shares * g->chunks +
           (share * g->chunks + i) * geometry_rows_of(g, expert);
}

/* Where a block begins among the packed rows of one chunk.  `place` is the order of an expert's
 * ranks: share t of slice p has place p * shares + t. */
static inline uint64_t geometry_sent_row(const struct geometry *g, uint64_t expert, uint64_t place)
{
    return geometry_before(g, expert) * g->copies * g->shares + place * geometry_rows_of(g, expert);
}

/* Rows of all local experts, in one chunk from one source. */
static inline uint64_t geometry_local_rows(const struct geometry *g)
{
    return geometry_before(g, (uint64_t)g->first + g->local) - geometry_before(g, g->first);
}

/* Rows of one expert in one chunk, from all peers together. */
static inline uint64_t geometry_chunk_rows(const struct geometry *g)
{
    return g->peers * g->chunk_rows;
}

/* Rows of all local experts in one chunk, from all peers together. */
static inline uint64_t geometry_seen_rows(const struct geometry *g)
{
    return g->peers * geometry_local_rows(g);
}

/* Rows of the local experts before this one in one chunk, from all peers together. */
static inline uint64_t geometry_seen_before(const struct geometry *g, uint64_t local)
{
    return g->peers * (geometry_before(g, g->first + local) - geometry_before(g, g->first));
}

#endif
