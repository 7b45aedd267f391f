/* Reads the entries of a table, and adds up the steps of its runs. */
#include "table_rows.h"

#include "status.h"

#include <stdlib.h>

static int add_entry(void *self, const struct entry_row *entry)
{
    struct table_rows *t = self;

    if (t->count == t->room) {
        size_t room = t->room ? 2 * t->room : 64;
        struct entry_row *entries = realloc(t->entries, room * sizeof(*entries));

        if (!entries)
            return fail(ERR_NOMEM, "%zu entries", room);
        t->entries = entries;
        t->room = room;
    }
    t->entries[t->count++] = *entry;
    return OK;
}

int table_rows_read(struct store *store, int64_t cluster, int64_t shape, struct table_rows *out)
{
    struct row_list runs;

    *out = (struct table_rows){ 0 };
    TRY(store_runs(store, &runs));
    EACH_ROW (run_row, run, runs) {
        out->timed += (double)(run->samples_search + run->samples_default);
        out->warm += (double)run->samples_warm;
    }
    free(runs.rows);
    return store_entries(store, cluster, shape, add_entry, out);
}

void table_rows_free(struct table_rows *rows)
{
    free(rows->entries);
    *rows = (struct table_rows){ 0 };
}
