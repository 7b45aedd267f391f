/* How many tokens and hidden units each rank has (its part); and exchanges of data that is cut into
 * such parts.  Every rank computes the same parts for all ranks. */
#ifndef PARTS_H
#define PARTS_H

#include "moelookup.h"

#include <stdbool.h>
#include <stddef.h>

struct batch;

/* The parts of all ranks; parts_close() frees the arrays. */
struct parts {
    uint32_t ranks;
    uint32_t *tokens;              /* (ranks) */
    uint32_t *first_unit, *hidden; /* (ranks) hidden units of its experts that a rank has */
};

/* Computes the parts.  Without speeds (NULL) they are equal: T tokens each, and in
 * MOE_LAYOUT_HIDDEN an even cut of H.  With MOE_SHARES_SPEED tokens and hidden units follow
 * `speeds`, one per rank; with MOE_SHARES_TOKENS or MOE_SHARES_HIDDEN only one of them does. */
int parts_open(const struct moe_shape *shape, const double *speeds, struct parts *out);
void parts_close(struct parts *parts); /* a zeroed one is fine */

/* True where all ranks have the same number of hidden units. */
bool parts_hidden_equal(const struct parts *parts);

/* Where the i-th of n pieces of `total` begins; for i = n, the end. */
static inline uint32_t part_cut(uint32_t total, uint32_t i, uint32_t n)
{
    return (uint32_t)((uint64_t)total * i / n);
}

/* The size of the i-th of n pieces of `total`. */
static inline uint32_t part_piece(uint32_t total, uint32_t i, uint32_t n)
{
    return part_cut(total, i + 1, n) - part_cut(total, i, n);
}

/* The sum over all ranks of the i-th of n pieces of their units or tokens. */
uint64_t parts_sum(const uint32_t *of_ranks, uint32_t ranks, uint32_t i, uint32_t n);

/* An exchange of one piece of a tensor that is cut into the parts of all ranks.  A value that
 * borrows its memory. */
struct parts_exchange {
    const uint32_t *of_ranks; /* (ranks) number of units of each rank, in all pieces together */
    uint32_t ranks, self, piece, pieces;
    size_t unit;     /* bytes of one unit */
    char *own;       /* this rank's part of the piece; NULL: it lies in its place in `whole` */
    char *whole;     /* the parts of all ranks, one after the other */
    size_t own_step; /* for a scatter: bytes from one rank's version of `own` to the next */
};

/* Adds an all-gather: `whole` becomes the parts of all ranks. */
int parts_gather(const struct parts_exchange *x, struct batch *batch);

/* Adds the exchange of a reduce-scatter: each rank gets its part of every rank's `whole`.  `own`
 * receives the versions of all ranks, own_step apart. */
int parts_scatter(const struct parts_exchange *x, struct batch *batch);

/* Where this rank's part begins in the whole, in units. */
uint64_t parts_before(const struct parts_exchange *x);

#endif
