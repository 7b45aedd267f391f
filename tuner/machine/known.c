/* Reads what a database knows of a cluster.  A damaged or missing database counts as an empty one.
 */
#include "known.h"

#include "status.h"

#include <limits.h>

struct store *known_open(const char *path_or_null, unsigned flags)
{
    char path[PATH_MAX];
    struct store *store = NULL;
    bool log_before = log_enable(false); /* a missing database is no fault here */

    /* A damaged database counts as an empty one. */
    if (store_path(path_or_null, STORE_CONSULT | flags, path, sizeof(path)) ||
        store_read(path, &store))
        store = NULL;
    log_enable(log_before);
    return store;
}

bool known_cluster_read(struct store *store, const struct cluster *here, struct cluster *out)
{
    int64_t id;

    return store && !store_cluster_find(store, here, &id) && !store_cluster_get(store, id, out);
}
