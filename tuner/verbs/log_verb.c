/* moetune log: what the dictionary said before, and why it changed its mind. */
#include "options.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "store.h"
#include "verbs.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

struct log_options {
    const char *db;
    uint32_t lines;
};

#define AT(field) offsetof(struct log_options, field)
static const struct option_row rows[] = {
    { "lines", "N", OPTION_COUNT, AT(lines), "at most so many", NULL, 'n' },
    { "db", "FILE", OPTION_TEXT, AT(db), "the database ($MOETUNE_DB, or the user's)", NULL },
};
#undef AT
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static const struct log_options defaults = { .lines = 100 };

static void print_help(void)
{
    printf("usage: moetune log [options]\n\nPrints entries that were replaced, the latest first: "
           "when, why, and what they said.\n\n");
    options_print(rows, ROW_COUNT, &defaults);
    printf("\nexample: moetune log -n 20\n");
}

struct printing {
    struct store *store;
    uint32_t left, printed;
};

static int print_row(void *self, const struct history_row *row)
{
    struct printing *p = self;
    char plan[PLAN_TEXT_BYTES] = "?", layer[SHAPE_TEXT_BYTES], when[32];
    struct moe_shape shape;

    if (!p->left--)
        return UNSUPPORTED;
    TRY(store_shape_get(p->store, row->shape, &shape));
    shape_format(&shape, layer, sizeof(layer));
    moe_plan_format(&row->plan, plan, sizeof(plan));
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", gmtime(&row->replaced_s));
    printf("%s  %-24s %s, bucket %u of width %u: was %s (%s%s), %.1f us against %.1f us\n", when,
           row->why, layer, row->bucket, row->window, plan, row->decision,
           row->inferred ? ", inferred" : "", row->time_us, row->default_us);
    p->printed++;
    return OK;
}

int log_main(int argc, char **argv)
{
    struct log_options o = defaults;
    struct printing p = { .printed = 0 };
    char path[PATH_MAX];
    bool help = false;
    int first = argc, rc;

    TRY(options_parse(rows, ROW_COUNT, argc, argv, &o, &first, &help));
    if (help) {
        print_help();
        return OK;
    }
    if (first < argc)
        return fail(ERR_ARGUMENT, "log takes no argument \"%s\"", argv[first]);
    TRY(store_path(o.db, false, path, sizeof(path)));
    TRY(store_read(path, &p.store));
    p.left = o.lines;
    rc = store_history(p.store, print_row, &p);
    store_close(p.store);
    return rc < 0 ? rc : (p.printed ? OK : UNSUPPORTED);
}
