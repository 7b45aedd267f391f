/* All ranks exchange their unequal parts of something: of its pieces one, cut as parts.h says. */
#ifndef MEETING_H
#define MEETING_H

#include "parts.h"
#include "wire.h"

struct meeting {
    const uint32_t *of_ranks; /* (ranks) how many units each has in all pieces */
    uint32_t ranks, self, piece, pieces;
    size_t unit; /* bytes */
    /* This rank's part of the piece, and all ranks' one after the other.  own NULL: it lies in its
     * place of the whole, where a gather leaves it. */
    char *own, *whole;
    size_t own_step; /* of a scatter, from one rank's version of this rank's part to the next */
};

/* Everybody's part becomes whole. */
int meeting_gather(const struct meeting *m, struct batch *batch);

/* Each rank's part of the whole goes to it; own, with own_step, takes everybody's version of this
 * rank's. */
int meeting_scatter(const struct meeting *m, struct batch *batch);

/* Where this rank's part begins in the whole, in units; and how large it is. */
uint64_t meeting_before(const struct meeting *m);
uint32_t meeting_own(const struct meeting *m);

#endif
