/* Rows that say what tables are worth as a whole, and what became of what they claimed. */
#include "store_inside.h"

#include "status.h"

#define LOCAL(member) ROW_AT(struct standing_row, member)
#define AT(member) LOCAL(member), .since = 3
#define SHARE .decimals = 6, .least = -1e12, .most = 1e12
static const struct row_field fields[] = {
    { "fingerprint", ROW_INTEGER, LOCAL(cluster) },
    { "shape", ROW_INTEGER, LOCAL(shape) },
    { "window", ROW_INTEGER, AT(window), .most = UINT32_MAX },
    { "run", ROW_INTEGER, LOCAL(run) },
    { "gain", ROW_REAL, AT(gain.value), SHARE },
    { "gain_low", ROW_REAL, AT(gain.low), SHARE },
    { "gain_high", ROW_REAL, AT(gain.high), SHARE },
    { "static_gain", ROW_REAL, AT(static_gain.value), SHARE },
    { "static_gain_low", ROW_REAL, AT(static_gain.low), SHARE },
    { "static_gain_high", ROW_REAL, AT(static_gain.high), SHARE },
    { "static_plan", ROW_PLAN, AT(static_plan), .optional = true },
    { "rounds", ROW_INTEGER, AT(rounds), .most = UINT32_MAX },
    { "first_round", ROW_INTEGER, LOCAL(first_round) },
    { "rivals", ROW_TEXT, LOCAL(rivals) },
    { "decided_s", ROW_INTEGER, AT(decided_s), .most = 1e12 },
    { "launches", ROW_INTEGER, LOCAL(launches), .most = UINT32_MAX },
    { "given_up", ROW_BOOL, LOCAL(given_up) },
    { "kappa", ROW_REAL, LOCAL(kappa) },
};
const struct row_table standing_table = ROW_TABLE("standing", struct standing_row, fields);

const char standing_in_show[] = "gain gain_low gain_high static_gain static_gain_low"
                                " static_gain_high static_plan rounds launches given_up";

int store_standing(struct store *store, const struct standing_row *row)
{
    return row_put(&store->records, &standing_table, row);
}

int store_standing_get(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                       struct standing_row *out)
{
    const int64_t keys[] = { cluster, shape, window };
    const struct row_query query = { &standing_table, NULL,
                                     "WHERE fingerprint=?1 AND shape=?2 AND window=?3", keys, 3 };

    return row_find(&store->records, &query, out);
}

/* Looked for first: a deletion is a line of the journal even where it deletes nothing. */
int store_standing_end(struct store *store, int64_t cluster, int64_t shape, uint32_t window)
{
    const int64_t key[] = { cluster, shape, window };
    struct standing_row known;
    int rc = store_standing_get(store, cluster, shape, window, &known);

    if (rc || known.run)
        return rc < 0 ? rc : OK;
    return records_delete(&store->records, "standing", RECORDS_IMPORTED, key, 3);
}

/* Of two of one date some fixed order decides, as it does of entries. */
static bool is_newer(const struct standing_row *a, const struct standing_row *b)
{
    return a->decided_s != b->decided_s ? a->decided_s > b->decided_s
                                        : row_order(&standing_table, "rounds", a, b) > 0;
}

int store_standing_merge(struct store *store, const struct standing_row *row, bool *placed)
{
    struct standing_row known;
    int rc = store_standing_get(store, row->cluster, row->shape, row->window, &known);

    if (rc < 0)
        return rc;
    *placed = rc == UNSUPPORTED || (!known.run && is_newer(row, &known));
    return *placed ? store_standing(store, row) : OK;
}

/* ---- verifications */

#undef AT
#define AT(member) ROW_AT(struct verification_row, member)
static const struct row_field verification_fields[] = {
    { "fingerprint", ROW_INTEGER, AT(cluster) },
    { "shape", ROW_INTEGER, AT(shape) },
    { "window", ROW_INTEGER, AT(window) },
    { "bucket", ROW_INTEGER, AT(bucket) },
    { "run", ROW_INTEGER, AT(run) },
    { "claim", ROW_REAL, AT(claim.value) },
    { "claim_low", ROW_REAL, AT(claim.low) },
    { "claim_high", ROW_REAL, AT(claim.high) },
    { "kappa", ROW_REAL, AT(kappa) },
    { "found", ROW_REAL, AT(found.value) },
    { "found_low", ROW_REAL, AT(found.low) },
    { "found_high", ROW_REAL, AT(found.high) },
    { "decided_s", ROW_INTEGER, AT(decided_s) },
};
#undef AT
const struct row_table verification_table =
    ROW_TABLE("verification", struct verification_row, verification_fields);

int store_verification(struct store *store, const struct verification_row *row)
{
    return row_put(&store->records, &verification_table, row);
}

int store_verifications(struct store *store, int64_t cluster, struct row_list *out)
{
    const struct row_query query = { &verification_table, NULL,
                                     "WHERE fingerprint=?1 ORDER BY shape, window, bucket",
                                     &cluster, 1 };

    return row_list(&store->records, &query, out);
}
