/* One bucket at a time is decided: what its decision asks for is tried when it can be afforded. */
#include "live.h"

#include "arms.h"
#include "entry.h"
#include "plan.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

/* Steps without the bucket under way until another one takes its place. */
enum { PATIENCE = 64 };
/* Steps that the best plan must have taken in a bucket before another one is tried there. */
enum { STEPS_BEFORE = 2 };
/* Of a contest: more than in a sweep, for there is no hurry, and the best plan so far runs anyway.
 */
enum { ROUNDS_MAX = 128 };
/* A plan that is expected to take so many times as long as the best one is never tried; of a plan
 * of which nothing is known, what it may take. */
static const double never = 3, unknown_ratio = 1.5;
/* As in a sweep nothing is measured where that may cost no more: between two buckets that agree,
 * and closer to one than the sweep's own are to each other. */
static const double inferred_bound = 0.02, inferred_span = 2, inferred_near = 1.2;

/* ---- an entry */

static void begin_entry(const struct live *live, const struct cell *cell, struct entry_row *out)
{
    *out = (struct entry_row){ .cluster = live->cluster,
                               .shape = live->shape,
                               .run = live->run.id,
                               .window = live->setup.window,
                               .bucket = cell->bucket,
                               .capacity = cell->capacity,
                               .decided_s = time(NULL) };
    snprintf(out->effort, sizeof(out->effort), "%s", live->effort->name);
    snprintf(out->search, sizeof(out->search), "%s", live->search->ops->name);
}

/* The bucket's answer from now on. */
static int write_entry(struct live *live, struct cell *cell, const struct entry_row *entry,
                       const char *why)
{
    bool replaced = cell->rematch && !plan_equal(&cell->entry.plan, &entry->plan);

    TRY(store_entry(live->store, entry, why));
    live->status.replaced += replaced;
    live->decided++;
    live->insights++;
    live->unpublished = true;
    live->run.buckets_done++;
    cell->entry = *entry;
    cell->known = true;
    cell_forget(cell);
    live_settle(live, cell);
    return OK;
}

static int decide(struct live *live, struct cell *cell)
{
    struct decision_result result;
    struct entry_row entry;

    live->focus = NULL;
    if (!decision_result(&live->decision, &result)) {
        cell->state = CELL_FIXED; /* no plan runs here: the trials say why */
        return OK;
    }
    begin_entry(live, cell, &entry);
    entry_fill(&result, live->arms, &entry);
    if (cell->rematch)
        entry.bound = NAN; /* of a search that was another day's */
    return write_entry(live, cell, &entry, cell->rematch ? "met again" : "measured in training");
}

/* ---- not measured */

static double apart(const struct cell *a, const struct cell *b)
{
    double ratio = (double)a->capacity / (double)b->capacity;

    return fmax(ratio, 1 / ratio);
}

/* The decided bucket whose plan may hold here, too; NULL: none. */
static const struct cell *model_for(const struct live *live, const struct cell *cell)
{
    struct cell_pair pair = cells_around(&live->cells, cell->bucket, true);

    if (pair.below && pair.above && pair.below->best == pair.above->best &&
        apart(pair.below, pair.above) <= inferred_span)
        return pair.below;
    if (pair.below && apart(pair.below, cell) <= inferred_near)
        return pair.below;
    return pair.above && apart(pair.above, cell) <= inferred_near ? pair.above : NULL;
}

static double expected_us(struct live *live, const struct cell *cell, int arm)
{
    return search_estimate(live->search, cell->capacity, arm) * 1e-3;
}

static int infer(struct live *live, struct cell *cell)
{
    const struct cell *model = model_for(live, cell);
    struct search_verdict verdict;
    struct entry_row e;

    if (!model || !search_infer(live->search, cell->capacity, NULL, &verdict))
        return OK;
    begin_entry(live, cell, &e);
    e.time_us = expected_us(live, cell, model->best);
    e.default_us = expected_us(live, cell, live->standard);
    e.bound = verdict.bound + fmax(0, e.time_us / expected_us(live, cell, verdict.winner) - 1);
    if (!(e.bound <= inferred_bound))
        return OK;
    e.plan = live->arms[model->best];
    e.search_winner = live->arms[verdict.winner];
    e.inferred = true;
    e.gain = 1 - e.time_us / e.default_us;
    e.low_us = e.high_us = e.gain_low = e.gain_high = NAN;
    snprintf(e.decision, sizeof(e.decision), "inferred");
    snprintf(e.reason, sizeof(e.reason), "inferred");
    return write_entry(live, cell, &e, "inferred");
}

/* ---- the bucket under way */

static int incumbent_of(const struct live *live, const struct cell *cell)
{
    return cell->known && !cell->entry.inferred
               ? arms_find(live->arms, live->arm_count, &cell->entry.plan)
               : -1;
}

static void open_decision(struct live *live, struct cell *cell)
{
    struct decision_setup d = { .search = live->search,
                                .capacity = cell->capacity,
                                .standard = live->standard,
                                .incumbent = incumbent_of(live, cell),
                                .challenger = -1,
                                .contest = { .margin = live->setup.margin,
                                             .confidence = live->effort->confidence,
                                             .rounds_max = ROUNDS_MAX,
                                             .seed = live->setup.seed ^ cell->bucket } };
    bool usable[SEARCH_ARMS_MAX] = { false };

    for (size_t arm = 0; arm < live->arm_count; arm++)
        usable[arm] = cell->attempts[arm].usable;
    d.usable = usable;
    d.rematch = cell->rematch && d.incumbent >= 0;
    if (d.rematch && cell->entry.runner_up.struct_size)
        d.challenger = arms_find(live->arms, live->arm_count, &cell->entry.runner_up);
    decision_open(&live->decision, &d);
    for (uint32_t i = 0; i < cell->told_count; i++)
        decision_recall(&live->decision, cell->told[i].phase, cell->told[i].arm, cell->told[i].ns);
    live->focus = cell;
    live->saving_us = 0;
}

/* OK also if the bucket under way keeps its place, or this one needs no decision. */
static int take_focus(struct live *live, struct cell *cell)
{
    if (live->focus == cell)
        return OK;
    if (live->focus && live->asked - live->focus->last_step < PATIENCE)
        return OK;
    live->focus = NULL;
    TRY(live_load(live, cell));
    if (!cell->told_count && !cell->known)
        TRY(infer(live, cell));
    if (cell->state == CELL_OPEN)
        open_decision(live, cell);
    return OK;
}

/* ---- what may be tried */

/* How much longer than the best plan: expected, and at worst. */
static void ratio_of(struct live *live, const struct cell *cell, int arm, double *expected,
                     double *high)
{
    const struct entry_row *e = &cell->entry;
    double ns = cell_median_ns(cell, arm);

    if (!live->decision.setup.rematch &&
        search_ratio(live->search, arm, cell->best, expected, high))
        return;
    if (!(ns > 0) && arm == live->standard && e->default_us > 0)
        ns = e->default_us * 1e3;
    *expected = *high = ns > 0 ? fmin(ns / level_ns(&cell->level), never) : unknown_ratio;
}

/* So much more has to be saved up than a trial costs at worst: the model that says so may be wrong.
 */
static const double caution = 1.3;

/* What is too dear is not asked for again before enough is saved up: to ask costs, too. */
static bool affordable(struct live *live, const struct cell *cell, double ratio)
{
    double cost_us = fmax(0, (ratio - 1) * level_ns(&cell->level) * 1e-3);

    live->saving_us = caution * cost_us;
    if (purse_left_us(&live->purse) < live->saving_us)
        return false;
    live->saving_us = 0;
    live->purse.reserved_us = cost_us;
    return true;
}

/* Before anything is tried the best plan is sampled: it is what all are compared with. */
static bool best_comes_first(const struct live *live, const struct cell *cell)
{
    return !live->decision.setup.rematch && !live->decision.contested &&
           live->decision.usable[cell->best] && live->search->count[cell->best] < STEPS_BEFORE;
}

/* To write it down for good takes as long as many steps; once is enough for a plan that has run at
 * about this capacity. */
static int begin(struct live *live, struct cell *cell, int arm)
{
    return ledger_begin(live->store, live->run.id, &cell->attempts[arm],
                        cell->capacity <= 2 * live->proven[arm]);
}

int live_next(struct live *live, struct cell *cell, enum decision_phase *phase)
{
    double expected, high;
    int arm;

    if (take_focus(live, cell)) {
        live_give_up(live);
        return -1;
    }
    if (live->focus != cell || cell->level.count < STEPS_BEFORE ||
        purse_left_us(&live->purse) < live->saving_us)
        return -1;
    for (;;) {
        *phase = DECISION_SEARCH;
        if (best_comes_first(live, cell))
            return cell->best;
        arm = decision_next(&live->decision, phase);
        if (arm == DECISION_DONE) {
            if (decide(live, cell))
                live_give_up(live);
            return -1;
        }
        if (arm == cell->best)
            return arm;
        ratio_of(live, cell, arm, &expected, &high);
        if (expected < never)
            break;
        decision_shun(&live->decision, arm);
    }
    if (!affordable(live, cell, high))
        return -1;
    if (begin(live, cell, arm)) {
        live_give_up(live);
        return -1;
    }
    return arm;
}

/* ---- what came of it */

/* The best of those sampled here takes over before it is decided, if samples say so clearly. */
static void follow_leader(struct live *live, struct cell *cell)
{
    int leader;

    if (live->decision.setup.rematch)
        return;
    leader = live->decision.contested ? live->decision.found.winner
                                      : search_verdict(live->search).winner;
    if (leader < 0 || leader == cell->best || cell_count(cell, leader) < STEPS_BEFORE ||
        !(cell_median_ns(cell, leader) <
          (1 - live->setup.margin) * cell_median_ns(cell, cell->best)))
        return;
    live_answer(live, cell, leader, MOE_TENTATIVE);
    live->insights++;
    for (uint32_t i = 0; i < cell->told_count; i++)
        if (cell->told[i].arm == leader)
            level_add(&cell->level, (double)cell->told[i].ns);
}

int live_learn(struct live *live, struct cell *cell, enum decision_phase phase, int arm, int64_t ns)
{
    struct attempt *a = &cell->attempts[arm];
    bool search = phase == DECISION_SEARCH;

    TRY(begin(live, cell, arm));
    if (live->proven[arm] < cell->capacity)
        live->proven[arm] = cell->capacity;
    TRY(ledger_end(live->store, a, TRIAL_OK, ""));
    TRY(store_sample(live->store, a->trial.id,
                     &(struct sample_row){ .kind = search ? SAMPLE_SEARCH : SAMPLE_CONTEST,
                                           .round = cell_count(cell, arm),
                                           .ns = ns,
                                           .run = live->run.id }));
    *(search ? &live->run.samples_search : &live->run.samples_default) += 1;
    if (!cell_remember(cell, &(struct told){ arm, phase, ns }))
        return fail(ERR_NOMEM, "samples of a bucket");
    decision_tell(&live->decision, phase, arm, ns);
    follow_leader(live, cell);
    return OK;
}

int live_expire(struct live *live, struct cell *cell, const char *why, bool rematch)
{
    TRY(store_expire(live->store, live->cluster, live->shape, live->setup.window, cell->bucket,
                     cell->bucket, why));
    cell_forget(cell);
    cell->state = CELL_OPEN;
    cell->entry.stale = true;
    cell->rematch = rematch;
    cell->answer.source = MOE_STALE;
    live->decided -= live->decided > 0;
    live->unpublished = true;
    return OK;
}

int live_fail(struct live *live, struct cell *cell, int arm, enum trial_state state,
              const char *why)
{
    bool under_way = live->focus == cell;

    if (cell->state == CELL_SETTLED)
        TRY(live_expire(live, cell, "failed in training", false));
    TRY(live_load(live, cell));
    TRY(begin(live, cell, arm));
    TRY(ledger_end(live->store, &cell->attempts[arm], state, why));
    TRY(store_commit(live->store));
    if (under_way)
        decision_drop(&live->decision, arm);
    if (arm == cell->best && arm != live->standard)
        live_answer(live, cell, live->standard, MOE_DEFAULT);
    return OK;
}
