/* How fast the ranks at hand are beside each other: said, or measured by `moetune probe`. */
#ifndef SPEEDS_H
#define SPEEDS_H

#include "place.h"

/* "1,1.5,2", one per rank, in any unit.  The caller frees them.  ERR_ARGUMENT after a message. */
int speeds_take(const char *list, double **speeds, uint32_t *ranks);

/* Of this cluster, from the database `db` (NULL: the default place); the caller frees them.
 * UNSUPPORTED after a message that names `moetune probe` where it has not all ranks' speeds. */
int speeds_known(const char *db, const struct cluster *here, double **speeds);

/* Collective, and the same on every rank: those of the list, or (NULL) of the database where rank 0
 * is.  Before a rank opens its engine, which changes what the cluster looks like. */
int speeds_agree(struct world *world, const char *list, const struct place_setup *where,
                 uint32_t ranks, double **speeds);

#endif
