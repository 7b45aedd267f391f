/* Ratios of step times, measured or between measured ones. */
#include "contrast.h"

#include "plan.h"

#include <math.h>
#include <stdlib.h>

static const struct step_time unknown = { NAN, NAN, NAN, 0, false };

static struct step_time from_spread(const struct spread *s)
{
    return (struct step_time){ (double)s->median_ns * 1e-3, (double)s->low_ns * 1e-3,
                               (double)s->high_ns * 1e-3, (uint32_t)s->count, true };
}

struct step_time contrast_default(const struct layer_facts *layer, const struct entry_row *entry)
{
    struct moe_plan standard = plan_default();
    const struct trial_facts *trial = facts_trial(layer, entry->bucket, &standard);
    struct step_time t = { entry->default_us, NAN, NAN, entry->samples, true };

    if (plan_equal(&entry->plan, &standard))
        return (struct step_time){ entry->time_us, entry->low_us, entry->high_us, entry->samples,
                                   true };
    if (!trial || !trial_usable(trial))
        return entry->default_us > 0 ? t : unknown;
    if (!trial->contest.count || !(entry->default_us > 0))
        return from_spread(&trial->steps);
    t.low_us = (double)trial->contest.low_ns * 1e-3;
    t.high_us = (double)trial->contest.high_ns * 1e-3;
    t.samples = (uint32_t)trial->contest.count;
    return t;
}

/* Timed there, or told by the entry. */
static struct step_time known_step(const struct layer_facts *layer, const struct entry_row *entry,
                                   const struct moe_plan *plan)
{
    struct moe_plan standard = plan_default();
    const struct trial_facts *trial;

    if (plan_equal(plan, &entry->plan))
        return (struct step_time){ entry->time_us, entry->low_us, entry->high_us, entry->samples,
                                   true };
    if (plan_equal(plan, &standard))
        return contrast_default(layer, entry);
    trial = facts_trial(layer, entry->bucket, plan);
    return trial && trial_usable(trial) ? from_spread(&trial->steps) : unknown;
}

/* log(time / time of the default plan), NAN where one of them is not known. */
static double log_ratio(const struct layer_facts *layer, const struct entry_row *entry,
                        const struct moe_plan *plan)
{
    if (entry->inferred)
        return NAN;
    return log(known_step(layer, entry, plan).us / contrast_default(layer, entry).us);
}

/* The nearest bucket from `entry` on in one direction where the plan's ratio is known. */
static const struct entry_row *nearest(const struct layer_facts *layer,
                                       const struct entry_row *entry, int direction,
                                       const struct moe_plan *plan, double *ratio)
{
    const struct entry_row *end = layer->entries + layer->entry_count;

    for (const struct entry_row *e = entry; e >= layer->entries && e < end; e += direction) {
        *ratio = log_ratio(layer, e, plan);
        if (isfinite(*ratio))
            return e;
        if (e == layer->entries && direction < 0)
            break;
    }
    return NULL;
}

static double interpolated_ratio(const struct layer_facts *layer, const struct entry_row *entry,
                                 const struct moe_plan *plan)
{
    double below, above, at;
    const struct entry_row *low = nearest(layer, entry, -1, plan, &below);
    const struct entry_row *high = nearest(layer, entry, 1, plan, &above);

    if (!low || !high)
        return low ? below : high ? above : NAN; /* held beyond the ends */
    at = log(((double)entry->capacity + 1) / ((double)low->capacity + 1)) /
         log(((double)high->capacity + 1) / ((double)low->capacity + 1));
    return below + at * (above - below);
}

struct step_time contrast_step(const struct layer_facts *layer, const struct entry_row *entry,
                               const struct moe_plan *plan)
{
    struct step_time t = known_step(layer, entry, plan);

    if (isfinite(t.us) || entry->inferred)
        return t;
    t.us = contrast_default(layer, entry).us * exp(interpolated_ratio(layer, entry, plan));
    return t;
}

uint32_t contrast_measured_buckets(const struct layer_facts *layer)
{
    uint32_t count = 0;

    for (size_t i = 0; i < layer->entry_count; i++)
        count += !layer->entries[i].inferred;
    return count;
}

static void compare_bucket(const struct layer_facts *layer, const struct entry_row *entry,
                           const struct moe_plan *plan, struct improvement *sum)
{
    struct step_time t = contrast_step(layer, entry, plan);
    double ratio = t.us / entry->time_us;

    if (!isfinite(ratio) || ratio <= 0)
        return;
    sum->buckets++;
    sum->measured += t.measured;
    sum->mean += ratio - 1;
    sum->log_mean += log(ratio);
    sum->worst = fmax(sum->worst, ratio - 1);
}

struct improvement contrast_static(const struct layer_facts *layer, const struct moe_plan *plan)
{
    struct improvement sum = { .worst = -INFINITY };

    for (size_t i = 0; i < layer->entry_count; i++)
        if (!layer->entries[i].inferred)
            compare_bucket(layer, &layer->entries[i], plan, &sum);
    if (!sum.buckets)
        return (struct improvement){ .mean = NAN, .worst = NAN, .log_mean = NAN };
    sum.mean /= sum.buckets;
    sum.log_mean /= sum.buckets;
    return sum;
}

struct ranked {
    struct moe_plan plan;
    double log_mean;
};

static int by_mean(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;

    if (a->log_mean != b->log_mean)
        return a->log_mean < b->log_mean ? -1 : 1;
    return plan_order(&a->plan, &b->plan);
}

void contrast_rank(const struct layer_facts *layer, struct moe_plan *plans, size_t *count)
{
    struct ranked *ranked = calloc(layer->plan_count + 1, sizeof(*ranked));
    uint32_t buckets = contrast_measured_buckets(layer);

    *count = 0;
    for (size_t i = 0; i < layer->plan_count && ranked; i++) {
        struct improvement one = contrast_static(layer, &layer->plans[i]);

        if (buckets && one.buckets == buckets)
            ranked[(*count)++] = (struct ranked){ layer->plans[i], one.log_mean };
    }
    if (*count)
        qsort(ranked, *count, sizeof(*ranked), by_mean);
    for (size_t i = 0; i < *count; i++)
        plans[i] = ranked[i].plan;
    free(ranked);
}

double contrast_hidden(const struct trial_facts *trial, double step_us)
{
    double compute = (double)trial->row.compute_ns * 1e-3;
    double comm = (double)trial->row.comm_ns * 1e-3;

    if (!(compute > 0) || !(comm > 0) || !(step_us > 0))
        return NAN;
    return (compute + comm - step_us) / fmin(compute, comm);
}
