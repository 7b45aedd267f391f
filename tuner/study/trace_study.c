/* `study trace`: replays the capacities of a training, and compares policies that choose the plan
 * of each step: the default, one static plan, a table, a trainer that tunes, the best plan. */
#include "capacity_trace.h"
#include "live.h"
#include "modelled_layer.h"
#include "plan.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SWING_STEPS = 20000 };

/* One replay.  run_trace() opens it and frees its arrays. */
struct trace_replay {
    const struct study_ask *ask;
    struct modelled_layer layer;
    struct capacity_trace trace;
    uint32_t *buckets; /* that the trace needs, in the order of its steps, each once */
    size_t bucket_count;
    uint32_t first_bucket; /* the smallest of them */
    int *arm_of;           /* the table: an arm for each bucket, from first_bucket on */
};

/* What a training costs under one policy. */
struct policy_cost {
    double ns;     /* true time of all steps */
    double trials; /* steps that tuning took; NAN: the policy does not tune */
};

static double step_ns(const struct trace_replay *r, size_t step, int arm)
{
    return modelled_layer_ns(&r->layer, r->trace.capacities[step], arm);
}

static double sum_ns(const struct trace_replay *r, int arm)
{
    double sum = 0;

    for (size_t i = 0; i < r->trace.steps; i++)
        sum += step_ns(r, i, arm);
    return sum;
}

/* ---- one plan, or the best of each step */

/* Returns the arm with the smallest time of all steps, or -1: none fits into the memory at every
 * step. */
static int best_static(const struct trace_replay *r, double *ns)
{
    int best = -1;

    *ns = NAN;
    for (int arm = 0; arm < (int)r->layer.space->arm_count; arm++) {
        double sum = sum_ns(r, arm);

        if (!isnan(sum) && !(sum >= *ns)) {
            *ns = sum;
            best = arm;
        }
    }
    return best;
}

/* Sums the times of each step's best plan. */
static int sum_best_steps(const struct trace_replay *r, double *ns)
{
    *ns = 0;
    for (size_t i = 0; i < r->trace.steps; i++) {
        double least_ns = NAN;

        for (int arm = 0; arm < (int)r->layer.space->arm_count; arm++)
            least_ns = fmin(least_ns, step_ns(r, i, arm));
        if (isnan(least_ns))
            return fail(ERR_ARGUMENT, "step %zu: no plan at c=%u fits into %s of memory", i + 1,
                        r->trace.capacities[i], ACCOUNT_TEXT(r->layer.space->memory_limit_bytes));
        *ns += least_ns;
    }
    return OK;
}

/* ---- a table */

/* Tunes a table before the training, and takes each step under its bucket's plan. */
static int add_table(struct trace_replay *r, uint32_t run, struct policy_cost *out)
{
    const struct layer_plans *space = r->layer.space;
    struct noise noise = modelled_layer_noise(&r->layer, run);
    struct search *search;

    TRY(modelled_layer_search(&r->layer, search_find("guided"), run, &search));
    for (size_t i = 0; i < r->bucket_count; i++) {
        struct true_bucket bucket;
        struct bucket_outcome outcome = { .arm = space->default_arm };

        /* At the bucket's upper end no plan may fit into the memory, although plans fit at the
         * trace's capacity. */
        if (modelled_layer_bucket(&r->layer, r->buckets[i], &bucket))
            outcome =
                true_bucket_tune(&bucket, search, &noise, r->layer.request.effort->patience, NULL);
        r->arm_of[r->buckets[i] - r->first_bucket] = outcome.arm;
        out->trials += outcome.samples;
    }
    search_close(search);
    for (size_t i = 0; i < r->trace.steps; i++)
        out->ns +=
            step_ns(r, i, r->arm_of[r->trace.capacities[i] / space->window - r->first_bucket]);
    return OK;
}

/* ---- a trainer that tunes */

/* The clock of the library: it stands still, because time of this machine must not change results.
 */
static double stopped_clock(void *self)
{
    (void)self;
    return 0;
}

/* Takes one step under the plan that the library gives.  Reports a plan that does not fit into the
 * memory, and asks for another one.  Returns false if none fits. */
static bool train_step(const struct trace_replay *r, struct live *live, struct noise *noise,
                       size_t step, double *ns)
{
    const struct layer_plans *space = r->layer.space;

    for (size_t tries = 0; tries <= space->arm_count; tries++) {
        struct moe_plan plan = MOE_PLAN_INIT;
        int arm;

        live_ask(live, r->trace.capacities[step], &plan);
        arm = layer_plans_arm(space, &plan);
        *ns = arm < 0 ? NAN : step_ns(r, step, arm);
        if (!isnan(*ns)) {
            live_tell(live, noise_sample(noise, *ns));
            return true;
        }
        live_failed(live, TRIAL_NO_MEMORY, "the plan does not fit into the memory");
    }
    return false;
}

/* Trains with libmoetune, which begins with the default plan and tries others. */
static int add_trainer(const struct trace_replay *r, uint32_t run, struct policy_cost *out)
{
    char cluster[CLUSTER_TEXT_BYTES];
    struct table_setup setup = { .dry_run = true,
                                 .cluster = cluster,
                                 .shape = r->layer.space->shape,
                                 .axes = r->layer.options.axes,
                                 .window = r->layer.space->window,
                                 .seed = (uint32_t)(r->layer.seed + run),
                                 .share = r->ask->share,
                                 .margin = r->layer.options.margin,
                                 .harm = r->layer.options.harm,
                                 .now_us = stopped_clock };
    struct noise noise = modelled_layer_noise(&r->layer, run);
    size_t step = 0, steps = r->trace.steps;
    struct live *live;
    bool log_before;
    double ns;

    cluster_format(&r->layer.cluster, cluster, sizeof(cluster));
    TRY(live_open(&setup, &live));
    log_before = log_enable(false); /* messages about drift are no news in a simulation */
    for (; step < steps && train_step(r, live, &noise, step, &ns); step++)
        out->ns += ns;
    log_enable(log_before);
    out->trials += (double)live_status(live).tried;
    live_close(live);
    return step == steps
               ? OK
               : fail(ERR_ARGUMENT,
                      "step %zu: the trainer finds no plan at c=%u that fits into the memory",
                      step + 1, r->trace.capacities[step]);
}

/* ---- all of them */

static int put_policy(struct study_table *table, const char *row, struct policy_cost policy,
                      double default_ns, double best_ns)
{
    TRY(study_put_value(table, row, "time, ms", policy.ns * 1e-6));
    TRY(study_put_value(table, row, "of default, %", 100 * policy.ns / default_ns));
    TRY(study_put_value(table, row, "above best, %", 100 * (policy.ns / best_ns - 1)));
    return isnan(policy.trials) ? OK : study_put_value(table, row, "trials", policy.trials);
}

static int put_policies(struct trace_replay *r, struct study_table *out)
{
    struct policy_cost default_plan = { sum_ns(r, r->layer.space->default_arm), NAN };
    struct policy_cost static_plan = { NAN, NAN }, best_of_step = { NAN, NAN };
    struct policy_cost table = { 0, 0 }, trainer = { 0, 0 }; /* sums over the runs, then means */
    double runs = r->ask->seeds;
    char name[48] = "best static plan";
    int arm;

    TRY(sum_best_steps(r, &best_of_step.ns));
    arm = best_static(r, &static_plan.ns);
    if (arm >= 0)
        snprintf(name, sizeof(name), "static: %s", PLAN_TEXT(&r->layer.space->arms[arm]));
    for (uint32_t run = 0; run < r->ask->seeds; run++) {
        TRY(add_table(r, run, &table));
        TRY(add_trainer(r, run, &trainer));
    }
    table = (struct policy_cost){ table.ns / runs, table.trials / runs };
    trainer = (struct policy_cost){ trainer.ns / runs, trainer.trials / runs };
    TRY(put_policy(out, "default plan", default_plan, default_plan.ns, best_of_step.ns));
    TRY(put_policy(out, name, static_plan, default_plan.ns, best_of_step.ns));
    TRY(put_policy(out, "table of tune", table, default_plan.ns, best_of_step.ns));
    TRY(put_policy(out, "trainer that tunes", trainer, default_plan.ns, best_of_step.ns));
    return put_policy(out, "best plan of each step", best_of_step, default_plan.ns,
                      best_of_step.ns);
}

/* Lists the buckets of the trace's steps, and finds its smallest and largest capacity. */
static int list_trace_buckets(struct trace_replay *r, uint32_t *least, uint32_t *most)
{
    uint32_t window = r->layer.space->window;
    size_t range;

    *least = *most = r->trace.capacities[0];
    for (size_t i = 1; i < r->trace.steps; i++) {
        *least = r->trace.capacities[i] < *least ? r->trace.capacities[i] : *least;
        *most = r->trace.capacities[i] > *most ? r->trace.capacities[i] : *most;
    }
    r->first_bucket = *least / window;
    range = *most / window - r->first_bucket + 1;
    r->buckets = malloc(range * sizeof(*r->buckets));
    r->arm_of = malloc(range * sizeof(*r->arm_of));
    if (!r->buckets || !r->arm_of)
        return fail(ERR_NOMEM, "%zu buckets", range);
    for (size_t i = 0; i < range; i++)
        r->arm_of[i] = -1;
    for (size_t i = 0; i < r->trace.steps; i++) {
        uint32_t bucket = r->trace.capacities[i] / window;

        if (r->arm_of[bucket - r->first_bucket] < 0)
            r->buckets[r->bucket_count++] = bucket;
        r->arm_of[bucket - r->first_bucket] = 0;
    }
    return OK;
}

/* Computes the true times of every plan: at the trace's capacities, and at those at which tune
 * measures its buckets. */
static int time_steps(struct trace_replay *r)
{
    size_t count = r->trace.steps + r->bucket_count;
    uint64_t *capacities = malloc(count * sizeof(*capacities));
    int rc;

    if (!capacities)
        return fail(ERR_NOMEM, "the capacities of %zu steps", count);
    for (size_t i = 0; i < r->trace.steps; i++)
        capacities[i] = r->trace.capacities[i];
    for (size_t i = 0; i < r->bucket_count; i++)
        capacities[r->trace.steps + i] = layer_plans_capacity(r->layer.space, r->buckets[i]);
    rc = modelled_layer_time(&r->layer, capacities, count);
    free(capacities);
    return rc;
}

static int replay_trace(struct trace_replay *r, struct study_result *result)
{
    const struct moe_shape *shape = &r->layer.space->shape;
    const char *file = r->ask->file;
    uint32_t least, most;

    TRY(file ? capacity_trace_read(file, shape, &r->trace)
             : capacity_trace_swing(shape, SWING_STEPS, &r->trace));
    TRY(list_trace_buckets(r, &least, &most));
    TRY(time_steps(r));
    result->machine = r->layer.cluster;
    snprintf(result->remark, sizeof(result->remark),
             "%s: %zu plans; %s: %zu steps, c from %u to %u (%.2f times), %zu buckets of width %u; "
             "noise %g %%, seeds %llu to %llu, share %g",
             SHAPE_TEXT(shape), r->layer.space->arm_count, file ? file : "two made-up waves",
             r->trace.steps, least, most, (double)most / least, r->bucket_count,
             r->layer.space->window, r->ask->noise_percent, (unsigned long long)r->layer.seed,
             (unsigned long long)(r->layer.seed + r->ask->seeds - 1), r->ask->share);
    return put_policies(r, &result->tables[0]);
}

static int run_trace(const struct study_ask *ask, struct study_result *result)
{
    struct trace_replay r = { .ask = ask };
    int rc;

    TRY(layer_options_single(&ask->tune.layer));
    TRY(modelled_layer_open(ask, &r.layer));
    rc = replay_trace(&r, result);
    capacity_trace_free(&r.trace);
    free(r.buckets);
    free(r.arm_of);
    modelled_layer_close(&r.layer);
    return rc;
}

static const struct study_row rows[] = {
    { "times", "A training under plans that are chosen in several ways", "ms, %",
      "Tuning sees step times with noise; the times below are true ones.  Static: the one plan "
      "with the smallest time of all steps.  Table: `tune` measures each bucket of the trace "
      "before the training.  Trainer: libmoetune knows the cluster, begins with the default plan "
      "and tries others while it trains.  Trials of the table: steps that `tune` takes before the "
      "training.  Trials of the trainer: steps under other plans than the best known one; their "
      "time is in its sum.  Table and trainer are means over the seeds." },
    { .name = "" },
};

const struct study study_trace = {
    .name = "trace",
    .argument = "[FILE]",
    .summary = "What a training takes whose capacity changes, under plans chosen in several ways",
    .assumptions = "Our executor takes the times on a virtual clock.",
    .run = run_trace,
    .rows = rows,
};
