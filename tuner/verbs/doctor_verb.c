/* moetune doctor: finds what would make measurements wrong on this machine. */
#include "common_rows.h"
#include "doctor.h"
#include "place.h"
#include "status.h"
#include "store.h"
#include "verbs.h"

#include <limits.h>
#include <stdio.h>

/* The values of the options in `rows`. */
struct options {
    struct place_setup where;
    const char *db;
    bool json;
};

static const struct option_row rows[] = {
    { .kind = OPTION_GROUP, .offset = OPTION(where), .rows = place_rows },
    DB_ROW(OPTION(db)),
    JSON_ROW(OPTION(json)),
    { NULL },
};

static const struct options defaults = { .where = PLACE_DEFAULTS };

/* Prints all findings; rank 0 adds those about the database. */
static int print_findings(const struct options *o, const struct findings *rank_findings)
{
    struct findings all = { .count = 0 };
    char path[PATH_MAX];

    TRY(store_path(o->db, STORE_CONSULT, path, sizeof(path)));
    doctor_database(path, &all);
    for (int i = 0; i < rank_findings->count && all.count < FINDINGS_MAX; i++)
        all.list[all.count++] = rank_findings->list[i];
    if (o->json)
        findings_print_json(&all, stdout);
    else
        findings_print(&all, FINDING_FINE, stdout);
    fflush(stdout);
    return findings_worst(&all) == FINDING_WRONG ? ERR_WRONG : OK;
}

static int on_rank(struct world *world, const void *options)
{
    const struct options *o = options;
    struct discovery discovery;
    struct findings findings;
    int rc;

    TRY(discover(world, o->where.device, o->where.ranks_per_node, &discovery));
    rc = doctor_ranks(world, &discovery, &findings);
    if (!rc && world_topology(world)->rank == 0)
        rc = print_findings(o, &findings);
    discovery_free(&discovery);
    return world_settle(world, rc);
}

static int verb_doctor(const struct verb_call *call, void *options)
{
    struct options *o = options;

    return place_run(&o->where, call, &(struct place_verb){ .on_rank = on_rank, .options = o });
}

const struct verb doctor_verb = {
    .name = "doctor",
    .summary = "find what would make measurements wrong here, and the cure",
    .arguments = "[HOSTS]",
    .most = 1,
    .about =
        "Looks for what would make a table wrong: the database's place, cores, load, clocks, "
        "libraries, network. Each finding says what it does to the numbers, and how to cure it.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .notes = "Exit code 3: a finding is WRONG.",
    .example = "doctor --ranks 2",
    .run = verb_doctor,
};
