/* Collects rows of several files by layer (form 1), and tidies them into one lookup_set (form 2).
 * lookup.h explains the forms. */
#include "lookup.h"

#include "buckets.h"
#include "declaration.h"
#include "plan.h"
#include "status.h"
#include "width.h"

#include <stdlib.h>
#include <string.h>

/* Tidying pins costs the square of their number; all files together hold fewer than this. */
enum { PINS_MAX = 1 << 16 };

/* Makes room for one more item, by doubling the array. */
static int make_room(void **items, uint32_t count, uint32_t *room, size_t item_bytes)
{
    uint32_t new_room = *room ? 2 * *room : 8;
    void *grown;

    if (count < *room)
        return OK;
    if (new_room <= *room)
        return ERR_NOMEM;
    grown = realloc(*items, new_room * item_bytes);
    if (!grown)
        return ERR_NOMEM;
    *items = grown;
    *room = new_room;
    return OK;
}

struct lookup_layer *lookup_set_layer(struct lookup_set *set, const struct lookup_layer *like)
{
    struct lookup_layer *layer;

    if (make_room((void **)&set->layers, set->count, &set->room, sizeof(*set->layers)))
        return NULL;
    layer = &set->layers[set->count++];
    *layer = *like;
    layer->entries = NULL;
    layer->pins = NULL;
    layer->launches = NULL;
    layer->entry_count = layer->entry_room = layer->pin_count = layer->pin_room = 0;
    layer->launch_count = layer->launch_room = 0;
    return layer;
}

int lookup_layer_add(struct lookup_layer *layer, const struct lookup_entry *entry)
{
    TRY(make_room((void **)&layer->entries, layer->entry_count, &layer->entry_room,
                  sizeof(*entry)));
    layer->entries[layer->entry_count++] = *entry;
    return OK;
}

int lookup_layer_pin(struct lookup_layer *layer, const struct lookup_pin *pin)
{
    TRY(make_room((void **)&layer->pins, layer->pin_count, &layer->pin_room, sizeof(*pin)));
    layer->pins[layer->pin_count++] = *pin;
    return OK;
}

int lookup_layer_launch(struct lookup_layer *layer, const struct lookup_launch *launch)
{
    TRY(make_room((void **)&layer->launches, layer->launch_count, &layer->launch_room,
                  sizeof(*launch)));
    layer->launches[layer->launch_count++] = *launch;
    return OK;
}

void lookup_layer_free(struct lookup_layer *layer)
{
    free(layer->entries);
    free(layer->pins);
    free(layer->launches);
}

void lookup_set_free(struct lookup_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        lookup_layer_free(&set->layers[i]);
    free(set->layers);
    memset(set, 0, sizeof(*set));
}

void lookup_skip_space(struct lookup_skipped *skipped, uint32_t space)
{
    uint32_t i = 0;

    while (i < skipped->space_count && skipped->spaces[i] != space)
        i++;
    if (space && i == skipped->space_count && i < SKIPPED_SPACES_MAX)
        skipped->spaces[skipped->space_count++] = space;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int place_order(const struct lookup_layer *a, const struct lookup_layer *b)
{
    int order = memcmp(a->cluster, b->cluster, sizeof(a->cluster));

    order = order ? order : memcmp(a->device, b->device, sizeof(a->device));
    return order ? order : memcmp(&a->shape, &b->shape, sizeof(a->shape));
}

/* Compares two layers; 0: they are the same one. */
static int layer_order(const struct lookup_layer *a, const struct lookup_layer *b)
{
    int order = place_order(a, b);

    return order ? order : compare_numbers(a->window, b->window);
}

static struct width width_of(const struct lookup_layer *layer)
{
    return (struct width){ .window = layer->window,
                           .decided_s = layer->decided_s,
                           .entries = layer->entry_count };
}

static int by_place_and_width(const void *a, const void *b)
{
    struct width x = width_of(a), y = width_of(b);
    int order = place_order(a, b);

    return order ? order : width_order(&x, &y);
}

static int by_layer_and_file(const void *a, const void *b)
{
    const struct lookup_layer *x = a, *y = b;
    int order = layer_order(x, y);

    return order ? order : compare_numbers(x->file, y->file);
}

static int by_bucket(const void *a, const void *b)
{
    const struct lookup_entry *x = a, *y = b;
    int order = compare_numbers(x->plan.bucket, y->plan.bucket);

    order = order ? order : compare_numbers(x->flags & LOOKUP_UNSOUND, y->flags & LOOKUP_UNSOUND);
    order = order ? order : compare_numbers(x->flags & LOOKUP_STALE, y->flags & LOOKUP_STALE);
    order = order ? order : compare_numbers(x->flags & LOOKUP_IMPORTED, y->flags & LOOKUP_IMPORTED);
    order = order ? order : compare_numbers(x->file, y->file);
    return order ? order : plan_order(&x->plan, &y->plan);
}

static int by_first(const void *a, const void *b)
{
    return compare_numbers(((const struct lookup_pin *)a)->first,
                           ((const struct lookup_pin *)b)->first);
}

static float sane_time(float us)
{
    return us > 0 && us <= 1e30f ? us : 0;
}

bool lookup_times_forbid(const struct moe_shape *shape, const struct moe_plan *plan)
{
    return plan->default_us > 0 && plan->time_us > plan->default_us &&
           !plan_is_default(plan, shape);
}

/* Checks the plan of the other kind: keeps it only if it is legal, of the other kind, and has a
 * time. */
static void tidy_other(const struct moe_shape *shape, struct lookup_entry *e)
{
    bool kinds = !shape->space && shape->layout == MOE_LAYOUT_EXPERTS;
    struct moe_plan other = { 0 };

    e->no_other = kinds && e->no_other;
    if (kinds && !e->no_other && e->other.struct_size && sane_time(e->other.time_us) > 0) {
        other = plan_canonical(e->other, shape);
        other.time_us = e->other.time_us;
        other.default_us = 0;
        other.bucket = other.source = 0;
    }
    if (other.struct_size && (!plan_legal(&other, shape) || !plan_other_kind(&other, &e->plan)))
        other = (struct moe_plan){ 0 };
    e->other = other;
}

static void tidy_entries(struct lookup_layer *layer)
{
    uint64_t end = buckets_end(buckets_of(&layer->shape, layer->window));
    uint32_t kept = 0;

    for (uint32_t i = 0; i < layer->entry_count; i++) {
        struct lookup_entry *e = &layer->entries[i];

        e->plan = plan_canonical(e->plan, &layer->shape);
        e->plan.time_us = sane_time(e->plan.time_us);
        e->plan.default_us = sane_time(e->plan.default_us);
        if (plan_is_default(&e->plan, &layer->shape))
            e->flags &= (uint8_t)~LOOKUP_UNSOUND;
        else if (lookup_times_forbid(&layer->shape, &e->plan))
            e->flags |= LOOKUP_UNSOUND;
    }
    if (layer->entry_count)
        qsort(layer->entries, layer->entry_count, sizeof(*layer->entries), by_bucket);
    for (uint32_t i = 0; i < layer->entry_count; i++) {
        struct lookup_entry e = layer->entries[i];

        if (!plan_legal(&e.plan, &layer->shape) || e.plan.bucket >= end ||
            (kept && layer->entries[kept - 1].plan.bucket == e.plan.bucket))
            continue;
        tidy_other(&layer->shape, &e);
        layer->entries[kept++] = e;
    }
    layer->entry_count = kept;
}

int lookup_layer_pin_gaps(struct lookup_layer *tidy, struct lookup_pin pin)
{
    uint32_t count = tidy->pin_count;
    uint64_t gap_first = pin.first;

    for (uint32_t i = 0; i <= count && gap_first <= pin.last; i++) {
        uint64_t next_first = i < count ? tidy->pins[i].first : (uint64_t)UINT32_MAX + 1;
        struct lookup_pin gap = pin;

        if (next_first > gap_first) {
            gap.first = (uint32_t)gap_first;
            gap.last = next_first <= pin.last ? (uint32_t)(next_first - 1) : pin.last;
            TRY(lookup_layer_pin(tidy, &gap));
        }
        if (i < count && (uint64_t)tidy->pins[i].last + 1 > gap_first)
            gap_first = (uint64_t)tidy->pins[i].last + 1;
    }
    if (tidy->pin_count > count)
        qsort(tidy->pins, tidy->pin_count, sizeof(*tidy->pins), by_first);
    return OK;
}

/* Returns whether pins are tidy already, as those of packed bytes are. */
static bool pins_tidy(const struct lookup_layer *layer)
{
    for (uint32_t i = 0; i < layer->pin_count; i++) {
        const struct lookup_pin *pin = &layer->pins[i];
        struct moe_plan canonical = plan_canonical(pin->plan, &layer->shape);

        if (pin->first > pin->last || (i && pin->first <= layer->pins[i - 1].last) ||
            !plan_legal(&pin->plan, &layer->shape) || !plan_equal(&pin->plan, &canonical))
            return false;
    }
    return true;
}

static int tidy_pins(struct lookup_layer *layer)
{
    struct lookup_layer tidy = { .pins = NULL };
    int rc = OK;

    if (pins_tidy(layer))
        return OK;
    if (layer->pin_count > PINS_MAX)
        return ERR_FORMAT;

    for (uint32_t i = 0; i < layer->pin_count && !rc; i++) {
        struct lookup_pin pin = layer->pins[i];

        pin.plan = plan_canonical(pin.plan, &layer->shape);
        if (plan_legal(&pin.plan, &layer->shape) && pin.first <= pin.last)
            rc = lookup_layer_pin_gaps(&tidy, pin);
    }
    if (rc) {
        free(tidy.pins);
        return rc;
    }
    free(layer->pins);
    layer->pins = tidy.pins;
    layer->pin_count = tidy.pin_count;
    layer->pin_room = tidy.pin_room;
    return OK;
}

/* Orders rows of launches so that of two for one launch and bucket the one to keep comes first. */
static int by_launch(const void *a, const void *b)
{
    const struct lookup_launch *x = a, *y = b;
    const struct declaration *d = declaration_find(x->plan.space);
    int order = compare_numbers(declaration_launch(d, x->plan.choice),
                                declaration_launch(d, y->plan.choice));

    order = order ? order : compare_numbers(x->plan.bucket, y->plan.bucket);
    order = order ? order : compare_numbers(x->file, y->file);
    return order ? order : plan_order(&x->plan, &y->plan);
}

static void tidy_launches(struct lookup_layer *layer)
{
    const struct declaration *d = declaration_find(layer->shape.space);
    uint64_t end = buckets_end(buckets_of(&layer->shape, layer->window));
    uint32_t legal = 0, kept = 0;

    for (uint32_t i = 0; i < layer->launch_count; i++) {
        struct lookup_launch row = layer->launches[i];

        row.plan.source = 0;
        row.plan.default_us = 0;
        if (plan_legal(&row.plan, &layer->shape) && d && row.plan.bucket < end &&
            sane_time(row.plan.time_us) > 0)
            layer->launches[legal++] = row;
    }
    if (legal)
        qsort(layer->launches, legal, sizeof(*layer->launches), by_launch);
    for (uint32_t i = 0; i < legal; i++) {
        const struct moe_plan *plan = &layer->launches[i].plan;
        const struct moe_plan *last = kept ? &layer->launches[kept - 1].plan : NULL;

        if (!last || last->bucket != plan->bucket ||
            !declaration_same_launch(d, last->choice, plan->choice))
            layer->launches[kept++] = layer->launches[i];
    }
    layer->launch_count = kept;
}

/* Returns whether a layer has a legal shape and a device with a printable name, padded with 0. */
static bool is_sound_layer(const struct lookup_layer *layer)
{
    size_t length = strnlen(layer->device, LOOKUP_DEVICE_BYTES);
    char why[SHAPE_FAULT_BYTES];

    for (size_t i = 0; i < length; i++)
        if ((unsigned char)layer->device[i] < ' ' || layer->device[i] == 0x7f)
            return false;
    for (size_t i = length; i < LOOKUP_DEVICE_BYTES; i++)
        if (layer->device[i])
            return false;
    return length < LOOKUP_DEVICE_BYTES && layer->window &&
           (!layer->shape.space || layer->window == 1) &&
           !shape_fault(&layer->shape, why, sizeof(why));
}

static bool has_rows(const struct lookup_layer *layer)
{
    return layer->entry_count || layer->pin_count || layer->launch_count;
}

static void keep_layers_if(struct lookup_set *set, bool (*good)(const struct lookup_layer *layer))
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < set->count; i++)
        if (good(&set->layers[i]))
            set->layers[kept++] = set->layers[i];
        else
            lookup_layer_free(&set->layers[i]);
    set->count = kept;
}

/* Moves the rows of equal layers, which follow each other, to the first of them. */
static int merge_equal_layers(struct lookup_set *set)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < set->count; i++) {
        struct lookup_layer *into = kept ? &set->layers[kept - 1] : NULL, *from = &set->layers[i];

        if (!into || layer_order(into, from)) {
            if (kept++ != i) {
                set->layers[kept - 1] = *from;
                memset(from, 0, sizeof(*from));
            }
            continue;
        }
        for (uint32_t j = 0; j < from->entry_count; j++)
            TRY(lookup_layer_add(into, &from->entries[j]));
        for (uint32_t j = 0; j < from->pin_count; j++)
            TRY(lookup_layer_pin(into, &from->pins[j]));
        for (uint32_t j = 0; j < from->launch_count; j++)
            TRY(lookup_layer_launch(into, &from->launches[j]));
        /* Dates are compared only within a file, and the date of the first file stands for the
         * layer. */
        if (from->file == into->file && from->decided_s > into->decided_s)
            into->decided_s = from->decided_s;
        lookup_layer_free(from);
        memset(from, 0, sizeof(*from));
    }
    set->count = kept;
    return OK;
}

static int by_value(const void *a, const void *b)
{
    return compare_numbers(*(const uint32_t *)a, *(const uint32_t *)b);
}

/* Numbers files from 0. Files without rows do not count, so a table has the same bytes wherever the
 * search path finds it. */
static int number_files(struct lookup_set *set)
{
    uint32_t *files = malloc(sizeof(*files) * (set->count + (size_t)1)), count = 0;

    if (!files)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < set->count; i++)
        files[i] = set->layers[i].file;
    qsort(files, set->count, sizeof(*files), by_value);
    for (uint32_t i = 0; i < set->count; i++)
        if (!count || files[count - 1] != files[i])
            files[count++] = files[i];
    for (uint32_t i = 0; i < set->count; i++) {
        struct lookup_layer *layer = &set->layers[i];
        uint32_t *found = bsearch(&layer->file, files, count, sizeof(*files), by_value);

        layer->file = (uint32_t)(found - files);
    }
    free(files);
    return OK;
}

/* Returns when the space was declared: the largest number of its layers' shapes. */
static int64_t newest_number(const struct lookup_set *set, uint32_t space)
{
    int64_t newest = 0;

    for (uint32_t i = 0; i < set->count; i++)
        if (set->layers[i].shape.space == space && set->layers[i].declared > newest)
            newest = set->layers[i].declared;
    return newest;
}

/* Adds to a layer's file number how many layers of newer versions there are. Any number would do
 * that is larger for older versions. */
void lookup_set_number_versions(struct lookup_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        uint32_t space = set->layers[i].shape.space;
        const struct declaration *d = declaration_find(space), *other;
        int64_t declared = d ? newest_number(set, space) : 0;

        for (uint32_t j = 0; j < set->count && d; j++) {
            other = declaration_find(set->layers[j].shape.space);
            if (other && other != d && !strcmp(other->name, d->name) &&
                set->layers[j].declared > declared)
                set->layers[i].file++;
        }
    }
}

int lookup_set_tidy(struct lookup_set *set)
{
    keep_layers_if(set, is_sound_layer);
    if (set->count)
        qsort(set->layers, set->count, sizeof(*set->layers), by_layer_and_file);
    TRY(merge_equal_layers(set));
    for (uint32_t i = 0; i < set->count; i++) {
        tidy_entries(&set->layers[i]);
        TRY(tidy_pins(&set->layers[i]));
        tidy_launches(&set->layers[i]);
    }
    keep_layers_if(set, has_rows);
    if (set->count)
        qsort(set->layers, set->count, sizeof(*set->layers), by_place_and_width);
    return number_files(set);
}
