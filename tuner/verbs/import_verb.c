/* moetune import and merge: add tables from exported files or other databases to the database. */
#include "buckets.h"
#include "common_rows.h"
#include "live.h"
#include "machine.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "store.h"
#include "table_file.h"
#include "verbs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The values of the options in `rows`. */
struct options {
    const char *db;
    bool dry, strict, quiet;
};

static const struct option_row rows[] = {
    DRY_RUN_ROW(OPTION(dry)),
    { "strict", NULL, OPTION_FLAG, OPTION(strict),
      "exit with code 3 if a bucket already has another plan" },
    { "quiet", NULL, OPTION_FLAG, OPTION(quiet), "list no conflicts" },
    DB_ROW(OPTION(db)),
    { NULL },
};

/* ---- conflicts */

/* One call of the verb: the database, and counts over all files and clusters. */
struct import_session {
    struct store *store; /* NULL until the first file has been read as a table */
    const struct options *options;
    uint32_t tables, conflicts; /* files; buckets */
    uint32_t clusters_here, clusters_elsewhere;
};

/* Prints one side of a conflict: its plan, the times of the plan and of the default plan, and how
 * it was found. */
static void print_proof(const char *whose, const struct entry_row *e)
{
    printf("  %-9s %-18s %10.1f us against %10.1f us, %u samples, %s, %s%s%s\n", whose,
           PLAN_TEXT(&e->plan), e->time_us, e->default_us, e->samples, e->effort,
           entry_tier_words[e->tier], entry_is(e, ENTRY_STALE) ? ", stale" : "",
           entry_is(e, ENTRY_CUT) ? ", cut off" : "");
}

static void print_conflict(void *self, const struct entry_row *known,
                           const struct entry_row *incoming, enum merge_outcome outcome)
{
    struct import_session *s = self;
    struct moe_shape shape = MOE_SHAPE_INIT;
    bool has_shape;

    if (s->options->quiet)
        return;
    has_shape = !store_shape_get(s->store, known->shape, &shape);
    printf("conflict: %s, %s: %s stays\n", has_shape ? SHAPE_TEXT(&shape) : "?",
           BUCKET_NAME(buckets_of(&shape, known->window), known->bucket),
           outcome == MERGE_REPLACED ? "the incoming one" : "the known one");
    print_proof("known", known);
    print_proof("incoming", incoming);
}

/* ---- files */

static int import_file(struct import_session *s, const char *path)
{
    const struct import_options options = { .conflict = print_conflict, .self = s };
    struct import_table *table = NULL;
    struct import_result result;
    const char *last_slash = strrchr(path, '/');
    int rc = table_file_read(path, last_slash ? last_slash + 1 : path, &table);

    if (rc == UNSUPPORTED) {
        note("%s holds no entries", path);
        return OK;
    }
    /* The database is opened only now, so that a refused file creates none. */
    if (!rc && !s->store) {
        bool dry = s->options->dry;
        char db[PATH_MAX];

        rc = store_path(s->options->db, dry ? STORE_CONSULT : STORE_TO_WRITE, db, sizeof(db));
        if (!rc)
            rc = dry ? store_dry_run(db, &s->store) : store_open(db, 0, &s->store);
    }
    if (!rc)
        rc = import_place(table, s->store, &options, &result);
    import_free(table);
    TRY(rc);
    s->tables++;
    s->conflicts += result.conflicts;
    if (result.known)
        printf("%s: came in before, nothing to do\n", path);
    else
        printf("%s: %u entries of %u clusters: %u new, %u the same, %u replace what was known, %u "
               "do not; %u conflicts%s\n",
               path, result.entries, result.clusters, result.added, result.same, result.replaced,
               result.lost, result.conflicts, s->options->dry ? " (nothing was written)" : "");
    return OK;
}

/* ---- whether an imported cluster is this machine */

/* Whether the name is a library that moetune finds by itself.  In the table of a program the name
 * may be that of the program's code instead. */
static bool is_library(const char *name)
{
    return !strncmp(name, "OpenBLAS ", 9) || !strncmp(name, "cuBLAS ", 7);
}

/* Describes this machine as `tune` would on such a device, for its own layer or for a program's. */
static int describe_this_machine(const struct cluster *elsewhere, const char *device,
                                 struct cluster *out)
{
    const char *library = elsewhere->compute_library;
    struct table_setup program = { .layer = is_library(library) ? NULL : library };
    char cluster_text[CLUSTER_TEXT_BYTES];

    *out = machine_cluster(device, elsewhere->ranks, elsewhere->ranks_per_node);
    out->ranks_per_rack = elsewhere->ranks_per_rack; /* racks cannot be discovered */
    if (strcmp(elsewhere->backend, "live"))
        return OK;
    cluster_format(out, cluster_text, sizeof(cluster_text));
    program.cluster = cluster_text;
    program.shape = (struct moe_shape){ .ranks = elsewhere->ranks,
                                        .ranks_per_node = elsewhere->ranks_per_node,
                                        .ranks_per_rack = elsewhere->ranks_per_rack };
    return live_cluster(&program, out);
}

static int match_this_machine(void *self, const struct cluster *elsewhere)
{
    static const char *const devices[] = { "host", "cuda" };
    struct import_session *s = self;
    struct cluster here;
    bool is_here = false;
    int64_t id;

    for (size_t i = 0; i < 2 && !is_here; i++) {
        /* A program's cluster does not say on which device its ranks computed, so both are tried.
         */
        if (strcmp(elsewhere->backend, devices[i]) && strcmp(elsewhere->backend, "live"))
            continue;
        TRY(describe_this_machine(elsewhere, devices[i], &here));
        is_here = cluster_answers(elsewhere, &here);
    }
    if (!is_here) {
        s->clusters_elsewhere++;
        return OK;
    }
    s->clusters_here++;
    cluster_take_model(&here, elsewhere); /* free memory does not identify a cluster */
    TRY(store_cluster_add(s->store, &here, &id));
    if (!cluster_same_soft(elsewhere, &here))
        return store_expire(s->store, id, 0, 0, 0, UINT32_MAX, "imported from other software");
    return OK;
}

static int verb_import(const struct verb_call *call, void *options)
{
    struct import_session s = { .options = options };
    int rc = OK;

    for (int i = 0; i < call->count; i++)
        TRY_OUT(import_file(&s, call->arguments[i]));
    if (s.tables && !s.options->dry) {
        TRY_OUT(store_clusters_elsewhere(s.store, match_this_machine, &s));
        if (s.clusters_here)
            printf("%u of the clusters is this machine: their entries answer here\n",
                   s.clusters_here);
        if (s.clusters_elsewhere)
            printf("%u clusters of other machines: their entries never answer here, unless "
                   "`moetune verify` or `tune` finds itself on one of them\n",
                   s.clusters_elsewhere);
        TRY_OUT(store_publish(s.store));
    }
    rc = !s.tables ? UNSUPPORTED : s.options->strict && s.conflicts ? ERR_WRONG : OK;
out:
    store_close(s.store);
    return rc;
}

static const char about[] =
    "Adds tables that `moetune export` wrote, or databases. A file is added as a whole, or not at "
    "all. An added entry answers only on a cluster whose hard fields are all known and equal, and "
    "only in buckets that were not measured here. If two entries meet, a fixed order chooses one: "
    "not stale, effort, date, samples. Their times play no part. The other entry goes to the "
    "history.";

const struct verb import_verb = {
    .name = "import",
    .summary = "add tables of other sites to the database",
    .arguments = "FILE...",
    .least = 1,
    .about = about,
    .rows = rows,
    .options_size = sizeof(struct options),
    .example = "import table.jsonl --dry-run",
    .run = verb_import,
};

const struct verb merge_verb = {
    .name = "merge",
    .summary = "the same as import, for databases of your own",
    .arguments = "FILE...",
    .least = 1,
    .about = about,
    .rows = rows,
    .options_size = sizeof(struct options),
    .example = "merge other.db --dry-run",
    .run = verb_import,
};
