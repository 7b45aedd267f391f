/* The data files of how long plans take, and of how much of it is products or exchanges. */
#include "series.h"

#include "contrast.h"
#include "plan_shares.h"

#include <inttypes.h>
#include <math.h>

/* ---- in ms, and as ratios to the table's plan */

static void step_row(struct series *s, uint64_t capacity, const struct step_time *t, double unit_us)
{
    const double of[] = { t->us / unit_us, t->low_us / unit_us, t->high_us / unit_us };

    series_row(s, capacity, of, 3);
    series_row_end(s, t->samples, t->throttled);
}

static void write_entries(struct series *s, bool inferred, bool of_default)
{
    for (size_t i = 0; i < s->layer->entry_count; i++) {
        const struct entry_row *e = &s->layer->entries[i];
        struct step_time t =
            of_default ? contrast_default(s->layer, e) : contrast_entry(s->layer, e);

        if (e->inferred == inferred && isfinite(t.us) && t.us > 0)
            step_row(s, e->capacity, &t, 1e3);
    }
}

/* True if the table's curve, or the default's, shows this trial already. */
static bool told_by_entry(const struct layer_facts *layer, const struct trial_facts *trial)
{
    const struct entry_row *e = facts_entry(layer, trial->row.key.bucket);

    return e && !e->inferred &&
           (plan_equal(&e->plan, &trial->row.key.plan) ||
            plan_is_default(&trial->row.key.plan, &layer->shape));
}

enum { SERIES_STATICS = 4 };

/* Plans with a colour of their own: the best static ones without the default. */
struct coloured {
    struct moe_plan plans[SERIES_STATICS];
    int count;
};

static struct coloured coloured_of(const struct layer_facts *layer)
{
    struct coloured c = { .count = 0 };
    const struct moe_plan *plan;

    for (size_t i = 0; c.count < SERIES_STATICS && (plan = contrast_ranked(layer, i)); i++)
        if (!plan_is_default(plan, &layer->shape))
            c.plans[c.count++] = *plan;
    return c;
}

/* -1: it has none. */
static int colour_of(const struct coloured *c, const struct moe_plan *plan)
{
    int i = c->count - 1;

    while (i >= 0 && !plan_equal(plan, &c->plans[i]))
        i--;
    return i;
}

/* A trial as a point: in ms, or as its ratio to the table's plan. */
static void write_trial(struct series *s, const struct trial_facts *trial, bool ratio)
{
    const struct entry_row *e = facts_entry(s->layer, trial->row.key.bucket);
    struct step_time t = contrast_trial(trial);

    if (!ratio)
        step_row(s, trial->row.capacity, &t, 1e3);
    else if (e && !e->inferred && e->time_us > 0)
        step_row(s, trial->row.capacity, &t, e->time_us);
}

static void write_statics(struct series *s, bool ratio)
{
    struct coloured coloured = coloured_of(s->layer);

    for (int colour = -1; colour < coloured.count; colour++) {
        series_block(s, colour < 0 ? "other plans" : PLAN_WORDS(&coloured.plans[colour]));
        for (size_t i = 0; i < s->layer->trial_count; i++) {
            const struct trial_facts *t = &s->layer->trials[i];

            if (trial_usable(t) && !plan_is_default(&t->row.key.plan, &s->layer->shape) &&
                colour_of(&coloured, &t->row.key.plan) == colour && !told_by_entry(s->layer, t))
                write_trial(s, t, ratio);
        }
    }
}

/* The best static plan beside the table, unless it is the default or what the table says anyway. */
static void write_best_static(struct series *s)
{
    const struct moe_plan *best = contrast_ranked(s->layer, 0);
    bool same = true;

    series_block(s, "best static plan");
    for (size_t i = 0; i < s->layer->entry_count && best; i++)
        same = same && plan_equal(best, &s->layer->entries[i].plan);
    for (size_t i = 0;
         i < s->layer->entry_count && best && !same && !plan_is_default(best, &s->layer->shape);
         i++) {
        const struct entry_row *e = &s->layer->entries[i];
        struct step_time t = contrast_step(s->layer, e, best);

        if (!e->inferred && isfinite(t.us))
            step_row(s, e->capacity, &t, 1e3);
    }
}

/* Neighbouring buckets of one plan, of one kind. */
static size_t band_end(const struct layer_facts *layer, size_t from)
{
    const struct entry_row *first = &layer->entries[from];
    size_t end = from + 1;

    while (end < layer->entry_count && plan_equal(&layer->entries[end].plan, &first->plan) &&
           layer->entries[end].inferred == first->inferred &&
           layer->entries[end].bucket == layer->entries[end - 1].bucket + facts_stride(layer))
        end++;
    return end;
}

/* The last range of a declared space has no end: its band reaches what was measured there. */
static uint64_t band_to(const struct layer_facts *layer, const struct entry_row *last)
{
    uint64_t edge = shape_capacity(&layer->shape, layer->window, last->bucket);

    return 1 + (edge > last->capacity ? edge : last->capacity);
}

static void write_bands(struct series *s, const struct bands *bands, int number)
{
    const struct layer_facts *layer = s->layer;

    for (size_t i = 0, end; i < layer->entry_count; i = end) {
        const struct entry_row *first = &layer->entries[i], *last;

        end = band_end(layer, i);
        last = &layer->entries[end - 1];
        if (series_band(bands, &first->plan) == number)
            fprintf(s->to, "%" PRIu64 " %" PRIu64 " %d %u %u \"%s\"\n",
                    shape_bucket_from(&layer->shape, layer->window, first->bucket),
                    band_to(layer, last), first->inferred, first->bucket, last->bucket,
                    PLAN_WORDS(&first->plan));
    }
}

void series_times(struct series *s)
{
    struct bands bands = series_bands(s->layer);
    uint32_t drawn;

    series_block(s, "table's plan");
    write_entries(s, false, false);
    series_block(s, "table's plan, inferred");
    write_entries(s, true, false);
    series_block(s, "default plan");
    write_entries(s, false, true);
    write_best_static(s);
    for (int i = 0; i < bands.count; i++) {
        series_block(s, bands.names[i]);
        write_bands(s, &bands, i);
    }
    drawn = s->extent.rows;
    write_statics(s, false);
    if (!drawn) /* without entries there is nothing that the picture shows */
        s->extent.rows = 0;
}

void series_ratios(struct series *s)
{
    series_block(s, "default plan");
    for (size_t i = 0; i < s->layer->entry_count; i++) {
        const struct entry_row *e = &s->layer->entries[i];
        struct step_time t = contrast_default(s->layer, e);

        if (!e->inferred && !plan_is_default(&e->plan, &s->layer->shape) && isfinite(t.us) &&
            e->time_us > 0)
            step_row(s, e->capacity, &t, e->time_us);
    }
    write_statics(s, true);
}

/* ---- where the time goes */

/* Halves whose one step may be further off are not known. */
static const double half_blur = 0.1;

/* The trial of the table's plan, or of the default, in a measured bucket where both halves are
 * known. */
static const struct trial_facts *halves(const struct layer_facts *layer, const struct entry_row *e,
                                        bool of_default)
{
    struct moe_plan plan = of_default ? plan_default(&layer->shape) : e->plan;
    const struct trial_facts *t = e->inferred ? NULL : facts_trial(layer, e->bucket, &plan);

    return t && t->row.compute_ns > 0 && t->row.comm_ns > 0 &&
                   contrast_single_step(&t->steps) <= half_blur
               ? t
               : NULL;
}

static void where_row(struct series *s, const struct entry_row *e, bool of_default)
{
    const struct trial_facts *t = halves(s->layer, e, of_default);
    struct step_time step =
        of_default ? contrast_default(s->layer, e) : contrast_entry(s->layer, e);
    double us = step.us;
    struct hidden hidden;

    if (!t)
        return;
    hidden = contrast_hidden(t, &step);
    series_row(s, e->capacity,
               (const double[]){ (double)t->row.compute_ns * 1e-6, (double)t->row.comm_ns * 1e-6,
                                 us * 1e-3, 100 * hidden.share, 100 * hidden.low, 100 * hidden.high,
                                 us * 1e-3 - (double)t->row.compute_ns * 1e-6 },
               7);
    fprintf(s->to, " %zu %u\n", t->steps.count, contrast_trial(t).throttled);
    s->extent.rows++;
    s->extent.samples += t->steps.count + 2;
    s->extent.throttled += contrast_trial(t).throttled;
}

/* The default plan's are in the file alone. */
void series_where(struct series *s)
{
    struct extent drawn = { 0 };

    for (int of_default = 0; of_default < 2; of_default++) {
        series_block(s, of_default ? "default plan" : "table's plan");
        for (size_t i = 0; i < s->layer->entry_count; i++)
            where_row(s, &s->layer->entries[i], of_default == 1);
        if (!of_default)
            drawn = s->extent;
    }
    s->extent = drawn;
}

void series_hidden(struct series *s)
{
    uint32_t known = 0;

    series_where(s);
    for (size_t i = 0; i < s->layer->entry_count; i++) {
        const struct entry_row *e = &s->layer->entries[i];
        const struct trial_facts *t = halves(s->layer, e, false);
        struct step_time step = contrast_entry(s->layer, e);

        known += t && e->plan.d > 1 && isfinite(contrast_hidden(t, &step).share);
    }
    s->extent.rows = known;
}
