/* Infers the entry of a bucket between two measured ones from both of them and the search's model.
 */
#include "between.h"

#include "bucket.h"
#include "pairs.h"
#include "plan.h"
#include "status.h"

#include <math.h>

static bool fits(struct sweep *sweep, uint32_t bucket, int arm)
{
    return arm >= 0 && layer_plans_fits(sweep->plans, arm, bucket);
}

/* If exactly one side has the default plan, the other side; else NULL. */
static const struct entry_row *
side_without_default(struct sweep *sweep, const struct entry_row *low, const struct entry_row *high)
{
    int default_arm = sweep->plans->default_arm;
    bool low_default = layer_plans_arm(sweep->plans, &low->plan) == default_arm;
    bool high_default = layer_plans_arm(sweep->plans, &high->plan) == default_arm;

    if (default_arm < 0 || low_default == high_default)
        return NULL;
    return low_default ? high : low;
}

/* A time on the log-log line between two measured buckets, for searches without a model. */
static double on_line_us(const struct entry_row *low, const struct entry_row *high,
                         uint64_t capacity, double low_us, double high_us)
{
    double share = log((double)capacity / (double)low->capacity) /
                   log((double)high->capacity / (double)low->capacity);

    return exp(log(low_us) + share * (log(high_us) - log(low_us)));
}

/* The standard deviation of a gain's distance from the line between its neighbours.  The true gain
 * is not a line, and both neighbours have errors. */
static double off_the_line(const struct entry_row *low, const struct entry_row *high)
{
    static const double measured = 0.02, bend = 0.25;
    bool exact = !(low->gain.high > low->gain.low) && !(high->gain.high > high->gain.low);

    return hypot(exact ? 0 : measured, bend * (log1p(-low->gain.value) - log1p(-high->gain.value)));
}

/* The gain of an inferred entry, on the line between log ratios; unknown unless its plan was
 * measured on both sides. */
static struct gain gain_between(const struct entry_row *low, const struct entry_row *high,
                                const struct entry_row *e)
{
    double share = log((double)e->capacity / (double)low->capacity) /
                   log((double)high->capacity / (double)low->capacity);
    double mean, below, above;

    if (!plan_equal(&low->plan, &e->plan) || !plan_equal(&high->plan, &e->plan))
        return (struct gain)GAIN_UNKNOWN;
    mean = (1 - share) * log1p(-low->gain.value) + share * log1p(-high->gain.value);
    below = (1 - share) * log1p(-low->gain.high) + share * log1p(-high->gain.high);
    above = (1 - share) * log1p(-low->gain.low) + share * log1p(-high->gain.low);
    if (!isfinite(mean) || !isfinite(below) || !isfinite(above))
        return (struct gain)GAIN_UNKNOWN;
    below = mean - hypot(mean - below, 1.96 * off_the_line(low, high));
    above = mean + hypot(above - mean, 1.96 * off_the_line(low, high));
    return (struct gain){ 0 - expm1(mean), 0 - expm1(above), 0 - expm1(below) };
}

/* The time of the best plan of the other kind than `plan` (struct entry_row, `other`); 0: unknown.
 */
static double other_us(const struct entry_row *e, const struct moe_plan *plan)
{
    return plan_other_kind(&e->plan, plan) ? e->time_us : e->other_us;
}

/* Adds the best plan of the other kind to an entry, if one side at least has such a plan: by the
 * model, or without a model on the line between both sides. */
static void infer_other(struct sweep *sweep, const struct entry_row *low,
                        const struct entry_row *high, const bool *usable, struct entry_row *out)
{
    const struct entry_row *nearer_side = (double)out->capacity * (double)out->capacity <
                                                  (double)low->capacity * (double)high->capacity
                                              ? low
                                              : high;
    const struct moe_plan *plan =
        plan_other_kind(&nearer_side->plan, &out->plan) ? &nearer_side->plan : &nearer_side->other;
    bool neither_can = low->no_other && high->no_other;
    bool low_has = other_us(low, &out->plan) > 0, high_has = other_us(high, &out->plan) > 0;

    if (!neither_can && !low_has && !high_has)
        return;
    dictionary_infer_other(&sweep->dictionary, usable, out);
    if (out->no_other || out->other_us > 0 || !low_has || !high_has ||
        !fits(sweep, out->bucket, layer_plans_arm(sweep->plans, plan)))
        return;
    out->other = *plan;
    out->other_us =
        on_line_us(low, high, out->capacity, other_us(low, &out->plan), other_us(high, &out->plan));
}

/* The switch with which all buckets between get the default. */
static uint32_t switch_of_default(const struct entry_row *low, const struct entry_row *high,
                                  const struct entry_row *other_side)
{
    return other_side == high ? high->bucket : low->bucket + 1;
}

/* The switch with the least total time by the model; without a model the middle. */
static uint32_t expected_switch(struct sweep *sweep, const struct entry_row *low,
                                const struct entry_row *high)
{
    const struct dictionary *d = &sweep->dictionary;
    int low_arm = layer_plans_arm(sweep->plans, &low->plan);
    int high_arm = layer_plans_arm(sweep->plans, &high->plan);
    double middle = (double)low->capacity * (double)high->capacity;
    double sum = 0, least_sum = 0; /* of the log ratios of the low side's time to the high side's */
    uint32_t first_high = low->bucket + 1, nearer = first_high;
    bool modelled = false;

    for (uint32_t b = low->bucket + 1; b < high->bucket && low_arm != high_arm; b++) {
        double capacity = (double)layer_plans_capacity(sweep->plans, b), log_ratio;

        nearer = capacity * capacity < middle ? b + 1 : nearer;
        if (!fits(sweep, b, low_arm) || !fits(sweep, b, high_arm))
            continue; /* only one of the two plans can run there */
        log_ratio =
            log(dictionary_expected_us(d, b, low_arm) / dictionary_expected_us(d, b, high_arm));
        if (!isfinite(log_ratio))
            continue;
        modelled = true;
        sum += log_ratio;
        if (sum <= least_sum) {
            least_sum = sum;
            first_high = b + 1;
        }
    }
    return modelled ? first_high : nearer;
}

/* Whether a plan is measured faster on a side that has the default only for lack of a proof: the
 * median of its fresh pairs there is below -1 %. */
static int seems_faster(struct sweep *sweep, const struct entry_row *side,
                        const struct moe_plan *plan, bool *faster)
{
    static const double least_gain = 0.01;
    int arms[2] = { layer_plans_arm(sweep->plans, plan), sweep->plans->default_arm };
    uint32_t counts[2] = { 0 }, pairs;
    double log_ns[2][PAIRS_MAX];
    struct bucket b;
    int rc;

    bucket_init(&b, &sweep->dictionary, side->bucket);
    rc = bucket_load(&b);
    for (uint32_t i = 0; i < b.sample_count && !rc; i++)
        for (int k = 0; k < 2; k++)
            if (b.samples[i].arm == arms[k] && b.samples[i].kind != SAMPLE_SEARCH &&
                counts[k] < PAIRS_MAX)
                log_ns[k][counts[k]++] = log((double)b.samples[i].ns);
    bucket_forget(&b);
    pairs = counts[0] < counts[1] ? counts[0] : counts[1];
    for (uint32_t i = 0; i < pairs; i++)
        log_ns[0][i] -= log_ns[1][i];
    *faster = pairs >= 2 * PAIRS_LEAST && median_of(log_ns[0], pairs) < -least_gain;
    return rc;
}

int between_find_switch(struct sweep *sweep, const struct entry_row *low,
                        const struct entry_row *high, uint32_t *first_high)
{
    const struct entry_row *other_side = side_without_default(sweep, low, high);
    bool faster = true;

    /* The model cannot say where the default stops being better: it is smooth, and this may be a
     * jump. */
    if (other_side)
        TRY(seems_faster(sweep, other_side == low ? high : low, &other_side->plan, &faster));
    *first_high =
        faster ? expected_switch(sweep, low, high) : switch_of_default(low, high, other_side);
    return OK;
}

static void infer_arm(struct sweep *sweep, const struct entry_row *low,
                      const struct entry_row *high, uint32_t bucket, int arm, const bool *usable,
                      struct entry_row *out)
{
    int default_arm = sweep->plans->default_arm;

    dictionary_infer(&sweep->dictionary, bucket, arm, usable, out);
    if (isnan(out->time_us)) {
        out->time_us = on_line_us(low, high, out->capacity, low->time_us, high->time_us);
        out->default_us = on_line_us(low, high, out->capacity, low->default_us, high->default_us);
    }
    if (default_arm < 0 || !usable[default_arm])
        out->default_us = NAN; /* it cannot run there */
    if (arm == default_arm)
        out->gain = (struct gain){ 0, 0, 0 };
    else
        out->gain = gain_between(low, high, out);
    if (isfinite(out->gain.value) && out->default_us > 0)
        out->time_us = out->default_us * (1 - out->gain.value);
}

bool between_infer(struct sweep *sweep, const struct entry_row *low, const struct entry_row *high,
                   uint32_t first_high, uint32_t bucket, struct entry_row *out)
{
    int low_arm = layer_plans_arm(sweep->plans, &low->plan);
    int high_arm = layer_plans_arm(sweep->plans, &high->plan);
    int default_arm = sweep->plans->default_arm;
    int arm = high_arm;
    bool usable[SEARCH_ARMS_MAX];

    if (fits(sweep, bucket, low_arm) && (bucket < first_high || !fits(sweep, bucket, high_arm)))
        arm = low_arm;
    for (int i = 0; i < (int)sweep->plans->arm_count; i++)
        usable[i] = fits(sweep, bucket, i);
    if (!fits(sweep, bucket, arm)) /* the default may have other launch values */
        arm = sweep->has_chosen_values ? -1 : default_arm;
    if (arm < 0)
        return false;
    infer_arm(sweep, low, high, bucket, arm, usable, out);
    /* A plan that is not expected to be faster than the default gives way to it. */
    if (sweep->has_chosen_values)
        sweep_claim_nothing(sweep, out);
    else if (entry_fault(out, &sweep->plans->shape, NULL))
        infer_arm(sweep, low, high, bucket, default_arm, usable, out);
    if (isnan(out->bound))
        out->bound = fmax(low->bound, high->bound);
    infer_other(sweep, low, high, usable, out);
    return true;
}

/* How much it helps to measure a bucket.  If all buckets between have the default because one side
 * does, a measured bucket also decides those from there to the other side. */
static double help_of(const struct entry_row *other_side, const struct entry_row *e)
{
    if (!other_side)
        return e->bound;
    return e->bound * fabs(log((double)other_side->capacity / (double)e->capacity));
}

bool between_doubtful(struct sweep *sweep, const struct entry_row *low,
                      const struct entry_row *high, uint32_t first_high, uint32_t *bucket)
{
    const struct entry_row *other_side = side_without_default(sweep, low, high);
    double allowed = sweep->request->effort->refine_above, most = 0;

    if (allowed <= 0 || plan_equal(&low->plan, &high->plan))
        return false;
    if (other_side && first_high != switch_of_default(low, high, other_side))
        other_side = NULL;
    allowed = fmax(allowed, 1.5 * fmax(low->bound, high->bound));
    for (uint32_t b = low->bucket + 1; b < high->bucket; b++) {
        struct entry_row entry;

        if (between_infer(sweep, low, high, first_high, b, &entry) && entry.bound > allowed &&
            help_of(other_side, &entry) > most) {
            most = help_of(other_side, &entry);
            *bucket = b;
        }
    }
    return most > 0;
}
