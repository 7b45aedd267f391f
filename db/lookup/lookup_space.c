/* Declared spaces: which of them a table (packed bytes, form 3) has, and the values of a plan.
 * lookup.h explains the forms. */
#include "lookup.h"

#include "declaration.h"
#include "plan.h"
#include "shape.h"
#include "status.h"

#include <stdio.h>
#include <string.h>

/* ---- The spaces of a table. */

/* Returns a number for the order in which layers answer, the lowest first: by files, and layers
 * without entries last. */
static uint64_t answering_order(const struct lookup_layer *layer)
{
    return (uint64_t)!layer->entry_count << 32 | layer->file;
}

/* Returns the space of that name, other than `but`, whose layer has the lowest number; NULL:
 * none. */
static const struct declaration *find_space_named(const struct moelookup *table, const char *name,
                                                  const struct declaration *except,
                                                  uint64_t *number)
{
    const struct declaration *found = NULL;

    for (uint32_t i = 0; i < pack_layer_count(table->bytes); i++) {
        struct lookup_layer layer = pack_layer(table->bytes, i);
        const struct declaration *d = declaration_find(layer.shape.space);

        if (!d || d == except || !declaration_is_called(d, name) ||
            (found && answering_order(&layer) >= *number))
            continue;
        found = d;
        *number = answering_order(&layer);
    }
    return found;
}

/* Lists the spaces that the table has, as many as fit. */
static void list_spaces(const struct moelookup *table, char *room, size_t size)
{
    size_t used = 0;

    *room = 0;
    for (uint32_t i = 0; i < pack_layer_count(table->bytes); i++) {
        struct lookup_layer layer = pack_layer(table->bytes, i);
        const struct declaration *d = declaration_find(layer.shape.space);
        char tag[DECLARATION_TAG_BYTES];

        if (d && used + sizeof(tag) + 2 < size && !strstr(room, declaration_tag(d, tag)))
            used += (size_t)snprintf(room + used, size - used, "%s%s", used ? ", " : "", tag);
    }
}

/* Prints that no table answers for the space, and which spaces there are. */
static void report_no_space(const struct moelookup *table, const char *name)
{
    const struct lookup_skipped *skipped = &table->skipped;
    char others[512], imported_tag[DECLARATION_TAG_BYTES] = "";

    for (uint32_t i = 0; i < skipped->space_count; i++) {
        const struct declaration *d = declaration_find(skipped->spaces[i]);

        if (d && declaration_is_called(d, name))
            declaration_tag(d, imported_tag);
    }
    list_spaces(table, others, sizeof(others));
    if (*imported_tag)
        lookup_log(table, LOOKUP_ERROR,
                   "the table of the space \"%s\" here does not answer: it was imported from a "
                   "cluster that this machine was not found to be",
                   imported_tag);
    else
        lookup_log(table, LOOKUP_ERROR, "no table here has a layer of the space \"%s\"%s%s", name,
                   *others ? "; those here: " : "", others);
}

int moelookup_space(const struct moelookup *table, const char *name, uint32_t *out)
{
    const struct declaration *d, *other;
    uint64_t lowest = 0, next = 0;

    if (!table || !name || !out)
        return MOE_ERR_ARGUMENT;
    if (strchr(name, '\n')) { /* a text has several lines, a name has one */
        TRY(declaration_register(name, &d));
        *out = d->id;
        return MOE_OK;
    }
    d = find_space_named(table, name, NULL, &lowest);
    if (!d) {
        report_no_space(table, name);
        return MOE_ERR_ARGUMENT;
    }
    other = find_space_named(table, name, d, &next);
    if (other) {
        /* Older packed tables do not say which version is the newest: their numbers are equal. */
        bool order_is_known = next > lowest;
        char a[DECLARATION_TAG_BYTES], b[DECLARATION_TAG_BYTES];

        lookup_log(table, order_is_known ? LOOKUP_INFO : LOOKUP_ERROR,
                   order_is_known
                       ? "the space \"%s\" is here in several versions: %s, the newest that has "
                         "entries, answers, and not %s"
                       : "the space \"%s\" is here in several versions, name one: %s, %s",
                   name, declaration_tag(d, a), declaration_tag(other, b));
        if (!order_is_known)
            return MOE_ERR_AMBIGUOUS;
    }
    *out = d->id;
    return MOE_OK;
}

/* Returns whether an earlier layer has the same shape, on another cluster. */
static bool came_before(const struct moelookup *table, uint32_t layer)
{
    struct moe_shape shape = pack_layer(table->bytes, layer).shape, before;

    for (uint32_t i = 0; i < layer; i++) {
        before = pack_layer(table->bytes, i).shape;
        if (shape_equal(&before, &shape))
            return true;
    }
    return false;
}

int moelookup_space_layer(const struct moelookup *table, uint32_t space, uint32_t at,
                          struct moe_shape *out)
{
    /* Describes a layer that no table has (k = 0), for which the default plan answers. */
    struct moe_shape shape = { .experts = 1,
                               .model_dim = 1,
                               .hidden_dim = 1,
                               .ranks = 1,
                               .ranks_per_node = 1,
                               .space = space };
    uint32_t size = out ? out->struct_size : 0;
    bool has_space = false, found = false;

    if (!table || !space || size < offsetof(struct moe_shape, space) + sizeof(out->space))
        return MOE_ERR_ARGUMENT;
    for (uint32_t i = 0; i < pack_layer_count(table->bytes) && !found; i++) {
        struct moe_shape layer = pack_layer(table->bytes, i).shape;

        has_space |= layer.space == space;
        if (layer.space != space || came_before(table, i) || at--)
            continue;
        shape = layer;
        found = true;
    }
    if (!found && (at || has_space || !declaration_find(space)))
        return MOE_ERR_ARGUMENT;
    shape.struct_size = size < sizeof(shape) ? size : (uint32_t)sizeof(shape);
    memcpy(out, &shape, shape.struct_size);
    return MOE_OK;
}

/* ---- Values of a plan. */

/* Returns the axis, and the index of the plan's value there. NULL: the plan has no such axis. */
static const struct declared_axis *find_value(const struct moe_plan *plan, const char *axis,
                                              uint32_t *value)
{
    struct moe_plan full_plan = plan_default(NULL);
    const struct declaration *d;
    size_t axis_index;

    if (!plan || !axis)
        return NULL;
    memcpy(&full_plan, plan, plan_bytes(plan->struct_size));
    d = declaration_find(full_plan.space);
    axis_index =
        d && full_plan.choice < d->combinations ? declaration_axis(d, axis, strlen(axis)) : 0;
    if (!d || full_plan.choice >= d->combinations || axis_index == d->axes)
        return NULL;
    *value = declaration_value(d, full_plan.choice, axis_index);
    return &d->axis[axis_index];
}

int moelookup_value(const struct moe_plan *plan, const char *axis, char *text, size_t size)
{
    uint32_t value;
    const struct declared_axis *found = find_value(plan, axis, &value);
    size_t length = found ? strlen(found->text[value]) : 0;

    if (!found || (!text && size))
        return MOE_ERR_ARGUMENT;
    if (size) {
        size_t copied = length < size ? length : size - 1;

        memcpy(text, found->text[value], copied);
        text[copied] = 0;
    }
    return (int)length;
}

int moelookup_number(const struct moe_plan *plan, const char *axis, int64_t *out)
{
    uint32_t value;
    const struct declared_axis *found = find_value(plan, axis, &value);

    if (!found || found->words || !out)
        return MOE_ERR_ARGUMENT;
    *out = found->number[value];
    return MOE_OK;
}
