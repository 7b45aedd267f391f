/* Begin, step, conclude. */
#include "attempt.h"

#include "plan.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>

/* After so many attempts that were cut off a trial counts as one that kills its ranks. */
enum { ATTEMPTS_MAX = 3 };

static bool state_is_final(enum trial_state state)
{
    return state != TRIAL_RUNNING && state != TRIAL_OK;
}

int attempt_recall(struct campaign *c, struct attempt *a, const struct trial_row *known)
{
    a->trial = *known;
    if (known->state == TRIAL_RUNNING && known->attempts >= ATTEMPTS_MAX) {
        a->trial.state = TRIAL_CRASHED;
        snprintf(a->trial.message, sizeof(a->trial.message),
                 "cut off %u times before its first step was timed", known->attempts);
        TRY(store_trial_update(c->store, &a->trial));
    }
    a->usable = !state_is_final(a->trial.state) || known->state == TRIAL_RULED_OUT;
    return OK;
}

int attempt_rule_out(struct campaign *c, struct attempt *a, int64_t bytes, int64_t limit_bytes)
{
    struct trial_row *trial = &a->trial;

    a->usable = false;
    if (trial->id && trial->state == TRIAL_RULED_OUT)
        return OK;
    trial->run = c->run.id;
    TRY(store_trial_begin(c->store, trial));
    trial->state = TRIAL_RULED_OUT;
    trial->memory_bytes = bytes;
    snprintf(trial->message, sizeof(trial->message), "needs %.3g GiB per rank, %.3g are allowed",
             (double)bytes * 0x1p-30, (double)limit_bytes * 0x1p-30);
    return store_trial_update(c->store, trial);
}

static int begin(struct campaign *c, struct attempt *a)
{
    struct trial_row *trial = &a->trial;

    if (a->begun)
        return OK;
    a->begun = true;
    if (trial->id && trial->state == TRIAL_OK)
        return OK;
    trial->run = c->run.id;
    trial->state = TRIAL_RUNNING;
    TRY(store_trial_begin(c->store, trial));
    /* Durable before it may take the ranks, or this process, with it. */
    return store_commit(c->store);
}

static int conclude(struct campaign *c, struct attempt *a, const struct reply *reply)
{
    struct trial_row *trial = &a->trial;
    bool news = trial->state != reply->state;

    trial->state = reply->state;
    if (reply->state != TRIAL_OK) {
        snprintf(trial->message, sizeof(trial->message), "%s", reply->message);
        a->usable = false;
    } else if (reply->compute_ns) {
        news = true;
        trial->memory_bytes = reply->memory_bytes;
        trial->sent_bytes = reply->sent_bytes;
        trial->messages = reply->messages;
        trial->compute_ns = reply->compute_ns;
        trial->comm_ns = reply->comm_ns;
    }
    return news ? store_trial_update(c->store, trial) : OK;
}

int attempt_step(struct campaign *c, struct attempt *a, enum sample_kind kind, uint32_t round,
                 int64_t *ns)
{
    struct order order = { .kind = ORDER_STEP,
                           .capacity = a->trial.capacity,
                           .plan = a->trial.key.plan };
    struct reply reply;

    TRY(begin(c, a));
    TRY(crew_do(c->crew, &order, &reply));
    TRY(conclude(c, a, &reply));
    *ns = reply.state == TRIAL_OK ? reply.ns : 0;
    c->run.samples_warm += reply.warm_steps;
    if (*ns) {
        *(kind == SAMPLE_SEARCH ? &c->run.samples_search : &c->run.samples_default) += 1;
        TRY(store_sample(c->store, a->trial.id, kind, round, *ns));
    }
    return campaign_commit(c);
}

void attempt_show(struct campaign *c, const struct attempt *a, int64_t ns)
{
    char plan[PLAN_TEXT_BYTES];

    moe_plan_format(&a->trial.key.plan, plan, sizeof(plan));
    snprintf(c->run.now, sizeof(c->run.now), "bucket %u (c=%" PRIu64 ") %s", a->trial.key.bucket,
             a->trial.capacity, plan);
    progress_show(&c->progress, "%s %.3f ms", c->run.now, (double)ns * 1e-6);
}

int attempt_contest(struct campaign *c, struct contest *contest, struct attempt *const *contestants,
                    enum sample_kind kind)
{
    uint32_t round = 0;
    int64_t ns;
    int i;

    while ((i = contest_next(contest)) != CONTEST_DONE) {
        if (campaign_over(c))
            return ERR_CUT;
        TRY(attempt_step(c, contestants[i], kind, round++, &ns));
        if (ns)
            contest_tell(contest, i, ns);
        else
            contest_drop(contest, i);
        attempt_show(c, contestants[i], ns);
    }
    return OK;
}

void attempt_fill(const struct contest_verdict *v, struct entry_row *out)
{
    out->time_us = v->median_ns * 1e-3;
    out->low_us = v->low_ns * 1e-3;
    out->high_us = v->high_ns * 1e-3;
    out->default_us = v->default_ns * 1e-3;
    out->gain = v->gain;
    out->gain_low = v->gain_low;
    out->gain_high = v->gain_high;
    out->samples = v->rounds;
}
