/* Is this the machine that the database knows? */
#ifndef RECOGNISE_H
#define RECOGNISE_H

#include "cluster.h"
#include "store.h"

/* Finds it, or adds it.  If its soft fields have changed its entries become stale, which is said.
 * Of a real cluster the model fields are filled with what was measured before. */
int recognise(struct store *store, struct cluster *cluster, int64_t *id);

#endif
