/* Writes the data files of plots: one function per plot. */
#include "series.h"

#include "bucket_key.h"
#include "contrast.h"
#include "plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- blocks and numbers */

static void begin_block(FILE *to, bool first, const char *name)
{
    fprintf(to, "%s\"%s\"\n", first ? "" : "\n\n", name);
}

static void number(FILE *to, double value)
{
    if (isfinite(value))
        fprintf(to, " %.6g", value);
    else
        fputs(" NaN", to);
}

static void add_row(struct extent *extent, uint64_t samples, uint64_t throttled)
{
    extent->rows++;
    extent->samples += samples;
    extent->throttled += throttled;
}

static void step_row(FILE *to, uint64_t capacity, const struct step_time *t, double unit_us,
                     struct extent *extent)
{
    fprintf(to, "%" PRIu64, capacity);
    number(to, t->us / unit_us);
    number(to, t->low_us / unit_us);
    number(to, t->high_us / unit_us);
    fprintf(to, " %u %u\n", t->samples, t->throttled);
    add_row(extent, t->samples, t->throttled);
}

static void plan_name(const struct moe_plan *plan, char text[PLAN_TEXT_BYTES])
{
    if (moe_plan_format(plan, text, PLAN_TEXT_BYTES) < 0)
        snprintf(text, PLAN_TEXT_BYTES, "?");
}

bool series_is_thinned(const struct layer_facts *layer)
{
    return contrast_measured_buckets(layer) > SERIES_CELLS + SERIES_CELLS / 4;
}

/* ---- which plan wins */

enum { VALUES_MAX = 64 };

/* The values that one axis takes among the plans of a layer. */
struct values {
    uint32_t at[VALUES_MAX];
    int count;
};

static void add_value(struct values *v, uint32_t value)
{
    int i = v->count;

    for (int j = 0; j < v->count; j++)
        if (v->at[j] == value)
            return;
    if (v->count == VALUES_MAX)
        return;
    for (; i && v->at[i - 1] > value; i--)
        v->at[i] = v->at[i - 1];
    v->at[i] = value;
    v->count++;
}

static uint32_t axis_of(const struct moe_plan *plan, size_t axis)
{
    return *(const uint32_t *)((const char *)plan + plan_axes[axis].offset);
}

/* d and a mean nothing at r = 0: no lane is marked for them. */
static bool axis_counts(const struct moe_plan *plan, size_t axis)
{
    return plan->r != 0 || !strcmp(plan_axes[axis].name, "r");
}

static struct values values_of(const struct layer_facts *layer, size_t axis)
{
    struct values v = { .count = 0 };

    for (size_t i = 0; i < layer->entry_count; i++)
        if (axis_counts(&layer->entries[i].plan, axis))
            add_value(&v, axis_of(&layer->entries[i].plan, axis));
    for (size_t i = 0; i < layer->plan_count; i++)
        if (axis_counts(&layer->plans[i], axis))
            add_value(&v, axis_of(&layer->plans[i], axis));
    /* Who did not let it vary knows nothing of it. */
    if (plan_axes[axis].quiet && v.count == 1 && v.at[0] == plan_axes[axis].fallback)
        v.count = 0;
    return v;
}

int series_axes(const struct layer_facts *layer)
{
    int shown = 0;

    for (size_t axis = 0; axis < plan_axis_count; axis++)
        shown += !plan_axes[axis].quiet || values_of(layer, axis).count;
    return shown;
}

/* Lanes from below: the last axis first, an empty one between two axes. */
static int first_lane(const struct layer_facts *layer, size_t axis)
{
    int lane = 0;

    for (size_t i = (size_t)series_axes(layer); i-- > axis + 1;)
        lane += values_of(layer, i).count + 1;
    return lane;
}

static void value_name(size_t axis, uint32_t value, char text[32])
{
    if (plan_axes[axis].words)
        snprintf(text, 32, "%s=%s", plan_axes[axis].name, plan_axes[axis].words[value]);
    else
        snprintf(text, 32, "%s=%u", plan_axes[axis].name, value);
}

bool series_lane(const struct layer_facts *layer, int lane, char text[32])
{
    for (size_t axis = (size_t)series_axes(layer); axis-- > 0;) {
        struct values v = values_of(layer, axis);

        text[0] = 0;
        if (lane < v.count)
            value_name(axis, v.at[lane], text);
        if (lane <= v.count)
            return lane < v.count || axis > 0;
        lane -= v.count + 1;
    }
    return false;
}

static int lane_of(const struct values *values, uint32_t value)
{
    for (int i = 0; i < values->count; i++)
        if (values->at[i] == value)
            return i;
    return 0;
}

static uint32_t write_axis(const struct layer_facts *layer, size_t axis, bool inferred, FILE *to)
{
    struct values values = values_of(layer, axis);
    int lane = first_lane(layer, axis);
    uint32_t rows = 0;

    for (size_t i = 0; i < layer->entry_count; i++) {
        const struct entry_row *e = &layer->entries[i];

        if (e->inferred != inferred || !axis_counts(&e->plan, axis))
            continue;
        fprintf(to, "%" PRIu64 " %" PRIu64 " %d %u\n", (uint64_t)e->bucket * e->window,
                ((uint64_t)e->bucket + 1) * e->window,
                lane + lane_of(&values, axis_of(&e->plan, axis)), e->bucket);
        rows++;
    }
    return rows;
}

struct extent series_winners(const struct scope *scope, FILE *to)
{
    const struct layer_facts *layer = &scope->layers[0];
    struct extent extent = { 0 };
    bool first = true;

    for (size_t axis = 0; axis < (size_t)series_axes(layer); axis++)
        for (int inferred = 0; inferred < 2; inferred++) {
            char name[32];

            snprintf(name, sizeof(name), "%s %s", plan_axes[axis].name,
                     inferred ? "inferred" : "measured");
            begin_block(to, first, name);
            first = false;
            extent.rows += write_axis(layer, axis, inferred, to);
        }
    for (size_t i = 0; i < layer->entry_count; i++) {
        extent.samples += layer->entries[i].samples;
        extent.throttled += contrast_entry(layer, &layer->entries[i]).throttled;
    }
    return extent;
}

/* ---- times of plans */

static void write_entries(const struct layer_facts *layer, bool inferred, bool standard, FILE *to,
                          struct extent *extent)
{
    for (size_t i = 0; i < layer->entry_count; i++) {
        const struct entry_row *e = &layer->entries[i];
        struct step_time t = standard ? contrast_default(layer, e) : contrast_entry(layer, e);

        if (e->inferred == inferred && isfinite(t.us) && t.us > 0)
            step_row(to, e->capacity, &t, 1e3, extent);
    }
}

/* True if the table's curve, or the default's, shows this trial already. */
static bool told_by_entry(const struct layer_facts *layer, const struct trial_facts *trial)
{
    const struct entry_row *e = facts_entry(layer, trial->row.key.bucket);
    struct moe_plan standard = plan_default();

    return e && !e->inferred &&
           (plan_equal(&e->plan, &trial->row.key.plan) ||
            plan_equal(&standard, &trial->row.key.plan));
}

/* Plans with a colour of their own: the best static ones without the default. */
static size_t coloured(const struct layer_facts *layer, struct moe_plan plans[SERIES_STATICS])
{
    struct moe_plan standard = plan_default();
    size_t count, kept = 0;
    const struct moe_plan *ranked = contrast_ranked(layer, &count);

    for (size_t i = 0; i < count && kept < SERIES_STATICS; i++)
        if (!plan_equal(&ranked[i], &standard))
            plans[kept++] = ranked[i];
    return kept;
}

bool series_best_static(const struct layer_facts *layer, struct moe_plan *plan)
{
    size_t count;
    const struct moe_plan *ranked = contrast_ranked(layer, &count);

    if (count)
        *plan = ranked[0];
    return count > 0;
}

static bool is_among(const struct moe_plan *plan, const struct moe_plan *plans, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (plan_equal(plan, &plans[i]))
            return true;
    return false;
}

/* A trial as a point: in ms, or as its ratio to the table's plan. */
static void write_trial(const struct layer_facts *layer, const struct trial_facts *trial,
                        bool ratio, FILE *to, struct extent *extent)
{
    const struct entry_row *e = facts_entry(layer, trial->row.key.bucket);
    struct step_time t = contrast_trial(trial);

    if (!ratio)
        step_row(to, trial->row.capacity, &t, 1e3, extent);
    else if (e && !e->inferred && e->time_us > 0)
        step_row(to, trial->row.capacity, &t, e->time_us, extent);
}

static void write_plan(const struct layer_facts *layer, const struct moe_plan *plan, bool ratio,
                       FILE *to, struct extent *extent)
{
    for (size_t i = 0; i < layer->trial_count; i++)
        if (trial_usable(&layer->trials[i]) && plan_equal(&layer->trials[i].row.key.plan, plan) &&
            !told_by_entry(layer, &layer->trials[i]))
            write_trial(layer, &layer->trials[i], ratio, to, extent);
}

static void write_others(const struct layer_facts *layer, const struct moe_plan *plans,
                         size_t count, bool ratio, FILE *to, struct extent *extent)
{
    struct moe_plan standard = plan_default();

    for (size_t i = 0; i < layer->trial_count; i++) {
        const struct trial_facts *t = &layer->trials[i];

        if (trial_usable(t) && !is_among(&t->row.key.plan, plans, count) &&
            !plan_equal(&t->row.key.plan, &standard) && !told_by_entry(layer, t))
            write_trial(layer, t, ratio, to, extent);
    }
}

static void write_statics(const struct layer_facts *layer, bool ratio, FILE *to,
                          struct extent *extent)
{
    struct moe_plan plans[SERIES_STATICS];
    size_t count = coloured(layer, plans);

    begin_block(to, false, "other plans");
    write_others(layer, plans, count, ratio, to, extent);
    for (size_t i = 0; i < count; i++) {
        char name[PLAN_TEXT_BYTES];

        plan_name(&plans[i], name);
        begin_block(to, false, name);
        write_plan(layer, &plans[i], ratio, to, extent);
    }
}

struct extent series_times(const struct scope *scope, FILE *to)
{
    const struct layer_facts *layer = &scope->layers[0];
    struct extent extent = { 0 };

    begin_block(to, true, "table's plan");
    write_entries(layer, false, false, to, &extent);
    begin_block(to, false, "table's plan, inferred");
    write_entries(layer, true, false, to, &extent);
    begin_block(to, false, "default plan");
    write_entries(layer, false, true, to, &extent);
    write_statics(layer, false, to, &extent);
    return extent;
}

struct extent series_ratios(const struct scope *scope, FILE *to)
{
    const struct layer_facts *layer = &scope->layers[0];
    struct moe_plan standard = plan_default();
    struct extent extent = { 0 };

    begin_block(to, true, "default plan");
    for (size_t i = 0; i < layer->entry_count; i++) {
        const struct entry_row *e = &layer->entries[i];
        struct step_time t = contrast_default(layer, e);

        if (!e->inferred && !plan_equal(&e->plan, &standard) && isfinite(t.us) && e->time_us > 0)
            step_row(to, e->capacity, &t, e->time_us, &extent);
    }
    write_statics(layer, true, to, &extent);
    return extent;
}

/* ---- gains */

static void gain_row(FILE *to, const struct layer_facts *layer, const struct entry_row *e,
                     struct extent *extent)
{
    struct step_time t = contrast_entry(layer, e);

    fprintf(to, "%" PRIu64, e->capacity);
    number(to, 100 * e->gain);
    number(to, 100 * e->gain_low);
    number(to, 100 * e->gain_high);
    fprintf(to, " %u %u\n", e->samples, t.throttled);
    add_row(extent, e->samples, t.throttled);
}

static void static_gain_row(const struct layer_facts *layer, const struct entry_row *e,
                            const struct moe_plan *plan, bool measured, FILE *to)
{
    struct step_time t = contrast_step(layer, e, plan);

    if (e->inferred || t.measured != measured || !isfinite(t.us))
        return;
    fprintf(to, "%" PRIu64, e->capacity);
    number(to, 100 * (1 - e->time_us / t.us));
    fprintf(to, " NaN NaN %u %u\n", t.samples, t.throttled);
}

static void write_static_gain(const struct layer_facts *layer, FILE *to)
{
    struct moe_plan plan;
    bool known = series_best_static(layer, &plan);

    for (int measured = 1; measured >= 0; measured--) {
        begin_block(to, false,
                    measured ? "over the best static plan" : "the same, its time interpolated");
        for (size_t i = 0; i < layer->entry_count && known; i++)
            static_gain_row(layer, &layer->entries[i], &plan, measured, to);
    }
}

struct extent series_gain(const struct scope *scope, FILE *to)
{
    const struct layer_facts *layer = &scope->layers[0];
    struct extent extent = { 0 };

    for (int inferred = 0; inferred < 2; inferred++) {
        begin_block(to, !inferred,
                    inferred ? "over the default plan, inferred" : "over the default plan");
        for (size_t i = 0; i < layer->entry_count; i++)
            if (layer->entries[i].inferred == (inferred == 1) && isfinite(layer->entries[i].gain))
                gain_row(to, layer, &layer->entries[i], &extent);
    }
    write_static_gain(layer, to);
    return extent;
}

/* ---- traffic */

static void traffic_row(const struct traffic_layer *traffic, const struct traffic_bucket *b,
                        const struct entry_row *e, FILE *to, struct extent *extent)
{
    uint64_t asked = traffic_asked(b);

    fprintf(to, "%" PRIu64, bucket_capacity(traffic->window, b->bucket));
    number(to, 100 * (double)asked / (double)traffic_total(traffic));
    number(to, e ? 100 * e->gain : (double)NAN);
    fprintf(to, " %" PRIu64 " %u\n", asked, b->bucket);
    extent->rows++;
}

struct extent series_traffic(const struct scope *scope, FILE *to)
{
    static const char *const names[] = { "look-ups, measured", "look-ups, inferred",
                                         "look-ups without an entry" };
    const struct layer_facts *layer = &scope->layers[0];
    const struct traffic_layer *traffic = layer->traffic;
    struct extent extent = { 0 };

    for (int kind = 0; kind < 3; kind++) {
        begin_block(to, !kind, names[kind]);
        for (size_t i = 0; traffic && i < traffic->bucket_count; i++) {
            const struct traffic_bucket *b = &traffic->buckets[i];
            const struct entry_row *e = facts_entry(layer, b->bucket);

            if ((e ? e->inferred : 2) == kind)
                traffic_row(traffic, b, e, to, &extent);
        }
    }
    return extent;
}

/* ---- where the time goes */

/* The trial of the table's plan, or of the default, in a measured bucket where both halves were
 * timed alone. */
static const struct trial_facts *halves(const struct layer_facts *layer, const struct entry_row *e,
                                        bool standard)
{
    struct moe_plan plan = standard ? plan_default() : e->plan;
    const struct trial_facts *t = e->inferred ? NULL : facts_trial(layer, e->bucket, &plan);

    return t && t->row.compute_ns > 0 && t->row.comm_ns > 0 ? t : NULL;
}

static double step_us(const struct layer_facts *layer, const struct entry_row *e, bool standard)
{
    return standard ? contrast_default(layer, e).us : e->time_us;
}

static void where_row(const struct layer_facts *layer, const struct entry_row *e, bool standard,
                      FILE *to, struct extent *extent)
{
    const struct trial_facts *t = halves(layer, e, standard);

    if (!t)
        return;
    fprintf(to, "%" PRIu64, e->capacity);
    number(to, (double)t->row.compute_ns * 1e-6);
    number(to, (double)t->row.comm_ns * 1e-6);
    number(to, step_us(layer, e, standard) * 1e-3);
    number(to, 100 * contrast_hidden(t, step_us(layer, e, standard)));
    number(to, step_us(layer, e, standard) * 1e-3 - (double)t->row.compute_ns * 1e-6);
    fprintf(to, " %zu %u\n", t->steps.count, contrast_trial(t).throttled);
    add_row(extent, t->steps.count + 2, contrast_trial(t).throttled);
}

struct extent series_where(const struct scope *scope, FILE *to)
{
    const struct layer_facts *layer = &scope->layers[0];
    struct extent extent = { 0 };

    for (int standard = 0; standard < 2; standard++) {
        begin_block(to, !standard, standard ? "default plan" : "table's plan");
        for (size_t i = 0; i < layer->entry_count; i++)
            where_row(layer, &layer->entries[i], standard == 1, to, &extent);
    }
    return extent;
}

struct extent series_hidden(const struct scope *scope, FILE *to)
{
    return series_where(scope, to);
}

/* ---- what a neighbour's plan costs */

static const struct entry_row *neighbour(const struct layer_facts *layer, const struct entry_row *e,
                                         int direction)
{
    const struct entry_row *n = e + direction;

    if (n < layer->entries || n >= layer->entries + layer->entry_count)
        return NULL;
    return n->bucket == e->bucket + (uint32_t)direction ? n : NULL;
}

static void regret_row(const struct layer_facts *layer, const struct entry_row *e, int direction,
                       FILE *to, struct extent *extent)
{
    const struct entry_row *n = e->inferred ? NULL : neighbour(layer, e, direction);
    struct step_time t = { .us = NAN };

    if (n)
        t = contrast_step(layer, e, &n->plan);
    if (!isfinite(t.us) || !(e->time_us > 0))
        return;
    fprintf(to, "%" PRIu64, e->capacity);
    number(to, 100 * (t.us / e->time_us - 1));
    fprintf(to, " %d %u %u\n", t.measured, t.samples, t.throttled);
    add_row(extent, t.samples, t.throttled);
}

struct extent series_regret(const struct scope *scope, FILE *to)
{
    const struct layer_facts *layer = &scope->layers[0];
    struct extent extent = { 0 };

    for (int direction = -1; direction <= 1; direction += 2) {
        begin_block(to, direction < 0,
                    direction < 0 ? "plan of the bucket below" : "plan of the bucket above");
        for (size_t i = 0; i < layer->entry_count; i++)
            regret_row(layer, &layer->entries[i], direction, to, &extent);
    }
    return extent;
}

/* ---- linear against 2dh */

static void a2a_row(const struct layer_facts *layer, const struct trial_facts *linear, FILE *to,
                    struct extent *extent)
{
    struct moe_plan twin = linear->row.key.plan;
    const struct trial_facts *other;
    uint32_t throttled;

    twin.a = MOE_A2A_2DH;
    other = facts_trial(layer, linear->row.key.bucket, &twin);
    if (!other || !trial_usable(other))
        return;
    fprintf(to, "%" PRIu64, linear->row.capacity);
    number(to, (double)other->steps.median_ns / (double)linear->steps.median_ns);
    number(to, (double)other->steps.low_ns / (double)linear->steps.high_ns);
    number(to, (double)other->steps.high_ns / (double)linear->steps.low_ns);
    number(to, (double)linear->row.sent_bytes / 1024 / fmax(1, (double)linear->row.messages));
    throttled = contrast_trial(linear).throttled + contrast_trial(other).throttled;
    fprintf(to, " %u %zu %u\n", twin.r, linear->steps.count + other->steps.count, throttled);
    add_row(extent, linear->steps.count + other->steps.count, throttled);
}

struct extent series_a2a(const struct scope *scope, FILE *to)
{
    const struct layer_facts *layer = &scope->layers[0];
    struct extent extent = { 0 };

    for (uint32_t d = 1; d <= PLAN_MAX_D; d *= 2) {
        char name[32];

        snprintf(name, sizeof(name), "d=%u", d);
        begin_block(to, d == 1, name);
        for (size_t i = 0; i < layer->trial_count; i++) {
            const struct trial_facts *t = &layer->trials[i];

            if (trial_usable(t) && t->row.key.plan.d == d && t->row.key.plan.r != 0 &&
                t->row.key.plan.a == MOE_A2A_LINEAR)
                a2a_row(layer, t, to, &extent);
        }
    }
    return extent;
}

/* ---- what it cost */

struct spent {
    uint64_t search, contest, rounds, paper, exhaustive;
    uint32_t trials;
};

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

struct extent series_spent(const struct scope *scope, FILE *to)
{
    struct spent sum = { 0 };

    for (size_t i = 0; i < scope->count; i++)
        add_spent(&scope->layers[i], &sum);
    if (!sum.trials || !sum.paper)
        return (struct extent){ 0 };
    fprintf(to, "5 %" PRIu64 " \"steps for the search\"\n", sum.search);
    fprintf(to, "4 %" PRIu64 " \"steps against the default\"\n", sum.contest);
    fprintf(to, "3 %" PRIu64 " \"rounds of the table, steps\"\n", sum.rounds);
    fprintf(to, "2 %" PRIu64 " \"paper's search, trials\"\n", sum.paper);
    fprintf(to, "1 %" PRIu64 " \"every plan once\"\n", sum.exhaustive);
    return (struct extent){ 5, sum.search + sum.contest + sum.rounds };
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

struct extent series_distribution(const struct scope *scope, FILE *to)
{
    size_t count;
    struct share *shares = count_shares(scope, &count), rest = { 0 };
    struct extent extent = { 0 };
    uint32_t at = (uint32_t)(count < SHARES_MAX ? count : SHARES_MAX + 1);

    for (size_t i = 0; i < count; i++) {
        char name[PLAN_TEXT_BYTES];

        extent.rows += shares[i].measured + shares[i].inferred;
        if (i >= SHARES_MAX) {
            rest.measured += shares[i].measured;
            rest.inferred += shares[i].inferred;
            continue;
        }
        plan_name(&shares[i].plan, name);
        fprintf(to, "%u %u %u \"%s\"\n", at--, shares[i].measured, shares[i].inferred, name);
    }
    if (rest.measured + rest.inferred)
        fprintf(to, "%u %u %u \"%zu more plans\"\n", at, rest.measured, rest.inferred,
                count - SHARES_MAX);
    free(shares);
    return extent;
}

/* ---- the table against static plans */

struct static_line series_line(int line)
{
    static const char *const names[SERIES_LINES] = { "r=0", "linear", "2dh" };
    static const uint32_t a2a[SERIES_LINES] = { MOE_A2A_LINEAR, MOE_A2A_LINEAR, MOE_A2A_2DH };
    struct static_line out = { .name = names[line], .count = line ? SERIES_LINE_PLANS : 1 };

    for (int i = 0; i < out.count; i++) {
        out.plans[i] = plan_default();
        out.plans[i].r = line ? 1 : 0;
        out.plans[i].a = a2a[line];
        out.plans[i].d = 1u << i;
    }
    return out;
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

struct extent series_improvement(const struct scope *scope, FILE *to)
{
    struct extent extent = { 0 };
    uint32_t at = 1 + (SERIES_LINES - 1) * SERIES_LINE_PLANS;

    for (int i = 0; i < SERIES_LINES; i++) {
        struct static_line line = series_line(i);

        for (int j = 0; j < line.count; j++, at--) {
            struct improvement one = series_pooled(scope, 0, &line.plans[j]);

            if (!one.buckets)
                continue;
            fprintf(to, "%u", at);
            number(to, 100 * one.mean);
            number(to, 100 * one.worst);
            fprintf(to, " %u %u \"%s", one.buckets, one.measured, line.name);
            if (line.count > 1)
                fprintf(to, " d=%u", line.plans[j].d);
            fputs("\"\n", to);
            extent.rows++;
        }
    }
    return extent;
}
