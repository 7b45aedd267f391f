/* Which cores a rank that computes on them has to itself. */
#ifndef OWN_CORES_H
#define OWN_CORES_H

#include "world.h"

#include <sched.h>
#include <stdbool.h>

/* Set, to anything, for ranks that this program starts on this machine alone and nothing else
 * binds. */
#define OWN_CORES_VARIABLE "MOETUNE_BIND"

/* Where that is set, once in a process: every thread of this rank onto an equal share of the cores
 * that it may use.  More ranks than cores: no rank is bound. */
void own_cores_bind(const struct topology *topology);

/* How many cores it may call its own: of one that n ranks of this machine may use, 1/n.
 * Collective. */
int own_cores(struct world *world, double *out);

/* ---- pure */

/* Rank `rank` of `ranks` takes the next count/ranks of `order`; false: there are too few. */
bool own_cores_share(const int *order, int count, int rank, int ranks, cpu_set_t *out);

/* Where a rank may run. */
struct rank_cores {
    char machine[40];
    cpu_set_t cores;
};
double own_cores_of(const struct rank_cores *seats, int ranks, int rank);

#endif
