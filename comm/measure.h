/* Times anything that all ranks do together; it knows nothing of layers. */
#ifndef MEASURE_H
#define MEASURE_H

#include "disturbance.h"
#include "engine.h"
#include "world.h"

/* The time of one repetition: the slowest rank's time, and the most time that one rank lost to
 * other processes.  A plain value. */
struct measured {
    int64_t ns, lost_ns;
};

/* Runs one repetition: a barrier, then `once` on every rank.  `engine` times it as a stretch; NULL:
 * the host's clock times it.  `watch` counts the lost time; it is NULL on every rank (lost_ns is
 * then 0) or on none.  Collective: *out and the status are the same on every rank, and a failure on
 * any rank is the status of all. */
int measure_once(struct world *world, struct engine *engine, struct disturbance *watch,
                 int (*once)(void *self), void *self, struct measured *out);

/* Writes a random order of 0..n-1.  Every rank gets the same order from the same seed and round. */
void measure_order(uint64_t seed, uint64_t round, int n, int *order);

#endif
