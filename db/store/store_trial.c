/* Rows of trials and of their samples. */
#include "store_inside.h"

#include "status.h"

#include <stdlib.h>

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

#define ONE_BUCKET "WHERE fingerprint=?1 AND shape=?2 AND window=?3 AND bucket=?4"
#define ANY_BUCKET                                                                                 \
    "WHERE (fingerprint=?1 OR ?1=0) AND (shape=?2 OR ?2=0) AND (window=?3 OR ?3=0)"                \
    " AND (bucket=?4 OR ?4=4294967295)"

int store_trials(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 uint32_t bucket, int (*each)(void *self, const struct trial_row *trial),
                 void *self)
{
    const int64_t keys[] = { cluster, shape, window, bucket };
    /* An index serves those of one bucket. */
    const struct row_query query = { &trial_table, NULL,
                                     bucket == UINT32_MAX ? ANY_BUCKET " ORDER BY id"
                                                          : ONE_BUCKET " ORDER BY id",
                                     keys, 4 };
    struct row_list list;
    const struct trial_row *trials;
    int rc = OK;

    TRY(row_list(&store->records, &query, &list));
    trials = list.rows;
    for (size_t i = 0; i < list.count && !rc; i++)
        rc = each(self, &trials[i]);
    free(list.rows);
    return rc;
}

/* ---- samples */

int store_sample(struct store *store, int64_t trial, const struct sample_row *sample)
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

/* Of a trial that the query does not join only the id is known. */
static int show_samples(struct store *store, const struct row_query *query,
                        store_sample_visitor *each, void *self)
{
    int column = query->joined ? (int)trial_table.count : 0, rc;
    struct trial_row trial = { 0 };
    struct sample_row sample;
    sqlite3_stmt *s;

    TRY(row_select(&store->records, query, &s));
    while (!(rc = records_step(&store->records, s))) {
        if (query->joined)
            row_read(&trial_table, s, 0, &trial);
        row_read(&sample_table, s, column, &sample);
        trial.id = sample.trial;
        rc = each(self, &trial, &sample);
        if (rc) {
            sqlite3_reset(s);
            return rc;
        }
    }
    return rc == UNSUPPORTED ? OK : rc;
}

int store_samples(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                  uint32_t bucket, store_sample_visitor *each, void *self)
{
    const int64_t keys[] = { cluster, shape, window, bucket };
    const struct row_query query = { &trial_table, &sample_table,
                                     "JOIN sample ON sample.trial=trial.id " ONE_BUCKET
                                     " ORDER BY sample.id",
                                     keys, 4 };

    return show_samples(store, &query, each, self);
}

int store_samples_all(struct store *store, store_sample_visitor *each, void *self)
{
    const struct row_query query = { &sample_table, .rest = "ORDER BY trial, id" };

    return show_samples(store, &query, each, self);
}
