/* Model-guided racing: a Gaussian process about a cost model says which arm may be best, samples
 * decide, and a number of guards distrust the model.  Each guard is there because a simulation
 * without it went badly wrong. */
#include "bound.h"
#include "history.h"
#include "plan.h"
#include "random.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double default_worth = 7e-5;
enum { RACE_SAMPLES = 80, EXTRA_SAMPLES = 25, AUDITS = 1 };

enum rule { FIRST, AGAIN, LINK, SCREEN, UNTRIED, AUDIT, RACE, COVER, CONSIST, NONE };

struct pick {
    int arm; /* SEARCH_DONE: enough */
    enum rule rule;
    bool limited; /* the race was not over */
};

struct guided {
    struct gaussian gp;
    struct history history;
    bool alone;              /* the present visit does not believe the others */
    struct belief base;      /* of the present visit, without its own samples */
    struct outlook outlook;  /* with them */
    struct belief elsewhere; /* of the capacity last asked for */
    double elsewhere_log_c;
    bool elsewhere_known;

    double squares, first_sights;    /* standardised residuals of arms when first sampled */
    bool cold;                       /* no visit nearby looked at every family */
    bool flagged[SEARCH_ARMS_MAX];   /* was much slower than predicted in this visit */
    double promise[SEARCH_ARMS_MAX]; /* of a flagged arm: what was predicted */
    double unlike[SEARCH_ARMS_MAX]; /* variance of an arm that is nothing like what was predicted */
    int pending, last;              /* -1 = none */
    uint32_t audits;
    bool tried[SEARCH_ARMS_MAX]; /* in any visit */
    struct pick pick;            /* what comes next */
    struct observation scratch[GAUSSIAN_OBSERVATIONS_MAX];
    struct told told[GAUSSIAN_TOLD_MAX];
};

/* What the rules see: every arm against the incumbent, the best of those sampled here. */
struct view {
    const struct search *search;
    const struct guided *g;
    int masked; /* an arm left out until it is sampled again; -1 = none */
    int incumbent;
    double difference[SEARCH_ARMS_MAX], sd[SEARCH_ARMS_MAX]; /* of log time, arm - incumbent */
};

/* ---- what is believed */

static double log_capacity(uint64_t capacity)
{
    return log(capacity ? (double)capacity : 1);
}

static bool eligible(const struct search *search, int arm, int masked)
{
    return search->usable[arm] && arm != masked;
}

static double weight_here(const struct guided *g, int arm)
{
    return g->history.now[arm].weight;
}

static double direct(const struct guided *g, int arm)
{
    return g->history.now[arm].log_ns;
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

    if (n) {
        double pull[GAUSSIAN_OBSERVATIONS_MAX];

        gaussian_fit(&g->gp, g->scratch, n, pull);
        history_pull(&g->history, g->scratch, n, pull);
    }
    rebuild(g);
}

static void look(struct guided *g, int masked)
{
    size_t n = history_told(&g->history, masked, g->told);

    outlook_of(&g->gp, &g->base, g->told, n, history_now(&g->history), &g->outlook);
}

/* z = gap / sd from the incumbent: what is gained, on average, if the arm turns out better. */
static double expected_gain(double gap, double sd)
{
    double z = gap / sd;

    return sd * (normal_density(z) - z * normal_tail(-z));
}

static int least_mean(const struct search *search, const double *mean, int masked,
                      const struct guided *sampled)
{
    int best = -1;

    for (int i = 0; i < (int)search->setup.arm_count; i++)
        if (eligible(search, i, masked) && (!sampled || weight_here(sampled, i) > 0) &&
            (best < 0 || mean[i] < mean[best]))
            best = i;
    return best;
}

static struct view view_of(const struct search *search, struct guided *g, int masked)
{
    struct view v = { .search = search, .g = g, .masked = masked };

    look(g, masked);
    v.incumbent = least_mean(search, g->outlook.mean, masked, g);
    if (v.incumbent < 0)
        return v;
    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        v.difference[i] = g->outlook.mean[i] - g->outlook.mean[v.incumbent];
        v.sd[i] = outlook_difference_sd(&g->outlook, i, v.incumbent);
    }
    return v;
}

/* ---- rules: an arm to sample, or -1 */

static bool fresh(const struct view *v, int arm)
{
    return eligible(v->search, arm, v->masked) && !(weight_here(v->g, arm) > 0);
}

static bool same_family(const struct moe_plan *a, const struct moe_plan *b)
{
    return (a->r == 0) == (b->r == 0) && plan_equal_but(a, b, PLAN_R);
}

static bool family_sampled(const struct view *v, int arm)
{
    const struct moe_plan *arms = v->search->setup.arms;

    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        if (weight_here(v->g, i) > 0 && same_family(&arms[i], &arms[arm]))
            return true;
    return false;
}

/* The machine's mood has turned: by how much is told by an arm that is known from before. */
static int link(const struct view *v)
{
    int best = -1;

    if (history_is_linked(&v->g->history))
        return -1;
    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        if (eligible(v->search, i, v->masked) && history_knew(&v->g->history, i) &&
            (best < 0 || v->difference[i] < v->difference[best]))
            best = i;
    return best;
}

/* One bad constant makes whole families look bad: where none nearby was looked at, look. */
static int screen(const struct view *v)
{
    int best = -1;

    if (!v->g->cold)
        return -1;
    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        if (fresh(v, i) && v->difference[i] < 0.5 && !family_sampled(v, i) &&
            (best < 0 || v->difference[i] < v->difference[best]))
            best = i;
    return best;
}

/* A few arms that nothing speaks for, in case nobody knows better. */
static int audit(const struct view *v)
{
    const struct search *s = v->search;
    uint64_t key = random_bits(s->setup.seed, v->g->history.visits_ever), first = 0;
    int chosen = -1;

    if (v->g->cold || v->g->audits >= AUDITS)
        return -1;
    for (int i = 0; i < (int)s->setup.arm_count; i++) {
        uint64_t place = random_bits(key, (uint64_t)i);

        if (fresh(v, i) && v->difference[i] < 0.5 && (chosen < 0 || place < first)) {
            chosen = i;
            first = place;
        }
    }
    return chosen;
}

static bool share_a_value(const struct moe_plan *a, const struct moe_plan *b, size_t axis)
{
    return axis == PLAN_R ? !a->r == !b->r : plan_value(a, axis) == plan_value(b, axis);
}

/* Has a plan with the arm's value of this axis ever run, in this table? */
static bool value_tried(const struct view *v, int arm, size_t axis)
{
    const struct moe_plan *arms = v->search->setup.arms;

    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        if (v->g->tried[i] && share_a_value(&arms[i], &arms[arm], axis))
            return true;
    return false;
}

/* Priors may be wrong by any factor, and a model is most convincing where it was never tested: what
 * a value of an axis is worth is looked at once in a table, whatever is expected of it. */
static int untried(const struct view *v)
{
    int best = -1;

    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        for (size_t axis = 0; axis < plan_axis_count; axis++)
            if (fresh(v, i) && !value_tried(v, i, axis) &&
                (best < 0 || v->difference[i] < v->difference[best]))
                best = i;
    return best;
}

static uint32_t most_samples(const struct search *search)
{
    return search->setup.limit ? search->setup.limit : RACE_SAMPLES + EXTRA_SAMPLES;
}

static bool race_may_run(const struct search *search)
{
    return search->samples <
           (uint64_t)most_samples(search) * RACE_SAMPLES / (RACE_SAMPLES + EXTRA_SAMPLES);
}

static int less_sampled(const struct guided *g, int a, int b)
{
    return weight_here(g, a) <= weight_here(g, b) ? a : b;
}

/* What `count` samples with this variance of their mean promise for a choice across the gap: how
 * far they may move the difference decides how often they turn the choice, and by how much.  Per
 * sample. */
static double worth_of(double gap, double covariance, double variance, double of_mean, int count)
{
    double moved = covariance / sqrt(variance + of_mean);

    return moved > 1e-6 ? expected_gain(gap, moved) / count : 0;
}

/* What samples of an arm, of the incumbent, or of both in turn are worth.  As many at a time as
 * make most of it: one alone turns no choice that rests on ten. */
static double most_worth(const struct view *v, int arm, int *which)
{
    enum { AT_A_TIME = 16 };
    const double *sd = v->g->outlook.sd;
    double noise = history_variance(&v->g->history), gap = v->difference[arm];
    double own = sd[arm] * sd[arm], theirs = sd[v->incumbent] * sd[v->incumbent];
    double apart = v->sd[arm] * v->sd[arm], joint = (own + theirs - apart) / 2;
    double of_arm = 0, of_incumbent = 0, of_both = 0;

    for (int n = 1; n <= AT_A_TIME; n *= 2) {
        of_arm = fmax(of_arm, worth_of(gap, fabs(own - joint), own, noise / n, n));
        of_incumbent =
            fmax(of_incumbent, worth_of(gap, fabs(theirs - joint), theirs, noise / n, n));
        if (n > 1)
            of_both = fmax(of_both, worth_of(gap, apart, apart, 4 * noise / n, n));
    }
    *which = of_arm >= of_incumbent ? arm : v->incumbent;
    return fmax(of_both, fmax(of_arm, of_incumbent));
}

/* The arm whose next samples are worth most, if that is enough. */
static int worthiest(const struct view *v)
{
    const struct search *s = v->search;
    double most = s->setup.worth > 0 ? s->setup.worth : default_worth;
    int best = -1;

    for (int i = 0; i < (int)s->setup.arm_count; i++) {
        double worth;
        int which;

        if (i == v->incumbent || !eligible(s, i, v->masked))
            continue;
        worth = most_worth(v, i, &which);
        if (worth > most) {
            most = worth;
            best = which;
        }
    }
    return best;
}

static int race(const struct view *v)
{
    return race_may_run(v->search) ? worthiest(v) : -1;
}

/* ---- neighbours of the incumbent on the lattice of plans */

struct neighbours {
    int arms[16];
    int count;
};

static void add_neighbour(struct neighbours *list, int arm)
{
    if (arm >= 0 && list->count < (int)(sizeof(list->arms) / sizeof(list->arms[0])))
        list->arms[list->count++] = arm;
}

/* The eligible arm with the next r above (below) that agrees in everything else. */
static int next_by_r(const struct view *v, bool above)
{
    const struct moe_plan *arms = v->search->setup.arms, *of = &arms[v->incumbent];
    int best = -1;

    for (int i = 0; i < (int)v->search->setup.arm_count; i++) {
        bool beyond = above ? arms[i].r > of->r : arms[i].r < of->r;

        if (!arms[i].r || !beyond || !plan_equal_but(&arms[i], of, PLAN_R) ||
            !eligible(v->search, i, v->masked))
            continue;
        if (best < 0 || (above ? arms[i].r < arms[best].r : arms[i].r > arms[best].r))
            best = i;
    }
    return best;
}

/* Values of one axis: twice or half, where they double; 0, the wire's own choice of CTAs, may be
 * any number.  On other axes every value borders on every other. */
static bool adjacent(size_t axis, uint32_t a, uint32_t b)
{
    return a != b && (!plan_axes[axis].power_of_two || !a || !b || a == 2 * b || b == 2 * a);
}

/* Plans of one r that differ on one axis, by one step. */
static bool one_step_apart(const struct moe_plan *a, const struct moe_plan *b)
{
    for (size_t i = 0; i < plan_axis_count; i++)
        if (i != PLAN_R && plan_equal_but(a, b, i) &&
            adjacent(i, plan_value(a, i), plan_value(b, i)))
            return true;
    return false;
}

static struct neighbours sharded_neighbours(const struct view *v)
{
    const struct moe_plan *arms = v->search->setup.arms, *of = &arms[v->incumbent];
    struct neighbours list = { .count = 0 };

    add_neighbour(&list, next_by_r(v, false));
    add_neighbour(&list, next_by_r(v, true));
    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        if (eligible(v->search, i, v->masked) && (!arms[i].r || one_step_apart(&arms[i], of)))
            add_neighbour(&list, i);
    return list;
}

/* r = 0 borders on the least and the greatest r; of either the arm that looks best. */
static struct neighbours local_neighbours(const struct view *v)
{
    const struct moe_plan *arms = v->search->setup.arms;
    struct neighbours list = { .count = 0 };
    int least = -1, most = -1;

    for (int i = 0; i < (int)v->search->setup.arm_count; i++) {
        if (!arms[i].r || !eligible(v->search, i, v->masked))
            continue;
        if (least < 0 || arms[i].r < arms[least].r ||
            (arms[i].r == arms[least].r && v->difference[i] < v->difference[least]))
            least = i;
        if (most < 0 || arms[i].r > arms[most].r ||
            (arms[i].r == arms[most].r && v->difference[i] < v->difference[most]))
            most = i;
    }
    add_neighbour(&list, least);
    if (most != least)
        add_neighbour(&list, most);
    return list;
}

static struct neighbours neighbours_of(const struct view *v)
{
    return v->search->setup.arms[v->incumbent].r ? sharded_neighbours(v) : local_neighbours(v);
}

struct relatives {
    const struct moe_plan *arms, *of;
};

static bool is_relative(const void *self, int arm)
{
    const struct relatives *r = self;
    const struct moe_plan *p = &r->arms[arm];

    return same_family(p, r->of) && (!p->r || fabs(log((double)p->r / (double)r->of->r)) < 0.8);
}

/* Known well enough without a sample here.  One sample elsewhere is not enough: an outlier would
 * rule out the best family for all later visits.  Nor is one far away: messages that change their
 * protocol, or products their tiles, turn an order within a doubling of c. */
static bool excused(const struct view *v, int arm)
{
    const struct search *s = v->search;
    const struct moe_plan *plan = &s->setup.arms[arm];
    struct relatives relatives = { s->setup.arms, plan };
    double gap = v->difference[arm];
    struct contrast seen = history_contrast(&v->g->history, arm, v->incumbent, 0.4);

    if (!plan->r && gap > 1.1)
        return true;
    if (seen.samples >= 2 && seen.mean > 0.05 + 2 * seen.error)
        return true;
    if (!v->g->history.visit_count || gap <= 0.20 + 3 * v->sd[arm])
        return false;
    return !plan->r || gap > 1.2 ||
           history_weight(&v->g->history, 1.5, is_relative, &relatives) >= 2;
}

/* A winner must be measured against its neighbours: a wrong model is most convincing where it was
 * never tested. */
static int cover(const struct view *v)
{
    struct neighbours list = neighbours_of(v);
    int best = -1;

    for (int i = 0; i < list.count; i++) {
        int arm = list.arms[i];

        if (fresh(v, arm) && !excused(v, arm) &&
            (best < 0 || v->difference[arm] < v->difference[best]))
            best = arm;
    }
    return best;
}

/* ---- direct samples against what the model makes of them */

static bool single_sample_suspect(const struct view *v, int arm)
{
    double predicted = v->g->outlook.mean[arm], here = direct(v->g, v->incumbent);
    double measured = direct(v->g, arm);

    return weight_here(v->g, arm) < 2 && predicted < here + 0.15 && measured > here + 0.20 &&
           measured > predicted + 0.15;
}

/* Two outliers in a row happen: who was thought to be good before them gets more chances. */
static bool flag_unresolved(const struct view *v, int arm)
{
    double here = direct(v->g, v->incumbent);

    if (!v->g->flagged[arm])
        return false;
    return (v->search->count[arm] < 3 && v->g->promise[arm] < here + 0.15) ||
           (weight_here(v->g, arm) < 4 && v->g->outlook.mean[arm] < here + 0.15);
}

static bool is_slow_neighbour(const struct view *v, const struct neighbours *list, int arm)
{
    if (weight_here(v->g, arm) >= 2 || direct(v->g, arm) <= direct(v->g, v->incumbent) + 0.5)
        return false;
    for (int i = 0; i < list->count; i++)
        if (list->arms[i] == arm)
            return true;
    return false;
}

/* The model may not overrule samples that clearly say otherwise. */
static int directly_better(const struct view *v)
{
    const struct guided *g = v->g;
    double n_here = weight_here(g, v->incumbent), variance = history_variance(&g->history);

    for (int i = 0; i < (int)v->search->setup.arm_count; i++) {
        double n = weight_here(g, i), by, error;

        if (i == v->incumbent || !eligible(v->search, i, v->masked) || !(n > 0))
            continue;
        by = direct(g, v->incumbent) - direct(g, i);
        if (by <= 0)
            continue;
        error = sqrt(variance * (1 / n + 1 / n_here));
        if (n < 2 || n_here < 2 || (by > 1.5 * error && (n < 12 || n_here < 12)))
            return less_sampled(g, i, v->incumbent);
    }
    return -1;
}

static int consist(const struct view *v)
{
    struct neighbours list = neighbours_of(v);

    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        if (eligible(v->search, i, v->masked) && weight_here(v->g, i) > 0 && i != v->incumbent &&
            (flag_unresolved(v, i) || single_sample_suspect(v, i) ||
             is_slow_neighbour(v, &list, i)))
            return i;
    return directly_better(v);
}

/* ---- the order of the rules */

static const struct {
    enum rule rule;
    int (*arm)(const struct view *view);
} rules[] = {
    { LINK, link }, { SCREEN, screen }, { UNTRIED, untried }, { AUDIT, audit },
    { RACE, race }, { COVER, cover },   { CONSIST, consist },
};

static struct pick pick_from(const struct search *search, struct guided *g, int masked)
{
    struct view v = view_of(search, g, masked);

    if (v.incumbent < 0) {
        int first = least_mean(search, g->outlook.mean, masked, NULL);

        return (struct pick){ .arm = first < 0 ? SEARCH_DONE : first, .rule = FIRST };
    }
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        int arm = rules[i].arm(&v);

        if (arm >= 0)
            return (struct pick){ .arm = arm, .rule = rules[i].rule };
    }
    return (struct pick){ .arm = SEARCH_DONE, .rule = NONE, .limited = worthiest(&v) >= 0 };
}

static struct pick decide(const struct search *search, struct guided *g)
{
    struct pick pick;

    if (search->samples >= most_samples(search))
        return (struct pick){ .arm = SEARCH_DONE, .rule = NONE, .limited = true };
    if (g->pending < 0)
        return pick_from(search, g, -1);
    /* Outliers come in bursts: let another arm go first, if one is wanted anyway. */
    if (g->last == g->pending) {
        pick = pick_from(search, g, g->pending);
        if (pick.arm != SEARCH_DONE && pick.rule != FIRST)
            return pick;
    }
    return (struct pick){ .arm = g->pending, .rule = AGAIN };
}

/* ---- the strategy */

static int guided_open(struct search *search)
{
    struct guided *g = calloc(1, sizeof(*g));
    int rc;

    if (!g)
        return fail(ERR_NOMEM, "a guided search");
    search->own = g;
    history_reset(&g->history, search->setup.arm_count);
    rc = gaussian_open(&search->setup, &g->gp);
    if (!rc)
        rc = belief_open(&g->gp, &g->base);
    if (!rc)
        rc = belief_open(&g->gp, &g->elsewhere);
    if (!rc)
        rc = outlook_open(&g->gp, &g->outlook);
    return rc;
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
    g->audits = 0;
    g->elsewhere_known = false;
    refit(g);
    g->pick = decide(search, g);
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

/* A model that is so far off says nothing of this arm: its own samples count.  Faster, that is:
 * what is slower may be an outlier. */
static void disbelieve(struct guided *g, int arm, double above)
{
    g->unlike[arm] = above * above;
    g->base.covariance[(size_t)arm * g->base.stride + (size_t)arm] += g->unlike[arm];
}

/* Compares a sample with what was believed before it. */
static void judge(struct guided *g, int arm, struct normal expected, double log_ns, bool first)
{
    double above = log_ns - expected.mean, sd = expected.sd;

    if (first) {
        g->squares += fmin(12, above * above / (sd * sd));
        g->first_sights++;
        if (above < -2.5 * sd)
            disbelieve(g, arm, above);
    }
    g->pending = g->pending == arm ? -1 : g->pending;
    if (above > fmin(fmax(0.3, 5 * sd), 0.7)) {
        if (!g->flagged[arm])
            g->promise[arm] = g->outlook.mean[arm];
        g->flagged[arm] = true;
        g->pending = arm;
    }
}

static void guided_tell(struct search *search, int arm, double log_ns)
{
    struct guided *g = search->own;
    struct normal expected = expect(g, arm);

    if (g->pick.arm == arm && g->pick.rule == AUDIT)
        g->audits++;
    judge(g, arm, expected, log_ns, !(weight_here(g, arm) > 0));
    g->last = arm;
    g->tried[arm] = true;
    history_add(&g->history, arm, log_ns, expected);
    look(g, -1);
    history_read(&g->history, g->outlook.readings);
    if (search->samples == 4 || (g->cold && search->samples == 9))
        refit(g);
    g->elsewhere_known = false;
    g->pick = decide(search, g);
}

static void guided_drop(struct search *search, int arm, bool failed)
{
    struct guided *g = search->own;

    if (failed)
        history_forget(&g->history, arm);
    if (g->pending == arm)
        g->pending = -1;
    g->elsewhere_known = false;
    g->pick = decide(search, g);
}

static double bound_against(const struct search *search, const bool *usable, const double *mean,
                            const double *sd, int winner)
{
    double differences[SEARCH_ARMS_MAX], sds[SEARCH_ARMS_MAX];
    size_t n = 0;

    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        if (i == winner || (usable && !usable[i]))
            continue;
        differences[n] = mean[i];
        sds[n++] = sd[i];
    }
    return bound_of(differences, sds, n, 0.05);
}

static int best_but(const struct search *search, const bool *usable, const double *mean, int but)
{
    int best = -1;

    for (int i = 0; i < (int)search->setup.arm_count; i++)
        if (i != but && (!usable || usable[i]) && (best < 0 || mean[i] < mean[best]))
            best = i;
    return best;
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

static bool measured_anything(const struct guided *g)
{
    return g->history.visit_count || g->history.sample_count;
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
        sd[i] = sqrt(fmax(0, row[i] + of_winner - 2 * row[winner]));
    }
    out->winner = winner;
    out->runner_up = best_but(search, usable, b->mean, winner);
    out->bound = bound_against(search, usable, mean, sd, winner);
}

static void guided_infer(struct search *search, uint64_t capacity, const bool *usable,
                         struct search_result *out)
{
    struct guided *g = search->own;

    if (measured_anything(g))
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
    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        mean[i] = g->outlook.mean[i] - g->outlook.mean[arm];
        sd[i] = outlook_difference_sd(&g->outlook, i, arm);
    }
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
    .add = guided_tell,
    .drop = guided_drop,
    .verdict = guided_verdict,
    .infer = guided_infer,
    .estimate = guided_estimate,
    .slope = guided_slope,
    .level = guided_level,
    .compare = guided_compare,
    .bound = guided_bound,
};
