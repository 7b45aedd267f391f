/* Layers whose ranks get work by their speed (shares=speed): which speeds to use, and which entries
 * were measured with other speeds and are stale. */
#ifndef UNEQUAL_H
#define UNEQUAL_H

#include "load.h"
#include "store.h"

/* Adds rank speeds to a load, which may be NULL.  It uses the speeds that the layer's entries were
 * measured with, unless some rank has changed by more than a tenth since.  Otherwise it uses what
 * `moetune probe` measured.  So shares do not change while the ranks do not.  ERR_ARGUMENT after a
 * message if no speeds are known. */
int unequal_load(struct store *store, int64_t cluster_id, const struct cluster *cluster,
                 const struct moe_shape *shape, struct load **inout);

/* Makes entries stale whose ranks' speeds have changed.  For use after a new measurement. */
int unequal_expire(struct store *store, int64_t cluster_id, const struct cluster *cluster);

#endif
