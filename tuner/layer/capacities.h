/* Capacities: how many rows each expert gets from one rank in one step.  Ranks agree on them before
 * the step, so every rank knows what all others send, and ranks exchange no counts. */
#ifndef CAPACITIES_H
#define CAPACITIES_H

#include "moelookup.h"

/* One capacity, or one for each expert.  A value; `rows` is borrowed. */
struct capacities {
    uint64_t most;        /* c; the largest where they differ */
    const uint64_t *rows; /* (E) capacity of each expert; NULL: all have `most` */
};

/* The capacity of one expert. */
static inline uint64_t capacity_of(const struct capacities *c, uint64_t expert)
{
    return c->rows ? c->rows[expert] : c->most;
}

/* Makes capacities of E numbers; `rows` becomes NULL where all are equal. */
struct capacities capacities_of(const uint64_t *rows, uint32_t experts);

/* Parses "512,64,64,0" or "512,64*3": one number for each expert, at most `tokens`.  The caller
 * frees *out.  ERR_ARGUMENT, after a message: the text is wrong. */
int capacities_parse(const char *text, uint32_t experts, uint64_t tokens, uint64_t **out);

/* The sum over all experts: most rows that one rank sends. */
uint64_t capacities_sum(const struct capacities *c, uint32_t experts);

/* The sum over the experts of one rank: most rows that it gets from one source. */
uint64_t capacities_of_rank(const struct capacities *c, const struct moe_shape *shape, int rank);

/* The rank whose experts have the largest sum; the first of several. */
int capacities_fullest(const struct capacities *c, const struct moe_shape *shape);

/* The key by which a table is looked up, for plans with r >= 1: the equal capacity at which a step
 * would take as long.  It is the mean of the fullest rank, rounded up. */
uint64_t capacities_key(const struct capacities *c, const struct moe_shape *shape);

/* The key for plans with r = 0, where every rank computes the rows of all experts: the mean of all,
 * rounded up. */
uint64_t capacities_key_r0(const struct capacities *c, const struct moe_shape *shape);

/* The mean of the fullest of `groups` groups (ranks, or nodes), each with equally many experts;
 * rounded up. */
uint64_t capacities_mean(const struct capacities *c, uint32_t experts, uint32_t groups);

#endif
