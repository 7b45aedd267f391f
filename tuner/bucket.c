/* Replay, search, contest, entry. */
#include "bucket.h"

#include "contest.h"
#include "host.h"
#include "plan.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* After so many attempts that were cut off a trial counts as one that kills its ranks. */
enum { ATTEMPTS_MAX = 3 };

struct visit {
    struct sweep *sweep;
    uint32_t bucket;
    uint64_t capacity;
    struct trial_row trials[SEARCH_ARMS_MAX]; /* id 0: never begun */
    bool begun[SEARCH_ARMS_MAX];              /* in this visit */
    bool usable[SEARCH_ARMS_MAX];
    struct contest contest;
    int contestants[CONTEST_PLANS_MAX]; /* their arms */
    int contestant_count;
    enum sample_kind recalling;
};

static const struct sweep_setup *setup_of(const struct visit *v)
{
    return v->sweep->setup;
}

static bool state_is_final(enum trial_state state)
{
    return state != TRIAL_RUNNING && state != TRIAL_OK;
}

static struct trial_key key_of(const struct visit *v, int arm)
{
    return (struct trial_key){ .cluster = setup_of(v)->cluster,
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

    if (arm < 0)
        return OK;
    v->trials[arm] = *trial;
    if (trial->state == TRIAL_RUNNING && trial->attempts >= ATTEMPTS_MAX) {
        v->trials[arm].state = TRIAL_CRASHED;
        snprintf(v->trials[arm].message, sizeof(v->trials[arm].message),
                 "cut off %u times before its first step was timed", trial->attempts);
        TRY(store_trial_update(setup_of(v)->store, &v->trials[arm]));
    }
    /* Memory may be judged anew: the limit is an option. */
    v->usable[arm] = !state_is_final(v->trials[arm].state) || trial->state == TRIAL_RULED_OUT;
    return OK;
}

static int recall_sample(void *self, const struct trial_row *trial, enum sample_kind kind,
                         uint32_t round, int64_t ns)
{
    struct visit *v = self;
    int arm = space_arm(v->sweep->space, &trial->key.plan);

    (void)round;
    if (arm < 0 || !v->usable[arm] || kind != v->recalling)
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
    return store_samples(setup_of(v)->store, key.cluster, key.shape, key.window, key.bucket,
                         recall_sample, v);
}

static int rule_out(struct visit *v, int arm, int64_t bytes)
{
    struct trial_row *trial = &v->trials[arm];
    bool known = trial->id && trial->state == TRIAL_RULED_OUT;

    v->usable[arm] = false;
    v->sweep->result.ruled_out++;
    if (known)
        return OK;
    trial->run = setup_of(v)->run->id;
    trial->key = key_of(v, arm);
    trial->capacity = v->capacity;
    TRY(store_trial_begin(setup_of(v)->store, trial));
    trial->state = TRIAL_RULED_OUT;
    trial->memory_bytes = bytes;
    snprintf(trial->message, sizeof(trial->message), "needs %.3g GiB per rank, %.3g are allowed",
             (double)bytes * 0x1p-30, (double)v->sweep->space->memory_limit_bytes * 0x1p-30);
    return store_trial_update(setup_of(v)->store, trial);
}

static int rule_out_by_memory(struct visit *v)
{
    const struct space *space = v->sweep->space;

    for (int arm = 0; arm < (int)space->arm_count; arm++) {
        int64_t bytes = v->usable[arm] ? space_bytes(space, arm, v->bucket) : 0;

        if (bytes > space->memory_limit_bytes)
            TRY(rule_out(v, arm, bytes));
    }
    return OK;
}

/* Opens the search's visit and brings it to where the last run left it. */
static int recall(struct visit *v)
{
    struct trial_key key = key_of(v, 0);

    for (size_t arm = 0; arm < v->sweep->space->arm_count; arm++)
        v->usable[arm] = true;
    TRY(store_trials(setup_of(v)->store, key.cluster, key.shape, key.window, key.bucket,
                     recall_trial, v));
    TRY(rule_out_by_memory(v));
    search_visit(v->sweep->search, v->capacity, v->usable);
    return recall_samples(v, SAMPLE_SEARCH);
}

/* ---- one timed step */

static int begin(struct visit *v, int arm)
{
    struct trial_row *trial = &v->trials[arm];

    if (v->begun[arm])
        return OK;
    v->begun[arm] = true;
    if (trial->id && trial->state == TRIAL_OK)
        return OK;
    trial->run = setup_of(v)->run->id;
    trial->key = key_of(v, arm);
    trial->capacity = v->capacity;
    trial->state = TRIAL_RUNNING;
    TRY(store_trial_begin(setup_of(v)->store, trial));
    /* Durable before it may take the ranks, or this process, with it. */
    return store_commit(setup_of(v)->store);
}

static int conclude(struct visit *v, int arm, const struct reply *reply)
{
    struct trial_row *trial = &v->trials[arm];
    bool news = trial->state != reply->state;

    trial->state = reply->state;
    if (reply->state != TRIAL_OK) {
        snprintf(trial->message, sizeof(trial->message), "%s", reply->message);
        v->sweep->result.failed_trials++;
        v->usable[arm] = false;
    } else if (reply->compute_ns) {
        news = true;
        trial->memory_bytes = reply->memory_bytes;
        trial->sent_bytes = reply->sent_bytes;
        trial->messages = reply->messages;
        trial->compute_ns = reply->compute_ns;
        trial->comm_ns = reply->comm_ns;
    }
    return news ? store_trial_update(setup_of(v)->store, trial) : OK;
}

/* *ns is 0 when the trial failed; that is recorded, and no error. */
static int step(struct visit *v, int arm, enum sample_kind kind, uint32_t round, int64_t *ns)
{
    const struct sweep_setup *setup = setup_of(v);
    struct order order = { .kind = ORDER_STEP,
                           .capacity = v->capacity,
                           .plan = v->sweep->space->arms[arm] };
    struct reply reply;

    TRY(begin(v, arm));
    TRY(crew_do(setup->crew, &order, &reply));
    TRY(conclude(v, arm, &reply));
    *ns = reply.state == TRIAL_OK ? reply.ns : 0;
    setup->run->samples_warm += reply.warm_steps;
    if (*ns) {
        *(kind == SAMPLE_SEARCH ? &setup->run->samples_search : &setup->run->samples_default) += 1;
        TRY(store_sample(setup->store, v->trials[arm].id, kind, round, *ns));
    }
    return sweep_commit(v->sweep);
}

/* ---- search */

static void show(struct visit *v, int arm, int64_t ns)
{
    char plan[PLAN_TEXT_BYTES];
    struct run_row *run = setup_of(v)->run;

    moe_plan_format(&v->sweep->space->arms[arm], plan, sizeof(plan));
    snprintf(run->now, sizeof(run->now), "bucket %u (c=%llu) %s", v->bucket,
             (unsigned long long)v->capacity, plan);
    progress_show(setup_of(v)->progress, "%s %.3f ms", run->now, (double)ns * 1e-6);
}

static int seek(struct visit *v)
{
    struct search *search = v->sweep->search;
    uint32_t round = 0;
    int64_t ns;
    int arm;

    while ((arm = search_next(search)) != SEARCH_DONE) {
        if (sweep_time_is_up(v->sweep))
            return ERR_CUT;
        TRY(step(v, arm, SAMPLE_SEARCH, round++, &ns));
        if (ns)
            search_tell(search, arm, ns);
        else
            search_drop(search, arm);
        show(v, arm, ns);
    }
    return OK;
}

/* ---- contest */

static void enter(struct visit *v, int arm)
{
    for (int i = 0; i < v->contestant_count; i++)
        if (v->contestants[i] == arm)
            return;
    if (arm >= 0 && v->usable[arm])
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

    rc = store_entry_get(setup->store, key.cluster, key.shape, key.window, key.bucket, &old);
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
                                             .seed = setup->seed ^ v->bucket },
                 plans, v->contestant_count, place_of(v, space->default_arm),
                 place_of(v, incumbent));
    return recall_samples(v, SAMPLE_CONTEST);
}

static int hold_contest(struct visit *v)
{
    uint32_t round = 0;
    int64_t ns;
    int i;

    while ((i = contest_next(&v->contest)) != CONTEST_DONE) {
        if (sweep_time_is_up(v->sweep))
            return ERR_CUT;
        TRY(step(v, v->contestants[i], SAMPLE_CONTEST, round++, &ns));
        if (ns)
            contest_tell(&v->contest, i, ns);
        else
            contest_drop(&v->contest, i);
        show(v, v->contestants[i], ns);
    }
    return OK;
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
                               .run = setup->run->id,
                               .window = key.window,
                               .bucket = key.bucket,
                               .capacity = v->capacity,
                               .plan = space->arms[v->contestants[c.adopted]],
                               .search_winner = space->arms[found->winner],
                               .time_us = c.median_ns * 1e-3,
                               .low_us = c.low_ns * 1e-3,
                               .high_us = c.high_ns * 1e-3,
                               .default_us = c.default_ns * 1e-3,
                               .gain = c.gain,
                               .gain_low = c.gain_low,
                               .gain_high = c.gain_high,
                               .bound = found->bound,
                               .samples = c.rounds,
                               .decided_s = time(NULL) };
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
        if (v->usable[found.winner])
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

bool sweep_time_is_up(const struct sweep *sweep)
{
    const struct sweep_setup *s = sweep->setup;

    return (s->stop && *s->stop) || (s->deadline_ns && host_clock_ns() >= s->deadline_ns);
}

int sweep_commit(struct sweep *sweep)
{
    static const int64_t commit_every_ns = 50000000, report_every_ns = 2000000000;
    int64_t now_ns = host_clock_ns();

    if (now_ns - sweep->reported_ns >= report_every_ns) {
        sweep->reported_ns = now_ns;
        TRY(store_heartbeat(sweep->setup->store));
        TRY(store_run_update(sweep->setup->store, sweep->setup->run));
    }
    if (now_ns - sweep->committed_ns < commit_every_ns)
        return OK;
    TRY(store_commit(sweep->setup->store));
    sweep->committed_ns = host_clock_ns();
    return OK;
}
