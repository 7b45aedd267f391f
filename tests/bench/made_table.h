/* Runs `tune` as a whole on a made-up cluster and layer, in a program that is linked as
 * made_ranks.h says. */
#ifndef MADE_TABLE_H
#define MADE_TABLE_H

#include "surface.h"
#include "table_rows.h"

struct made_table {
    const struct surface *surface; /* borrowed; its layer has as many tokens as the window needs */
    uint32_t window, first, last;  /* buckets */
    const char *effort;
    uint64_t seed;
};

/* As `moetune tune` would, without a word: what its table says.  A status; a table that was given
 * up as slower is OK.  table_rows_free() also after an error. */
int made_table_tune(const struct made_table *table, struct table_rows *out);

#endif
