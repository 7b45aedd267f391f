/* `tune` as a whole on a made-up cluster and layer: a program that is linked as made_ranks.h says
 * has its table in a folder. */
#ifndef MADE_TABLE_H
#define MADE_TABLE_H

#include "surface.h"

struct made_table {
    const struct surface *surface; /* borrowed; its layer has as many tokens as the window needs */
    uint32_t window, first, last;  /* buckets */
    const char *effort;
    uint64_t seed;
};

/* As `moetune tune` would, without a word; `path`: of the database in that folder.  A status; a
 * table that was given up as slower is OK. */
int made_table_tune(const struct made_table *table, const char *folder, char path[64]);

/* Removes what that left in the folder. */
void made_table_forget(const char *folder);

#endif
