/* What a database already knows, for verbs that do not need one. */
#ifndef KNOWN_H
#define KNOWN_H

#include "cluster.h"
#include "store.h"

/* The database for reading, `use` beside STORE_CONSULT as store_path() has it; NULL, silently,
 * where there is none or it is damaged. */
struct store *known_open(const char *given, unsigned use);

/* This cluster as it is kept there, with what `probe` measured of it; false if it is not.  A store
 * of NULL knows nothing. */
bool known_cluster(struct store *store, const struct cluster *here, struct cluster *out);

#endif
