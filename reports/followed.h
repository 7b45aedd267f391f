/* Capacities that follow the experts, for one layer: recorded counts replayed, and what steps then
 * take by its table. */
#ifndef FOLLOWED_H
#define FOLLOWED_H

#include "counts_replay.h"
#include "remarks.h"

/* Milliseconds of a step, as moelookup_get_uneven() answers: of the best plan with r >= 1 at one
 * equal capacity, or of the best one with r = 0 at the other, and where the table does not know
 * both of the default plan.  Between two entries in proportion, below the first one as that, NAN
 * beyond the last.  `layer` is a const struct layer_facts. */
double followed_ms(void *layer, uint32_t key, uint32_t key_r0);

/* What the ways come to, and what that means for the step; nothing without counts. */
void followed_remarks(const struct scope *scope, struct remarks *out);

/* Experts that get lines in the plot; the data file has all. */
enum { FOLLOWED_DRAWN = 8 };

#endif
