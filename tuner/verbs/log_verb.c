/* moetune log: what the dictionary said before, and why it changed its mind. */
#include "common_rows.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "store.h"
#include "utf8.h"
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
    { "lines", "N", OPTION_COUNT, AT(lines), "at most so many", .letter = 'n' },
    DB_ROW(AT(db)),
    { NULL },
};
#undef AT

static const struct log_options defaults = { .lines = 100 };

struct printing {
    struct store *store;
    uint32_t left, printed;
};

static int print_row(void *self, const struct history_row *row)
{
    const struct entry_row *was = &row->entry;
    struct printing *p = self;
    char when[32];
    struct moe_shape shape;

    if (!p->left--)
        return UNSUPPORTED;
    TRY(store_shape_get(p->store, was->shape, &shape));
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", gmtime(&row->replaced_s));
    printf("%s  %-24s %s, bucket %u of width %u: was %s (%s%s), %.1f us against %.1f us\n", when,
           UTF8_LINE(row->why), SHAPE_TEXT(&shape), was->bucket, was->window, PLAN_TEXT(&was->plan),
           UTF8_LINE(was->decision), was->inferred ? ", inferred" : "", was->time_us,
           was->default_us);
    p->printed++;
    return OK;
}

static int run(const struct verb_call *call, void *options)
{
    const struct log_options *o = options;
    struct printing p = { .left = o->lines };
    char path[PATH_MAX];
    int rc;

    (void)call;
    TRY(store_path(o->db, false, path, sizeof(path)));
    TRY(store_read(path, &p.store));
    rc = store_history(p.store, print_row, &p);
    store_close(p.store);
    if (rc >= 0 && !p.printed)
        note("%s: no entry was replaced yet", path);
    return rc < 0 ? rc : (p.printed ? OK : UNSUPPORTED);
}

const struct verb log_verb = {
    .name = "log",
    .summary = "what the dictionary said before, and why it changed",
    .about = "Prints entries that were replaced, the latest first: when, why, and what they said.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .example = "log -n 20",
    .run = run,
};
