/* Tables from other sites: text that may come from anywhere. */
#ifndef IMPORT_H
#define IMPORT_H

#include "store.h"

#include <stdbool.h>

enum { IMPORT_CONFLICTS_KEPT = 1000 };

struct import_result {
    uint32_t clusters, entries, added, same, replaced, lost;
    uint32_t standings; /* that came in, for all of their tables' entries did */
    uint32_t conflicts; /* entries that were there with another plan */
    bool known;         /* this very file came before; nothing was done */
};

struct import_options {
    /* Called for every conflict before it is decided; may be NULL. */
    void (*conflict)(void *self, const struct entry_row *known, const struct entry_row *incoming,
                     enum merge_outcome outcome);
    void *self;
};

/* What a text says, read and checked as a whole; no store is needed for it. */
struct import_table;

/* Whether text of IMPORT_HEAD bytes or more begins as a table does, of whatever version. */
enum { IMPORT_HEAD = (1 << 16) + 2 };
bool import_is_begun(const char *text, size_t size);

/* ERR_FORMAT after a message that names `origin`, the line and the field: other formats and
 * versions, damage, values out of range, plans that are illegal for their layer. */
int import_read(const char *text, size_t size, const char *origin, struct import_table **out);
void import_free(struct import_table *table); /* NULL is fine */

/* Its entries, sorted by cluster, layer, window and bucket.  Borrowed. */
struct import_entry {
    const char *cluster; /* hash */
    const struct moe_shape *shape;
    const struct entry_row *row;
};
size_t import_count(const struct import_table *table);
struct import_entry import_entry(const struct import_table *table, size_t at);

/* All of it or nothing.  What comes in has the tier "imported".  A standing comes in if its table
 * does: beside an entry of somebody else's, or one that was measured here, it says nothing. */
int import_place(struct import_table *table, struct store *store,
                 const struct import_options *options, struct import_result *out);

#endif
