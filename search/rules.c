/* Rules of guided, each of which may want a sample of some arm. */
#include "rules.h"

#include "bound.h"
#include "guided.h"
#include "plan.h"

#include <math.h>

static const double default_worth = 7e-5;
enum { RACE_SAMPLES = 80, EXTRA_SAMPLES = 25 };

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

/* ---- rules: an arm to sample, or -1 */

static bool fresh(const struct view *v, int arm)
{
    return eligible(v->search, arm, v->masked) && !(weight_here(v->g, arm) > 0);
}

static bool same_family(const struct moe_plan *a, const struct moe_plan *b)
{
    return (a->r == 0) == (b->r == 0) && plan_equal_but(a, b, PLAN_R);
}

/* What a collective is run with makes no family of its own: with 30 numbers of CTAs and protocols
 * to look at once each, nothing would be left for r. */
static bool family_sampled(const struct view *v, int arm)
{
    const struct moe_plan *arms = v->search->setup.arms;
    struct moe_plan wanted = arms[arm];

    wanted.ctas = wanted.proto = 0;
    for (int i = 0; i < (int)v->search->setup.arm_count; i++) {
        struct moe_plan known = arms[i];

        known.ctas = known.proto = 0;
        if (weight_here(v->g, i) > 0 && same_family(&known, &wanted))
            return true;
    }
    return false;
}

/* Of the arms that a rule wants the one that looks best. */
static int best_of(const struct view *v, bool (*wanted)(const struct view *v, int arm))
{
    int best = -1;

    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        if ((best < 0 || v->difference[i] < v->difference[best]) &&
            eligible(v->search, i, v->masked) && wanted(v, i))
            best = i;
    return best;
}

static bool opens_a_family(const struct view *v, int arm)
{
    return fresh(v, arm) && v->difference[arm] < 0.5 && !family_sampled(v, arm);
}

/* One bad constant makes whole families look bad: where none nearby was looked at, look. */
static int screen(const struct view *v)
{
    return v->g->cold ? best_of(v, opens_a_family) : -1;
}

/* Every r above 0 is as good as another. */
static bool alike(const struct moe_plan *a, const struct moe_plan *b, size_t axis)
{
    return axis == PLAN_R ? !a->r == !b->r : plan_value(a, axis) == plan_value(b, axis);
}

/* Has a plan with the arm's value of this axis ever run, in this table? */
static bool value_tried(const struct view *v, int arm, size_t axis)
{
    const struct moe_plan *arms = v->search->setup.arms;

    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        if (v->g->tried[i] && alike(&arms[arm], &arms[i], axis))
            return true;
    return false;
}

static bool has_an_untried_value(const struct view *v, int arm)
{
    bool tried = true;

    for (size_t axis = 0; fresh(v, arm) && axis < plan_axis_count && tried; axis++)
        tried = value_tried(v, arm, axis);
    return !tried;
}

/* Priors may be wrong by any factor, and a model is most convincing where it was never tested: what
 * a value of an axis is worth is looked at once in a table, whatever is expected of it. */
static int untried(const struct view *v)
{
    return best_of(v, has_an_untried_value);
}

static uint32_t most_samples(const struct search *search)
{
    return search->setup.limit ? search->setup.limit : RACE_SAMPLES + EXTRA_SAMPLES;
}

/* What `count` samples with this variance of their mean promise for a choice across the gap: how
 * far they may move the difference decides how often they turn the choice, and by how much.  Per
 * sample. */
static double worth_of(double gap, double covariance, double variance, double of_mean, int count)
{
    double moved = covariance / sqrt(variance + of_mean), z = gap / moved;

    /* What is gained, on average, if the arm turns out better. */
    return moved > 1e-6 ? moved * (normal_density(z) - z * normal_tail(-z)) / count : 0;
}

/* What samples of an arm, of the incumbent, or of both in turn are worth.  As many at a time as
 * make most of it: one alone turns no choice that rests on ten.  Samples of one arm show it and the
 * mood of the moment together: where that has just turned, the arm that ran since is worth no more
 * samples until another one has run.  Samples in turn show the difference alone. */
static double most_worth(const struct view *v, int arm, int *which)
{
    enum { AT_A_TIME = 16 };
    const struct outlook *o = &v->g->outlook;
    double noise = history_variance(&v->g->history), gap = v->difference[arm];
    double own = o->sd[arm] * o->sd[arm], theirs = o->sd[v->incumbent] * o->sd[v->incumbent];
    double apart = v->sd[arm] * v->sd[arm], joint = (own + theirs - apart) / 2;
    double mood = o->mood_variance, mine = o->with_mood[arm], its = o->with_mood[v->incumbent];
    double by_arm = fabs(own - joint + mine - its),
           by_incumbent = fabs(joint - theirs + mine - its);
    double of_arm = 0, of_incumbent = 0, of_both = 0;

    for (int n = 1; n <= AT_A_TIME; n *= 2) {
        of_arm = fmax(of_arm, worth_of(gap, by_arm, own + mood + 2 * mine, noise / n, n));
        of_incumbent =
            fmax(of_incumbent, worth_of(gap, by_incumbent, theirs + mood + 2 * its, noise / n, n));
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
    int best = -1, other = -1;

    for (int i = 0; i < (int)s->setup.arm_count; i++) {
        double worth;
        int which;

        if (i == v->incumbent || !eligible(s, i, v->masked))
            continue;
        worth = most_worth(v, i, &which);
        if (worth > most) {
            most = worth;
            best = which;
            other = which == i ? v->incumbent : i;
        }
    }
    /* Not twice the same one: a mood that has turned unnoticed would be taken for its time. */
    return best >= 0 && best == v->g->last ? other : best;
}

static int race(const struct view *v)
{
    uint64_t most = most_samples(v->search);

    if (v->search->samples >= most * RACE_SAMPLES / (RACE_SAMPLES + EXTRA_SAMPLES))
        return -1;
    return worthiest(v);
}

/* ---- neighbours of the incumbent on the lattice of plans */

struct neighbours {
    bool has[SEARCH_ARMS_MAX];
};

static void add_neighbour(struct neighbours *near, int arm)
{
    if (arm >= 0)
        near->has[arm] = true;
}

/* The eligible arm with the next r above (below) in the same family; -1: there is none. */
static int next_by_r(const struct view *v, bool above)
{
    const struct moe_plan *arms = v->search->setup.arms, *of = &arms[v->incumbent];
    int best = -1;

    for (int i = 0; i < (int)v->search->setup.arm_count; i++) {
        bool beyond = above ? arms[i].r > of->r : arms[i].r < of->r;

        if (!beyond || !same_family(&arms[i], of) || !eligible(v->search, i, v->masked))
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

/* Of the arms with the least (greatest) r the one that looks best. */
static int end_by_r(const struct view *v, bool greatest)
{
    const struct moe_plan *arms = v->search->setup.arms;
    int best = -1;

    for (int i = 0; i < (int)v->search->setup.arm_count; i++) {
        if (!arms[i].r || !eligible(v->search, i, v->masked))
            continue;
        if (best < 0 || (greatest ? arms[i].r > arms[best].r : arms[i].r < arms[best].r) ||
            (arms[i].r == arms[best].r && v->difference[i] < v->difference[best]))
            best = i;
    }
    return best;
}

/* r = 0 borders on the least and the greatest r, and every other r on all plans of r = 0. */
static struct neighbours neighbours_of(const struct view *v)
{
    const struct moe_plan *arms = v->search->setup.arms, *of = &arms[v->incumbent];
    struct neighbours near = { { false } };

    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        near.has[i] =
            (of->r && !arms[i].r) || (!of->r == !arms[i].r && one_step_apart(&arms[i], of));
    add_neighbour(&near, of->r ? next_by_r(v, false) : end_by_r(v, false));
    add_neighbour(&near, of->r ? next_by_r(v, true) : end_by_r(v, true));
    return near;
}

/* Samples, here and not far away, of arms of its family with about the same r. */
static double weight_of_relatives(const struct view *v, int arm)
{
    const struct moe_plan *arms = v->search->setup.arms, *of = &arms[arm];
    bool related[SEARCH_ARMS_MAX];

    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        related[i] = same_family(&arms[i], of) &&
                     (!of->r || fabs(log((double)arms[i].r / (double)of->r)) < 0.8);
    return history_weight(&v->g->history, 1.5, related);
}

/* Known well enough without a sample here.  One sample elsewhere is not enough: an outlier would
 * rule out the best family for all later visits.  Nor is one far away: messages that change their
 * protocol, or products their tiles, turn an order within a doubling of c. */
static bool excused(const struct view *v, int arm)
{
    const struct search *s = v->search;
    const struct moe_plan *plan = &s->setup.arms[arm];
    double gap = v->difference[arm];
    struct contrast seen = history_contrast(&v->g->history, arm, v->incumbent, 0.4);

    if (!plan->r && gap > 1.1)
        return true;
    if (seen.samples >= 2 && seen.mean > 0.05 + 2 * seen.error)
        return true;
    if (!v->g->history.visit_count || gap <= 0.20 + 3 * v->sd[arm])
        return false;
    return !plan->r || gap > 1.2 || weight_of_relatives(v, arm) >= 2;
}

/* A winner must be measured against its neighbours: a wrong model is most convincing where it was
 * never tested. */
static int cover(const struct view *v)
{
    struct neighbours near = neighbours_of(v);
    int best = -1;

    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        if (near.has[i] && fresh(v, i) && !excused(v, i) &&
            (best < 0 || v->difference[i] < v->difference[best]))
            best = i;
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

static bool is_slow(const struct view *v, int arm)
{
    return weight_here(v->g, arm) < 2 && direct(v->g, arm) > direct(v->g, v->incumbent) + 0.5;
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
            return n <= n_here ? i : v->incumbent;
    }
    return -1;
}

static int consist(const struct view *v)
{
    struct neighbours near = neighbours_of(v);

    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        if (eligible(v->search, i, v->masked) && weight_here(v->g, i) > 0 && i != v->incumbent &&
            (flag_unresolved(v, i) || single_sample_suspect(v, i) ||
             (near.has[i] && is_slow(v, i))))
            return i;
    return directly_better(v);
}

/* ---- the order of the rules */

static const struct {
    enum rule rule;
    int (*arm)(const struct view *view);
} rules[] = {
    { SCREEN, screen }, { UNTRIED, untried }, { RACE, race },
    { COVER, cover },   { CONSIST, consist },
};

static struct pick pick_from(const struct search *search, struct guided *g, int masked)
{
    struct view v = view_of(search, g, masked);

    if (v.incumbent < 0)
        return (struct pick){ .arm = v.expected_best < 0 ? SEARCH_DONE : v.expected_best,
                              .rule = FIRST };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        int arm = rules[i].arm(&v);

        if (arm >= 0)
            return (struct pick){ .arm = arm, .rule = rules[i].rule };
    }
    return (struct pick){ .arm = SEARCH_DONE, .rule = NONE, .limited = worthiest(&v) >= 0 };
}

struct pick rules_pick(const struct search *search, struct guided *g)
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
