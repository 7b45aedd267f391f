/* Tables from other sites: text that may come from anywhere. */
#ifndef IMPORT_H
#define IMPORT_H

#include "store.h"

enum { IMPORT_CONFLICTS_KEPT = 1000 };

struct import_result {
    uint32_t clusters, entries, added, same, replaced, lost;
    uint32_t conflicts; /* entries that were there with another plan */
    bool known;         /* this very file came before; nothing was done */
};

struct import_options {
    const char *origin; /* for messages: a file's name */
    bool dry;           /* nothing is written, only what would be said */
    /* Called for every conflict before it is decided; may be NULL. */
    void (*conflict)(void *self, const struct entry_row *known, const struct entry_row *incoming,
                     enum merge_outcome outcome);
    void *self;
};

/* All of it or nothing.  ERR_FORMAT after a message that names the line and the field: other
 * formats and versions, damage, values out of range, plans that are illegal for their layer.  What
 * comes in has the tier "imported". */
int import_lines(struct store *store, const char *text, size_t size,
                 const struct import_options *options, struct import_result *out);

#endif
