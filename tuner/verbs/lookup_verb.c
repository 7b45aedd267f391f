/* moetune lookup: prints the plan that a trainer would get, from the library that trainers link. */
#include "capacities.h"
#include "common_rows.h"
#include "declaration.h"
#include "explain.h"
#include "gpu_list.h"
#include "json.h"
#include "launch_table.h"
#include "layer_options.h"
#include "lookup.h"
#include "plan.h"
#include "sha256.h"
#include "shape.h"
#include "space_file.h"
#include "status.h"
#include "store.h"
#include "tables.h"
#include "verbs.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The values of the options in `rows`. */
struct options {
    struct stated_layer stated;
    const char *device, *db, *space, *launch;
    const char *capacities;  /* the text of --capacities */
    struct option_list keys; /* of --key and --capacity, which mean the same */
    struct option_list traffic;
    double class;
    bool explain, digest, json;
};

static const struct option_row rows[] = {
    { "capacity", "C", OPTION_LIST, OPTION(keys),
      "capacity: rows of an expert on a rank; may be repeated", .letter = 'c' },
    { "capacities", "LIST", OPTION_TEXT, OPTION(capacities),
      "instead: the rows of each expert, in a step that drops nothing, as \"512,64*3\"" },
    { "space", "NAME|FILE", OPTION_TEXT, OPTION(space),
      "instead: a layer of this declared space; layer options only if it has several layers" },
    { "key", "N", OPTION_LIST, OPTION(keys), "key of the step, in a space; may be repeated" },
    { "class", "X", OPTION_NUMBER, OPTION(class), "class beside the key, in a space that has one",
      .least = 0, .most = 1e9 },
    { "launch", "WORDS", OPTION_TEXT, OPTION(launch),
      "look up inside this launch of the space, as \"backend=deepep ep=8\" [$MOELOOKUP_LAUNCH]" },
    TRAFFIC_ROW("traffic", OPTION(traffic),
                "look up inside the launch that is best for this traffic"),
    { "explain", NULL, OPTION_FLAG, OPTION(explain),
      "print which rung of the ladder answers, and why" },
    { "digest", NULL, OPTION_FLAG, OPTION(digest),
      "print the table's digest, to compare it elsewhere" },
    { "db", "FILE", OPTION_TEXT, OPTION(db),
      "database, snapshot or packed table [the search path]" },
    { "device", "NAME", OPTION_TEXT, OPTION(device),
      "choose among several tables that fit: a device or a hash" },
    JSON_ROW(OPTION(json)),
    { "layer", .kind = OPTION_GROUP, .offset = OPTION(stated), .rows = stated_layer_rows },
    { NULL },
};

static const struct options defaults = { .stated = STATED_LAYER_DEFAULTS, .class = NAN };

/* Prints the JSON members that every answer has.  The question comes before them. */
static void print_members(const struct moe_plan *plan, const char *why)
{
    json_write(stdout,
               "'bucket': %u, 'plan': '%s', 'source': %u, 'time_us': %.3f, 'default_us': %.3f, "
               "'why': '%s'",
               plan->bucket, PLAN_TEXT(plan), plan->source, (double)plan->time_us,
               (double)plan->default_us, why);
}

/* An answer whose entry is looked for in the database. */
struct answered {
    struct store *store;
    const struct moelookup_view *view;
    const struct moe_shape *shape;
    const struct moe_plan *plan;
};

/* Prints the doubts about the entry that answers, and its load.  It leaves out the doubts that the
 * answer itself names. */
static int explain_entry(void *self, const struct entry_row *e)
{
    const struct answered *a = self;
    uint8_t hash[HASH_BYTES];
    struct cluster cluster;
    struct moe_shape shape;

    TRY(store_shape_get(a->store, e->shape, &shape));
    if (e->bucket != a->plan->bucket || !shape_equal(&shape, a->shape) ||
        !(plan_equal(&e->plan, a->plan) || plan_equal(&e->other, a->plan)))
        return OK;
    TRY(store_cluster_get(a->store, e->cluster, &cluster));
    cluster_hash(&cluster, hash);
    if (memcmp(hash, lookup_view_cluster(a->view), sizeof(hash)) != 0)
        return OK;
    if (a->plan->source != MOE_OVERRIDE)
        explain_doubts(e, ENTRY_TIE | ENTRY_REFUTED | ENTRY_CUT, stdout);
    return explain_load(a->store, &shape, e, stdout);
}

/* Prints what only the database knows of the entry that answers; the table of a trainer has less.
 */
static void explain_answer(const char *db, const struct moelookup_view *view,
                           const struct moe_shape *shape, const struct moe_plan *plan)
{
    struct answered answered = { .view = view, .shape = shape, .plan = plan };
    char path[PATH_MAX];
    int rc;

    log_enable(false);
    rc = store_path(db, STORE_CONSULT, path, sizeof(path));
    if (!rc)
        rc = store_read(path, &answered.store);
    if (!rc) {
        (void)store_entries(answered.store, 0, 0, explain_entry, &answered);
        store_close(answered.store);
    }
    log_enable(true);
}

/* Whether an entry or a pin answered, and not only the default plan. */
static bool has_answer(const struct moe_plan *plan)
{
    return plan->source != MOE_DEFAULT && plan->source != MOE_UNCOMPARED &&
           plan->source != MOE_UNSOUND && plan->source != MOE_UNKNOWN_LAUNCH;
}

static int print_answer(const struct moelookup_view *view, const struct moe_shape *shape,
                        const struct options *o, int index, bool *all_known)
{
    struct moe_plan plan = MOE_PLAN_INIT;
    uint64_t key = 0;
    char why[1024];

    TRY(space_key_read("key", o->keys.items[index], &key));
    TRY(moelookup_get_key(view, key, o->class, &plan));
    moelookup_explain_key(view, key, o->class, why, sizeof(why));
    *all_known &= has_answer(&plan);
    if (!o->json) {
        printf("%s\n", o->explain ? why : PLAN_TEXT(&plan));
        if (o->explain && has_answer(&plan))
            explain_answer(o->db, view, shape, &plan);
        return OK;
    }
    json_write(stdout, "%s\n {'%s': %" PRIu64 ", ", index ? "," : "",
               shape->space ? "key" : "capacity", key);
    if (shape->space)
        json_write(stdout, "'class': %.6g, ", isnan(o->class) ? 0 : o->class);
    print_members(&plan, why);
    if (shape->space) { /* "class" belongs to the question; "range" is where this answer holds */
        json_write(stdout, ", 'range': {'bucket': %u", plan.bucket);
        tables_json_range(shape, plan.bucket, plan.bucket, stdout);
        printf("}");
    }
    printf("}");
    return OK;
}

/* Answers for unequal capacities.  They stand for two equal ones: one for r >= 1, one for r = 0. */
static int print_uneven_answer(const struct moelookup_view *view, const struct moe_shape *shape,
                               const struct options *o, bool *all_known)
{
    struct moe_plan plan = MOE_PLAN_INIT;
    uint32_t largest = UINT32_MAX - 1, key, key_r0, *counts;
    uint64_t *capacities;
    char why[1024];
    int rc;

    TRY(capacities_parse(o->capacities, shape->experts, shape->tokens ? shape->tokens : largest,
                         &capacities));
    counts = malloc(sizeof(*counts) * shape->experts);
    rc = counts ? OK : fail(ERR_NOMEM, "%u counts", shape->experts);
    for (uint32_t expert = 0; expert < shape->experts && !rc; expert++)
        counts[expert] = (uint32_t)capacities[expert];
    rc = rc ? rc : moelookup_get_counts(view, counts, shape->experts, &plan);
    rc = rc ? rc : moe_keys(counts, shape->experts, shape->experts, shape->ranks, &key, &key_r0);
    free(counts);
    free(capacities);
    TRY(rc);
    moelookup_explain_uneven(view, key, key_r0, why, sizeof(why));
    *all_known = has_answer(&plan);
    if (o->json) {
        json_write(stdout, "[\n {'capacities': '%s', 'key': %u, 'key_r0': %u, ", o->capacities, key,
                   key_r0);
        print_members(&plan, why);
        printf("}\n]\n");
        return OK;
    }
    printf("%s\n", o->explain ? why : PLAN_TEXT(&plan));
    if (o->explain && *all_known)
        explain_answer(o->db, view, shape, &plan);
    return OK;
}

/* Finds the one layer of a space that agrees with the options.  UNSUPPORTED: no table has the
 * space. */
static int find_space_layer(const struct moelookup *table, const struct options *o,
                            struct moe_shape *shape)
{
    struct moe_shape layer = MOE_SHAPE_INIT;
    uint32_t id, fits = 0;
    int rc = moelookup_space(table, o->space, &id);

    if (rc == ERR_ARGUMENT && !strchr(o->space, '\n'))
        return UNSUPPORTED; /* moelookup_space() has reported that no table has the space */
    TRY(rc);
    for (uint32_t i = 0; !moelookup_space_layer(table, id, i, &layer); i++)
        if (stated_layer_fits(&o->stated, &layer)) {
            *shape = layer;
            fits++;
        }
    if (fits == 1)
        return OK;
    if (!fits)
        return fail(ERR_ARGUMENT, "--space %s: no layer of it agrees with the other options",
                    o->space);
    note("--space %s: the table has several layers of it; choose one by options or --shape:",
         o->space);
    for (uint32_t i = 0; !moelookup_space_layer(table, id, i, &layer); i++)
        if (stated_layer_fits(&o->stated, &layer))
            note("  %s", SHAPE_TEXT(&layer));
    return ERR_ARGUMENT;
}

enum layer_notes { NOTE_NO_LAYER, NOTE_EACH_LAYER };

/* Counts the layers of the table, except those of spaces, that agree with the options.  A layer of
 * several clusters counts once.  If the layer `stated` is there, it is the only one.  Writes the
 * last of them to *shape. */
static uint32_t fitting_layers(const struct moelookup *table, const struct options *o,
                               const struct moe_shape *stated, struct moe_shape *shape,
                               enum layer_notes notes)
{
    uint32_t fits = 0;

    for (uint32_t i = 0; i < pack_layer_count(table->bytes); i++) {
        struct moe_shape layer = pack_layer(table->bytes, i).shape, earlier;
        bool is_skipped = layer.space || !stated_layer_fits(&o->stated, &layer);

        for (uint32_t k = 0; k < i && !is_skipped; k++) {
            earlier = pack_layer(table->bytes, k).shape;
            is_skipped = shape_equal(&earlier, &layer);
        }
        if (is_skipped)
            continue;
        if (notes == NOTE_EACH_LAYER)
            note("  --shape \"%s\"", SHAPE_TEXT(&layer));
        if (stated && shape_equal(&layer, stated)) {
            *shape = layer;
            return 1;
        }
        *shape = layer;
        fits++;
    }
    return fits;
}

/* Whether the table has only one layer, perhaps of a space, and perhaps on several clusters. */
static bool has_one_layer(const struct moelookup *table, struct moe_shape *shape)
{
    uint32_t count = pack_layer_count(table->bytes);
    bool is_one = count > 0;

    for (uint32_t i = 0; i < count && is_one; i++) {
        struct moe_shape layer = pack_layer(table->bytes, i).shape;

        is_one = !i || shape_equal(&layer, shape);
        *shape = layer;
    }
    return is_one;
}

/* Chooses the layer.  Without layer options it is the only layer of the table.  With options it is
 * the one that agrees with them; if several do, the one that `tune` would take for the same
 * options.  If none does, it is the layer that the options describe, and the default plan answers.
 */
static int choose_layer(const struct moelookup *table, const struct options *o,
                        struct moe_shape *shape)
{
    bool is_named = memcmp(&o->stated, &defaults.stated, sizeof(o->stated)) != 0;
    struct moe_shape stated;
    uint32_t fits;

    if (o->space)
        return find_space_layer(table, o, shape);
    if (!is_named && has_one_layer(table, shape))
        return OK;
    TRY(stated_layer_shape(&o->stated, gpus_dtype(gpus_device("auto")), &stated));
    fits = fitting_layers(table, o, is_named ? &stated : NULL, shape, NOTE_NO_LAYER);
    if (!fits)
        *shape = stated;
    if (fits == 1 && !shape_equal(shape, &stated))
        note("the one layer that fits is --shape \"%s\": a program has to name it whole",
             SHAPE_TEXT(shape));
    if (fits <= 1)
        return OK;
    note("the table has several layers%s; choose one by options or --shape:",
         is_named ? " that agree with the options" : "");
    (void)fitting_layers(table, o, NULL, shape, NOTE_EACH_LAYER);
    return ERR_ARGUMENT;
}

static int print_answers(const struct moelookup *table, const struct options *o)
{
    const struct declaration *space;
    struct moe_shape shape;
    struct moelookup_view *view;
    char launch_words[DECLARATION_PLAN_BYTES], path[PATH_MAX];
    bool all_known = true;
    uint64_t key;
    int rc = OK;

    if (o->launch && o->traffic.count)
        return fail(ERR_ARGUMENT, "--launch and --traffic both choose a launch: give one of them");
    TRY(choose_layer(table, o, &shape));
    space = declaration_find(shape.space);
    /* A class that the space does not have is an error, and so is a missing one: it is not class 0.
     */
    if (space && space->class_edges && isnan(o->class))
        return fail(ERR_ARGUMENT, "--class X is wanted: the space %s has a class, %s", space->name,
                    space->class_name);
    if (!(space && space->class_edges) && !isnan(o->class))
        return fail(ERR_ARGUMENT, "--class %g: %s%s has none", o->class,
                    space ? "the space " : "moetune's own layer", space ? space->name : "");
    if (space && o->capacities)
        return fail(ERR_ARGUMENT, "--capacities: the space %s has none", space->name);
    for (int i = 0; i < o->keys.count; i++) {
        TRY(space_key_read("key", o->keys.items[i], &key));
        if (!space && key > UINT32_MAX)
            return fail(ERR_ARGUMENT, "--capacity %" PRIu64 ": up to %u is wanted", key,
                        UINT32_MAX);
    }
    TRY(moelookup_bind_launch(table, &shape, o->device, o->launch, &view));
    if (o->traffic.count) {
        rc = store_path(o->db, STORE_TO_READ, path, sizeof(path));
        rc = rc ? rc
                : launch_table_choose(path, &shape, lookup_view_cluster(view), &o->traffic,
                                      launch_words);
        moelookup_view_free(view);
        TRY(rc);
        TRY(moelookup_bind_launch(table, &shape, o->device, launch_words, &view));
    }
    if (o->capacities)
        rc = print_uneven_answer(view, &shape, o, &all_known);
    else if (o->json)
        printf("[");
    for (int i = 0; i < o->keys.count && !rc; i++)
        rc = print_answer(view, &shape, o, i, &all_known);
    if (o->json && !o->capacities)
        printf("\n]\n");
    moelookup_view_free(view);
    return rc ? rc : all_known ? OK : UNSUPPORTED;
}

/* Refuses names of no file.  A trainer skips such a name on its search path, but a person should
 * hear that the name is wrong. */
static int check_database_names(const char *db)
{
    static const char *const variables[] = { "MOELOOKUP_DB", "MOETUNE_DB" };

    for (size_t i = 0; i < 2 && !db; i++) {
        const char *name = getenv(variables[i]);

        if (name && *name)
            TRY(store_check_named(name, variables[i]));
    }
    return db ? store_check_named(db, "--db") : OK;
}

static int verb_lookup(const struct verb_call *call, void *options)
{
    struct options *o = options;
    char space_name[SPACE_NAME_BYTES];
    uint8_t digest[SHA256_BYTES];
    struct moelookup *table;
    struct stat file_info;
    uint64_t key;
    int rc;

    (void)call;
    TRY(space_name_of(&o->space, space_name));
    if (o->capacities && o->keys.count)
        return fail(ERR_ARGUMENT, "lookup: --capacities and --capacity: give one of them");
    if (!o->keys.count && !o->capacities && !o->digest)
        return fail(ERR_ARGUMENT,
                    "lookup: --capacity C, --capacities LIST, --key N or --digest is wanted");
    for (int i = 0; i < o->keys.count; i++)
        TRY(space_key_read(o->space ? "key" : "capacity", o->keys.items[i], &key));
    TRY(check_database_names(o->db));

    rc = moelookup_open(o->db, &table);
    /* An empty file: its creator was killed before it stored anything.  The library has reported
     * it. */
    if (rc == MOE_ERR_FORMAT && o->db && !stat(o->db, &file_info) && S_ISREG(file_info.st_mode) &&
        !file_info.st_size)
        return UNSUPPORTED;
    TRY(rc);
    if (o->explain && table->level < LOOKUP_INFO)
        table->level = LOOKUP_INFO; /* the library then names the version of a space that answers */
    if (o->digest) {
        moelookup_digest(table, digest);
        printf("%s\n", SHA256_HEX(digest));
    }
    if (o->keys.count || o->capacities)
        rc = print_answers(table, o);
    moelookup_close(table);
    return rc;
}

const struct verb lookup_verb = {
    .name = "lookup",
    .summary = "print the plan that a trainer gets for a capacity, and why",
    .about =
        "Answers as libmoelookup answers a trainer. The layer is the one that options name, or the "
        "only one there is. Trainers search on a path: $MOELOOKUP_DB, $MOETUNE_DB, the user's "
        "database, /etc/moetune, PREFIX/share/moetune. The first that has an entry answers.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .notes = "Exit code 4: only the default plan is known, or the range has no entry inside the "
             "launch, or the table cannot compare plans for unequal capacities.",
    .example = "lookup -c 300 --explain --db moetune.db",
    .run = verb_lookup,
};
