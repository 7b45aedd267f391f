/* Writes the data files of all plots, except those of whatif.c and followed.c. */
#include "series.h"

#include "buckets.h"
#include "moelookup.h"
#include "shape.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- blocks and rows */

struct extent series_write(series_writer *write, const struct scope *scope, FILE *to)
{
    struct series s = { .scope = scope, .layer = &scope->layers[0], .to = to };

    write(&s);
    return s.extent;
}

void series_block(struct series *s, const char *name)
{
    fprintf(s->to, "%s\"%s\"\n", s->begun ? "\n\n" : "", name);
    s->begun = true;
}

void series_place(struct series *s, double place)
{
    s->first_place = s->placed ? s->first_place : place;
    s->placed = true;
    s->extent.several_places = s->extent.several_places || place != s->first_place;
}

/* Begins a row with its place and its numbers; end_row() adds the samples behind them. */
static void put_row(struct series *s, uint64_t place, const double *values, size_t count)
{
    series_place(s, (double)place);
    fprintf(s->to, "%" PRIu64, place);
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            fprintf(s->to, " %.6g", values[i]);
        else
            fputs(" NaN", s->to);
}

static void end_row(struct series *s, uint64_t samples, uint64_t throttled)
{
    fprintf(s->to, " %" PRIu64 " %" PRIu64 "\n", samples, throttled);
    s->extent.rows++;
    s->extent.samples += samples;
    s->extent.throttled += throttled;
}

bool series_is_thinned(const struct layer_facts *layer)
{
    return contrast_measured_buckets(layer) > SERIES_CELLS + SERIES_CELLS / 4;
}

bool scope_has_own_axes(const struct scope *scope)
{
    for (size_t i = 0; i < scope->count; i++)
        if (!scope->layers[i].buckets.declared)
            return true;
    return !scope->count;
}

/* How a bucket's entry was found. */
enum entry_kind { MEASURED, INFERRED, MISSING };

static enum entry_kind kind_of(const struct entry_row *entry)
{
    if (!entry)
        return MISSING;
    return entry->inferred ? INFERRED : MEASURED;
}

/* ---- the plans of a table */

struct plan_share {
    struct moe_plan plan;
    uint32_t buckets;
};

static int by_count(const void *left, const void *right)
{
    const struct plan_share *a = left, *b = right;

    return a->buckets != b->buckets ? (a->buckets < b->buckets) - (a->buckets > b->buckets)
                                    : plan_order(&a->plan, &b->plan);
}

/* Returns no bands if there is no memory. */
struct bands series_bands(const struct layer_facts *layer)
{
    struct plan_share *shares = calloc(layer->entry_count + 1, sizeof(*shares));
    struct bands bands = { .count = 0 };
    size_t count = 0;

    for (size_t i = 0; i < layer->entry_count && shares; i++) {
        const struct moe_plan *plan = &layer->entries[i].plan;
        size_t k = 0;

        while (k < count && !plan_equal(&shares[k].plan, plan))
            k++;
        if (k == count)
            shares[count++].plan = *plan;
        shares[k].buckets++;
    }
    if (count)
        qsort(shares, count, sizeof(*shares), by_count);
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

const struct moe_plan *series_rival(const struct layer_facts *layer, size_t place)
{
    const struct moe_plan *plan;
    size_t passed = 0;

    for (size_t i = 0; (plan = contrast_ranked(layer, i)); i++)
        if (!plan_is_default(plan, &layer->shape) && passed++ == place)
            break;
    return plan;
}

int series_colour(const struct layer_facts *layer, const struct moe_plan *plan)
{
    struct bands bands = series_bands(layer);
    const struct moe_plan *rival;
    int colour = 1;

    if (plan_is_default(plan, &layer->shape))
        return 0;
    for (int i = 0; i < bands.count && i < SERIES_BANDS; i++) {
        if (plan_equal(&bands.plans[i], plan))
            return colour < SERIES_COLOURS ? colour : SERIES_COLOURS;
        colour += !plan_is_default(&bands.plans[i], &layer->shape);
    }
    for (size_t i = 0; colour < SERIES_COLOURS && (rival = series_rival(layer, i)); i++) {
        bool banded = false;

        for (int k = 0; k < bands.count && k < SERIES_BANDS; k++)
            banded |= plan_equal(&bands.plans[k], rival);
        if (plan_equal(rival, plan))
            return colour;
        colour += !banded;
    }
    return SERIES_COLOURS;
}

/* ---- step times: in ms, and as ratios to the table's plan */

/* step_row() divides by this unit for ms, or by another step for a ratio. */
static const double ms_in_us = 1e3;

/* Writes a row.  Columns: capacity; step, low end, high end in units; samples; disturbed ones. */
static void step_row(struct series *s, uint64_t capacity, const struct step_time *t, double unit_us)
{
    put_row(s, capacity,
            (const double[]){ t->us / unit_us, t->low_us / unit_us, t->high_us / unit_us }, 3);
    end_row(s, t->samples, t->throttled);
}

/* Whose times a block has. */
enum plan_role { TABLE_PLAN, DEFAULT_PLAN };

static struct step_time role_time(const struct layer_facts *layer, const struct entry_row *e,
                                  enum plan_role role)
{
    return role == DEFAULT_PLAN ? contrast_default(layer, e) : contrast_entry(layer, e);
}

/* Writes a row for each entry of this kind, in ms. */
static void write_entries(struct series *s, enum entry_kind kind, enum plan_role role)
{
    for (size_t i = 0; i < s->layer->entry_count; i++) {
        const struct entry_row *e = &s->layer->entries[i];
        struct step_time step = role_time(s->layer, e, role);

        if (kind_of(e) == kind && isfinite(step.us) && step.us > 0)
            step_row(s, e->capacity, &step, ms_in_us);
    }
}

enum step_unit { IN_MS, AS_RATIO }; /* a ratio is over the step of the table's plan */

/* Writes the trials that are not in the curves of the table and the default: one block for all
 * plans without a colour, then one for each of the best static plans. */
static void write_statics(struct series *s, enum step_unit unit)
{
    const struct layer_facts *layer = s->layer;
    const struct moe_plan *coloured[SERIES_RIVALS];
    int count = 0; /* block -1 has the plans without a colour */

    while (count < SERIES_RIVALS && (coloured[count] = series_rival(layer, (size_t)count)))
        count++;
    for (int block = -1; block < count; block++) {
        series_block(s, block < 0 ? "other plans" : PLAN_WORDS(coloured[block]));
        for (size_t i = 0; i < layer->trial_count; i++) {
            const struct trial_facts *t = &layer->trials[i];
            const struct entry_row *e = facts_entry(layer, t->row.key.bucket);
            bool measured = e && !e->inferred;
            struct step_time step = contrast_trial(t);
            int trial_block = count - 1;

            while (trial_block >= 0 && !plan_equal(&t->row.key.plan, coloured[trial_block]))
                trial_block--;
            if (trial_block != block || !trial_usable(t) ||
                plan_is_default(&t->row.key.plan, &layer->shape) ||
                (measured && plan_equal(&e->plan, &t->row.key.plan)))
                continue;
            if (unit == IN_MS)
                step_row(s, t->row.capacity, &step, ms_in_us);
            else if (measured && e->time_us > 0)
                step_row(s, t->row.capacity, &step, e->time_us);
        }
    }
}

/* Returns the best static plan; NULL: there is none, or the table has it in every bucket. */
static const struct moe_plan *best_static(const struct layer_facts *layer)
{
    const struct moe_plan *best = contrast_ranked(layer, 0);
    bool in_all_buckets = true;

    for (size_t i = 0; i < layer->entry_count && best; i++)
        in_all_buckets = in_all_buckets && plan_equal(best, &layer->entries[i].plan);
    return in_all_buckets ? NULL : best;
}

/* Writes the best static plan beside the table, unless it is the default. */
static void write_best_static(struct series *s)
{
    const struct moe_plan *best = best_static(s->layer);
    char name[PLAN_TEXT_BYTES + 16];

    snprintf(name, sizeof(name), "always %s", best ? PLAN_WORDS(best) : "one plan");
    series_block(s, name);
    if (!best || plan_is_default(best, &s->layer->shape))
        return;
    for (size_t i = 0; i < s->layer->entry_count; i++) {
        const struct entry_row *e = &s->layer->entries[i];
        struct step_time step = contrast_step(s->layer, e, best);

        if (!e->inferred && isfinite(step.us))
            step_row(s, e->capacity, &step, ms_in_us);
    }
}

/* Returns the index of a plan's name among the bands; plans without a name of their own share the
 * last one. */
static int band_of(const struct bands *bands, const struct moe_plan *plan)
{
    int band = 0;

    while (band < bands->count && band < SERIES_BANDS && !plan_equal(&bands->plans[band], plan))
        band++;
    return band;
}

/* Writes the bands with one name.  Neighbouring buckets with the same plan are one band if all are
 * measured, or all inferred.  Columns: first capacity; end; 1 = inferred; first bucket; last
 * bucket; plan. */
static void write_bands(struct series *s, const struct bands *bands, int band)
{
    const struct layer_facts *layer = s->layer;
    const struct entry_row *e = layer->entries;

    for (size_t i = 0, end; i < layer->entry_count; i = end) {
        uint64_t band_end;

        for (end = i + 1; end < layer->entry_count && e[end].inferred == e[i].inferred &&
                          entries_join(&e[end - 1], &e[end], facts_stride(layer));)
            end++;
        if (band_of(bands, &e[i].plan) != band)
            continue;
        /* The last bucket of a declared space has no end: its band ends at the measured key. */
        band_end = buckets_key_of(layer->buckets, e[end - 1].bucket);
        band_end = band_end > e[end - 1].capacity ? band_end : e[end - 1].capacity;
        fprintf(s->to, "%" PRIu64 " %" PRIu64 " %d %u %u \"%s\"\n",
                buckets_lowest(layer->buckets, e[i].bucket), band_end + 1, e[i].inferred,
                e[i].bucket, e[end - 1].bucket, PLAN_WORDS(&e[i].plan));
    }
}

/* Columns: those of step_row() in ms, then those of write_bands(). */
void series_times(struct series *s)
{
    struct bands bands = series_bands(s->layer);
    uint32_t drawn;

    series_block(s, "table's plan");
    write_entries(s, MEASURED, TABLE_PLAN);
    series_block(s, "table's plan, inferred");
    write_entries(s, INFERRED, TABLE_PLAN);
    series_block(s, "default plan");
    write_entries(s, MEASURED, DEFAULT_PLAN);
    write_best_static(s);
    for (int i = 0; i < bands.count; i++) {
        series_block(s, bands.names[i]);
        write_bands(s, &bands, i);
    }
    drawn = s->extent.rows;
    write_statics(s, IN_MS);
    if (!drawn) /* without entries the picture would be empty */
        s->extent.rows = 0;
}

/* Columns: those of step_row(), as ratios to the step of the table's plan. */
void series_ratios(struct series *s)
{
    series_block(s, "default plan");
    for (size_t i = 0; i < s->layer->entry_count; i++) {
        const struct entry_row *e = &s->layer->entries[i];
        struct step_time step = contrast_default(s->layer, e);

        if (!e->inferred && !plan_is_default(&e->plan, &s->layer->shape) && isfinite(step.us) &&
            e->time_us > 0)
            step_row(s, e->capacity, &step, e->time_us);
    }
    write_statics(s, AS_RATIO);
}

/* ---- where the time goes: a step's halves are its computation alone and its exchanges alone, each
 * timed once */

/* A half is unknown if its single step may be off by more than this share. */
static const double half_error_most = 0.1;

/* Returns the trial of the table's plan, or of the default, in a measured bucket; NULL: there is
 * none, or its halves are not known. */
static const struct trial_facts *trial_with_halves(const struct layer_facts *layer,
                                                   const struct entry_row *e, enum plan_role role)
{
    struct moe_plan plan = role == DEFAULT_PLAN ? plan_default(&layer->shape) : e->plan;
    const struct trial_facts *t = e->inferred ? NULL : facts_trial(layer, e->bucket, &plan);

    if (!t || t->row.compute_ns <= 0 || t->row.comm_ns <= 0)
        return NULL;
    return contrast_single_step(&t->steps) <= half_error_most ? t : NULL;
}

/* Writes a row for each bucket in which the plan's halves are known.  Columns: capacity;
 * computation alone, exchanges alone, step in ms; hidden share, low end, high end in %; step -
 * computation in ms; samples of the step; disturbed ones. */
static void write_halves(struct series *s, enum plan_role role)
{
    for (size_t i = 0; i < s->layer->entry_count; i++) {
        const struct entry_row *e = &s->layer->entries[i];
        const struct trial_facts *t = trial_with_halves(s->layer, e, role);
        struct step_time step = role_time(s->layer, e, role);
        double compute_ms, step_ms = step.us * 1e-3;
        struct hidden hidden;

        if (!t)
            continue;
        hidden = contrast_hidden(t, &step);
        compute_ms = (double)t->row.compute_ns * 1e-6;
        put_row(s, e->capacity,
                (const double[]){ compute_ms, (double)t->row.comm_ns * 1e-6, step_ms,
                                  100 * hidden.share, 100 * hidden.low, 100 * hidden.high,
                                  step_ms - compute_ms },
                7);
        end_row(s, t->steps.count, contrast_trial(t).throttled);
        s->extent.samples += 2; /* one of each half */
    }
}

/* The picture does not show the rows of the default plan, so the extent does not count them. */
void series_where(struct series *s)
{
    struct extent drawn;

    series_block(s, "table's plan");
    write_halves(s, TABLE_PLAN);
    drawn = s->extent;
    series_block(s, "default plan");
    write_halves(s, DEFAULT_PLAN);
    s->extent = drawn;
}

/* The file is that of series_where().  The picture shows only known hidden shares of plans with
 * several chunks, so the extent's rows and places are counted anew. */
void series_hidden(struct series *s)
{
    uint32_t shown = 0;
    double first_capacity = NAN;

    series_where(s);
    s->extent.several_places = false;
    for (size_t i = 0; i < s->layer->entry_count; i++) {
        const struct entry_row *e = &s->layer->entries[i];
        const struct trial_facts *t = trial_with_halves(s->layer, e, TABLE_PLAN);
        struct step_time step = contrast_entry(s->layer, e);

        if (!t || e->plan.d <= 1 || !isfinite(contrast_hidden(t, &step).share))
            continue;
        first_capacity = shown++ ? first_capacity : (double)e->capacity;
        s->extent.several_places |= (double)e->capacity != first_capacity;
    }
    s->extent.rows = shown;
}

/* ---- what the table saves */

/* Gains below this share are too small to be seen. */
static const double gain_seen = 1e-4;

/* Writes the gains over the default.  Columns: capacity; gain, low end, high end in %; samples;
 * disturbed ones.  Sets *seen if a gain is large enough to be seen. */
static void write_gains(struct series *s, enum entry_kind kind, bool *seen)
{
    for (size_t i = 0; i < s->layer->entry_count; i++) {
        const struct entry_row *e = &s->layer->entries[i];

        if (kind_of(e) != kind || !isfinite(e->gain.value))
            continue;
        *seen |= fabs(e->gain.value) > gain_seen;
        put_row(s, e->capacity,
                (const double[]){ 100 * e->gain.value, 100 * e->gain.low, 100 * e->gain.high }, 3);
        end_row(s, e->samples, contrast_entry(s->layer, e).throttled);
    }
}

enum step_origin { TIMED, INTERPOLATED };

/* Writes the gains over the best static plan in the buckets where its step has this origin. Columns
 * as in write_gains(), without an interval.  The extent does not count these rows: their samples
 * are already behind the gains over the default. */
static void write_static_gains(struct series *s, enum step_origin origin)
{
    const struct moe_plan *best = best_static(s->layer);

    for (size_t i = 0; i < s->layer->entry_count && best; i++) {
        const struct entry_row *e = &s->layer->entries[i];
        struct step_time step = contrast_step(s->layer, e, best);

        if (e->inferred || step.measured != (origin == TIMED) || !isfinite(step.us))
            continue;
        put_row(s, e->capacity, (const double[]){ 100 * (1 - e->time_us / step.us), NAN, NAN }, 3);
        fprintf(s->to, " %u %u\n", step.samples, step.throttled);
    }
}

void series_gain(struct series *s)
{
    bool seen = false;

    series_block(s, "over the default plan");
    write_gains(s, MEASURED, &seen);
    series_block(s, "over the default plan, inferred");
    write_gains(s, INFERRED, &seen);
    series_block(s, "over the best static plan");
    write_static_gains(s, TIMED);
    series_block(s, "the same, its time interpolated");
    write_static_gains(s, INTERPOLATED);
    if (!seen)
        s->extent.rows = 0;
}

/* Columns: capacity; share of look-ups, gain in %; look-ups; bucket. */
void series_traffic(struct series *s)
{
    static const char *const names[] = { [MEASURED] = "look-ups, measured",
                                         [INFERRED] = "look-ups, inferred",
                                         [MISSING] = "look-ups without an entry" };
    const struct traffic_layer *traffic = s->layer->traffic;

    for (enum entry_kind kind = MEASURED; kind <= MISSING; kind++) {
        series_block(s, names[kind]);
        for (size_t i = 0; traffic && i < traffic->bucket_count; i++) {
            const struct traffic_bucket *b = &traffic->buckets[i];
            const struct entry_row *e = facts_entry(s->layer, b->bucket);
            uint64_t lookups = traffic_lookups(b);
            double share = (double)lookups / (double)traffic_total(traffic);

            if (!facts_has(s->layer, b->bucket) || kind_of(e) != kind)
                continue;
            put_row(s, buckets_key_of(s->layer->buckets, b->bucket),
                    (const double[]){ 100 * share, e ? 100 * e->gain.value : (double)NAN }, 2);
            fprintf(s->to, " %" PRIu64 " %u\n", lookups, b->bucket);
            s->extent.rows++;
        }
    }
}

enum neighbour { BUCKET_BELOW, BUCKET_ABOVE };

/* Regrets below this share are too small to be seen. */
static const double regret_seen = 5e-3;

/* Writes how much more time the plan of one neighbour takes in a bucket.  Columns: capacity; regret
 * in %; 1 = timed; samples; disturbed ones.  Sets *seen if a regret is large enough to be seen. */
static void write_regrets(struct series *s, enum neighbour neighbour, bool *seen)
{
    const struct layer_facts *layer = s->layer;

    for (size_t i = 1; i < layer->entry_count; i++) {
        const struct entry_row *lower = &layer->entries[i - 1], *upper = &layer->entries[i];
        const struct entry_row *e = neighbour == BUCKET_BELOW ? upper : lower;
        const struct entry_row *other = neighbour == BUCKET_BELOW ? lower : upper;
        struct step_time step;
        double regret;

        if (e->inferred || upper->bucket != lower->bucket + facts_stride(layer))
            continue;
        step = contrast_step(layer, e, &other->plan);
        if (plan_equal(&lower->plan, &upper->plan) || !isfinite(step.us) || !(e->time_us > 0))
            continue;
        regret = step.us / e->time_us - 1;
        put_row(s, e->capacity, (const double[]){ 100 * regret, step.measured }, 2);
        end_row(s, step.samples, step.throttled);
        *seen |= fabs(regret) > regret_seen;
    }
}

void series_regret(struct series *s)
{
    bool seen = false;

    series_block(s, "plan of the bucket below");
    write_regrets(s, BUCKET_BELOW, &seen);
    series_block(s, "plan of the bucket above");
    write_regrets(s, BUCKET_ABOVE, &seen);
    if (!seen)
        s->extent.rows = 0;
}

/* ---- the table against static plans */

int series_lines(const struct scope *scope, struct static_line out[SERIES_LINES])
{
    static const struct {
        const char *name;
        uint32_t r, a;
        bool where_tried;
    } rows[SERIES_LINES] = {
        { "r=0", 0, MOE_A2A_LINEAR, false }, { "linear", 1, MOE_A2A_LINEAR, false },
        { "2dh", 1, MOE_A2A_2DH, false },    { "3dh", 1, MOE_A2A_3DH, true },
        { "rail", 1, MOE_A2A_RAIL, true },
    };
    int count = 0;

    for (int i = 0; i < SERIES_LINES; i++) {
        struct static_line line = { .name = rows[i].name,
                                    .count = rows[i].r ? SERIES_LINE_PLANS : 1 };
        bool tried = false;

        for (size_t j = 0; j < scope->count; j++)
            for (size_t k = 0; k < scope->layers[j].trial_count; k++)
                tried |= scope->layers[j].trials[k].row.key.plan.a == rows[i].a;
        if (rows[i].where_tried && !tried)
            continue;
        for (int j = 0; j < line.count; j++) {
            line.plans[j] = plan_default(NULL);
            line.plans[j].r = rows[i].r;
            line.plans[j].a = rows[i].a;
            line.plans[j].d = 1u << j;
        }
        out[count++] = line;
    }
    return count;
}

struct improvement series_pooled_improvement(const struct scope *scope, uint32_t ranks,
                                             const struct moe_plan *plan)
{
    struct improvement sum = { .worst = -INFINITY };

    for (size_t i = 0; i < scope->count; i++) {
        const struct layer_facts *layer = &scope->layers[i];
        struct improvement of_layer;

        if (ranks && layer->shape.ranks != ranks)
            continue;
        of_layer = contrast_static(layer, plan);
        if (!of_layer.buckets)
            continue;
        sum.mean += of_layer.mean * of_layer.buckets;
        sum.worst = fmax(sum.worst, of_layer.worst);
        sum.buckets += of_layer.buckets;
        sum.measured += of_layer.measured;
    }
    sum.mean = sum.buckets ? sum.mean / sum.buckets : NAN;
    sum.worst = sum.buckets ? sum.worst : NAN;
    return sum;
}

/* Columns: place on the y axis, the first row at the top; mean, worst bucket in %; buckets; those
 * of them in which the plan was timed; plan. */
void series_improvement(struct series *s)
{
    struct static_line lines[SERIES_LINES];
    int line_count = series_lines(s->scope, lines);
    uint32_t place = 0;

    for (int i = 0; i < line_count; i++)
        place += (uint32_t)lines[i].count;
    for (int i = 0; i < line_count; i++) {
        const struct static_line *line = &lines[i];

        for (int j = 0; j < line->count; j++, place--) {
            struct improvement pooled = series_pooled_improvement(s->scope, 0, &line->plans[j]);

            if (!pooled.buckets)
                continue;
            put_row(s, place, (const double[]){ 100 * pooled.mean, 100 * pooled.worst }, 2);
            fprintf(s->to, " %u %u \"%s", pooled.buckets, pooled.measured, line->name);
            if (line->count > 1)
                fprintf(s->to, " d=%u", line->plans[j].d);
            fputs("\"\n", s->to);
            s->extent.rows++;
        }
    }
}

/* ---- one all-to-all against another, where both were timed with the same r and d */

/* Columns: capacity; ratio other / base, low end, high end; size of a message of base in KiB; r;
 * samples of both; disturbed ones.  The interval combines the far ends of both medians. */
static void write_a2a(struct series *s, uint32_t base, uint32_t other)
{
    for (uint32_t d = 1; d <= PLAN_MAX_D; d *= 2) {
        char name[32];

        snprintf(name, sizeof(name), "d=%u", d);
        series_block(s, name);
        for (size_t i = 0; i < s->layer->trial_count; i++) {
            const struct trial_facts *t = &s->layer->trials[i], *twin;
            struct moe_plan plan = t->row.key.plan;
            const struct spread *base_steps = &t->steps, *other_steps;

            if (!trial_usable(t) || plan.d != d || plan.r == 0 || plan.a != base)
                continue;
            plan.a = other;
            twin = facts_trial(s->layer, t->row.key.bucket, &plan);
            if (!twin || !trial_usable(twin))
                continue;
            other_steps = &twin->steps;
            put_row(s, t->row.capacity,
                    (const double[]){
                        (double)other_steps->median_ns / (double)base_steps->median_ns,
                        (double)other_steps->low_ns / (double)base_steps->high_ns,
                        (double)other_steps->high_ns / (double)base_steps->low_ns,
                        (double)t->row.sent_bytes / 1024 / fmax(1, (double)t->row.messages),
                        plan.r },
                    5);
            end_row(s, base_steps->count + other_steps->count,
                    contrast_trial(t).throttled + contrast_trial(twin).throttled);
        }
    }
}

void series_a2a(struct series *s)
{
    write_a2a(s, MOE_A2A_LINEAR, MOE_A2A_2DH);
}

void series_3dh(struct series *s)
{
    write_a2a(s, MOE_A2A_2DH, MOE_A2A_3DH);
}

void series_rail(struct series *s)
{
    write_a2a(s, MOE_A2A_LINEAR, MOE_A2A_RAIL);
}

/* ---- sparse against padded experts */

/* Columns: skew; ratio sparse / padded, low end, high end; padded step, sparse step in ms; samples
 * of both; 0. */
void series_loads(struct series *s)
{
    for (size_t i = 0; i < s->layer->load_count; i++) {
        const struct load_pair *p = &s->layer->loads[i];
        const struct spread *padded = &p->padded, *sparse = &p->sparse;
        char name[32];

        if (!i || p->capacity != p[-1].capacity) {
            snprintf(name, sizeof(name), "c = %" PRIu64, p->capacity);
            series_block(s, name);
        }
        series_place(s, p->skew);
        fprintf(s->to, "%.6g %.6g", p->skew, (double)sparse->median_ns / (double)padded->median_ns);
        /* The interval combines the far ends of both medians; single steps have none. */
        if (padded->count > 1 && sparse->count > 1)
            fprintf(s->to, " %.6g %.6g", (double)sparse->low_ns / (double)padded->high_ns,
                    (double)sparse->high_ns / (double)padded->low_ns);
        else
            fputs(" NaN NaN", s->to);
        fprintf(s->to, " %.6g %.6g", (double)padded->median_ns * 1e-6,
                (double)sparse->median_ns * 1e-6);
        end_row(s, (uint32_t)(padded->count + sparse->count), 0);
    }
}

/* ---- what a step is made of: a block for each bucket, a row for each plan with phases */

static int64_t phases_ns(const struct trial_facts *trial)
{
    return trial->phases[PHASE_TOTAL].ns;
}

/* Returns the end of the trials of trials[i]'s bucket, and counts those with phases.  Trials are
 * sorted by bucket. */
static size_t bucket_end(const struct layer_facts *layer, size_t i, size_t *with_phases)
{
    uint32_t bucket = layer->trials[i].row.key.bucket;

    for (*with_phases = 0; i < layer->trial_count && layer->trials[i].row.key.bucket == bucket; i++)
        *with_phases += phases_ns(&layer->trials[i]) > 0;
    return i;
}

/* Returns the first trial of the bucket that is drawn (series_phases_capacity()). */
static size_t bucket_drawn(const struct layer_facts *layer)
{
    size_t best = 0, most_with_phases = 0, with_phases;

    for (size_t i = 0, end; i < layer->trial_count; i = end) {
        end = bucket_end(layer, i, &with_phases);
        if (with_phases && with_phases >= most_with_phases) {
            best = i;
            most_with_phases = with_phases;
        }
    }
    return best;
}

uint32_t series_phases_capacity(const struct layer_facts *layer)
{
    return layer->trial_count ? (uint32_t)layer->trials[bucket_drawn(layer)].row.capacity : 0;
}

static int by_total(const void *left, const void *right)
{
    const struct trial_facts *const *a = left, *const *b = right;
    int64_t x = phases_ns(*a), y = phases_ns(*b);

    return (x > y) - (x < y);
}

/* Writes one bucket, the fastest plan on top.  Returns the first trial of the next bucket. Columns:
 * place; each phase, total, its low end, its high end in ms; plan. */
static size_t write_phases(struct series *s, size_t first)
{
    size_t with_phases, end = bucket_end(s->layer, first, &with_phases), count = 0;
    const struct trial_facts **trials = calloc(with_phases + 1, sizeof(*trials));
    char name[32];

    for (size_t i = first; trials && i < end; i++)
        if (phases_ns(&s->layer->trials[i]) > 0)
            trials[count++] = &s->layer->trials[i];
    if (count) {
        qsort(trials, count, sizeof(*trials), by_total);
        snprintf(name, sizeof(name), "c = %u", (uint32_t)trials[0]->row.capacity);
        series_block(s, name);
    }
    for (size_t i = 0; i < count; i++) {
        const struct phase_time *phases = trials[i]->phases;

        fprintf(s->to, "%zu", count - i);
        for (int phase = PHASE_TOTAL + 1; phase < PHASE_COUNT; phase++)
            fprintf(s->to, " %.6g", (double)phases[phase].ns * 1e-6);
        fprintf(s->to, " %.6g %.6g %.6g \"%s\"\n", (double)phases[PHASE_TOTAL].ns * 1e-6,
                (double)phases[PHASE_TOTAL].low_ns * 1e-6,
                (double)phases[PHASE_TOTAL].high_ns * 1e-6, PLAN_WORDS(&trials[i]->row.key.plan));
    }
    free(trials);
    s->extent.rows += (uint32_t)count;
    return end;
}

void series_phases(struct series *s)
{
    size_t drawn = bucket_drawn(s->layer);

    if (s->layer->trial_count)
        write_phases(s, drawn);
    for (size_t i = 0, unused; i < s->layer->trial_count;)
        i = i == drawn ? bucket_end(s->layer, i, &unused) : write_phases(s, i);
}

/* ---- what the table cost */

struct spent series_spent_of(const struct scope *scope)
{
    struct spent sum = { 0 };

    for (size_t i = 0; i < scope->count; i++) {
        const struct layer_facts *layer = &scope->layers[i];

        for (size_t j = 0; j < layer->trial_count; j++) {
            sum.search += layer->trials[j].search_steps;
            sum.contest += layer->trials[j].contest_steps;
            sum.rounds += layer->trials[j].rounds_steps;
            sum.trials++;
        }
        sum.paper += (uint64_t)shape_paper_trials(&layer->shape) * layer->entry_count;
        sum.exhaustive += (uint64_t)plan_list(&layer->shape, NULL, 0) * layer->entry_count;
    }
    return sum;
}

/* Columns: place; steps or trials; what they were for. */
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
    s->extent = (struct extent){ .rows = 5, .samples = sum.search + sum.contest + sum.rounds };
}
