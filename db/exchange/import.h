/* Reads tables from other sites, whose text may be anything, and merges them into a store. */
#ifndef IMPORT_H
#define IMPORT_H

#include "store.h"

#include <stdbool.h>

enum { IMPORT_CONFLICTS_KEPT = 1000 };

/* What became of an imported table: a plain value. */
struct import_result {
    uint32_t clusters, entries, added, same, replaced, lost;
    uint32_t
        standings; /* standings that were taken over, because all entries of their tables were */
    uint32_t conflicts; /* entries that were there with another plan */
    bool known;         /* this file was imported before; nothing was done */
};

/* Whom to tell of conflicts. */
struct import_options {
    /* Called for every conflict before it is decided; may be NULL. */
    void (*conflict)(void *self, const struct entry_row *known, const struct entry_row *incoming,
                     enum merge_outcome outcome);
    void *self;
};

/* A text that was read and checked as a whole, without a store. import_free() frees it. */
struct import_table;

/* Returns whether a text of IMPORT_HEAD bytes or more begins as a table of any version. */
enum { IMPORT_HEAD = (1 << 16) + 2 };
bool import_is_begun(const char *text, size_t size);

/* Reads and checks a text. ERR_FORMAT after a message with `origin`, line and field: another format
 * or version, damage, values out of range, plans that are illegal for their layer. */
int import_read(const char *text, size_t size, const char *origin, struct import_table **out);
void import_free(struct import_table *table); /* NULL is fine */

/* Returns the entries, sorted by cluster, layer, window and bucket. They are borrowed from the
 * table. */
struct import_entry {
    const char *cluster; /* hash */
    const struct moe_shape *shape;
    const struct entry_row *row;
};
size_t import_count(const struct import_table *table);
struct import_entry import_entry(const struct import_table *table, size_t at);

/* Merges the whole table into a store, or nothing. Its rows get the tier "imported". A standing
 * comes in only with its whole table: it says nothing about entries from elsewhere or measured
 * here. */
int import_place(struct import_table *table, struct store *store,
                 const struct import_options *options, struct import_result *out);

#endif
