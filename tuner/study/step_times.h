/* True step times of a layer on a modelled cluster: of every plan at some capacities, without
 * noise, from our executor on a virtual clock. */
#ifndef STEP_TIMES_H
#define STEP_TIMES_H

#include "cluster.h"
#include "load.h"
#include "moelookup.h"

#include <stddef.h>

/* A table of step times.  step_times_open() makes one, step_times_close() frees it. */
struct step_times {
    const struct moe_plan *arms; /* borrowed */
    size_t arm_count, count;     /* count: of capacities */
    uint64_t *capacities;        /* ascending, each once */
    double *ns; /* (count, arm_count); NAN: the plan does not fit into the memory */
};

/* Which times are wanted: a plain value that borrows all it points to. */
struct step_times_ask {
    const struct cluster *cluster; /* its noise does not count */
    const struct moe_shape *shape;
    const struct load *load; /* NULL: tokens choose at random */
    uint64_t seed;
    const struct moe_plan *arms;
    size_t arm_count;
    const uint64_t *capacities; /* in any order, with repetitions */
    size_t count;
};

/* Runs every plan at every capacity.  ERR_DEVICE after a message if the model cannot run a plan;
 * ERR_NOMEM. */
int step_times_open(const struct step_times_ask *ask, struct step_times *out);
void step_times_close(struct step_times *times);

/* Returns the times of all arms in ns at the largest known capacity up to `capacity`, or at the
 * smallest one if all are larger. */
const double *step_times_at(const struct step_times *times, uint64_t capacity);

#endif
