/* How many rows each expert takes from one rank in one step.  They are agreed before the step, so
 * every rank knows what all send, and no counts are exchanged. */
#ifndef CAPACITIES_H
#define CAPACITIES_H

#include "moelookup.h"

struct capacities {
    uint64_t most;        /* c, of each expert; of the largest where they differ */
    const uint64_t *rows; /* (E), borrowed; NULL: all experts have `most` */
};

static inline uint64_t capacity_of(const struct capacities *c, uint64_t expert)
{
    return c->rows ? c->rows[expert] : c->most;
}

/* Of E numbers; without them where all are equal, for that is what every other layer has. */
struct capacities capacities_of(const uint64_t *rows, uint32_t experts);

/* "512,64,64,0", also "512,64*3": one number for each expert, at most `tokens`.  *out is the
 * caller's to free.  ERR_ARGUMENT after a message. */
int capacities_parse(const char *text, uint32_t experts, uint64_t tokens, uint64_t **out);

/* Rows that one rank's choices have in all. */
uint64_t capacities_sum(const struct capacities *c, uint32_t experts);

/* Rows that a rank's experts take from one source; which rank has the most, the first of several.
 */
uint64_t capacities_of_rank(const struct capacities *c, const struct moe_shape *shape, int rank);
int capacities_fullest(const struct capacities *c, const struct moe_shape *shape);

/* The one capacity at which equal experts take a step as long under plans with r >= 1, by which
 * tables answer: the fullest rank's mean, rounded up.  Groups: as many as hold the experts, each as
 * many: ranks, or nodes. */
uint64_t capacities_key(const struct capacities *c, const struct moe_shape *shape);
/* The same of plans with r = 0, where every rank computes the rows of all experts. */
uint64_t capacities_key_r0(const struct capacities *c, const struct moe_shape *shape);
uint64_t capacities_mean(const struct capacities *c, uint32_t experts, uint32_t groups);

#endif
