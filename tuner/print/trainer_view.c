/* Reads all pins and the widths of all tables once, and answers from these. */
#include "trainer_view.h"

#include "array.h"
#include "cluster.h"
#include "status.h"
#include "width.h"

#include <stdio.h>
#include <stdlib.h>

/* The entries of one width of a layer on a cluster, as far as the choice of the width needs them.
 */
struct answering_table {
    int64_t cluster, shape;
    struct width width;
};

/* Adds an entry to its table.  Entries come sorted by cluster, shape and width. */
static int add_to_width(void *self, const struct entry_row *e)
{
    struct trainer_view *view = self;
    struct answering_table *last = view->table_count ? &view->tables[view->table_count - 1] : NULL;

    if (!last || last->cluster != e->cluster || last->shape != e->shape ||
        last->width.window != e->window) {
        const struct answering_table table = { e->cluster, e->shape, { .window = e->window } };

        ARRAY_APPEND(view->tables, view->table_count, table);
        last = &view->tables[view->table_count - 1];
    }
    width_add(&last->width, e->bucket, !e->inferred, entry_is(e, ENTRY_OUTDATED | ENTRY_UNSOUND),
              e->decided_s);
    return OK;
}

int trainer_view_read(struct store *store, struct trainer_view *out)
{
    struct row_list pins;

    *out = (struct trainer_view){ .pins = NULL };
    TRY(store_overrides(store, &pins));
    out->pins = pins.rows;
    out->pin_count = pins.count;
    return store_entries(store, 0, 0, add_to_width, out);
}

void trainer_view_free(struct trainer_view *view)
{
    free(view->pins);
    free(view->tables);
}

const struct override_row *trainer_view_pin(const struct trainer_view *view,
                                            const struct entry_row *e)
{
    const struct bucket_key key = { e->cluster, e->shape, e->window, e->bucket };

    return override_of((struct row_list){ view->pins, view->pin_count }, &key);
}

uint32_t trainer_view_width(const struct trainer_view *view, int64_t cluster, int64_t shape)
{
    const struct answering_table *end = view->tables + view->table_count;
    const struct width *best_width = NULL;
    uint64_t largest_reach = 0;

    for (const struct answering_table *table = view->tables; table < end; table++)
        if (table->cluster == cluster && table->shape == shape &&
            table->width.reach > largest_reach)
            largest_reach = table->width.reach;
    for (const struct answering_table *table = view->tables; table < end; table++)
        if (table->cluster == cluster && table->shape == shape &&
            !width_is_short(table->width.reach, largest_reach) &&
            (!best_width || width_order(&table->width, best_width) < 0))
            best_width = &table->width;
    return best_width ? best_width->window : 0;
}

int trainer_view_why_silent(const struct trainer_view *view, struct store *store,
                            const struct entry_row *e, char text[WHY_SILENT_BYTES])
{
    uint32_t answering_window = trainer_view_width(view, e->cluster, e->shape);
    struct cluster cluster;
    bool is_here;

    *text = 0;
    TRY(store_cluster_get(store, e->cluster, &cluster));
    TRY(store_cluster_is_here(store, e->cluster, &is_here));
    if (!backend_is_real(cluster.backend))
        snprintf(text, WHY_SILENT_BYTES, "it is modelled");
    else if (!is_here)
        snprintf(text, WHY_SILENT_BYTES,
                 "it is imported, and moetune has not run on such a cluster yet");
    else if (answering_window != e->window)
        snprintf(text, WHY_SILENT_BYTES,
                 "that of width %u is the last measured one of those that reach far enough; pins "
                 "hold all the same",
                 answering_window);
    return OK;
}
