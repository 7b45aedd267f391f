/* What each rank has of a step: tokens, and hidden units of the experts, of which every rank finds
 * the same for all; and how all ranks exchange what is cut so. */
#ifndef PARTS_H
#define PARTS_H

#include "moelookup.h"

#include <stdbool.h>
#include <stddef.h>

struct batch;

struct parts {
    uint32_t ranks;
    uint32_t *tokens;              /* (ranks) */
    uint32_t *first_unit, *hidden; /* (ranks): the units of its experts that a rank holds */
};

/* Equal ones: T tokens each, and in MOE_LAYOUT_HIDDEN as even a cut of H as there is.  For
 * MOE_SHARES_SPEED both follow `speeds`, one per rank, for MOE_SHARES_TOKENS and MOE_SHARES_HIDDEN
 * one of them; NULL: all are alike. */
int parts_open(const struct moe_shape *shape, const double *speeds, struct parts *out);
void parts_close(struct parts *parts); /* a zeroed one is fine */

bool parts_hidden_equal(const struct parts *parts);

/* Where the i-th of n pieces of `total` begins; the n-th begins at the end. */
static inline uint32_t part_cut(uint32_t total, uint32_t i, uint32_t n)
{
    return (uint32_t)((uint64_t)total * i / n);
}

static inline uint32_t part_piece(uint32_t total, uint32_t i, uint32_t n)
{
    return part_cut(total, i + 1, n) - part_cut(total, i, n);
}

/* The i-th of n pieces of every rank's units, or tokens, together. */
uint64_t parts_sum(const uint32_t *of_ranks, uint32_t ranks, uint32_t i, uint32_t n);

/* All ranks exchange one of the pieces of something that is cut into their parts. */
struct parts_exchange {
    const uint32_t *of_ranks; /* (ranks) how many units each has in all pieces */
    uint32_t ranks, self, piece, pieces;
    size_t unit; /* bytes */
    /* This rank's part of the piece, and all ranks' one after the other.  own NULL: it lies in its
     * place of the whole, where a gather leaves it. */
    char *own, *whole;
    size_t own_step; /* of a scatter, from one rank's version of this rank's part to the next */
};

/* Everybody's part becomes whole. */
int parts_gather(const struct parts_exchange *x, struct batch *batch);

/* Each rank's part of the whole goes to it; own, with own_step, takes everybody's version of this
 * rank's. */
int parts_scatter(const struct parts_exchange *x, struct batch *batch);

/* Where this rank's part begins in the whole, in units. */
uint64_t parts_before(const struct parts_exchange *x);

#endif
