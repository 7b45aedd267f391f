/* Answers a trainer, and learns the times of its steps. */
#include "live.h"

#include "arms.h"
#include "status.h"
#include "text.h"

#include <math.h>
#include <stdio.h>

/* While the bucket is not open, live_ask_in() checks only every so many asks whether to commit. */
enum { ASKS_PER_COMMIT_CHECK = 64 };

static double clock_us(const struct live *live)
{
    return live->setup.now_us(live->setup.self);
}

/* Returns whether this process may write to the table. */
static bool may_write(const struct live *live)
{
    return live->dictionary.store && !live->status.looking_up;
}

/* Commits and publishes what was learnt, if it is time. */
static void commit_if_due(struct live *live, double now_us)
{
    int rc;

    if (!may_write(live))
        return;
    run_stay_alive(&live->run, now_us);
    if (live->setup.dry_run)
        live->run.unpublished = false; /* nobody can read it */
    rc = run_publish(&live->run, now_us, false);
    if (!rc)
        rc = run_commit(&live->run, now_us);
    if (rc)
        live_stop_learning(live);
}

/* ---- asking */

void live_drop_ask(struct live *live)
{
    if (live->pending.lb)
        budget_pay_step(&live->budget, live->budget.reserved_us);
    live->pending.lb = NULL;
}

/* Finds or adds a bucket.  NULL: out of memory. */
static struct live_bucket *find_bucket(struct live *live, uint32_t bucket, uint64_t capacity)
{
    bool fresh = false;

    if (!live->last || live->last->bucket.key.bucket != bucket)
        live->last = live_bucket_at(live, bucket, &fresh);
    if (live->last && fresh)
        live_set_capacity(live, live->last, capacity);
    return live->last;
}

static struct live_bucket *bucket_of(struct live *live, uint32_t capacity)
{
    return find_bucket(live, capacity / live->setup.window,
                       live_key(live->dictionary.buckets, capacity));
}

void live_ask(struct live *live, uint32_t capacity, struct moe_plan *plan)
{
    live_ask_in(live, capacity / live->setup.window, live_key(live->dictionary.buckets, capacity),
                plan);
}

void live_ask_in(struct live *live, uint32_t bucket, uint64_t capacity, struct moe_plan *plan)
{
    struct pending *p = &live->pending;
    struct live_bucket *lb;

    live_drop_ask(live);
    lb = live->dictionary.store ? find_bucket(live, bucket, capacity) : NULL;
    if (!lb) {
        live_look_up(live, bucket, capacity, plan);
        return;
    }
    live->asks++;
    *p = (struct pending){ .lb = lb, .capacity = capacity, .arm = lb->best };
    if (lb->state == LIVE_OPEN || live->run.unpublished || !(live->asks % ASKS_PER_COMMIT_CHECK)) {
        /* The answer is the best known plan, or the one that the bucket's decision wants. */
        double now_us = clock_us(live);
        int arm = -1;

        if (lb->state == LIVE_OPEN) {
            live_ensure_answer(live, lb);
            if (may_write(live) && lb->state == LIVE_OPEN && budget_left_us(&live->budget) >= 0)
                arm = live_next_arm(live, lb, capacity, &p->purpose);
        }
        p->sampled = arm >= 0;
        p->arm = p->sampled ? arm : lb->best;
        commit_if_due(live, now_us);
        budget_add_own(&live->budget, clock_us(live) - now_us);
    }
    lb->last_step = live->asks;
    *plan = lb->answer;
    if (p->arm == lb->best)
        return;
    *plan = live->arms[p->arm];
    plan->source = MOE_TENTATIVE;
    plan->bucket = lb->bucket.key.bucket;
}

/* ---- times and failures */

/* Returns the logarithm of the bucket's capacity over the step's. */
static double log_below(const struct pending *p)
{
    return log(fmax(1, (double)p->lb->bucket.capacity) / fmax(1, (double)p->capacity));
}

/* Returns how many times as long a step under an arm takes at the bucket's capacity, by the model.
 * Time grows with capacity, at most in proportion; the model is held to this. */
static double rescale_by_model(const struct pending *p, int arm)
{
    double log_ratio = log_below(p);
    double factor =
        search_rescale(p->lb->bucket.dictionary->search, arm, p->capacity, p->lb->bucket.capacity);

    return isfinite(factor) ? fmin(exp(fmax(0, log_ratio)), fmax(exp(fmin(0, log_ratio)), factor))
                            : exp(log_ratio / 2);
}

/* Returns the factor of rescale_by_model(), corrected by the slope that steps in the bucket showed.
 */
static double rescale_by_slope(const struct pending *p, int arm)
{
    return rescale_by_model(p, arm) * exp(slope_of(&p->lb->slope) * log_below(p));
}

/* Compares a step with the bucket's entry.  If steps have become slower, the bucket is measured
 * again. */
static int check_drift(struct live *live, const struct pending *p, double ns)
{
    struct live_bucket *lb = p->lb;
    const struct buckets buckets = live->dictionary.buckets;
    const char *name = buckets.declared ? buckets_key_name(buckets) : "c";
    bool inferred = lb->bucket.entry.inferred;
    double slope_off_by = 0.1;
    char why[320];

    if (!lb->watched || lb->state != LIVE_DECIDED)
        return OK;
    /* A step far from the bucket's capacity says less, because the slope may be wrong.  A measured
     * entry was measured through the same slope.  An inferred one was not, and a new process knows
     * no slope yet. */
    if (inferred)
        slope_off_by = fmax(slope_off_by, slope_error(&lb->slope));
    if (!drift_tell(&lb->drift, ns * exp(-slope_off_by * fabs(log_below(p)))))
        return OK;
    live->status.alarms++;
    text_put(why, sizeof(why),
             "steps of %s=%llu take %.3f ms, converted to %s=%llu; the entry has %.3f ms, %s, and "
             "allows %.3f ms",
             name, (unsigned long long)p->capacity, drift_level_ns(&lb->drift) * 1e-6, name,
             (unsigned long long)lb->bucket.capacity, lb->bucket.entry.time_us * 1e-3,
             inferred ? "inferred" : "measured", drift_reference_ns(&lb->drift) * 1e-6);
    note("%s: the bucket is measured %s", why, inferred ? "now" : "again");
    /* An inferred entry has no measured plans for a rematch: its bucket is searched. */
    TRY(live_expire(live, lb, why, !inferred));
    if (inferred)
        live_set_capacity(live, lb, p->capacity);
    return OK;
}

/* Learns the time of a step: for the budget, the level, and the decision or the check of drift. */
static int close_step(struct live *live, const struct pending *p, double ns)
{
    struct live_bucket *lb = p->lb;
    bool is_best = p->arm == lb->best;
    double converted_ns, usual_us, begun_us;
    int rc;

    live->status.steps++;
    live->status.tried += !is_best;
    if (p->arm < 0) {
        budget_earn(&live->budget, ns * 1e-3, ns * 1e-3);
        return OK;
    }
    if (is_best)
        slope_add(&lb->slope, -log_below(p), log(ns * rescale_by_model(p, p->arm)));
    converted_ns = ns * rescale_by_slope(p, p->arm);
    if (is_best)
        level_add(&lb->level, converted_ns);
    /* A try costs what it took beyond the best plan. */
    usual_us = level_ns(&lb->level) / rescale_by_slope(p, lb->best) * 1e-3;
    usual_us = usual_us > 0 ? usual_us : ns * 1e-3; /* no step under the best plan is known */
    budget_earn(&live->budget, ns * 1e-3, usual_us);
    budget_pay_step(&live->budget, is_best ? 0 : ns * 1e-3 - usual_us);
    if (!may_write(live) || !(p->sampled || lb->watched))
        return OK;
    begun_us = clock_us(live);
    if (p->sampled && live->focus == lb)
        rc = live_learn(live, lb, p->purpose, p->arm, (int64_t)converted_ns);
    else
        rc = check_drift(live, p, (double)(int64_t)converted_ns);
    budget_add_own(&live->budget, clock_us(live) - begun_us);
    return rc;
}

int live_tell(struct live *live, int64_t ns)
{
    struct pending p = live->pending;

    live->pending.lb = NULL;
    if (!live->dictionary.store)
        return OK;
    if (!p.lb)
        return ERR_ARGUMENT;
    if (close_step(live, &p, (double)ns))
        live_stop_learning(live);
    return OK;
}

/* Learns that an arm could not run. */
static int learn_failure(struct live *live, struct live_bucket *lb, int arm, enum trial_state state,
                         const char *why)
{
    int rc = may_write(live) && arm >= 0 ? live_fail(live, lb, arm, state, why) : OK;

    if (rc < 0)
        live_stop_learning(live);
    return rc == UNSUPPORTED ? rc : OK;
}

void live_memory(struct live *live, int64_t bytes)
{
    const struct pending *p = &live->pending;

    if (may_write(live) && p->lb && p->arm >= 0 && p->lb->bucket.attempts &&
        ledger_memory(live->dictionary.store, &p->lb->bucket.attempts[p->arm], bytes))
        live_stop_learning(live);
}

int live_failed(struct live *live, enum trial_state state, const char *why)
{
    struct pending p = live->pending;

    live_drop_ask(live);
    if (!live->dictionary.store)
        return OK;
    return p.lb ? learn_failure(live, p.lb, p.arm, state, why) : ERR_ARGUMENT;
}

int live_failed_unasked(struct live *live, uint32_t capacity, const struct moe_plan *plan,
                        enum trial_state state, const char *why)
{
    struct live_bucket *lb;

    live_drop_ask(live);
    lb = live->dictionary.store ? bucket_of(live, capacity) : NULL;
    if (!lb)
        return OK;
    return learn_failure(live, lb, arms_find(live->arms, live->dictionary.arm_count, plan), state,
                         why);
}

/* A step without an ask counts like an answered one.  Its bucket was asked for before. */
int live_tell_unasked(struct live *live, uint32_t bucket, uint64_t capacity,
                      const struct moe_plan *plan, int64_t ns)
{
    struct pending p = { .capacity = capacity };

    live_drop_ask(live);
    p.lb = live->dictionary.store ? find_bucket(live, bucket, capacity) : NULL;
    if (!p.lb)
        return OK;
    p.arm = arms_find(live->arms, live->dictionary.arm_count, plan);
    p.lb->last_step = ++live->asks;
    if (!(live->asks % ASKS_PER_COMMIT_CHECK))
        commit_if_due(live, clock_us(live));
    if (p.arm != p.lb->best || p.arm < 0) { /* by now another plan is the best */
        live->status.steps++;
        budget_earn(&live->budget, (double)ns * 1e-3, (double)ns * 1e-3);
    } else if (close_step(live, &p, (double)ns)) {
        live_stop_learning(live);
    }
    return OK;
}

void live_add_cost(struct live *live, double us)
{
    budget_add_own(&live->budget, us);
}

uint32_t live_rest(struct live *live, uint32_t capacity, double asking_us, struct moe_plan *plan)
{
    struct live_bucket *lb = live->dictionary.store ? bucket_of(live, capacity) : NULL;
    const struct budget *budget = &live->budget;
    double missing, income = 0;
    uint32_t saving_steps = 0;

    if (!lb) {
        live_ask(live, capacity, plan);
        return LIVE_NEVER;
    }
    live_ensure_answer(live, lb);
    *plan = lb->answer;
    if (lb->state != LIVE_OPEN || !may_write(live))
        return LIVE_NEVER;
    /* How many steps earn what is missing, if each earns as much as steps so far did on average. */
    if (live->status.steps)
        income = budget->earned_us / (double)live->status.steps;
    missing = live_needed_us(live) + asking_us - budget_left_us(budget);
    if (missing > 0)
        saving_steps = income > 0 ? (uint32_t)fmin(LIVE_NEVER, ceil(missing / income)) : LIVE_NEVER;
    return live_wait_steps(live, lb, saving_steps);
}

struct moetune_status live_status(const struct live *live)
{
    struct moetune_status s = live->status;

    s.struct_size = sizeof(s);
    s.looking_up |= !live->dictionary.store;
    s.time_us = live->budget.run_us;
    s.cost_us = live->budget.spent_us;
    s.own_us = live->budget.own_us;
    for (uint32_t i = 0; i < live->buckets.count; i++) {
        s.decided += live->buckets.items[i]->state == LIVE_DECIDED;
        s.open += live->buckets.items[i]->state == LIVE_OPEN;
    }
    return s;
}
