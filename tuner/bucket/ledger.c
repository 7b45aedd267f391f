/* Writes the row of a trial before and after its steps, and decides whether its plan may still be
 * tried. */
#include "ledger.h"

#include "pairs.h"
#include "plan.h"
#include "status.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A trial whose first step was cut off so many times counts as one that kills its ranks. */
enum { ATTEMPTS_MAX = 3 };

int ledger_recall(struct store *store, struct attempt *a, const struct trial_row *known)
{
    a->trial = *known;
    if (known->state == TRIAL_RUNNING && known->attempts >= ATTEMPTS_MAX) {
        a->trial.state = TRIAL_CRASHED;
        snprintf(a->trial.message, sizeof(a->trial.message),
                 "cut off %u times before its first step was timed", known->attempts);
        TRY(store_trial_update(store, &a->trial));
    }
    a->usable = a->trial.state == TRIAL_RUNNING || a->trial.state == TRIAL_OK ||
                a->trial.state == TRIAL_RULED_OUT;
    return OK;
}

int ledger_begin(struct store *store, int64_t run, struct attempt *a, bool harmless)
{
    struct trial_row *trial = &a->trial;

    if (a->begun)
        return OK;
    a->begun = true;
    if (trial->id && trial->state == TRIAL_OK)
        return OK;
    trial->run = run;
    trial->state = TRIAL_RUNNING;
    TRY(store_trial_begin(store, trial));
    return harmless ? OK : store_commit(store);
}

bool ledger_may_repeat(struct attempt *a, enum trial_state state)
{
    return state == TRIAL_CRASHED && a->kills++ == 0;
}

int ledger_undo_begin(struct store *store, struct attempt *a)
{
    if (a->trial.state != TRIAL_RUNNING || !a->trial.attempts)
        return OK;
    a->trial.attempts--;
    return store_trial_update(store, &a->trial);
}

int ledger_memory(struct store *store, struct attempt *a, int64_t bytes)
{
    if (bytes <= a->trial.memory_bytes)
        return OK;
    a->trial.memory_bytes = bytes;
    /* The row of a running trial is written when the trial ends. */
    return a->trial.state == TRIAL_OK && a->trial.id ? store_trial_update(store, &a->trial) : OK;
}

int ledger_end(struct store *store, struct attempt *a, enum trial_state state, const char *message)
{
    bool has_changed = a->trial.state != state;

    a->trial.state = state;
    if (state != TRIAL_OK) {
        text_put(a->trial.message, sizeof(a->trial.message), "%s", message);
        a->usable = false;
    }
    return has_changed ? store_trial_update(store, &a->trial) : OK;
}

bool ledger_counts(struct attempt *a, const struct sample_row *sample)
{
    a->throttled += sample->gpu.throttled == SAMPLE_DISTURBED;
    return sample->gpu.throttled != SAMPLE_SET_ASIDE;
}

int ledger_sample(struct store *store, struct attempt *a, const struct sample_row *sample,
                  bool *counts)
{
    if (counts)
        *counts = ledger_counts(a, sample);
    return store_sample_add(store, a->trial.id, sample);
}

/* The mean of two gains, weighted by their 95 % intervals; NAN if one of them has no interval. */
static struct gain gain_together(const struct gain *a, const struct gain *b)
{
    static const double two_sided = 1.96;
    const struct gain *gains[] = { a, b };
    double precision = 0, sum = 0, mean, width;

    for (int i = 0; i < 2; i++) {
        double sd = (log1p(-gains[i]->low) - log1p(-gains[i]->high)) / (2 * two_sided);

        precision += 1 / (sd * sd);
        sum += log1p(-gains[i]->value) / (sd * sd);
    }
    mean = sum / precision;
    width = two_sided / sqrt(precision);
    return (struct gain){ 0 - expm1(mean), 0 - expm1(mean + width), 0 - expm1(mean - width) };
}

/* Replaces an entry's plan, which does not gain, by the default plan. */
static void use_default(const struct moe_shape *shape, struct entry_row *e)
{
    e->plan = plan_default(shape);
    e->time_us = e->default_us;
    e->low_us = e->high_us = e->bound = NAN;
    e->gain = (struct gain){ 0, 0, 0 };
    e->other = (struct moe_plan){ 0 };
    e->other_us = 0;
    e->no_other = e->inferred = false;
    snprintf(e->decision, sizeof(e->decision), "default");
}

void ledger_weigh(const struct moe_shape *shape, const struct entry_row *claim, struct entry_row *e)
{
    bool claims = !strcmp(e->decision, "adopted") || !strcmp(e->decision, "likely");
    double ratio;

    if (plan_is_default(&e->plan, shape))
        return;
    /* This measurement does not show that the plan is faster, nor that it is slower. */
    if (claims && !(e->gain.value > pairs_least))
        snprintf(e->decision, sizeof(e->decision), "incumbent");
    if (isnan(e->gain.value)) /* the default cannot run */
        return;
    if (!(e->gain.value > pairs_least) && !entry_is(claim, ENTRY_OPEN))
        e->gain = gain_together(&claim->gain, &e->gain);
    if (!(e->gain.value > pairs_least)) {
        use_default(shape, e);
        return;
    }
    ratio = e->default_us * (1 - e->gain.value) / e->time_us;
    e->time_us = e->default_us * (1 - e->gain.value);
    e->low_us *= ratio;
    e->high_us *= ratio;
    e->other_us = ratio > 0 && isfinite(ratio) ? e->other_us * ratio : e->other_us;
}

int ledger_confirm(struct store *store, struct entry_row *e)
{
    e->stale = false;
    if (e->tier == TIER_IMPORTED)
        e->tier = TIER_VERIFIED;
    return store_entry_put(store, e, "verify");
}

int ledger_refute(struct store *store, struct entry_row *e, struct moe_plan left, const char *why)
{
    e->plan = left;
    e->bound = NAN; /* the belief behind it was wrong */
    e->other = (struct moe_plan){ 0 };
    e->other_us = 0;
    e->no_other = false;
    e->inferred = false;
    e->stale = true;
    e->tier = TIER_LOCAL; /* otherwise another import would bring the refuted plan back */
    snprintf(e->decision, sizeof(e->decision), "refuted");
    TRY(store_entry_put(store, e, why));
    /* The samples that led `tune` to the plan must not lead it there again. */
    TRY(store_forget(store, e->cluster, e->shape, e->window, e->bucket, SAMPLE_SEARCH,
                     SAMPLE_CONTEST));
    return store_forget(store, e->cluster, e->shape, e->window, e->bucket, SAMPLE_ROUNDS,
                        SAMPLE_ROUNDS);
}
