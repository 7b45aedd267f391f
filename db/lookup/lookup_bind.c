/* Finds the table for a layer on this cluster: takes packed bytes (form 3), and gives one
 * lookup_layer with its rows (form 4). lookup.h explains the forms. Says what is missing where no
 * table fits. */
#include "lookup.h"

#include "declaration.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "text.h"
#include "width.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Choosing. */

/* The layers of a table that fit what bind was asked for. */
struct bind_choice {
    const struct moelookup *table;
    const struct moe_shape *shape;
    const char *device;
    uint32_t *fits; /* numbers of layers */
    uint32_t count;
};

static bool same_layer(struct moe_shape a, struct moe_shape b)
{
    a.tokens = b.tokens = a.layers = b.layers = 0;
    return shape_equal(&a, &b);
}

size_t lookup_device_length(const struct lookup_layer *layer)
{
    const char *live = strstr(layer->device, LOOKUP_LIVE);

    return live ? (size_t)(live - layer->device) : strlen(layer->device);
}

const char *lookup_code(const struct lookup_layer *layer)
{
    const char *live = strstr(layer->device, LOOKUP_LIVE);

    return live ? live + strlen(LOOKUP_LIVE) : "";
}

/* Returns whether the table is of the device, implementation or cluster that the caller named; NULL
 * fits any. */
static bool same_device(const struct lookup_layer *layer, const char *device)
{
    static const char prefix[] = "implementation ";
    char hash[SHA256_HEX_BYTES];
    size_t length;

    if (!device || !strcmp(device, layer->device))
        return true;
    if (!strncmp(device, prefix, strlen(prefix))) {
        /* "implementation tutel" fits any name that begins so, "implementation moetune" only
         * moetune's own. */
        const char *wanted = device + strlen(prefix), *code = lookup_code(layer);

        return *code ? !strncmp(code, wanted, strlen(wanted)) : !strcmp(wanted, "moetune");
    }
    length = strlen(device);
    if (length == lookup_device_length(layer) && !strncmp(device, layer->device, length))
        return true;
    sha256_hex(layer->cluster, hash);
    return length >= 8 && length < sizeof(hash) && !strncmp(device, hash, length);
}

static struct lookup_layer layer_at(const struct bind_choice *c, uint32_t i)
{
    return pack_layer(c->table->bytes, c->fits[i]);
}

/* Keeps the tables that fit best. First come those for as many tokens as the shape says. Among
 * these come those for as many layers; where any number fits, a step of one layer is nearest. Among
 * these come those of the earliest file. */
static void keep_best_fits(struct bind_choice *c)
{
    uint64_t lowest = UINT64_MAX;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < c->count; i++) {
        struct lookup_layer layer = layer_at(c, i);
        bool other_tokens = c->shape->tokens && layer.shape.tokens != c->shape->tokens;
        bool other_layers = layer.shape.layers != c->shape->layers;
        uint64_t distance =
            (uint64_t)other_tokens << 33 | (uint64_t)other_layers << 32 | layer.file;

        if (distance < lowest) {
            lowest = distance;
            kept = 0;
        }
        if (distance == lowest)
            c->fits[kept++] = c->fits[i];
    }
    c->count = kept;
}

static bool all_same(const struct bind_choice *c,
                     bool (*same)(const struct lookup_layer *a, const struct lookup_layer *b))
{
    for (uint32_t i = 1; i < c->count; i++) {
        struct lookup_layer a = layer_at(c, 0), b = layer_at(c, i);

        if (!same(&a, &b))
            return false;
    }
    return true;
}

static bool device_alike(const struct lookup_layer *a, const struct lookup_layer *b)
{
    size_t length = lookup_device_length(a);

    return length == lookup_device_length(b) && !strncmp(a->device, b->device, length);
}

static bool all_but_window_alike(const struct lookup_layer *a, const struct lookup_layer *b)
{
    return !memcmp(a->cluster, b->cluster, sizeof(a->cluster)) &&
           a->shape.tokens == b->shape.tokens && a->shape.layers == b->shape.layers;
}

static int refuse_ambiguous(const struct bind_choice *c)
{
    lookup_log(c->table, LOOKUP_ERROR,
               "bind: %u tables fit this layer; name a device, a hash or an implementation, or set "
               "tokens or layers:",
               c->count);
    for (uint32_t i = 0; i < c->count; i++) {
        struct lookup_layer layer = layer_at(c, i);

        lookup_log(c->table, LOOKUP_ERROR, "  %.12s  %s%s  %s  R=%u  %u buckets",
                   SHA256_HEX(layer.cluster), layer.device,
                   *lookup_code(&layer) ? "" : "; moetune's own implementation",
                   SHAPE_TEXT(&layer.shape), layer.window, layer.entry_count);
    }
    return ERR_AMBIGUOUS;
}

static uint64_t reach_of(const struct bind_choice *c, uint32_t i)
{
    struct lookup_layer layer = layer_at(c, i);
    const uint8_t *bytes = c->table->bytes;

    return layer.entry_count
               ? width_reach(layer.window,
                             pack_entry(bytes, c->fits[i], layer.entry_count - 1).plan.bucket)
               : 0;
}

/* Tables of several widths come in the order in which they answer. Moves the first one that reaches
 * far enough to the front. */
static void move_answering_width_first(struct bind_choice *c)
{
    uint64_t widest = 0;
    uint32_t first_that_reaches = 0, answers;

    for (uint32_t i = 0; i < c->count; i++)
        widest = reach_of(c, i) > widest ? reach_of(c, i) : widest;
    while (first_that_reaches < c->count && width_is_short(reach_of(c, first_that_reaches), widest))
        first_that_reaches++;
    if (first_that_reaches == 0 || first_that_reaches == c->count)
        return;
    answers = c->fits[first_that_reaches];
    memmove(c->fits + 1, c->fits, first_that_reaches * sizeof(*c->fits));
    c->fits[0] = answers;
}

/* Finds the tables that fit. If several remain, they differ only in their width, and the first one
 * answers. */
static int choose_tables(struct bind_choice *c)
{
    for (uint32_t i = 0; i < pack_layer_count(c->table->bytes); i++) {
        struct lookup_layer layer = pack_layer(c->table->bytes, i);

        if (same_layer(layer.shape, *c->shape) && same_device(&layer, c->device))
            c->fits[c->count++] = i;
    }
    if (!all_same(c, device_alike))
        return refuse_ambiguous(c);
    keep_best_fits(c);
    if (!all_same(c, all_but_window_alike))
        return refuse_ambiguous(c);
    move_answering_width_first(c);
    return OK;
}

/* ---- No table. */

/* Writes which table comes nearest. */
static void describe_nearest(const struct bind_choice *c, char *text, size_t size)
{
    const struct lookup_skipped *skipped = &c->table->skipped;
    uint32_t layers = pack_layer_count(c->table->bytes);

    snprintf(
        text, size, "%s%s%s", layers ? "no table has this layer" : "there is no table",
        skipped->modelled ? " but modelled ones (--sim, --virtual-ranks), which never answer" : "",
        skipped->elsewhere ? ", but imported ones of clusters that this one was not found to be"
                           : "");
    for (uint32_t i = 0; i < layers; i++) {
        struct lookup_layer layer = pack_layer(c->table->bytes, i);
        struct moe_shape alike = *c->shape, *s = &layer.shape;

        if (same_layer(*s, alike)) {
            snprintf(text, size, "the table of this layer is for \"%s\", not for \"%s\"",
                     layer.device, c->device ? c->device : "");
            return;
        }
        alike.ranks = s->ranks;
        alike.ranks_per_node = s->ranks_per_node;
        alike.ranks_per_rack = s->ranks_per_rack;
        if (!same_layer(*s, alike))
            continue;
        text_put(text, size, "the table of this layer is for %u ranks, %u per node", s->ranks,
                 s->ranks_per_node);
        if (s->ranks_per_rack)
            text_add(text, size, ", %u per rack", s->ranks_per_rack);
        else if (c->shape->ranks_per_rack)
            text_add(text, size, ", without racks");
    }
}

static void warn_no_table(const struct bind_choice *c)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const struct declaration *d = declaration_find(c->shape->space);
    char shape[SHAPE_TEXT_BYTES], why[LOOKUP_DEVICE_BYTES + 256], options[96] = "", *unknown;
    struct moe_plan default_plan = plan_default(c->shape);
    struct moe_shape bare = *c->shape;

    if (c->table->level < LOOKUP_WARN || atomic_flag_test_and_set(&warned))
        return;
    bare.space = 0; /* the space's file says it */
    shape_format(&bare, shape, sizeof(shape));
    if (shape_is_none(c->shape) || (c->shape->space && !c->shape->top_k))
        *shape = 0; /* there is no layer to name */
    /* The user must fill in how many tokens a rank has, where that is not known. */
    unknown = strstr(shape, " T=0 ");
    if (unknown && !bare.tokens)
        unknown[3] = '?';
    describe_nearest(c, why, sizeof(why));
    if (d)
        text_add(options, sizeof(options), " --ranks %u", c->shape->ranks);
    if (d && c->shape->ranks_per_node != c->shape->ranks)
        text_add(options, sizeof(options), " --ranks-per-node %u", c->shape->ranks_per_node);
    if (c->shape->ranks_per_rack)
        text_add(options, sizeof(options), " --ranks-per-rack %u", c->shape->ranks_per_rack);
    lookup_log(c->table, LOOKUP_WARN,
               "%s; the default plan %s answers. On %u rank%s, %u per node, this fills the gap: "
               "moetune %s%s%s%s%s",
               why, PLAN_TEXT(&default_plan), c->shape->ranks, c->shape->ranks == 1 ? "" : "s",
               c->shape->ranks_per_node, d ? "tune --space FILE --exec PROGRAM" : "--cluster",
               *shape ? " --shape \"" : "", shape, *shape ? "\"" : "", options);
}

/* ---- Several widths. */

static void warn_hidden_widths(const struct bind_choice *c)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    struct lookup_layer answers = layer_at(c, 0);
    char hidden[128] = "";

    if (c->table->level < LOOKUP_WARN || atomic_flag_test_and_set(&warned))
        return;
    for (uint32_t i = 1; i < c->count; i++)
        text_add(hidden, sizeof(hidden), " R=%u", layer_at(c, i).window);
    lookup_log(c->table, LOOKUP_WARN,
               "%s: there are tables with buckets of several widths; the last measured one that "
               "reaches far enough answers, R=%u; hidden:%s",
               SHAPE_TEXT(&answers.shape), answers.window, hidden);
}

/* Adds the pins of the other widths. A pin holds for capacities, whatever is tuned later. It also
 * holds in buckets that it covers only in part, because a plan that a person keeps away may be
 * harmful. */
static int inherit_pins(const struct bind_choice *c, struct lookup_layer *layer)
{
    for (uint32_t i = 1; i < c->count; i++) {
        struct lookup_layer other = layer_at(c, i);

        for (uint32_t p = 0; p < other.pin_count; p++) {
            struct lookup_pin pin = pack_pin(c->table->bytes, c->fits[i], p);
            uint64_t first = (uint64_t)pin.first * other.window / layer->window;
            uint64_t last = (((uint64_t)pin.last + 1) * other.window - 1) / layer->window;

            if (first > UINT32_MAX)
                continue;
            pin.first = (uint32_t)first;
            pin.last = last < UINT32_MAX ? (uint32_t)last : UINT32_MAX;
            TRY(lookup_layer_pin_gaps(layer, pin));
        }
    }
    return OK;
}

/* ---- A view. */

/* Copies the layer that answers; the view will own it. */
static int copy_layer(const struct bind_choice *c, struct lookup_layer *layer)
{
    const uint8_t *bytes = c->table->bytes;
    uint32_t answering = c->fits[0];
    int rc = ERR_NOMEM;

    *layer = pack_layer(bytes, answering);
    layer->entries = malloc(sizeof(*layer->entries) * (layer->entry_count + (size_t)1));
    layer->pins = malloc(sizeof(*layer->pins) * (layer->pin_count + (size_t)1));
    layer->launches = malloc(sizeof(*layer->launches) * (layer->launch_count + (size_t)1));
    if (!layer->entries || !layer->pins || !layer->launches)
        goto out;
    for (uint32_t i = 0; i < layer->entry_count; i++)
        layer->entries[i] = pack_entry(bytes, answering, i);
    layer->pin_room = layer->pin_count + 1;
    for (uint32_t i = 0; i < layer->pin_count; i++)
        layer->pins[i] = pack_pin(bytes, answering, i);
    for (uint32_t i = 0; i < layer->launch_count; i++)
        layer->launches[i] = pack_launch(bytes, answering, i);
    if (c->count > 1)
        warn_hidden_widths(c);
    TRY_OUT(inherit_pins(c, layer));
    return OK;
out:
    lookup_layer_free(layer);
    return rc;
}

/* ---- Inside a launch. */

static bool is_blank(const char *words)
{
    return !words || !words[strspn(words, " ")];
}

static bool can_restart(const struct declaration *d)
{
    for (size_t i = 0; i < d->axes; i++)
        if (d->axis[i].restart)
            return true;
    return false;
}

/* Finds the launch of the caller's words, else that of the environment. The environment speaks for
 * all layers of a job, so layers without launches ignore it. */
static int find_launch(const struct moelookup *table, const struct moe_shape *shape,
                       const char *words, struct lookup_job *job)
{
    const struct declaration *d = declaration_find(shape->space);
    char why[DECLARATION_FAULT_BYTES], launch[DECLARATION_PLAN_BYTES];
    const char *source = is_blank(words) ? "MOELOOKUP_LAUNCH" : "bind";
    uint32_t choice;

    if (is_blank(words)) {
        words = getenv("MOELOOKUP_LAUNCH");
        if (is_blank(words) || !d || !can_restart(d))
            return OK;
    }
    if (!d) {
        lookup_log(table, LOOKUP_ERROR,
                   "bind: \"%s\" is a launch, and the layer is of no declared space",
                   TEXT_SHORT(words, 80));
        return MOE_ERR_ARGUMENT;
    }
    if (declaration_launch_scan(d, words, &choice, why, sizeof(why))) {
        lookup_log(table, LOOKUP_ERROR, "%s: %s", source, why);
        return MOE_ERR_ARGUMENT;
    }
    job->has_launch = declaration_launch_default(d, choice, shape->ranks, &job->default_choice);
    if (!job->has_launch) {
        lookup_log(table, LOOKUP_ERROR, "%s: no plan of %s with %s is legal on %u ranks", source,
                   d->name, declaration_launch_words(d, choice, launch), shape->ranks);
        return MOE_ERR_ARGUMENT;
    }
    return OK;
}

/* If all entries are of one launch, the job runs that launch. Otherwise buckets without an entry
 * would answer with the default of another launch. */
static void imply_launch(const struct lookup_layer *layer, struct lookup_job *job)
{
    const struct declaration *d = declaration_find(layer->shape.space);

    if (job->has_launch || !layer->launch_count || !layer->entry_count)
        return;
    for (uint32_t i = 1; i < layer->entry_count; i++)
        if (!declaration_same_launch(d, layer->entries[i].plan.choice,
                                     layer->entries[0].plan.choice))
            return;
    job->has_launch = job->implied = declaration_launch_default(
        d, layer->entries[0].plan.choice, layer->shape.ranks, &job->default_choice);
}

/* Warns once of a pin that a job of this launch cannot run. */
static void warn_other_pins(const struct moelookup *table, const struct lookup_layer *layer,
                            const struct lookup_job *job)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const struct declaration *d = declaration_find(layer->shape.space);
    char words[DECLARATION_PLAN_BYTES];

    for (uint32_t i = 0; i < layer->pin_count && job->has_launch; i++) {
        const struct moe_plan *plan = &layer->pins[i].plan;

        if (declaration_same_launch(d, plan->choice, job->default_choice))
            continue;
        if (table->level >= LOOKUP_WARN && !atomic_flag_test_and_set(&warned))
            lookup_log(table, LOOKUP_WARN,
                       "the pinned plan %s is of another launch than %s: ignored", PLAN_TEXT(plan),
                       declaration_launch_words(d, job->default_choice, words));
        return;
    }
}

/* Returns whether the forced plan answers in this view, and warns where it does not. */
static bool force_answers(const struct moelookup *table, const struct moe_plan *force,
                          const struct moe_shape *shape, const struct lookup_job *job)
{
    const struct declaration *d = declaration_find(shape->space);
    bool is_legal = plan_legal(force, shape);
    bool is_of_launch =
        !job->has_launch ||
        (is_legal && declaration_same_launch(d, force->choice, job->default_choice));

    if (!is_legal)
        lookup_log(table, LOOKUP_WARN, "MOELOOKUP_FORCE is not legal for this layer: ignored");
    else if (!is_of_launch)
        lookup_log(table, LOOKUP_WARN, "MOELOOKUP_FORCE is of another launch: ignored");
    return is_legal && is_of_launch;
}

int moelookup_bind(const struct moelookup *table, const struct moe_shape *shape,
                   const char *device_or_null, struct moelookup_view **out)
{
    return moelookup_bind_launch(table, shape, device_or_null, NULL, out);
}

int moelookup_bind_launch(const struct moelookup *table, const struct moe_shape *shape,
                          const char *device_or_null, const char *launch_words,
                          struct moelookup_view **out)
{
    struct moe_shape full_shape = { 0 };
    struct bind_choice choice = { .table = table, .shape = &full_shape, .device = device_or_null };
    struct moelookup_view *view = NULL;
    struct lookup_job job = { .has_launch = false };
    struct lookup_switches switches;
    struct lookup_layer layer;
    char why[SHAPE_FAULT_BYTES];
    size_t size;
    int rc;

    if (!table || !shape || !out)
        return MOE_ERR_ARGUMENT;
    /* A caller of another version passes another size, 0 for the first version. Fields that it does
     * not know are 0. */
    size = shape->struct_size ? shape->struct_size : offsetof(struct moe_shape, layout);
    memcpy(&full_shape, shape, size < sizeof(full_shape) ? size & ~(size_t)3 : sizeof(full_shape));
    full_shape.struct_size = sizeof(full_shape);
    shape_complete(&full_shape); /* in the form that tables have */
    if (shape_fault(&full_shape, why, sizeof(why))) {
        lookup_log(table, LOOKUP_ERROR, "bind: %s", why);
        return MOE_ERR_ARGUMENT;
    }
    TRY(find_launch(table, &full_shape, launch_words, &job));
    choice.fits = malloc(sizeof(*choice.fits) * (pack_layer_count(table->bytes) + (size_t)1));
    if (!choice.fits)
        return MOE_ERR_NOMEM;
    TRY_OUT(choose_tables(&choice));
    layer = (struct lookup_layer){ .shape = full_shape, .window = shape_window(&full_shape) };
    switches = pack_switches(table->bytes);
    if (choice.count)
        TRY_OUT(copy_layer(&choice, &layer));
    else if (!switches.disabled && !switches.forced)
        warn_no_table(&choice);
    switches.forced = switches.forced && force_answers(table, &switches.force, &full_shape, &job);
    warn_other_pins(table, &layer, &job);
    imply_launch(&layer, &job);
    TRY_OUT(lookup_view_open(&layer, &full_shape, &switches, &job, &view));
    if (table->recorder)
        TRY_OUT(lookup_view_record(view, &full_shape, table->recorder));
    *out = view;
    view = NULL;
out:
    moelookup_view_free(view);
    free(choice.fits);
    return rc;
}
