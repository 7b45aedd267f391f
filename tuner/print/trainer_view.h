/* What trainers get from a store: pins go before entries, and some tables do not answer them. */
#ifndef TRAINER_VIEW_H
#define TRAINER_VIEW_H

#include "store.h"

/* The pins of a store and the widths of its tables.  trainer_view_free() frees both. */
struct trainer_view {
    struct override_row *pins;
    struct answering_table *tables; /* each: a layer on a cluster, in buckets of one width */
    size_t pin_count, table_count;
};

/* Reads all pins and tables of the store.  trainer_view_free() also after an error. */
int trainer_view_read(struct store *store, struct trainer_view *out);
void trainer_view_free(struct trainer_view *view);

/* The pin that answers in the entry's bucket; NULL: no pin of this width does. */
const struct override_row *trainer_view_pin(const struct trainer_view *view,
                                            const struct entry_row *entry);

/* Writes why the entry's table does not answer trainers; "" if it does. */
enum { WHY_SILENT_BYTES = 128 };
int trainer_view_why_silent(const struct trainer_view *view, struct store *store,
                            const struct entry_row *entry, char text[WHY_SILENT_BYTES]);

/* The width of the buckets that answer for a layer; 0: the layer has no entry. */
uint32_t trainer_view_width(const struct trainer_view *view, int64_t cluster, int64_t shape);

#endif
