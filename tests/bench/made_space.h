/* A made-up space of plans with known true times: axes of numbers and of words, their effects on a
 * step, effects of pairs of axes, and cliffs. */
#ifndef MADE_SPACE_H
#define MADE_SPACE_H

#include "search.h"

struct made_space {
    struct points points;
    double ns[SEARCH_ARMS_MAX]; /* true */
    double best_ns;
};

/* About so many plans; the first one is what is used today.  Exits where memory is short. */
void made_space_open(uint64_t seed, size_t plans, struct made_space *out);
void made_space_close(struct made_space *space);

#endif
