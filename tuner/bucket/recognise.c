/* Compares this machine with the one in the database field by field, and makes entries stale where
 * software has changed. */
#include "recognise.h"

#include "status.h"

#include <string.h>

static void say_what_changed(const struct cluster *known, const struct cluster *now)
{
    for (size_t i = 0; i < cluster_field_count; i++) {
        const char *was = CLUSTER_VALUE(known, &cluster_fields[i]);
        const char *is = CLUSTER_VALUE(now, &cluster_fields[i]);

        if (cluster_fields[i].class == CLUSTER_SOFT && strcmp(was, is) != 0)
            note("%s was \"%s\" and is \"%s\": entries are stale until they are measured again",
                 cluster_fields[i].name, was, is);
    }
}

/* The same machine with another driver, library or environment: what is known is out of date.  What
 * `probe` measured stays: a search only starts from it. */
int recognise(struct store *store, struct cluster *cluster, int64_t *id)
{
    struct cluster known;

    TRY(store_cluster(store, cluster, id));
    TRY(store_cluster_get(store, *id, &known));
    if (strcmp(cluster->backend, "sim") != 0)
        cluster_take_model(cluster, &known);
    if (cluster_same_soft(&known, cluster))
        return OK;
    say_what_changed(&known, cluster);
    TRY(store_expire(store, *id, 0, 0, 0, UINT32_MAX, "the machine changed"));
    return store_cluster_renew(store, *id, cluster);
}
