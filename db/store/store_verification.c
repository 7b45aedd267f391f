/* Rows of verifications: what was claimed, and what was found. */
#include "store_inside.h"

#include "status.h"

#define AT(member) ROW_AT(struct verification_row, member)
static const struct row_field fields[] = {
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
    ROW_TABLE("verification", struct verification_row, fields);

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
