/* What trainers are told beside a table's entries: plans that are pinned, and tables that do not
 * answer them. */
#ifndef TRAINER_VIEW_H
#define TRAINER_VIEW_H

#include "store.h"

struct trainer_view {
    struct override_row *pins;
    struct answering_table *tables; /* a layer with buckets of one width on one cluster */
    size_t pin_count, table_count;
};

/* Reads what the store says; trainer_view_free() also after an error. */
int trainer_view_read(struct store *store, struct trainer_view *out);
void trainer_view_free(struct trainer_view *told);

/* The pin that answers for the entry's bucket; NULL: none of this width does. */
const struct override_row *trainer_view_pin(const struct trainer_view *told,
                                            const struct entry_row *entry);

/* "" if trainers are told what the entry's table says, else why not. */
enum { WHY_SILENT_BYTES = 128 };
int trainer_view_why_silent(const struct trainer_view *told, struct store *store,
                            const struct entry_row *entry, char text[WHY_SILENT_BYTES]);

/* The width that answers for a layer; 0: it has no entry. */
uint32_t trainer_view_width(const struct trainer_view *told, int64_t cluster, int64_t shape);

#endif
