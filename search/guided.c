/* The strategy `guided`, the default.  A Gaussian process about a cost model says which arms may be
 * best, and samples decide.  Several rules distrust the model: without each of them some simulation
 * went badly wrong. */
#include "distribution.h"
#include "history.h"
#include "plan.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The rules that may ask for a sample, in their order. */
enum rule { FIRST, AGAIN, FAMILIES, VALUES, RACE, NEIGHBOURS, TRUST_SAMPLES, NONE };

/* The next sample, and the rule that asks for it. */
struct request {
    int arm; /* SEARCH_DONE: no further sample is needed */
    enum rule rule;
    bool limited; /* the limit of samples came before the race had ended */
};

/* The state of one guided search; guided_open() allocates it, guided_close() frees it. */
struct guided {
    struct prior prior;
    struct history history;
    bool alone;              /* samples of other buckets do not count in the present one */
    struct belief base;      /* the present bucket, without its own samples */
    struct outlook outlook;  /* the present bucket, with its samples */
    struct belief elsewhere; /* the capacity that belief_elsewhere() was last asked for */
    double elsewhere_log_c;
    bool elsewhere_known;

    double surprise_squares, surprise_count; /* standardised residuals of arms when first sampled */
    bool cold;                               /* no bucket nearby has sampled every family */
    bool flagged[SEARCH_ARMS_MAX];           /* was much slower than predicted in this bucket */
    double predicted[SEARCH_ARMS_MAX];       /* of a flagged arm: its predicted log(ns) */
    double extra_variance[SEARCH_ARMS_MAX];  /* of an arm that the model gets quite wrong */
    int retry, last;             /* the arm to sample again; the last arm sampled; -1: none */
    bool tried[SEARCH_ARMS_MAX]; /* in any bucket */
    struct request request;
    struct observation scratch[BELIEF_OBSERVATIONS_MAX];
    struct belief_sample samples[BELIEF_SAMPLES_MAX];
};

/* Every arm compared with the incumbent, the best arm that has a sample in this bucket.  A value
 * that borrows the search; the rules read it. */
struct view {
    const struct search *search;
    const struct guided *g;
    int masked;                   /* an arm left out until it is sampled again; -1 = none */
    int incumbent, expected_best; /* best sampled arm; best of all arms; -1: none */
    double difference[SEARCH_ARMS_MAX], sd[SEARCH_ARMS_MAX]; /* of log time, arm - incumbent */
};

/* ---- memory */

static int guided_open(struct search *search)
{
    struct guided *g = calloc(1, sizeof(*g));

    if (!g)
        return fail(ERR_NOMEM, "a guided search");
    search->own = g;
    history_reset(&g->history, search->setup.arm_count);
    TRY(prior_open(&search->setup, &g->prior));
    TRY(belief_open(&g->prior, &g->base));
    TRY(belief_open(&g->prior, &g->elsewhere));
    return outlook_open(&g->prior, &g->outlook);
}

static void guided_close(struct search *search)
{
    struct guided *g = search->own;

    if (!g)
        return;
    outlook_close(&g->outlook);
    belief_close(&g->elsewhere);
    belief_close(&g->base);
    prior_close(&g->prior);
    free(g);
}

/* ---- what is believed */

static double log_capacity(uint64_t capacity)
{
    return log(capacity ? (double)capacity : 1);
}

static void refit_costs(struct guided *g)
{
    double surprise = (10 + g->surprise_squares) / (10 + g->surprise_count);
    size_t n = history_observations(&g->history, HISTORY_ALL, g->history.log_c, g->scratch,
                                    BELIEF_OBSERVATIONS_MAX);

    prior_fit(&g->prior, g->scratch, n);
    n = g->alone ? 0
                 : history_observations(&g->history, HISTORY_PAST, g->history.log_c, g->scratch,
                                        BELIEF_OBSERVATIONS_MAX);
    g->prior.misfit_scale = fmax(0.3, fmin(30, surprise));
    belief_compute(&g->prior, g->scratch, n, g->history.log_c, true, &g->base);
    for (size_t i = 0; i < g->base.count; i++)
        g->base.covariance[i * g->base.stride + i] += g->extra_variance[i];
}

static void update_outlook(struct guided *g, int masked)
{
    size_t n = history_samples(&g->history, masked, g->samples);

    outlook_update(&g->base, g->samples, n, history_now(&g->history), &g->outlook);
}

static void compare_with(const struct search *search, const struct outlook *outlook, int other,
                         double *difference, double *sd)
{
    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        difference[i] = outlook->mean[i] - outlook->mean[other];
        sd[i] = outlook_difference_sd(outlook, i, other);
    }
}

/* The best arm that has a sample in this bucket, without the arm `but`; -1: none. */
static int best_sampled(const struct search *search, const struct guided *g, int but)
{
    bool sampled[SEARCH_ARMS_MAX];

    for (int i = 0; i < (int)search->setup.arm_count; i++)
        sampled[i] = search->usable[i] && g->history.present[i].weight > 0;
    return search_least(search, sampled, g->outlook.mean, but);
}

static struct view view_of(const struct search *search, struct guided *g, int masked)
{
    struct view v = { .search = search, .g = g, .masked = masked };

    update_outlook(g, masked);
    v.expected_best = search_least(search, search->usable, g->outlook.mean, masked);
    v.incumbent = best_sampled(search, g, masked);
    if (v.incumbent >= 0)
        compare_with(search, &g->outlook, v.incumbent, v.difference, v.sd);
    return v;
}

static const double default_worth = 7e-5;
enum { RACE_SAMPLES = 80, EXTRA_SAMPLES = 25 };

static uint32_t most_samples(const struct search *search)
{
    return search->setup.limit ? search->setup.limit : RACE_SAMPLES + EXTRA_SAMPLES;
}

/* ---- rules: an arm to sample, or -1 */

static bool eligible(const struct view *v, int arm)
{
    return v->search->usable[arm] && arm != v->masked;
}

/* The mean of an arm's samples in this bucket, without the model; weight 0: no samples. */
static const struct record *samples_of(const struct view *v, int arm)
{
    return &v->g->history.present[arm];
}

static bool is_unsampled(const struct view *v, int arm)
{
    return eligible(v, arm) && !(samples_of(v, arm)->weight > 0);
}

static bool same_family(const struct moe_plan *a, const struct moe_plan *b)
{
    return (a->r == 0) == (b->r == 0) && plan_equal_but(a, b, PLAN_R);
}

/* The arm that looks best among those that a rule wants; -1: it wants none. */
static int best_of(const struct view *v, bool (*wanted)(const struct view *v, int arm))
{
    int best = -1;

    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        if ((best < 0 || v->difference[i] < v->difference[best]) && eligible(v, i) && wanted(v, i))
            best = i;
    return best;
}

/* Whether an arm would be the first sample of its family.  CTAs and protocols do not make a family:
 * one sample for each of 30 values would use up the samples that r needs. */
static bool opens_a_family(const struct view *v, int arm)
{
    const struct moe_plan *arms = v->search->setup.arms;
    struct moe_plan wanted = arms[arm];

    if (!is_unsampled(v, arm) || !(v->difference[arm] < 0.5))
        return false;
    wanted.ctas = wanted.proto = 0;
    for (int i = 0; i < (int)v->search->setup.arm_count; i++) {
        struct moe_plan known = arms[i];

        known.ctas = known.proto = 0;
        if (samples_of(v, i)->weight > 0 && same_family(&known, &wanted))
            return false;
    }
    return true;
}

/* One bad constant makes a whole family look slow, so each family gets one sample, unless a bucket
 * nearby has done so. */
static int screen_families(const struct view *v)
{
    return v->g->cold ? best_of(v, opens_a_family) : -1;
}

/* Whether a plan with the arm's value on this axis has run in any bucket.  All r above 0 count as
 * one value. */
static bool value_tried(const struct view *v, int arm, size_t axis)
{
    const struct moe_plan *arms = v->search->setup.arms, *plan = &arms[arm];

    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        if (v->g->tried[i] &&
            (axis == PLAN_R ? !plan->r == !arms[i].r
                            : plan_value(plan, axis) == plan_value(&arms[i], axis)))
            return true;
    return false;
}

static bool has_an_untried_value(const struct view *v, int arm)
{
    bool tried = true;

    for (size_t axis = 0; is_unsampled(v, arm) && axis < plan_axis_count && tried; axis++)
        tried = value_tried(v, arm, axis);
    return !tried;
}

/* Each value of an axis gets a sample once in a table, even if the model expects nothing of it: the
 * model may be wrong by any factor where it was never tested. */
static int untried_value(const struct view *v)
{
    return best_of(v, has_an_untried_value);
}

/* The expected gain of `count` samples, per sample.  `gap`: how much slower the arm looks;
 * `covariance`: of the arm's mean with the difference; `mean_variance`: of the samples' mean. */
static double worth_of(double gap, double covariance, double variance, double mean_variance,
                       int count)
{
    return gain_of_learning(gap, covariance / sqrt(variance + mean_variance)) / count;
}

/* The expected gain per sample of an arm, of the incumbent, or of both in turn; *which becomes the
 * better one of the two.  It counts up to 16 samples at a time, because a single one cannot change
 * a choice that rests on ten.  Samples of one arm alone also contain the shared noise.  After a
 * jump of the shared noise they say nothing until another arm has run.  Samples of both in turn
 * show the difference alone. */
static double most_worth(const struct view *v, int arm, int *which)
{
    enum { AT_A_TIME = 16 };
    const struct outlook *o = &v->g->outlook;
    double noise = history_noise(&v->g->history), gap = v->difference[arm];
    double arm_variance = o->sd[arm] * o->sd[arm],
           incumbent_variance = o->sd[v->incumbent] * o->sd[v->incumbent];
    double difference_variance = v->sd[arm] * v->sd[arm],
           joint = (arm_variance + incumbent_variance - difference_variance) / 2;
    double shared_noise = o->shared_noise_variance, arm_shared = o->with_shared_noise[arm],
           incumbent_shared = o->with_shared_noise[v->incumbent];
    double by_arm = fabs(arm_variance - joint + arm_shared - incumbent_shared),
           by_incumbent = fabs(joint - incumbent_variance + arm_shared - incumbent_shared);
    double of_arm = 0, of_incumbent = 0, of_both = 0;

    for (int n = 1; n <= AT_A_TIME; n *= 2) {
        of_arm = fmax(of_arm, worth_of(gap, by_arm, arm_variance + shared_noise + 2 * arm_shared,
                                       noise / n, n));
        of_incumbent =
            fmax(of_incumbent,
                 worth_of(gap, by_incumbent,
                          incumbent_variance + shared_noise + 2 * incumbent_shared, noise / n, n));
        if (n > 1)
            of_both = fmax(
                of_both, worth_of(gap, difference_variance, difference_variance, 4 * noise / n, n));
    }
    *which = of_arm >= of_incumbent ? arm : v->incumbent;
    return fmax(of_both, fmax(of_arm, of_incumbent));
}

/* The arm whose next samples have the highest expected gain; -1: no gain is worth a sample. */
static int most_valuable_arm(const struct view *v)
{
    const struct search *s = v->search;
    double best_worth = s->setup.worth > 0 ? s->setup.worth : default_worth;
    int best = -1, other = -1;

    for (int i = 0; i < (int)s->setup.arm_count; i++) {
        double worth;
        int which;

        if (i == v->incumbent || !eligible(v, i))
            continue;
        worth = most_worth(v, i, &which);
        if (worth > best_worth) {
            best_worth = worth;
            best = which;
            other = which == i ? v->incumbent : i;
        }
    }
    /* Not the same arm twice: it would be blamed for a jump of the shared noise. */
    return best >= 0 && best == v->g->last ? other : best;
}

/* The race between the arms that may still be the best. */
static int race(const struct view *v)
{
    uint64_t most = most_samples(v->search);

    if (v->search->samples >= most * RACE_SAMPLES / (RACE_SAMPLES + EXTRA_SAMPLES))
        return -1;
    return most_valuable_arm(v);
}

/* ---- neighbours of the incumbent on the lattice of plans */

enum r_direction { BELOW, ABOVE };

/* The eligible arm with the next r above (or below) in the same family; -1: none. */
static int next_by_r(const struct view *v, enum r_direction direction)
{
    const struct moe_plan *arms = v->search->setup.arms, *incumbent = &arms[v->incumbent];
    int best = -1;

    for (int i = 0; i < (int)v->search->setup.arm_count; i++) {
        bool beyond = direction == ABOVE ? arms[i].r > incumbent->r : arms[i].r < incumbent->r;

        if (!beyond || !same_family(&arms[i], incumbent) || !eligible(v, i))
            continue;
        if (best < 0 || (direction == ABOVE ? arms[i].r < arms[best].r : arms[i].r > arms[best].r))
            best = i;
    }
    return best;
}

/* Whether two plans of one r differ by one step on one axis.  A step is a factor of two where
 * values double, and any other value elsewhere.  0 CTAs, the library's own choice, neighbours every
 * number. */
static bool one_step_apart(const struct moe_plan *a, const struct moe_plan *b)
{
    for (size_t i = 0; i < plan_axis_count; i++) {
        uint32_t x = plan_value(a, i), y = plan_value(b, i);

        if (i != PLAN_R && x != y && plan_equal_but(a, b, i) &&
            (!plan_axes[i].power_of_two || !x || !y || x == 2 * y || y == 2 * x))
            return true;
    }
    return false;
}

/* The arm that looks best among those with the greatest r (ABOVE), or the least r above 0; -1:
 * none. */
static int end_by_r(const struct view *v, enum r_direction direction)
{
    const struct moe_plan *arms = v->search->setup.arms;
    int best = -1;

    for (int i = 0; i < (int)v->search->setup.arm_count; i++) {
        if (!arms[i].r || !eligible(v, i))
            continue;
        if (best < 0 ||
            (direction == ABOVE ? arms[i].r > arms[best].r : arms[i].r < arms[best].r) ||
            (arms[i].r == arms[best].r && v->difference[i] < v->difference[best]))
            best = i;
    }
    return best;
}

/* Marks the incumbent's neighbours.  r = 0 neighbours the least and the greatest r above 0, and
 * every r above 0 neighbours all plans of r = 0. */
static void find_neighbours(const struct view *v, bool near[SEARCH_ARMS_MAX])
{
    const struct moe_plan *arms = v->search->setup.arms, *incumbent = &arms[v->incumbent];

    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        near[i] = (incumbent->r && !arms[i].r) ||
                  (!incumbent->r == !arms[i].r && one_step_apart(&arms[i], incumbent));
    for (int direction = BELOW; direction <= ABOVE; direction++) {
        int arm = incumbent->r ? next_by_r(v, (enum r_direction)direction)
                               : end_by_r(v, (enum r_direction)direction);

        if (arm >= 0)
            near[arm] = true;
    }
}

/* Whether an arm needs no sample here, because it is known to be slower.  A single sample in
 * another bucket is not enough: an outlier would rule out the best family for all later buckets.
 * Distant buckets do not count: the order changes within a doubling of c where messages change
 * their protocol or products their tiles. */
static bool is_known_slower(const struct view *v, int arm)
{
    double gap = v->difference[arm];
    struct contrast seen = history_contrast(&v->g->history, arm, v->incumbent, 0.4);

    if (!v->search->setup.arms[arm].r && gap > 1.1)
        return true;
    if (seen.samples >= 2 && seen.mean > 0.05 + 2 * seen.error)
        return true;
    return v->g->history.past_count && gap > 0.20 + 3 * v->sd[arm];
}

/* A winner must be compared with its neighbours, because the model may be wrong where it was never
 * tested. */
static int cover_neighbours(const struct view *v)
{
    bool near[SEARCH_ARMS_MAX];
    int best = -1;

    find_neighbours(v, near);
    for (int i = 0; i < (int)v->search->setup.arm_count; i++)
        if (near[i] && is_unsampled(v, i) && !is_known_slower(v, i) &&
            (best < 0 || v->difference[i] < v->difference[best]))
            best = i;
    return best;
}

/* ---- samples against the model */

/* The model may not overrule samples: an arm whose samples are clearly faster than the incumbent's
 * gets more of them, or the incumbent does. */
static int better_by_samples(const struct view *v)
{
    const struct record *incumbents = samples_of(v, v->incumbent);
    double variance = history_noise(&v->g->history);

    for (int i = 0; i < (int)v->search->setup.arm_count; i++) {
        const struct record *its = samples_of(v, i);
        double lead = incumbents->log_ns - its->log_ns, error;

        if (i == v->incumbent || !eligible(v, i) || !(its->weight > 0) || lead <= 0)
            continue;
        error = sqrt(variance * (1 / its->weight + 1 / incumbents->weight));
        if (its->weight < 2 || incumbents->weight < 2 ||
            (lead > 1.5 * error && (its->weight < 12 || incumbents->weight < 12)))
            return its->weight <= incumbents->weight ? i : v->incumbent;
    }
    return -1;
}

/* Repeats samples that contradict the model. */
static int trust_samples(const struct view *v)
{
    double incumbents_log_ns = samples_of(v, v->incumbent)->log_ns,
           good_log_ns = incumbents_log_ns + 0.15;
    bool near[SEARCH_ARMS_MAX];

    find_neighbours(v, near);
    for (int i = 0; i < (int)v->search->setup.arm_count; i++) {
        double predicted = v->g->outlook.mean[i], measured = samples_of(v, i)->log_ns;
        double weight = samples_of(v, i)->weight;

        if (!eligible(v, i) || !(weight > 0) || i == v->incumbent)
            continue;
        /* Two outliers in a row happen, so an arm that was expected to be good gets more samples.
         */
        if (v->g->flagged[i] && ((v->search->count[i] < 3 && v->g->predicted[i] < good_log_ns) ||
                                 (weight < 4 && predicted < good_log_ns)))
            return i;
        /* A single sample says that the arm is slow, but the model or its neighbour, the incumbent,
         * says that it is fast. */
        if (weight < 2 && ((predicted < good_log_ns && measured > incumbents_log_ns + 0.20 &&
                            measured > predicted + 0.15) ||
                           (near[i] && measured > incumbents_log_ns + 0.5)))
            return i;
    }
    return better_by_samples(v);
}

/* ---- the next sample */

static const struct {
    enum rule rule;
    int (*arm)(const struct view *view);
} rules[] = {
    { FAMILIES, screen_families },    { VALUES, untried_value },        { RACE, race },
    { NEIGHBOURS, cover_neighbours }, { TRUST_SAMPLES, trust_samples },
};

static struct request request_by_rules(const struct search *search, struct guided *g, int masked)
{
    struct view v = view_of(search, g, masked);

    if (v.incumbent < 0)
        return (struct request){ .arm = v.expected_best < 0 ? SEARCH_DONE : v.expected_best,
                                 .rule = FIRST };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        int arm = rules[i].arm(&v);

        if (arm >= 0)
            return (struct request){ .arm = arm, .rule = rules[i].rule };
    }
    return (
        struct request){ .arm = SEARCH_DONE, .rule = NONE, .limited = most_valuable_arm(&v) >= 0 };
}

static struct request next_request(const struct search *search, struct guided *g)
{
    struct request request;

    if (search->samples >= most_samples(search))
        return (struct request){ .arm = SEARCH_DONE, .rule = NONE, .limited = true };
    if (g->retry < 0)
        return request_by_rules(search, g, -1);
    /* Outliers come in bursts, so another arm goes first if a rule asks for one. */
    if (g->last == g->retry) {
        request = request_by_rules(search, g, g->retry);
        if (request.arm != SEARCH_DONE && request.rule != FIRST)
            return request;
    }
    return (struct request){ .arm = g->retry, .rule = AGAIN };
}

/* ---- buckets and samples */

static void guided_begin(struct search *search)
{
    struct guided *g = search->own;
    double log_c = log_capacity(search->capacity);

    history_end(&g->history, g->cold && g->request.arm == SEARCH_DONE);
    history_begin(&g->history, log_c);
    g->alone = search->alone;
    g->cold = g->alone || !history_screened_near(&g->history, log_c, 0.7);
    memset(g->flagged, 0, sizeof(g->flagged));
    memset(g->extra_variance, 0, sizeof(g->extra_variance));
    g->retry = g->last = -1;
    g->elsewhere_known = false;
    refit_costs(g);
    g->request = next_request(search, g);
}

static int guided_next(struct search *search)
{
    return ((const struct guided *)search->own)->request.arm;
}

/* Compares a sample with the belief before it, and decides whether it has to be repeated. */
static void note_surprise(const struct search *search, struct guided *g, int arm,
                          struct normal expected, double log_ns)
{
    double surprise = log_ns - expected.mean, sd = expected.sd, doubt = history_doubt(&g->history);
    double in_doubt = sqrt(sd * sd + (doubt * doubt - 1) * history_noise(&g->history));
    bool is_first_sample = !(g->history.present[arm].weight > 0);

    g->retry = g->retry == arm ? -1 : g->retry;
    if (is_first_sample && isfinite(surprise / sd)) {
        g->surprise_squares += fmin(12, surprise * surprise / (sd * sd));
        g->surprise_count++;
    }
    /* The arm is much faster than the model says.  (If it is slower, the sample may be an outlier.)
     * From now on the arm's own samples count more than the model.  All arms may be faster, because
     * the shared noise has jumped.  To find out, the best sampled arm runs next. */
    if (is_first_sample && surprise < -2.5 * in_doubt) {
        g->extra_variance[arm] = surprise * surprise;
        g->base.covariance[(size_t)arm * g->base.stride + (size_t)arm] += g->extra_variance[arm];
        g->retry = g->retry < 0 ? best_sampled(search, g, arm) : g->retry;
    }
    /* Much slower: it may be an outlier. */
    if (surprise > fmin(fmax(0.3, 5 * sd), 0.7)) {
        if (!g->flagged[arm])
            g->predicted[arm] = g->outlook.mean[arm];
        g->flagged[arm] = true;
        g->retry = arm;
    }
}

static void guided_tell(struct search *search, int arm, double log_ns, bool asked)
{
    static const double shared_noise_step_sd = 0.015; /* change from one step to the next */
    struct guided *g = search->own;
    struct normal expected;
    double sd;

    (void)asked;
    update_outlook(g, -1);
    sd = g->outlook.sd[arm];
    expected.mean = g->outlook.mean[arm] + g->outlook.shared_noise_now;
    expected.sd =
        sqrt(sd * sd + history_noise(&g->history) + shared_noise_step_sd * shared_noise_step_sd);
    note_surprise(search, g, arm, expected, log_ns);
    g->last = arm;
    g->tried[arm] = true;
    history_add(&g->history, arm, log_ns, expected);
    update_outlook(g, -1);
    history_read(&g->history, g->outlook.readings);
    if (search->samples == 4 || (g->cold && search->samples == 9))
        refit_costs(g);
    g->elsewhere_known = false;
    g->request = next_request(search, g);
}

static void guided_drop(struct search *search, int arm, bool failed)
{
    struct guided *g = search->own;

    if (failed)
        history_forget(&g->history, arm);
    if (g->retry == arm)
        g->retry = -1;
    g->elsewhere_known = false;
    g->request = next_request(search, g);
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

static const struct belief *belief_elsewhere(struct guided *g, double log_c)
{
    size_t n;

    if (g->elsewhere_known && g->elsewhere_log_c == log_c)
        return &g->elsewhere;
    n = history_observations(&g->history, HISTORY_ALL, log_c, g->scratch, BELIEF_OBSERVATIONS_MAX);
    belief_compute(&g->prior, g->scratch, n, log_c, false, &g->elsewhere);
    g->elsewhere_log_c = log_c;
    g->elsewhere_known = true;
    return &g->elsewhere;
}

static void verdict_of_belief(const struct search *search, const bool *usable,
                              const struct belief *b, struct search_result *out)
{
    double mean[SEARCH_ARMS_MAX], sd[SEARCH_ARMS_MAX];
    int winner = search_least(search, usable, b->mean, -1);

    if (winner < 0)
        return;
    for (size_t i = 0; i < b->count; i++) {
        const double *row = b->covariance + i * b->stride;
        double of_winner = b->covariance[(size_t)winner * b->stride + (size_t)winner];

        mean[i] = b->mean[i] - b->mean[winner];
        sd[i] = safe_deviation(row[i] + of_winner - 2 * row[winner], 0);
    }
    out->winner = winner;
    out->runner_up = search_least(search, usable, b->mean, winner);
    out->bound = bound_against(search, usable, mean, sd, winner);
}

static void guided_infer(struct search *search, uint64_t capacity, const bool *usable,
                         struct search_result *out)
{
    struct guided *g = search->own;

    if (g->history.past_count || g->history.sample_count)
        verdict_of_belief(search, usable, belief_elsewhere(g, log_capacity(capacity)), out);
}

static double guided_estimate(struct search *search, uint64_t capacity, int arm)
{
    return belief_elsewhere(search->own, log_capacity(capacity))->mean[arm];
}

static struct normal guided_level(struct search *search, int arm)
{
    struct guided *g = search->own;

    update_outlook(g, -1);
    return (struct normal){ g->outlook.mean[arm], g->outlook.sd[arm] };
}

static struct normal guided_compare(struct search *search, int arm, int other)
{
    struct guided *g = search->own;
    double doubt = history_doubt(&g->history);

    update_outlook(g, -1);
    return (struct normal){ g->outlook.mean[arm] - g->outlook.mean[other],
                            doubt * outlook_difference_sd(&g->outlook, arm, other) };
}

static double guided_bound(struct search *search, int arm)
{
    struct guided *g = search->own;
    double mean[SEARCH_ARMS_MAX], sd[SEARCH_ARMS_MAX];

    update_outlook(g, -1);
    compare_with(search, &g->outlook, arm, mean, sd);
    return bound_against(search, search->usable, mean, sd, arm);
}

static double guided_slope(struct search *search, int arm, uint64_t from, uint64_t to)
{
    const struct prior *p = &((const struct guided *)search->own)->prior;
    const struct moe_plan *plan = &search->setup.arms[arm];

    return costs_log_ns(&p->costs, p->constants, to ? (double)to : 1, plan) -
           costs_log_ns(&p->costs, p->constants, from ? (double)from : 1, plan);
}

static void guided_verdict(struct search *search, struct search_result *out)
{
    struct guided *g = search->own;
    struct view v = view_of(search, g, -1);

    if (v.incumbent < 0) {
        verdict_of_belief(search, search->usable, &g->base, out);
        return;
    }
    out->winner = v.incumbent;
    out->runner_up = search_least(search, search->usable, v.difference, v.incumbent);
    out->bound = bound_against(search, search->usable, v.difference, v.sd, v.incumbent);
    if (g->request.limited)
        out->reason = SEARCH_LIMIT;
}

const struct search_ops search_guided = {
    .name = "guided",
    .summary = "races the plans that a cost model, fitted to all samples, allows",
    .open = guided_open,
    .close = guided_close,
    .begin = guided_begin,
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
