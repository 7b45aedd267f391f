/* Reads what a database knows of a cluster.  A damaged or missing database counts as an empty one.
 */
#include "known.h"

#include "status.h"

#include <limits.h>

struct store *known_open(const char *given, unsigned use)
{
    char path[PATH_MAX];
    struct store *store = NULL;

    log_only(false);
    if (store_path(given, STORE_CONSULT | use, path, sizeof(path)) || store_read(path, &store))
        store = NULL;
    log_only(true);
    return store;
}

bool known_cluster(struct store *store, const struct cluster *here, struct cluster *out)
{
    int64_t id;

    return store && !store_cluster_find(store, here, &id) && !store_cluster_get(store, id, out);
}
