/* Rows of phases: what a trial's step is made of. */
#include "store_inside.h"

#include "status.h"

#include <stdlib.h>

#define AT(member) ROW_AT(struct phase_row, member)
static const struct row_field fields[] = {
    { "trial", ROW_INTEGER, AT(trial) },
    { "phase", ROW_ENUM, AT(phase), .words = phase_words },
    { "ns", ROW_INTEGER, AT(time.ns) },
    { "low_ns", ROW_INTEGER, AT(time.low_ns) },
    { "high_ns", ROW_INTEGER, AT(time.high_ns) },
};
#undef AT
static const struct row_table phase_table = ROW_TABLE("phase", struct phase_row, fields);

int store_phases(struct store *store, int64_t trial, const struct phase_time times[PHASE_COUNT])
{
    for (int i = 0; i < PHASE_COUNT; i++)
        TRY(row_put(&store->records, &phase_table,
                    &(struct phase_row){ trial, (enum phase)i, times[i] }));
    return OK;
}

int store_phases_all(struct store *store, struct row_list *out)
{
    return row_list(&store->records, &(struct row_query){ &phase_table, .rest = "ORDER BY trial" },
                    out);
}
