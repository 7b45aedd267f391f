/* Reads speeds of ranks from --speeds or a database, and shares them among ranks. */
#include "speeds.h"

#include "discover.h"
#include "known.h"
#include "rank_speeds.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

static int allocate_speeds(uint32_t ranks, double **speeds)
{
    *speeds = calloc(ranks, sizeof(**speeds));
    return *speeds ? OK : fail(ERR_NOMEM, "the speeds of %u ranks", ranks);
}

int speeds_parse(const char *list, double **speeds, uint32_t *ranks)
{
    const char *rest = list;
    uint32_t count = 1;
    double *parsed;

    for (const char *c = list; *c; c++)
        count += *c == ',';

    TRY(allocate_speeds(count, &parsed));
    for (uint32_t rank = 0; rank < count; rank++) {
        char *end;

        parsed[rank] = strtod(rest, &end);
        if (end == rest || *end != (rank + 1 < count ? ',' : 0) || !(parsed[rank] > 0) ||
            isinf(parsed[rank])) {
            free(parsed);
            return fail(ERR_ARGUMENT,
                        "--speeds %s: give one number above 0 per rank, with commas between", list);
        }
        rest = end + 1;
    }
    *speeds = parsed;
    *ranks = count;
    return OK;
}

int speeds_from_database(const char *db, const struct cluster *here, double **speeds)
{
    struct cluster known = cluster_unknown();
    struct store *store = known_open(db, 0);

    known_cluster_read(store, here, &known);
    store_close(store);
    if (known.ranks != here->ranks || !rank_speeds_known(&known))
        return fail(UNSUPPORTED,
                    "the speeds of these ranks (%u) are not known: `moetune probe` measures them; "
                    "or give --speeds",
                    here->ranks);
    TRY(allocate_speeds(here->ranks, speeds));
    rank_speeds_list(known.rank_speeds_percent, *speeds);
    return OK;
}

/* Finds the speeds on rank 0, because only rank 0 has a database. */
static int find_speeds(const char *list, const struct cluster *here, uint32_t ranks,
                       double **speeds)
{
    uint32_t count;

    if (!list && here->ranks == ranks)
        return speeds_from_database(NULL, here, speeds);
    if (!list)
        return fail(ERR_ARGUMENT, "--shares speed: the speeds of ranks that do not exist are "
                                  "not known: give --speeds");
    TRY(speeds_parse(list, speeds, &count));
    if (count == ranks)
        return OK;
    free(*speeds);
    *speeds = NULL;
    return fail(ERR_ARGUMENT, "--speeds %s: these are %u speeds, but there are %u ranks", list,
                count, ranks);
}

int speeds_agree(struct world *world, const char *list, const struct place_setup *where,
                 uint32_t ranks, double **speeds)
{
    struct discovery discovery = { 0 };
    double *shared = NULL;
    int rc;

    if (!list)
        TRY(discover(world, where->device, where->ranks_per_node, &discovery));
    rc = world_topology(world)->rank == 0 ? find_speeds(list, &discovery.cluster, ranks, &shared)
                                          : allocate_speeds(ranks, &shared);
    discovery_free(&discovery);
    rc = world_settle(world, rc);
    if (!rc)
        rc = world_broadcast(world, shared, ranks * sizeof(*shared));
    if (rc)
        free(shared);
    else
        *speeds = shared;
    return rc;
}
