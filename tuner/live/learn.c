/* Decides one bucket at a time: what its decision asks for is tried when it can be afforded. */
#include "live.h"

#include "plan.h"
#include "status.h"

#include <math.h>

/* Steps without the bucket under way, or without a sample of it because it saves up for one, until
 * another one takes its place. */
enum { PATIENCE = 64 };
/* Steps that the best plan must have taken in a bucket before another one is tried there. */
enum { STEPS_BEFORE = 2 };
/* A plan that is expected to take so many times as long as the best one is never tried.  Where the
 * expectation is doubtful, part of the doubt is in its favour: nothing in a bucket brings back what
 * was left out there, and at first a guess of the machine may be all that speaks against it. */
static const double never = 3, favour_sds = 0.5;
/* A bucket is inferred, as in a sweep, where that may lose no more than this: between two buckets
 * that agree, or closer to one than the measured buckets of a sweep are to each other. */
static const double inferred_bound = 0.02, inferred_span = 2, inferred_near = 1.2;

/* ---- an entry */

/* Makes an entry the bucket's answer from now on. */
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
    live_settle(live, lb);
    return OK;
}

static int decide(struct live *live, struct live_bucket *lb)
{
    struct entry_row entry;
    int rc = bucket_entry(&lb->bucket, -1, &entry);

    live->focus = NULL;
    if (rc == UNSUPPORTED) {
        lb->state = LIVE_FIXED; /* no plan runs here: the trials say why */
        return OK;
    }
    TRY(rc);
    if (lb->rematch)
        entry.bound = NAN; /* only a few plans met again */
    return write_entry(live, lb, &entry, lb->rematch ? "met again" : "measured in training");
}

/* ---- not measured */

static double apart(const struct live_bucket *a, const struct live_bucket *b)
{
    double ratio = (double)a->bucket.capacity / (double)b->bucket.capacity;

    return fmax(ratio, 1 / ratio);
}

/* Writes the entry without measuring, if the plan of a decided bucket may hold here, too. */
static int infer(struct live *live, struct live_bucket *lb)
{
    struct live_bucket_pair pair = live_buckets_around(&live->buckets, lb->bucket.key.bucket, true);
    int default_arm = live->dictionary.default_arm;
    const struct live_bucket *model = NULL;
    struct entry_row entry;

    if (pair.below && pair.above && pair.below->best == pair.above->best &&
        apart(pair.below, pair.above) <= inferred_span)
        model = pair.below;
    else if (pair.below && apart(pair.below, lb) <= inferred_near)
        model = pair.below;
    else if (pair.above && apart(pair.above, lb) <= inferred_near)
        model = pair.above;
    /* An effort may want every bucket measured; a program's ranges and classes are as near as it
     * likes. */
    if (!model || live->dictionary.effort->anchors_per_octave == 0 || live->dictionary.declared)
        return OK;
    /* Where the default's advantage ends between the two is not known, as in a sweep. */
    if (model->best != default_arm && ((pair.below && pair.below->best == default_arm) ||
                                       (pair.above && pair.above->best == default_arm)))
        return OK;
    dictionary_infer(&live->dictionary, lb->bucket.key.bucket, model->best, NULL, &entry);
    return entry.bound <= inferred_bound && !entry_fault(&entry, &live->setup.shape, NULL)
               ? write_entry(live, lb, &entry, "inferred")
               : OK;
}

/* ---- the bucket under way */

static uint64_t demand_of(const struct live *live, const struct live_bucket *lb)
{
    return live_demand(&live->setup, lb->bucket.key.bucket);
}

/* Makes this the bucket under way.  OK also if another one keeps that place, or this one needs no
 * decision. */
static int take_focus(struct live *live, struct live_bucket *lb)
{
    /* The bucket under way goes on, unless this one is wanted more. */
    if (live->focus == lb || (live->focus && live->asked - live->focus->last_step < PATIENCE &&
                              live->asked - live->progress < PATIENCE &&
                              demand_of(live, lb) <= demand_of(live, live->focus)))
        return OK;
    live->focus = NULL;
    TRY(bucket_load(&lb->bucket));
    /* An earlier run, cut off, has taken samples: what comes next is told as if at their
     * capacity. */
    if (lb->bucket.told_count)
        live_at(live, lb, lb->bucket.attempts[lb->bucket.told[0].arm].trial.capacity);
    if (!lb->bucket.told_count && !lb->bucket.known)
        TRY(infer(live, lb));
    if (lb->state != LIVE_OPEN)
        return OK;
    bucket_open(&lb->bucket, lb->rematch);
    live->focus = lb;
    live->progress = live->asked;
    live->saving_us = 0;
    return OK;
}

/* ---- what may be tried */

static const double sds = 1.645; /* one-sided, 95 % */

/* More has to be saved up than a trial costs at worst by the model, which may be wrong. */
static const double caution = 1.3;

/* Writes down that a plan is tried.  To make that durable takes as long as many steps, and is not
 * needed for a plan that has run at about this capacity. */
static int begin(struct live *live, struct live_bucket *lb, int arm)
{
    return bucket_begin(&lb->bucket, arm, lb->bucket.capacity <= 2 * live->proven[arm]);
}

int live_next(struct live *live, struct live_bucket *lb, enum decision_purpose *purpose)
{
    struct search *search = lb->bucket.dictionary->search;
    struct normal over; /* log of how much longer than the best plan it takes */
    double cost_us;
    int arm;

    if (take_focus(live, lb)) {
        live_give_up(live);
        return -1;
    }
    if (live->focus != lb || lb->level.count < STEPS_BEFORE ||
        budget_left_us(&live->budget) < live->saving_us)
        return -1;
    for (;;) {
        *purpose = DECISION_SEARCH;
        /* Before anything is tried the best plan is sampled: it is what all are compared with. */
        if (search->usable[lb->best] && search->count[lb->best] < STEPS_BEFORE)
            return lb->best;
        arm = decision_next(&lb->bucket.decision, purpose);
        if (arm == DECISION_DONE) {
            if (decide(live, lb))
                live_give_up(live);
            return -1;
        }
        if (arm == lb->best)
            return arm;
        over = search_compare(search, arm, lb->best);
        /* The default is what a training would run without us, and what gains are measured against:
         * it is never too slow. */
        if (arm == live->dictionary.default_arm || exp(over.mean - favour_sds * over.sd) < never)
            break;
        decision_shun(&lb->bucket.decision, arm);
    }
    /* What is too dear is not asked for again before enough is saved up: to ask costs, too. */
    cost_us = fmax(0, (exp(over.mean + sds * over.sd) - 1) * level_ns(&lb->level) * 1e-3);
    live->saving_us = caution * cost_us;
    if (budget_left_us(&live->budget) < live->saving_us)
        return -1;
    live->saving_us = 0;
    live->budget.reserved_us = cost_us;
    if (begin(live, lb, arm)) {
        live_give_up(live);
        return -1;
    }
    return arm;
}

double live_saves(const struct live *live)
{
    return fmax(live->saving_us, caution * live->budget.reserved_us);
}

uint32_t live_waits(const struct live *live, const struct live_bucket *lb, uint32_t saving)
{
    uint32_t patience = 0;

    if (!live->focus || live->focus == lb)
        return saving;
    for (uint32_t i = 0; i < live->buckets.count; i++)
        patience += live->buckets.items[i]->state == LIVE_OPEN ? PATIENCE : 0;
    return saving > patience ? saving : patience;
}

/* ---- what came of it */

int live_learn(struct live *live, struct live_bucket *lb, enum decision_purpose purpose, int arm,
               int64_t ns)
{
    const struct bucket *b = &lb->bucket;
    int leader;

    TRY(begin(live, lb, arm));
    live->progress = live->asked;
    if (live->proven[arm] < lb->bucket.capacity)
        live->proven[arm] = lb->bucket.capacity;
    TRY(bucket_learn(&lb->bucket, purpose, arm, ns));
    *(purpose == DECISION_SEARCH ? &live->run.row.samples_search
                                 : &live->run.row.samples_default) += 1;
    /* The best of those sampled here takes over before it is decided, if samples say so clearly. */
    leader = search_result(b->dictionary->search).winner;
    if (lb->rematch || leader < 0 || leader == lb->best || bucket_count(b, leader) < STEPS_BEFORE ||
        !(bucket_median_ns(b, leader) < (1 - live->setup.margin) * bucket_median_ns(b, lb->best)))
        return OK;
    live_answer(live, lb, leader, MOE_TENTATIVE);
    live->insights++;
    for (uint32_t i = 0; i < b->told_count; i++)
        if (b->told[i].arm == leader)
            level_add(&lb->level, (double)b->told[i].ns);
    return OK;
}

int live_expire(struct live *live, struct live_bucket *lb, const char *why, bool rematch)
{
    TRY(store_expire(live->dictionary.store, live->dictionary.cluster, live->dictionary.shape,
                     live->setup.window, lb->bucket.key.bucket, lb->bucket.key.bucket, why));
    bucket_forget(&lb->bucket);
    lb->state = live_demand(&live->setup, lb->bucket.key.bucket) ? LIVE_OPEN : LIVE_FIXED;
    lb->bucket.entry.stale = true;
    lb->rematch = rematch;
    lb->answer.source = MOE_STALE;
    live->decided -= live->decided > 0;
    live->run.unpublished = true;
    return OK;
}

int live_fail(struct live *live, struct live_bucket *lb, int arm, enum trial_state state,
              const char *why)
{
    bool under_way = live->focus == lb;

    TRY(bucket_load(&lb->bucket));
    if (ledger_forgives(&lb->bucket.attempts[arm], state))
        return UNSUPPORTED;
    if (lb->state == LIVE_SETTLED)
        TRY(live_expire(live, lb, "failed in training", false));
    TRY(bucket_load(&lb->bucket));
    TRY(begin(live, lb, arm));
    TRY(bucket_fail(&lb->bucket, arm, state, why));
    TRY(store_commit(live->dictionary.store));
    if (under_way)
        decision_drop(&lb->bucket.decision, arm);
    if (arm == lb->best && arm != live->dictionary.default_arm)
        live_answer(live, lb, live->dictionary.default_arm, MOE_DEFAULT);
    return OK;
}
