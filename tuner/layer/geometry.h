/* Sizes that follow from shape, plan, rank and capacity: who computes which rows of which expert.
 * Pure: no memory, no ranks. */
#ifndef GEOMETRY_H
#define GEOMETRY_H

#include "capacities.h"
#include "gather.h"
#include "plan.h"

struct geometry {
    uint64_t capacity;   /* c: rows of a source from here on are padding */
    uint64_t rows;       /* C: rows per expert before they leave, a multiple of shares * chunks */
    uint64_t chunk_rows; /* per expert, sending rank and chunk */
    const uint64_t *before; /* of experts that differ, whose largest the three above are: rows of a
                             * chunk of the experts before each that tokens travel to; NULL: they
                             * do not differ */
    uint64_t hidden;        /* hidden units of each local expert that are computed here */
    uint32_t chunks;        /* d */
    uint32_t copies;        /* ranks that get the same row: model slices of an expert */
    uint32_t shares;        /* ranks that share the rows of one slice */
    uint32_t peers;       /* ranks among which tokens travel: W; of a node: m; when they stay: 1 */
    int first_peer;       /* the first of them */
    uint32_t self;        /* which of them this rank is */
    uint32_t sources;     /* whose rows a rank sends as its own: of each node one (a=rail), or 1 */
    uint32_t local;       /* experts computed here: Eg, or all E when tokens stay */
    uint32_t first;       /* the first of them, of those that tokens travel to */
    uint32_t slice;       /* which model slice is computed here; slice 0 adds b2 */
    struct group weights; /* ranks that gather W1, W3, b1 and W2 together */
    struct group bias2;   /* ranks that gather b2 together */
};

/* The plan must be legal for the shape. */
struct geometry geometry_of(const struct moe_shape *shape, const struct moe_plan *plan, int rank,
                            uint64_t capacity);

/* How many experts tokens travel to: all, or with a=rail those of this node; and the first. */
uint32_t geometry_experts(const struct geometry *g, const struct moe_shape *shape);
uint32_t geometry_first_expert(const struct geometry *g, const struct moe_shape *shape);

/* Gives each expert its own rows.  `before` has room for the experts that tokens travel to and one
 * more, and outlives the geometry.  Nothing changes where capacities are equal. */
void geometry_divide(struct geometry *g, const struct moe_shape *shape,
                     const struct capacities *capacities, uint64_t *before);

/* Of one chunk from one source: rows of the experts before this one, and its own. */
static inline uint64_t geometry_before(const struct geometry *g, uint64_t expert)
{
    return g->before ? g->before[expert] : expert * g->chunk_rows;
}

static inline uint64_t geometry_rows_of(const struct geometry *g, uint64_t expert)
{
    return g->before ? g->before[expert + 1] - g->before[expert] : g->chunk_rows;
}

/* Where a block lies before it leaves, chunk i of a share of an expert; and among those that leave
 * in one chunk, in the order of an expert's ranks: share t of slice p is place p * shares + t. */
static inline uint64_t geometry_home_row(const struct geometry *g, uint64_t expert, uint64_t share,
                                         uint32_t i)
{
    return geometry_before(g, expert) * g->shares * g->chunks +
           (share * g->chunks + i) * geometry_rows_of(g, expert);
}

static inline uint64_t geometry_sent_row(const struct geometry *g, uint64_t expert, uint64_t place)
{
    return geometry_before(g, expert) * g->copies * g->shares + place * geometry_rows_of(g, expert);
}

static inline uint64_t geometry_local_rows(const struct geometry *g)
{
    return geometry_before(g, (uint64_t)g->first + g->local) - geometry_before(g, g->first);
}

/* Rows of one chunk as experts see them, from all peers: of one expert, of all, of those before. */
static inline uint64_t geometry_chunk_rows(const struct geometry *g)
{
    return g->peers * g->chunk_rows;
}

static inline uint64_t geometry_seen_rows(const struct geometry *g)
{
    return g->peers * geometry_local_rows(g);
}

static inline uint64_t geometry_seen_before(const struct geometry *g, uint64_t local)
{
    return g->peers * (geometry_before(g, g->first + local) - geometry_before(g, g->first));
}

#endif
