/* One step of a layer, or one all-to-all, on a modelled cluster. */
#ifndef MODELLED_STEP_H
#define MODELLED_STEP_H

#include "capacities.h"
#include "cluster.h"
#include "moelookup.h"
#include "store.h"

/* Of the slowest rank. */
struct modelled_step {
    double ns, compute_ns, comm_ns; /* the step; each alone */
    double sent_bytes, messages;    /* per rank */
    double phase_ns[PHASE_COUNT];
    double known_ns, gate_ns; /* the step with known routes, its gate and slots alone; NAN where it
                               * was not asked for */
};

struct modelled_ask {
    struct moe_shape shape; /* MOE_SHARES_SPEED: by the machine's rank_speeds_percent */
    struct moe_plan plan;
    struct capacities capacities;
    uint32_t baseline; /* enum baseline, of those that this plan has */
    bool known;        /* routes, too: a plan that can use them */
};

/* The machine with as many ranks as the shape has, whose ranks_per_node and ranks_per_rack are set
 * here.  Where the plan does not fit into the memory, all numbers are NAN.  ERR_ARGUMENT after a
 * message where it does not apply there. */
int modelled_step_of(const struct cluster *machine, const struct modelled_ask *ask,
                     struct modelled_step *out);

/* What a rank allocates for the layer and this plan alone, the most that any rank does: no
 * libraries, no optimizer. */
int modelled_bytes(const struct cluster *machine, const struct modelled_ask *ask, double *out);

/* `bytes` of each of so many ranks, a W-th for each other. */
int modelled_a2a_ns(const struct cluster *machine, uint32_t ranks, uint32_t a, uint64_t bytes,
                    double *out);

/* What 2dh does before blocks leave a node: naive as the baseline, else with its copies. */
int modelled_aggregation_ns(const struct cluster *machine, uint32_t ranks, bool naive,
                            uint64_t bytes, double *out);

#endif
