/* Each way is a function that changes rows after a step; all of them start from the same rows and
 * are judged alike. */
#include "counts_replay.h"

#include "capacity_setting.h"
#include "counts_file.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const counts_words[] = { "followed", "static", "ema" };
const char *const counts_names[] = { "followed", "static, factor 2.5", "DynaMoE's EMA rule" };
const double counts_static_factor = 2.5;

/* ---- reading */

struct reader {
    struct counts_trace trace;
    size_t room; /* steps */
};

static uint32_t largest_of(const struct counts_line *l, uint32_t ranks, uint32_t e)
{
    return (uint32_t)(l->largest ? ceil(l->largest[e]) : ceil(l->counts[e] / ranks));
}

static const char *fault_of(const struct counts_line *l, const struct counts_trace *t)
{
    bool empty = true;

    for (uint32_t e = 0; e < l->experts; e++) {
        if ((l->counts && l->counts[e] >= UINT32_MAX) ||
            (l->largest && l->largest[e] >= UINT32_MAX))
            return "has a count that is no number from 0 to 4294967294";
        empty &= !largest_of(l, t->ranks, e);
    }
    return empty ? "counts nothing on any rank" : NULL;
}

static int check_experts(const struct counts_line *l, uint32_t ranks)
{
    return l->experts % ranks && ranks % l->experts
               ? fail(ERR_ARGUMENT,
                      "%s:%u: %u experts on %u ranks (--ranks): one of them must be a multiple of "
                      "the other",
                      l->path, l->number, l->experts, ranks)
               : OK;
}

static int make_room(struct reader *r)
{
    struct counts_trace *t = &r->trace;
    uint32_t *more;

    if (t->steps < r->room)
        return OK;
    r->room = 2 * r->room + 64;
    more = realloc(t->counts, r->room * t->experts * sizeof(*more));
    if (!more)
        return fail(ERR_NOMEM, "%zu steps of %u experts", r->room, t->experts);
    t->counts = more;
    return OK;
}

static int add_step(void *self, const struct counts_line *l)
{
    struct reader *r = self;
    struct counts_trace *t = &r->trace;
    const char *fault;

    if (!t->experts) {
        TRY(check_experts(l, t->ranks));
        t->experts = l->experts;
    }
    if (l->experts != t->experts)
        return fail(ERR_FORMAT,
                    "%s:%u has not one count for each expert (%u counts; the first line has %u)",
                    l->path, l->number, l->experts, t->experts);
    fault = fault_of(l, t);
    if (fault)
        return counts_line_wrong(l, fault);
    TRY(make_room(r));
    for (uint32_t e = 0; e < t->experts; e++) {
        t->choices += l->counts ? l->counts[e] / t->ranks : l->largest[e];
        t->counts[t->steps * t->experts + e] = largest_of(l, t->ranks, e);
    }
    t->steps++;
    return OK;
}

/* Of a file, or of a text where there is one. */
static int read_trace(const char *path, const char *text, uint32_t ranks, struct counts_trace *out)
{
    struct reader r = { .trace = { .ranks = ranks ? ranks : 1 } };
    int rc =
        text ? counts_file_take(text, path, add_step, &r) : counts_file_read(path, add_step, &r);

    if (rc) {
        counts_free(&r.trace);
        return rc;
    }
    r.trace.choices /= (double)r.trace.steps;
    *out = r.trace;
    return OK;
}

int counts_take(const char *text, const char *origin, uint32_t ranks, struct counts_trace *out)
{
    return read_trace(origin, text, ranks, out);
}

int counts_read(const char *path, uint32_t ranks, struct counts_trace *out)
{
    return read_trace(path, NULL, ranks, out);
}

void counts_free(struct counts_trace *trace)
{
    free(trace->counts);
    *trace = (struct counts_trace){ 0 };
}

/* ---- the ways */

struct run {
    const struct counts_trace *trace;
    enum counts_way way;
    struct moe_capacities *controller; /* of all ways: it knows where experts lie */
    struct capacity_setting setting;   /* the rows of now */
    double *factor, *need; /* of the EMA rule: alpha, and the average of what experts need */
};

static const uint32_t *counts_of(const struct counts_trace *t, size_t step)
{
    return t->counts + step * t->experts;
}

static double even(const struct counts_trace *t)
{
    return t->choices / t->experts;
}

static uint32_t rows_for(const struct counts_trace *t, double factor)
{
    double rows = ceil(factor * even(t) - 1e-9);

    return rows < 1 ? 1 : rows < UINT32_MAX - 1 ? (uint32_t)rows : UINT32_MAX - 1;
}

static int follow(struct run *r, size_t step)
{
    struct moe_capacities_state state = MOE_CAPACITIES_STATE_INIT;
    struct capacity_setting *s = &r->setting;
    const uint32_t *rows;

    if (step)
        TRY(moe_capacities_feed(r->controller, step - 1, counts_of(r->trace, step - 1),
                                r->trace->experts));
    TRY(moe_capacities_at(r->controller, step, &rows, &state));
    memcpy(s->rows, rows, r->trace->experts * sizeof(*rows));
    s->sum = state.rows;
    s->fullest = state.fullest;
    s->balanced = state.balanced;
    s->key = state.key;
    s->key_r0 = state.key_r0;
    s->replans = state.replans;
    return OK;
}

/* FlexFlow's branch mixture-of-experts, 32b75946c, examples/cpp/mixture_of_experts: an average with
 * gamma .99 of what an expert needs; where it leaves .6 to .92 of alpha, alpha becomes 1.25 of it,
 * at most 4. */
static void change_by_average(struct run *r, size_t step)
{
    static const double gamma = .99, high = .92, low = .6, overhead = 1.25, most = 4;
    const uint32_t *counts = counts_of(r->trace, step - 1);
    bool changed = false;

    for (uint32_t e = 0; e < r->trace->experts; e++) {
        double *alpha = &r->factor[e], *need = &r->need[e];

        *need = gamma * *need + (1 - gamma) * counts[e] / even(r->trace);
        if ((*need > high * *alpha && *alpha < most) || *need < low * *alpha) {
            *alpha = fmin(overhead * *need, most);
            r->setting.rows[e] = rows_for(r->trace, *alpha);
            changed = true;
        }
    }
    r->setting.replans += changed;
    if (changed)
        capacities_derive(r->controller, &r->setting);
}

static int take_step(struct run *r, size_t step)
{
    if (r->way == COUNTS_FOLLOWED)
        return follow(r, step);
    if (r->way == COUNTS_EMA && step)
        change_by_average(r, step);
    return OK;
}

/* ---- replaying */

static void close_run(struct run *r)
{
    moe_capacities_close(r->controller);
    free(r->setting.rows);
    free(r->factor);
    free(r->need);
}

static struct moe_capacities_options complete(const struct counts_trace *t,
                                              const struct moe_capacities_options *given)
{
    struct moe_capacities_options o = *given;
    uint32_t fixed = rows_for(t, counts_static_factor);

    o.experts = t->experts;
    o.ranks = t->ranks;
    if (!o.most) {
        o.most = o.start > fixed ? o.start : fixed;
        for (size_t i = 0; i < t->steps * t->experts; i++)
            o.most = t->counts[i] > o.most ? t->counts[i] : o.most;
    }
    if (!o.start)
        o.start = fixed < o.most ? fixed : o.most;
    return o;
}

static int open_run(const struct counts_trace *t, const struct moe_capacities_options *options,
                    enum counts_way way, struct run *r)
{
    struct moe_capacities_options o = complete(t, options);

    *r = (struct run){ .trace = t, .way = way };
    TRY(moe_capacities_open(&o, &r->controller));
    r->setting.rows = calloc(t->experts, sizeof(*r->setting.rows));
    r->factor = calloc(t->experts, sizeof(*r->factor));
    r->need = calloc(t->experts, sizeof(*r->need));
    if (!r->setting.rows || !r->factor || !r->need)
        return fail(ERR_NOMEM, "%u experts", t->experts);
    for (uint32_t e = 0; e < t->experts; e++) {
        r->setting.rows[e] = way == COUNTS_STATIC ? rows_for(t, counts_static_factor) : o.start;
        r->factor[e] = o.start / even(t);
        r->need[e] = 1;
    }
    capacities_derive(r->controller, &r->setting);
    return OK;
}

static struct counts_step look_at(const struct run *r, size_t step, size_t replans)
{
    const uint32_t *counts = counts_of(r->trace, step), *rows = r->setting.rows;
    struct counts_step s = { .step = step,
                             .rows = rows,
                             .sum = r->setting.sum,
                             .fullest = r->setting.fullest,
                             .balanced = r->setting.balanced,
                             .key = r->setting.key,
                             .key_r0 = r->setting.key_r0,
                             .replanned = r->setting.replans != replans };

    for (uint32_t e = 0; e < r->trace->experts; e++) {
        s.total += counts[e];
        s.dropped += counts[e] > rows[e] ? counts[e] - rows[e] : 0;
    }
    return s;
}

struct totals {
    double rows, fullest, balanced, choices, dropped, ms;
};

static void add_up(struct totals *t, const struct counts_step *s, const struct counts_price *price)
{
    t->rows += (double)s->sum;
    t->fullest += (double)s->fullest;
    t->balanced += (double)s->balanced;
    t->choices += (double)s->total;
    t->dropped += (double)s->dropped;
    t->ms += price ? price->ms(price->self, s->key, s->key_r0) : NAN;
}

static struct counts_sum sum_of(const struct run *r, const struct totals *t)
{
    const struct counts_trace *trace = r->trace;
    uint32_t used = trace->ranks < trace->experts ? trace->ranks : trace->experts;
    struct moe_capacities_state state = MOE_CAPACITIES_STATE_INIT;
    struct counts_sum sum = { .steps = trace->steps,
                              .replans = r->setting.replans,
                              .factor = t->rows / t->choices,
                              .dropped_share = t->dropped / t->choices,
                              .fullest_factor = t->fullest * used / t->choices,
                              .balanced_factor = t->balanced * used / t->choices,
                              .step_ms = t->ms / (double)trace->steps };
    const uint32_t *rows;

    if (r->way == COUNTS_FOLLOWED &&
        !moe_capacities_at(r->controller, trace->steps - 1, &rows, &state))
        sum.digest = state.digest;
    return sum;
}

int counts_replay(const struct counts_trace *trace, const struct moe_capacities_options *options,
                  enum counts_way way, const struct counts_price *price,
                  void (*on_step)(void *self, const struct counts_step *step), void *self,
                  struct counts_sum *out)
{
    struct totals totals = { 0 };
    struct run run;
    int rc;

    TRY_OUT(open_run(trace, options, way, &run));
    for (size_t step = 0; step < trace->steps; step++) {
        size_t replans = run.setting.replans;
        struct counts_step s;

        TRY_OUT(take_step(&run, step));
        s = look_at(&run, step, replans);
        add_up(&totals, &s, price);
        if (on_step)
            on_step(self, &s);
    }
    *out = sum_of(&run, &totals);
out:
    close_run(&run);
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
