/* Step times of all plans in all buckets of a layer, gaps interpolated, and what follows from their
 * ratios. */
#include "contrast.h"

#include "plan.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

static const struct step_time unknown_step = { .us = NAN, .low_us = NAN, .high_us = NAN };

struct step_time contrast_trial(const struct trial_facts *trial)
{
    const struct spread *s = &trial->steps;

    return (struct step_time){ .us = (double)s->median_ns * 1e-3,
                               .low_us = (double)s->low_ns * 1e-3,
                               .high_us = (double)s->high_ns * 1e-3,
                               .samples = (uint32_t)s->count,
                               .measured = true,
                               .throttled = (uint32_t)heat_counted(&trial->heat) };
}

/* An entry's count of disturbed steps includes those of the default plan.  It is used only if the
 * plan's own trial is missing. */
struct step_time contrast_entry(const struct layer_facts *layer, const struct entry_row *entry)
{
    const struct trial_facts *trial = facts_trial(layer, entry->bucket, &entry->plan);
    uint32_t throttled = entry->throttled < entry->samples ? entry->throttled : entry->samples;

    if (trial)
        throttled = (uint32_t)heat_counted(&trial->heat);
    return (struct step_time){ .us = entry->time_us,
                               .low_us = entry->low_us,
                               .high_us = entry->high_us,
                               .samples = entry->samples,
                               .measured = !entry->inferred,
                               .throttled = throttled };
}

/* The interval comes from that of the gain, as if the time of the entry's plan were certain. */
struct step_time contrast_default(const struct layer_facts *layer, const struct entry_row *entry)
{
    struct moe_plan default_plan = plan_default(&layer->shape);
    const struct trial_facts *trial = facts_trial(layer, entry->bucket, &default_plan);

    if (plan_is_default(&entry->plan, &layer->shape))
        return contrast_entry(layer, entry);
    if (!(entry->default_us > 0))
        return trial && trial_usable(trial) ? contrast_trial(trial) : unknown_step;
    return (struct step_time){ .us = entry->default_us,
                               .low_us = entry->time_us / (1 - entry->gain.low),
                               .high_us = entry->time_us / (1 - entry->gain.high),
                               .samples = entry->samples,
                               .measured = true,
                               .throttled = trial ? (uint32_t)heat_counted(&trial->heat) : 0 };
}

/* Returns the step time that the entry has, or that was timed in its bucket; unknown_step
 * otherwise.
 */
static struct step_time known_step(const struct layer_facts *layer, const struct entry_row *entry,
                                   const struct moe_plan *plan)
{
    const struct trial_facts *trial;

    if (plan_equal(plan, &entry->plan))
        return contrast_entry(layer, entry);
    if (plan_is_default(plan, &layer->shape))
        return contrast_default(layer, entry);
    trial = facts_trial(layer, entry->bucket, plan);
    return trial && trial_usable(trial) ? contrast_trial(trial) : unknown_step;
}

/* ---- every plan at every bucket */

struct contrasts {
    struct moe_plan *plans; /* that were timed somewhere, or that an entry has; plan_order() */
    size_t plan_count;
    struct step_time *steps; /* (plans, entries) */
    struct ranked {
        struct moe_plan plan;
        double log_mean; /* struct improvement; -INFINITY: the best plan of the rounds */
    } * ranked;          /* static plans, the best first */
    size_t ranked_count;
};

static int list_plans(const struct layer_facts *layer, struct contrasts *c)
{
    size_t room = layer->plan_count + layer->entry_count + 1;

    c->plans = calloc(room, sizeof(*c->plans));
    if (!c->plans)
        return fail(ERR_NOMEM, "the list of %zu plans", room);
    c->plans[c->plan_count++] = plan_default(&layer->shape);
    for (size_t i = 0; i < layer->plan_count; i++)
        c->plans[c->plan_count++] = layer->plans[i];
    for (size_t i = 0; i < layer->entry_count; i++)
        c->plans[c->plan_count++] = layer->entries[i].plan;
    c->plan_count = facts_distinct_plans(c->plans, c->plan_count);
    return OK;
}

static int order_plans(const void *a, const void *b)
{
    return plan_order(a, b);
}

/* Returns the plan's times, one for each entry; NULL: nothing is known of the plan. */
static struct step_time *steps_of(const struct layer_facts *layer, const struct moe_plan *plan)
{
    const struct contrasts *c = layer->contrasts;
    const struct moe_plan *found =
        bsearch(plan, c->plans, c->plan_count, sizeof(*c->plans), order_plans);

    return found ? c->steps + (size_t)(found - c->plans) * layer->entry_count : NULL;
}

/* Interpolates a ratio over log c between the entries `low` and `high`.  If one of them is `none`,
 * returns the ratio of the other. */
static double ratio_between(const struct entry_row *entries, const double *ratios, size_t i,
                            size_t low, size_t high, size_t none)
{
    double part;

    if (low == none)
        return high == none ? (double)NAN : ratios[high];
    if (high == none)
        return ratios[low];
    part = log(((double)entries[i].capacity + 1) / ((double)entries[low].capacity + 1)) /
           log(((double)entries[high].capacity + 1) / ((double)entries[low].capacity + 1));
    return ratios[low] + part * (ratios[high] - ratios[low]);
}

/* Fills the gaps of one plan's times in measured buckets: from the nearest buckets on both sides in
 * which its ratio to the default plan is known. */
static void interpolate_gaps(const struct layer_facts *layer, struct step_time *steps,
                             const struct step_time *default_steps, double *log_ratios)
{
    const struct entry_row *entries = layer->entries;
    size_t n = layer->entry_count, below = n, above = 0;

    for (size_t i = 0; i < n; i++)
        log_ratios[i] = entries[i].inferred ? (double)NAN : log(steps[i].us / default_steps[i].us);
    for (size_t i = 0; i < n; i++) {
        if (isfinite(log_ratios[i]))
            below = i;
        for (above = above < i ? i : above; above < n && !isfinite(log_ratios[above]);)
            above++;
        if (isfinite(steps[i].us) || entries[i].inferred)
            continue;
        steps[i].us =
            default_steps[i].us * exp(ratio_between(entries, log_ratios, i, below, above, n));
        steps[i].measured = false;
    }
}

static int fill_steps(const struct layer_facts *layer)
{
    struct contrasts *c = layer->contrasts;
    size_t n = layer->entry_count;
    struct moe_plan default_plan = plan_default(&layer->shape);
    double *log_ratios = malloc((n + 1) * sizeof(*log_ratios));

    c->steps = malloc((c->plan_count * n + 1) * sizeof(*c->steps));
    if (!c->steps || !log_ratios) {
        free(log_ratios);
        return fail(ERR_NOMEM, "the times of %zu plans in %zu buckets", c->plan_count, n);
    }
    for (size_t i = 0; i < c->plan_count; i++)
        for (size_t j = 0; j < n; j++)
            c->steps[i * n + j] = known_step(layer, &layer->entries[j], &c->plans[i]);
    for (size_t i = 0; i < c->plan_count; i++)
        interpolate_gaps(layer, c->steps + i * n, steps_of(layer, &default_plan), log_ratios);
    free(log_ratios);
    return OK;
}

struct step_time contrast_step(const struct layer_facts *layer, const struct entry_row *entry,
                               const struct moe_plan *plan)
{
    const struct step_time *steps = steps_of(layer, plan);

    return steps ? steps[entry - layer->entries] : unknown_step;
}

uint32_t contrast_measured_buckets(const struct layer_facts *layer)
{
    uint32_t count = 0;

    for (size_t i = 0; i < layer->entry_count; i++)
        count += !layer->entries[i].inferred;
    return count;
}

struct improvement contrast_static(const struct layer_facts *layer, const struct moe_plan *plan)
{
    struct improvement sum = { .worst = -INFINITY };
    const struct step_time *steps = steps_of(layer, plan);

    for (size_t i = 0; steps && i < layer->entry_count; i++) {
        const struct entry_row *e = &layer->entries[i];
        double ratio = steps[i].us / e->time_us;

        if (e->inferred || !isfinite(ratio) || ratio <= 0)
            continue;
        sum.buckets++;
        sum.measured += steps[i].measured;
        sum.mean += ratio - 1;
        sum.log_mean += log(ratio);
        sum.worst = fmax(sum.worst, ratio - 1);
    }
    if (!sum.buckets)
        return (struct improvement){ .mean = NAN, .worst = NAN, .log_mean = NAN };
    sum.mean /= sum.buckets;
    sum.log_mean /= sum.buckets;
    return sum;
}

size_t contrast_axes(const struct layer_facts *layer)
{
    return layer->buckets.declared ? layer->buckets.declared->axes : plan_axis_count;
}

/* Returns the plan with the default's value on one axis. */
static struct moe_plan without_axis(const struct layer_facts *layer, struct moe_plan plan,
                                    size_t axis)
{
    const struct declaration *declared = layer->buckets.declared;
    struct moe_plan default_plan = plan_default(&layer->shape);

    if (declared) {
        plan.choice =
            declaration_with_value(declared, plan.choice, axis, declared->axis[axis].fallback);
        return plan;
    }
    plan_set(&plan, axis, plan_value(&default_plan, axis));
    return plan_canonical(plan, &layer->shape);
}

struct axis_worth contrast_axis(const struct layer_facts *layer, size_t axis)
{
    struct axis_worth worth = { .name = layer->buckets.declared
                                            ? layer->buckets.declared->axis[axis].name
                                            : plan_axes[axis].name };

    for (size_t i = 0; i < layer->entry_count; i++) {
        const struct entry_row *e = &layer->entries[i];
        struct moe_plan plan = without_axis(layer, e->plan, axis);
        struct step_time other = contrast_step(layer, e, &plan);

        if (e->inferred || plan_equal(&plan, &e->plan))
            continue;
        worth.buckets++;
        if (!other.measured || !(other.us > 0) || !(e->time_us > 0))
            continue;
        worth.timed++;
        worth.without += other.us / e->time_us - 1;
    }
    worth.without = worth.timed ? worth.without / worth.timed : NAN;
    return worth;
}

static int by_log_mean(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;

    if (a->log_mean != b->log_mean)
        return a->log_mean < b->log_mean ? -1 : 1;
    return plan_order(&a->plan, &b->plan);
}

static int rank_plans(const struct layer_facts *layer)
{
    struct contrasts *c = layer->contrasts;
    uint32_t buckets = contrast_measured_buckets(layer);

    c->ranked = calloc(layer->plan_count + 1, sizeof(*c->ranked));
    if (!c->ranked)
        return fail(ERR_NOMEM, "the order of %zu plans", layer->plan_count);
    for (size_t i = 0; i < layer->plan_count; i++) {
        struct improvement worth = contrast_static(layer, &layer->plans[i]);
        bool best_of_rounds =
            layer->has_standing && plan_equal(&layer->plans[i], &layer->standing.static_plan);

        if (best_of_rounds)
            worth.log_mean = -INFINITY;
        if (buckets && worth.buckets == buckets &&
            (best_of_rounds || 2 * worth.measured >= buckets))
            c->ranked[c->ranked_count++] = (struct ranked){ layer->plans[i], worth.log_mean };
    }
    qsort(c->ranked, c->ranked_count, sizeof(*c->ranked), by_log_mean);
    return OK;
}

const struct moe_plan *contrast_ranked(const struct layer_facts *layer, size_t place)
{
    const struct contrasts *c = layer->contrasts;

    return place < c->ranked_count ? &c->ranked[place].plan : NULL;
}

int contrast_prepare(struct layer_facts *layer)
{
    layer->contrasts = calloc(1, sizeof(*layer->contrasts));
    if (!layer->contrasts)
        return fail(ERR_NOMEM, "the plans of a layer");
    TRY(list_plans(layer, layer->contrasts));
    TRY(fill_steps(layer));
    return rank_plans(layer);
}

void contrast_free(struct layer_facts *layer)
{
    if (!layer->contrasts)
        return;
    free(layer->contrasts->plans);
    free(layer->contrasts->steps);
    free(layer->contrasts->ranked);
    free(layer->contrasts);
    layer->contrasts = NULL;
}

double contrast_single_step(const struct spread *steps)
{
    static const double two_sided = 1.96, p95 = 1.645; /* of a normal distribution, in deviations */

    if (steps->count < 2)
        return 1;
    return two_sided / p95 * (double)(steps->p95_ns - steps->median_ns) / (double)steps->median_ns;
}

struct hidden contrast_hidden(const struct trial_facts *trial, const struct step_time *step)
{
    double compute = (double)trial->row.compute_ns * 1e-3;
    double comm = (double)trial->row.comm_ns * 1e-3, shorter = fmin(compute, comm);
    double most_hidden = 1 - 1 / fmax(1, trial->row.key.plan.d);
    double slow_us = isfinite(step->high_us) ? step->high_us : step->us;
    double fast_us = isfinite(step->low_us) ? step->low_us : step->us;
    double halves_error =
        contrast_single_step(&trial->steps) * sqrt(compute * compute + comm * comm);
    struct hidden hidden = { (compute + comm - step->us) / shorter,
                             (compute + comm - slow_us - halves_error) / shorter,
                             (compute + comm - fast_us + halves_error) / shorter };

    if (!(compute > 0) || !(comm > 0) || !(step->us > 0) || hidden.high < 0 ||
        hidden.low > most_hidden)
        return (struct hidden){ NAN, NAN, NAN };
    return (struct hidden){ fmin(fmax(hidden.share, 0), most_hidden), fmax(hidden.low, 0),
                            fmin(hidden.high, most_hidden) };
}

/* ---- gain by traffic */

struct traffic_gain contrast_traffic(const struct layer_facts *layer)
{
    const struct traffic_layer *t = layer->traffic;
    struct traffic_gain g = { .lookups = t ? t->lost : 0, .gain = NAN };
    double saved_us = 0, default_us = 0;

    for (size_t i = 0; t && i < t->bucket_count; i++) {
        const struct entry_row *e = facts_entry(layer, t->buckets[i].bucket);
        uint64_t lookups =
            facts_has(layer, t->buckets[i].bucket) ? traffic_unpinned(&t->buckets[i]) : 0;

        g.lookups += lookups;
        if (!e || !isfinite(e->gain.value) || !(e->default_us > 0))
            continue;
        if (e->inferred)
            g.inferred += lookups;
        else
            g.measured += lookups;
        saved_us += (double)lookups * e->default_us * e->gain.value;
        default_us += (double)lookups * e->default_us;
    }
    if (default_us > 0)
        g.gain = saved_us / default_us;
    return g;
}
