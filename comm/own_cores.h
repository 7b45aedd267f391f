/* Binds a rank that computes on cores to a share of them, and counts how many cores it has to
 * itself. */
#ifndef OWN_CORES_H
#define OWN_CORES_H

#include "world.h"

#include <sched.h>
#include <stdbool.h>

/* An environment variable, of any value.  moetune sets it for ranks that it starts on this machine
 * alone and that nothing else binds. */
#define OWN_CORES_VARIABLE "MOETUNE_BIND"

/* Where OWN_CORES_VARIABLE is set, binds every thread of this rank to an equal share of the cores
 * that it may use, and unsets it.  With more ranks than cores, it binds no rank. */
void own_cores_bind(const struct topology *topology);

/* Counts the cores that this rank has to itself: a core that n ranks of this machine may use counts
 * 1/n.  Collective. */
int own_cores(struct world *world, double *out);

/* ---- pure functions, for the two above and their tests */

/* Gives rank `rank` of `ranks` its count/ranks of the cores in `order`.  False: there are fewer
 * cores than ranks. */
bool own_cores_share(const int *order, int count, int rank, int ranks, cpu_set_t *out);

/* The cores that one rank may use, and the machine that has them (world_machine()). */
struct rank_cores {
    char machine[40];
    cpu_set_t cores;
};

/* Cores that rank `rank` has to itself, by the rule of own_cores(). */
double own_cores_count(const struct rank_cores *all_ranks, int ranks, int rank);

#endif
