/* One step of a layer, or one all-to-all, on a modelled cluster. */
#ifndef MODELLED_STEP_H
#define MODELLED_STEP_H

#include "cluster.h"
#include "moelookup.h"

struct modelled_step {
    double ns, compute_ns, comm_ns; /* the step; each alone */
    double sent_bytes;              /* per rank */
    double encode_ns, experts_ns;   /* parts of compute_ns: rows there and back; the products */
};

/* The machine with as many ranks as the shape has, whose ranks_per_node is set here.  Where the
 * plan does not fit into the memory, all times are NAN. */
int modelled_step(const struct cluster *machine, const struct moe_shape *shape,
                  const struct moe_plan *plan, uint64_t capacity, struct modelled_step *out);

/* The same with baselines (enum baseline) that this plan has. */
int modelled_baseline(const struct cluster *machine, const struct moe_shape *shape,
                      const struct moe_plan *plan, uint64_t capacity, uint32_t baseline,
                      struct modelled_step *out);

/* `bytes` of each of so many ranks, a W-th for each other. */
int modelled_a2a_ns(const struct cluster *machine, uint32_t ranks, uint32_t a, uint64_t bytes,
                    double *out);

/* What 2dh does before blocks leave a node: naive as the baseline, else with its copies. */
int modelled_aggregation_ns(const struct cluster *machine, uint32_t ranks, bool naive,
                            uint64_t bytes, double *out);

#endif
