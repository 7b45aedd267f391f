/* Model-guided racing: a Gaussian process about a cost model says which arm may be best, samples
 * decide, and a number of guards distrust the model.  Each guard is there because a simulation
 * without it went badly wrong. */
#include "guided.h"

#include "bound.h"
#include "history.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is believed */

static double log_capacity(uint64_t capacity)
{
    return log(capacity ? (double)capacity : 1);
}

static void rebuild(struct guided *g)
{
    size_t n = g->alone ? 0
                        : history_observations(&g->history, HISTORY_PAST, g->history.log_c,
                                               g->scratch, GAUSSIAN_OBSERVATIONS_MAX);
    double surprise = (10 + g->squares) / (10 + g->first_sights);

    g->gp.surprise = fmax(0.3, fmin(30, surprise));
    gaussian_predict(&g->gp, g->scratch, n, g->history.log_c, true, &g->base);
    for (size_t i = 0; i < g->base.count; i++)
        g->base.covariance[i * g->base.stride + i] += g->unlike[i];
}

static void refit(struct guided *g)
{
    size_t n = history_observations(&g->history, HISTORY_ALL, g->history.log_c, g->scratch,
                                    GAUSSIAN_OBSERVATIONS_MAX);

    gaussian_fit(&g->gp, g->scratch, n);
    rebuild(g);
}

static void look(struct guided *g, int masked)
{
    size_t n = history_told(&g->history, masked, g->told);

    outlook_of(&g->gp, &g->base, g->told, n, history_now(&g->history), &g->outlook);
}

/* The usable arm of least mean but one; -1: there is none.  NULL: all are usable.  A mean that is
 * no number is no knowledge: it loses against all others. */
static int best_but(const struct search *search, const bool *usable, const double *mean, int but)
{
    int best = -1;

    for (int i = 0; i < (int)search->setup.arm_count; i++)
        if (i != but && (!usable || usable[i]) &&
            (best < 0 || mean[i] < mean[best] || (isfinite(mean[i]) && !isfinite(mean[best]))))
            best = i;
    return best;
}

static void compare_all(const struct search *search, const struct outlook *outlook, int with,
                        double *difference, double *sd)
{
    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        difference[i] = outlook->mean[i] - outlook->mean[with];
        sd[i] = outlook_difference_sd(outlook, i, with);
    }
}

/* Of those sampled in this visit. */
static int best_sampled(const struct search *search, const struct guided *g, int but)
{
    bool sampled[SEARCH_ARMS_MAX];

    for (int i = 0; i < (int)search->setup.arm_count; i++)
        sampled[i] = search->usable[i] && g->history.now[i].weight > 0;
    return best_but(search, sampled, g->outlook.mean, but);
}

struct view view_of(const struct search *search, struct guided *g, int masked)
{
    struct view v = { .search = search, .g = g, .masked = masked };

    look(g, masked);
    v.expected_best = best_but(search, search->usable, g->outlook.mean, masked);
    v.incumbent = best_sampled(search, g, masked);
    if (v.incumbent >= 0)
        compare_all(search, &g->outlook, v.incumbent, v.difference, v.sd);
    return v;
}

/* ---- the strategy */

static int guided_open(struct search *search)
{
    struct guided *g = calloc(1, sizeof(*g));

    if (!g)
        return fail(ERR_NOMEM, "a guided search");
    search->own = g;
    history_reset(&g->history, search->setup.arm_count);
    TRY(gaussian_open(&search->setup, &g->gp));
    TRY(belief_open(&g->gp, &g->base));
    TRY(belief_open(&g->gp, &g->elsewhere));
    return outlook_open(&g->gp, &g->outlook);
}

static void guided_close(struct search *search)
{
    struct guided *g = search->own;

    if (!g)
        return;
    outlook_close(&g->outlook);
    belief_close(&g->elsewhere);
    belief_close(&g->base);
    gaussian_close(&g->gp);
    free(g);
}

static void guided_visit(struct search *search)
{
    struct guided *g = search->own;
    double log_c = log_capacity(search->capacity);

    history_end(&g->history, g->cold && g->pick.arm == SEARCH_DONE);
    history_begin(&g->history, log_c);
    g->alone = search->alone;
    g->cold = g->alone || !history_screened_near(&g->history, log_c, 0.7);
    memset(g->flagged, 0, sizeof(g->flagged));
    memset(g->unlike, 0, sizeof(g->unlike));
    g->pending = g->last = -1;
    g->elsewhere_known = false;
    refit(g);
    g->pick = rules_pick(search, g);
}

static int guided_next(struct search *search)
{
    return ((const struct guided *)search->own)->pick.arm;
}

/* What is expected of the next step under an arm. */
static struct normal expect(struct guided *g, int arm)
{
    static const double mood_sd = 0.015; /* from one step to the next, and what is known of it */
    double sd;

    look(g, -1);
    sd = g->outlook.sd[arm];
    return (struct normal){ g->outlook.mean[arm] + g->outlook.mood_now,
                            sqrt(sd * sd + history_variance(&g->history) + mood_sd * mood_sd) };
}

/* Compares a sample with what was believed before it. */
static void judge(const struct search *search, struct guided *g, int arm, struct normal expected,
                  double log_ns)
{
    double above = log_ns - expected.mean, sd = expected.sd, doubt = history_doubt(&g->history);
    double in_doubt = sqrt(sd * sd + (doubt * doubt - 1) * history_variance(&g->history));
    bool first = !(g->history.now[arm].weight > 0);

    g->pending = g->pending == arm ? -1 : g->pending;
    if (first && isfinite(above / sd)) {
        g->squares += fmin(12, above * above / (sd * sd));
        g->first_sights++;
    }
    /* A model that is so far off says nothing of this arm: its own samples count.  Faster, that is:
     * what is slower may be an outlier.  Unless all are faster now, the mood having turned: that is
     * seen by an arm whose time is known, before others are looked at and seem as fast. */
    if (first && above < -2.5 * in_doubt) {
        g->unlike[arm] = above * above;
        g->base.covariance[(size_t)arm * g->base.stride + (size_t)arm] += g->unlike[arm];
        g->pending = g->pending < 0 ? best_sampled(search, g, arm) : g->pending;
    }
    if (above > fmin(fmax(0.3, 5 * sd), 0.7)) {
        if (!g->flagged[arm])
            g->promise[arm] = g->outlook.mean[arm];
        g->flagged[arm] = true;
        g->pending = arm;
    }
}

static void guided_tell(struct search *search, int arm, double log_ns, bool asked)
{
    struct guided *g = search->own;
    struct normal expected = expect(g, arm);

    (void)asked;
    judge(search, g, arm, expected, log_ns);
    g->last = arm;
    g->tried[arm] = true;
    history_add(&g->history, arm, log_ns, expected);
    look(g, -1);
    history_read(&g->history, g->outlook.readings);
    if (search->samples == 4 || (g->cold && search->samples == 9))
        refit(g);
    g->elsewhere_known = false;
    g->pick = rules_pick(search, g);
}

static void guided_drop(struct search *search, int arm, bool failed)
{
    struct guided *g = search->own;

    if (failed)
        history_forget(&g->history, arm);
    if (g->pending == arm)
        g->pending = -1;
    g->elsewhere_known = false;
    g->pick = rules_pick(search, g);
}

static double bound_against(const struct search *search, const bool *usable, const double *mean,
                            const double *sd, int winner)
{
    double doubt = history_doubt(&((const struct guided *)search->own)->history);
    double differences[SEARCH_ARMS_MAX], sds[SEARCH_ARMS_MAX];
    size_t n = 0;

    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        if (i == winner || (usable && !usable[i]))
            continue;
        differences[n] = mean[i];
        sds[n++] = doubt * sd[i];
    }
    return bound_of(differences, sds, n, 0.05);
}

/* ---- without measuring */

static const struct belief *look_elsewhere(struct guided *g, double log_c)
{
    size_t n;

    if (g->elsewhere_known && g->elsewhere_log_c == log_c)
        return &g->elsewhere;
    n = history_observations(&g->history, HISTORY_ALL, log_c, g->scratch,
                             GAUSSIAN_OBSERVATIONS_MAX);
    gaussian_predict(&g->gp, g->scratch, n, log_c, false, &g->elsewhere);
    g->elsewhere_log_c = log_c;
    g->elsewhere_known = true;
    return &g->elsewhere;
}

static void judge_belief(const struct search *search, const bool *usable, const struct belief *b,
                         struct search_result *out)
{
    double mean[SEARCH_ARMS_MAX], sd[SEARCH_ARMS_MAX];
    int winner = best_but(search, usable, b->mean, -1);

    if (winner < 0)
        return;
    for (size_t i = 0; i < b->count; i++) {
        const double *row = b->covariance + i * b->stride, *of = b->covariance;
        double of_winner = of[(size_t)winner * b->stride + (size_t)winner];

        mean[i] = b->mean[i] - b->mean[winner];
        sd[i] = deviation_of(row[i] + of_winner - 2 * row[winner], 0);
    }
    out->winner = winner;
    out->runner_up = best_but(search, usable, b->mean, winner);
    out->bound = bound_against(search, usable, mean, sd, winner);
}

static void guided_infer(struct search *search, uint64_t capacity, const bool *usable,
                         struct search_result *out)
{
    struct guided *g = search->own;

    if (g->history.visit_count || g->history.sample_count)
        judge_belief(search, usable, look_elsewhere(g, log_capacity(capacity)), out);
}

static double guided_estimate(struct search *search, uint64_t capacity, int arm)
{
    return look_elsewhere(search->own, log_capacity(capacity))->mean[arm];
}

static struct normal guided_level(struct search *search, int arm)
{
    struct guided *g = search->own;

    look(g, -1);
    return (struct normal){ g->outlook.mean[arm], g->outlook.sd[arm] };
}

static struct normal guided_compare(struct search *search, int arm, int other)
{
    struct guided *g = search->own;
    double doubt = history_doubt(&g->history);

    look(g, -1);
    return (struct normal){ g->outlook.mean[arm] - g->outlook.mean[other],
                            doubt * outlook_difference_sd(&g->outlook, arm, other) };
}

static double guided_bound(struct search *search, int arm)
{
    struct guided *g = search->own;
    double mean[SEARCH_ARMS_MAX], sd[SEARCH_ARMS_MAX];

    look(g, -1);
    compare_all(search, &g->outlook, arm, mean, sd);
    return bound_against(search, search->usable, mean, sd, arm);
}

static double guided_slope(struct search *search, int arm, uint64_t from, uint64_t to)
{
    const struct gaussian *gp = &((const struct guided *)search->own)->gp;
    const struct moe_plan *plan = &search->setup.arms[arm];

    return costs_log_ns(&gp->costs, gp->constants, to ? (double)to : 1, plan) -
           costs_log_ns(&gp->costs, gp->constants, from ? (double)from : 1, plan);
}

static void guided_verdict(struct search *search, struct search_result *out)
{
    struct guided *g = search->own;
    struct view v = view_of(search, g, -1);

    if (v.incumbent < 0) {
        judge_belief(search, search->usable, &g->base, out);
        return;
    }
    out->winner = v.incumbent;
    out->runner_up = best_but(search, search->usable, v.difference, v.incumbent);
    out->bound = bound_against(search, search->usable, v.difference, v.sd, v.incumbent);
    if (g->pick.limited)
        out->reason = SEARCH_LIMIT;
}

const struct search_ops search_guided = {
    .name = "guided",
    .summary = "races what a cost model, corrected by every sample, cannot rule out",
    .open = guided_open,
    .close = guided_close,
    .visit = guided_visit,
    .next = guided_next,
    .tell = guided_tell,
    .drop = guided_drop,
    .verdict = guided_verdict,
    .infer = guided_infer,
    .estimate = guided_estimate,
    .slope = guided_slope,
    .level = guided_level,
    .compare = guided_compare,
    .bound = guided_bound,
};
