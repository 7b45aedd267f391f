/* moetune doctor: what would make the numbers wrong here. */
#include "doctor.h"
#include "launch.h"
#include "options.h"
#include "place.h"
#include "status.h"
#include "store.h"
#include "verbs.h"

#include <limits.h>
#include <stdio.h>

struct doctor_options {
    uint32_t ranks, ranks_per_node;
    const char *device, *db, *launcher_arguments;
    bool json;
};

#define AT(field) offsetof(struct doctor_options, field)
static const struct option_row rows[] = {
    { "ranks", "N", OPTION_COUNT, AT(ranks), "ranks to start (4, or what HOSTS have room for)",
      NULL },
    { "ranks-per-node", "M", OPTION_COUNT, AT(ranks_per_node), "pretend that nodes hold M ranks",
      NULL },
    { "launcher-args", "ARGS", OPTION_TEXT, AT(launcher_arguments),
      "more words for mpirun, blanks between", NULL },
    { "device", "NAME", OPTION_TEXT, AT(device),
      "auto (cuda where every rank has a GPU), host, cuda", NULL },
    { "db", "FILE", OPTION_TEXT, AT(db), "the database ($MOETUNE_DB, or the user's)", NULL },
    { "json", NULL, OPTION_FLAG, AT(json), "one JSON array", NULL },
};
#undef AT
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static const struct doctor_options defaults = { .device = "auto" };

static void print_help(void)
{
    printf("usage: moetune doctor [HOSTS] [options]\n\n"
           "Looks for what would make a table wrong: the database's place, cores, load, clocks, "
           "libraries,\nnetwork.  Each finding says what it does to the numbers and how to cure "
           "it.\n\n");
    options_print(rows, ROW_COUNT, &defaults);
    printf("\nexit code 3: something is WRONG\nexample: moetune doctor --ranks 2\n");
}

static void append(struct findings *to, const struct findings *from)
{
    for (int i = 0; i < from->count && to->count < FINDINGS_MAX; i++)
        to->list[to->count++] = from->list[i];
}

/* Where the database lies is rank 0's affair. */
static int report(const struct doctor_options *o, const struct findings *of_ranks)
{
    struct findings all = { .count = 0 };
    char path[PATH_MAX];

    TRY(store_path(o->db, false, path, sizeof(path)));
    doctor_database(path, &all);
    append(&all, of_ranks);
    if (o->json)
        findings_print_json(&all, stdout);
    else
        findings_print(&all, FINDING_FINE, stdout);
    fflush(stdout);
    return findings_worst(&all) == FINDING_WRONG ? ERR_WRONG : OK;
}

static int on_rank(struct world *world, const struct doctor_options *o)
{
    struct discovery d;
    struct findings found;
    int rc;

    TRY(discover(world, o->device, o->ranks_per_node, &d));
    rc = doctor_ranks(world, &d, &found);
    if (!rc && world_topology(world)->rank == 0)
        rc = report(o, &found);
    discovery_free(&d);
    return world_settle(world, rc);
}

int doctor_main(int argc, char **argv)
{
    struct doctor_options o = defaults;
    struct world *world;
    bool help = false;
    int first = argc, rc;

    TRY(options_parse(rows, ROW_COUNT, argc, argv, &o, &first, &help));
    if (help) {
        print_help();
        return OK;
    }
    if (first < argc - 1)
        return fail(ERR_ARGUMENT, "doctor takes no argument \"%s\"", argv[first + 1]);
    if (!launch_is_rank()) {
        TRY(place_check_device(o.device, first < argc ? argv[first] : NULL));
        return launch_verb(first < argc ? argv[first] : NULL, o.ranks, o.launcher_arguments,
                           place_ranks(o.device), argv - 1);
    }
    TRY(world_open((int)o.ranks_per_node, &world));
    rc = on_rank(world, &o);
    world_close(world);
    return rc;
}
