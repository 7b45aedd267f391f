/* Times one step of a layer, or one all-to-all, on a modelled cluster: our executor runs it on a
 * virtual clock.  Studies of papers are made of such steps. */
#ifndef MODELLED_STEP_H
#define MODELLED_STEP_H

#include "capacities.h"
#include "cluster.h"
#include "moelookup.h"
#include "store.h"

/* What one step takes: a plain value.  Each number is the largest over the ranks. */
struct modelled_step {
    double ns;                   /* the whole step */
    double compute_ns, comm_ns;  /* its computation alone, its communication alone */
    double sent_bytes, messages; /* that one rank sends */
    double phase_ns[PHASE_COUNT];
    double known_ns; /* the step with known routes; NAN unless `known_routes` asks for it */
    double gate_ns;  /* gate and slots alone, which known routes save; NAN as known_ns */
};

/* Which step is to be timed: a plain value; `capacities` borrows its rows. */
struct modelled_ask {
    struct moe_shape shape; /* MOE_SHARES_SPEED: by the machine's rank_speeds_percent */
    struct moe_plan plan;
    struct capacities capacities;
    uint32_t baseline; /* bits of enum baseline: what a slower program does instead */
    bool known_routes; /* also time the step with known routes; the plan must be able to use them */
};

/* Times the step on `machine` resized to the shape's ranks; the shape's ranks_per_node and
 * ranks_per_rack do not count.  All numbers are NAN if the plan does not fit into the memory.
 * ERR_ARGUMENT after a message if the plan does not apply to the shape. */
int modelled_step_of(const struct cluster *machine, const struct modelled_ask *ask,
                     struct modelled_step *out);

/* Counts the bytes that the fullest rank allocates for the layer under this plan.  Libraries and an
 * optimizer are not counted.  ERR_ARGUMENT as modelled_step_of(). */
int modelled_bytes(const struct cluster *machine, const struct modelled_ask *ask, double *out);

/* Times one all-to-all (a: enum moe_a2a) of `ranks` ranks.  Each rank has `bytes` bytes, an equal
 * block for each rank. */
int modelled_a2a_ns(const struct cluster *machine, uint32_t ranks, uint32_t a, uint64_t bytes,
                    double *out);

/* Times what 2dh does inside a node before blocks leave it.  naive: a message for each block;
 * otherwise 2dh with both of its copies. */
int modelled_aggregation_ns(const struct cluster *machine, uint32_t ranks, bool naive,
                            uint64_t bytes, double *out);

#endif
