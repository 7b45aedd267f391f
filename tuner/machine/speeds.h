/* Finds the relative speeds of ranks: from --speeds, or as `moetune probe` measured them. */
#ifndef SPEEDS_H
#define SPEEDS_H

#include "place.h"

/* Reads a list as "1,1.5,2": one speed per rank, in any unit.  The caller frees *speeds.
 * ERR_ARGUMENT or ERR_NOMEM after a message. */
int speeds_parse(const char *list, double **speeds, uint32_t *ranks);

/* Reads the speeds of this cluster's ranks from the database `db` (NULL: the default one); the
 * caller frees *speeds.  UNSUPPORTED, after a message that names `moetune probe`, where the
 * database does not have the speeds of all ranks. */
int speeds_from_database(const char *db, const struct cluster *here, double **speeds);

/* Gives every rank the same speeds: those of the list, or with NULL those of rank 0's database.
 * Collective; the caller frees *speeds.  Call it before a rank opens its engine, which changes what
 * discover() sees of the cluster. */
int speeds_agree(struct world *world, const char *list, const struct place_setup *where,
                 uint32_t ranks, double **speeds);

#endif
