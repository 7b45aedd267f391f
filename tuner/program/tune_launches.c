/* Decides the buckets of a declared space by launches of one program.  It votes for the next
 * launch, and says which plan, or which launch values, are to blame for a launch that failed. */
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

/* One run of tune_launches().  tune_launches() allocates and frees it. */
struct launch_tuning {
    struct launches launches;
    const struct table_setup *setup;
    const struct tune_options *options;
    struct search_setup search;
    struct dictionary dictionary; /* copied by each bucket, which has a search of its own */
    struct moe_plan arms[SEARCH_ARMS_MAX];
    struct run run;
    uint32_t sample_steps; /* steps of a sample, in the launch under way */
    /* Launches in a row that failed between steps and showed nothing. */
    uint32_t fruitless_launches;
    /* How the first launch ended, if the program wrote no line. */
    char silent_end[sizeof(((struct launch_end *)0)->how)]; /* as launch_end.how */
    int arm; /* the last plan that the launch under way was answered */

    /* With restart axes the buckets first decide together which launch values are best.  Then each
     * bucket decides by itself among the plans with these values, if they are the default ones. */
    struct launch_decision *joint;       /* NULL: there is only one set of launch values */
    uint32_t distances[SEARCH_ARMS_MAX]; /* by arm: in how many axes it differs from the default */
    double *weights;                     /* by bucket: of launch_weights() */
    size_t weight_count;
    bool values_chosen;            /* the joint decision is over, or an earlier table decides */
    struct launch_result chosen;   /* once values_chosen */
    enum decision_purpose purpose; /* of the launch under way, in the joint decision */
};

/* ---- buckets */

/* Returns the i-th bucket in the order of launches_add(). */
static struct launch_bucket *bucket_at(const struct launch_tuning *t, size_t i)
{
    return launch_bucket_of(t->launches.buckets[i]);
}

/* Returns how often a step of the bucket is taken, as a share of the most frequent bucket.  A
 * bucket that no trainer asked for is decided, too, with hardly any weight. */
static double weight_of(const struct launch_tuning *t, uint32_t bucket)
{
    static const double unasked = 1e-6;
    double weight_max = 0;

    for (size_t i = 0; i < t->weight_count; i++)
        weight_max = fmax(weight_max, t->weights[i]);
    return fmax(t->weights[bucket] / weight_max, unasked);
}

/* Adds a bucket with what is known of it, and opens its decision. */
static int add_bucket(struct launch_tuning *t, uint32_t bucket)
{
    struct launches *l = &t->launches;
    struct launch_bucket *lb = calloc(1, sizeof(*lb));

    if (!lb)
        return fail(ERR_NOMEM, "a bucket");
    TRY(launches_add(l, &lb->watched));
    TRY(launch_bucket_open(lb, &t->dictionary, bucket, &t->search));
    for (int arm = 0; arm < (int)t->dictionary.arm_count; arm++)
        if (bucket_count(&lb->bucket, arm))
            l->values[l->values_of[arm]].runs = true; /* because there are samples */
    /* Launch values that were given up cannot run here either. */
    for (int arm = 0; arm < (int)t->dictionary.arm_count; arm++)
        if (l->values[l->values_of[arm]].broken)
            TRY(launch_bucket_fail(lb, arm, TRIAL_CRASHED, "no launch with these values comes up"));
    lb->demand = bucket_demand(t->setup, bucket);
    if (launch_bucket_apply_pin(lb))
        return OK;
    if (!t->joint)
        return launch_bucket_begin(lb);
    return t->values_chosen
               ? launch_bucket_decide_within(lb, l->values_of, (uint32_t)t->chosen.launch)
               : launch_bucket_join(lb, t->joint, weight_of(t, bucket));
}

/* Counts the decided and the wanted buckets in the row of the run. */
static void count_buckets(struct launch_tuning *t)
{
    t->run.row.buckets_done = launches_count(&t->launches, BUCKET_DECIDED);
    t->run.row.buckets_planned = launches_wanted(&t->launches);
}

/* Writes the row of the run, with its numbers of buckets. */
static int write_run(struct launch_tuning *t)
{
    count_buckets(t);
    return run_write(&t->run);
}

/* ---- a bucket that the program asks for */

static int add_new_bucket(void *self, uint32_t bucket)
{
    struct launch_tuning *t = self;
    struct launch_bucket *lb;

    TRY(add_bucket(t, bucket));
    lb = bucket_at(t, t->launches.bucket_count - 1);
    launch_bucket_begin_launch(lb, &t->launches.now, t->purpose);
    launch_bucket_use_launch(lb, &t->launches.now);
    return OK;
}

/* ---- the joint decision about the launch values */

/* A sample of an earlier launch, as a plain value that borrows its bucket.  Launches are told apart
 * by run, round and launch values. */
struct recalled_sample {
    int64_t run;
    uint32_t round, values;
    struct launch_bucket *shown;
    const struct counted_sample *sample;
    size_t order; /* in which it was read: qsort() must keep it */
};

static int by_launch(const void *a, const void *b)
{
    const struct recalled_sample *a_sample = a, *b_sample = b;

    if (a_sample->run != b_sample->run)
        return (a_sample->run > b_sample->run) - (a_sample->run < b_sample->run);
    if (a_sample->round != b_sample->round)
        return (a_sample->round > b_sample->round) - (a_sample->round < b_sample->round);
    if (a_sample->values != b_sample->values)
        return (a_sample->values > b_sample->values) - (a_sample->values < b_sample->values);
    return (a_sample->order > b_sample->order) - (a_sample->order < b_sample->order);
}

/* Tells the joint decision the samples of earlier launches, launch by launch. */
static int recall_launches(struct launch_tuning *t)
{
    struct recalled_sample *samples = NULL;
    size_t count = 0, i = 0;
    int rc = OK;

    for (size_t bucket = 0; bucket < t->launches.bucket_count; bucket++) {
        struct launch_bucket *lb = bucket_at(t, bucket);

        for (uint32_t sample_index = 0;
             sample_index < lb->bucket.sample_count && lb->joint_index >= 0; sample_index++) {
            const struct counted_sample *sample = &lb->bucket.samples[sample_index];
            struct recalled_sample recalled = { .run = sample->run,
                                                .round = sample->round,
                                                .values = t->launches.values_of[sample->arm],
                                                .shown = lb,
                                                .sample = sample,
                                                .order = count };

            ARRAY_APPEND(samples, count, recalled);
        }
    }
    if (count)
        qsort(samples, count, sizeof(*samples), by_launch);
    while (i < count && !rc) {
        const struct recalled_sample *first = &samples[i];
        enum decision_purpose purpose = DECISION_SEARCH;
        /* A launch after the joint decision tells it about plans, but not about launch values. */
        bool after_choice = first->round >= LAUNCHES_AFTER_CHOICE;
        size_t end = i;

        for (; end < count && samples[end].run == first->run &&
               samples[end].round == first->round && samples[end].values == first->values;
             end++)
            if (samples[end].sample->kind == SAMPLE_CONTEST)
                purpose = DECISION_SAFETY;
        if (!after_choice)
            launch_decision_begin(t->joint, (int)first->values, purpose);
        for (; i < end && !rc; i++)
            rc = launch_decision_tell(t->joint, samples[i].shown->joint_index,
                                      samples[i].sample->arm, samples[i].sample->ns);
        if (!after_choice && !rc)
            rc = launch_decision_end(t->joint);
    }
    free(samples);
    return rc;
}

/* Writes the best plan of each set of launch values in each bucket, for jobs that start with other
 * values. */
static int write_best_plans(struct launch_tuning *t)
{
    const struct declaration *space = t->launches.session->buckets.declared;
    struct dictionary *d = &t->dictionary;

    TRY(store_launches_end(d->store, d->cluster, d->shape, d->buckets.window));
    for (size_t values = 0; values < t->launches.values_count; values++)
        for (size_t i = 0; i < t->launches.bucket_count; i++) {
            const struct launch_bucket *lb = bucket_at(t, i);
            int arm = lb->joint_index < 0
                          ? -1
                          : launch_decision_live_arm(t->joint, (int)values, lb->joint_index);
            struct launch_row row = { .cluster = d->cluster,
                                      .shape = d->shape,
                                      .window = d->buckets.window,
                                      .bucket = lb->bucket.key.bucket };
            struct normal level;

            if (arm < 0 || !bucket_count(&lb->bucket, arm))
                continue;
            level = launch_decision_level(t->joint, lb->joint_index, arm);
            declaration_launch_words(space, t->arms[arm].choice, row.launch);
            row.plan = t->arms[arm];
            row.time_us = exp(level.mean) * 1e-3;
            row.sd = level.sd;
            row.samples = bucket_count(&lb->bucket, arm);
            TRY(store_launch_put(d->store, &row));
        }
    return OK;
}

/* Writes what the chosen launch values save in the table as a whole. */
static int write_standing(struct launch_tuning *t)
{
    const struct launch_result *best = &t->chosen;
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

/* Ends the joint decision.  With the default launch values each open bucket goes on to decide by
 * itself among their plans.  With others each bucket gets its best plan under them. */
static int adopt_values(struct launch_tuning *t)
{
    struct launches *l = &t->launches;

    t->values_chosen = true;
    if (!launch_decision_result(t->joint, &t->chosen)) {
        t->chosen = (struct launch_result){ .launch = (int)l->values_of[t->dictionary.default_arm],
                                            .doubt = { .arm = -1 } };
        for (size_t i = 0; i < l->bucket_count; i++)
            if (bucket_at(t, i)->joint)
                return fail(ERR_LAUNCH, "no launch values run all buckets: under each of them some "
                                        "bucket has no plan that runs; `moetune show --trials` "
                                        "names the reasons");
        return OK;
    }
    TRY(write_best_plans(t));
    for (size_t i = 0; i < l->bucket_count; i++) {
        struct launch_bucket *lb = bucket_at(t, i);

        if (lb->joint_index < 0)
            continue;
        /* A bucket that the program did not ask for in this run is decided by earlier launches. */
        if (t->chosen.launch == (int)l->values_of[t->dictionary.default_arm] &&
            lb->watched.state == BUCKET_OPEN)
            TRY(launch_bucket_decide_within(lb, l->values_of, (uint32_t)t->chosen.launch));
        else
            TRY(launch_bucket_adopt(lb, t->joint, l->values_of, t->chosen.launch));
    }
    if (t->chosen.launch != (int)l->values_of[t->dictionary.default_arm] && t->chosen.pairs)
        TRY(write_standing(t));
    return store_publish(t->dictionary.store);
}

/* Returns what a launch costs, as a share of the hours of steps that the table is expected to
 * serve.  More effort expects more hours. */
static double launch_cost_share(const struct launch_tuning *t)
{
    static const double served_s[] = { 9000, 36000, 144000 };
    const struct launch_cost *cost = &t->launches.cost;
    uint32_t launches = t->launches.now.number;

    if (!launches)
        return 0;
    return (cost->outside_ns + cost->inside_ns) * 1e-9 / launches / served_s[t->options->effort];
}

/* ---- the client of launches.h */

static int vote(void *self)
{
    struct launch_tuning *t = self;
    struct launches *l = &t->launches;
    uint32_t open = 0;

    if (t->joint && !t->values_chosen && l->bucket_count) {
        int values;

        launch_decision_set_cost(t->joint, launch_cost_share(t));
        values = launch_decision_next(t->joint, &t->purpose);
        if (values >= 0) {
            l->values[values].votes = 1;
            return OK;
        }
        TRY(adopt_values(t));
    }
    for (size_t i = 0; i < t->launches.bucket_count; i++) {
        const struct launch_bucket *lb = bucket_at(t, i);

        if (lb->watched.state != BUCKET_OPEN)
            continue;
        l->values[l->values_of[lb->wanted]].votes += (double)lb->demand;
        open++;
    }
    /* Nobody knows which buckets the program asks for: a default launch shows them. */
    if (!open && (!l->now.number || !t->launches.bucket_count))
        l->values[l->values_of[t->dictionary.default_arm]].votes = 1;
    return OK;
}

static int begin_launch(void *self, const char *words)
{
    struct launch_tuning *t = self;
    struct launches *l = &t->launches;
    struct watched_bucket pooled = { .samples = 0 };

    if (t->joint && !t->values_chosen)
        launch_decision_begin(t->joint, (int)l->now.values, t->purpose);
    for (size_t i = 0; i < t->launches.bucket_count; i++) {
        watched_pool(&pooled, &bucket_at(t, i)->watched);
        launch_bucket_begin_launch(bucket_at(t, i), &l->now, t->purpose);
        launch_bucket_use_launch(bucket_at(t, i), &l->now);
    }
    l->watch.exploring = l->now.number == 1;
    t->sample_steps =
        t->options->launch_steps ? t->options->launch_steps : launch_pace(&l->cost, &pooled);
    l->hold_errors = *t->silent_end && l->now.number == 2;
    text_put(t->run.row.now, sizeof(t->run.row.now), "launch %" PRIu32 ": %s", l->now.number,
             words);
    return write_run(t);
}

/* Returns the arm to run in a bucket that wants no sample now. */
static int best_arm_here(const struct launch_tuning *t, const struct launch_bucket *lb)
{
    return launch_bucket_best_arm(lb, &t->launches.now,
                                  t->launches.values[t->launches.now.values].nearest_arm);
}

static enum launch_wish wish_of(void *self, struct watched_bucket *watched)
{
    const struct launch_tuning *t = self;
    const struct launch_bucket *lb = launch_bucket_of(watched);
    enum launch_wish wish = launch_bucket_wish(lb, &t->launches.now);
    int arm;

    if (wish)
        return wish;
    /* The last plan failed, so other plans of this launch may fail, too.  To try them now is
     * cheaper than a launch for each. */
    arm = lb->failing && lb->watched.state == BUCKET_OPEN ? best_arm_here(t, lb) : -1;
    return arm >= 0 && lb->bucket.attempts[arm].usable && !bucket_count(&lb->bucket, arm)
               ? WISH_TRIAL
               : WISH_NOTHING;
}

static int choose_plan(void *self, struct watched_bucket *watched, struct moe_plan *plan)
{
    struct launch_tuning *t = self;
    struct launches *l = &t->launches;
    const struct launch_bucket *lb = launch_bucket_of(watched);
    const struct launch_values *values = &l->values[l->now.values];
    /* Launch values under which a launch failed first run the plan that is nearest to the default:
     * it shows whether they run at all. */
    bool uncertain = values->failures && !values->runs;

    l->sampled =
        launch_bucket_wants(lb, &l->now) && (!uncertain || lb->wanted == values->nearest_arm);
    t->arm = l->sampled ? lb->wanted : best_arm_here(t, lb);
    if (t->arm < 0)
        return UNSUPPORTED;
    *plan = t->arms[t->arm];
    return OK;
}

/* Writes the memory that the step needed, if the program told it. */
static int write_memory(struct launch_tuning *t, struct watched_bucket *watched,
                        const struct program_line *line)
{
    struct attempt *a = &launch_bucket_of(watched)->bucket.attempts[t->arm];

    return line->memory_bytes ? ledger_memory(t->dictionary.store, a, line->memory_bytes) : OK;
}

static int learn_time(void *self, struct watched_bucket *watched, const struct program_line *line)
{
    struct launch_tuning *t = self;
    struct launches *l = &t->launches;
    struct launch_bucket *lb = launch_bucket_of(watched);
    uint32_t samples = watched->samples;

    TRY(write_memory(t, watched, line));
    lb->failing = false;
    if (!l->sampled || !launch_bucket_wants(lb, &l->now) || lb->wanted != t->arm)
        return OK;
    t->run.row.samples_search++;
    TRY(launch_bucket_add_step(lb, &l->now, line->ns, t->sample_steps));
    return watched->samples == samples ? OK : write_run(t);
}

static int learn_failure(void *self, struct watched_bucket *watched,
                         const struct program_line *line)
{
    struct launch_tuning *t = self;
    struct launch_bucket *lb = launch_bucket_of(watched);

    TRY(write_memory(t, watched, line));
    lb->failing = true;
    TRY(launch_bucket_fail(lb, t->arm, t->launches.session->failed_as, line->reason));
    launch_bucket_use_launch(lb, &t->launches.now);
    return store_commit(t->dictionary.store);
}

/* Steps that are enough make a sample, whatever ended the launch.  If time is up, half as many are
 * enough, because the next run may come no further. */
static int finish_samples(void *self, bool cut)
{
    struct launch_tuning *t = self;
    uint32_t least = t->launches.watch.least;

    for (size_t i = 0; i < t->launches.bucket_count; i++)
        TRY(launch_bucket_finish_sample(bucket_at(t, i), &t->launches.now,
                                        cut ? (least + 1) / 2 : least));
    return OK;
}

/* ---- what is to blame for a launch that failed */

/* Programs also die by chance.  After fewer deaths than this a plan, or a set of launch values, is
 * tried again. */
enum { DEATHS_LEAST = 4 };

/* Returns after how many deaths a plan with so many samples is given up: it must die much more
 * often than it runs. */
static uint32_t deaths_allowed(uint32_t samples)
{
    return samples < DEATHS_LEAST / 2 ? DEATHS_LEAST : 2 * samples + 1;
}

/* Blames the plan under which the program died or fell silent. */
static int blame_plan(struct launch_tuning *t, const struct launch_end *end, const char *why)
{
    struct launch_bucket *lb = launch_bucket_of(t->launches.asked);
    uint32_t deaths = ++lb->bucket.attempts[t->arm].kills;
    uint32_t deaths_max = deaths_allowed(bucket_count(&lb->bucket, t->arm));
    bool forgiven = !end->hung && deaths < deaths_max;
    char again[64] = "";

    if (forgiven)
        snprintf(again, sizeof(again), "; once more (failure %" PRIu32 " of %" PRIu32 ")", deaths,
                 deaths_max);
    note("%s, %s: %s%s", SESSION_BUCKET(t->launches.session, lb->bucket.key.bucket),
         PLAN_WORDS(&t->arms[t->arm]), why, again);
    if (forgiven)
        return OK;
    if (t->arm == t->dictionary.default_arm) /* this ends the run; no failure is recorded */
        return fail(ERR_LAUNCH, "the default plan itself does not run: %s", why);
    TRY(launch_bucket_fail(lb, t->arm, end->hung ? TRIAL_TIMEOUT : TRIAL_CRASHED, why));
    TRY(store_commit(t->dictionary.store));
    t->fruitless_launches = launches_learnt(&t->launches)
                                ? 0
                                : t->fruitless_launches + 1; /* fruitless: it was known to fail */
    return t->fruitless_launches < LAUNCH_PATIENCE
               ? OK
               : fail(ERR_LAUNCH, "the program failed %d times in a row and showed nothing: %s",
                      LAUNCH_PATIENCE, why);
}

/* Blames launch values under which no step ever ran.  The first plan may be to blame instead, so
 * only after DEATHS_LEAST launches all plans with these values fail, in every bucket. */
static int blame_values(struct launch_tuning *t, const struct launch_end *end, const char *why)
{
    struct launches *l = &t->launches;
    struct launch_values *values = &l->values[l->now.values];
    char words[DECLARATION_PLAN_BYTES];

    if (++values->failures < DEATHS_LEAST) {
        if (l->session->running)
            launch_bucket_of(l->asked)->bucket.attempts[t->arm].kills++;
        note("launch %" PRIu32 ": %s, before a step was timed; once more (failure %" PRIu32
             " of %d)",
             l->now.number, why, values->failures, DEATHS_LEAST);
        return OK;
    }
    values->broken = true;
    declaration_launch_words(l->session->buckets.declared, t->arms[values->arm].choice, words);
    if (values == &l->values[l->values_of[t->dictionary.default_arm]])
        return fail(ERR_LAUNCH, "the default plan itself does not run (%s): %s", words, why);
    note("%s: %s, %d times before a step was timed: no plan with these values is tried", words, why,
         DEATHS_LEAST);
    for (size_t i = 0; i < t->launches.bucket_count; i++)
        for (int arm = 0; arm < (int)t->dictionary.arm_count; arm++)
            if (l->values_of[arm] == l->now.values)
                TRY(launch_bucket_fail(bucket_at(t, i), arm,
                                       end->hung ? TRIAL_TIMEOUT : TRIAL_CRASHED, why));
    return OK;
}

static int judge_failure(struct launch_tuning *t, const struct launch_end *end)
{
    struct launches *l = &t->launches;
    char why[LAUNCH_WHY_BYTES];
    bool silent = !end->hung && !l->session->any_line;

    /* If the first two launches die alike before the program writes a line, no plan can help. */
    if (silent && l->now.number == 1)
        memcpy(t->silent_end, end->how, sizeof(t->silent_end));
    if (silent && l->now.number == 2 && !strcmp(t->silent_end, end->how))
        return fail(ERR_LAUNCH, "%s, twice before it asked anything: %s%s%s", end->how,
                    TEXT_SHORT(t->options->exec, 300), *end->last_lines ? "; it wrote: " : "",
                    end->last_lines);
    launch_why(l->session, end, why);
    if (!l->values[l->now.values].runs)
        return blame_values(t, end, why);
    if (l->session->running)
        return blame_plan(t, end, why);
    t->fruitless_launches = launches_learnt(l) ? 0 : t->fruitless_launches + 1;
    if (t->fruitless_launches >= LAUNCH_PATIENCE)
        return fail(ERR_LAUNCH, "the program failed outside of steps %d times in a row: %s",
                    LAUNCH_PATIENCE, why);
    note("launch %" PRIu32 ": %s, %s", l->now.number, why,
         l->session->asks ? "between two steps" : "before it asked anything");
    return OK;
}

static int end_launch(void *self, const struct launch_end *failure)
{
    struct launch_tuning *t = self;

    if (failure)
        TRY(judge_failure(t, failure));
    else
        t->fruitless_launches = 0;
    if (t->joint && !t->values_chosen)
        TRY(launch_decision_end(t->joint));
    for (size_t i = 0; i < t->launches.bucket_count; i++) {
        struct launch_bucket *lb = bucket_at(t, i);

        TRY(launch_bucket_advance(lb));
        if (lb->joint && !launch_bucket_runs(lb)) /* the trials name the reasons */
            lb->watched.state = BUCKET_DECIDED;
        if (lb->joint && lb->watched.state != BUCKET_OPEN) {
            launch_decision_set_weight(t->joint, lb->joint_index, 0);
            lb->joint = NULL;
        }
    }
    return OK;
}

static const struct launch_client client = { .add_bucket = add_new_bucket,
                                             .vote = vote,
                                             .begin_launch = begin_launch,
                                             .wish = wish_of,
                                             .choose_plan = choose_plan,
                                             .learn_time = learn_time,
                                             .learn_failure = learn_failure,
                                             .finish_samples = finish_samples,
                                             .end_launch = end_launch };

/* ---- the run */

/* Adds the bucket of a trial of an earlier run. */
static int recall_bucket(void *self, const struct trial_row *trial)
{
    struct launch_tuning *t = self;

    for (size_t i = 0; i < t->launches.bucket_count; i++)
        if (bucket_at(t, i)->bucket.key.bucket == trial->key.bucket)
            return OK;
    return add_bucket(t, trial->key.bucket);
}

/* Opens the joint decision if there are several sets of launch values. */
static int open_joint_decision(struct launch_tuning *t)
{
    const struct dictionary *d = &t->dictionary;
    const struct launch_decision_setup setup = { .arm_count = d->arm_count,
                                                 .launch_of = t->launches.values_of,
                                                 .launch_count = t->launches.values_count,
                                                 .default_arm = d->default_arm,
                                                 .distance = t->distances,
                                                 .harm = t->setup->harm,
                                                 .margin = t->setup->margin,
                                                 .seed = t->setup->seed };

    if (t->launches.values_count < 2)
        return OK;
    TRY(launch_weights(&t->options->traffic, &t->setup->shape, t->setup->window, &t->weights,
                       &t->weight_count));
    for (size_t arm = 0; arm < d->arm_count; arm++)
        t->distances[arm] =
            declaration_distance(t->launches.session->buckets.declared, t->arms[arm].choice);
    return launch_decision_open(&setup, &t->joint);
}

/* The launch values that all entries of the table have. */
enum { NO_ENTRY = -1, ENTRIES_DIFFER = -2 };
struct table_values {
    const struct launch_tuning *tuning;
    int values; /* their index, NO_ENTRY or ENTRIES_DIFFER */
};

static int compare_entry(void *self, const struct entry_row *e)
{
    struct table_values *table = self;
    const struct launch_tuning *t = table->tuning;
    int arm = dictionary_arm(&t->dictionary, &e->plan);
    int values = arm < 0 ? ENTRIES_DIFFER : (int)t->launches.values_of[arm];

    if (e->window != t->dictionary.buckets.window)
        return OK;
    if (table->values == NO_ENTRY)
        table->values = values;
    else if (table->values != values)
        table->values = ENTRIES_DIFFER;
    return OK;
}

/* Buckets that trainers missed are decided under the launch values of the table.  A few of them say
 * little about which values are best for all. */
static int use_table_values(struct launch_tuning *t)
{
    struct table_values table = { .tuning = t, .values = NO_ENTRY };
    const struct dictionary *d = &t->dictionary;

    if (!t->joint || !t->setup->demands)
        return OK;
    TRY(store_entries(d->store, d->cluster, d->shape, compare_entry, &table));
    t->values_chosen = table.values >= 0;
    t->chosen = (struct launch_result){ .launch = table.values, .doubt = { .arm = -1 } };
    return OK;
}

static int run_tuning(struct launch_tuning *t)
{
    static const struct run_pace pace = { .alive_every_us =
                                              10e6 }; /* samples are committed by launch_bucket.c */
    const struct table_setup *setup = t->setup;
    struct dictionary *d = &t->dictionary;
    struct cluster cluster;
    int rc;

    TRY(table_arms(setup, d, t->arms));
    t->launches.plan_count = d->arm_count;
    TRY(launches_open(&t->launches));
    TRY(open_joint_decision(t));
    TRY(live_cluster(setup, &cluster));
    t->search = table_search(setup, d, &cluster);
    TRY(store_open(setup->path, setup->store_flags, &d->store));
    t->run = (struct run){ .row = { .now = "launching" }, .pace = pace };
    TRY(table_begin(setup, &cluster, "blind", d, &t->run));
    if (t->options->retune)
        TRY(store_expire(d->store, d->cluster, d->shape, setup->window, 0, UINT32_MAX,
                         "to be measured again"));
    TRY(use_table_values(t));
    /* First the buckets that are asked for, then those with trials of earlier runs. */
    for (size_t i = 0; i < setup->demand_count; i++)
        TRY(add_bucket(t, setup->demands[i].bucket));
    TRY(store_trials(d->store, d->cluster, d->shape, setup->window, UINT32_MAX, recall_bucket, t));
    if (t->joint && !t->values_chosen)
        TRY(recall_launches(t));
    rc = launches_run(&t->launches);
    for (size_t i = 0; i < t->launches.bucket_count && rc == ERR_CUT; i++)
        TRY(launch_bucket_advance(bucket_at(t, i)));
    return rc;
}

static void write_report(struct launch_tuning *t, struct launches_report *out)
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
    if (t->values_chosen && t->chosen.doubt.arm >= 0) {
        out->doubt = t->chosen.doubt;
        declaration_launch_words(l->session->buckets.declared,
                                 t->arms[l->values[out->doubt.arm].arm].choice, out->doubted);
    }
    for (size_t i = 0; i < t->launches.values_count; i++)
        out->values += t->launches.values[i].launches > 0;
    for (size_t i = 0; i < t->launches.bucket_count; i++) {
        const struct bucket *b = &bucket_at(t, i)->bucket;

        if (bucket_at(t, i)->watched.state != BUCKET_DECIDED || b->known)
            continue;
        /* The bucket is done, but has no entry: no plan runs there. */
        out->decided--;
        note("%s is not decided: no plan runs there; the default plan: %s",
             SESSION_BUCKET(l->session, b->key.bucket),
             b->attempts[t->dictionary.default_arm].trial.message);
    }
}

int tune_launches(struct session *session, const struct table_setup *setup,
                  const struct tune_options *options, struct launches_report *out)
{
    uint32_t steps = options->launch_steps;
    struct launch_tuning *t = calloc(1, sizeof(*t));
    int rc, ending = OK;

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
    rc = run_tuning(t);
    if (t->run.row.id) {
        count_buckets(t);
        ending = run_end(&t->run, rc, NULL, true);
        write_report(t, out);
    }
    store_close(t->dictionary.store);
    for (size_t i = 0; i < t->launches.bucket_count; i++) {
        launch_bucket_close(bucket_at(t, i));
        free(bucket_at(t, i));
    }
    dictionary_close(&t->dictionary);
    launches_close(&t->launches);
    launch_decision_close(t->joint);
    free(t->weights);
    free(t);
    return rc ? rc : ending;
}
