/* A bucket between two that were measured: its entry by what the search has learnt. */
#ifndef BETWEEN_H
#define BETWEEN_H

#include "sweep.h"

/* The first bucket in which the plan of the upper side is taken: the plan changes once between two
 * sides, where all that lies between takes least by the model, and not to and fro with its noise.
 * Where one side has the default and the other one has not, the default stands in all of them,
 * unless the other plan was faster on both sides, and is not proven on one. */
int between_turn(struct sweep *sweep, const struct entry_row *low, const struct entry_row *high,
                 uint32_t *turn);

/* Takes one of the plans that were adopted on either side, or the default where neither fits into
 * memory.  False: the default does not either. */
bool between_infer(struct sweep *sweep, const struct entry_row *low, const struct entry_row *high,
                   uint32_t turn, uint32_t bucket, struct entry_row *out);

/* The bucket where measuring helps most, of those whose entry may lose more than the effort allows:
 * the two sides differ, and were themselves known better than that. */
bool between_doubtful(struct sweep *sweep, const struct entry_row *low,
                      const struct entry_row *high, uint32_t turn, uint32_t *bucket);

#endif
