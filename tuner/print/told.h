/* What trainers are told beside a table's entries: plans that are pinned, and tables that do not
 * answer them. */
#ifndef TOLD_H
#define TOLD_H

#include "store.h"

struct told {
    struct override_row *pins;
    struct told_table *tables; /* a layer with buckets of one width on one cluster */
    size_t pin_count, table_count;
};

/* Reads what the store says; told_free() also after an error. */
int told_read(struct store *store, struct told *out);
void told_free(struct told *told);

/* The pin that answers for the entry's bucket; NULL: none of this width does. */
const struct override_row *told_pin(const struct told *told, const struct entry_row *entry);

/* "" if trainers are told what the entry's table says, else why not. */
enum { WHY_SILENT_BYTES = 128 };
int told_why_silent(const struct told *told, struct store *store, const struct entry_row *entry,
                    char text[WHY_SILENT_BYTES]);

/* The width that answers for a layer; 0: it has no entry. */
uint32_t told_width(const struct told *told, int64_t cluster, int64_t shape);

#endif
