/* Writes the data files of plots: one function per plot. */
#include "series.h"

#include "bucket_key.h"
#include "contrast.h"
#include "loads.h"
#include "plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct extent series_write(series_writer *write, const struct scope *scope, FILE *to)
{
    struct series s = { .scope = scope, .layer = &scope->layers[0], .to = to };

    write(&s);
    return s.extent;
}

/* ---- blocks and rows */

void series_block(struct series *s, const char *name)
{
    fprintf(s->to, "%s\"%s\"\n", s->begun ? "\n\n" : "", name);
    s->begun = true;
}

/* Where a row lies, and its numbers. */
static void begin_row(struct series *s, uint64_t at, const double *values, size_t count)
{
    fprintf(s->to, "%" PRIu64, at);
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            fprintf(s->to, " %.6g", values[i]);
        else
            fputs(" NaN", s->to);
}

/* What it rests on. */
static void end_row(struct series *s, uint64_t samples, uint64_t throttled)
{
    fprintf(s->to, " %" PRIu64 " %" PRIu64 "\n", samples, throttled);
    s->extent.rows++;
    s->extent.samples += samples;
    s->extent.throttled += throttled;
}

static void step_row(struct series *s, uint64_t capacity, const struct step_time *t, double unit_us)
{
    const double of[] = { t->us / unit_us, t->low_us / unit_us, t->high_us / unit_us };

    begin_row(s, capacity, of, 3);
    end_row(s, t->samples, t->throttled);
}

bool series_is_thinned(const struct layer_facts *layer)
{
    return contrast_measured_buckets(layer) > SERIES_CELLS + SERIES_CELLS / 4;
}

/* ---- times of plans */

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

/* ---- gains */

static void write_gains(struct series *s, bool inferred)
{
    for (size_t i = 0; i < s->layer->entry_count; i++) {
        const struct entry_row *e = &s->layer->entries[i];

        if (e->inferred != inferred || !isfinite(e->gain.value))
            continue;
        begin_row(s, e->capacity,
                  (const double[]){ 100 * e->gain.value, 100 * e->gain.low, 100 * e->gain.high },
                  3);
        end_row(s, e->samples, contrast_entry(s->layer, e).throttled);
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
        begin_row(s, e->capacity, (const double[]){ 100 * (1 - e->time_us / t.us), NAN, NAN }, 3);
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
            begin_row(s, shape_capacity(&s->layer->shape, traffic->window, b->bucket),
                      (const double[]){ 100 * share, e ? 100 * e->gain.value : (double)NAN }, 2);
            fprintf(s->to, " %" PRIu64 " %u\n", asked, b->bucket);
            s->extent.rows++;
        }
    }
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
    begin_row(s, e->capacity,
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

/* ---- what a neighbour's plan costs */

bool scope_has_own(const struct scope *scope)
{
    for (size_t i = 0; i < scope->count; i++)
        if (!scope->layers[i].declared)
            return true;
    return !scope->count;
}

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
    begin_row(s, e->capacity, (const double[]){ 100 * (t.us / e->time_us - 1), t.measured }, 2);
    end_row(s, t.samples, t.throttled);
}

void series_regret(struct series *s)
{
    for (int direction = -1; direction <= 1; direction += 2) {
        series_block(s, direction < 0 ? "plan of the bucket below" : "plan of the bucket above");
        for (size_t i = 0; i < s->layer->entry_count; i++)
            regret_row(s, &s->layer->entries[i], direction);
    }
}

/* ---- all-to-alls against each other */

static void a2a_row(struct series *s, const struct trial_facts *base, uint32_t other_a2a)
{
    struct moe_plan twin = base->row.key.plan;
    const struct spread *a = &base->steps, *b;
    const struct trial_facts *other;

    twin.a = other_a2a;
    other = facts_trial(s->layer, base->row.key.bucket, &twin);
    if (!other || !trial_usable(other))
        return;
    b = &other->steps;
    begin_row(s, base->row.capacity,
              (const double[]){
                  (double)b->median_ns / (double)a->median_ns,
                  (double)b->low_ns / (double)a->high_ns, (double)b->high_ns / (double)a->low_ns,
                  (double)base->row.sent_bytes / 1024 / fmax(1, (double)base->row.messages),
                  twin.r },
              5);
    end_row(s, a->count + b->count,
            contrast_trial(base).throttled + contrast_trial(other).throttled);
}

static void a2a_blocks(struct series *s, uint32_t base, uint32_t other)
{
    for (uint32_t d = 1; d <= PLAN_MAX_D; d *= 2) {
        char name[32];

        snprintf(name, sizeof(name), "d=%u", d);
        series_block(s, name);
        for (size_t i = 0; i < s->layer->trial_count; i++) {
            const struct trial_facts *t = &s->layer->trials[i];

            if (trial_usable(t) && t->row.key.plan.d == d && t->row.key.plan.r != 0 &&
                t->row.key.plan.a == base)
                a2a_row(s, t, other);
        }
    }
}

void series_a2a(struct series *s)
{
    a2a_blocks(s, MOE_A2A_LINEAR, MOE_A2A_2DH);
}

void series_3dh(struct series *s)
{
    a2a_blocks(s, MOE_A2A_2DH, MOE_A2A_3DH);
}

void series_rail(struct series *s)
{
    a2a_blocks(s, MOE_A2A_LINEAR, MOE_A2A_RAIL);
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

/* ---- which plans win how often */

struct share {
    struct moe_plan plan;
    uint32_t measured, inferred;
};

enum { SHARES_MAX = 16 }; /* rows of the plot; the rest is one more */

static int by_count(const void *left, const void *right)
{
    const struct share *a = left, *b = right;
    uint32_t x = a->measured + a->inferred, y = b->measured + b->inferred;

    return x != y ? (x < y) - (x > y) : plan_order(&a->plan, &b->plan);
}

static struct share *share_of(const struct moe_plan *plan, struct share *shares, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        if (plan_equal(&shares[i].plan, plan))
            return &shares[i];
    shares[*count] = (struct share){ .plan = *plan };
    return &shares[(*count)++];
}

static struct share *count_shares(const struct scope *scope, size_t *count)
{
    struct share *shares;
    size_t room = 1;

    for (size_t i = 0; i < scope->count; i++)
        room += scope->layers[i].entry_count;
    shares = calloc(room, sizeof(*shares));
    *count = 0;
    for (size_t i = 0; i < scope->count && shares; i++)
        for (size_t j = 0; j < scope->layers[i].entry_count; j++) {
            const struct entry_row *e = &scope->layers[i].entries[j];
            struct share *share = share_of(&e->plan, shares, count);

            share->measured += !e->inferred;
            share->inferred += e->inferred;
        }
    if (*count)
        qsort(shares, *count, sizeof(*shares), by_count);
    return shares;
}

struct bands series_bands(const struct layer_facts *layer)
{
    struct scope scope = { layer, 1 };
    struct bands bands = { .count = 0 };
    size_t count;
    struct share *shares = count_shares(&scope, &count);

    for (size_t i = 0; i < count && i < SERIES_BANDS; i++) {
        bands.plans[i] = shares[i].plan;
        snprintf(bands.names[bands.count++], PLAN_TEXT_BYTES, "%s", PLAN_WORDS(&shares[i].plan));
    }
    if (count > SERIES_BANDS)
        snprintf(bands.names[bands.count++], sizeof(bands.names[0]), "%zu more plans",
                 count - SERIES_BANDS);
    free(shares);
    return bands;
}

int series_band(const struct bands *bands, const struct moe_plan *plan)
{
    int i = 0;

    while (i < bands->count && i < SERIES_BANDS && !plan_equal(&bands->plans[i], plan))
        i++;
    return i;
}

void series_distribution(struct series *s)
{
    size_t count;
    struct share *shares = count_shares(s->scope, &count), rest = { 0 };
    uint32_t at = (uint32_t)(count < SHARES_MAX ? count : SHARES_MAX + 1);

    for (size_t i = 0; i < count; i++) {
        s->extent.rows += shares[i].measured + shares[i].inferred;
        if (i >= SHARES_MAX) {
            rest.measured += shares[i].measured;
            rest.inferred += shares[i].inferred;
            continue;
        }
        fprintf(s->to, "%u %u %u \"%s\"\n", at--, shares[i].measured, shares[i].inferred,
                PLAN_WORDS(&shares[i].plan));
    }
    if (rest.measured + rest.inferred)
        fprintf(s->to, "%u %u %u \"%zu more plans\"\n", at, rest.measured, rest.inferred,
                count - SHARES_MAX);
    free(shares);
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
            begin_row(s, at, (const double[]){ 100 * one.mean, 100 * one.worst }, 2);
            fprintf(s->to, " %u %u \"%s", one.buckets, one.measured, line->name);
            if (line->count > 1)
                fprintf(s->to, " d=%u", line->plans[j].d);
            fputs("\"\n", s->to);
            s->extent.rows++;
        }
    }
}

/* ---- padded against sparse */

int series_load_blocks(const struct layer_facts *layer)
{
    int blocks = 0;

    for (size_t i = 0; i < layer->load_count; i++)
        blocks += !i || layer->loads[i].capacity != layer->loads[i - 1].capacity;
    return blocks;
}

/* That of both medians being off in the worst way; single steps have none. */
static void write_interval(const struct load_pair *p, FILE *to)
{
    bool known = p->padded.count > 1 && p->sparse.count > 1;
    double low = (double)p->sparse.low_ns / (double)p->padded.high_ns;
    double high = (double)p->sparse.high_ns / (double)p->padded.low_ns;

    if (known)
        fprintf(to, " %.6g %.6g", low, high);
    else
        fputs(" NaN NaN", to);
}

void series_loads(struct series *s)
{
    for (size_t i = 0; i < s->layer->load_count; i++) {
        const struct load_pair *p = &s->layer->loads[i];
        double padded = (double)p->padded.median_ns, sparse = (double)p->sparse.median_ns;
        char name[32];

        if (!i || p->capacity != p[-1].capacity) {
            snprintf(name, sizeof(name), "c = %" PRIu64, p->capacity);
            series_block(s, name);
        }
        fprintf(s->to, "%.6g %.6g", p->skew, sparse / padded);
        write_interval(p, s->to);
        fprintf(s->to, " %.6g %.6g", padded * 1e-6, sparse * 1e-6);
        end_row(s, (uint32_t)(p->padded.count + p->sparse.count), 0);
    }
}
