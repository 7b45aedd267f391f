/* What a database says of a table: its entries, and the steps that all its runs cost. */
#ifndef TABLE_ROWS_H
#define TABLE_ROWS_H

#include "store.h"

struct table_rows {
    struct entry_row *entries;
    size_t count, room;
    double timed, warm; /* steps */
};

/* The entries of a cluster and a shape; ids of 0 mean any.  table_rows_free() also after an error.
 */
int table_rows_read(struct store *store, int64_t cluster, int64_t shape, struct table_rows *out);
void table_rows_free(struct table_rows *rows);

#endif
