/* moetune show: prints tables, trials, or how an entry came about. */
#include "common_rows.h"
#include "explain.h"
#include "layer_options.h"
#include "paste.h"
#include "shape.h"
#include "status.h"
#include "tables.h"
#include "verbs.h"

#include <limits.h>
#include <stdio.h>

/* The values of the options in `rows`. */
struct options {
    const char *db, *shape;
    struct option_list traffic;
    bool every, trials, paste, json;
    uint32_t explain, color;
};

static const struct option_row rows[] = {
    { "every", NULL, OPTION_FLAG, OPTION(every), "print a line for every bucket" },
    { "trials", NULL, OPTION_FLAG, OPTION(trials), "print every trial, and its result" },
    { "explain", "BUCKET", OPTION_COUNT, OPTION(explain),
      "print the story of an entry: what was tried, its times, and why this plan" },
    { "paste", NULL, OPTION_FLAG, OPTION(paste),
      "print C and Python lines that look the table up" },
    SHAPE_FILTER_ROW(OPTION_TEXT, OPTION(shape), ""),
    TRAFFIC_ROW("traffic", OPTION(traffic), "print the launch that is best for this traffic"),
    DB_ROW(OPTION(db)),
    JSON_ROW(OPTION(json)),
    COLOR_ROW(OPTION(color)),
    { NULL },
};

static const struct options defaults = { .explain = NOT_GIVEN };

static int print_by_options(struct store *store, const char *path, const struct options *o)
{
    if (o->json)
        return tables_json(store, 0, 0, o->shape, &o->traffic, stdout);
    if (o->trials)
        return explain_trials(store, o->shape, stdout);
    if (o->explain != NOT_GIVEN)
        return explain_bucket(store, o->shape, o->explain, stdout);
    if (o->paste)
        return paste_all(store, path, o->shape);
    return tables_print_all(store, o->shape, o->every, &o->traffic, stdout);
}

static int verb_show(const struct verb_call *call, void *options)
{
    const struct options *o = options;
    char path[PATH_MAX];
    struct moe_shape parsed = { 0 };
    struct store *store;
    int rc;

    (void)call;
    if (o->json + o->trials + o->paste + (o->explain != NOT_GIVEN) > 1)
        return fail(ERR_ARGUMENT, "--json, --trials, --paste and --explain: give one of them");
    TRY(store_path(o->db, STORE_TO_READ, path, sizeof(path)));
    TRY(store_read(path, &store));
    screen_color(o->color);
    /* Parsed only to report errors.  It comes after opening, because the database knows the spaces.
     */
    rc = o->shape && shape_parse(o->shape, &parsed) ? ERR_ARGUMENT
                                                    : print_by_options(store, path, o);
    if (rc == UNSUPPORTED && o->explain != NOT_GIVEN)
        note("%s: no table has an entry for bucket %u", path, o->explain);
    else if (rc == UNSUPPORTED && o->paste)
        note("%s holds no entry %s%s%sthat answers a trainer", path, o->shape ? "of \"" : "",
             o->shape ? o->shape : "", o->shape ? "\" " : "");
    else if (rc == UNSUPPORTED && o->shape)
        note("%s holds no layer \"%s\" (moetune show lists them)", path, o->shape);
    else if (rc == UNSUPPORTED)
        note("%s holds no entry yet (moetune tune writes them)", path);
    store_close(store);
    return rc;
}

const struct verb show_verb = {
    .name = "show",
    .summary = "print the table, as text or JSON",
    .about = "Prints the table: the best plan of every capacity bucket.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .example = "show --db moetune.db --every",
    .run = verb_show,
};
