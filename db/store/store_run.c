/* Rows of runs of the tuner. */
#include "store_inside.h"

#include "status.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const run_state_words[] = { "running", "complete", "interrupted",
                                        "failed",  "killed",   NULL };

#define AT(member) ROW_AT(struct run_row, member)
static const struct row_field fields[] = {
    { "id", ROW_INTEGER, AT(id) },
    { "fingerprint", ROW_INTEGER, AT(cluster) },
    { "state", ROW_ENUM, AT(state), .words = run_state_words },
    { "started_s", ROW_INTEGER, AT(started_s) },
    { "updated_s", ROW_INTEGER, AT(updated_s) },
    { "seed", ROW_INTEGER, AT(seed) },
    { "search", ROW_TEXT, AT(search) },
    { "effort", ROW_TEXT, AT(effort) },
    { "command", ROW_TEXT, AT(command) },
    { "version", ROW_TEXT, AT(version) },
    { "buckets_planned", ROW_INTEGER, AT(buckets_planned) },
    { "buckets_done", ROW_INTEGER, AT(buckets_done) },
    { "samples_search", ROW_INTEGER, AT(samples_search) },
    { "samples_default", ROW_INTEGER, AT(samples_default) },
    { "samples_warm", ROW_INTEGER, AT(samples_warm) },
    { "now", ROW_TEXT, AT(now) },
};
#undef AT
const struct row_table run_table = ROW_TABLE("run", struct run_row, fields);

int store_run_begin(struct store *store, struct run_row *run)
{
    TRY(records_next_id(&store->records, run_table.name, &run->id));
    return store_run_update(store, run);
}

int store_run_update(struct store *store, const struct run_row *run)
{
    struct run_row now = *run;

    now.updated_s = time(NULL);
    return row_put(&store->records, &run_table, &now);
}

/* Whoever writes to it, or to the database that it is a snapshot of. */
static bool has_writer(const struct store *store)
{
    char owner[PATH_MAX];
    size_t length = strlen(store->path), ending = strlen(".published");

    if (length > ending && !strcmp(store->path + length - ending, ".published"))
        length -= ending;
    return text_put(owner, sizeof(owner), "%.*s.owner", (int)length, store->path) &&
           lease_is_held(owner);
}

int store_runs(struct store *store, struct row_list *out)
{
    const struct row_query query = { &run_table, .rest = "ORDER BY id DESC" };
    bool running = has_writer(store); /* the newest one alone can be */
    struct run_row *runs;

    TRY(row_list(&store->records, &query, out));
    runs = out->rows;
    for (size_t i = 0; i < out->count; i++)
        if (runs[i].state == RUN_RUNNING && !(running && i == 0))
            runs[i].state = RUN_KILLED;
    return OK;
}
