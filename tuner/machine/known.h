/* What is known: reads what a database knows of a cluster, for verbs that also work without a
 * database. */
#ifndef KNOWN_H
#define KNOWN_H

#include "cluster.h"
#include "store.h"

/* Opens the database for reading; the caller closes it.  path_or_null: its path; NULL: the default
 * one.  flags: of store_path(); STORE_CONSULT is added.  Returns NULL, silently, where there is no
 * database or it is damaged. */
struct store *known_open(const char *path_or_null, unsigned flags);

/* Reads this cluster from the database, with the numbers that `probe` measured.  False if the
 * database does not have it, or store is NULL. */
bool known_cluster_read(struct store *store, const struct cluster *here, struct cluster *out);

#endif
