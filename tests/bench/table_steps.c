/* Adds up the steps of runs. */
#include "table_steps.h"

#include "status.h"

#include <stdlib.h>

int table_steps(struct store *store, struct table_steps *out)
{
    struct row_list runs;

    *out = (struct table_steps){ 0 };
    TRY(store_runs(store, &runs));
    EACH_ROW (run_row, run, runs) {
        out->timed += (double)(run->samples_search + run->samples_default);
        out->warm += (double)run->samples_warm;
    }
    free(runs.rows);
    return OK;
}
