/* Replays recorded counts.  Each rule is a function that changes the experts' rows before a step;
 * all rules start from the same rows, and their steps are counted alike. */
#include "counts_replay.h"

#include "capacity_setting.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const counts_words[] = { "followed", "static", "ema" };
const char *const counts_names[] = { "followed", "static, factor 2.5", "DynaMoE's EMA rule" };
const double counts_static_factor = 2.5;

/* ---- the rules */

/* One replay.  counts_replay() opens and frees it. */
struct replay_run {
    const struct counts_trace *trace;
    struct moe_capacities *controller; /* for every rule: it knows on which rank an expert lies */
    struct capacity_setting setting;   /* the rows in force */
    double *factor; /* (E) of the EMA rule: its alpha, capacity over the even share */
    double *need;   /* (E) of the EMA rule: moving average of count over the even share */
};

static const uint32_t *counts_of(const struct counts_trace *t, size_t step)
{
    return t->counts + step * t->experts;
}

/* Returns the choices that an even gate gives each expert. */
static double even_share(const struct counts_trace *t)
{
    return t->choices / t->experts;
}

static uint32_t rows_at_factor(const struct counts_trace *t, double factor)
{
    double rows = ceil(factor * even_share(t) - 1e-9);

    return rows < 1 ? 1 : rows < UINT32_MAX - 1 ? (uint32_t)rows : UINT32_MAX - 1;
}

static int follow_controller(struct replay_run *r, size_t step)
{
    struct moe_capacities_state state = MOE_CAPACITIES_STATE_INIT;
    struct capacity_setting *setting = &r->setting;
    const uint32_t *rows;

    if (step)
        TRY(moe_capacities_feed(r->controller, step - 1, counts_of(r->trace, step - 1),
                                r->trace->experts));
    TRY(moe_capacities_at(r->controller, step, &rows, &state));
    memcpy(setting->rows, rows, r->trace->experts * sizeof(*rows));
    setting->sum = state.rows;
    setting->fullest = state.fullest;
    setting->balanced = state.balanced;
    setting->key = state.key;
    setting->key_r0 = state.key_r0;
    setting->replans = state.replans;
    return OK;
}

/* The EMA rule, from FlexFlow's branch mixture-of-experts, 32b75946c,
 * examples/cpp/mixture_of_experts.  It averages what an expert needs with gamma .99.  When the
 * average leaves .6 to .92 of alpha, alpha becomes 1.25 of it, at most 4. */
static void change_by_average(struct replay_run *r, size_t step)
{
    static const double gamma = .99, need_high = .92, need_low = .6, alpha_over_need = 1.25,
                        alpha_most = 4;
    const uint32_t *counts = counts_of(r->trace, step - 1);
    bool changed = false;

    for (uint32_t e = 0; e < r->trace->experts; e++) {
        double *alpha = &r->factor[e], *need = &r->need[e];

        *need = gamma * *need + (1 - gamma) * counts[e] / even_share(r->trace);
        if ((*need > need_high * *alpha && *alpha < alpha_most) || *need < need_low * *alpha) {
            *alpha = fmin(alpha_over_need * *need, alpha_most);
            r->setting.rows[e] = rows_at_factor(r->trace, *alpha);
            changed = true;
        }
    }
    r->setting.replans += changed;
    if (changed)
        capacities_derive(r->controller, &r->setting);
}

/* ---- replaying */

/* Opens a replay.  Options that are 0 are taken from the trace and the static factor. */
static int open_run(const struct counts_trace *t, const struct moe_capacities_options *options,
                    enum counts_way way, struct replay_run *r)
{
    struct moe_capacities_options filled = *options;
    uint32_t static_rows = rows_at_factor(t, counts_static_factor);

    *r = (struct replay_run){ .trace = t };
    filled.experts = t->experts;
    filled.ranks = t->ranks;
    if (!filled.most) {
        filled.most = filled.start > static_rows ? filled.start : static_rows;
        for (size_t i = 0; i < t->steps * t->experts; i++)
            filled.most = t->counts[i] > filled.most ? t->counts[i] : filled.most;
    }
    if (!filled.start)
        filled.start = static_rows < filled.most ? static_rows : filled.most;
    TRY(moe_capacities_open(&filled, &r->controller));
    r->setting.rows = calloc(t->experts, sizeof(*r->setting.rows));
    r->factor = calloc(t->experts, sizeof(*r->factor));
    r->need = calloc(t->experts, sizeof(*r->need));
    if (!r->setting.rows || !r->factor || !r->need)
        return fail(ERR_NOMEM, "the capacities of %u experts", t->experts);
    for (uint32_t e = 0; e < t->experts; e++) {
        r->setting.rows[e] = way == COUNTS_STATIC ? static_rows : filled.start;
        r->factor[e] = filled.start / even_share(t);
        r->need[e] = 1;
    }
    capacities_derive(r->controller, &r->setting);
    return OK;
}

/* Counts the step under the rows in force.  `replans`: how often rows had changed before it. */
static struct counts_step count_step(const struct replay_run *r, size_t step, size_t replans)
{
    const uint32_t *counts = counts_of(r->trace, step), *rows = r->setting.rows;
    struct counts_step counted = { .step = step,
                                   .rows = rows,
                                   .sum = r->setting.sum,
                                   .fullest = r->setting.fullest,
                                   .balanced = r->setting.balanced,
                                   .key = r->setting.key,
                                   .key_r0 = r->setting.key_r0,
                                   .replanned = r->setting.replans != replans };

    for (uint32_t e = 0; e < r->trace->experts; e++) {
        counted.total += counts[e];
        counted.dropped += counts[e] > rows[e] ? counts[e] - rows[e] : 0;
    }
    return counted;
}

int counts_replay(const struct counts_trace *trace, const struct moe_capacities_options *options,
                  enum counts_way way, const struct counts_price *price,
                  void (*on_step)(void *self, const struct counts_step *step), void *self,
                  struct counts_sum *out)
{
    uint32_t used_ranks = trace->ranks < trace->experts ? trace->ranks : trace->experts;
    double all_rows = 0, fullest = 0, balanced = 0, choices = 0, dropped = 0, ms = 0;
    struct moe_capacities_state state = MOE_CAPACITIES_STATE_INIT;
    const uint32_t *rows;
    struct replay_run run;
    int rc;

    TRY_OUT(open_run(trace, options, way, &run));
    for (size_t step = 0; step < trace->steps; step++) {
        size_t replans = run.setting.replans;
        struct counts_step counted;

        if (way == COUNTS_FOLLOWED)
            TRY_OUT(follow_controller(&run, step));
        else if (way == COUNTS_EMA && step)
            change_by_average(&run, step);
        counted = count_step(&run, step, replans);
        all_rows += (double)counted.sum;
        fullest += (double)counted.fullest;
        balanced += (double)counted.balanced;
        choices += (double)counted.total;
        dropped += (double)counted.dropped;
        ms += price ? price->ms(price->self, counted.key, counted.key_r0) : NAN;
        if (on_step)
            on_step(self, &counted);
    }
    *out = (struct counts_sum){ .steps = trace->steps,
                                .replans = run.setting.replans,
                                .factor = all_rows / choices,
                                .dropped_share = dropped / choices,
                                .fullest_factor = fullest * used_ranks / choices,
                                .balanced_factor = balanced * used_ranks / choices,
                                .step_ms = ms / (double)trace->steps };
    if (way == COUNTS_FOLLOWED &&
        !moe_capacities_at(run.controller, trace->steps - 1, &rows, &state))
        out->digest = state.digest;
out:
    moe_capacities_close(run.controller);
    free(run.setting.rows);
    free(run.factor);
    free(run.need);
    return rc;
}

const char *counts_remark(const struct counts_trace *trace)
{
    return trace->experts <= trace->ranks ? "No rank holds more than one expert, so with r >= 1 "
                                            "every step waits for the largest capacity: "
                                            "capacities of their own save memory here, but no "
                                            "time. With r=0 they save both."
                                          : NULL;
}
