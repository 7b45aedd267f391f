/* Rows of measurements: runs of the tuner, their trials, and each trial's samples and phases. */
#include "store_inside.h"

#include "status.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Runs. */

const char *const run_state_words[] = { "running", "complete", "interrupted",
                                        "failed",  "killed",   NULL };

#define AT(member) ROW_AT(struct run_row, member)
static const struct row_field run_fields[] = {
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
const struct row_table run_table = ROW_TABLE("run", struct run_row, run_fields);

int store_run_begin(struct store *store, struct run_row *run)
{
    TRY(records_next_id(&store->records, run_table.name, &run->id));
    return store_run_update(store, run);
}

int store_run_update(struct store *store, const struct run_row *run)
{
    struct run_row updated = *run;

    updated.updated_s = time(NULL);
    return row_put(&store->records, &run_table, &updated);
}

int store_runs(struct store *store, struct row_list *out)
{
    const struct row_query query = { .table = &run_table, .rest = "ORDER BY id DESC" };
    size_t path_length = strlen(store->path), ending_length = strlen(".published");
    char owner[PATH_MAX];
    struct run_row *runs;
    bool has_writer;

    /* A process that writes the database, or the one of which this is a snapshot, belongs to the
     * newest run. */
    if (path_length > ending_length &&
        !strcmp(store->path + path_length - ending_length, ".published"))
        path_length -= ending_length;
    has_writer = text_put(owner, sizeof(owner), "%.*s.owner", (int)path_length, store->path) &&
                 lease_is_held(owner);
    TRY(row_list(&store->records, &query, out));
    runs = out->rows;
    for (size_t i = 0; i < out->count; i++)
        if (runs[i].state == RUN_RUNNING && !(has_writer && i == 0))
            runs[i].state = RUN_KILLED;
    return OK;
}

/* ---- Trials. */

const char *const trial_state_words[] = { "running", "ok",     "no memory", "timeout", "crashed",
                                          "wrong",   "failed", "ruled out", NULL };

#define AT(member) ROW_AT(struct trial_row, member)
static const struct row_field trial_fields[] = {
    { "id", ROW_INTEGER, AT(id) },
    { "run", ROW_INTEGER, AT(run) },
    { "fingerprint", ROW_INTEGER, AT(key.cluster) },
    { "shape", ROW_INTEGER, AT(key.shape) },
    { "window", ROW_INTEGER, AT(key.window) },
    { "bucket", ROW_INTEGER, AT(key.bucket) },
    { "plan", ROW_PLAN, AT(key.plan) },
    { "capacity", ROW_INTEGER, AT(capacity) },
    { "state", ROW_ENUM, AT(state), .words = trial_state_words },
    { "attempts", ROW_INTEGER, AT(attempts) },
    { "memory_bytes", ROW_INTEGER, AT(memory_bytes) },
    { "sent_bytes", ROW_INTEGER, AT(sent_bytes) },
    { "messages", ROW_INTEGER, AT(messages) },
    { "node_rows", ROW_INTEGER, AT(node_rows) },
    { "compute_ns", ROW_INTEGER, AT(compute_ns) },
    { "comm_ns", ROW_INTEGER, AT(comm_ns) },
    { "message", ROW_TEXT, AT(message) },
};
#undef AT
static const struct row_table trial_table = ROW_TABLE("trial", struct trial_row, trial_fields);

#define AT(member) ROW_AT(struct sample_row, member)
static const struct row_field sample_fields[] = {
    { "id", ROW_INTEGER, AT(id) },
    { "trial", ROW_INTEGER, AT(trial) },
    { "kind", ROW_INTEGER, AT(kind), .since = 1, .most = SAMPLE_ROUNDS },
    { "round", ROW_INTEGER, AT(round), .since = 1, .most = UINT32_MAX },
    { "ns", ROW_INTEGER, AT(ns), .since = 1, .most = 1e18 },
    { "clock_mhz", ROW_INTEGER, AT(gpu.clock_mhz), .since = 2, .most = 1e6 },
    { "throttled", ROW_INTEGER, AT(gpu.throttled), .since = 2, .most = SAMPLE_SET_ASIDE },
    { "lost_ns", ROW_INTEGER, AT(lost_ns), .since = 3, .most = 1e18 },
    { "run", ROW_INTEGER, AT(run) },
    { "load", ROW_TEXT, AT(load), .since = 4, .optional = true },
};
#undef AT
const struct row_table sample_table = ROW_TABLE("sample", struct sample_row, sample_fields);

int store_trial_begin(struct store *store, struct trial_row *trial)
{
    if (!trial->id)
        TRY(records_next_id(&store->records, trial_table.name, &trial->id));
    trial->attempts++;
    return store_trial_update(store, trial);
}

int store_trial_update(struct store *store, const struct trial_row *trial)
{
    return row_put(&store->records, &trial_table, trial);
}

#define ANY_BUCKET                                                                                 \
    "WHERE (fingerprint=?1 OR ?1=0) AND (shape=?2 OR ?2=0) AND (window=?3 OR ?3=0)"                \
    " AND (bucket=?4 OR ?4=4294967295)"

int store_trials(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 uint32_t bucket, int (*each)(void *self, const struct trial_row *trial),
                 void *self)
{
    const int64_t keys[] = { cluster, shape, window, bucket };
    /* an index finds the trials of one bucket */
    const struct row_query query = { .table = &trial_table,
                                     .rest = bucket == UINT32_MAX ? ANY_BUCKET " ORDER BY id"
                                                                  : "WHERE " RECORDS_BUCKET
                                                                    " ORDER BY id",
                                     .keys = keys,
                                     .key_count = 4 };
    struct row_list list;
    int rc = OK;

    TRY(row_list(&store->records, &query, &list));
    EACH_ROW (trial_row, trial, list)
        rc = rc ? rc : each(self, trial);
    free(list.rows);
    return rc;
}

/* ---- Samples. */

int store_sample_add(struct store *store, int64_t trial, const struct sample_row *sample)
{
    struct sample_row row = *sample;

    row.trial = trial;
    TRY(store_next_sample(store, &row.id));
    return row_put(&store->records, &sample_table, &row);
}

int store_next_sample(struct store *store, int64_t *number)
{
    return records_next_id(&store->records, sample_table.name, number);
}

int store_forget(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 uint32_t bucket, enum sample_kind first, enum sample_kind last)
{
    const int64_t range[] = { cluster, shape, window, bucket, bucket, first, last };

    return records_delete(&store->records, "sample", RECORDS_KINDS, range, 7);
}

/* Where the query does not join the trial, only the trial's id is known. */
static int show_samples(struct store *store, const struct row_query *query,
                        store_sample_visitor *each, void *self)
{
    int first_sample_column = query->joined ? (int)trial_table.count : 0, rc;
    struct trial_row trial = { 0 };
    struct sample_row sample;
    sqlite3_stmt *statement;

    TRY(row_select(&store->records, query, &statement));
    while (!(rc = records_step(&store->records, statement))) {
        if (query->joined)
            row_read(&trial_table, statement, 0, &trial);
        row_read(&sample_table, statement, first_sample_column, &sample);
        trial.id = sample.trial;
        rc = each(self, &trial, &sample);
        if (rc) {
            sqlite3_reset(statement);
            return rc;
        }
    }
    return rc == UNSUPPORTED ? OK : rc;
}

int store_samples(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                  uint32_t bucket, store_sample_visitor *each, void *self)
{
    const int64_t keys[] = { cluster, shape, window, bucket };
    const struct row_query query = {
        .table = &trial_table,
        .joined = &sample_table,
        .rest = "JOIN sample ON sample.trial=trial.id WHERE " RECORDS_BUCKET " ORDER BY sample.id",
        .keys = keys,
        .key_count = 4
    };

    return show_samples(store, &query, each, self);
}

int store_samples_all(struct store *store, store_sample_visitor *each, void *self)
{
    const struct row_query query = { .table = &sample_table, .rest = "ORDER BY trial, id" };

    return show_samples(store, &query, each, self);
}

/* ---- Phases. */

#define AT(member) ROW_AT(struct phase_row, member)
static const struct row_field phase_fields[] = {
    { "trial", ROW_INTEGER, AT(trial) },
    { "phase", ROW_ENUM, AT(phase), .words = phase_words },
    { "ns", ROW_INTEGER, AT(time.ns) },
    { "low_ns", ROW_INTEGER, AT(time.low_ns) },
    { "high_ns", ROW_INTEGER, AT(time.high_ns) },
};
#undef AT
static const struct row_table phase_table = ROW_TABLE("phase", struct phase_row, phase_fields);

int store_phases(struct store *store, int64_t trial, const struct phase_time times[PHASE_COUNT])
{
    for (int i = 0; i < PHASE_COUNT; i++)
        TRY(row_put(&store->records, &phase_table,
                    &(struct phase_row){ trial, (enum phase)i, times[i] }));
    return OK;
}

int store_phases_all(struct store *store, struct row_list *out)
{
    return row_list(&store->records,
                    &(struct row_query){ .table = &phase_table, .rest = "ORDER BY trial" }, out);
}
