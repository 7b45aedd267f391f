/* Replays recorded counts of one layer under capacities that follow the experts, and takes step
 * times from the layer's table. */
#ifndef FOLLOWED_H
#define FOLLOWED_H

#include "counts_replay.h"
#include "remarks.h"

/* Returns the step time in ms of the plan that moelookup_get_uneven() would answer: the faster of
 * the best plan with r >= 1 at capacity `key` and the best one with r = 0 at `key_r0`.  If the
 * table lacks one of the two, it is the default plan's time.  Interpolates between entries; below
 * the first entry it is that entry's time, beyond the last NAN.  `layer` is a const struct
 * layer_facts. */
double followed_ms(void *layer, uint32_t key, uint32_t key_r0);

/* Writes what the rules for capacities come to in rows, drops and step time.  Writes nothing
 * without counts. */
void followed_remarks(const struct scope *scope, struct remarks *out);

/* How many experts get lines in the plot; the data file has all. */
enum { FOLLOWED_DRAWN = 8 };

#endif
