/* Compares the rank speeds that entries were measured with and the present rank speeds, for layers
 * with shares=speed. */
#include "unequal.h"

#include "cluster.h"
#include "rank_speeds.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool similar_speeds(const double *was, const double *is, uint32_t ranks)
{
    for (uint32_t q = 0; q < ranks; q++)
        if (fabs(is[q] / was[q] - 1) > rank_speeds_unequal)
            return false;
    return true;
}

/* A search for an entry whose speeds are similar to the present ones. */
struct speeds_comparison {
    struct store *store;
    struct moe_shape shape;
    const struct load *now;
    struct load *found; /* the first such entry's load; NULL: none; the caller frees it */
};

/* The load of an entry; NULL: the database does not know the load's name, or it has no speeds. */
static struct load *load_of(struct store *store, const struct moe_shape *shape,
                            const struct entry_row *e)
{
    char text[LOAD_TEXT_BYTES];
    struct load *load = NULL;
    int rc = *e->load ? store_load_get(store, e->load, text, sizeof(text)) : ERR_FORMAT;

    log_enable(false);
    if (rc == OK || rc == UNSUPPORTED)
        rc = load_open_text(shape, 0, rc == OK ? text : e->load, &load);
    log_enable(true);
    if (rc || load_speeds(load))
        return load;
    load_close(load);
    return NULL;
}

static int find_similar(void *self, const struct entry_row *e)
{
    struct speeds_comparison *c = self;
    struct load *load = c->found ? NULL : load_of(c->store, &c->shape, e);

    if (load && load_between(load) == load_between(c->now) &&
        similar_speeds(load_speeds(load), load_speeds(c->now), c->shape.ranks))
        c->found = load;
    else
        load_close(load);
    return OK;
}

int unequal_load(struct store *store, int64_t cluster_id, const struct cluster *cluster,
                 const struct moe_shape *shape, struct load **inout)
{
    struct speeds_comparison c = { .store = store, .shape = *shape };
    struct load *now;
    int64_t shape_id;
    int rc;

    TRY(load_open_speeds(shape, cluster->rank_speeds_percent, &now));
    now->between = load_between(*inout);
    c.now = now;
    rc = store_shape_add(store, shape, &shape_id);
    if (!rc)
        rc = store_entries(store, cluster_id, shape_id, find_similar, &c);
    if (rc) {
        load_close(c.found);
        load_close(now);
        return rc;
    }
    load_close(*inout);
    *inout = c.found ? c.found : now;
    if (c.found)
        load_close(now);
    return OK;
}

struct speeds_expiry {
    struct store *store;
    const struct cluster *cluster;
};

static int expire_if_moved(void *self, const struct entry_row *e)
{
    const struct speeds_expiry *expiry = self;
    struct load *was, *now = NULL;
    struct moe_shape shape;
    bool moved;

    TRY(store_shape_get(expiry->store, e->shape, &shape));
    if (shape.shares == MOE_SHARES_EQUAL)
        return OK;
    was = load_of(expiry->store, &shape, e);
    log_enable(false);
    moved = load_open_speeds(&shape, expiry->cluster->rank_speeds_percent, &now) || !was ||
            !similar_speeds(load_speeds(was), load_speeds(now), shape.ranks);
    log_enable(true);
    load_close(was);
    load_close(now);
    return moved ? store_expire_loads(expiry->store, e->cluster, e->shape, e->window, e->bucket,
                                      e->bucket, "")
                 : OK;
}

int unequal_expire(struct store *store, int64_t cluster_id, const struct cluster *cluster)
{
    struct speeds_expiry x = { store, cluster };

    return store_entries(store, cluster_id, 0, expire_if_moved, &x);
}
