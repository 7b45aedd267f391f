/* Puts a table that was read and checked into the store. */
#include "import_table.h"

#include "plan.h"
#include "status.h"

struct placing {
    struct import_table *table;
    struct store *store;
    const struct import_options *options;
    struct import_result *result;
};

/* Entries come sorted: the layer of the one before is mostly this one's. */
static int place_shape(const struct placing *p, struct incoming *in)
{
    if (in > p->table->entries && shape_equal(&in->shape, &in[-1].shape)) {
        in->row.shape = in[-1].row.shape;
        return OK;
    }
    return store_shape(p->store, &in->shape, &in->row.shape);
}

static int place_entry(const struct placing *p, struct incoming *in)
{
    struct import_result *out = p->result;
    struct entry_row known;
    bool differs;

    in->row.cluster = p->table->clusters[in->cluster].id;
    TRY(place_shape(p, in));
    /* Older versions wrote such ones: nothing is told by them where anything else is known. */
    in->row.stale = in->row.stale || entry_is_unsound(&in->row);
    TRY(store_entry_merge(p->store, &in->row, "import", &known, &in->outcome));
    differs = in->outcome != MERGE_ADDED && !plan_equal(&known.plan, &in->row.plan);
    out->added += in->outcome == MERGE_ADDED;
    out->same += in->outcome == MERGE_SAME;
    out->replaced += in->outcome == MERGE_REPLACED;
    out->lost += in->outcome == MERGE_LOST;
    out->conflicts += differs;
    if (differs && p->options->conflict && out->conflicts <= IMPORT_CONFLICTS_KEPT)
        p->options->conflict(p->options->self, &known, &in->row, in->outcome);
    return OK;
}

/* What became of one layer's entries of one width. */
struct placed_table {
    size_t first, count; /* of the incoming entries */
    uint32_t window;
    bool changed, whole; /* what was there is not any more; what came in is there */
    size_t known;        /* entries that are there now */
};

static void follow_entries(const struct import_table *t, struct placed_table *placed)
{
    const struct incoming *first = &t->entries[placed->first], *end = t->entries + t->entry_count;

    placed->window = first->row.window;
    placed->whole = true;
    for (const struct incoming *in = first;
         in < end && import_is_of_table(in, first->cluster, &first->shape, placed->window); in++) {
        placed->count++;
        placed->changed |= in->outcome == MERGE_ADDED || in->outcome == MERGE_REPLACED;
        placed->whole &= in->outcome != MERGE_LOST;
    }
}

static int count_known(void *self, const struct entry_row *e)
{
    struct placed_table *placed = self;

    placed->known += e->window == placed->window;
    return OK;
}

/* Only beside the very entries that it was measured with: so the standings that stay depend on the
 * entries that stay, and not on the order of imports. */
static int place_standing(const struct placing *p, struct placed_table *placed,
                          struct standing_row *row)
{
    const struct entry_row *e = &p->table->entries[placed->first].row;
    bool added;

    TRY(store_entries(p->store, e->cluster, e->shape, count_known, placed));
    if (!placed->whole || placed->known != placed->count)
        return OK;
    row->cluster = e->cluster;
    row->shape = e->shape;
    TRY(store_standing_merge(p->store, row, &added));
    p->result->standings += added;
    return OK;
}

static int place_standings(const struct placing *p)
{
    struct import_table *t = p->table;
    struct placed_table placed;
    size_t next = 0;

    for (size_t i = 0; i < t->entry_count; i += placed.count) {
        const struct entry_row *e = &t->entries[i].row;

        placed = (struct placed_table){ .first = i };
        follow_entries(t, &placed);
        if (placed.changed)
            TRY(store_standing_end(p->store, e->cluster, e->shape, e->window));
        if (next < t->standing_count && t->standings[next].table == i)
            TRY(place_standing(p, &placed, &t->standings[next++].row));
    }
    return OK;
}

static int place_all(const struct placing *p)
{
    struct import_table *t = p->table;

    for (size_t i = 0; i < t->cluster_count; i++)
        TRY(store_cluster_elsewhere(p->store, &t->clusters[i].cluster, &t->clusters[i].id));
    for (size_t i = 0; i < t->entry_count; i++)
        TRY(place_entry(p, &t->entries[i]));
    TRY(place_standings(p));
    TRY(store_import(p->store, &(struct import_row){ .sha256 = t->header.sha256,
                                                     .file = t->at.file,
                                                     .added = p->result->added,
                                                     .same = p->result->same,
                                                     .conflicts = p->result->conflicts }));
    return store_commit(p->store);
}

int import_place(struct import_table *table, struct store *store,
                 const struct import_options *options, struct import_result *out)
{
    struct import_result result = { .clusters = (uint32_t)table->cluster_count,
                                    .entries = (uint32_t)table->entry_count };
    struct placing placing = { table, store, options, &result };
    int rc = store_import_known(store, table->header.sha256, &result.known);

    if (!rc && !result.known)
        rc = place_all(&placing);
    if (rc)
        store_rollback(store); /* also when the disk is full half-way */
    else
        *out = result;
    return rc;
}
