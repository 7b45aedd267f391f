/* A bucket between two that were measured: its entry by what the search has learnt. */
#ifndef BETWEEN_H
#define BETWEEN_H

#include "sweep.h"

/* Takes one of the plans that were adopted on either side, or the default where neither fits into
 * memory.  False: the default does not either. */
bool between_infer(struct sweep *sweep, const struct entry_row *low, const struct entry_row *high,
                   uint32_t bucket, struct entry_row *out);

/* The bucket whose entry may lose most, if that is more than the effort allows and measuring it
 * would help: the two sides differ, and were themselves known better than that. */
bool between_doubtful(struct sweep *sweep, const struct entry_row *low,
                      const struct entry_row *high, uint32_t *bucket);

#endif
