/* Decides the buckets of a space by launches of one program: which plan each range wants next, and
 * which plan, or which values, are to blame for a launch that failed. */
#include "tune_launches.h"

#include "array.h"
#include "host.h"
#include "launch_bucket.h"
#include "launch_table.h"
#include "measuring_run.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct launch_tuning {
    struct launches launches;
    const struct table_setup *setup;
    const struct tune_options *options;
    struct search_setup search;
    struct dictionary dictionary; /* that of each range, but for its search */
    struct moe_plan arms[SEARCH_ARMS_MAX];
    struct run run;
    uint32_t steps;  /* that make a sample in the launch under way */
    uint32_t barren; /* launches in a row that failed between steps */
    char silent_end[sizeof(((struct launch_end *)0)->how)]; /* of a first launch without a word */
    int arm; /* of the launch under way: the plan it was told last */

    /* Where programs are started in several values: which of them is best for all buckets together.
     * Then each range decides by itself among the plans of that one, if it is the default's. */
    struct launch_decision *choice;  /* NULL: there is one way */
    uint32_t apart[SEARCH_ARMS_MAX]; /* of plans from the default one */
    double *weights;                 /* by bucket: as launch_weights() has them */
    size_t weight_count;
    bool settled;
    struct launch_result best;     /* once it is settled */
    enum decision_purpose purpose; /* of the launch under way */
};

/* ---- buckets */

static struct launch_bucket *range_at(const struct launch_tuning *t, size_t i)
{
    return launch_bucket_of(t->launches.buckets[i]);
}

/* How often a step of the range is taken, as a share of the most.  One that no trainer asked for is
 * decided all the same, and counts for nothing beside the others. */
static double weight_of(const struct launch_tuning *t, uint32_t bucket)
{
    static const double unasked = 1e-6;
    double most = 0;

    for (size_t i = 0; i < t->weight_count; i++)
        most = fmax(most, t->weights[i]);
    return fmax(t->weights[bucket] / most, unasked);
}

static int add_range(struct launch_tuning *t, uint32_t bucket)
{
    struct launches *l = &t->launches;
    struct launch_bucket *r = calloc(1, sizeof(*r));

    if (!r)
        return fail(ERR_NOMEM, "a range");
    TRY(launches_add(l, &r->watched));
    TRY(launch_bucket_open(r, &t->dictionary, bucket, &t->search));
    for (int arm = 0; arm < (int)t->dictionary.arm_count; arm++)
        if (bucket_count(&r->bucket, arm))
            l->values[l->values_of[arm]].runs = true; /* as its samples say */
    /* What never comes up for other buckets does not for this one. */
    for (int arm = 0; arm < (int)t->dictionary.arm_count; arm++)
        if (l->values[l->values_of[arm]].broken)
            TRY(launch_bucket_fail(r, arm, TRIAL_CRASHED, "no launch with these values comes up"));
    r->demand = bucket_demand(t->setup, bucket);
    if (launch_bucket_pin(r))
        return OK;
    if (!t->choice)
        return launch_bucket_begin(r);
    return t->settled ? launch_bucket_part(r, l->values_of, (uint32_t)t->best.launch)
                      : launch_bucket_join(r, t->choice, weight_of(t, bucket));
}

static void count_in_row(struct launch_tuning *t)
{
    t->run.row.buckets_done = launches_count(&t->launches, BUCKET_DECIDED);
    t->run.row.buckets_planned = launches_wanted(&t->launches);
}

static int write_run(struct launch_tuning *t)
{
    count_in_row(t);
    return run_write(&t->run);
}

/* ---- what a launch is to show */

static int add(void *self, uint32_t bucket)
{
    struct launch_tuning *t = self;

    TRY(add_range(t, bucket));
    launch_bucket_reset(range_at(t, t->launches.bucket_count - 1), &t->launches.now, t->purpose);
    launch_bucket_look(range_at(t, t->launches.bucket_count - 1), &t->launches.now);
    return OK;
}

/* ---- which launch is best */

/* What earlier launches showed, launch by launch. */
struct recalled {
    int64_t run;
    uint32_t round, way;
    struct launch_bucket *range;
    const struct counted_sample *sample;
    size_t order;
};

static int by_launch(const void *a, const void *b)
{
    const struct recalled *x = a, *y = b;

    if (x->run != y->run)
        return (x->run > y->run) - (x->run < y->run);
    if (x->round != y->round)
        return (x->round > y->round) - (x->round < y->round);
    if (x->way != y->way)
        return (x->way > y->way) - (x->way < y->way);
    return (x->order > y->order) - (x->order < y->order);
}

static int recall_launches(struct launch_tuning *t)
{
    struct recalled *all = NULL;
    size_t count = 0, i = 0;
    int rc = OK;

    for (size_t n = 0; n < t->launches.bucket_count; n++) {
        struct launch_bucket *r = range_at(t, n);

        for (uint32_t k = 0; k < r->bucket.sample_count && r->place >= 0; k++) {
            const struct counted_sample *s = &r->bucket.samples[k];
            struct recalled fresh = {
                s->run, s->round, t->launches.values_of[s->arm], r, s, count
            };

            ARRAY_APPEND(all, count, fresh);
        }
    }
    if (count)
        qsort(all, count, sizeof(*all), by_launch);
    while (i < count && !rc) {
        const struct recalled *first = &all[i];
        enum decision_purpose purpose = DECISION_SEARCH;
        bool chosen =
            first->round >= LAUNCHES_AFTER_CHOICE; /* before it: it tells of plans alone */
        size_t end = i;

        for (; end < count && all[end].run == first->run && all[end].round == first->round &&
               all[end].way == first->way;
             end++)
            if (all[end].sample->kind == SAMPLE_CONTEST)
                purpose = DECISION_SAFETY;
        if (!chosen)
            launch_decision_begin(t->choice, (int)first->way, purpose);
        for (; i < end && !rc; i++)
            rc = launch_decision_tell(t->choice, all[i].range->place, all[i].sample->arm,
                                      all[i].sample->ns);
        if (!chosen && !rc)
            rc = launch_decision_end(t->choice);
    }
    free(all);
    return rc;
}

/* The best plan of each launch in each range, for jobs that start under other values. */
static int write_launches(struct launch_tuning *t)
{
    const struct declaration *space = t->launches.session->buckets.declared;
    struct dictionary *d = &t->dictionary;

    TRY(store_launches_end(d->store, d->cluster, d->shape, d->buckets.window));
    for (size_t way = 0; way < t->launches.values_count; way++)
        for (size_t i = 0; i < t->launches.bucket_count; i++) {
            const struct launch_bucket *r = range_at(t, i);
            int arm = r->place < 0 ? -1 : launch_decision_live_arm(t->choice, (int)way, r->place);
            struct launch_row row = { .cluster = d->cluster,
                                      .shape = d->shape,
                                      .window = d->buckets.window,
                                      .bucket = r->bucket.key.bucket };
            struct normal level;

            if (arm < 0 || !bucket_count(&r->bucket, arm))
                continue;
            level = launch_decision_level(t->choice, r->place, arm);
            declaration_launch_words(space, t->arms[arm].choice, row.launch);
            row.plan = t->arms[arm];
            row.time_us = exp(level.mean) * 1e-3;
            row.sd = level.sd;
            row.samples = bucket_count(&r->bucket, arm);
            TRY(store_launch_put(d->store, &row));
        }
    return OK;
}

/* What the launch is worth to the table as a whole. */
static int write_standing(struct launch_tuning *t)
{
    const struct launch_result *best = &t->best;
    struct dictionary *d = &t->dictionary;
    struct standing_row row = { .cluster = d->cluster,
                                .shape = d->shape,
                                .run = d->run,
                                .window = d->buckets.window,
                                .gain = best->over_default,
                                .static_gain = best->over_fixed,
                                .rounds = best->pairs,
                                .launches = best->launches,
                                .kappa = 1,
                                .decided_s = time(NULL) };

    if (!isnan(row.static_gain.value))
        row.static_plan = t->arms[best->fixed_arm];
    return store_standing(d->store, &row);
}

/* The buckets have chosen their launch.  Where that is the default's nothing is proven by it: each
 * range decides by itself among its plans. */
static int settle(struct launch_tuning *t)
{
    struct launches *l = &t->launches;

    t->settled = true;
    if (!launch_decision_result(t->choice, &t->best)) {
        t->best = (struct launch_result){ .launch = (int)l->values_of[t->dictionary.default_arm],
                                          .doubt = { .arm = -1 } };
        for (size_t i = 0; i < l->bucket_count; i++)
            if (range_at(t, i)->choice)
                return fail(ERR_LAUNCH, "no launch runs all ranges: each has one in which no plan "
                                        "runs, as moetune show --trials says");
        return OK;
    }
    TRY(write_launches(t));
    for (size_t i = 0; i < l->bucket_count; i++) {
        struct launch_bucket *r = range_at(t, i);

        if (r->place < 0)
            continue;
        /* One that the program did not ask for this time has its plans from earlier launches. */
        if (t->best.launch == (int)l->values_of[t->dictionary.default_arm] &&
            r->watched.state == BUCKET_OPEN)
            TRY(launch_bucket_part(r, l->values_of, (uint32_t)t->best.launch));
        else
            TRY(launch_bucket_follow(r, t->choice, l->values_of, t->best.launch));
    }
    if (t->best.launch != (int)l->values_of[t->dictionary.default_arm] && t->best.pairs)
        TRY(write_standing(t));
    return store_publish(t->dictionary.store);
}

/* What a start costs beside what it may save: a table serves some hours of steps, the more the
 * more effort it is given. */
static double cost_of_launch(const struct launch_tuning *t)
{
    static const double served_s[] = { 9000, 36000, 144000 };
    const struct launch_cost *cost = &t->launches.cost;
    uint32_t launches = t->launches.now.number;

    return launches ? (cost->outside_ns + cost->inside_ns) * 1e-9 / launches /
                          served_s[t->options->effort]
                    : 0;
}

static int vote(void *self)
{
    struct launch_tuning *t = self;
    struct launches *l = &t->launches;
    uint32_t open = 0;

    if (t->choice && !t->settled && l->bucket_count) {
        int way;

        launch_decision_set_cost(t->choice, cost_of_launch(t));
        way = launch_decision_next(t->choice, &t->purpose);
        if (way >= 0) {
            l->values[way].votes = 1;
            return OK;
        }
        TRY(settle(t));
    }
    for (size_t i = 0; i < t->launches.bucket_count; i++) {
        const struct launch_bucket *r = range_at(t, i);

        if (r->watched.state != BUCKET_OPEN)
            continue;
        l->values[l->values_of[r->wanted]].votes += (double)r->demand;
        open++;
    }
    /* Ranges that nobody asked for yet show under the default. */
    if (!open && (!l->now.number || !t->launches.bucket_count))
        l->values[l->values_of[t->dictionary.default_arm]].votes = 1;
    return OK;
}

static int begin(void *self, const char *words)
{
    struct launch_tuning *t = self;
    struct launches *l = &t->launches;
    struct watched all = { .samples = 0 };

    if (t->choice && !t->settled)
        launch_decision_begin(t->choice, (int)l->now.values, t->purpose);
    for (size_t i = 0; i < t->launches.bucket_count; i++) {
        watched_add(&all, &range_at(t, i)->watched);
        launch_bucket_reset(range_at(t, i), &l->now, t->purpose);
        launch_bucket_look(range_at(t, i), &l->now);
    }
    l->watch.looking = l->now.number == 1;
    t->steps = t->options->launch_steps ? t->options->launch_steps : launch_pace(&l->cost, &all);
    l->in_doubt = *t->silent_end && l->now.number == 2;
    text_put(t->run.row.now, sizeof(t->run.row.now), "launch %" PRIu32 ": %s", l->now.number,
             words);
    return write_run(t);
}

static int best_here(const struct launch_tuning *t, const struct launch_bucket *r)
{
    return launch_bucket_best(r, &t->launches.now, t->launches.values[t->launches.now.values].safe);
}

static enum launch_wish wish_of(void *self, struct watched *range)
{
    const struct launch_tuning *t = self;
    const struct launch_bucket *r = launch_bucket_of(range);
    enum launch_wish wish = launch_bucket_wish(r, &t->launches.now);
    int arm;

    if (wish)
        return wish;
    /* Nothing is known to run here, so other plans of this launch may fail alike: to ask for them
     * now is cheaper than a launch for each. */
    arm = r->failing && r->watched.state == BUCKET_OPEN ? best_here(t, r) : -1;
    return arm >= 0 && r->bucket.attempts[arm].usable && !bucket_count(&r->bucket, arm)
               ? WISH_TRIAL
               : WISH_NOTHING;
}

static int choose(void *self, struct watched *range, struct moe_plan *plan)
{
    struct launch_tuning *t = self;
    struct launches *l = &t->launches;
    const struct launch_bucket *r = launch_bucket_of(range);
    const struct launch_values *next_values = &l->values[l->now.values];
    /* A launch that came to nothing under these values shows first whether it runs at all. */
    bool in_doubt = next_values->stillborn && !next_values->runs;

    l->sampled = launch_bucket_wants(r, &l->now) && (!in_doubt || r->wanted == next_values->safe);
    t->arm = l->sampled ? r->wanted : best_here(t, r);
    if (t->arm < 0)
        return UNSUPPORTED;
    *plan = t->arms[t->arm];
    return OK;
}

/* ---- what it shows */

static int keep_memory(struct launch_tuning *t, struct watched *range, const struct said *told)
{
    struct attempt *a = &launch_bucket_of(range)->bucket.attempts[t->arm];

    return told->memory_bytes ? ledger_memory(t->dictionary.store, a, told->memory_bytes) : OK;
}

static int step(void *self, struct watched *range, const struct said *told)
{
    struct launch_tuning *t = self;
    struct launches *l = &t->launches;
    struct launch_bucket *r = launch_bucket_of(range);
    uint32_t samples = range->samples;

    TRY(keep_memory(t, range, told));
    r->failing = false;
    if (!l->sampled || !launch_bucket_wants(r, &l->now) || r->wanted != t->arm)
        return OK;
    t->run.row.samples_search++;
    TRY(launch_bucket_step(r, &l->now, told->ns, t->steps));
    return range->samples == samples ? OK : write_run(t);
}

static int failed(void *self, struct watched *range, const struct said *told)
{
    struct launch_tuning *t = self;
    struct launch_bucket *r = launch_bucket_of(range);

    TRY(keep_memory(t, range, told));
    r->failing = true;
    TRY(launch_bucket_fail(r, t->arm, t->launches.session->failed_as, told->reason));
    launch_bucket_look(r, &t->launches.now);
    return store_commit(t->dictionary.store);
}

/* Steps that were told are a sample, if they are enough, whatever ended the launch.  Where time was
 * up half as many are: the next run may come no further. */
static int gather(void *self, bool cut)
{
    struct launch_tuning *t = self;
    uint32_t least = t->launches.watch.least;

    for (size_t i = 0; i < t->launches.bucket_count; i++)
        TRY(launch_bucket_end(range_at(t, i), &t->launches.now, cut ? (least + 1) / 2 : least));
    return OK;
}

/* ---- who is to blame for a launch that failed */

/* Programs die by chance, too: of a plan, or of a way to start, that died less often than this it
 * is tried again, in its turn. */
enum { DEATHS_LEAST = 4 };

/* So many deaths make it give up what ran before: only where it dies much more often than it works.
 */
static uint32_t deaths_most(uint32_t worked)
{
    return worked < DEATHS_LEAST / 2 ? DEATHS_LEAST : 2 * worked + 1;
}

/* Blames a plan under which the program died or fell silent. */
static int blame_plan(struct launch_tuning *t, const struct launch_end *end, const char *why)
{
    struct launch_bucket *r = launch_bucket_of(t->launches.range);
    uint32_t deaths = ++r->bucket.attempts[t->arm].kills;
    uint32_t most = deaths_most(bucket_count(&r->bucket, t->arm));
    bool forgiven = !end->hung && deaths < most;
    char again[64] = "";

    if (forgiven)
        snprintf(again, sizeof(again), "; once more (failure %" PRIu32 " of %" PRIu32 ")", deaths,
                 most);
    note("%s, %s: %s%s", SESSION_RANGE(t->launches.session, r->bucket.key.bucket),
         PLAN_WORDS(&t->arms[t->arm]), why, again);
    if (forgiven)
        return OK;
    if (t->arm == t->dictionary.default_arm) /* which ends the run, and is not held against it */
        return fail(ERR_LAUNCH, "the default plan itself does not run: %s", why);
    TRY(launch_bucket_fail(r, t->arm, end->hung ? TRIAL_TIMEOUT : TRIAL_CRASHED, why));
    TRY(store_commit(t->dictionary.store));
    t->barren = launches_learnt(&t->launches) ? 0 : t->barren + 1; /* it had failed before */
    return t->barren < LAUNCH_PATIENCE
               ? OK
               : fail(ERR_LAUNCH, "the program failed %d times in a row and showed nothing: %s",
                      LAUNCH_PATIENCE, why);
}

/* Blames values under which nothing ever ran.  They may be the reason, or the plan that came first:
 * only after some launches each plan with them fails, in every range. */
static int blame_way(struct launch_tuning *t, const struct launch_end *end, const char *why)
{
    struct launches *l = &t->launches;
    struct launch_values *next_values = &l->values[l->now.values];
    char words[DECLARATION_PLAN_BYTES];

    if (++next_values->stillborn < DEATHS_LEAST) {
        if (l->session->running)
            launch_bucket_of(l->range)->bucket.attempts[t->arm].kills++;
        note("launch %" PRIu32 ": %s, before a step was timed; once more (failure %" PRIu32
             " of %d)",
             l->now.number, why, next_values->stillborn, DEATHS_LEAST);
        return OK;
    }
    next_values->broken = true;
    declaration_launch_words(l->session->buckets.declared, t->arms[next_values->arm].choice, words);
    if (next_values == &l->values[l->values_of[t->dictionary.default_arm]])
        return fail(ERR_LAUNCH, "the default plan itself does not run (%s): %s", words, why);
    note("%s: %s, %d times before a step was timed: no plan with it is tried", words, why,
         DEATHS_LEAST);
    for (size_t i = 0; i < t->launches.bucket_count; i++)
        for (int arm = 0; arm < (int)t->dictionary.arm_count; arm++)
            if (l->values_of[arm] == l->now.values)
                TRY(launch_bucket_fail(range_at(t, i), arm,
                                       end->hung ? TRIAL_TIMEOUT : TRIAL_CRASHED, why));
    return OK;
}

static int judge_failure(struct launch_tuning *t, const struct launch_end *end)
{
    struct launches *l = &t->launches;
    char why[LAUNCH_WHY_BYTES];

    /* The first two launches died alike, before the program wrote a line: nothing that could be
     * tried changes that. */
    if (!end->hung && !l->session->spoken && l->now.number == 1)
        memcpy(t->silent_end, end->how, sizeof(t->silent_end));
    if (!end->hung && !l->session->spoken && l->now.number == 2 && !strcmp(t->silent_end, end->how))
        return fail(ERR_LAUNCH, "%s, twice before it asked anything: %s%s%s", end->how,
                    TEXT_SHORT(t->options->exec, 300), *end->last_lines ? "; it wrote: " : "",
                    end->last_lines);
    launch_why(l->session, end, why);
    if (!l->values[l->now.values].runs)
        return blame_way(t, end, why);
    if (l->session->running)
        return blame_plan(t, end, why);
    t->barren = launches_learnt(l) ? 0 : t->barren + 1;
    if (t->barren >= LAUNCH_PATIENCE)
        return fail(ERR_LAUNCH, "the program failed outside of steps %d times in a row: %s",
                    LAUNCH_PATIENCE, why);
    note("launch %" PRIu32 ": %s, %s", l->now.number, why,
         l->session->asked ? "between two steps" : "before it asked anything");
    return OK;
}

static int ended(void *self, const struct launch_end *failure)
{
    struct launch_tuning *t = self;

    if (failure)
        TRY(judge_failure(t, failure));
    else
        t->barren = 0;
    if (t->choice && !t->settled)
        TRY(launch_decision_end(t->choice));
    for (size_t i = 0; i < t->launches.bucket_count; i++) {
        struct launch_bucket *r = range_at(t, i);

        TRY(launch_bucket_next(r));
        if (r->choice && !launch_bucket_runs(r)) /* anywhere: its trials say why */
            r->watched.state = BUCKET_DECIDED;
        if (r->choice && r->watched.state != BUCKET_OPEN) {
            launch_decision_set_weight(t->choice, r->place, 0);
            r->choice = NULL;
        }
    }
    return OK;
}

static const struct launch_client client = { .add = add,
                                             .vote = vote,
                                             .begin = begin,
                                             .wish = wish_of,
                                             .choose = choose,
                                             .step = step,
                                             .failed = failed,
                                             .gather = gather,
                                             .ended = ended };

/* ---- the run */

static int recall_range(void *self, const struct trial_row *trial)
{
    struct launch_tuning *t = self;

    for (size_t i = 0; i < t->launches.bucket_count; i++)
        if (range_at(t, i)->bucket.key.bucket == trial->key.bucket)
            return OK;
    return add_range(t, trial->key.bucket);
}

static int open_choice(struct launch_tuning *t)
{
    const struct dictionary *d = &t->dictionary;
    const struct launch_decision_setup setup = { .arm_count = d->arm_count,
                                                 .launch_of = t->launches.values_of,
                                                 .launch_count = t->launches.values_count,
                                                 .default_arm = d->default_arm,
                                                 .distance = t->apart,
                                                 .harm = t->setup->harm,
                                                 .margin = t->setup->margin,
                                                 .seed = t->setup->seed };

    if (t->launches.values_count < 2)
        return OK;
    TRY(launch_weights(&t->options->traffic, &t->setup->shape, t->setup->window, &t->weights,
                       &t->weight_count));
    for (size_t arm = 0; arm < d->arm_count; arm++)
        t->apart[arm] =
            declaration_distance(t->launches.session->buckets.declared, t->arms[arm].choice);
    return launch_decision_open(&setup, &t->choice);
}

/* The launch of all entries of the table. */
struct table_launch {
    const struct launch_tuning *tuning;
    int way; /* -1: there is none, -2: there are several */
};

static int note_told(void *self, const struct entry_row *e)
{
    struct table_launch *told = self;
    const struct launch_tuning *t = told->tuning;
    int arm = dictionary_arm(&t->dictionary, &e->plan);
    int way = arm < 0 ? -2 : (int)t->launches.values_of[arm];

    if (e->window == t->dictionary.buckets.window)
        told->way = told->way == -1 || told->way == way ? way : -2;
    return OK;
}

/* Ranges that trainers missed are decided inside the launch that the table tells: a few of them say
 * little of what is best for all. */
static int stay_in_launch(struct launch_tuning *t)
{
    struct table_launch told = { t, -1 };
    const struct dictionary *d = &t->dictionary;

    if (!t->choice || !t->setup->demands)
        return OK;
    TRY(store_entries(d->store, d->cluster, d->shape, note_told, &told));
    t->settled = told.way >= 0;
    t->best = (struct launch_result){ .launch = told.way, .doubt = { .arm = -1 } };
    return OK;
}

static int tune(struct launch_tuning *t)
{
    static const struct run_pace pace = { .alive_every_us = 10e6 }; /* each sample is committed */
    const struct table_setup *setup = t->setup;
    struct dictionary *d = &t->dictionary;
    struct cluster cluster;
    int rc;

    TRY(table_arms(setup, d, t->arms));
    t->launches.plan_count = d->arm_count;
    TRY(launches_open(&t->launches));
    TRY(open_choice(t));
    TRY(live_cluster(setup, &cluster));
    t->search = table_search(setup, d, &cluster);
    TRY(store_open(setup->path, setup->store_flags, &d->store));
    t->run = (struct run){ .row = { .now = "launching" }, .pace = pace };
    TRY(table_begin(setup, &cluster, "blind", d, &t->run));
    if (t->options->retune)
        TRY(store_expire(d->store, d->cluster, d->shape, setup->window, 0, UINT32_MAX,
                         "to be measured again"));
    TRY(stay_in_launch(t));
    /* Ranges that are asked for, then those that earlier runs tried something in. */
    for (size_t i = 0; i < setup->demand_count; i++)
        TRY(add_range(t, setup->demands[i].bucket));
    TRY(store_trials(d->store, d->cluster, d->shape, setup->window, UINT32_MAX, recall_range, t));
    if (t->choice && !t->settled)
        TRY(recall_launches(t));
    rc = launches_run(&t->launches);
    for (size_t i = 0; i < t->launches.bucket_count && rc == ERR_CUT; i++)
        TRY(launch_bucket_next(range_at(t, i)));
    return rc;
}

static void report(struct launch_tuning *t, struct launches_report *out)
{
    const struct launches *l = &t->launches;

    *out = (struct launches_report){ .cluster = t->dictionary.cluster,
                                     .shape = t->dictionary.shape,
                                     .launches = t->launches.now.number,
                                     .buckets = launches_wanted(l),
                                     .decided = launches_count(l, BUCKET_DECIDED),
                                     .given_up = launches_count(l, BUCKET_GIVEN_UP),
                                     .steps = t->launches.watch.least,
                                     .doubt = { .arm = -1 } };
    if (t->settled && t->best.doubt.arm >= 0) {
        out->doubt = t->best.doubt;
        declaration_launch_words(l->session->buckets.declared,
                                 t->arms[l->values[out->doubt.arm].arm].choice, out->doubted);
    }
    for (size_t w = 0; w < t->launches.values_count; w++)
        out->values += t->launches.values[w].launches > 0;
    for (size_t i = 0; i < t->launches.bucket_count; i++) {
        const struct bucket *b = &range_at(t, i)->bucket;

        if (range_at(t, i)->watched.state != BUCKET_DECIDED || b->known)
            continue;
        /* The range came to its end without an entry: no plan runs there. */
        out->decided--;
        note("%s is not decided: no plan runs there; the default one: %s",
             SESSION_RANGE(l->session, b->key.bucket),
             b->attempts[t->dictionary.default_arm].trial.message);
    }
}

int tune_launches(struct session *session, const struct table_setup *setup,
                  const struct tune_options *options, struct launches_report *out)
{
    uint32_t steps = options->launch_steps;
    struct launch_tuning *t = calloc(1, sizeof(*t));
    int rc, said = OK;

    if (!t)
        return fail(ERR_NOMEM, "launches");
    *t = (struct launch_tuning){
        .launches = { .client = &client,
                      .self = t,
                      .session = session,
                      .run = &t->run,
                      .plans = t->arms,
                      .command = options->exec,
                      .sides = 1,
                      .watch = { .least = steps ? steps : LAUNCH_STEPS_LEAST } },
        .setup = setup,
        .options = options,
    };
    *out = (struct launches_report){ 0 };
    rc = tune(t);
    if (t->run.row.id) {
        count_in_row(t);
        said = run_end(&t->run, rc, NULL, true);
        report(t, out);
    }
    store_close(t->dictionary.store);
    for (size_t i = 0; i < t->launches.bucket_count; i++) {
        launch_bucket_close(range_at(t, i));
        free(range_at(t, i));
    }
    dictionary_close(&t->dictionary);
    launches_close(&t->launches);
    launch_decision_close(t->choice);
    free(t->weights);
    free(t);
    return rc ? rc : said;
}
