/* Replays a layer's recorded counts under each rule for capacities, and takes step times from the
 * layer's table. */
#include "followed.h"

#include "status.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Which plan of an entry: the table's, the best one that moves tokens (r >= 1), the best one that
 * moves weights (r = 0), or the default. */
enum entry_plan { PUBLISHED, MOVES_TOKENS, MOVES_WEIGHTS, DEFAULT_PLAN };

static double plan_time_us(const struct entry_row *e, enum entry_plan which)
{
    bool published_moves_weights = e->plan.r == 0;

    if (which == DEFAULT_PLAN)
        return e->default_us;
    if (which == PUBLISHED || (which == MOVES_WEIGHTS) == published_moves_weights)
        return e->time_us;
    return e->other_us;
}

/* Interpolates the step time at a capacity between the layer's entries. */
static double plan_time_ms(const struct layer_facts *layer, uint32_t key, enum entry_plan which)
{
    const struct entry_row *below = NULL;

    for (size_t i = 0; i < layer->entry_count; i++) {
        const struct entry_row *above = &layer->entries[i];
        double above_us = plan_time_us(above, which), below_us, part;

        if (!(above_us > 0))
            continue;
        if (above->capacity < key) {
            below = above;
            continue;
        }
        if (!below)
            return above_us * 1e-3;
        below_us = plan_time_us(below, which);
        part = (double)(key - below->capacity) / (double)(above->capacity - below->capacity);
        return (below_us * (1 - part) + above_us * part) * 1e-3;
    }
    return NAN;
}

double followed_ms(void *self, uint32_t key, uint32_t key_r0)
{
    const struct layer_facts *layer = self;
    bool one_kind = layer->entry_count > 0;
    double tokens_ms, weights_ms;

    if (layer->shape.layout == MOE_LAYOUT_HIDDEN)
        return plan_time_ms(layer, key_r0, PUBLISHED);
    /* If the table has plans of one kind only, the published plan is the best of that kind. */
    for (size_t i = 0; i < layer->entry_count; i++)
        one_kind &= layer->entries[i].no_other;
    if (key == key_r0 || one_kind)
        return plan_time_ms(layer, key, PUBLISHED);
    tokens_ms = plan_time_ms(layer, key, MOVES_TOKENS);
    weights_ms = plan_time_ms(layer, key_r0, MOVES_WEIGHTS);
    return isnan(tokens_ms) || isnan(weights_ms) ? plan_time_ms(layer, key, DEFAULT_PLAN)
                                                 : fmin(tokens_ms, weights_ms);
}

/* ---- remarks */

void followed_remarks(const struct scope *scope, struct remarks *out)
{
    const struct moe_capacities_options options = MOE_CAPACITIES_OPTIONS_INIT;
    const struct layer_facts *layer = &scope->layers[0];
    struct counts_price price = { followed_ms, (void *)(uintptr_t)layer };
    struct counts_sum sums[COUNTS_WAYS];
    double followed_step_ms, static_step_ms;
    char *sizes, *times;

    out->count = 0;
    if (scope->count > 1 || !layer->counts)
        return;
    for (int way = 0; way < COUNTS_WAYS; way++)
        if (counts_replay(layer->counts, &options, way, &price, NULL, NULL, &sums[way]))
            return;
    sizes = out->lines[out->count++];
    text_put(sizes, REMARK_BYTES, "Capacities over %zu recorded steps:", layer->counts->steps);
    for (int way = 0; way < COUNTS_WAYS; way++)
        text_add(sizes, REMARK_BYTES,
                 "%s %s: %.3g rows per choice (fullest rank %.3g), %.2f %% dropped, %zu "
                 "re-plans",
                 way ? ";" : "", counts_names[way], sums[way].factor, sums[way].fullest_factor,
                 100 * sums[way].dropped_share, sums[way].replans);
    times = out->lines[out->count++];
    followed_step_ms = sums[COUNTS_FOLLOWED].step_ms;
    static_step_ms = sums[COUNTS_STATIC].step_ms;
    if (counts_remark(layer->counts) && !(followed_step_ms < static_step_ms))
        snprintf(times, REMARK_BYTES, "%s", counts_remark(layer->counts));
    else if (isnan(followed_step_ms) || isnan(static_step_ms))
        snprintf(times, REMARK_BYTES,
                 "The step time at these capacities is not known: the table ends below the "
                 "capacity of the fullest rank, or of the static factor.");
    else
        snprintf(
            times, REMARK_BYTES,
            "By the table a step takes %.4g ms at capacities that follow, %.4g ms at the "
            "static factor %.2g: %.1f %% less.  With r >= 1 all ranks wait for the fullest rank.  "
            "If experts were spread over the ranks by load, it would need %.3g rows per choice "
            "instead of %.3g.",
            followed_step_ms, static_step_ms, counts_static_factor,
            100 * (1 - followed_step_ms / static_step_ms), sums[COUNTS_FOLLOWED].balanced_factor,
            sums[COUNTS_FOLLOWED].fullest_factor);
}

/* ---- the plot */

enum { BINS = 400 };

/* Points of the plot.  There are too many steps to draw, so a point is the largest of several
 * steps. series_followed() opens and frees it; each rule uses the arrays in turn. */
struct bins {
    const struct counts_trace *trace;
    double even;              /* choices per expert of an even gate */
    size_t steps_each, count; /* steps of a bin; bins in use */
    double *need, *factor;    /* (BINS, E) an expert's choices, and its rows, over `even` */
    double *mean, *ms;        /* (BINS) rows of all experts over choices; step time */
    double *dropped, *chosen; /* (BINS) sums of choices */
    const struct counts_price *price;
};

static void bins_add(void *self, const struct counts_step *step)
{
    struct bins *b = self;
    size_t bin = step->step / b->steps_each;
    uint32_t experts = b->trace->experts;

    for (uint32_t e = 0; e < experts; e++) {
        double need = b->trace->counts[step->step * experts + e] / b->even;

        b->need[bin * experts + e] = fmax(b->need[bin * experts + e], need);
        b->factor[bin * experts + e] = fmax(b->factor[bin * experts + e], step->rows[e] / b->even);
    }
    b->dropped[bin] += (double)step->dropped;
    b->chosen[bin] += (double)step->total;
    b->mean[bin] = fmax(b->mean[bin], (double)step->sum / b->trace->choices);
    b->ms[bin] = fmax(b->ms[bin],
                      b->price->ms(b->price->self, step->key, step->key_r0)); /* passes over NAN */
}

static void bins_clear(struct bins *b)
{
    memset(b->need, 0, BINS * b->trace->experts * sizeof(*b->need));
    memset(b->factor, 0, BINS * b->trace->experts * sizeof(*b->factor));
    for (size_t i = 0; i < BINS; i++) {
        b->mean[i] = b->dropped[i] = b->chosen[i] = 0;
        b->ms[i] = NAN;
    }
}

static bool bins_open(const struct layer_facts *layer, const struct counts_price *price,
                      struct bins *b)
{
    const struct counts_trace *t = layer->counts;

    *b = (struct bins){ .trace = t, .even = t->choices / t->experts, .price = price };
    b->steps_each = (t->steps + BINS - 1) / BINS;
    b->count = (t->steps + b->steps_each - 1) / b->steps_each;
    b->need = calloc((size_t)BINS * t->experts, sizeof(*b->need));
    b->factor = calloc((size_t)BINS * t->experts, sizeof(*b->factor));
    b->mean = calloc(BINS, sizeof(*b->mean));
    b->ms = calloc(BINS, sizeof(*b->ms));
    b->dropped = calloc(BINS, sizeof(*b->dropped));
    b->chosen = calloc(BINS, sizeof(*b->chosen));
    return b->need && b->factor && b->mean && b->ms && b->dropped && b->chosen;
}

/* Writes the points of one rule, all experts together.  Columns: first step; rows over choices;
 * choices dropped in %; step in ms. */
static void write_rule(struct series *s, const struct bins *b, int way)
{
    series_block(s, counts_names[way]);
    for (size_t i = 0; i < b->count; i++) {
        fprintf(s->to, "%zu %.5g %.4g", i * b->steps_each, b->mean[i],
                100 * b->dropped[i] / b->chosen[i]);
        if (isnan(b->ms[i]))
            fputs(" NaN\n", s->to);
        else
            fprintf(s->to, " %.6g\n", b->ms[i]);
        s->extent.rows++;
    }
}

/* Columns: first step; rows, then choices of the expert, both over the even share. */
static void write_experts(struct series *s, const struct bins *b)
{
    char name[32];

    for (uint32_t e = 0; e < b->trace->experts; e++) {
        snprintf(name, sizeof(name), "expert %u", e);
        series_block(s, name);
        for (size_t i = 0; i < b->count; i++) {
            size_t point = i * b->trace->experts + e;

            fprintf(s->to, "%zu %.5g %.5g\n", i * b->steps_each, b->factor[point], b->need[point]);
            s->extent.rows++;
        }
    }
}

/* Replays all rules.  COUNTS_FOLLOWED is the last, because the experts' lines need its bins. */
void series_followed(struct series *s)
{
    static const enum counts_way order[] = { COUNTS_STATIC, COUNTS_EMA, COUNTS_FOLLOWED };
    const struct moe_capacities_options options = MOE_CAPACITIES_OPTIONS_INIT;
    struct counts_price price = { followed_ms, (void *)(uintptr_t)s->layer };
    struct bins bins;
    struct counts_sum sum;

    if (!s->layer->counts)
        return;
    if (bins_open(s->layer, &price, &bins)) {
        for (int i = 0; i < COUNTS_WAYS; i++) {
            bins_clear(&bins);
            if (counts_replay(s->layer->counts, &options, order[i], &price, bins_add, &bins, &sum))
                break;
            write_rule(s, &bins, order[i]);
            if (order[i] == COUNTS_FOLLOWED)
                write_experts(s, &bins);
        }
    }
    free(bins.need);
    free(bins.factor);
    free(bins.mean);
    free(bins.ms);
    free(bins.dropped);
    free(bins.chosen);
}
