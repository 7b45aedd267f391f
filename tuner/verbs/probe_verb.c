/* moetune probe: what this machine is like, as a description of a cluster. */
#include "discover.h"
#include "fault.h"
#include "gpu_list.h"
#include "launch.h"
#include "options.h"
#include "place.h"
#include "probe_print.h"
#include "status.h"
#include "store.h"
#include "verbs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

struct probe_options {
    uint32_t ranks, ranks_per_node;
    uint64_t seed;
    double seconds;
    const char *device, *db;
    const char *launcher_arguments;
    bool no_store, json, quiet;
};

static const struct probe_options defaults = { .seed = 1, .seconds = 8, .device = "auto" };

#define AT(field) offsetof(struct probe_options, field)
static const struct option_row rows[] = {
    { "ranks", "N", OPTION_COUNT, AT(ranks), "ranks to start here (4, or what a launcher started)",
      NULL },
    { "ranks-per-node", "M", OPTION_COUNT, AT(ranks_per_node), "pretend that nodes hold M ranks",
      NULL },
    { "seconds", "S", OPTION_NUMBER, AT(seconds), "of rounds, about; at least 5 rounds are made",
      NULL },
    { "device", "NAME", OPTION_TEXT, AT(device), "back end", NULL },
    { "db", "FILE", OPTION_TEXT, AT(db), "the database ($MOETUNE_DB, or under $XDG_DATA_HOME)",
      NULL },
    { "launcher-args", "ARGS", OPTION_TEXT, AT(launcher_arguments),
      "more words for mpirun, blanks between", NULL },
    { "no-store", NULL, OPTION_FLAG, AT(no_store), "only print", NULL },
    { "seed", "N", OPTION_SEED, AT(seed), "of the order", NULL },
    { "quiet", NULL, OPTION_FLAG, AT(quiet), "no progress", NULL },
    { "json", NULL, OPTION_FLAG, AT(json), "print one JSON object", NULL },
};
#undef AT
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static void print_help(void)
{
    printf(
        "usage: moetune probe [HOSTS] [options]\n\n"
        "Measures this machine: links inside and between nodes, alone and beside compute; speed "
        "of\nproducts, of memory and of every rank; how steady steps are.  Prints a description "
        "that\n`moetune tune --sim` replays, and stores it for `moetune tune` to start from.\n\n");
    options_print(rows, ROW_COUNT, &defaults);
    printf("\nexample: moetune probe --ranks 4 >machine.txt && moetune tune --sim machine.txt\n");
}

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

/* ---- what rank 0 does with it */

static int open_store(const struct probe_options *o, char *path, size_t size, struct store **out)
{
    TRY(store_path(o->db, true, path, size));
    return store_open(path, 0, out);
}

static int keep(struct store *store, const char *path, const struct cluster *measured)
{
    int64_t id;

    TRY(store_cluster_model(store, measured, &id));
    TRY(store_publish(store));
    note("stored in %s: moetune tune starts from it", path);
    return OK;
}

/* ---- on the ranks */

static int probe_ranks(struct world *world, struct engine *engine, struct store *store,
                       const char *path, const struct probe_options *o)
{
    bool first = world_topology(world)->rank == 0;
    struct ticker ticker = { store, first && !o->quiet, o->seconds, 0 };
    struct probe_setup setup = { world, engine, o->seconds, o->seed, tick, &ticker };
    struct probe *probe = NULL;
    struct discovery found;
    int rc;

    TRY(discover(world, o->device, o->ranks_per_node, &found));
    rc = probe_open(&setup, &found.cluster, &probe);
    discovery_free(&found);
    TRY(rc);
    rc = first ? probe_print(probe, o->json) : OK;
    if (!rc && store)
        rc = keep(store, path, &probe->model);
    probe_close(probe);
    return world_settle(world, rc);
}

static int on_rank(struct world *world, const struct probe_options *o)
{
    const struct topology *t = world_topology(world);
    bool stores = t->rank == 0 && !o->no_store;
    struct engine engine = { 0 };
    const char *device = NULL;
    struct store *store = NULL;
    char path[PATH_MAX];
    int rc;

    if (o->ranks && o->ranks != (uint32_t)t->ranks)
        return fail(ERR_ARGUMENT, "--ranks %u, but the launcher started %d", o->ranks, t->ranks);
    TRY(world_settle(world, fault_setup(t->rank)));
    TRY(world_settle(world, stores ? open_store(o, path, sizeof(path), &store) : OK));
    TRY_OUT(gpus_agree_device(world, o->device, &device));
    TRY_OUT(engine_open(world, device, NULL, &engine));
    rc = probe_ranks(world, &engine, store, path, o);
out:
    engine_close(&engine);
    store_close(store);
    return rc;
}

/* A database that cannot be written is found before anything is measured. */
static int start_ranks(const struct probe_options *o, const char *hosts, char **argv)
{
    struct launch_where where;
    struct hosts list;
    struct store *store = NULL;
    char path[PATH_MAX];

    TRY(place_check_device(o->device, hosts));
    TRY(launch_place(hosts, o->ranks, o->launcher_arguments, place_ranks(o->device), &list,
                     &where));
    hosts_free(&list);
    if (o->ranks_per_node && where.ranks % o->ranks_per_node)
        return fail(ERR_ARGUMENT, "--ranks-per-node %u does not divide %u ranks", o->ranks_per_node,
                    where.ranks);
    if (!o->no_store)
        TRY(open_store(o, path, sizeof(path), &store));
    store_close(store);
    return launch_verb(hosts, o->ranks, o->launcher_arguments, place_ranks(o->device), argv);
}

int probe_main(int argc, char **argv)
{
    struct probe_options o = defaults;
    bool help = false;
    struct world *world;
    int first = argc, rc;

    TRY(options_parse(rows, ROW_COUNT, argc, argv, &o, &first, &help));
    if (help) {
        print_help();
        return OK;
    }
    if (first < argc - 1)
        return fail(ERR_ARGUMENT, "probe takes no argument \"%s\" (HOSTS is one)", argv[first + 1]);
    if (!(o.seconds >= 0 && o.seconds <= 3600))
        return fail(ERR_ARGUMENT, "--seconds %g: from 0 to 3600 is wanted", o.seconds);
    if (!launch_is_rank())
        return start_ranks(&o, first < argc ? argv[first] : NULL, argv - 1);
    TRY(world_open((int)o.ranks_per_node, &world));
    rc = on_rank(world, &o);
    world_close(world);
    return rc;
}
