/* Views: takes one lookup_layer with its rows (form 4), and gives the answers of all its buckets
 * (form 5). lookup.h explains the forms. Opening a view decides every answer once, so that a
 * look-up only reads an array. */
#include "lookup.h"

#include "buckets.h"
#include "declaration.h"
#include "plan.h"
#include "status.h"
#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The answer for all buckets from `from` up to where the next answer begins. */
struct bucket_answer {
    uint32_t from;
    uint32_t echoes_bucket; /* the plan returns the bucket that was asked for */
    struct moe_plan plan;
};

/* A view; moelookup_view_free() frees it. The first members are those that a look-up reads. */
struct moelookup_view {
    uint64_t reciprocal; /* ceil(2^64 / R); 0 for R = 1 */
    struct buckets buckets;
    uint32_t last;  /* bucket of the last answer */
    uint32_t shift; /* index[b >> shift] is the answer of the slot's first bucket */
    uint32_t *index;
    struct bucket_answer *answers;
    uint32_t count;
    struct counter counter; /* of what the view is asked */
    /* For explanations; layer.window is never 0. */
    struct lookup_layer layer;
    struct lookup_switches switches;
    struct lookup_job job; /* if it is given, layer.launches are only its rows */
    bool launches;         /* the table has rows of launches, of this one or others */
};

/* ---- The order in which answers are tried. */

/* Returns how many entries lie in lower buckets. */
static uint32_t entries_before(const struct lookup_layer *layer, uint32_t bucket)
{
    uint32_t low = 0, high = layer->entry_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (layer->entries[middle].plan.bucket < bucket)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct lookup_pin *pin_at(const struct lookup_layer *layer, uint32_t bucket)
{
    uint32_t low = 0, high = layer->pin_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (layer->pins[middle].last < bucket)
            low = middle + 1;
        else
            high = middle;
    }
    return low < layer->pin_count && layer->pins[low].first <= bucket ? &layer->pins[low] : NULL;
}

/* Returns an answer that names the bucket that was asked for. */
static struct bucket_answer echoing_answer(struct moe_plan plan, enum moe_source source)
{
    plan.source = source;
    return (struct bucket_answer){ .echoes_bucket = 1, .plan = plan };
}

/* Returns an entry's answer. If its own numbers forbid its plan, the default plan answers. */
static struct bucket_answer answer_of(const struct lookup_layer *layer,
                                      const struct lookup_entry *e, enum moe_source source)
{
    struct bucket_answer answer = { .plan = e->plan };

    answer.plan.source = e->flags & LOOKUP_STALE ? MOE_STALE : source;
    if (e->flags & LOOKUP_UNSOUND) {
        answer.plan = plan_default(&layer->shape);
        answer.plan.bucket = e->plan.bucket;
        answer.plan.source = MOE_UNSOUND;
    }
    return answer;
}

static bool is_fresh(const struct lookup_entry *e)
{
    return e && !(e->flags & (LOOKUP_STALE | LOOKUP_UNSOUND));
}

static enum moe_source own_source(const struct lookup_entry *own)
{
    if (own->flags & LOOKUP_IMPORTED)
        return MOE_IMPORTED;
    return own->flags & LOOKUP_INFERRED ? MOE_INFERRED : MOE_EXACT;
}

/* Returns the answer of this bucket's entry, or of an entry near it. The layer has at least one. */
static struct bucket_answer entry_answer(const struct lookup_layer *layer, uint32_t bucket)
{
    const struct lookup_entry *entries = layer->entries, *own = NULL, *below = NULL, *above = NULL;
    uint32_t count = layer->entry_count, index = entries_before(layer, bucket), first_above;
    bool outside = bucket < entries[0].plan.bucket || bucket > entries[count - 1].plan.bucket;
    enum moe_source nearby = outside ? MOE_CLAMPED : MOE_NEIGHBOUR;

    if (index < count && entries[index].plan.bucket == bucket)
        own = &entries[index];
    if (index > 0)
        below = &entries[index - 1];
    first_above = own ? index + 1 : index;
    if (first_above < count)
        above = &entries[first_above];
    if (is_fresh(own) || (own && own->flags & LOOKUP_UNSOUND))
        return answer_of(layer, own, own_source(own));
    if (is_fresh(below) && below->plan.bucket == bucket - 1)
        return answer_of(layer, below, nearby);
    if (is_fresh(above) && above->plan.bucket == bucket + 1)
        return answer_of(layer, above, nearby);
    return answer_of(layer, own ? own : below ? below : above, nearby);
}

/* Returns whether the job can run a plan: inside a launch, only plans of that launch. */
static bool is_runnable(const struct moelookup_view *view, const struct moe_plan *plan)
{
    return !view->job.has_launch ||
           declaration_same_launch(view->buckets.declared, plan->choice, view->job.default_choice);
}

/* Finds this bucket's entry of a declared space. Returns false where there is none that the job can
 * run: for an unsound entry the default answers, which may be of another launch. */
static bool declared_entry(const struct moelookup_view *view, uint32_t bucket,
                           struct bucket_answer *out)
{
    uint32_t index = entries_before(&view->layer, bucket);
    const struct lookup_entry *e = &view->layer.entries[index];

    if (index == view->layer.entry_count || e->plan.bucket != bucket ||
        !is_runnable(view, &e->plan))
        return false;
    *out = answer_of(&view->layer, e, own_source(e));
    return is_runnable(view, &out->plan);
}

/* Returns the launch's own best plan in the bucket; NULL: it ran nothing there. */
static const struct moe_plan *launch_plan(const struct moelookup_view *view, uint32_t bucket)
{
    for (uint32_t i = 0; i < view->layer.launch_count; i++)
        if (view->layer.launches[i].plan.bucket == bucket)
            return &view->layer.launches[i].plan;
    return NULL;
}

/* Returns whether the table knows the view's launch. */
static bool knows_launch(const struct moelookup_view *view)
{
    for (uint32_t i = 0; i < view->layer.entry_count; i++)
        if (is_runnable(view, &view->layer.entries[i].plan))
            return true;
    return view->layer.launch_count;
}

static bool has_rows(const struct moelookup_view *view)
{
    return view->layer.entry_count || view->launches;
}

static struct bucket_answer answer_for(const struct moelookup_view *view, uint32_t bucket)
{
    const struct lookup_pin *pin = pin_at(&view->layer, bucket);
    struct bucket_answer answer;
    const struct moe_plan *best;

    if (view->switches.forced)
        return echoing_answer(view->switches.force, MOE_OVERRIDE);
    if (pin && (view->job.implied || is_runnable(view, &pin->plan)))
        return echoing_answer(pin->plan, MOE_OVERRIDE);
    if (view->layer.entry_count && !view->buckets.declared)
        return entry_answer(&view->layer, bucket);
    /* An entry of another range or class says nothing about this one. */
    if (view->layer.entry_count && declared_entry(view, bucket, &answer))
        return answer;
    if (!view->job.has_launch)
        return echoing_answer(plan_default(&view->layer.shape), MOE_DEFAULT);
    best = launch_plan(view, bucket);
    if (best)
        return echoing_answer(*best, MOE_EXACT);
    return echoing_answer(declared_plan(view->layer.shape.space, view->job.default_choice),
                          has_rows(view) && !knows_launch(view) ? MOE_UNKNOWN_LAUNCH : MOE_DEFAULT);
}

/* ---- All answers in advance. */

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Lists buckets at which the answer may change: around each entry, and at the ends of pins. In a
 * space it lists all buckets, which are few. */
static uint32_t *list_changes(const struct moelookup_view *view, uint32_t *count)
{
    const struct lookup_layer *layer = &view->layer;
    uint32_t range_count = view->buckets.declared ? (uint32_t)buckets_end(view->buckets) : 1;
    uint32_t *changes = malloc(sizeof(*changes) * (range_count + 4 * (size_t)layer->entry_count +
                                                   2 * (size_t)layer->pin_count));
    uint32_t listed = 0;

    if (!changes)
        return NULL;
    for (; listed < range_count; listed++)
        changes[listed] = listed;
    for (uint32_t i = 0; i < layer->entry_count; i++) {
        int64_t bucket = layer->entries[i].plan.bucket;

        for (int64_t b = bucket - 1; b <= bucket + 2; b++)
            if (b >= 0 && b <= UINT32_MAX)
                changes[listed++] = (uint32_t)b;
    }
    for (uint32_t i = 0; i < layer->pin_count; i++) {
        changes[listed++] = layer->pins[i].first;
        if (layer->pins[i].last < UINT32_MAX)
            changes[listed++] = layer->pins[i].last + 1;
    }
    qsort(changes, listed, sizeof(*changes), by_value);
    *count = listed;
    return changes;
}

/* Decides the answer for each bucket at which it may change. */
static int list_answers(struct moelookup_view *view)
{
    uint32_t count, *changes = list_changes(view, &count);

    if (!changes)
        return ERR_NOMEM;
    view->answers = malloc(sizeof(*view->answers) * count);
    for (uint32_t i = 0; i < count && view->answers; i++) {
        const struct bucket_answer *last = view->count ? &view->answers[view->count - 1] : NULL;
        struct bucket_answer answer = answer_for(view, changes[i]);

        answer.from = changes[i];
        if (!last || last->echoes_bucket != answer.echoes_bucket ||
            memcmp(&last->plan, &answer.plan, sizeof(answer.plan)) != 0)
            view->answers[view->count++] = answer;
    }
    free(changes);
    return view->answers ? OK : ERR_NOMEM;
}

/* Makes one slot per bucket, or coarser slots where buckets lie far apart. So memory stays in
 * proportion to the table. */
static int make_index(struct moelookup_view *view)
{
    uint32_t slots_max = 4096 + 16 * view->count, slots, answer = 0;

    view->last = view->answers[view->count - 1].from;
    while (view->last >> view->shift >= slots_max)
        view->shift++;
    slots = (view->last >> view->shift) + 2;
    view->index = malloc(sizeof(*view->index) * slots);
    if (!view->index)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < slots; i++) {
        uint64_t bucket = (uint64_t)i << view->shift;

        while (answer + 1 < view->count && view->answers[answer + 1].from <= bucket)
            answer++;
        view->index[i] = answer;
    }
    return OK;
}

/* Marks entries that their times forbid. Also limits the time of the other kind's best plan: it
 * takes no longer than the default plan, if that is of the other kind. */
static void mark_unsound(struct lookup_layer *layer)
{
    struct moe_plan default_plan = plan_default(&layer->shape);

    for (uint32_t i = 0; i < layer->entry_count; i++) {
        struct lookup_entry *e = &layer->entries[i];

        if (lookup_times_forbid(&layer->shape, &e->plan))
            e->flags |= LOOKUP_UNSOUND;
        if (!plan_other_kind(&default_plan, &e->other) && e->plan.default_us > 0 &&
            e->other.time_us > e->plan.default_us) {
            e->other = default_plan;
            e->other.time_us = e->plan.default_us;
        }
    }
}

/* Keeps only the rows of the job's launch. */
static void keep_launch_rows(struct moelookup_view *view)
{
    struct lookup_layer *layer = &view->layer;
    uint32_t kept = 0;

    view->launches = layer->launch_count;
    for (uint32_t i = 0; i < layer->launch_count && view->job.has_launch; i++)
        if (is_runnable(view, &layer->launches[i].plan))
            layer->launches[kept++] = layer->launches[i];
    layer->launch_count = kept;
}

int lookup_view_open(struct lookup_layer *layer, const struct moe_shape *shape,
                     const struct lookup_switches *switches, const struct lookup_job *job,
                     struct moelookup_view **out)
{
    struct moelookup_view *view = calloc(1, sizeof(*view));
    int rc = ERR_NOMEM;

    if (!view) {
        lookup_layer_free(layer);
        return rc;
    }
    view->layer = *layer;
    view->job = *job;
    mark_unsound(&view->layer);
    view->switches = *switches;
    view->switches.forced = switches->forced && plan_legal(&switches->force, shape);
    view->switches.force = plan_canonical(switches->force, shape);
    view->buckets = buckets_of(&layer->shape, layer->window);
    keep_launch_rows(view);
    view->reciprocal = layer->window > 1 ? UINT64_MAX / layer->window + 1 : 0;
    TRY_OUT(list_answers(view));
    TRY_OUT(make_index(view));
    *out = view;
    return OK;
out:
    moelookup_view_free(view);
    return rc;
}

void moelookup_view_free(struct moelookup_view *view)
{
    if (!view)
        return;
    counter_close(&view->counter);
    lookup_layer_free(&view->layer);
    free(view->answers);
    free(view->index);
    free(view);
}

/* ---- Answering. */

__extension__ typedef unsigned __int128 wide;

/* Returns floor(capacity / R), exactly: both have 32 bits, and the reciprocal 64. */
static uint32_t bucket_of(const struct moelookup_view *view, uint32_t capacity)
{
    return view->reciprocal ? (uint32_t)((wide)view->reciprocal * capacity >> 64) : capacity;
}

/* Returns the answer for a bucket. Inlined, because the hot call is one of its callers. */
static inline __attribute__((always_inline)) const struct bucket_answer *
find_answer(const struct moelookup_view *view, uint32_t bucket)
{
    uint32_t slot = (bucket < view->last ? bucket : view->last) >> view->shift;
    uint32_t low = view->index[slot], high;

    if (view->shift)
        for (high = view->index[slot + 1] + 1; high - low > 1;) {
            uint32_t middle = low + (high - low) / 2;

            if (view->answers[middle].from <= bucket)
                low = middle;
            else
                high = middle;
        }
    return &view->answers[low];
}

/* Returns the bucket that a plan names when `asked` was asked for. */
static uint32_t answered_bucket(const struct bucket_answer *answer, uint32_t asked)
{
    return answer->echoes_bucket ? asked : answer->plan.bucket;
}

/* Copies the first `bytes` of a plan, but not struct_size, which is the caller's. */
static inline __attribute__((always_inline)) void copy_plan(const struct moe_plan *plan,
                                                            size_t bytes, struct moe_plan *out)
{
    enum { HEAD = offsetof(struct moe_plan, r) };

    memcpy((char *)out + HEAD, (const char *)plan + HEAD, bytes - HEAD);
}

/* Answers a caller whose struct ends early. Fields that are not wholly inside are left alone. A
 * plan that cannot be described without them is replaced by the default. */
static __attribute__((noinline)) int get_whole_fields(const struct moelookup_view *view,
                                                      const struct bucket_answer *answer,
                                                      uint32_t bucket, struct moe_plan *out)
{
    size_t bytes = plan_bytes(out->struct_size);
    struct moe_plan plan = answer->plan;

    if (plan.space && !plan_fits_struct(&plan, bytes))
        return MOE_ERR_ARGUMENT; /* a space's default needs these fields, too */
    if (!plan_fits_struct(&plan, bytes)) {
        plan = plan_default(&view->layer.shape);
        plan.source = MOE_DEFAULT;
    }
    plan.bucket = answered_bucket(answer, bucket);
    if (bytes)
        copy_plan(&plan, bytes, out);
    return counter_count(&view->counter, bucket);
}

/* Answers a caller whose struct ends early. Most such callers were compiled when ctas was the last
 * field, so that case is fast. */
static __attribute__((noinline)) int get_short_struct(const struct moelookup_view *view,
                                                      const struct bucket_answer *answer,
                                                      uint32_t bucket, struct moe_plan *out)
{
    uint32_t bucket_named = answered_bucket(answer, bucket);

    if (out->struct_size != offsetof(struct moe_plan, e) || answer->plan.e != MOE_PADDED ||
        answer->plan.w != MOE_KEEP || answer->plan.space)
        return get_whole_fields(view, answer, bucket, out);
    copy_plan(&answer->plan, offsetof(struct moe_plan, e), out);
    out->bucket = bucket_named;
    return counter_count(&view->counter, bucket);
}

/* Each branch ends with a call, so that nothing must be kept for afterwards. */
int moelookup_get(const struct moelookup_view *view, uint32_t capacity, struct moe_plan *out)
{
    const struct bucket_answer *answer;
    uint32_t bucket, bucket_named;

    if (!view || !out)
        return MOE_ERR_ARGUMENT;
    if (!view->reciprocal && view->buckets.declared)
        return moelookup_get_key(view, capacity, 0, out);
    bucket = bucket_of(view, capacity);
    answer = find_answer(view, bucket);
    bucket_named = answered_bucket(answer, bucket);
    if (out->struct_size < sizeof(*out)) /* 0: the first version */
        return get_short_struct(view, answer, bucket, out);
    /* Copies straight into *out: a copy on the stack that is changed and read as a whole takes
     * three times as long. */
    copy_plan(&answer->plan, sizeof(*out), out);
    out->bucket = bucket_named;
    return counter_count(&view->counter, bucket);
}

int moelookup_get_key(const struct moelookup_view *view, uint64_t key, double class,
                      struct moe_plan *out)
{
    const struct bucket_answer *answer;
    uint32_t bucket;

    if (!view || !out || !buckets_find(view->buckets, key, class, &bucket))
        return MOE_ERR_ARGUMENT;
    answer = find_answer(view, bucket);
    if (out->struct_size < sizeof(*out))
        return get_short_struct(view, answer, bucket, out);
    copy_plan(&answer->plan, sizeof(*out), out);
    out->bucket = answered_bucket(answer, bucket);
    return counter_count(&view->counter, bucket);
}

/* ---- Capacities that differ: compares the best plan of each kind, each at an equal capacity of
 * its own. */

/* Returns the bucket's own entry, unless it is stale or unsound. */
static const struct lookup_entry *entry_at(const struct lookup_layer *layer, int64_t bucket)
{
    uint32_t index;

    if (bucket < 0 || bucket > UINT32_MAX)
        return NULL;
    index = entries_before(layer, (uint32_t)bucket);
    return index < layer->entry_count && layer->entries[index].plan.bucket == bucket &&
                   is_fresh(&layer->entries[index])
               ? &layer->entries[index]
               : NULL;
}

/* The two kinds of plans: r >= 1 moves tokens, r = 0 moves weights. */
enum plan_kind { MOVES_TOKENS, MOVES_WEIGHTS };

static enum plan_kind kind_of(const struct moe_plan *plan)
{
    return plan->r ? MOVES_TOKENS : MOVES_WEIGHTS;
}

/* Returns the entry's best plan of a kind. NULL: it is not known, or has no time. */
static const struct moe_plan *plan_of_kind(const struct lookup_entry *e, enum plan_kind kind)
{
    const struct moe_plan *plan = NULL;

    if (e)
        plan = kind_of(&e->plan) == kind ? &e->plan : &e->other;
    return plan && plan->struct_size && plan->time_us > 0 ? plan : NULL;
}

/* The best plan of one kind at a capacity. */
struct kind_answer {
    const struct lookup_entry *entry; /* the bucket's own, or the first or last one of the table */
    const struct moe_plan *plan;      /* NULL: not known, or none can run */
    bool none_runs;                   /* no plan of this kind can run here */
    double least_us, most_us;         /* bounds of its time; equal where the table knows it */
    double default_us;                /* of plans with r >= 1: time of the default plan there */
};

/* Returns a plan's time at a capacity. Entries have the time at the upper edge of their bucket. It
 * interpolates to the bucket below, else extrapolates from the one above, but stays between the
 * time in proportion and the time at the edge. */
static double time_between(const struct lookup_layer *layer, const struct moe_plan *plan,
                           uint32_t bucket, uint32_t capacity, enum plan_kind kind)
{
    double window = layer->window, edge = ((double)bucket + 1) * window - 1,
           edge_us = plan->time_us;
    const struct moe_plan *below = plan_of_kind(entry_at(layer, (int64_t)bucket - 1), kind);
    const struct moe_plan *above = plan_of_kind(entry_at(layer, (int64_t)bucket + 1), kind);
    double slope = below   ? (edge_us - (double)below->time_us) / window
                   : above ? ((double)above->time_us - edge_us) / window
                           : 0;
    double us = edge_us - slope * (edge - capacity);

    us = us < edge_us ? us : edge_us;
    return us * edge > edge_us * capacity ? us : edge_us * capacity / edge;
}

/* Returns by which factor the default plan takes longer with `rows` than with `fewer` rows, on the
 * line through both buckets. INFINITY: the table does not know. */
static double growth_of_default(const struct lookup_layer *layer, const struct lookup_entry *entry,
                                double rows, double fewer)
{
    const struct lookup_entry *low = entry_at(layer, (int64_t)(fewer / layer->window));
    double edge = ((double)entry->plan.bucket + 1) * layer->window - 1, low_edge, low_us, slope;

    if (!low || low == entry || !(low->plan.default_us > 0) || !(entry->plan.default_us > 0))
        return INFINITY;
    low_edge = ((double)low->plan.bucket + 1) * layer->window - 1;
    slope = ((double)entry->plan.default_us - (double)low->plan.default_us) / (edge - low_edge);
    low_us = (double)low->plan.default_us + slope * (fewer - low_edge);
    return low_us > 0 && slope > 0 ? 1 + slope * (rows - fewer) / low_us : INFINITY;
}

/* Bounds the time of a plan that counts its rows. It was measured with the rows of the fullest
 * rank.
 *
 * Where tokens chose at random, these rows are the mean, or the capacity if that is less. With more
 * rows the time grows as the default plan's does, and at most in proportion. Under a load the rows
 * were anywhere from the mean to the capacity, so the time is only bounded. */
static void bound_counted(const struct lookup_layer *layer, double capacity, struct kind_answer *a)
{
    const struct moe_shape *s = &layer->shape;
    double measured_us = a->plan->time_us,
           edge = ((double)a->entry->plan.bucket + 1) * layer->window - 1;
    double mean = (double)s->top_k * s->tokens / s->experts, rows = mean < edge ? mean : edge;
    double growth = 1, as_default;

    if (capacity > rows) {
        growth = rows > 0 ? capacity / rows : INFINITY;
        as_default = growth_of_default(layer, a->entry, capacity, rows);
        if (!(a->entry->flags & LOOKUP_LOADED) && as_default < growth)
            growth = as_default;
    }
    a->most_us = measured_us * growth;
    a->least_us = capacity < edge ? measured_us * capacity / edge : measured_us;
    if (!(a->entry->flags & LOOKUP_LOADED))
        a->least_us = capacity < rows ? measured_us * capacity / rows : a->most_us;
    a->default_us = (double)a->entry->plan.default_us * (capacity < edge ? capacity / edge : 1);
}

static struct kind_answer answer_of_kind(const struct moelookup_view *view, uint32_t capacity,
                                         enum plan_kind kind)
{
    const struct lookup_layer *layer = &view->layer;
    uint32_t first = layer->entries[0].plan.bucket, bucket = bucket_of(view, capacity);
    uint32_t last = layer->entries[layer->entry_count - 1].plan.bucket;
    uint32_t entry_bucket = bucket < first ? first : bucket > last ? last : bucket;
    struct kind_answer answer = { .entry = entry_at(layer, entry_bucket) };

    answer.plan = plan_of_kind(answer.entry, kind);
    answer.none_runs =
        answer.entry && answer.entry->no_other && kind_of(&answer.entry->plan) != kind;
    if (!answer.plan)
        return answer;
    if (plan_is_counted(answer.plan, &layer->shape)) {
        bound_counted(layer, capacity, &answer);
        return answer;
    }
    answer.least_us = answer.most_us =
        time_between(layer, answer.plan, entry_bucket, capacity, kind);
    if (entry_bucket < bucket) {
        answer.least_us = answer.plan->time_us;
        answer.most_us = INFINITY;
    } else if (entry_bucket > bucket && answer.plan->e == MOE_SPARSE) {
        /* Where capacities exceed what tokens need, the time does not grow with them. So it says
         * nothing of smaller capacities. */
        answer.least_us = (double)answer.plan->time_us * capacity /
                          (((double)entry_bucket + 1) * layer->window - 1);
        answer.most_us = answer.plan->time_us;
    }
    /* scales it from the bucket's edge to the key */
    answer.default_us =
        (double)answer.entry->plan.default_us * answer.least_us / (double)answer.plan->time_us;
    return answer;
}

/* Returns whether the plan may take longer than the default with rows that nobody measured. */
static bool may_lose(const struct moelookup_view *view, const struct kind_answer *a)
{
    return plan_is_counted(a->plan, &view->layer.shape) && a->most_us > a->default_us;
}

/* An answer and the plan that it was compared with. */
struct uneven_answer {
    struct bucket_answer chosen;
    struct moe_plan rival; /* struct_size 0: none */
};

/* Returns whether a look-up by one of both keys is enough: in a space; where every plan computes
 * the rows of all experts; where nothing is known; where a plan is forced or pinned; or where both
 * keys are in one bucket. */
static bool one_key_decides(const struct moelookup_view *view, uint32_t key, uint32_t key_r0)
{
    return view->buckets.declared || view->layer.shape.layout != MOE_LAYOUT_EXPERTS ||
           view->switches.forced || pin_at(&view->layer, bucket_of(view, key)) ||
           !(view->layer.entry_count || view->layer.pin_count) ||
           bucket_of(view, key) == bucket_of(view, key_r0);
}

/* Compares the best plans of both kinds, at keys in different buckets. */
static struct uneven_answer find_uneven(const struct moelookup_view *view, uint32_t key,
                                        uint32_t key_r0)
{
    const struct lookup_pin *pin = pin_at(&view->layer, bucket_of(view, key_r0));
    struct uneven_answer out = { .rival = { 0 } };
    struct kind_answer tokens, weights, best, rival;
    bool tokens_win, weights_win;

    if (pin && pin->plan.r == 0) {
        out.chosen = echoing_answer(pin->plan, MOE_OVERRIDE);
        return out;
    }
    if (!view->layer.entry_count) {
        out.chosen = echoing_answer(plan_default(&view->layer.shape), MOE_DEFAULT);
        return out;
    }
    tokens = answer_of_kind(view, key, MOVES_TOKENS);
    weights = answer_of_kind(view, key_r0, MOVES_WEIGHTS);
    if (weights.none_runs || tokens.none_runs) {
        /* All plans are of one kind, which answers at its capacity as in any look-up. */
        uint32_t bucket = bucket_of(view, weights.none_runs ? key : key_r0);

        out.chosen = *find_answer(view, bucket);
        out.chosen.plan.bucket = answered_bucket(&out.chosen, bucket);
        out.chosen.echoes_bucket = 0;
        return out;
    }
    tokens_win = tokens.most_us <= weights.least_us;
    weights_win = weights.most_us < tokens.least_us;
    if (!tokens.plan || !weights.plan || !(tokens_win || weights_win) ||
        (tokens_win && may_lose(view, &tokens))) {
        out.chosen = echoing_answer(plan_default(&view->layer.shape), MOE_UNCOMPARED);
        if (tokens.entry && tokens.entry->plan.bucket == bucket_of(view, key))
            out.chosen.plan.time_us = out.chosen.plan.default_us = tokens.entry->plan.default_us;
        return out;
    }
    best = tokens_win ? tokens : weights;
    rival = tokens_win ? weights : tokens;
    out.chosen.plan = *best.plan;
    out.chosen.plan.bucket = best.entry->plan.bucket;
    out.chosen.plan.source = bucket_of(view, best.plan->r ? key : key_r0) < best.entry->plan.bucket
                                 ? MOE_CLAMPED
                                 : own_source(best.entry);
    out.chosen.plan.time_us = (float)best.most_us;
    out.chosen.plan.default_us = (float)tokens.default_us;
    out.rival = *rival.plan;
    out.rival.time_us = (float)rival.least_us;
    return out;
}

/* Returns the key that decides alone. */
static uint32_t deciding_key(const struct moelookup_view *view, uint32_t key, uint32_t key_r0)
{
    return view->layer.shape.layout == MOE_LAYOUT_HIDDEN ? key_r0 : key;
}

int moelookup_get_uneven(const struct moelookup_view *view, uint32_t key, uint32_t key_r0,
                         struct moe_plan *out)
{
    struct uneven_answer answer;
    uint32_t bucket;

    if (!view || !out || key_r0 > key)
        return MOE_ERR_ARGUMENT;
    if (one_key_decides(view, key, key_r0))
        return moelookup_get(view, deciding_key(view, key, key_r0), out);
    answer = find_uneven(view, key, key_r0);
    bucket = bucket_of(view, key);
    counter_count(&view->counter, bucket_of(view, key_r0));
    if (out->struct_size < sizeof(*out))
        return get_short_struct(view, &answer.chosen, bucket, out);
    copy_plan(&answer.chosen.plan, sizeof(*out), out);
    out->bucket = answered_bucket(&answer.chosen, bucket);
    return counter_count(&view->counter, bucket);
}

int moelookup_get_counts(const struct moelookup_view *view, const uint32_t *counts, size_t n,
                         struct moe_plan *out)
{
    const struct moe_shape *shape = view ? &view->layer.shape : NULL;
    uint32_t key, key_r0;

    if (!view || !out || view->buckets.declared ||
        moe_keys(counts, n, shape->experts, shape->ranks, &key, &key_r0))
        return MOE_ERR_ARGUMENT;
    return moelookup_get_uneven(view, key, key_r0, out);
}

uint32_t lookup_view_source(const struct moelookup_view *view, uint32_t bucket)
{
    return find_answer(view, bucket)->plan.source;
}

const uint8_t *lookup_view_cluster(const struct moelookup_view *view)
{
    return view->layer.cluster;
}

/* ---- Recording. */

int lookup_view_record(struct moelookup_view *view, const struct moe_shape *shape,
                       struct recorder *recorder)
{
    const struct lookup_layer *layer = &view->layer;
    bool has_table = has_rows(view) || layer->pin_count;
    char hash[SHA256_HEX_BYTES];
    struct moe_shape asked_shape = *shape;
    struct counter_of counted = { .view = view,
                                  .shape = &asked_shape,
                                  .cluster = has_table ? hash : NULL,
                                  .device = has_table ? layer->device : NULL,
                                  .window = layer->window,
                                  .last = view->last };

    sha256_hex(layer->cluster, hash);
    if (!asked_shape.tokens) /* any number: that of the table is the best guess */
        asked_shape.tokens = layer->shape.tokens;
    return counter_open(recorder, &counted, &view->counter);
}

int moelookup_flush(const struct moelookup_view *view)
{
    if (!view)
        return MOE_ERR_ARGUMENT;
    return view->counter.near ? counter_flush(&view->counter) : MOE_OK;
}

/* ---- Explaining. */

static const char *const reasons[] = {
    [MOE_EXACT] = "exact: measured in this bucket",
    [MOE_NEIGHBOUR] = "neighbour: this bucket has no entry, that of %s answers",
    [MOE_CLAMPED] = "clamped: outside of the tuned buckets, %s answers",
    [MOE_STALE] =
        "stale: %s was measured before the software changed, or before steps became slower",
    [MOE_OVERRIDE] = "override: pinned with `moetune override`",
    [MOE_DEFAULT] = "default: no table answers for this layer",
    [MOE_INFERRED] = "inferred: between measured buckets",
    [MOE_IMPORTED] = "imported: measured at another site, on an equal cluster",
    [MOE_UNCOMPARED] = "uncompared: capacities differ, and the table does not know which is "
                       "faster, its best plan with r=0 or with r>=1; `moetune tune --retune` with "
                       "both buckets would tell",
    [MOE_UNSOUND] = "unsound: by its own numbers the plan of %s is not faster than the default, "
                    "which answers; `moetune tune` measures it again",
    [MOE_UNKNOWN_LAUNCH] = "unknown launch: no launch with these values was sampled; of its plans "
                           "the one nearest to the default answers",
};

/* Text that is being written; bytes that do not fit are only counted. */
struct sentence {
    char *text;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void append(struct sentence *s, const char *format,
                                                         ...)
{
    size_t room = s->used < s->size ? s->size - s->used : 0;
    va_list args;

    va_start(args, format);
    s->used += (size_t)vsnprintf(room ? s->text + s->used : NULL, room, format, args);
    va_end(args);
}

/* Appends a time in milliseconds as tables print it: four digits, no zeros at the end. Writes its
 * own decimal point, because printf() follows the locale. */
static void append_time(struct sentence *s, const char *what, float us)
{
    double ms = (double)us * 1e-3;
    uint64_t scale = 1, value;
    int decimals = 0;

    if (!(ms < 1e15)) {
        append(s, "%s%.0f ms", what, ms);
        return;
    }
    for (; decimals < 7 && ms * (double)scale < 999.95; decimals++)
        scale *= 10;
    value = (uint64_t)(ms * (double)scale + 0.5);
    for (; decimals && value % 10 == 0; decimals--, scale /= 10)
        value /= 10;
    append(s, "%s%llu", what, (unsigned long long)(value / scale));
    if (decimals)
        append(s, ".%0*llu", decimals, (unsigned long long)(value % scale));
    append(s, " ms");
}

/* Appends where the table comes from: the device, the code that ran there if it is not moetune's
 * own layer, and the cluster's hash. */
static void append_place(struct sentence *s, const struct lookup_layer *layer)
{
    const char *code = lookup_code(layer);

    append(s, "; %.*s", (int)lookup_device_length(layer), layer->device);
    if (!strcmp(code, "unknown"))
        append(s, ", by a program's own code");
    else if (*code)
        append(s, ", by the code \"%s\"", code);
    append(s, " (%.8s)", SHA256_HEX(layer->cluster));
}

static const char *reason_for(const struct moelookup_view *view, const struct moe_plan *plan)
{
    struct bucket_answer entry;

    if (view->switches.forced)
        return "override: MOELOOKUP_FORCE";
    if (view->switches.disabled)
        return "default: MOELOOKUP_DISABLE";
    if (view->job.has_launch && has_rows(view) && plan->source == MOE_DEFAULT)
        return "default: launches with these values ran nothing in this range; of their plans the "
               "one nearest to the default answers";
    if (view->job.has_launch && plan->source == MOE_EXACT &&
        !(view->layer.entry_count && declared_entry(view, plan->bucket, &entry)))
        return "exact: the best that launches with these values ran in this range";
    if (view->buckets.declared && has_rows(view) && plan->source == MOE_DEFAULT)
        return "default: nothing is decided for this range";
    return reasons[plan->source];
}

/* Names a bucket, as "bucket 9"; in a space also its range and class. */
static const char *bucket_label(const struct moelookup_view *view, uint32_t bucket,
                                char room[BUCKETS_TEXT_BYTES])
{
    if (view->buckets.declared)
        return bucket_name(view->buckets, bucket, room);
    snprintf(room, BUCKETS_TEXT_BYTES, "bucket %u", bucket);
    return room;
}

int moelookup_explain_key(const struct moelookup_view *view, uint64_t key, double class, char *text,
                          size_t size)
{
    const struct bucket_answer *answer;
    struct moe_plan plan;
    struct sentence s = { .text = text, .size = size };
    char room[BUCKETS_TEXT_BYTES], launch[DECLARATION_PLAN_BYTES];
    uint32_t bucket;

    if (!view || (!text && size) || !buckets_find(view->buckets, key, class, &bucket))
        return MOE_ERR_ARGUMENT;
    answer = find_answer(view, bucket);
    plan = answer->plan;
    plan.bucket = answered_bucket(answer, bucket);
    if (view->buckets.declared)
        append(&s, "%s=%llu, %s%s%s: ", buckets_key_name(view->buckets), (unsigned long long)key,
               bucket_label(view, bucket, room), view->job.has_launch ? ", inside " : "",
               view->job.has_launch ? declaration_launch_words(view->buckets.declared,
                                                               view->job.default_choice, launch)
                                    : "");
    else
        append(&s, "c=%u, bucket %u of width %u: ", (uint32_t)key, bucket, view->layer.window);
    append(&s, "%s; ", PLAN_TEXT(&plan));
    append(&s, reason_for(view, &plan), bucket_label(view, plan.bucket, room));
    if (plan.time_us > 0)
        append_time(&s, "; ", plan.time_us);
    if (plan.time_us > 0 && plan.default_us > 0)
        append_time(&s, " against the default plan's ", plan.default_us);
    if (has_rows(view) || view->layer.pin_count)
        append_place(&s, &view->layer);
    if (size)
        utf8_clean(text, strlen(text), false);
    return (int)s.used;
}

int moelookup_explain_uneven(const struct moelookup_view *view, uint32_t key, uint32_t key_r0,
                             char *text, size_t size)
{
    struct sentence s = { .text = text, .size = size };
    struct uneven_answer a;
    struct moe_plan *plan = &a.chosen.plan;
    char room[BUCKETS_TEXT_BYTES];

    if (!view || (!text && size) || key_r0 > key)
        return MOE_ERR_ARGUMENT;
    if (one_key_decides(view, key, key_r0))
        return moelookup_explain(view, deciding_key(view, key, key_r0), text, size);
    a = find_uneven(view, key, key_r0);
    plan->bucket = answered_bucket(&a.chosen, bucket_of(view, key));
    append(&s, "c=%u, with r=0 %u, buckets %u and %u of width %u: %s; ", key, key_r0,
           bucket_of(view, key), bucket_of(view, key_r0), view->layer.window, PLAN_TEXT(plan));
    append(&s, plan->source == MOE_EXACT ? "exact: measured in %s" : reason_for(view, plan),
           bucket_label(view, plan->bucket, room));
    if (plan->time_us > 0)
        append_time(&s, "; ", plan->time_us);
    if (a.rival.struct_size) {
        append_time(&s, " against ", a.rival.time_us);
        append(&s, " of %s", PLAN_TEXT(&a.rival));
    }
    if (plan->time_us > 0 && plan->default_us > 0 && plan->source != MOE_UNCOMPARED)
        append_time(
            &s, a.rival.struct_size ? ", and the default plan's " : " against the default plan's ",
            plan->default_us);
    append_place(&s, &view->layer);
    if (size)
        utf8_clean(text, strlen(text), false);
    return (int)s.used;
}

int moelookup_explain(const struct moelookup_view *view, uint32_t capacity, char *text, size_t size)
{
    return moelookup_explain_key(view, capacity, 0, text, size);
}
