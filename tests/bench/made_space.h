/* A made-up space of plans whose true times are known: axes of numbers and of words, what each does
 * to a step, what pairs of them do together, and cliffs. */
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
