/* Inference from both sides. */
#include "between.h"

#include "plan.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

double between_expected_us(struct sweep *sweep, uint32_t bucket, const struct moe_plan *plan)
{
    int arm = space_arm(sweep->space, plan);

    return arm < 0
               ? NAN
               : search_estimate(sweep->search, space_capacity(sweep->space, bucket), arm) * 1e-3;
}

static bool fits(struct sweep *sweep, uint32_t bucket, int arm)
{
    return arm >= 0 && space_bytes(sweep->space, arm, bucket) <= sweep->space->memory_limit_bytes;
}

static bool plan_fits(struct sweep *sweep, uint32_t bucket, const struct moe_plan *plan)
{
    return fits(sweep, bucket, space_arm(sweep->space, plan));
}

/* Times on a log-log line between two measured buckets, where there is no model. */
static double on_line_us(const struct entry_row *low, const struct entry_row *high,
                         uint64_t capacity, double low_us, double high_us)
{
    double at = log((double)capacity / (double)low->capacity) /
                log((double)high->capacity / (double)low->capacity);

    return exp(log(low_us) + at * (log(high_us) - log(low_us)));
}

/* The faster side by the model; the nearer one where there is none. */
static const struct entry_row *choose(struct sweep *sweep, const struct entry_row *low,
                                      const struct entry_row *high, uint32_t bucket)
{
    double place = (double)space_capacity(sweep->space, bucket);
    double low_us = between_expected_us(sweep, bucket, &low->plan);
    double high_us = between_expected_us(sweep, bucket, &high->plan);
    bool nearer_low = place * place < (double)low->capacity * (double)high->capacity;
    bool take_low = isnan(low_us) || isnan(high_us) ? nearer_low : low_us <= high_us;

    if (!plan_fits(sweep, bucket, &low->plan))
        return high;
    return take_low || !plan_fits(sweep, bucket, &high->plan) ? low : high;
}

static double bound_of(struct sweep *sweep, const struct entry_row *low,
                       const struct entry_row *high, struct entry_row *entry)
{
    struct search_verdict verdict;
    bool usable[SEARCH_ARMS_MAX];
    double best_us;

    for (int arm = 0; arm < (int)sweep->space->arm_count; arm++)
        usable[arm] = fits(sweep, entry->bucket, arm);
    if (!search_infer(sweep->search, entry->capacity, usable, &verdict) || verdict.winner < 0)
        return fmax(low->bound, high->bound);
    entry->search_winner = sweep->space->arms[verdict.winner];
    best_us = between_expected_us(sweep, entry->bucket, &entry->search_winner);
    return verdict.bound + fmax(0, entry->time_us / best_us - 1);
}

void between_infer(struct sweep *sweep, const struct entry_row *low, const struct entry_row *high,
                   uint32_t bucket, struct entry_row *out)
{
    const struct moe_plan *standard = &sweep->space->arms[sweep->space->default_arm];
    struct entry_row e = *choose(sweep, low, high, bucket);

    if (!plan_fits(sweep, bucket, &e.plan))
        e.plan = *standard;
    e.run = sweep->setup->campaign->run.id;
    e.bucket = bucket;
    e.capacity = space_capacity(sweep->space, bucket);
    e.inferred = true;
    e.stale = false;
    e.samples = e.throttled = 0;
    e.time_us = between_expected_us(sweep, bucket, &e.plan);
    e.default_us = between_expected_us(sweep, bucket, standard);
    if (isnan(e.time_us)) {
        e.time_us = on_line_us(low, high, e.capacity, low->time_us, high->time_us);
        e.default_us = on_line_us(low, high, e.capacity, low->default_us, high->default_us);
    }
    e.low_us = e.high_us = NAN;
    e.gain = 1 - e.time_us / e.default_us;
    e.gain_low = e.gain_high = NAN;
    e.bound = bound_of(sweep, low, high, &e);
    snprintf(e.decision, sizeof(e.decision), "inferred");
    snprintf(e.reason, sizeof(e.reason), "inferred");
    snprintf(e.effort, sizeof(e.effort), "%s", sweep->setup->effort->name);
    e.decided_s = time(NULL);
    *out = e;
}

bool between_doubtful(struct sweep *sweep, const struct entry_row *low,
                      const struct entry_row *high, uint32_t *bucket)
{
    double allowed = sweep->setup->effort->refine_above, worst;
    bool found = false;

    if (allowed <= 0 || plan_equal(&low->plan, &high->plan))
        return false;
    worst = fmax(allowed, 1.5 * fmax(low->bound, high->bound));
    for (uint32_t b = low->bucket + 1; b < high->bucket; b++) {
        struct entry_row entry;

        between_infer(sweep, low, high, b, &entry);
        if (entry.bound > worst) {
            worst = entry.bound;
            *bucket = b;
            found = true;
        }
    }
    return found;
}
