/* The step times of a layer on a modelled cluster, without noise: the executor on the sim back end
 * runs every plan at every capacity. */
#ifndef MODELLED_H
#define MODELLED_H

#include "search.h"
#include "step_times.h"

struct modelled {
    struct moe_shape shape;
    struct moe_plan arms[SEARCH_ARMS_MAX];
    size_t arm_count;
    int default_arm;
    uint32_t first, step, count; /* capacities: first, first + step, ... */
    struct step_times times;
};

/* ERR_* after a message. */
int modelled_open(const char *cluster_file, const struct moe_shape *shape, uint32_t first,
                  uint32_t step, uint32_t count, struct modelled *out);
void modelled_close(struct modelled *m);

double modelled_ns(const struct modelled *m, uint32_t capacity, int arm);
int modelled_arm(const struct modelled *m, const struct moe_plan *plan);

/* The arm with the least sum over a trace of capacities. */
int modelled_best_static(const struct modelled *m, const uint32_t *trace, uint32_t steps);

/* A capacity that wanders over the whole range, slowly and with jitter from step to step, as in a
 * training run. */
uint32_t modelled_wander(const struct modelled *m, uint64_t seed, uint32_t step, uint32_t steps);

#endif
