/* moetune override: pins plans, which look-ups then answer whatever was measured. */
#include "array.h"
#include "buckets.h"
#include "common_rows.h"
#include "declaration.h"
#include "gpu_list.h"
#include "layer_options.h"
#include "layer_plans.h"
#include "plan.h"
#include "quote.h"
#include "shape.h"
#include "space_file.h"
#include "status.h"
#include "store.h"
#include "tables.h"
#include "text.h"
#include "trainer_view.h"
#include "verbs.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The values of the options in `rows`. */
struct options {
    struct stated_layer stated;
    uint32_t window;
    const char *space, *key, *class; /* of a declared space */
    const char *buckets, *plan, *why, *fingerprint, *db;
};

static const struct option_row rows[] = {
    BUCKETS_ROW(OPTION(buckets), "the buckets from LO to HI"),
    { "space", "NAME|FILE", OPTION_TEXT, OPTION(space),
      "a layer of this declared space; layer options only if it has several layers" },
    { "key", "N", OPTION_TEXT, OPTION(key),
      "instead of --buckets: the range of this key of the space" },
    { "class", "X", OPTION_TEXT, OPTION(class),
      "and only this class beside the key [all classes]" },
    { "plan", "PLAN", OPTION_TEXT, OPTION(plan), "the plan to pin, as \"r=1 d=2 a=2dh\"" },
    { "why", "TEXT", OPTION_TEXT, OPTION(why), "the reason, for later readers" },
    WINDOW_ROW(OPTION(window), "that of the table that answers"),
    FINGERPRINT_ROW(OPTION(fingerprint)),
    DB_ROW(OPTION(db)),
    { "layer", .kind = OPTION_GROUP, .offset = OPTION(stated), .rows = stated_layer_rows },
    { NULL },
};

static const struct options defaults = { .stated = STATED_LAYER_DEFAULTS };

/* What is pinned or unpinned: a layer, the cluster of the database that has it, and buckets. */
struct target {
    const struct options *options;
    struct store *store;
    struct moe_shape shape;
    struct moe_shape second_shape;   /* another layer of the space: then it is ambiguous */
    const struct declaration *space; /* the newest version of the space, and its last shape id */
    int64_t space_shape;
    struct override_row row;
    int64_t *clusters;      /* that have the layer; verb_override() frees them */
    size_t count;           /* the number of clusters; for `list`, of pins */
    struct cluster cluster; /* the current one, and its hash */
    char hex[2 * HASH_BYTES + 1];
};

static int read_cluster(struct target *t, int64_t id)
{
    TRY(store_cluster_get(t->store, id, &t->cluster));
    cluster_hex(&t->cluster, t->hex);
    return OK;
}

/* Whether the hash of the current cluster begins as --fingerprint does. */
static bool is_cluster_wanted(const struct target *t)
{
    return cluster_hex_agrees(t->hex, t->options->fingerprint);
}

/* Adds the cluster of an entry of the layer.  Entries come sorted by cluster. */
static int match_layer(void *self, const struct entry_row *entry)
{
    struct target *t = self;
    struct moe_shape shape;

    TRY(store_shape_get(t->store, entry->shape, &shape));
    if (!shape_equal(&shape, &t->shape) ||
        (t->options->window && entry->window != t->options->window) ||
        (t->count && entry->cluster == t->row.cluster))
        return OK;
    TRY(read_cluster(t, entry->cluster));
    if (!is_cluster_wanted(t))
        return OK;
    ARRAY_APPEND(t->clusters, t->count, entry->cluster);
    t->row.cluster = entry->cluster;
    t->row.shape = entry->shape;
    return OK;
}

/* Finds the layer's cluster and the width of its buckets: that of --window, or of the table that
 * answers. */
static int find_layer(struct target *t)
{
    const struct options *o = t->options;
    struct trainer_view trainers;
    int rc;

    TRY(store_entries(t->store, 0, 0, match_layer, t));
    if (!t->count) {
        char width[48] = "";

        if (o->window)
            snprintf(width, sizeof(width), " with buckets of width %u", o->window);
        note("the database holds no layer %s%s%s%s (see moetune show)", SHAPE_TEXT(&t->shape),
             width, o->fingerprint ? " on a cluster whose hash begins with " : "",
             o->fingerprint ? o->fingerprint : "");
        return UNSUPPORTED;
    }
    if (t->count > 1) {
        rc = fail(ERR_AMBIGUOUS,
                  "%zu clusters of the database hold the layer %s; choose one by --fingerprint:",
                  t->count, SHAPE_TEXT(&t->shape));
        for (size_t i = 0; i < t->count; i++) {
            TRY(read_cluster(t, t->clusters[i]));
            note("  --fingerprint %.12s  %s, %s", t->hex, t->cluster.backend,
                 UTF8_LINE(t->cluster.device));
        }
        return rc;
    }
    rc = trainer_view_read(t->store, &trainers);
    t->row.window =
        o->window ? o->window : trainer_view_width(&trainers, t->row.cluster, t->row.shape);
    trainer_view_free(&trainers);
    return rc;
}

/* Finds the newest version of the space, as moelookup_space() does. */
static int match_newest(void *self, const struct entry_row *entry)
{
    struct target *t = self;
    const struct declaration *space;
    struct moe_shape shape;

    TRY(store_shape_get(t->store, entry->shape, &shape));
    space = declaration_find(shape.space);
    if (!space || !declaration_is_called(space, t->options->space) ||
        entry->shape <= t->space_shape)
        return OK;
    TRY(read_cluster(t, entry->cluster));
    if (!is_cluster_wanted(t))
        return OK;
    t->space = space;
    t->space_shape = entry->shape;
    return OK;
}

static int match_space(void *self, const struct entry_row *entry)
{
    struct target *t = self;
    struct moe_shape shape;

    TRY(store_shape_get(t->store, entry->shape, &shape));
    if (!t->space || shape.space != t->space->id || !stated_layer_fits(&t->options->stated, &shape))
        return OK;
    TRY(read_cluster(t, entry->cluster));
    if (!is_cluster_wanted(t))
        return OK;
    if (!t->shape.struct_size)
        t->shape = shape;
    else if (!shape_equal(&shape, &t->shape))
        t->second_shape = shape;
    return OK;
}

/* Chooses the layer that options describe or, for a space, the one that the database has. */
static int choose_layer(struct target *t)
{
    const struct options *o = t->options;
    struct moe_shape parsed = MOE_SHAPE_INIT;

    if (!o->space)
        return stated_layer_shape(&o->stated, gpus_dtype(gpus_device("auto")), &t->shape);
    if (o->stated.shape && shape_parse(o->stated.shape, &parsed))
        return ERR_ARGUMENT;
    TRY(store_entries(t->store, 0, 0, match_newest, t));
    TRY(store_entries(t->store, 0, 0, match_space, t));
    if (t->second_shape.struct_size)
        return fail(ERR_AMBIGUOUS,
                    "--space %s: the database has several layers of it; choose one by options or "
                    "--shape: %s; %s",
                    o->space, SHAPE_TEXT(&t->shape), SHAPE_TEXT(&t->second_shape));
    if (!t->shape.struct_size)
        return fail(ERR_ARGUMENT,
                    "--space %s: the database has no layer of it that agrees with the other "
                    "options%s (see moetune show)",
                    o->space,
                    o->fingerprint ? ", on a cluster whose hash begins with that of --fingerprint"
                                   : "");
    return OK;
}

/* ---- the range */

static int read_range(struct target *t)
{
    const struct options *o = t->options;
    const struct declaration *space = declaration_find(t->shape.space);
    double class = 0;
    uint64_t key;

    if (!o->buckets == !o->key || (o->class && !o->key))
        return fail(ERR_ARGUMENT, "--buckets LO:HI is wanted, or --key N [--class X] of a space");
    if (!o->key)
        return layer_plans_buckets(o->buckets, &t->row.first, &t->row.last);
    if (!space)
        return fail(ERR_ARGUMENT, "--key goes with --space, or a --shape that has one");
    TRY(space_key_read("key", o->key, &key));
    if (o->class)
        TRY(space_class_read(o->class, &class));
    if (o->class && !space->class_edges)
        return fail(ERR_ARGUMENT, "--class %s: the space %s has none", o->class, space->name);
    buckets_find((struct buckets){ space, 1 }, key, class, &t->row.first);
    t->row.last = t->row.first;
    if (!o->class) /* all classes of the space */
        t->row.last += declaration_classes(space) - 1;
    return OK;
}

static int read_plan(struct target *t)
{
    const struct options *o = t->options;
    const struct declaration *space = declaration_find(t->shape.space);

    if (!o->plan || !o->why)
        return fail(ERR_ARGUMENT, "--plan and --why are wanted");
    if (!t->shape.space) {
        TRY(layer_options_plan(o->plan, &t->row.plan));
    } else if (plan_parse(o->plan, &t->row.plan)) {
        /* The plan need not name its space, which is the layer's. */
        uint32_t choice;

        if (!declaration_scan(space, o->plan, &choice))
            return fail(ERR_ARGUMENT, "--plan \"%s\": %s has no such axis or value", o->plan,
                        space->name);
        t->row.plan = declared_plan(t->shape.space, choice);
    }
    TRY(plan_check(&t->row.plan, &t->shape));
    t->row.plan = plan_canonical(t->row.plan, &t->shape);
    if (!text_put(t->row.why, sizeof(t->row.why), "%s", o->why))
        return fail(ERR_ARGUMENT, "--why: more than %zu letters", sizeof(t->row.why) - 1);
    t->row.since_s = time(NULL);
    return OK;
}

/* Prints buckets, their width, which few people remember, and keys. */
static void print_range(const struct moe_shape *shape, uint32_t first, uint32_t last,
                        const struct override_row *row)
{
    struct buckets buckets = buckets_of(shape, row->window);

    printf("buckets %u-%u of width %u, %s %s: %s ", first, last, row->window,
           buckets_key_name(buckets), BUCKETS_TEXT(buckets, first, last), PLAN_TEXT(&row->plan));
}

/* Prints the pins of the range that end now. */
static int print_ended_pins(const struct target *t)
{
    const struct override_row *range = &t->row;
    struct row_list pins;

    TRY(store_overrides(t->store, &pins));
    EACH_ROW (override_row, row, pins) {
        if (!SAME_TABLE(row, range) || row->last < range->first || row->first > range->last)
            continue;
        print_range(&t->shape, row->first > range->first ? row->first : range->first,
                    row->last < range->last ? row->last : range->last, row);
        fputs("is pinned no more (", stdout);
        quote_plain(row->why, stdout);
        fputs(")\n", stdout);
    }
    free(pins.rows);
    return OK;
}

static int pin_buckets(struct target *t)
{
    struct buckets buckets;
    struct cluster cluster;

    TRY(choose_layer(t));
    TRY(read_range(t));
    buckets = buckets_of(&t->shape, 1);
    /* A space has a last bucket.  `unset` may name buckets beyond it, which does no harm. */
    if (t->row.last >= buckets_end(buckets))
        return fail(ERR_ARGUMENT, "--buckets %s: the space %s has those from 0 to %u",
                    t->options->buckets, buckets.declared->name,
                    (uint32_t)buckets_end(buckets) - 1);
    TRY(read_plan(t));
    TRY(find_layer(t));
    TRY(store_cluster_get(t->store, t->row.cluster, &cluster));
    /* No trial checks a pinned plan, so it is checked here. */
    if (t->row.plan.a == MOE_A2A_NCCL && !cluster_has_library_a2a(&cluster))
        return fail(ERR_ARGUMENT,
                    "--plan \"%s\": the cluster of this table has no all-to-all of NCCL (2.28 and "
                    "later have one)",
                    t->options->plan);
    TRY(print_ended_pins(t));
    TRY(store_override_add(t->store, &t->row));
    TRY(store_publish(t->store));
    print_range(&t->shape, t->row.first, t->row.last, &t->row);
    puts("is pinned");
    return OK;
}

static int unpin_buckets(struct target *t)
{
    uint32_t count;

    TRY(choose_layer(t));
    TRY(read_range(t));
    TRY(find_layer(t));
    TRY(print_ended_pins(t));
    TRY(store_override_end(t->store, t->row.cluster, t->row.shape, t->row.window, t->row.first,
                           t->row.last, &count));
    TRY(store_publish(t->store));
    printf("%u taken away\n", count);
    if (!count)
        note("buckets have width %u here; `moetune override list` prints all pins", t->row.window);
    return count ? OK : UNSUPPORTED;
}

static int list_pins(struct target *t)
{
    struct moe_shape shape;
    struct row_list pins;
    int rc = OK;

    TRY(store_overrides(t->store, &pins));
    EACH_ROW (override_row, row, pins) {
        TRY_OUT(store_shape_get(t->store, row->shape, &shape));
        TRY_OUT(read_cluster(t, row->cluster));
        if (!is_cluster_wanted(t))
            continue;
        t->count++;
        printf("%s, cluster %.12s: ", SHAPE_TEXT(&shape), t->hex);
        print_range(&shape, row->first, row->last, row);
        printf("since %s UTC: %s\n", DATE_TEXT(row->since_s, DATE_MINUTE), UTF8_LINE(row->why));
    }
    if (!t->count) {
        note("no plan is pinned%s%s",
             t->options->fingerprint ? " on a cluster whose hash begins with " : "",
             t->options->fingerprint ? t->options->fingerprint : "");
        rc = UNSUPPORTED;
    }
out:
    free(pins.rows);
    return rc;
}

static const struct {
    const char *name;
    int (*run)(struct target *target);
    bool writes;
} actions[] = { { "set", pin_buckets, true },
                { "unset", unpin_buckets, true },
                { "list", list_pins, false } };

static int verb_override(const struct verb_call *call, void *options)
{
    struct options *o = options;
    struct target t = { .options = o };
    char path[PATH_MAX], space_name[SPACE_NAME_BYTES];
    size_t action = 0;
    int rc;

    TRY(space_name_of(&o->space, space_name));
    while (strcmp(actions[action].name, call->arguments[0]) != 0)
        action++;
    TRY(store_path(o->db, STORE_TO_READ, path, sizeof(path)));
    /* A pin belongs to something that was measured, so no database is created for it. */
    TRY(store_read(path, &t.store));
    if (actions[action].writes) {
        store_close(t.store);
        TRY(store_open(path, 0, &t.store));
    }
    rc = actions[action].run(&t);
    free(t.clusters);
    store_close(t.store);
    return rc;
}

const struct verb override_verb = {
    .name = "override",
    .summary = "pin a plan for some buckets, with a reason",
    .arguments = "set|unset|list",
    .least = 1,
    .most = 1,
    .about = "`set` pins a plan for some buckets of a layer that is in the database. Look-ups "
             "answer a pinned plan before any measured one. `unset` ends the pins in these "
             "buckets. A pin's other buckets stay pinned. `list` prints all pins.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .example = "override set --experts 2 --buckets 4:9 --plan r=1 --why hangs",
    .run = verb_override,
};
