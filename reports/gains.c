/* The data files of what the table saves, where that is asked for, and what it cost to find out. */
#include "gains.h"

#include "contrast.h"

#include <inttypes.h>
#include <math.h>

/* ---- gains */

static void write_gains(struct series *s, bool inferred)
{
    for (size_t i = 0; i < s->layer->entry_count; i++) {
        const struct entry_row *e = &s->layer->entries[i];

        if (e->inferred != inferred || !isfinite(e->gain.value))
            continue;
        series_row(s, e->capacity,
                   (const double[]){ 100 * e->gain.value, 100 * e->gain.low, 100 * e->gain.high },
                   3);
        series_row_end(s, e->samples, contrast_entry(s->layer, e).throttled);
    }
}

/* Not counted: it is of the samples that the gains over the default rest on. */
static void write_static_gains(struct series *s, bool measured)
{
    const struct moe_plan *best = contrast_ranked(s->layer, 0);

    for (size_t i = 0; i < s->layer->entry_count && best; i++) {
        const struct entry_row *e = &s->layer->entries[i];
        struct step_time t = contrast_step(s->layer, e, best);

        if (e->inferred || t.measured != measured || !isfinite(t.us))
            continue;
        series_row(s, e->capacity, (const double[]){ 100 * (1 - e->time_us / t.us), NAN, NAN }, 3);
        fprintf(s->to, " %u %u\n", t.samples, t.throttled);
    }
}

void series_gain(struct series *s)
{
    series_block(s, "over the default plan");
    write_gains(s, false);
    series_block(s, "over the default plan, inferred");
    write_gains(s, true);
    series_block(s, "over the best static plan");
    write_static_gains(s, true);
    series_block(s, "the same, its time interpolated");
    write_static_gains(s, false);
}

/* ---- traffic */

void series_traffic(struct series *s)
{
    static const char *const names[] = { "look-ups, measured", "look-ups, inferred",
                                         "look-ups without an entry" };
    const struct traffic_layer *traffic = s->layer->traffic;

    for (int kind = 0; kind < 3; kind++) {
        series_block(s, names[kind]);
        for (size_t i = 0; traffic && i < traffic->bucket_count; i++) {
            const struct traffic_bucket *b = &traffic->buckets[i];
            const struct entry_row *e = facts_entry(s->layer, b->bucket);
            uint64_t asked = traffic_asked(b);
            double share = (double)asked / (double)traffic_total(traffic);

            if (!facts_has(s->layer, b->bucket) || (e ? e->inferred : 2) != kind)
                continue;
            series_row(s, shape_capacity(&s->layer->shape, traffic->window, b->bucket),
                       (const double[]){ 100 * share, e ? 100 * e->gain.value : (double)NAN }, 2);
            fprintf(s->to, " %" PRIu64 " %u\n", asked, b->bucket);
            s->extent.rows++;
        }
    }
}

/* ---- what a neighbour's plan costs */

static const struct entry_row *neighbour(const struct layer_facts *layer, const struct entry_row *e,
                                         int direction)
{
    const struct entry_row *n = e + direction;
    uint32_t stride = facts_stride(layer);

    if (n < layer->entries || n >= layer->entries + layer->entry_count)
        return NULL;
    return direction > 0 ? (n->bucket == e->bucket + stride ? n : NULL)
                         : (n->bucket + stride == e->bucket ? n : NULL);
}

static void regret_row(struct series *s, const struct entry_row *e, int direction)
{
    const struct entry_row *n = e->inferred ? NULL : neighbour(s->layer, e, direction);
    struct step_time t = { .us = NAN };

    if (n)
        t = contrast_step(s->layer, e, &n->plan);
    if (!isfinite(t.us) || !(e->time_us > 0))
        return;
    series_row(s, e->capacity, (const double[]){ 100 * (t.us / e->time_us - 1), t.measured }, 2);
    series_row_end(s, t.samples, t.throttled);
}

void series_regret(struct series *s)
{
    for (int direction = -1; direction <= 1; direction += 2) {
        series_block(s, direction < 0 ? "plan of the bucket below" : "plan of the bucket above");
        for (size_t i = 0; i < s->layer->entry_count; i++)
            regret_row(s, &s->layer->entries[i], direction);
    }
}

/* ---- the table against static plans */

static bool is_tried(const struct scope *scope, uint32_t a)
{
    for (size_t i = 0; i < scope->count; i++)
        for (size_t j = 0; j < scope->layers[i].trial_count; j++)
            if (scope->layers[i].trials[j].row.key.plan.a == a)
                return true;
    return false;
}

static struct static_line line_of(const char *name, uint32_t r, uint32_t a)
{
    struct static_line out = { .name = name, .count = r ? SERIES_LINE_PLANS : 1 };

    for (int i = 0; i < out.count; i++) {
        out.plans[i] = plan_default(NULL);
        out.plans[i].r = r;
        out.plans[i].a = a;
        out.plans[i].d = 1u << i;
    }
    return out;
}

int series_lines(const struct scope *scope, struct static_line out[SERIES_LINES])
{
    int count = 0;

    out[count++] = line_of("r=0", 0, MOE_A2A_LINEAR);
    out[count++] = line_of("linear", 1, MOE_A2A_LINEAR);
    out[count++] = line_of("2dh", 1, MOE_A2A_2DH);
    if (is_tried(scope, MOE_A2A_3DH))
        out[count++] = line_of("3dh", 1, MOE_A2A_3DH);
    if (is_tried(scope, MOE_A2A_RAIL))
        out[count++] = line_of("rail", 1, MOE_A2A_RAIL);
    return count;
}

struct improvement series_pooled(const struct scope *scope, uint32_t ranks,
                                 const struct moe_plan *plan)
{
    struct improvement sum = { .worst = -INFINITY };

    for (size_t i = 0; i < scope->count; i++) {
        const struct layer_facts *layer = &scope->layers[i];
        struct improvement one;

        if (ranks && layer->shape.ranks != ranks)
            continue;
        one = contrast_static(layer, plan);
        if (!one.buckets)
            continue;
        sum.mean += one.mean * one.buckets;
        sum.worst = fmax(sum.worst, one.worst);
        sum.buckets += one.buckets;
        sum.measured += one.measured;
    }
    sum.mean = sum.buckets ? sum.mean / sum.buckets : NAN;
    sum.worst = sum.buckets ? sum.worst : NAN;
    return sum;
}

void series_improvement(struct series *s)
{
    struct static_line list[SERIES_LINES];
    int lines = series_lines(s->scope, list);
    uint32_t at = 1 + ((uint32_t)lines - 1) * SERIES_LINE_PLANS;

    for (int i = 0; i < lines; i++) {
        const struct static_line *line = &list[i];

        for (int j = 0; j < line->count; j++, at--) {
            struct improvement one = series_pooled(s->scope, 0, &line->plans[j]);

            if (!one.buckets)
                continue;
            series_row(s, at, (const double[]){ 100 * one.mean, 100 * one.worst }, 2);
            fprintf(s->to, " %u %u \"%s", one.buckets, one.measured, line->name);
            if (line->count > 1)
                fprintf(s->to, " d=%u", line->plans[j].d);
            fputs("\"\n", s->to);
            s->extent.rows++;
        }
    }
}

/* ---- what it cost */

static void add_spent(const struct layer_facts *layer, struct spent *sum)
{
    for (size_t i = 0; i < layer->trial_count; i++) {
        sum->search += layer->trials[i].search_steps;
        sum->contest += layer->trials[i].contest_steps;
        sum->rounds += layer->trials[i].rounds_steps;
        sum->trials++;
    }
    sum->paper += (uint64_t)shape_paper_trials(&layer->shape) * layer->entry_count;
    sum->exhaustive += (uint64_t)plan_list(&layer->shape, NULL, 0) * layer->entry_count;
}

struct spent series_spent_of(const struct scope *scope)
{
    struct spent sum = { 0 };

    for (size_t i = 0; i < scope->count; i++)
        add_spent(&scope->layers[i], &sum);
    return sum;
}

void series_spent(struct series *s)
{
    struct spent sum = series_spent_of(s->scope);

    if (!sum.trials || !sum.paper)
        return;
    fprintf(s->to, "5 %" PRIu64 " \"steps for the search\"\n", sum.search);
    fprintf(s->to, "4 %" PRIu64 " \"steps against the default\"\n", sum.contest);
    fprintf(s->to, "3 %" PRIu64 " \"rounds of the table, steps\"\n", sum.rounds);
    fprintf(s->to, "2 %" PRIu64 " \"paper's search, trials\"\n", sum.paper);
    fprintf(s->to, "1 %" PRIu64 " \"every plan once\"\n", sum.exhaustive);
    s->extent = (struct extent){ 5, sum.search + sum.contest + sum.rounds };
}
