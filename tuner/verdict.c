/* Recall, contest, judgement. */
#include "verdict.h"

#include "attempt.h"
#include "entry.h"
#include "plan.h"
#include "space.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct hearing {
    struct campaign *campaign;
    const struct verdict_terms *terms;
    struct verdict *verdict;
    struct attempt claimed, standard;
    bool resumed;               /* one of the two was begun by a run that is gone on with */
    struct attempt *present[2]; /* in the contest */
    int count;
    struct contest contest;
};

static bool claims_default(const struct hearing *h)
{
    return plan_equal(&h->claimed.trial.key.plan, &h->standard.trial.key.plan);
}

static struct attempt new_attempt(const struct entry_row *claim, struct moe_plan plan)
{
    return (struct attempt){ .trial = { .key = { .cluster = claim->cluster,
                                                 .shape = claim->shape,
                                                 .window = claim->window,
                                                 .bucket = claim->bucket,
                                                 .plan = plan },
                                        .capacity = claim->capacity },
                             .usable = true };
}

/* ---- what is known */

static struct attempt *attempt_of(struct hearing *h, const struct moe_plan *plan)
{
    if (plan_equal(plan, &h->claimed.trial.key.plan))
        return &h->claimed;
    return plan_equal(plan, &h->standard.trial.key.plan) ? &h->standard : NULL;
}

/* Whatever became of a plan in the past, it gets another chance: conditions may have changed, and
 * that is the question. */
static int recall_trial(void *self, const struct trial_row *trial)
{
    struct hearing *h = self;
    struct attempt *a = attempt_of(h, &trial->key.plan);

    if (!a)
        return OK;
    if (trial->run >= h->terms->first_run) {
        h->resumed = true;
        return ledger_recall(h->campaign->store, a, trial);
    }
    a->trial = *trial;
    a->trial.state = TRIAL_RUNNING;
    a->trial.attempts = 0;
    a->trial.message[0] = 0;
    return OK;
}

static int check_memory(struct hearing *h, struct attempt *a)
{
    int64_t bytes, limit = h->terms->memory_limit_bytes;

    if (!a->usable)
        return OK;
    bytes = space_plan_bytes(&h->verdict->shape, &a->trial.key.plan, a->trial.capacity,
                             h->terms->computes_f32);
    return bytes > limit ? attempt_rule_out(h->campaign, a, bytes, limit) : OK;
}

/* A plan that this layer does not know cannot even be tried. */
static int check(struct hearing *h)
{
    if (!h->claimed.trial.key.plan.struct_size ||
        !plan_legal(&h->claimed.trial.key.plan, &h->verdict->shape)) {
        h->claimed.usable = false;
        h->claimed.trial.state = TRIAL_FAILED;
        snprintf(h->claimed.trial.message, sizeof(h->claimed.trial.message),
                 "it is no plan of this layer");
    }
    TRY(check_memory(h, &h->claimed));
    return claims_default(h) ? OK : check_memory(h, &h->standard);
}

static int recall(struct hearing *h)
{
    const struct entry_row *e = &h->verdict->claim;
    struct store *store = h->campaign->store;

    h->claimed = new_attempt(e, plan_canonical(e->plan));
    h->standard = new_attempt(e, plan_default());
    TRY(store_trials(store, e->cluster, e->shape, e->window, e->bucket, recall_trial, h));
    if (!h->resumed)
        TRY(store_forget(store, e->cluster, e->shape, e->window, e->bucket, SAMPLE_VERIFY,
                         SAMPLE_VERIFY));
    return check(h);
}

static int recall_sample(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    struct hearing *h = self;

    for (int i = 0; i < h->count && sample->kind == SAMPLE_VERIFY; i++)
        if (h->present[i] == attempt_of(h, &trial->key.plan) &&
            ledger_counts(h->present[i], sample))
            contest_tell(&h->contest, i, sample->ns);
    return OK;
}

/* ---- the contest */

/* The entry's plan is winner and incumbent in one: it stays unless the default beats it. */
static void open_contest(struct hearing *h)
{
    struct moe_plan plans[2];
    int standard = -1;

    h->count = 0;
    if (h->claimed.usable)
        h->present[h->count++] = &h->claimed;
    if (h->standard.usable && !claims_default(h))
        h->present[h->count++] = &h->standard;
    h->claimed.throttled = h->standard.throttled = 0; /* all samples are told again */
    for (int i = 0; i < h->count; i++) {
        plans[i] = h->present[i]->trial.key.plan;
        standard = plan_equal(&plans[i], &h->standard.trial.key.plan) ? i : standard;
    }
    if (h->count)
        contest_open(&h->contest,
                     &(struct contest_settings){ .margin = h->terms->margin,
                                                 .seed = h->campaign->setup.seed ^
                                                         h->verdict->claim.bucket },
                     plans, h->count, standard, h->claimed.usable ? 0 : -1);
}

static int meet(struct hearing *h)
{
    const struct entry_row *e = &h->verdict->claim;

    open_contest(h);
    if (!h->count)
        return OK;
    TRY(store_samples(h->campaign->store, e->cluster, e->shape, e->window, e->bucket, recall_sample,
                      h));
    return attempt_contest(h->campaign, &h->contest, h->present, SAMPLE_VERIFY);
}

/* Where the plan fails the default is timed alone: it is what a trainer will be told. */
static int hold(struct hearing *h)
{
    bool ran = h->claimed.usable;
    int rc = meet(h);

    if (!rc && ran && !h->claimed.usable)
        rc = meet(h);
    /* A failure is no less true for the time that is missing. */
    return rc == ERR_CUT && !h->claimed.usable ? OK : rc;
}

/* ---- the judgement */

static enum verdict_kind judge(const struct hearing *h, const struct contest_verdict *found)
{
    if (!h->claimed.usable)
        return VERDICT_REFUTED;
    switch (found->decision) {
    case CONTEST_ADOPTED: return h->standard.usable ? VERDICT_BEATS : VERDICT_ALONE;
    case CONTEST_DEFAULT: return claims_default(h) ? VERDICT_DEFAULT : VERDICT_REFUTED;
    case CONTEST_TIE:
    case CONTEST_INCUMBENT: break;
    }
    return VERDICT_TIE;
}

static void explain_failure(const struct attempt *a, struct verdict *v)
{
    const struct trial_row *t = &a->trial;

    snprintf(v->why, sizeof(v->why), "%s%s%s", trial_state_words[t->state], *t->message ? ": " : "",
             t->message);
}

static void explain(const struct hearing *h, struct verdict *v)
{
    if (v->kind == VERDICT_ALONE)
        explain_failure(&h->standard, v);
    else if (!h->claimed.usable)
        explain_failure(&h->claimed, v);
    else if (v->kind == VERDICT_REFUTED)
        snprintf(v->why, sizeof(v->why), "%.1f %% slower than the default (%.1f to %.1f %%)",
                 -100 * v->now.gain, -100 * v->now.high, -100 * v->now.low);
}

static int keep(struct hearing *h, struct entry_row *e)
{
    e->stale = false;
    if (e->tier == TIER_IMPORTED)
        e->tier = TIER_VERIFIED;
    return store_entry(h->campaign->store, e, "verify");
}

static int refute(struct hearing *h, struct entry_row *e)
{
    e->plan = h->standard.trial.key.plan;
    e->bound = NAN; /* the search that gave it was wrong here */
    e->inferred = false;
    e->stale = true;
    e->tier = TIER_LOCAL; /* else another import would bring back what was refuted */
    snprintf(e->decision, sizeof(e->decision), "refuted");
    TRY(store_entry(h->campaign->store, e, "verify"));
    return store_forget(h->campaign->store, e->cluster, e->shape, e->window, e->bucket,
                        SAMPLE_SEARCH, SAMPLE_CONTEST);
}

static int settle(struct hearing *h)
{
    struct contest_verdict found = contest_verdict(&h->contest);
    struct verdict *v = h->verdict;
    struct entry_row entry = v->claim;

    v->kind = judge(h, &found);
    v->rounds = found.rounds;
    if (h->claimed.usable)
        v->now = found.challenge;
    explain(h, v);
    entry_times(&found, &entry);
    v->throttled = entry.throttled = h->claimed.throttled + h->standard.throttled;
    entry.run = h->campaign->run.id;
    entry.decided_s = time(NULL);
    return v->kind == VERDICT_REFUTED ? refute(h, &entry) : keep(h, &entry);
}

int verdict_reach(struct campaign *campaign, const struct verdict_terms *terms,
                  struct verdict *verdict)
{
    struct hearing h = { .campaign = campaign, .terms = terms, .verdict = verdict };

    TRY(recall(&h));
    TRY(hold(&h));
    return settle(&h);
}
