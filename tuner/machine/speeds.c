/* Reads speeds of ranks from where they stand. */
#include "speeds.h"

#include "discover.h"
#include "known.h"
#include "rank_speeds.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

static int make_room(uint32_t ranks, double **speeds)
{
    *speeds = calloc(ranks, sizeof(**speeds));
    return *speeds ? OK : fail(ERR_NOMEM, "the speeds of %u ranks", ranks);
}

int speeds_take(const char *list, double **speeds, uint32_t *ranks)
{
    const char *at = list;
    uint32_t count = 1;
    double *taken;

    for (const char *c = list; *c; c++)
        count += *c == ',';

    TRY(make_room(count, &taken));
    for (uint32_t q = 0; q < count; q++) {
        char *end;

        taken[q] = strtod(at, &end);
        if (end == at || *end != (q + 1 < count ? ',' : 0) || !(taken[q] > 0) || isinf(taken[q])) {
            free(taken);
            return fail(ERR_ARGUMENT,
                        "--speeds %s: numbers above 0 with commas between are wanted, one per rank",
                        list);
        }
        at = end + 1;
    }
    *speeds = taken;
    *ranks = count;
    return OK;
}

int speeds_known(const char *db, const struct cluster *here, double **speeds)
{
    struct cluster known = cluster_unknown();
    struct store *store = known_open(db, 0);

    known_cluster(store, here, &known);
    store_close(store);
    if (known.ranks != here->ranks || !rank_speeds_known(&known))
        return fail(UNSUPPORTED,
                    "the speeds of these ranks (%u) are not known: `moetune probe` measures them, "
                    "or --speeds says them",
                    here->ranks);
    TRY(make_room(here->ranks, speeds));
    rank_speeds_list(known.rank_speeds_percent, *speeds);
    return OK;
}

/* Finds them on rank 0, which alone has a database. */
static int find_speeds(const char *list, const struct cluster *here, uint32_t ranks,
                       double **speeds)
{
    uint32_t said;

    if (!list && here->ranks == ranks)
        return speeds_known(NULL, here, speeds);
    if (!list)
        return fail(ERR_ARGUMENT, "--shares speed: ranks that are not there have no speeds but "
                                  "those that --speeds says");
    TRY(speeds_take(list, speeds, &said));
    if (said == ranks)
        return OK;
    free(*speeds);
    *speeds = NULL;
    return fail(ERR_ARGUMENT, "--speeds %s: of %u ranks, there are %u", list, said, ranks);
}

int speeds_agree(struct world *world, const char *list, const struct place_setup *where,
                 uint32_t ranks, double **speeds)
{
    struct discovery found = { 0 };
    double *mine = NULL;
    int rc;

    if (!list)
        TRY(discover(world, where->device, where->ranks_per_node, &found));
    rc = world_topology(world)->rank == 0 ? find_speeds(list, &found.cluster, ranks, &mine)
                                          : make_room(ranks, &mine);
    discovery_free(&found);
    rc = world_settle(world, rc);
    if (!rc)
        rc = world_broadcast(world, mine, ranks * sizeof(*mine));
    if (rc)
        free(mine);
    else
        *speeds = mine;
    return rc;
}
