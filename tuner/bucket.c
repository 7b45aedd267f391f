/* Replay, search, contest, entry. */
#include "bucket.h"

#include "attempt.h"
#include "plan.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct visit {
    struct sweep *sweep;
    uint32_t bucket;
    uint64_t capacity;
    struct attempt attempts[SEARCH_ARMS_MAX]; /* one per arm */
    struct contest contest;
    int contestants[CONTEST_PLANS_MAX]; /* their arms */
    int contestant_count;
    enum sample_kind recalling;
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

    return arm < 0 ? OK : attempt_recall(campaign_of(v), &v->attempts[arm], trial);
}

static int recall_sample(void *self, const struct trial_row *trial, enum sample_kind kind,
                         uint32_t round, int64_t ns)
{
    struct visit *v = self;
    int arm = space_arm(v->sweep->space, &trial->key.plan);

    (void)round;
    if (arm < 0 || !v->attempts[arm].usable || kind != v->recalling)
        return OK;
    if (kind == SAMPLE_SEARCH) {
        search_next(v->sweep->search);
        search_tell(v->sweep->search, arm, ns);
        return OK;
    }
    for (int i = 0; i < v->contestant_count; i++)
        if (v->contestants[i] == arm)
            contest_tell(&v->contest, i, ns);
    return OK;
}

static int recall_samples(struct visit *v, enum sample_kind kind)
{
    struct trial_key key = key_of(v, 0);

    v->recalling = kind;
    return store_samples(campaign_of(v)->store, key.cluster, key.shape, key.window, key.bucket,
                         recall_sample, v);
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

/* Opens the search's visit and brings it to where the last run left it. */
static int recall(struct visit *v)
{
    struct trial_key key = key_of(v, 0);
    bool usable[SEARCH_ARMS_MAX] = { false };
    int arms = (int)v->sweep->space->arm_count;

    for (int arm = 0; arm < arms; arm++)
        v->attempts[arm] =
            (struct attempt){ .trial = { .key = key_of(v, arm), .capacity = v->capacity },
                              .usable = true };
    TRY(store_trials(campaign_of(v)->store, key.cluster, key.shape, key.window, key.bucket,
                     recall_trial, v));
    TRY(rule_out_by_memory(v));
    for (int arm = 0; arm < arms; arm++)
        usable[arm] = v->attempts[arm].usable;
    search_visit(v->sweep->search, v->capacity, usable);
    return recall_samples(v, SAMPLE_SEARCH);
}

/* ---- search */

static int seek(struct visit *v)
{
    struct search *search = v->sweep->search;
    uint32_t round = 0;
    int64_t ns;
    int arm;

    while ((arm = search_next(search)) != SEARCH_DONE) {
        struct attempt *a = &v->attempts[arm];

        if (campaign_over(campaign_of(v)))
            return ERR_CUT;
        TRY(attempt_step(campaign_of(v), a, SAMPLE_SEARCH, round++, &ns));
        if (ns)
            search_tell(search, arm, ns);
        else
            search_drop(search, arm);
        v->sweep->result.failed_trials += !a->usable;
        attempt_show(campaign_of(v), a, ns);
    }
    return OK;
}

/* ---- contest */

static void enter(struct visit *v, int arm)
{
    for (int i = 0; i < v->contestant_count; i++)
        if (v->contestants[i] == arm)
            return;
    if (arm >= 0 && v->attempts[arm].usable)
        v->contestants[v->contestant_count++] = arm;
}

static int place_of(const struct visit *v, int arm)
{
    for (int i = 0; i < v->contestant_count; i++)
        if (v->contestants[i] == arm)
            return i;
    return -1;
}

/* The search's winner against the default and, if there was an entry, the plan it had. */
static int prepare_contest(struct visit *v, const struct search_verdict *verdict)
{
    const struct sweep_setup *setup = setup_of(v);
    const struct space *space = v->sweep->space;
    struct moe_plan plans[CONTEST_PLANS_MAX];
    struct trial_key key = key_of(v, 0);
    struct entry_row old;
    int incumbent = -1, rc;

    rc = store_entry_get(campaign_of(v)->store, key.cluster, key.shape, key.window, key.bucket,
                         &old);
    if (rc < 0)
        return rc;
    if (rc == OK && !old.inferred)
        incumbent = space_arm(space, &old.plan);
    v->contestant_count = 0;
    enter(v, verdict->winner);
    enter(v, space->default_arm);
    enter(v, incumbent);
    for (int i = 0; i < v->contestant_count; i++)
        plans[i] = space->arms[v->contestants[i]];
    contest_open(&v->contest,
                 &(struct contest_settings){ .margin = setup->margin,
                                             .confidence = setup->effort->confidence,
                                             .rounds_max = setup->effort->rounds_max,
                                             .seed = campaign_of(v)->setup.seed ^ v->bucket },
                 plans, v->contestant_count, place_of(v, space->default_arm),
                 place_of(v, incumbent));
    return recall_samples(v, SAMPLE_CONTEST);
}

static int hold_contest(struct visit *v)
{
    struct attempt *contestants[CONTEST_PLANS_MAX];
    int rc;

    for (int i = 0; i < v->contestant_count; i++)
        contestants[i] = &v->attempts[v->contestants[i]];
    rc = attempt_contest(campaign_of(v), &v->contest, contestants, SAMPLE_CONTEST);
    for (int i = 0; i < v->contestant_count; i++)
        v->sweep->result.failed_trials += !contestants[i]->usable;
    return rc;
}

/* ---- entry */

static void make_entry(const struct visit *v, const struct search_verdict *found,
                       struct entry_row *out)
{
    const struct sweep_setup *setup = setup_of(v);
    const struct space *space = v->sweep->space;
    struct contest_verdict c = contest_verdict(&v->contest);
    struct trial_key key = key_of(v, 0);

    *out = (struct entry_row){ .cluster = key.cluster,
                               .shape = key.shape,
                               .run = campaign_of(v)->run.id,
                               .window = key.window,
                               .bucket = key.bucket,
                               .capacity = v->capacity,
                               .plan = space->arms[v->contestants[c.adopted]],
                               .search_winner = space->arms[found->winner],
                               .bound = found->bound,
                               .decided_s = time(NULL) };
    attempt_fill(&c, out);
    if (found->runner_up >= 0)
        out->runner_up = space->arms[found->runner_up];
    /* Who keeps the default loses at most what the winner may be better by. */
    if (!plan_equal(&out->plan, &out->search_winner) && c.missed_high > 0)
        out->bound += c.missed_high;
    snprintf(out->effort, sizeof(out->effort), "%s", setup->effort->name);
    snprintf(out->search, sizeof(out->search), "%s", setup->strategy->name);
    snprintf(out->reason, sizeof(out->reason), "%s", search_reason_words[found->reason]);
    snprintf(out->decision, sizeof(out->decision), "%s", contest_decision_words[c.decision]);
}

static int decide(struct visit *v, struct entry_row *out)
{
    struct search_verdict found;

    for (;;) {
        TRY(seek(v));
        found = search_verdict(v->sweep->search);
        if (found.winner < 0)
            return UNSUPPORTED; /* every plan failed or was ruled out: the trials say why */
        TRY(prepare_contest(v, &found));
        TRY(hold_contest(v));
        if (v->attempts[found.winner].usable)
            break;
        search_drop(v->sweep->search, found.winner); /* it failed in the contest */
    }
    make_entry(v, &found, out);
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
        rc = decide(v, out);
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
