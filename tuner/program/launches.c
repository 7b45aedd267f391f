/* Decides which launch comes next, and what it is asked to show. */
#include "launches_state.h"

#include "arms.h"
#include "array.h"
#include "costs.h"
#include "host.h"
#include "launch_words.h"
#include "plan.h"
#include "recognise.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- ranges */

static struct launch_range *find_range(const struct launches *l, uint32_t bucket)
{
    for (size_t i = 0; i < l->range_count; i++)
        if (l->ranges[i]->bucket.key.bucket == bucket)
            return l->ranges[i];
    return NULL;
}

/* What never comes up for other ranges does not for this one. */
static int leave_out_broken(struct launches *l, struct launch_range *r)
{
    for (int arm = 0; arm < (int)l->dictionary.arm_count; arm++)
        if (l->ways[l->way_of[arm]].broken)
            TRY(launch_range_fail(r, arm, TRIAL_CRASHED, "no launch with these values comes up"));
    return OK;
}

/* What its samples say of the ways to start the program. */
static void recall_ways(struct launches *l, const struct launch_range *r)
{
    for (int arm = 0; arm < (int)l->dictionary.arm_count; arm++)
        if (bucket_count(&r->bucket, arm))
            l->ways[l->way_of[arm]].runs = true;
}

static int add_range(struct launches *l, uint32_t bucket, struct launch_range **out)
{
    struct launch_range *r = calloc(1, sizeof(*r));

    if (!r)
        return fail(ERR_NOMEM, "a range");
    ARRAY_APPEND(l->ranges, l->range_count, r);
    TRY(launch_range_open(r, &l->dictionary, bucket, &l->search));
    recall_ways(l, r);
    TRY(leave_out_broken(l, r));
    *out = r;
    r->demand = live_demand(l->setup, bucket);
    return launch_range_pin(r, l->pins) ? OK : launch_range_begin(r);
}

static uint32_t count_ranges(const struct launches *l, enum range_state state)
{
    uint32_t count = 0;

    for (size_t i = 0; i < l->range_count; i++)
        count += l->ranges[i]->state == state;
    return count;
}

/* Those that this run is to decide. */
static uint32_t count_wanted(const struct launches *l)
{
    return (uint32_t)l->range_count - count_ranges(l, RANGE_LEFT_OUT) -
           count_ranges(l, RANGE_PINNED);
}

/* ---- which launch next */

/* -1: nothing is wanted. */
static int next_way(const struct launches *l)
{
    int next;

    for (size_t w = 0; w < l->way_count; w++)
        l->ways[w].votes = 0;
    for (size_t i = 0; i < l->range_count; i++)
        if (l->ranges[i]->state == RANGE_OPEN)
            l->ways[l->way_of[l->ranges[i]->wanted]].votes += (double)l->ranges[i]->demand;
    next = ways_next(l->ways, l->way_count, l->now.number);
    /* Ranges that nobody asked for yet show under the default. */
    if (next < 0 && (!l->now.number || !l->range_count))
        return (int)l->way_of[l->dictionary.default_arm];
    return next;
}

/* ---- answers */

static int best_here(const struct launches *l, const struct launch_range *r)
{
    return launch_range_best(r, &l->now, l->ways[l->now.way].safe);
}

/* Nothing is known to run here, so other plans of this launch may fail alike: to ask for them now
 * is cheaper than a launch for each. */
static bool is_failing(const struct launches *l, const struct launch_range *r)
{
    int arm = r->failing && r->state == RANGE_OPEN ? best_here(l, r) : -1;

    return arm >= 0 && r->bucket.attempts[arm].usable && !bucket_count(&r->bucket, arm);
}

/* Whether the launch can show more that is wanted, or ranges that nobody knows. */
static bool goes_on(const struct launches *l)
{
    uint64_t question = l->session->asked + 1;

    for (size_t i = 0; i < l->range_count; i++) {
        const struct launch_range *r = l->ranges[i];

        if ((launch_range_wants(r, &l->now) || is_failing(l, r)) &&
            watch_awaits(&l->watch, &r->watched, l->range_count, r->on_occasion, question))
            return true;
    }
    return watch_looks(&l->watch, question);
}

static int choose(struct launches *l, struct launch_range *r)
{
    const struct way *way = &l->ways[l->now.way];
    /* A launch that came to nothing under these values shows first whether it runs at all. */
    bool in_doubt = way->stillborn && !way->runs;

    l->range = r;
    l->sampled = launch_range_wants(r, &l->now) && (!in_doubt || r->wanted == way->safe);
    l->arm = l->sampled ? r->wanted : best_here(l, r);
    return l->arm < 0 ? UNSUPPORTED : OK;
}

static int is_asked(void *self, const struct said *ask, struct moe_plan *plan)
{
    struct launches *l = self;
    uint32_t bucket = declaration_bucket(l->space, ask->key, ask->class_thousandths);
    struct launch_range *r = find_range(l, bucket);

    launch_cost_asked(&l->cost, host_clock_ns());
    if (!r) {
        TRY(add_range(l, bucket, &r));
        launch_range_look(r, &l->now);
        l->watch.newest = l->session->asked + 1;
    }
    r->watched.asked = l->session->asked + 1;
    if (!goes_on(l))
        return UNSUPPORTED;
    TRY(choose(l, r));
    *plan = l->arms[l->arm];
    return OK;
}

static void show(struct launches *l)
{
    struct progress *p = &l->session->progress;

    p->done = count_ranges(l, RANGE_DECIDED);
    p->buckets = count_wanted(l);
    p->steps = l->told;
    progress_show(p, "launch %" PRIu32 ": %s=%" PRIu64 " %s", l->now.number, l->space->key,
                  l->session->key, PLAN_WORDS(&l->session->plan));
}

/* For whoever looks while it runs (`moetune status`). */
static int write_run(struct launches *l)
{
    l->run.buckets_done = count_ranges(l, RANGE_DECIDED);
    l->run.buckets_planned = count_wanted(l);
    TRY(store_run_update(l->dictionary.store, &l->run));
    return store_commit(l->dictionary.store);
}

static int is_told(void *self, const struct said *tell)
{
    struct launches *l = self;
    uint32_t samples = l->range->watched.samples;

    l->ways[l->now.way].runs = true;
    l->range->failing = false;
    l->told++;
    l->tried += l->sampled;
    launch_cost_told(&l->cost, host_clock_ns());
    show(l);
    if (!l->sampled || !launch_range_wants(l->range, &l->now) || l->range->wanted != l->arm)
        return OK;
    l->run.samples_search++;
    TRY(launch_range_step(l->range, &l->now, tell->ns, l->watch.steps));
    return l->range->watched.samples == samples ? OK : write_run(l);
}

static int is_told_memory(void *self, int64_t bytes)
{
    struct launches *l = self;

    return ledger_memory(l->dictionary.store, &l->range->bucket.attempts[l->arm], bytes);
}

static int is_told_failure(void *self, enum trial_state state, const char *why)
{
    struct launches *l = self;

    l->ways[l->now.way].runs = true; /* it came up, and says what it cannot do */
    l->range->failing = true;
    TRY(launch_range_fail(l->range, l->arm, state, why));
    launch_range_look(l->range, &l->now);
    return store_commit(l->dictionary.store);
}

static struct moetune_status status_of(void *self)
{
    const struct launches *l = self;

    return (struct moetune_status){ .decided = count_ranges(l, RANGE_DECIDED),
                                    .open = count_ranges(l, RANGE_OPEN),
                                    .steps = l->told,
                                    .tried = l->tried };
}

/* Other hosts take an owner for dead that is silent for a minute. */
static void stay_alive(void *self)
{
    struct launches *l = self;
    double now_s = (double)time(NULL);

    if (now_s - l->alive_s < 10)
        return;
    store_heartbeat(l->dictionary.store);
    l->alive_s = now_s;
}

static const struct session_ops ops = { .ask = is_asked,
                                        .tell = is_told,
                                        .memory = is_told_memory,
                                        .failed = is_told_failure,
                                        .status = status_of,
                                        .idle = stay_alive };

/* ---- launches */

/* Steps that were told are a sample, if they are enough, whatever ended the launch.  Where time was
 * up half as many are: the next run may come no further. */
static int take_rest(struct launches *l, bool cut)
{
    uint32_t least = cut ? (l->watch.least + 1) / 2 : l->watch.least;

    for (size_t i = 0; i < l->range_count; i++)
        TRY(launch_range_end(l->ranges[i], &l->now, least));
    return OK;
}

/* By what the launches so far cost, and by how far their steps scatter. */
static uint32_t steps_of_sample(const struct launches *l)
{
    struct watched all = { .samples = 0 };

    for (size_t i = 0; i < l->range_count; i++)
        watched_add(&all, &l->ranges[i]->watched);
    return l->options->launch_steps ? l->options->launch_steps : launch_pace(&l->cost, &all);
}

static int begin_launch(struct launches *l, uint32_t number, const char *words)
{
    struct way *way = &l->ways[number];

    l->now.way = number;
    l->watch.looking = !l->now.number;
    l->watch.steps = steps_of_sample(l);
    l->watch.newest = 0;
    way->last = ++l->now.number;
    way->launches++;
    l->range = NULL;
    for (size_t i = 0; i < l->range_count; i++) {
        launch_range_reset(l->ranges[i]);
        launch_range_look(l->ranges[i], &l->now);
    }
    text_put(l->run.now, sizeof(l->run.now), "launch %" PRIu32 ": %s", l->now.number, words);
    return write_run(l);
}

static int launch(struct launches *l, uint32_t number)
{
    uint32_t choice = l->arms[l->ways[number].arm].choice;
    char words[DECLARATION_PLAN_BYTES], *command;
    struct launch_end end;
    int rc;

    TRY(begin_launch(l, number, launch_words(l->space, choice, words)));
    TRY(launch_command(l->options->exec, l->space, choice, &command));
    launch_cost_started(&l->cost, host_clock_ns());
    rc = session_launch(l->session, command, words, *l->silent_end && l->now.number == 2, &end);
    free(command);
    launch_cost_ended(&l->cost, end.hung ? -1 : host_clock_ns());
    if (!rc || rc == ERR_CUT)
        rc = take_rest(l, rc == ERR_CUT) ? ERR_IO : rc;
    if (!rc)
        rc = launches_judge_end(l, &end);
    for (size_t i = 0; i < l->range_count && !rc; i++)
        rc = launch_range_next(l->ranges[i]);
    return rc;
}

/* ---- opening */

static int list_arms(struct launches *l, const struct live_setup *setup)
{
    struct arms_setup arms = { .axes = setup->axes, .foreign = true };
    struct moe_plan usual = plan_default(&setup->shape);

    TRY(arms_list(&setup->shape, &arms, l->arms, &l->dictionary.arm_count));
    l->dictionary.default_arm = arms_find(l->arms, l->dictionary.arm_count, &usual);
    return ways_list(l->space, l->arms, l->dictionary.arm_count, l->way_of, &l->ways,
                     &l->way_count);
}

static int begin_run(struct launches *l, const struct live_setup *setup)
{
    struct run_row *run = &l->run;

    *run = (struct run_row){ .cluster = l->dictionary.cluster,
                             .state = RUN_RUNNING,
                             .started_s = time(NULL),
                             .seed = setup->seed };
    snprintf(run->search, sizeof(run->search), "blind");
    snprintf(run->effort, sizeof(run->effort), "%s", setup->effort->name);
    snprintf(run->command, sizeof(run->command), "%s", setup->command);
    snprintf(run->now, sizeof(run->now), "launching");
    snprintf(run->version, sizeof(run->version), "%s", MOETUNE_VERSION);
    TRY(store_run_begin(l->dictionary.store, run));
    l->dictionary.run = run->id;
    TRY(dictionary_first_run(&l->dictionary, setup->command));
    return store_commit(l->dictionary.store);
}

static int recall_range(void *self, const struct trial_row *trial)
{
    struct launches *l = self;
    struct launch_range *r;

    return find_range(l, trial->key.bucket) ? OK : add_range(l, trial->key.bucket, &r);
}

static int open_store(struct launches *l, const struct live_setup *setup)
{
    struct dictionary *d = &l->dictionary;
    struct launch_range *range;
    struct cluster cluster;

    TRY(live_cluster(setup, &cluster));
    TRY(store_open(setup->path, setup->store_flags, &d->store));
    TRY(recognise(d->store, &cluster, &d->cluster));
    TRY(store_shape(d->store, &setup->shape, &d->shape));
    l->search =
        (struct search_setup){ .shape = setup->shape,
                               .arms = l->arms,
                               .arm_count = d->arm_count,
                               .machine = known_machine(&cluster, &(struct search_machine){ 0 }),
                               .worth = setup->effort->worth,
                               .seed = setup->seed };
    TRY(store_overrides(d->store, &l->pins));
    TRY(begin_run(l, setup));
    if (l->options->retune)
        TRY(store_expire(d->store, d->cluster, d->shape, setup->window, 0, UINT32_MAX,
                         "to be measured again"));
    for (size_t i = 0; i < setup->demand_count; i++)
        TRY(add_range(l, setup->demands[i].bucket, &range));
    return store_trials(d->store, d->cluster, d->shape, setup->window, UINT32_MAX, recall_range, l);
}

static int end_run(struct launches *l, int rc)
{
    struct run_row *run = &l->run;

    run->state = !rc ? RUN_COMPLETE : rc == ERR_CUT ? RUN_INTERRUPTED : RUN_FAILED;
    snprintf(run->now, sizeof(run->now), "%s", run_state_words[run->state]);
    TRY(write_run(l));
    return store_publish(l->dictionary.store);
}

/* Where no plan runs, which is said. */
static uint32_t count_barren(const struct launches *l)
{
    uint32_t count = 0;

    for (size_t i = 0; i < l->range_count; i++) {
        const struct bucket *b = &l->ranges[i]->bucket;
        char range[64];

        if (l->ranges[i]->state != RANGE_DECIDED || b->known)
            continue;
        count++;
        declaration_range(l->space, b->key.bucket, range, sizeof(range));
        note("%s %s is not decided: no plan runs there; the default one: %s", l->space->key, range,
             b->attempts[l->dictionary.default_arm].trial.message);
    }
    return count;
}

static void report(const struct launches *l, struct launches_report *out)
{
    *out = (struct launches_report){ .cluster = l->dictionary.cluster,
                                     .shape = l->dictionary.shape,
                                     .launches = l->now.number,
                                     .ranges = count_wanted(l),
                                     .decided = count_ranges(l, RANGE_DECIDED) - count_barren(l),
                                     .given_up = count_ranges(l, RANGE_GIVEN_UP),
                                     .steps = l->watch.least };
    for (size_t w = 0; w < l->way_count; w++)
        out->ways += l->ways[w].launches > 0;
}

static void close_launches(struct launches *l)
{
    store_close(l->dictionary.store);
    for (size_t i = 0; i < l->range_count; i++) {
        launch_range_close(l->ranges[i]);
        free(l->ranges[i]);
    }
    free(l->ranges);
    free(l->pins.rows);
    free(l->ways);
    free(l);
}

static int tune(struct launches *l, const struct live_setup *setup)
{
    char *command;
    int rc, way;

    TRY(launch_command(l->options->exec, l->space, l->space->usual, &command));
    free(command);
    TRY(list_arms(l, setup));
    TRY(open_store(l, setup));
    for (rc = OK; !rc && (way = next_way(l)) >= 0;)
        rc = launch(l, (uint32_t)way);
    for (size_t i = 0; i < l->range_count && rc == ERR_CUT; i++)
        TRY(launch_range_next(l->ranges[i]));
    return rc;
}

int launches_tune(struct session *session, const struct live_setup *setup,
                  const struct tune_options *options, struct launches_report *out)
{
    uint32_t steps = options->launch_steps;
    struct launches *l = calloc(1, sizeof(*l));
    int rc, said = OK;

    if (!l)
        return fail(ERR_NOMEM, "launches");
    *l = (struct launches){ .session = session,
                            .setup = setup,
                            .space = session->space,
                            .options = options,
                            .watch = { .least = steps ? steps : LAUNCH_STEPS_LEAST },
                            .dictionary = { .window = setup->window,
                                            .declared = session->space,
                                            .arms = l->arms,
                                            .effort = setup->effort,
                                            .harm = setup->harm,
                                            .margin = setup->margin } };
    *out = (struct launches_report){ 0 };
    l->now.way_of = l->way_of;
    session->ops = &ops;
    session->self = l;
    rc = tune(l, setup);
    if (l->run.id) {
        said = end_run(l, rc);
        report(l, out);
    }
    close_launches(l);
    return rc ? rc : said;
}
