/* Gathers the steps of a launch into samples, and commits each sample at once, because a launch
 * costs much. */
#include "launch_bucket.h"

#include "plan.h"
#include "status.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int launch_bucket_open(struct launch_bucket *lb, const struct dictionary *shared, uint32_t bucket,
                       const struct search_setup *search)
{
    *lb = (struct launch_bucket){
        .dictionary = *shared, .wanted = DECISION_DONE, .arm = -1, .joint_index = -1
    };
    lb->watched.bucket = bucket;
    lb->dictionary.launched = true;
    lb->shown = calloc(shared->arm_count, sizeof(*lb->shown));
    if (!lb->shown)
        return fail(ERR_NOMEM, "plans of a bucket");
    TRY(search_open(search_find("blind"), search, &lb->dictionary.search));
    bucket_init(&lb->bucket, &lb->dictionary, bucket);
    TRY(bucket_load(&lb->bucket));
    /* An older moetune wrote an entry when its time was up.  Such an entry is provisional: the
     * bucket is open, and its samples are replayed.  A stale entry answers until the bucket is
     * decided. */
    lb->provisional = lb->bucket.known && entry_is(&lb->bucket.entry, ENTRY_CUT) &&
                      !entry_is(&lb->bucket.entry, ENTRY_STALE);
    lb->bucket.known &= !lb->provisional;
    return OK;
}

void launch_bucket_close(struct launch_bucket *lb)
{
    bucket_forget(&lb->bucket);
    search_close(lb->dictionary.search);
    free(lb->shown);
}

/* Asks the joint decision what it wants from the launch under way. */
static void ask_joint_decision(struct launch_bucket *lb)
{
    bool needed = false;

    lb->wanted = launch_decision_next_arm(lb->joint, lb->joint_index, &needed);
    lb->on_occasion = !needed;
}

void launch_bucket_begin_launch(struct launch_bucket *lb, const struct launch_under_way *launch,
                                enum decision_purpose purpose)
{
    lb->arm = -1;
    lb->failing = false;
    watched_begin(&lb->watched);
    if (lb->joint_index >= 0)
        lb->bucket.process = launch->number + (lb->joint ? 0 : LAUNCHES_AFTER_CHOICE);
    if (!lb->joint)
        return;
    lb->purpose = purpose;
    ask_joint_decision(lb);
}

bool launch_bucket_apply_pin(struct launch_bucket *lb)
{
    const struct buckets buckets = lb->dictionary.buckets;
    uint32_t bucket = lb->bucket.key.bucket;
    const struct override_row *pin = dictionary_pin(&lb->dictionary, bucket);

    if (!pin)
        return false;
    lb->watched.state = BUCKET_PINNED;
    lb->pinned = dictionary_arm(&lb->dictionary, &pin->plan);
    note("%s %s is skipped: %s is pinned (%s)", buckets_key_name(buckets),
         BUCKETS_TEXT(buckets, bucket, bucket), PLAN_WORDS(&pin->plan), UTF8_LINE(pin->why));
    return true;
}

/* ---- the decision */

/* Ends the provisional entry that an older moetune wrote when its time was up. */
static int end_provisional(struct launch_bucket *lb, const char *why)
{
    if (!lb->provisional)
        return OK;
    lb->provisional = false;
    return store_entry_end(lb->dictionary.store, &lb->bucket.entry, why);
}

/* Asks the decision what it wants next, and writes the entry if that is nothing. */
static int ask_decision(struct launch_bucket *lb)
{
    struct entry_row entry;
    int rc;

    if (lb->joint) {
        ask_joint_decision(lb);
        return OK;
    }
    lb->wanted = decision_next(&lb->bucket.decision, &lb->purpose);
    lb->on_occasion = false;
    if (lb->wanted != DECISION_DONE)
        return OK;
    lb->watched.state = BUCKET_DECIDED;
    rc = bucket_entry(&lb->bucket, -1, &entry);
    if (rc == UNSUPPORTED) /* no plan runs here; the trials name the reasons */
        return end_provisional(lb, "no plan runs");
    TRY(rc);
    lb->provisional = false;
    TRY(store_entry_put(lb->dictionary.store, &entry, "measured in launches"));
    lb->bucket.entry = entry;
    lb->bucket.known = true;
    return store_publish(lb->dictionary.store);
}

int launch_bucket_begin(struct launch_bucket *lb)
{
    const struct entry_row *e = &lb->bucket.entry;
    int arm = lb->bucket.known ? dictionary_arm(&lb->dictionary, &e->plan) : -1;
    /* A decision of an earlier run with no less effort holds, if its plan can still run. */
    bool decided =
        arm >= 0 && lb->bucket.attempts[arm].usable && dictionary_holds(&lb->dictionary, e, false);

    lb->watched.state = decided ? BUCKET_DECIDED : BUCKET_OPEN;
    if (!lb->demand)
        lb->watched.state = BUCKET_LEFT_OUT;
    if (lb->watched.state != BUCKET_OPEN)
        return OK;
    bucket_open(&lb->bucket, false);
    return ask_decision(lb);
}

bool launch_bucket_runs(const struct launch_bucket *lb)
{
    for (size_t arm = 0; arm < lb->dictionary.arm_count; arm++)
        if (lb->bucket.attempts[arm].usable)
            return true;
    return false;
}

/* Shows the bucket to its search, with the plans that can run in it. */
static void begin_search(struct launch_bucket *lb)
{
    bool usable[SEARCH_ARMS_MAX] = { false };

    for (size_t arm = 0; arm < lb->dictionary.arm_count; arm++)
        usable[arm] = lb->bucket.attempts[arm].usable;
    search_begin(lb->dictionary.search, lb->bucket.capacity, usable, false);
}

int launch_bucket_join(struct launch_bucket *lb, struct launch_decision *joint, double weight)
{
    lb->watched.state = lb->demand ? BUCKET_OPEN : BUCKET_LEFT_OUT;
    lb->joint = lb->demand ? joint : NULL;
    begin_search(lb);
    lb->joint_index = launch_decision_add(joint, lb->dictionary.search, lb->demand ? weight : 0);
    return lb->joint_index < 0 ? lb->joint_index : OK;
}

int launch_bucket_decide_within(struct launch_bucket *lb, const uint32_t *values_of,
                                uint32_t values)
{
    lb->joint = NULL;
    for (size_t arm = 0; arm < lb->dictionary.arm_count; arm++)
        lb->bucket.attempts[arm].usable &= values_of[arm] == values;
    return lb->watched.state == BUCKET_OPEN || lb->watched.state == BUCKET_NEW
               ? launch_bucket_begin(lb)
               : OK;
}

int launch_bucket_adopt(struct launch_bucket *lb, const struct launch_decision *joint,
                        const uint32_t *values_of, int values)
{
    struct dictionary *d = &lb->dictionary;
    const struct entry_row *old_entry = &lb->bucket.entry;
    int arm = launch_decision_live_arm(joint, values, lb->joint_index);
    int old_arm = lb->bucket.known ? dictionary_arm(d, &old_entry->plan) : -1;
    struct normal level;
    struct gain gain;
    struct entry_row entry;

    if (lb->watched.state == BUCKET_OPEN)
        lb->watched.state = BUCKET_DECIDED;
    lb->joint = NULL;
    for (size_t other_arm = 0; other_arm < d->arm_count; other_arm++)
        lb->bucket.attempts[other_arm].usable &= (int)values_of[other_arm] == values;
    /* Under the default launch values only a proven plan replaces the default plan, and the joint
     * decision proves nothing there. */
    if (arm < 0 || !bucket_count(&lb->bucket, arm) || (int)values_of[d->default_arm] == values) {
        if (!lb->bucket.known || (old_arm >= 0 && (int)values_of[old_arm] == values))
            return OK;
        lb->bucket.known = false;
        return store_entry_end(d->store, old_entry, "the table has another launch");
    }
    if (old_arm == arm && dictionary_holds(d, old_entry, false))
        return OK;
    level = launch_decision_level(joint, lb->joint_index, arm);
    gain = launch_decision_gain(joint, lb->joint_index);
    dictionary_begin_entry(d, lb->bucket.key.bucket, &entry);
    entry.capacity = lb->bucket.capacity;
    entry.plan = d->arms[arm];
    entry.time_us = exp(level.mean) * 1e-3;
    entry.low_us = exp(level.mean - 1.96 * level.sd) * 1e-3;
    entry.high_us = exp(level.mean + 1.96 * level.sd) * 1e-3;
    /* The proof is of the launch values, over all buckets.  A bucket that loses by them gets an
     * entry without a gain. */
    entry.default_us = gain.value > 0 ? entry.time_us / (1 - gain.value) : NAN;
    entry.gain = gain.value > 0 ? gain : (struct gain)GAIN_UNKNOWN;
    entry.bound = NAN;
    entry.samples = bucket_count(&lb->bucket, arm);
    text_put(entry.reason, sizeof(entry.reason), "%s", search_reason_words[SEARCH_CERTAIN]);
    text_put(entry.decision, sizeof(entry.decision), "%s", decision_words[DECISION_STATIC]);
    lb->provisional = false;
    TRY(store_entry_put(d->store, &entry, "measured in launches"));
    lb->bucket.entry = entry;
    lb->bucket.known = true;
    return OK;
}

/* ---- steps and samples */

/* Returns whether a plan may run without a sample: it has not killed or hung the program. */
static bool is_harmless(const struct launch_bucket *lb, int arm)
{
    const struct attempt *a = &lb->bucket.attempts[arm];

    return a->usable || a->trial.state == TRIAL_FAILED || a->trial.state == TRIAL_NO_MEMORY;
}

int launch_bucket_best_arm(const struct launch_bucket *lb, const struct launch_under_way *launch,
                           int nearest_arm)
{
    int best_arm = lb->bucket.attempts[nearest_arm].usable ? nearest_arm : -1, fallback_arm = -1;
    double least_ns = best_arm < 0 ? NAN : bucket_median_ns(&lb->bucket, best_arm);

    if (lb->watched.state == BUCKET_PINNED && lb->pinned >= 0 &&
        launch->values_of[lb->pinned] == launch->values && is_harmless(lb, lb->pinned))
        return lb->pinned;
    for (int arm = 0; arm < (int)lb->dictionary.arm_count; arm++) {
        double ns;

        if (launch->values_of[arm] != launch->values)
            continue;
        if (is_harmless(lb, arm) && (fallback_arm < 0 || !lb->bucket.attempts[fallback_arm].usable))
            fallback_arm = arm;
        ns = lb->bucket.attempts[arm].usable ? bucket_median_ns(&lb->bucket, arm) : NAN;
        if (ns < least_ns || (isnan(least_ns) && !isnan(ns))) {
            least_ns = ns;
            best_arm = arm;
        }
    }
    return best_arm >= 0 ? best_arm : fallback_arm;
}

/* Returns whether the launch under way can give a sample of the arm, and has given none yet. */
static bool can_show(const struct launch_bucket *lb, const struct launch_under_way *launch, int arm)
{
    return arm >= 0 && launch->values_of[arm] == launch->values && lb->shown[arm] != launch->number;
}

bool launch_bucket_wants(const struct launch_bucket *lb, const struct launch_under_way *launch)
{
    return lb->watched.state == BUCKET_OPEN && can_show(lb, launch, lb->wanted);
}

enum launch_wish launch_bucket_wish(const struct launch_bucket *lb,
                                    const struct launch_under_way *launch)
{
    if (!launch_bucket_wants(lb, launch))
        return WISH_NOTHING;
    return lb->on_occasion ? WISH_OCCASION : WISH_SAMPLE;
}

void launch_bucket_use_launch(struct launch_bucket *lb, const struct launch_under_way *launch)
{
    bool showable[SEARCH_ARMS_MAX];
    enum decision_purpose purpose;
    int arm;

    if (lb->joint || lb->watched.state != BUCKET_OPEN || can_show(lb, launch, lb->wanted))
        return;
    for (int candidate_arm = 0; candidate_arm < (int)lb->dictionary.arm_count; candidate_arm++)
        showable[candidate_arm] = can_show(lb, launch, candidate_arm);
    arm = decision_next_among(&lb->bucket.decision, showable, &purpose);
    if (arm == DECISION_DONE)
        return;
    lb->wanted = arm;
    lb->purpose = purpose;
    lb->on_occasion = true;
}

/* Writes the sample and its trial together.  The plan runs in another process, so the end of this
 * process in between would be no failure of the plan. */
static int learn_sample(struct launch_bucket *lb, const struct launch_under_way *launch,
                        int64_t sample)
{
    TRY(bucket_begin(&lb->bucket, lb->wanted, true));
    TRY(bucket_learn(&lb->bucket, lb->purpose, lb->wanted, sample));
    if (lb->joint)
        TRY(launch_decision_tell(lb->joint, lb->joint_index, lb->wanted, sample));
    lb->shown[lb->wanted] = launch->number;
    lb->arm = -1;
    return store_commit(lb->dictionary.store);
}

int launch_bucket_add_step(struct launch_bucket *lb, const struct launch_under_way *launch,
                           int64_t ns, uint32_t steps)
{
    int64_t sample;

    if (lb->arm != lb->wanted)
        lb->watched.steps = 0;
    lb->arm = lb->wanted;
    if (!watched_add_step(&lb->watched, ns, steps, &sample))
        return OK;
    TRY(learn_sample(lb, launch, sample));
    TRY(ask_decision(lb));
    launch_bucket_use_launch(lb, launch);
    return OK;
}

int launch_bucket_finish_sample(struct launch_bucket *lb, const struct launch_under_way *launch,
                                uint32_t least_steps)
{
    return launch_bucket_wants(lb, launch) && lb->arm == lb->wanted &&
                   lb->watched.steps >= least_steps
               ? learn_sample(lb, launch, watched_finish_sample(&lb->watched))
               : OK;
}

int launch_bucket_advance(struct launch_bucket *lb)
{
    return lb->watched.state == BUCKET_OPEN && !lb->joint ? ask_decision(lb) : OK;
}

int launch_bucket_fail(struct launch_bucket *lb, int arm, enum trial_state state, const char *why)
{
    struct search *old_search = lb->dictionary.search;
    bool in_force = lb->watched.state == BUCKET_DECIDED && lb->bucket.known &&
                    dictionary_arm(&lb->dictionary, &lb->bucket.entry.plan) == arm;

    if (!lb->bucket.attempts[arm].usable)
        return OK; /* the failure is known */
    TRY(bucket_begin(&lb->bucket, arm, true));
    TRY(bucket_fail(&lb->bucket, arm, state, why));
    lb->watched.steps = 0;
    lb->watched.learnt = true;
    if (lb->provisional && dictionary_arm(&lb->dictionary, &lb->bucket.entry.plan) == arm)
        TRY(end_provisional(lb, "its plan fails"));
    if (in_force) { /* decide again, with a new search that gets all samples once */
        TRY(search_open(old_search->ops, &old_search->setup, &lb->dictionary.search));
        search_close(old_search);
        return launch_bucket_begin(lb);
    }
    if (lb->watched.state != BUCKET_OPEN)
        return OK;
    if (lb->joint)
        launch_decision_drop(lb->joint, lb->joint_index, arm);
    else
        decision_drop(&lb->bucket.decision, arm);
    return ask_decision(lb);
}
