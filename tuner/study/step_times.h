/* Step times of a layer on a modelled cluster: every plan at each of some capacities, without
 * noise, as the executor on the sim back end takes them. */
#ifndef STEP_TIMES_H
#define STEP_TIMES_H

#include "cluster.h"
#include "load.h"
#include "moelookup.h"

#include <stddef.h>

struct step_times {
    const struct moe_plan *arms; /* borrowed */
    size_t arm_count, count;
    uint64_t *capacities; /* each once, from the least on */
    double *ns;           /* by capacity and arm; NAN: there is too little memory */
};

struct step_times_ask {
    const struct cluster *cluster; /* its noise is left out */
    const struct moe_shape *shape;
    const struct load *load; /* NULL: tokens choose at random */
    uint64_t seed;
    const struct moe_plan *arms;
    size_t arm_count;
    const uint64_t *capacities; /* in any order; the same may come more than once */
    size_t count;
};

int step_times_open(const struct step_times_ask *ask, struct step_times *out);
void step_times_close(struct step_times *times);

/* By arm, at the largest of the capacities that is no larger, or at the least one. */
const double *step_times_at(const struct step_times *times, uint64_t capacity);

#endif
