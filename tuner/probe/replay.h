/* What a modelled cluster makes of one step: how well a description replays a machine. */
#ifndef REPLAY_H
#define REPLAY_H

#include "cluster.h"
#include "moelookup.h"

/* The time of one step without noise, in ns; NAN, silently, if the description cannot be modelled.
 */
double replay_ns(const struct cluster *cluster, const struct moe_shape *shape,
                 const struct moe_plan *plan, uint64_t capacity);

#endif
