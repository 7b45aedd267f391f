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

/* The bucket's answer from now on. */
static int write_entry(struct live *live, struct cell *cell, const struct entry_row *entry,
                       const char *why)
{
    bool replaced = cell->rematch && !plan_equal(&cell->bucket.entry.plan, &entry->plan);

    TRY(store_entry(live->dictionary.store, entry, why));
    live->status.replaced += replaced;
    live->decided++;
    live->insights++;
    live->run.unpublished = true;
    live->run.row.buckets_done++;
    cell->bucket.entry = *entry;
    cell->bucket.known = true;
    bucket_forget(&cell->bucket);
    live_settle(live, cell);
    return OK;
}

static int decide(struct live *live, struct cell *cell)
{
    struct entry_row entry;
    int rc = bucket_entry(&cell->bucket, -1, &entry);

    live->focus = NULL;
    if (rc == UNSUPPORTED) {
        cell->state = CELL_FIXED; /* no plan runs here: the trials say why */
        return OK;
    }
    TRY(rc);
    if (cell->rematch)
        entry.bound = NAN; /* only a few plans met again */
    return write_entry(live, cell, &entry, cell->rematch ? "met again" : "measured in training");
}

/* ---- not measured */

static double apart(const struct cell *a, const struct cell *b)
{
    double ratio = (double)a->bucket.capacity / (double)b->bucket.capacity;

    return fmax(ratio, 1 / ratio);
}

/* The decided bucket whose plan may hold here, too; NULL: none. */
static const struct cell *model_for(const struct live *live, const struct cell *cell)
{
    struct cell_pair pair = cells_around(&live->cells, cell->bucket.key.bucket, true);

    if (pair.below && pair.above && pair.below->best == pair.above->best &&
        apart(pair.below, pair.above) <= inferred_span)
        return pair.below;
    if (pair.below && apart(pair.below, cell) <= inferred_near)
        return pair.below;
    return pair.above && apart(pair.above, cell) <= inferred_near ? pair.above : NULL;
}

static int infer(struct live *live, struct cell *cell)
{
    /* Every bucket is to be measured; a program's ranges and classes are as near as it likes. */
    bool every = live->dictionary.effort->anchors_per_octave == 0 || live->dictionary.declared;
    const struct cell *model = every ? NULL : model_for(live, cell);
    struct entry_row entry;

    if (!model)
        return OK;
    dictionary_infer(&live->dictionary, cell->bucket.key.bucket, model->best, NULL, &entry);
    return entry.bound <= inferred_bound ? write_entry(live, cell, &entry, "inferred") : OK;
}

/* ---- the bucket under way */

static uint64_t demand_of(const struct live *live, const struct cell *cell)
{
    return live_demand(&live->setup, cell->bucket.key.bucket);
}

/* Makes this the bucket under way.  OK also if another one keeps that place, or this one needs no
 * decision. */
static int take_focus(struct live *live, struct cell *cell)
{
    /* The bucket under way goes on, unless this one is wanted more. */
    if (live->focus == cell || (live->focus && live->asked - live->focus->last_step < PATIENCE &&
                                live->asked - live->progress < PATIENCE &&
                                demand_of(live, cell) <= demand_of(live, live->focus)))
        return OK;
    live->focus = NULL;
    TRY(bucket_load(&cell->bucket));
    /* An earlier run, cut off, has taken samples: what comes next is told as if at their
     * capacity. */
    if (cell->bucket.told_count)
        live_at(live, cell, cell->bucket.attempts[cell->bucket.told[0].arm].trial.capacity);
    if (!cell->bucket.told_count && !cell->bucket.known)
        TRY(infer(live, cell));
    if (cell->state != CELL_OPEN)
        return OK;
    bucket_open(&cell->bucket, cell->rematch);
    live->focus = cell;
    live->progress = live->asked;
    live->saving_us = 0;
    return OK;
}

/* ---- what may be tried */

static const double sds = 1.645; /* one-sided, 95 % */

/* So much more has to be saved up than a trial costs at worst: the model that says so may be wrong.
 */
static const double caution = 1.3;

/* To write it down for good takes as long as many steps; once is enough for a plan that has run at
 * about this capacity. */
static int begin(struct live *live, struct cell *cell, int arm)
{
    return bucket_begin(&cell->bucket, arm, cell->bucket.capacity <= 2 * live->proven[arm]);
}

int live_next(struct live *live, struct cell *cell, enum decision_purpose *purpose)
{
    struct search *search = cell->bucket.dictionary->search;
    struct normal over; /* log of how much longer than the best plan it takes */
    double cost_us;
    int arm;

    if (take_focus(live, cell)) {
        live_give_up(live);
        return -1;
    }
    if (live->focus != cell || cell->level.count < STEPS_BEFORE ||
        budget_left_us(&live->budget) < live->saving_us)
        return -1;
    for (;;) {
        *purpose = DECISION_SEARCH;
        /* Before anything is tried the best plan is sampled: it is what all are compared with. */
        if (search->usable[cell->best] && search->count[cell->best] < STEPS_BEFORE)
            return cell->best;
        arm = decision_next(&cell->bucket.decision, purpose);
        if (arm == DECISION_DONE) {
            if (decide(live, cell))
                live_give_up(live);
            return -1;
        }
        if (arm == cell->best)
            return arm;
        over = search_compare(search, arm, cell->best);
        /* The default is what a training would run without us, and what gains are measured against:
         * it is never too slow. */
        if (arm == live->dictionary.default_arm || exp(over.mean - favour_sds * over.sd) < never)
            break;
        decision_shun(&cell->bucket.decision, arm);
    }
    /* What is too dear is not asked for again before enough is saved up: to ask costs, too. */
    cost_us = fmax(0, (exp(over.mean + sds * over.sd) - 1) * level_ns(&cell->level) * 1e-3);
    live->saving_us = caution * cost_us;
    if (budget_left_us(&live->budget) < live->saving_us)
        return -1;
    live->saving_us = 0;
    live->budget.reserved_us = cost_us;
    if (begin(live, cell, arm)) {
        live_give_up(live);
        return -1;
    }
    return arm;
}

double live_saves(const struct live *live)
{
    return fmax(live->saving_us, caution * live->budget.reserved_us);
}

uint32_t live_waits(const struct live *live, const struct cell *cell, uint32_t saving)
{
    uint32_t patience = 0;

    if (!live->focus || live->focus == cell)
        return saving;
    for (uint32_t i = 0; i < live->cells.count; i++)
        patience += live->cells.items[i]->state == CELL_OPEN ? PATIENCE : 0;
    return saving > patience ? saving : patience;
}

/* ---- what came of it */

int live_learn(struct live *live, struct cell *cell, enum decision_purpose purpose, int arm,
               int64_t ns)
{
    const struct bucket *b = &cell->bucket;
    int leader;

    TRY(begin(live, cell, arm));
    live->progress = live->asked;
    if (live->proven[arm] < cell->bucket.capacity)
        live->proven[arm] = cell->bucket.capacity;
    TRY(bucket_learn(&cell->bucket, purpose, arm, ns));
    *(purpose == DECISION_SEARCH ? &live->run.row.samples_search
                                 : &live->run.row.samples_default) += 1;
    /* The best of those sampled here takes over before it is decided, if samples say so clearly. */
    leader = search_result(b->dictionary->search).winner;
    if (cell->rematch || leader < 0 || leader == cell->best ||
        bucket_count(b, leader) < STEPS_BEFORE ||
        !(bucket_median_ns(b, leader) < (1 - live->setup.margin) * bucket_median_ns(b, cell->best)))
        return OK;
    live_answer(live, cell, leader, MOE_TENTATIVE);
    live->insights++;
    for (uint32_t i = 0; i < b->told_count; i++)
        if (b->told[i].arm == leader)
            level_add(&cell->level, (double)b->told[i].ns);
    return OK;
}

int live_expire(struct live *live, struct cell *cell, const char *why, bool rematch)
{
    TRY(store_expire(live->dictionary.store, live->dictionary.cluster, live->dictionary.shape,
                     live->setup.window, cell->bucket.key.bucket, cell->bucket.key.bucket, why));
    bucket_forget(&cell->bucket);
    cell->state = live_demand(&live->setup, cell->bucket.key.bucket) ? CELL_OPEN : CELL_FIXED;
    cell->bucket.entry.stale = true;
    cell->rematch = rematch;
    cell->answer.source = MOE_STALE;
    live->decided -= live->decided > 0;
    live->run.unpublished = true;
    return OK;
}

int live_fail(struct live *live, struct cell *cell, int arm, enum trial_state state,
              const char *why)
{
    bool under_way = live->focus == cell;

    TRY(bucket_load(&cell->bucket));
    if (ledger_forgives(&cell->bucket.attempts[arm], state))
        return UNSUPPORTED;
    if (cell->state == CELL_SETTLED)
        TRY(live_expire(live, cell, "failed in training", false));
    TRY(bucket_load(&cell->bucket));
    TRY(begin(live, cell, arm));
    TRY(bucket_fail(&cell->bucket, arm, state, why));
    TRY(store_commit(live->dictionary.store));
    if (under_way)
        decision_drop(&cell->bucket.decision, arm);
    if (arm == cell->best && arm != live->dictionary.default_arm)
        live_answer(live, cell, live->dictionary.default_arm, MOE_DEFAULT);
    return OK;
}
