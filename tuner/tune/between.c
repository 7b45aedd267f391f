/* Makes the entry of a bucket between two measured ones from what is known on both sides. */
#include "between.h"

#include "bucket.h"
#include "pairs.h"
#include "plan.h"
#include "status.h"

#include <math.h>

static bool fits(struct sweep *sweep, uint32_t bucket, int arm)
{
    return arm >= 0 && layer_plans_fits(sweep->space, arm, bucket);
}

/* The side with another plan, where the other side has the default.  NULL: both or neither have it.
 */
static const struct entry_row *only_other(struct sweep *sweep, const struct entry_row *low,
                                          const struct entry_row *high)
{
    int default_arm = sweep->space->default_arm;
    bool low_default = layer_plans_arm(sweep->space, &low->plan) == default_arm;
    bool high_default = layer_plans_arm(sweep->space, &high->plan) == default_arm;

    if (default_arm < 0 || low_default == high_default)
        return NULL;
    return low_default ? high : low;
}

/* Times on a log-log line between two measured buckets, where there is no model. */
static double on_line_us(const struct entry_row *low, const struct entry_row *high,
                         uint64_t capacity, double low_us, double high_us)
{
    double at = log((double)capacity / (double)low->capacity) /
                log((double)high->capacity / (double)low->capacity);

    return exp(log(low_us) + at * (log(high_us) - log(low_us)));
}

/* How far a gain lies from the line between its neighbours': it bends, and both were measured. */
static double off_the_line(const struct entry_row *low, const struct entry_row *high)
{
    static const double measured = 0.02, bend = 0.25;
    bool exact = !(low->gain.high > low->gain.low) && !(high->gain.high > high->gain.low);

    return hypot(exact ? 0 : measured, bend * (log1p(-low->gain.value) - log1p(-high->gain.value)));
}

/* What the plan saves is claimed where it was measured on both sides. */
static struct gain gain_between(const struct entry_row *low, const struct entry_row *high,
                                const struct entry_row *e)
{
    double at = log((double)e->capacity / (double)low->capacity) /
                log((double)high->capacity / (double)low->capacity);
    double mean, below, above;

    if (!plan_equal(&low->plan, &e->plan) || !plan_equal(&high->plan, &e->plan))
        return (struct gain)GAIN_UNKNOWN;
    mean = (1 - at) * log1p(-low->gain.value) + at * log1p(-high->gain.value);
    below = (1 - at) * log1p(-low->gain.high) + at * log1p(-high->gain.high);
    above = (1 - at) * log1p(-low->gain.low) + at * log1p(-high->gain.low);
    if (!isfinite(mean) || !isfinite(below) || !isfinite(above))
        return (struct gain)GAIN_UNKNOWN;
    below = mean - hypot(mean - below, 1.96 * off_the_line(low, high));
    above = mean + hypot(above - mean, 1.96 * off_the_line(low, high));
    return (struct gain){ 0 - expm1(mean), 0 - expm1(above), 0 - expm1(below) };
}

/* What the best plan of the other kind than `plan` takes there; 0: not known. */
static double other_us(const struct entry_row *e, const struct moe_plan *plan)
{
    return plan_other_kind(&e->plan, plan) ? e->time_us : e->other_us;
}

/* What the best plan of the other kind takes: by the model, if one side at least knows such a plan;
 * where the model has none, on the line between both sides. */
static void infer_other(struct sweep *sweep, const struct entry_row *low,
                        const struct entry_row *high, const bool *usable, struct entry_row *out)
{
    const struct entry_row *near = (double)out->capacity * (double)out->capacity <
                                           (double)low->capacity * (double)high->capacity
                                       ? low
                                       : high;
    const struct moe_plan *plan =
        plan_other_kind(&near->plan, &out->plan) ? &near->plan : &near->other;
    bool none = low->no_other && high->no_other;
    bool below = other_us(low, &out->plan) > 0, above = other_us(high, &out->plan) > 0;

    if (!none && !below && !above)
        return;
    dictionary_infer_other(&sweep->dictionary, usable, out);
    if (out->no_other || out->other_us > 0 || !below || !above ||
        !fits(sweep, out->bucket, layer_plans_arm(sweep->space, plan)))
        return;
    out->other = *plan;
    out->other_us =
        on_line_us(low, high, out->capacity, other_us(low, &out->plan), other_us(high, &out->plan));
}

/* Where the default stands in all buckets between. */
static uint32_t turn_of_default(const struct entry_row *low, const struct entry_row *high,
                                const struct entry_row *other_side)
{
    return other_side == high ? high->bucket : low->bucket + 1;
}

static uint32_t expected_turn(struct sweep *sweep, const struct entry_row *low,
                              const struct entry_row *high)
{
    const struct dictionary *d = &sweep->dictionary;
    int low_arm = layer_plans_arm(sweep->space, &low->plan);
    int high_arm = layer_plans_arm(sweep->space, &high->plan);
    double middle = (double)low->capacity * (double)high->capacity;
    double lost = 0, least = 0; /* by the lower side's plan up to here, as logarithms */
    uint32_t turn = low->bucket + 1, nearer = turn;
    bool modelled = false;

    for (uint32_t b = low->bucket + 1; b < high->bucket && low_arm != high_arm; b++) {
        double place = (double)layer_plans_capacity(sweep->space, b), longer;

        nearer = place * place < middle ? b + 1 : nearer;
        if (!fits(sweep, b, low_arm) || !fits(sweep, b, high_arm))
            continue; /* there is no choice there */
        longer =
            log(dictionary_expected_us(d, b, low_arm) / dictionary_expected_us(d, b, high_arm));
        if (!isfinite(longer))
            continue;
        modelled = true;
        lost += longer;
        if (lost <= least) {
            least = lost;
            turn = b + 1;
        }
    }
    return modelled ? turn : nearer; /* where there is no model, the nearer side */
}

/* Whether the default stands on that side for want of proof alone: of the fresh pairs that were
 * taken there, which no search chose, the greater part says that the plan saves more than a little.
 */
static int seems_faster(struct sweep *sweep, const struct entry_row *side,
                        const struct moe_plan *plan, bool *faster)
{
    static const double little = 0.01;
    int arms[2] = { layer_plans_arm(sweep->space, plan), sweep->space->default_arm };
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
    *faster = pairs >= 2 * PAIRS_LEAST && median_of(log_ns[0], pairs) < -little;
    return rc;
}

int between_turn(struct sweep *sweep, const struct entry_row *low, const struct entry_row *high,
                 uint32_t *turn)
{
    const struct entry_row *other_side = only_other(sweep, low, high);
    bool faster = true;

    /* Where the default's advantage ends the model guesses, and a jump is none of its curves. */
    if (other_side)
        TRY(seems_faster(sweep, other_side == low ? high : low, &other_side->plan, &faster));
    *turn = faster ? expected_turn(sweep, low, high) : turn_of_default(low, high, other_side);
    return OK;
}

static void infer_arm(struct sweep *sweep, const struct entry_row *low,
                      const struct entry_row *high, uint32_t bucket, int arm, const bool *usable,
                      struct entry_row *out)
{
    int default_arm = sweep->space->default_arm;

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
                   uint32_t turn, uint32_t bucket, struct entry_row *out)
{
    int low_arm = layer_plans_arm(sweep->space, &low->plan);
    int high_arm = layer_plans_arm(sweep->space, &high->plan);
    int default_arm = sweep->space->default_arm;
    int arm = high_arm;
    bool usable[SEARCH_ARMS_MAX];

    if (fits(sweep, bucket, low_arm) && (bucket < turn || !fits(sweep, bucket, high_arm)))
        arm = low_arm;
    for (int i = 0; i < (int)sweep->space->arm_count; i++)
        usable[i] = fits(sweep, bucket, i);
    if (!fits(sweep, bucket, arm)) /* a plan of another launch than the sides' is none */
        arm = sweep->whole ? -1 : default_arm;
    if (arm < 0)
        return false;
    infer_arm(sweep, low, high, bucket, arm, usable, out);
    /* No plan is told where it is expected to be no faster than the default. */
    if (sweep->whole)
        visit_claim_nothing(sweep, out);
    else if (entry_fault(out, &sweep->space->shape, NULL))
        infer_arm(sweep, low, high, bucket, default_arm, usable, out);
    if (isnan(out->bound))
        out->bound = fmax(low->bound, high->bound);
    infer_other(sweep, low, high, usable, out);
    return true;
}

/* How much it helps to measure a bucket.  Where the default stands because one side has it, what is
 * measured answers for all buckets from there to the other side, too. */
static double help_of(const struct entry_row *other_side, const struct entry_row *e)
{
    if (!other_side)
        return e->bound;
    return e->bound * fabs(log((double)other_side->capacity / (double)e->capacity));
}

bool between_doubtful(struct sweep *sweep, const struct entry_row *low,
                      const struct entry_row *high, uint32_t turn, uint32_t *bucket)
{
    const struct entry_row *other_side = only_other(sweep, low, high);
    double allowed = sweep->request->effort->refine_above, most = 0;

    if (allowed <= 0 || plan_equal(&low->plan, &high->plan))
        return false;
    if (other_side && turn != turn_of_default(low, high, other_side))
        other_side = NULL;
    allowed = fmax(allowed, 1.5 * fmax(low->bound, high->bound));
    for (uint32_t b = low->bucket + 1; b < high->bucket; b++) {
        struct entry_row entry;

        if (between_infer(sweep, low, high, turn, b, &entry) && entry.bound > allowed &&
            help_of(other_side, &entry) > most) {
            most = help_of(other_side, &entry);
            *bucket = b;
        }
    }
    return most > 0;
}
