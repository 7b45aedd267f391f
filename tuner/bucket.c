/* Replay, decide, entry. */
#include "bucket.h"

#include "attempt.h"
#include "decision.h"
#include "entry.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>

struct visit {
    struct sweep *sweep;
    uint32_t bucket;
    uint64_t capacity;
    struct attempt attempts[SEARCH_ARMS_MAX]; /* one per arm */
    struct decision decision;
};

static const struct sweep_setup *setup_of(const struct visit *v)
{
    return v->sweep->setup;
}

static struct campaign *campaign_of(const struct visit *v)
{
    return v->sweep->setup->campaign;
}

static struct trial_key key_of(const struct visit *v, int arm)
{
    return (struct trial_key){ .cluster = campaign_of(v)->cluster_id,
                               .shape = v->sweep->shape,
                               .window = v->sweep->space->window,
                               .bucket = v->bucket,
                               .plan = v->sweep->space->arms[arm] };
}

/* ---- what is known */

static int recall_trial(void *self, const struct trial_row *trial)
{
    struct visit *v = self;
    int arm = space_arm(v->sweep->space, &trial->key.plan);

    return arm < 0 ? OK : ledger_recall(campaign_of(v)->store, &v->attempts[arm], trial);
}

static int recall_sample(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    struct visit *v = self;
    int arm = space_arm(v->sweep->space, &trial->key.plan);

    if (arm >= 0 && sample->kind != SAMPLE_VERIFY && ledger_counts(&v->attempts[arm], sample))
        decision_recall(&v->decision,
                        sample->kind == SAMPLE_SEARCH ? DECISION_SEARCH : DECISION_CONTEST, arm,
                        sample->ns);
    return OK;
}

static int rule_out_by_memory(struct visit *v)
{
    const struct space *space = v->sweep->space;

    for (int arm = 0; arm < (int)space->arm_count; arm++) {
        struct attempt *a = &v->attempts[arm];
        int64_t bytes = a->usable ? space_bytes(space, arm, v->bucket) : 0;

        if (bytes <= space->memory_limit_bytes)
            continue;
        TRY(attempt_rule_out(campaign_of(v), a, bytes, space->memory_limit_bytes));
        v->sweep->result.ruled_out++;
    }
    return OK;
}

static int incumbent_of(const struct visit *v, int *arm)
{
    struct trial_key key = key_of(v, 0);
    struct entry_row old;
    int rc = store_entry_get(campaign_of(v)->store, key.cluster, key.shape, key.window, key.bucket,
                             &old);

    *arm = rc == OK && !old.inferred ? space_arm(v->sweep->space, &old.plan) : -1;
    return rc < 0 ? rc : OK;
}

static int open_decision(struct visit *v)
{
    const struct sweep_setup *setup = setup_of(v);
    bool usable[SEARCH_ARMS_MAX] = { false };
    struct decision_setup d = {
        .search = v->sweep->search,
        .capacity = v->capacity,
        .usable = usable,
        .standard = v->sweep->space->default_arm,
        .contest = { .margin = setup->margin,
                     .confidence = setup->effort->confidence,
                     .rounds_max = setup->effort->rounds_max,
                     .seed = campaign_of(v)->setup.seed ^ v->bucket },
    };

    for (int arm = 0; arm < (int)v->sweep->space->arm_count; arm++)
        usable[arm] = v->attempts[arm].usable;
    TRY(incumbent_of(v, &d.incumbent));
    decision_open(&v->decision, &d);
    return OK;
}

/* Brings the decision to where the last run left it. */
static int recall(struct visit *v)
{
    struct trial_key key = key_of(v, 0);

    for (int arm = 0; arm < (int)v->sweep->space->arm_count; arm++)
        v->attempts[arm] =
            (struct attempt){ .trial = { .key = key_of(v, arm), .capacity = v->capacity },
                              .usable = true };
    TRY(store_trials(campaign_of(v)->store, key.cluster, key.shape, key.window, key.bucket,
                     recall_trial, v));
    TRY(rule_out_by_memory(v));
    TRY(open_decision(v));
    return store_samples(campaign_of(v)->store, key.cluster, key.shape, key.window, key.bucket,
                         recall_sample, v);
}

/* ---- what is decided */

static int decide(struct visit *v)
{
    uint32_t round[2] = { 0 };
    enum decision_phase phase;
    struct step step;
    int arm;

    while ((arm = decision_next(&v->decision, &phase)) != DECISION_DONE) {
        struct attempt *a = &v->attempts[arm];
        bool search = phase == DECISION_SEARCH;

        if (campaign_over(campaign_of(v)))
            return ERR_CUT;
        TRY(attempt_step(campaign_of(v), a, search ? SAMPLE_SEARCH : SAMPLE_CONTEST, round[phase]++,
                         &step));
        if (!step.ns)
            decision_drop(&v->decision, arm);
        else if (step.counts)
            decision_tell(&v->decision, phase, arm, step.ns);
        v->sweep->result.failed_trials += !a->usable;
        attempt_show(campaign_of(v), a, step.ns);
    }
    return OK;
}

/* Of the samples that the entry's times are of. */
static uint32_t throttled(const struct visit *v, int arm)
{
    int standard = v->sweep->space->default_arm;

    return v->attempts[arm].throttled +
           (standard >= 0 && standard != arm ? v->attempts[standard].throttled : 0);
}

static int make_entry(const struct visit *v, struct entry_row *out)
{
    const struct sweep_setup *setup = setup_of(v);
    struct trial_key key = key_of(v, 0);
    struct decision_result result;

    if (!decision_result(&v->decision, &result))
        return UNSUPPORTED; /* every plan failed or was ruled out: the trials say why */
    *out = (struct entry_row){ .cluster = key.cluster,
                               .shape = key.shape,
                               .run = campaign_of(v)->run.id,
                               .window = key.window,
                               .bucket = key.bucket,
                               .capacity = v->capacity };
    entry_fill(&result, v->sweep->space->arms, out);
    out->throttled = throttled(v, result.arm);
    snprintf(out->effort, sizeof(out->effort), "%s", setup->effort->name);
    snprintf(out->search, sizeof(out->search), "%s", setup->strategy->name);
    return OK;
}

static int new_visit(struct sweep *sweep, uint32_t bucket, struct visit **out)
{
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return fail(ERR_NOMEM, "a bucket's visit");
    (*out)->sweep = sweep;
    (*out)->bucket = bucket;
    (*out)->capacity = space_capacity(sweep->space, bucket);
    return OK;
}

int bucket_measure(struct sweep *sweep, uint32_t bucket, struct entry_row *out)
{
    struct visit *v;
    int rc;

    TRY(new_visit(sweep, bucket, &v));
    rc = recall(v);
    if (!rc)
        rc = decide(v);
    if (!rc)
        rc = make_entry(v, out);
    free(v);
    return rc;
}

int bucket_recall(struct sweep *sweep, uint32_t bucket)
{
    struct visit *v;
    int rc;

    TRY(new_visit(sweep, bucket, &v));
    rc = recall(v);
    free(v);
    return rc;
}

int bucket_redecide(struct sweep *sweep, uint32_t bucket, struct entry_row *out)
{
    struct visit *v;
    int rc;

    TRY(new_visit(sweep, bucket, &v));
    rc = recall(v);
    if (!rc)
        rc = make_entry(v, out);
    free(v);
    return rc;
}
