/* moetune log: prints the entries that were replaced, and why. */
#include "buckets.h"
#include "common_rows.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "store.h"
#include "tables.h"
#include "text.h"
#include "verbs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The values of the options in `rows`. */
struct options {
    const char *db, *shape;
    uint32_t lines;
};

static const struct option_row rows[] = {
    { "lines", "N", OPTION_COUNT, OPTION(lines), "print at most N entries", .letter = 'n' },
    SHAPE_FILTER_ROW(OPTION_TEXT, OPTION(shape), ""),
    DB_ROW(OPTION(db)),
    { NULL },
};

static const struct options defaults = { .lines = 100 };

static int verb_log(const struct verb_call *call, void *options)
{
    const struct options *o = options;
    const struct entry_row *printed = NULL; /* the entry that was printed last */
    struct row_list history = { NULL, 0 };
    struct moe_shape shape = { 0 };
    struct store *store;
    char path[PATH_MAX];
    uint32_t lines = 0;
    int rc;

    (void)call;
    TRY(store_path(o->db, STORE_TO_READ, path, sizeof(path)));
    TRY(store_read(path, &store));
    /* Parsed only to report errors.  It comes after opening, because the database knows the spaces.
     */
    TRY_OUT(o->shape && shape_parse(o->shape, &shape) ? ERR_ARGUMENT : OK);
    TRY_OUT(store_history(store, &history));
    EACH_ROW (history_row, row, history) {
        const struct entry_row *entry = &row->entry;

        TRY_OUT(store_shape_get(store, entry->shape, &shape));
        if (!shape_agrees(&shape, o->shape))
            continue;
        if (lines++ == o->lines)
            break;
        if (!printed || printed->cluster != entry->cluster || printed->shape != entry->shape) {
            printf("%s", printed ? "\n" : "");
            TRY_OUT(tables_heading(store, entry->cluster, entry->shape, stdout));
        }
        printed = entry;
        printf("%s  %s  %s\n    was %s (%s%s), %.1f us against %.1f us\n",
               DATE_TEXT(row->replaced_s, DATE_SECOND), UTF8_LINE(row->why),
               BUCKET_NAME(buckets_of(&shape, entry->window), entry->bucket),
               PLAN_TEXT(&entry->plan), UTF8_LINE(entry->decision),
               entry->inferred ? ", inferred" : "", entry->time_us, entry->default_us);
    }
    if (!lines) {
        note("%s: no entry %s%s%swas replaced yet", path, o->shape ? "of \"" : "",
             o->shape ? o->shape : "", o->shape ? "\" " : "");
        rc = UNSUPPORTED;
    }
out:
    free(history.rows);
    store_close(store);
    return rc;
}

const struct verb log_verb = {
    .name = "log",
    .summary = "print replaced entries, and why they were replaced",
    .about = "Prints the entries that were replaced, the latest first: when, why, and what each "
             "one said.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .example = "log -n 20",
    .run = verb_log,
};
