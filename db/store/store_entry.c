/* Rows of entries, which are the dictionary, and of what they were before. */
#include "store_inside.h"

#include "status.h"
#include "text.h"
#include "word.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define AT(member) ROW_AT(struct history_row, member)
static const struct row_field history_fields[] = {
    { "id", ROW_INTEGER, AT(id) },
    { "fingerprint", ROW_INTEGER, AT(entry.cluster) },
    { "shape", ROW_INTEGER, AT(entry.shape) },
    { "run", ROW_INTEGER, AT(entry.run) },
    { "window", ROW_INTEGER, AT(entry.window) },
    { "bucket", ROW_INTEGER, AT(entry.bucket) },
    { "plan", ROW_PLAN, AT(entry.plan), .none = "?" },
    { "time_us", ROW_REAL, AT(entry.time_us) },
    { "default_us", ROW_REAL, AT(entry.default_us) },
    { "gain", ROW_REAL, AT(entry.gain.value) },
    { "bound", ROW_REAL, AT(entry.bound) },
    { "inferred", ROW_BOOL, AT(entry.inferred) },
    { "decision", ROW_TEXT, AT(entry.decision) },
    { "decided_s", ROW_INTEGER, AT(entry.decided_s) },
    { "replaced_s", ROW_INTEGER, AT(replaced_s) },
    { "why", ROW_TEXT, AT(why) },
};
#undef AT
static const struct row_table history_table =
    ROW_TABLE("history", struct history_row, history_fields);

/* ---- reading */

int store_entry_get(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                    uint32_t bucket, struct entry_row *out)
{
    const int64_t keys[] = { cluster, shape, window, bucket };
    const struct row_query query = {
        &entry_table, NULL, "WHERE fingerprint=?1 AND shape=?2 AND window=?3 AND bucket=?4", keys, 4
    };

    return row_find(&store->records, &query, out);
}

/* Reads the entry that is known of the same bucket. */
static int find_known(struct store *store, const struct entry_row *entry, struct entry_row *out)
{
    return store_entry_get(store, entry->cluster, entry->shape, entry->window, entry->bucket, out);
}

int store_entries(struct store *store, int64_t cluster, int64_t shape,
                  int (*each)(void *self, const struct entry_row *entry), void *self)
{
    const int64_t keys[] = { cluster, shape };
    const struct row_query query = { &entry_table, NULL,
                                     "WHERE (fingerprint=?1 OR ?1=0) AND (shape=?2 OR ?2=0)"
                                     " ORDER BY fingerprint, shape, window, bucket",
                                     keys, 2 };
    struct row_list list;
    const struct entry_row *entries;
    int rc = OK;

    TRY(row_list(&store->records, &query, &list));
    entries = list.rows;
    for (size_t i = 0; i < list.count && !rc; i++)
        rc = each(self, &entries[i]);
    free(list.rows);
    return rc;
}

int store_history(struct store *store, struct row_list *out)
{
    const struct row_query query = { &history_table, .rest = "ORDER BY id DESC" };

    return row_list(&store->records, &query, out);
}

/* ---- writing */

static int put_history(struct store *store, const struct entry_row *old, const char *why)
{
    struct history_row row = { .entry = *old, .replaced_s = time(NULL) };

    text_put(row.why, sizeof(row.why), "%s", why);
    TRY(records_next_id(&store->records, history_table.name, &row.id));
    return row_put(&store->records, &history_table, &row);
}

/* Writes it in the place of the one with that id. */
static int put_entry(struct store *store, const struct entry_row *entry, int64_t id)
{
    struct entry_row row = *entry;

    row.id = id;
    return row_put(&store->records, &entry_table, &row);
}

int store_entry(struct store *store, const struct entry_row *entry, const char *why)
{
    struct entry_row old;
    int rc;

    if (entry_is_unsound(entry))
        return fail(ERR_WRONG,
                    "bucket %u: the entry says \"%s\" and a gain of %g: it is not written",
                    entry->bucket, entry->decision, entry->gain.value);
    TRY(store_standing_end(store, entry->cluster, entry->shape, entry->window));
    rc = row_put_new(&store->records, &entry_table, entry);
    if (rc != UNSUPPORTED)
        return rc;
    TRY(find_known(store, entry, &old));
    if (why)
        TRY(put_history(store, &old, why));
    return put_entry(store, entry, old.id);
}

int store_entry_end(struct store *store, const struct entry_row *entry, const char *why)
{
    const int64_t bucket[] = { entry->cluster, entry->shape, entry->window, entry->bucket };

    TRY(store_standing_end(store, entry->cluster, entry->shape, entry->window));
    TRY(put_history(store, entry, why));
    return records_delete(&store->records, "entry", RECORDS_BUCKET, bucket, 4);
}

/* ---- merging */

int effort_rank(const char *effort)
{
    return word_find(effort_words, effort) + 1;
}

static int order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* Above 0: a is the better one.  When everything that counts is equal any fixed order will do, if
 * it tells apart whatever is exported; sites with an older moetune begin with the plan. */
static int better(const struct entry_row *a, const struct entry_row *b)
{
    int by = order(b->tier, a->tier);

    by = by ? by : order(b->stale, a->stale);
    by = by ? by : order(entry_is(b, ENTRY_CUT), entry_is(a, ENTRY_CUT));
    by = by ? by : order(effort_rank(a->effort), effort_rank(b->effort));
    by = by ? by : order(a->decided_s, b->decided_s);
    by = by ? by : order(a->samples, b->samples);
    return by ? by : row_order(&entry_table, "plan", a, b);
}

int store_entry_merge(struct store *store, const struct entry_row *entry, const char *why,
                      struct entry_row *known, enum merge_outcome *outcome)
{
    int rc = row_put_new(&store->records, &entry_table, entry), by;

    *outcome = MERGE_ADDED;
    if (rc != UNSUPPORTED)
        return rc;
    TRY(find_known(store, entry, known));
    by = better(entry, known);
    *outcome = by > 0 ? MERGE_REPLACED : (by < 0 ? MERGE_LOST : MERGE_SAME);
    if (by == 0)
        return OK;
    TRY(put_history(store, by > 0 ? known : entry, why));
    return by > 0 ? put_entry(store, entry, known->id) : OK;
}
