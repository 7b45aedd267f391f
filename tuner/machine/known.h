/* Reads what a database knows of a cluster, for verbs that work without a database, too. */
#ifndef KNOWN_H
#define KNOWN_H

#include "cluster.h"
#include "store.h"

/* Opens the database for reading; the caller closes it.  given: its path (NULL: the default); use:
 * flags of store_path(), to which STORE_CONSULT is added.  NULL, silently, where there is no
 * database or it is damaged. */
struct store *known_open(const char *given, unsigned use);

/* Reads this cluster from the database, with the numbers that `probe` measured.  False if the
 * database does not have it, or store is NULL. */
bool known_cluster(struct store *store, const struct cluster *here, struct cluster *out);

#endif
