/* moetune override: plans that a person pins, whatever was measured. */
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "store.h"
#include "tune_options.h"
#include "verbs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct override_options {
    struct layer_options layer;
    uint32_t ranks, ranks_per_node, window;
    const char *shape, *buckets, *plan, *why, *db;
};

#define AT(field) offsetof(struct override_options, field)
static const struct option_row rows[] = {
    { "ranks", "N", OPTION_COUNT, AT(ranks), "ranks of the group", NULL },
    { "ranks-per-node", "M", OPTION_COUNT, AT(ranks_per_node), "ranks on a node (all of them)",
      NULL },
    LAYER_OPTION_ROWS(struct override_options),
    { "shape", "TEXT", OPTION_TEXT, AT(shape), "the layer as text, as `moetune show` prints it",
      NULL },
    { "window", "R", OPTION_COUNT, AT(window), "width of a bucket in rows", NULL },
    { "buckets", "LO:HI", OPTION_TEXT, AT(buckets), "buckets the plan is pinned for", NULL },
    { "plan", "PLAN", OPTION_TEXT, AT(plan), "\"r=1 d=2 a=2dh\"", NULL },
    { "why", "TEXT", OPTION_TEXT, AT(why), "the reason, for those who come later", NULL },
    { "db", "FILE", OPTION_TEXT, AT(db), "the database ($MOETUNE_DB, or the user's)", NULL },
};
#undef AT
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static const struct override_options defaults = { .layer = LAYER_DEFAULTS,
                                                  .ranks = 4,
                                                  .window = 128 };

static void print_help(void)
{
    printf("usage: moetune override set|unset|list [options]\n\n"
           "Pins a plan for a range of buckets of a layer that is in the database; look-ups answer "
           "it\nbefore anything that was measured.  unset takes away what overlaps the range.\n\n");
    options_print(rows, ROW_COUNT, &defaults);
    printf("\nexample: moetune override set --experts 2 --buckets 4:9 --plan \"r=1 d=2\" "
           "--why \"2dh hangs on node 7\"\n");
}

/* The layer as tune would see it; the cluster: any one of the database with as many ranks. */
struct target {
    const struct override_options *options;
    struct store *store;
    struct moe_shape shape;
    struct override_row row;
    int found;
};

static int match(void *self, const struct entry_row *entry)
{
    struct target *t = self;
    struct moe_shape shape;

    TRY(store_shape_get(t->store, entry->shape, &shape));
    if (!shape_equal(&shape, &t->shape) || entry->window != t->options->window)
        return OK;
    t->found += !t->found || entry->cluster != t->row.cluster;
    t->row.cluster = entry->cluster;
    t->row.shape = entry->shape;
    return OK;
}

static int find_layer(struct target *t)
{
    char text[SHAPE_TEXT_BYTES];

    TRY(store_entries(t->store, 0, 0, match, t));
    if (t->found == 1)
        return OK;
    shape_format(&t->shape, text, sizeof(text));
    if (!t->found)
        note("the database holds no layer %s with buckets of width %u (see moetune show)", text,
             t->options->window);
    return t->found ? fail(ERR_AMBIGUOUS, "%d clusters of the database hold the layer %s", t->found,
                           text)
                    : UNSUPPORTED;
}

static int take_shape(struct target *t)
{
    const struct override_options *o = t->options;

    t->shape =
        layer_options_shape(&o->layer, o->ranks, o->ranks_per_node ? o->ranks_per_node : o->ranks);
    if (o->shape && shape_parse(o->shape, &t->shape))
        return ERR_ARGUMENT;
    return shape_check(&t->shape);
}

static int take_range(struct target *t)
{
    char end;
    int n;

    if (!t->options->buckets)
        return fail(ERR_ARGUMENT, "--buckets LO:HI is wanted");
    n = sscanf(t->options->buckets, "%u:%u%c", &t->row.first, &t->row.last, &end);
    if (n == 1)
        t->row.last = t->row.first;
    if (n < 1 || n > 2 || t->row.last < t->row.first)
        return fail(ERR_ARGUMENT, "--buckets %s: \"LO:HI\" is wanted", t->options->buckets);
    t->row.window = t->options->window;
    return OK;
}

static int take_plan(struct target *t)
{
    const struct override_options *o = t->options;

    if (!o->plan || !o->why || !*o->why)
        return fail(ERR_ARGUMENT, "--plan and --why are wanted");
    if (plan_parse(o->plan, &t->row.plan))
        return fail(ERR_ARGUMENT, "--plan \"%s\": a plan reads \"r=1 d=2 a=2dh\"", o->plan);
    TRY(plan_check(&t->row.plan, &t->shape));
    t->row.plan = plan_canonical(t->row.plan);
    snprintf(t->row.why, sizeof(t->row.why), "%s", o->why);
    t->row.since_s = time(NULL);
    return OK;
}

static int set(struct target *t)
{
    TRY(take_shape(t));
    TRY(take_range(t));
    TRY(take_plan(t));
    TRY(find_layer(t));
    TRY(store_override(t->store, &t->row));
    return store_publish(t->store);
}

static int unset(struct target *t)
{
    uint32_t count;

    TRY(take_shape(t));
    TRY(take_range(t));
    TRY(find_layer(t));
    TRY(store_override_end(t->store, t->row.cluster, t->row.shape, t->row.window, t->row.first,
                           t->row.last, &count));
    TRY(store_publish(t->store));
    printf("%u taken away\n", count);
    return count ? OK : UNSUPPORTED;
}

static int print_row(void *self, const struct override_row *row)
{
    struct target *t = self;
    char plan[PLAN_TEXT_BYTES], text[SHAPE_TEXT_BYTES], since[32];
    struct moe_shape shape;

    TRY(store_shape_get(t->store, row->shape, &shape));
    shape_format(&shape, text, sizeof(text));
    moe_plan_format(&row->plan, plan, sizeof(plan));
    strftime(since, sizeof(since), "%Y-%m-%d %H:%M", gmtime(&row->since_s));
    printf("%s: buckets %u-%u of width %u: %s since %s UTC: %s\n", text, row->first, row->last,
           row->window, plan, since, row->why);
    t->found++;
    return OK;
}

static int list(struct target *t)
{
    TRY(store_overrides(t->store, print_row, t));
    return t->found ? OK : UNSUPPORTED;
}

static const struct {
    const char *name;
    int (*run)(struct target *target);
    bool writes;
} actions[] = { { "set", set, true }, { "unset", unset, true }, { "list", list, false } };

static int act(const struct override_options *o, size_t action)
{
    struct target t = { .options = o };
    char path[PATH_MAX];
    int rc;

    TRY(store_path(o->db, false, path, sizeof(path)));
    /* An override belongs to something that was measured: no database is made for it. */
    TRY(store_read(path, &t.store));
    if (actions[action].writes) {
        store_close(t.store);
        TRY(store_open(path, 0, &t.store));
    }
    rc = actions[action].run(&t);
    store_close(t.store);
    return rc;
}

int override_main(int argc, char **argv)
{
    struct override_options o = defaults;
    bool help = argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h");
    size_t action = 0;
    int first = argc;

    while (!help && action < 3 && strcmp(argv[1], actions[action].name) != 0)
        action++;
    if (action == 3)
        return fail(ERR_ARGUMENT, "override: set, unset or list is wanted, not \"%s\"", argv[1]);
    if (!help)
        TRY(options_parse(rows, ROW_COUNT, argc - 1, argv + 1, &o, &first, &help));
    if (help) {
        print_help();
        return argc < 2 ? ERR_ARGUMENT : OK;
    }
    if (first < argc - 1)
        return fail(ERR_ARGUMENT, "override takes no argument \"%s\"", argv[first + 1]);
    return act(&o, action);
}
