/* Layers whose ranks are given work by their speed (shares=speed): by which speeds, and when what
 * was measured with others is out of date. */
#ifndef UNEQUAL_H
#define UNEQUAL_H

#include "load.h"
#include "store.h"

/* Adds them to a load, which may be NULL: those that entries of the layer were measured with, if
 * there are any and no rank's speed has moved by more than a tenth since; else what `moetune probe`
 * measured of this cluster.  So shares stay as they are while ranks do. ERR_ARGUMENT after a
 * message that names it where nothing is known. */
int unequal_load(struct store *store, int64_t cluster_id, const struct cluster *cluster,
                 const struct moe_shape *shape, struct load **inout);

/* After ranks were measured: entries whose ranks' speeds have moved become stale. */
int unequal_expire(struct store *store, int64_t cluster_id, const struct cluster *cluster);

#endif
