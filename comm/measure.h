/* The time of something that all ranks do together.  Knows nothing of what it is. */
#ifndef MEASURE_H
#define MEASURE_H

#include "disturbance.h"
#include "engine.h"
#include "world.h"

/* The largest time over the ranks, and the most that one of them lost to other processes. */
struct measured {
    int64_t ns, lost_ns;
};

/* One repetition: a barrier, then `once` on every rank, timed as a stretch of `engine` (NULL: by
 * the machine's clock).  `watch` is NULL on every rank, and nothing is lost, or on none.
 * Collective; a failure on any rank is the status on all.  *out is the same on every rank. */
int measure_once(struct world *world, struct engine *engine, struct disturbance *watch,
                 int (*once)(void *self), void *self, struct measured *out);

/* A shuffle of 0..n-1 that every rank makes alike from agreed numbers. */
void measure_order(uint64_t seed, uint64_t round, int n, int *order);

#endif
