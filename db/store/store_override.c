/* Rows of plans that a person has pinned. */
#include "store_inside.h"

#include "status.h"

#include <stdlib.h>

#define AT(member) ROW_AT(struct override_row, member)
static const struct row_field fields[] = {
    { "id", ROW_INTEGER, AT(id) },
    { "fingerprint", ROW_INTEGER, AT(cluster) },
    { "shape", ROW_INTEGER, AT(shape) },
    { "window", ROW_INTEGER, AT(window) },
    { "first_bucket", ROW_INTEGER, AT(first) },
    { "last_bucket", ROW_INTEGER, AT(last) },
    { "plan", ROW_PLAN, AT(plan) },
    { "why", ROW_TEXT, AT(why) },
    { "since_s", ROW_INTEGER, AT(since_s) },
};
#undef AT
const struct row_table override_table = ROW_TABLE("override", struct override_row, fields);

static int put_override(struct store *store, struct override_row *row)
{
    TRY(records_next_id(&store->records, override_table.name, &row->id));
    return row_put(&store->records, &override_table, row);
}

/* What of a pin lies outside of a range stays pinned. */
static int put_rest(struct store *store, const struct override_row *row, uint32_t first,
                    uint32_t last)
{
    struct override_row below = *row, above = *row;

    below.last = first - 1;
    above.first = last + 1;
    if (row->first < first)
        TRY(put_override(store, &below));
    return row->last > last ? put_override(store, &above) : OK;
}

int store_override_end(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                       uint32_t first, uint32_t last, uint32_t *count)
{
    const int64_t range[] = { cluster, shape, window, first, last };
    const struct row_query overlaps = { &override_table, NULL,
                                        "WHERE " RECORDS_OVERLAP
                                        " ORDER BY fingerprint, shape, window, first_bucket",
                                        range, 5 };
    struct row_list list;
    int rc = OK;

    TRY(row_list(&store->records, &overlaps, &list));
    if (list.count)
        rc = records_delete(&store->records, "override", RECORDS_OVERLAP, range, 5);
    EACH_ROW (override_row, pin, list)
        rc = rc ? rc : put_rest(store, pin, first, last);
    free(list.rows);
    if (!rc)
        *count = (uint32_t)list.count;
    return rc;
}

int store_override(struct store *store, struct override_row *row)
{
    uint32_t replaced;

    TRY(store_override_end(store, row->cluster, row->shape, row->window, row->first, row->last,
                           &replaced));
    return put_override(store, row);
}

int store_overrides(struct store *store, struct row_list *out)
{
    const struct row_query query = { &override_table,
                                     .rest = "ORDER BY fingerprint, shape, window, first_bucket" };

    return row_list(&store->records, &query, out);
}

const struct override_row *override_of(struct row_list pins, const struct bucket_key *key)
{
    EACH_ROW (override_row, pin, pins)
        if (SAME_TABLE(pin, key) && key->bucket >= pin->first && key->bucket <= pin->last)
            return pin;
    return NULL;
}
