/* The time of something that all ranks do together.  Knows nothing of what it is. */
#ifndef MEASURE_H
#define MEASURE_H

#include "disturbance.h"
#include "engine.h"
#include "world.h"

/* One repetition: a barrier, `once` on every rank, the largest time over the ranks, as a
 * stretch of `engine` (NULL: by the machine's clock).  Collective; a failure on any rank is the
 * status on all.  *ns is the same on every rank. */
int measure_once(struct world *world, struct engine *engine, int (*once)(void *self), void *self,
                 int64_t *ns);

/* The same, and what it lost to other processes: the most over the ranks. */
struct measured {
    int64_t ns, lost_ns;
};

/* `watch` is NULL on every rank, and nothing is lost, or on none. */
int measure_watched(struct world *world, struct engine *engine, struct disturbance *watch,
                    int (*once)(void *self), void *self, struct measured *out);

/* A shuffle of 0..n-1 that every rank makes alike from agreed numbers. */
void measure_order(uint64_t seed, uint64_t round, int n, int *order);

#endif
