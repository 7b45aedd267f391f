/* moetune probe: what this machine is like, as a description of a cluster. */
#include "common_rows.h"
#include "discover.h"
#include "fault.h"
#include "gpu_list.h"
#include "place.h"
#include "probe_print.h"
#include "status.h"
#include "store.h"
#include "unequal.h"
#include "verbs.h"

#include <limits.h>
#include <string.h>

struct options {
    struct place_setup where;
    uint64_t seed;
    double seconds;
    const char *db;
    bool no_store, json, quiet;
};

static const struct options defaults = { .where = PLACE_DEFAULTS, .seed = 1, .seconds = 8 };

static const struct option_row rows[] = {
    { .kind = OPTION_GROUP, .offset = OPTION(where), .rows = place_rows },
    { "seconds", "S", OPTION_NUMBER, OPTION(seconds),
      "of rounds, about; at least 5 rounds are made", .least = 0, .most = 3600 },
    DB_ROW(OPTION(db)),
    { "no-store", NULL, OPTION_FLAG, OPTION(no_store), "only print" },
    SEED_ROW(OPTION(seed)),
    QUIET_ROW(OPTION(quiet)),
    JSON_ROW(OPTION(json)),
    { NULL },
};

/* ---- progress, on rank 0 */

struct ticker {
    struct store *store; /* NULL: nothing is stored, or another rank does it */
    bool says;
    double wanted_s, said_s;
};

enum { SAY_EVERY_S = 3 };

static void tick(void *self, uint32_t rounds, double seconds)
{
    struct ticker *t = self;

    if (t->store)
        store_heartbeat(t->store);
    if (!t->says || seconds - t->said_s < SAY_EVERY_S)
        return;
    t->said_s = seconds;
    note("%u rounds, %.0f of about %.0f s", rounds, seconds, t->wanted_s);
}

/* ---- what rank 0 stores */

static int open_store(const struct options *o, char *path, size_t size, struct store **out)
{
    TRY(store_path(o->db, STORE_TO_WRITE, path, size));
    return store_open(path, 0, out);
}

static int store_model(struct store *store, const char *path, const struct cluster *measured)
{
    int64_t id;

    TRY(store_cluster_model(store, measured, &id));
    TRY(unequal_expire(store, id, measured));
    TRY(store_publish(store));
    note("stored in %s: moetune tune starts from it", path);
    return OK;
}

/* ---- on the ranks */

static int probe_ranks(struct world *world, struct engine *engine, const struct cluster *cluster,
                       struct store *store, const char *path, const struct options *o)
{
    bool first = world_topology(world)->rank == 0;
    struct ticker ticker = { store, first && !o->quiet, o->seconds, 0 };
    struct probe_setup setup = { world, engine, o->seconds, o->seed, tick, &ticker };
    struct probe *probe = NULL;
    int copies_beside = -1, rc;

    /* The first rank looks at copies while the others wait for the first round. */
    if (first && !strcmp(engine->device->ops->name, "cuda")) {
        struct gpus gpus = gpus_here();

        copies_beside = gpus_copies_beside(&gpus);
    }

    TRY(probe_open(&setup, cluster, &probe));
    probe->copies_beside = copies_beside;
    rc = first ? probe_print(probe, o->json) : OK;
    if (!rc && store)
        rc = store_model(store, path, &probe->model);
    probe_close(probe);
    return world_settle(world, rc);
}

static int on_rank(struct world *world, const void *options)
{
    const struct options *o = options;
    const struct topology *t = world_topology(world);
    bool stores = t->rank == 0 && !o->no_store;
    struct discovery found = { .ranks = 0 };
    struct engine engine = { 0 };
    const char *device = NULL;
    struct store *store = NULL;
    char path[PATH_MAX];
    int rc;

    TRY(world_settle(world, fault_setup(t->rank)));
    TRY(world_settle(world, stores ? open_store(o, path, sizeof(path), &store) : OK));
    TRY_OUT(gpus_agree_device(world, o->where.device, &device));
    /* The machine's cores are counted before the engine takes a share of them. */
    TRY_OUT(discover(world, o->where.device, o->where.ranks_per_node, &found));
    TRY_OUT(engine_open(world, device, NULL, &engine));
    rc = probe_ranks(world, &engine, &found.cluster, store, path, o);
out:
    discovery_free(&found);
    engine_close(&engine);
    store_close(store);
    return rc;
}

/* A database that cannot be written is found before anything is measured. */
static int check(const struct launch_where *where, const void *options)
{
    const struct options *o = options;
    struct store *store = NULL;
    char path[PATH_MAX];
    int rc = o->no_store ? OK : open_store(o, path, sizeof(path), &store);

    (void)where;
    store_close(store);
    return rc;
}

static int run(const struct verb_call *call, void *options)
{
    struct options *o = options;

    return place_run(&o->where, call, &(struct place_verb){ check, on_rank, o, true });
}

const struct verb probe_verb = {
    .name = "probe",
    .summary = "what this machine is like: links, products, noise; a file for tune --sim",
    .arguments = "[HOSTS]",
    .most = 1,
    .about = "Measures this machine: links inside and between nodes, alone and beside compute; "
             "speed of products, of memory and of every rank; how steady steps are. Prints a "
             "description that `moetune tune --sim` replays, and stores it for `moetune tune` to "
             "start from.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .example = "probe --ranks 4 >machine.txt && moetune tune --sim machine.txt",
    .run = run,
};
