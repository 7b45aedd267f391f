/* Turns recorded look-ups of trainers into layers and buckets to measure, the most frequent bucket
 * first. */
#include "misses.h"

#include "declaration.h"
#include "shape.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>

enum { BUCKET_MOST = (1 << 20) - 1 }; /* as --buckets has it */

static bool is_wanted(const struct traffic_bucket *b)
{
    return b->bucket <= BUCKET_MOST && traffic_unpinned(b) > 0;
}

/* ---- layers */

static int add_layer(struct tune_request *r, const struct traffic_layer *layer)
{
    struct moe_shape shape = layer->shape;
    char range[32];
    uint32_t first = 0, last = 0;
    bool any = false;

    for (size_t i = 0; i < layer->bucket_count; i++)
        if (is_wanted(&layer->buckets[i])) {
            first = any ? first : layer->buckets[i].bucket;
            last = layer->buckets[i].bucket;
            any = true;
        }
    if (!any) /* only pinned buckets were asked for */
        return OK;
    if (!shape.tokens) {
        shape.tokens =
            layer_options_shape(&r->options->layer, (struct rank_layout){ 1, 1, 0 }, MOE_F32)
                .tokens;
        note("%s: the record does not say how many tokens a rank has: using --tokens %u",
             SHAPE_TEXT(&layer->shape), shape.tokens);
    }
    snprintf(range, sizeof(range), "%u:%u", first, last);
    return tune_request_add(r, &shape, layer->window, range, layer);
}

int misses_add_layers(struct tune_request *r)
{
    const struct option_list *files = &r->options->misses, *wanted_shapes = &r->options->shapes;
    struct rank_layout here = cluster_layout(&r->cluster);
    char racks[32] = "", ranks[96], tag[DECLARATION_TAG_BYTES];
    size_t elsewhere = 0, others;

    if (here.per_rack)
        snprintf(racks, sizeof(racks), ", %u per rack", here.per_rack);
    snprintf(ranks, sizeof(ranks), "%u ranks, %u per node%s", here.ranks, here.per_node, racks);
    for (int i = 0; i < files->count; i++)
        TRY(traffic_read(files->items[i], &r->traffic));
    others = r->traffic.unknown_spaces;
    for (size_t i = 0; i < r->traffic.count; i++) {
        const struct moe_shape *shape = &r->traffic.layers[i].shape;

        /* With --space FILE the layers of that space count; without it, layers without a space. */
        if (shape->space != (r->declared ? r->declared->id : 0) ||
            (wanted_shapes->count && !shape_agrees(shape, wanted_shapes->items[0])))
            others++;
        else if (shape->ranks == here.ranks && shape->ranks_per_node == here.per_node &&
                 shape->ranks_per_rack == here.per_rack)
            TRY(add_layer(r, &r->traffic.layers[i]));
        else
            elsewhere++;
    }
    if (others && r->declared)
        note(
            "skipped %zu of %zu recorded layers: they are not of the space %s, or not the layer of "
            "--shape",
            others, r->traffic.count + r->traffic.unknown_spaces, declaration_tag(r->declared, tag));
    else if (others)
        note("%s: skipped layers with a declared space, which their program measures: "
             "tune --space FILE --exec PROGRAM --from-misses %s",
             files->items[0], files->items[0]);
    if (elsewhere)
        note("skipped %zu of %zu recorded layers: they are not for %s", elsewhere, r->traffic.count,
             ranks);
    if (!r->space_count)
        return fail(UNSUPPORTED, "%s: no recorded layer is for %s", files->items[0], ranks);
    return OK;
}

/* ---- buckets */

/* Why a bucket has no good entry; NULL: it has one. */
static const char *what_is_missing(const struct entry_row *entry, double share, const char *load)
{
    if (!entry)
        return "missing";
    if (strcmp(entry->load, load) != 0)
        return "another load";
    if (entry_is(entry, ENTRY_UNSOUND))
        return "unsound";
    if (entry_is(entry, ENTRY_STALE))
        return "stale";
    if (entry_is(entry, ENTRY_CUT))
        return "cut off";
    return entry_is(entry, ENTRY_INFERRED) && share >= MISSES_OFTEN ? "inferred" : NULL;
}

/* Reads the entry of a bucket.  It is stale if the cluster's software has changed, as in
 * recognise(). */
static int look_up(struct store *store, const struct cluster *here, const struct layer_plans *plans,
                   uint32_t bucket, struct entry_row *entry)
{
    struct cluster known;
    int64_t cluster, shape;
    int rc;

    if (!store || store_find(store, here, &plans->shape, &cluster, &shape))
        return UNSUPPORTED;
    rc = store_entry_get(store, cluster, shape, plans->window, bucket, entry);
    if (rc)
        return rc;
    TRY(store_cluster_get(store, cluster, &known));
    entry->stale |= !cluster_same_soft(&known, here);
    return OK;
}

static int by_demand(const void *a, const void *b)
{
    const struct miss *x = a, *y = b;

    if (x->asked != y->asked)
        return x->asked < y->asked ? 1 : -1;
    if (x->space != y->space)
        return x->space < y->space ? -1 : 1;
    return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

static int list_layer(struct tune_request *r, struct store *store, const struct cluster *here,
                      size_t number, struct misses *out)
{
    const struct traffic_layer *layer = r->asked[number];
    double total = (double)traffic_total(layer);
    char load[LOAD_NAME_BYTES];

    load_name(r->spaces[number].load, load);

    for (size_t i = 0; i < layer->bucket_count; i++) {
        const struct traffic_bucket *b = &layer->buckets[i];
        struct miss miss = { .space = number, .bucket = b->bucket, .asked = traffic_unpinned(b) };
        struct entry_row entry;
        int rc = UNSUPPORTED;

        if (!is_wanted(b))
            continue;
        rc = look_up(store, here, &r->spaces[number], b->bucket, &entry);
        if (rc < 0)
            return rc;
        miss.share = (double)miss.asked / total;
        miss.why = what_is_missing(rc == OK ? &entry : NULL, miss.share, load);
        if (miss.why)
            out->list[out->count++] = miss;
    }
    return OK;
}

int misses_list(struct tune_request *r, struct store *store, const struct cluster *here,
                struct misses *out)
{
    struct misses misses = { 0 };
    size_t buckets = 1;
    int rc;

    for (size_t i = 0; i < r->space_count; i++)
        buckets += r->asked[i]->bucket_count;
    misses.list = malloc(buckets * sizeof(*misses.list));
    rc = misses.list ? OK : fail(ERR_NOMEM, "%zu buckets", buckets);
    for (size_t i = 0; i < r->space_count && !rc; i++)
        rc = list_layer(r, store, here, i, &misses);
    if (rc) {
        misses_free(&misses);
        return rc;
    }
    qsort(misses.list, misses.count, sizeof(*misses.list), by_demand);
    for (size_t i = 0; i < r->space_count; i++)
        r->spaces[i].anchor_count = 0;
    for (size_t i = 0; i < misses.count; i++) {
        struct layer_plans *plans = &r->spaces[misses.list[i].space];

        plans->anchors[plans->anchor_count++] = misses.list[i].bucket;
    }
    *out = misses;
    return OK;
}

void misses_free(struct misses *misses)
{
    free(misses->list);
    *misses = (struct misses){ 0 };
}
