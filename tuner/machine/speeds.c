/* Reads speeds of ranks from --speeds or a database, and shares them among ranks. */
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

int speeds_parse(const char *list, double **speeds, uint32_t *ranks)
{
    const char *at = list;
    uint32_t count = 1;
    double *parsed;

    for (const char *c = list; *c; c++)
        count += *c == ',';

    TRY(make_room(count, &parsed));
    for (uint32_t q = 0; q < count; q++) {
        char *end;

        parsed[q] = strtod(at, &end);
        if (end == at || *end != (q + 1 < count ? ',' : 0) || !(parsed[q] > 0) ||
            isinf(parsed[q])) {
            free(parsed);
            return fail(ERR_ARGUMENT,
                        "--speeds %s: give one number above 0 per rank, with commas between", list);
        }
        at = end + 1;
    }
    *speeds = parsed;
    *ranks = count;
    return OK;
}

int speeds_from_database(const char *db, const struct cluster *here, double **speeds)
{
    struct cluster known = cluster_unknown();
    struct store *store = known_open(db, 0);

    known_cluster(store, here, &known);
    store_close(store);
    if (known.ranks != here->ranks || !rank_speeds_known(&known))
        return fail(UNSUPPORTED,
                    "the speeds of these ranks (%u) are not known: `moetune probe` measures them; "
                    "or give --speeds",
                    here->ranks);
    TRY(make_room(here->ranks, speeds));
    rank_speeds_list(known.rank_speeds_percent, *speeds);
    return OK;
}

/* Finds the speeds on rank 0, because only rank 0 has a database. */
static int find_speeds(const char *list, const struct cluster *here, uint32_t ranks,
                       double **speeds)
{
    uint32_t given;

    if (!list && here->ranks == ranks)
        return speeds_from_database(NULL, here, speeds);
    if (!list)
        return fail(ERR_ARGUMENT, "--shares speed: the speeds of ranks that do not exist are "
                                  "not known: give --speeds");
    TRY(speeds_parse(list, speeds, &given));
    if (given == ranks)
        return OK;
    free(*speeds);
    *speeds = NULL;
    return fail(ERR_ARGUMENT, "--speeds %s: these are %u speeds, but there are %u ranks", list,
                given, ranks);
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
