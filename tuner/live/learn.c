/* Decides one bucket at a time.  A plan that its decision wants is tried when the budget allows it.
 */
#include "live.h"

#include "plan.h"
#include "status.h"

#include <math.h>

/* After so many steps without the bucket in focus, or without a sample of it, another bucket may
 * take its place. */
enum { FOCUS_PATIENCE = 64 };
/* The best plan runs so many steps in a bucket before another plan is tried there. */
enum { STEPS_BEFORE = 2 };
/* A plan that is expected to take so many times as long as the best one is never tried.  It gets
 * half a standard deviation of the expectation in its favour: a plan that is left out never comes
 * back, and at first the expectation may be only a guess about the machine. */
static const double never_factor = 3, favour_sds = 0.5;
/* A bucket is inferred, as in a sweep, if that may lose at most inferred_bound.  It lies between
 * two buckets with one plan, at most inferred_span apart, or at most inferred_near from one. */
static const double inferred_bound = 0.02, inferred_span = 2, inferred_near = 1.2;

/* ---- an entry */

/* Writes an entry, which answers from now on. */
static int write_entry(struct live *live, struct live_bucket *lb, const struct entry_row *entry,
                       const char *why)
{
    bool replaced = lb->rematch && !plan_equal(&lb->bucket.entry.plan, &entry->plan);

    TRY(store_entry_put(live->dictionary.store, entry, why));
    live->status.replaced += replaced;
    live->decided++;
    live->insights++;
    live->run.unpublished = true;
    live->run.row.buckets_done++;
    lb->bucket.entry = *entry;
    lb->bucket.known = true;
    bucket_forget(&lb->bucket);
    live_apply_entry(live, lb);
    return OK;
}

/* Ends the decision of the bucket in focus, and writes its entry. */
static int end_decision(struct live *live, struct live_bucket *lb)
{
    struct entry_row entry;
    int rc = bucket_entry(&lb->bucket, -1, &entry);

    live->focus = NULL;
    if (rc == UNSUPPORTED) {
        lb->state = LIVE_FIXED; /* no plan runs here; the trials name the reasons */
        return OK;
    }
    TRY(rc);
    if (lb->rematch)
        entry.bound = NAN; /* a rematch has only a few plans */
    return write_entry(live, lb, &entry, lb->rematch ? "met again" : "measured in training");
}

/* ---- inferred entries */

/* Returns the larger capacity over the smaller one. */
static double capacity_ratio(const struct live_bucket *a, const struct live_bucket *b)
{
    double ratio = (double)a->bucket.capacity / (double)b->bucket.capacity;

    return fmax(ratio, 1 / ratio);
}

/* Writes an inferred entry if the plan of a decided bucket probably holds here, too. */
static int infer_entry(struct live *live, struct live_bucket *lb)
{
    struct live_bucket_pair decided_pair =
        live_buckets_around(&live->buckets, lb->bucket.key.bucket, BY_DECISION);
    int default_arm = live->dictionary.default_arm;
    const struct live_bucket *source = NULL;
    struct entry_row entry;

    if (decided_pair.below && decided_pair.above &&
        decided_pair.below->best == decided_pair.above->best &&
        capacity_ratio(decided_pair.below, decided_pair.above) <= inferred_span)
        source = decided_pair.below;
    else if (decided_pair.below && capacity_ratio(decided_pair.below, lb) <= inferred_near)
        source = decided_pair.below;
    else if (decided_pair.above && capacity_ratio(decided_pair.above, lb) <= inferred_near)
        source = decided_pair.above;
    /* An effort may want every bucket measured.  Nothing is known about the distances between the
     * buckets of a declared space. */
    if (!source || live->dictionary.effort->anchors_per_octave == 0 ||
        live->dictionary.buckets.declared)
        return OK;
    /* If the default plan is best on one side, nobody knows where between them that ends. */
    if (source->best != default_arm &&
        ((decided_pair.below && decided_pair.below->best == default_arm) ||
         (decided_pair.above && decided_pair.above->best == default_arm)))
        return OK;
    dictionary_infer(&live->dictionary, lb->bucket.key.bucket, source->best, NULL, &entry);
    return entry.bound <= inferred_bound && !entry_fault(&entry, &live->setup.shape, NULL)
               ? write_entry(live, lb, &entry, "inferred")
               : OK;
}

/* ---- the bucket in focus */

static uint64_t demand_of(const struct live *live, const struct live_bucket *lb)
{
    return bucket_demand(&live->setup, lb->bucket.key.bucket);
}

/* Puts this bucket into focus.  OK also if another one stays in focus, or this one needs no
 * decision.
 */
static int take_focus(struct live *live, struct live_bucket *lb)
{
    /* The bucket in focus goes on, unless this one is wanted more. */
    if (live->focus == lb || (live->focus && live->asks - live->focus->last_step < FOCUS_PATIENCE &&
                              live->asks - live->progress_at < FOCUS_PATIENCE &&
                              demand_of(live, lb) <= demand_of(live, live->focus)))
        return OK;
    live->focus = NULL;
    TRY(bucket_load(&lb->bucket));
    /* An earlier run that was cut off has taken samples.  New ones are converted to their capacity.
     */
    if (lb->bucket.sample_count)
        live_set_capacity(live, lb, lb->bucket.attempts[lb->bucket.samples[0].arm].trial.capacity);
    if (!lb->bucket.sample_count && !lb->bucket.known)
        TRY(infer_entry(live, lb));
    if (lb->state != LIVE_OPEN)
        return OK;
    bucket_open(&lb->bucket, lb->rematch);
    live->focus = lb;
    live->progress_at = live->asks;
    live->saving_us = 0;
    return OK;
}

/* ---- which plans may be tried */

static const double confident_sds = 1.645; /* one-sided, 95 % */

/* So many times the estimated worst cost of a try must be saved up, because samples have noise. */
static const double saving_factor = 1.3;

/* Writes that a plan is tried.  To make this durable takes as long as many steps; it is not needed
 * for a plan that has run at about this capacity. */
static int begin_trial(struct live *live, struct live_bucket *lb, int arm)
{
    return bucket_begin(&lb->bucket, arm, lb->bucket.capacity <= 2 * live->ran[arm].capacity);
}

/* Lists what a step under each arm takes at most, by its samples alone; INFINITY if it never ran.
 * Time grows with capacity, at most in proportion. */
static void list_known_ns(const struct live *live, const struct live_bucket *lb, double *known_ns)
{
    const struct bucket *b = &lb->bucket;

    for (int arm = 0; arm < (int)live->dictionary.arm_count; arm++) {
        const struct ran *ran = &live->ran[arm];

        known_ns[arm] = INFINITY;
        if (arm == lb->best)
            known_ns[arm] = level_ns(&lb->level);
        else if (b->dictionary->search->count[arm])
            known_ns[arm] = bucket_median_ns(b, arm);
        else if (ran->class == b->dictionary)
            known_ns[arm] = ran->ns * fmax(1, (double)b->capacity / (double)ran->capacity);
    }
}

/* Returns what a step under an arm that never ran takes at most, see reach.h. */
static double reached_ns(const struct live *live, const double *known_ns, int arm)
{
    double bound_ns = INFINITY;

    for (int ran_arm = 0; ran_arm < (int)live->dictionary.arm_count; ran_arm++)
        if (known_ns[ran_arm] < bound_ns)
            bound_ns = fmin(bound_ns, known_ns[ran_arm] * reach_factor(&live->reach, ran_arm, arm));
    return bound_ns;
}

/* Returns what must be saved up for a step under an arm at this capacity.  The search's estimate
 * may be wrong, so it can only raise this. */
static double needed_us(const struct live *live, const struct live_bucket *lb, uint64_t capacity,
                        const double *known_ns, int arm)
{
    struct search *search = lb->bucket.dictionary->search;
    struct normal over = search_compare(search, arm, lb->best);
    bool has_run = search->count[arm] > 0;
    double best_ns = level_ns(&lb->level),
           arm_ns = has_run ? known_ns[arm] : reached_ns(live, known_ns, arm);

    if (isfinite(over.sd))
        arm_ns = fmax(arm_ns, exp(over.mean + (has_run ? confident_sds * over.sd : 0)) * best_ns);
    return saving_factor * fmax(0, arm_ns - best_ns) * 1e-3 *
           fmax(1, (double)capacity / (double)lb->bucket.capacity);
}

/* Returns whether an arm is expected to be so slow that it is never tried.  The default plan is
 * never too slow: a training runs it without us, and gains are measured against it. */
static bool is_too_slow(const struct live *live, const struct live_bucket *lb, int arm)
{
    struct normal over = search_compare(lb->bucket.dictionary->search, arm, lb->best);

    return arm != live->dictionary.default_arm &&
           !(exp(over.mean - favour_sds * over.sd) < never_factor);
}

/* A distance must be below this part of another one to count as shorter, in spite of rounding. */
static const double nearer = 1 - 1e-9;

/* Chooses a plan to try before a wanted one that may take too long.  It lies between the wanted
 * plan and those that ran, so its time says more about the wanted one.  Returns the affordable plan
 * that is nearest to the wanted one, and *needs_us becomes what it needs.  Returns `wanted` if none
 * is affordable; then *needs_us becomes the least that any of them needs. */
static int choose_between(const struct live *live, const struct live_bucket *lb, uint64_t capacity,
                          const double *known_ns, int wanted, double *needs_us)
{
    const struct search *search = lb->bucket.dictionary->search;
    double left_us = budget_left_us(&live->budget), best_ns = level_ns(&lb->level),
           least_us = *needs_us;
    double farthest = reached_ns(live, known_ns, wanted) / best_ns, nearest = farthest * nearer;
    int chosen = wanted;

    for (int arm = 0; arm < (int)live->dictionary.arm_count; arm++) {
        double distance = reach_factor(&live->reach, arm, wanted), arm_needs_us;

        if (!search->usable[arm] || search->count[arm] || arm == wanted || arm == lb->best ||
            !(distance < farthest * nearer) || is_too_slow(live, lb, arm))
            continue;
        arm_needs_us = needed_us(live, lb, capacity, known_ns, arm);
        least_us = fmin(least_us, arm_needs_us);
        if (arm_needs_us <= left_us && distance < nearest) {
            nearest = distance * nearer;
            chosen = arm;
            *needs_us = arm_needs_us;
        }
    }
    if (chosen == wanted)
        *needs_us = least_us;
    return chosen;
}

int live_next_arm(struct live *live, struct live_bucket *lb, uint64_t capacity,
                  enum decision_purpose *purpose)
{
    struct search *search = lb->bucket.dictionary->search;
    double known_ns[SEARCH_ARMS_MAX], needs_us;
    int arm;

    if (take_focus(live, lb)) {
        live_stop_learning(live);
        return -1;
    }
    if (live->focus != lb || lb->level.count < STEPS_BEFORE ||
        budget_left_us(&live->budget) < live->saving_us)
        return -1;
    for (;;) {
        *purpose = DECISION_SEARCH;
        /* The best plan is sampled first: all others are compared with it. */
        if (search->usable[lb->best] && search->count[lb->best] < STEPS_BEFORE)
            return lb->best;
        arm = decision_next(&lb->bucket.decision, purpose);
        if (arm == DECISION_DONE) {
            if (end_decision(live, lb))
                live_stop_learning(live);
            return -1;
        }
        if (arm == lb->best)
            return arm;
        if (!is_too_slow(live, lb, arm))
            break;
        decision_drop_slow(&lb->bucket.decision, arm);
    }
    list_known_ns(live, lb, known_ns);
    needs_us = needed_us(live, lb, capacity, known_ns, arm);
    if (budget_left_us(&live->budget) < needs_us && *purpose == DECISION_SEARCH &&
        !search->count[arm] && arm != live->dictionary.default_arm)
        arm = choose_between(live, lb, capacity, known_ns, arm, &needs_us);
    /* The decision is not asked again before enough is saved up, because asking costs time, too. */
    live->saving_us = needs_us;
    if (budget_left_us(&live->budget) < needs_us)
        return -1;
    live->saving_us = 0;
    live->budget.reserved_us = needs_us;
    if (begin_trial(live, lb, arm)) {
        live_stop_learning(live);
        return -1;
    }
    return arm;
}

double live_needed_us(const struct live *live)
{
    return fmax(live->saving_us, live->budget.reserved_us);
}

uint32_t live_wait_steps(const struct live *live, const struct live_bucket *lb, uint32_t saving)
{
    uint32_t patience = 0;

    if (!live->focus || live->focus == lb)
        return saving;
    for (uint32_t i = 0; i < live->buckets.count; i++)
        patience += live->buckets.items[i]->state == LIVE_OPEN ? FOCUS_PATIENCE : 0;
    return saving > patience ? saving : patience;
}

/* ---- samples and failures */

/* Returns whether samples alone prove that an arm is faster than the best one by the margin. */
static bool is_faster(const struct live_bucket *lb, int arm, double margin)
{
    /* One-sided 99.5 %: the test is repeated after every sample. */
    static const double often_sds = 2.58;
    /* A prior for the noise, and the variance of a median over that of a mean. */
    static const double prior_noise = 0.05, prior_count = 4, median_variance = 1.57;
    double noise_freedom, variance;
    double noise = search_noise(lb->bucket.dictionary->search, &noise_freedom);
    double log_gain = log(level_ns(&lb->level) / bucket_median_ns(&lb->bucket, arm));

    noise = (noise * noise_freedom + prior_noise * prior_noise * prior_count) /
            (noise_freedom + prior_count);
    variance =
        median_variance * noise *
        (1 / (double)bucket_count(&lb->bucket, arm) + 1 / fmin(lb->level.count, LEVEL_STEPS));
    return log_gain > -log1p(-margin) && log_gain > often_sds * sqrt(variance);
}

int live_learn(struct live *live, struct live_bucket *lb, enum decision_purpose purpose, int arm,
               int64_t ns)
{
    const struct bucket *bucket = &lb->bucket;
    int leader;

    TRY(begin_trial(live, lb, arm));
    live->progress_at = live->asks;
    if (live->ran[arm].capacity <= lb->bucket.capacity)
        live->ran[arm] = (struct ran){ .class = bucket->dictionary,
                                       .capacity = bucket->capacity,
                                       .ns = (double)ns };
    TRY(bucket_learn(&lb->bucket, purpose, arm, ns));
    if (purpose == DECISION_SEARCH)
        live->run.row.samples_search++;
    else
        live->run.row.samples_default++;
    /* The best sampled plan answers before the decision ends, if samples prove it. */
    leader = search_result(bucket->dictionary->search).winner;
    if (lb->rematch || leader < 0 || leader == lb->best ||
        bucket_count(bucket, leader) < STEPS_BEFORE || !is_faster(lb, leader, live->setup.margin))
        return OK;
    live_set_answer(live, lb, leader, MOE_TENTATIVE);
    live->insights++;
    for (uint32_t sample = 0; sample < bucket->sample_count; sample++)
        if (bucket->samples[sample].arm == leader)
            level_add(&lb->level, (double)bucket->samples[sample].ns);
    return OK;
}

int live_expire(struct live *live, struct live_bucket *lb, const char *why, bool rematch)
{
    TRY(store_expire(live->dictionary.store, live->dictionary.cluster, live->dictionary.shape,
                     live->setup.window, lb->bucket.key.bucket, lb->bucket.key.bucket, why));
    bucket_forget(&lb->bucket);
    lb->state = bucket_demand(&live->setup, lb->bucket.key.bucket) ? LIVE_OPEN : LIVE_FIXED;
    lb->bucket.entry.stale = true;
    lb->rematch = rematch;
    for (size_t arm = 0; arm < live->dictionary.arm_count; arm++)
        live->ran[arm].class = NULL; /* the machine has changed: its old times do not count */
    lb->answer.source = MOE_STALE;
    live->decided -= live->decided > 0;
    live->run.unpublished = true;
    return OK;
}

int live_fail(struct live *live, struct live_bucket *lb, int arm, enum trial_state state,
              const char *why)
{
    bool in_focus = live->focus == lb;

    TRY(bucket_load(&lb->bucket));
    if (ledger_may_repeat(&lb->bucket.attempts[arm], state))
        return UNSUPPORTED;
    if (lb->state == LIVE_DECIDED)
        TRY(live_expire(live, lb, "failed in training", false));
    TRY(bucket_load(&lb->bucket));
    TRY(begin_trial(live, lb, arm));
    TRY(bucket_fail(&lb->bucket, arm, state, why));
    TRY(store_commit(live->dictionary.store));
    if (in_focus)
        decision_drop(&lb->bucket.decision, arm);
    if (arm == lb->best && arm != live->dictionary.default_arm)
        live_set_answer(live, lb, live->dictionary.default_arm, MOE_DEFAULT);
    return OK;
}
