/* What each rank has of a step: tokens, and hidden units of the experts.  Pure: every rank finds
 * the same for all of them. */
#ifndef PARTS_H
#define PARTS_H

#include "moelookup.h"

#include <stdbool.h>

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

#endif
