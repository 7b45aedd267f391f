/* Answers a trainer, and takes in the times that it tells. */
#include "live.h"

#include "arms.h"
#include "status.h"
#include "text.h"

#include <math.h>
#include <stdio.h>

static double clock_us(const struct live *live)
{
    return live->setup.now_us(live->setup.self);
}

static bool learns(const struct live *live)
{
    return live->dictionary.store && !live->status.looking_up;
}

/* What was learnt becomes durable, if it is time. */
static void keep(struct live *live, double now_us)
{
    int rc;

    if (!learns(live))
        return;
    run_stay_alive(&live->run, now_us);
    if (live->setup.dry_run)
        live->run.unpublished = false; /* there is nobody to read it */
    rc = run_publish(&live->run, now_us, false);
    if (!rc)
        rc = run_commit(&live->run, now_us);
    if (rc)
        live_give_up(live);
}

/* ---- asking */

void live_void(struct live *live)
{
    if (live->pending.cell)
        budget_settle(&live->budget, live->budget.reserved_us);
    live->pending.cell = NULL;
}

static struct cell *cell_in(struct live *live, uint32_t bucket, uint64_t capacity)
{
    bool fresh = false;

    if (!live->last || live->last->bucket.key.bucket != bucket)
        live->last = live_cell(live, bucket, &fresh);
    if (live->last && fresh)
        live_at(live, live->last, capacity);
    return live->last;
}

uint64_t live_key(const struct live *live, uint32_t capacity)
{
    return live->dictionary.declared ? dictionary_capacity(&live->dictionary, capacity) : capacity;
}

static struct cell *cell_of(struct live *live, uint32_t capacity)
{
    return cell_in(live, capacity / live->setup.window, live_key(live, capacity));
}

/* The best plan known, or what the bucket's decision asks for. */
static void choose(struct live *live, struct cell *cell, double now_us)
{
    struct pending *p = &live->pending;
    int arm = -1;

    if (cell->state == CELL_OPEN) {
        live_prepare(live, cell);
        if (learns(live) && cell->state == CELL_OPEN && budget_left_us(&live->budget) >= 0)
            arm = live_next(live, cell, &p->purpose);
    }
    p->sampled = arm >= 0;
    p->arm = p->sampled ? arm : cell->best;
    keep(live, now_us);
    budget_own(&live->budget, clock_us(live) - now_us);
}

static void look_up(const struct live *live, uint32_t bucket, uint64_t key, struct moe_plan *plan)
{
    const struct declaration *d = live->dictionary.declared;

    if (d)
        moelookup_get_key(live->view, key, declaration_class(d, bucket), plan);
    else
        moelookup_get(live->view, (uint32_t)key, plan);
}

void live_ask(struct live *live, uint32_t capacity, struct moe_plan *plan)
{
    live_ask_in(live, capacity / live->setup.window, live_key(live, capacity), plan);
}

void live_ask_in(struct live *live, uint32_t bucket, uint64_t capacity, struct moe_plan *plan)
{
    struct pending *p = &live->pending;
    struct cell *cell;

    live_void(live);
    cell = live->dictionary.store ? cell_in(live, bucket, capacity) : NULL;
    if (!cell) {
        *plan = (struct moe_plan)MOE_PLAN_INIT;
        if (live->view)
            look_up(live, bucket, capacity, plan);
        return;
    }
    live->asked++;
    *p = (struct pending){ .cell = cell, .capacity = capacity, .arm = cell->best };
    if (cell->state == CELL_OPEN || live->run.unpublished || !(live->asked % 64))
        choose(live, cell, clock_us(live));
    cell->last_step = live->asked;
    *plan = cell->answer;
    if (p->arm == cell->best)
        return;
    *plan = live->arms[p->arm];
    plan->source = MOE_TENTATIVE;
    plan->bucket = cell->bucket.key.bucket;
}

/* ---- telling */

/* What trying a plan took beyond the best one, both as if at the bucket's capacity. */
static double cost_us(const struct pending *p, double ns)
{
    double level;

    if (p->arm == p->cell->best)
        return 0;
    level = level_ns(&p->cell->level);
    return level > 0 ? (ns - level) * 1e-3 : 0;
}

static double log_below(const struct pending *p)
{
    return log(fmax(1, (double)p->cell->bucket.capacity) / fmax(1, (double)p->capacity));
}

/* A step far from the bucket's capacity says less: how time follows capacity may be off by so
 * much.  What was measured was measured through the same slope; what was foreseen was not, and a
 * trainer that starts knows no slope yet. */
static double slope_error(const struct cell *cell)
{
    return cell->bucket.entry.inferred ? fmax(0.1, slope_doubt(&cell->slope)) : 0.1;
}

static int watch(struct live *live, const struct pending *p, double ns)
{
    struct cell *cell = p->cell;
    const struct declaration *d = live->dictionary.declared;
    const char *name = d ? d->key : "c";
    bool inferred = cell->bucket.entry.inferred;
    char why[320];

    if (!cell->watched || cell->state != CELL_SETTLED ||
        !drift_tell(&cell->drift, ns * exp(-slope_error(cell) * fabs(log_below(p)))))
        return OK;
    live->status.alarms++;
    text_put(why, sizeof(why),
             "steps of %s=%llu take %.3f ms as if at %s=%llu, where %.3f were %s and %.3f allowed",
             name, (unsigned long long)p->capacity, drift_level_ns(&cell->drift) * 1e-6, name,
             (unsigned long long)cell->bucket.capacity, cell->bucket.entry.time_us * 1e-3,
             inferred ? "inferred" : "measured", drift_reference_ns(&cell->drift) * 1e-6);
    note("%s: they are measured %s", why, inferred ? "now" : "again");
    /* Of what was never measured there are no plans to meet again: it is searched. */
    TRY(live_expire(live, cell, why, !inferred));
    if (inferred)
        live_at(live, cell, p->capacity);
    return OK;
}

static int learn(struct live *live, const struct pending *p, int64_t ns)
{
    struct cell *cell = p->cell;
    double begun_us = clock_us(live);
    int rc;

    if (p->sampled && live->focus == cell)
        rc = live_learn(live, cell, p->purpose, p->arm, ns);
    else
        rc = watch(live, p, (double)ns);
    budget_own(&live->budget, clock_us(live) - begun_us);
    return rc;
}

/* What the step would have taken at the bucket's capacity. */
static double as_if_ns(const struct pending *p, double ns)
{
    struct cell *cell = p->cell;
    double model_ns = ns * search_rescale(cell->bucket.dictionary->search, p->arm, p->capacity,
                                          cell->bucket.capacity);
    double below = log_below(p);

    if (p->arm == cell->best)
        slope_add(&cell->slope, -below, log(model_ns));
    return model_ns * exp(slope_of(&cell->slope) * below);
}

static int close_step(struct live *live, const struct pending *p, double ns)
{
    double as_if;

    live->status.steps++;
    live->status.tried += p->arm != p->cell->best;
    live->budget.run_us += ns * 1e-3;
    if (p->arm < 0)
        return OK;
    as_if = as_if_ns(p, ns);
    budget_settle(&live->budget, cost_us(p, as_if));
    if (p->arm == p->cell->best)
        level_add(&p->cell->level, as_if);
    return learns(live) && (p->sampled || p->cell->watched) ? learn(live, p, (int64_t)as_if) : OK;
}

int live_tell(struct live *live, int64_t ns)
{
    struct pending p = live->pending;

    live->pending.cell = NULL;
    if (!live->dictionary.store)
        return OK;
    if (!p.cell)
        return ERR_ARGUMENT;
    if (close_step(live, &p, (double)ns))
        live_give_up(live);
    return OK;
}

static int give_plan_up(struct live *live, struct cell *cell, int arm, enum trial_state state,
                        const char *why)
{
    int rc = learns(live) && arm >= 0 ? live_fail(live, cell, arm, state, why) : OK;

    if (rc < 0)
        live_give_up(live);
    return rc == UNSUPPORTED ? rc : OK;
}

void live_memory(struct live *live, int64_t bytes)
{
    const struct pending *p = &live->pending;

    if (learns(live) && p->cell && p->arm >= 0 && p->cell->bucket.attempts &&
        ledger_memory(live->dictionary.store, &p->cell->bucket.attempts[p->arm], bytes))
        live_give_up(live);
}

int live_failed(struct live *live, enum trial_state state, const char *why)
{
    struct pending p = live->pending;

    live_void(live);
    if (!live->dictionary.store)
        return OK;
    return p.cell ? give_plan_up(live, p.cell, p.arm, state, why) : ERR_ARGUMENT;
}

int live_broke(struct live *live, uint32_t capacity, const struct moe_plan *plan,
               enum trial_state state, const char *why)
{
    struct cell *cell;

    live_void(live);
    cell = live->dictionary.store ? cell_of(live, capacity) : NULL;
    if (!cell)
        return OK;
    return give_plan_up(live, cell, arms_find(live->arms, live->dictionary.arm_count, plan), state,
                        why);
}

/* What runs without being asked for counts like what was answered: each step is of a bucket that
 * was asked for before. */
int live_passed(struct live *live, uint32_t bucket, uint64_t capacity, const struct moe_plan *plan,
                int64_t ns)
{
    struct pending p = { .capacity = capacity };

    live_void(live);
    p.cell = live->dictionary.store ? cell_in(live, bucket, capacity) : NULL;
    if (!p.cell)
        return OK;
    p.arm = arms_find(live->arms, live->dictionary.arm_count, plan);
    p.cell->last_step = ++live->asked;
    if (!(live->asked % 64))
        keep(live, clock_us(live));
    if (p.arm != p.cell->best || p.arm < 0) { /* another one has become the best since */
        live->status.steps++;
        live->budget.run_us += (double)ns * 1e-3;
    } else if (close_step(live, &p, (double)ns)) {
        live_give_up(live);
    }
    return OK;
}

void live_spent(struct live *live, double us)
{
    budget_own(&live->budget, us);
}

/* Steps until so much more may be spent; a step is taken for as long as they were on average. */
static uint32_t steps_to_save(const struct live *live, double us)
{
    double income = live->status.steps
                        ? live->budget.share * live->budget.run_us / (double)live->status.steps
                        : 0;
    double missing = us - budget_left_us(&live->budget);

    if (missing <= 0)
        return 0;
    return income > 0 ? (uint32_t)fmin(LIVE_NEVER, ceil(missing / income)) : LIVE_NEVER;
}

uint32_t live_rest(struct live *live, uint32_t capacity, struct moe_plan *plan)
{
    struct cell *cell = live->dictionary.store ? cell_of(live, capacity) : NULL;

    if (!cell) {
        live_ask(live, capacity, plan);
        return LIVE_NEVER;
    }
    live_prepare(live, cell);
    *plan = cell->answer;
    if (cell->state != CELL_OPEN || !learns(live))
        return LIVE_NEVER;
    return live_waits(live, cell, steps_to_save(live, live_saves(live)));
}

struct moetune_status live_status(const struct live *live)
{
    struct moetune_status s = live->status;

    s.struct_size = sizeof(s);
    s.looking_up |= !live->dictionary.store;
    s.time_us = live->budget.run_us;
    s.cost_us = live->budget.spent_us;
    s.own_us = live->budget.own_us;
    for (uint32_t i = 0; i < live->cells.count; i++) {
        s.decided += live->cells.items[i]->state == CELL_SETTLED;
        s.open += live->cells.items[i]->state == CELL_OPEN;
    }
    return s;
}
