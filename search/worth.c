/* Estimates what tuning would save: draws machines from the belief that the model and the steps
 * give, and tunes each of them. */
#include "worth.h"

#include "plan.h"
#include "random.h"
#include "stats.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 500 };

/* The prior: the model's errors are as large as `guided` expects of its own cost model.  It counts
 * like so many plans. */
static const double belief_freedom = 2;

static const double least_variance = 1e-10;

/* ---- the modelled machine as a struct search_model */

static double modelled(const struct worth_setup *s, size_t bucket, int arm)
{
    return s->log_ns[bucket * s->search->arm_count + (size_t)arm];
}

static size_t bucket_at(const struct worth_setup *s, double log_c)
{
    size_t nearest = 0;

    for (size_t b = 1; b < s->bucket_count; b++)
        if (fabs(log(s->capacities[b]) - log_c) < fabs(log(s->capacities[nearest]) - log_c))
            nearest = b;
    return nearest;
}

/* An arm that cannot run gets the default's time: `guided` would take an arm without a number to be
 * unknown everywhere.  Such arms are left out of the drawn machines. */
static double model_log_ns(const void *self, double capacity, int arm)
{
    const struct worth_setup *s = self;
    size_t bucket = bucket_at(s, log(capacity));
    double log_ns = modelled(s, bucket, arm);

    return isnan(log_ns) ? modelled(s, bucket, s->default_arm) : log_ns;
}

/* ---- plans for all buckets */

/* The weighted mean of an arm's log time over all buckets; infinite if it cannot run in some. */
static double mean_of_arm(const struct worth_setup *s, const double *log_ns, int arm)
{
    double sum = 0, weights = 0;

    for (size_t b = 0; b < s->bucket_count; b++) {
        if (isnan(modelled(s, b, arm)))
            return INFINITY;
        sum += s->weights[b] * log_ns[b * s->search->arm_count + (size_t)arm];
        weights += s->weights[b];
    }
    return sum / weights;
}

static int best_static(const struct worth_setup *s, const double *log_ns, double *mean)
{
    int best = s->default_arm;

    *mean = mean_of_arm(s, log_ns, best);
    for (int arm = 0; arm < (int)s->search->arm_count; arm++) {
        double arm_mean = mean_of_arm(s, log_ns, arm);

        if (arm_mean < *mean) {
            *mean = arm_mean;
            best = arm;
        }
    }
    return best;
}

/* ---- which steps tell most */

static bool moves_tokens(const struct worth_setup *s, int arm)
{
    return s->search->arms[arm].r > 0;
}

int worth_plans(const struct worth_setup *s, size_t bucket, int arms[WORTH_PLANS_MAX])
{
    /* The default; the best plan of the bucket; the best static plan; the best plan that moves
     * tokens where the bucket's best one moves weights, or the other way round. */
    int wanted[WORTH_PLANS_MAX] = { s->default_arm, s->default_arm, -1, -1 }, count = 0;
    double mean;

    for (int arm = 0; arm < (int)s->search->arm_count; arm++)
        if (modelled(s, bucket, arm) < modelled(s, bucket, wanted[1]))
            wanted[1] = arm;
    wanted[2] = best_static(s, s->log_ns, &mean);
    for (int arm = 0; arm < (int)s->search->arm_count; arm++)
        if (moves_tokens(s, arm) != moves_tokens(s, wanted[1]) &&
            !isnan(modelled(s, bucket, arm)) &&
            (wanted[3] < 0 || modelled(s, bucket, arm) < modelled(s, bucket, wanted[3])))
            wanted[3] = arm;
    for (int i = 0; i < WORTH_PLANS_MAX; i++) {
        bool skipped = wanted[i] < 0 || isnan(modelled(s, bucket, wanted[i]));

        for (int k = 0; k < count; k++)
            skipped |= arms[k] == wanted[i];
        if (!skipped)
            arms[count++] = wanted[i];
    }
    return count;
}

/* ---- how far the model is off */

/* The root mean square error of modelled ratios of two steps of one launch; NAN: no steps. */
static double error_of_ratios(const struct worth_setup *s)
{
    double squares = 0, freedom = 0;

    for (size_t i = 0, end; i < s->step_count; i = end) {
        double sum = 0, sum_squares = 0, n;

        for (end = i; end < s->step_count && s->steps[end].group == s->steps[i].group; end++) {
            const struct observation *o = &s->steps[end];
            double error = o->log_ns - modelled(s, bucket_at(s, o->log_c), o->arm);

            sum += error;
            sum_squares += error * error;
        }
        n = (double)(end - i);
        squares += sum_squares - sum * sum / n;
        freedom += n - 1;
    }
    /* A ratio contains the errors of two steps. */
    return freedom > 0 ? sqrt(2 * fmax(0, squares) / freedom) : (double)NAN;
}

/* Scales the model's expected errors so that the steps become likely. */
static void fit_misses(const struct worth_setup *s, struct prior *prior, struct belief *belief)
{
    double squares = belief_freedom, freedom = belief_freedom;

    for (size_t i = 1; i < s->step_count; i++) /* the first step of a launch fixes its level */
        freedom += s->steps[i].group == s->steps[i - 1].group;
    belief_compute(prior, s->steps, s->step_count, log(s->capacities[0]), false, belief);
    squares += dot(prior->process.residuals, prior->process.residuals, s->step_count);
    prior->misfit_scale = fmax(.05, fmin(30, squares / freedom));
}

/* ---- drawn machines */

/* The memory of draw_machines(); `mean` owns all of it. */
struct machines {
    size_t arms;
    double *mean;   /* of log(ns), [bucket][arm] */
    double *factor; /* Cholesky's of the arms' covariance, [bucket][arm][arm]: the lower half */
    double *drawn;  /* log(ns) of one machine, [bucket][arm] */
    double *gains;  /* by draw: over the default; then by draw over the best static plan */
};

/* Cholesky's lower factor of a covariance.  Its arms may be equal except for rounding. */
static void factorise(const double *covariance, size_t stride, size_t n, double *out)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double v = covariance[i * stride + j] - dot(out + i * n, out + j * n, j);
            double pivot = out[j * n + j];

            out[i * n + j] = i == j ? sqrt(fmax(v, least_variance)) : v / pivot;
        }
}

/* A normal number that depends on the key and the index alone. */
static double normal(uint64_t key, uint64_t index)
{
    double radius = ((double)(random_bits(key, 2 * index) >> 11) + .5) * 0x1p-53;
    double angle = ((double)(random_bits(key, 2 * index + 1) >> 11) + .5) * 0x1p-53;

    return sqrt(-2 * log(radius)) * cos(2 * 3.14159265358979323846 * angle);
}

/* Draws the times of one machine.  The errors at neighbouring capacities are correlated as in
 * belief.h. */
static void draw_times(const struct worth_setup *s, const struct machines *m, uint64_t draw)
{
    double z[SEARCH_ARMS_MAX];

    for (size_t b = 0; b < s->bucket_count; b++) {
        const double *mean = m->mean + b * m->arms;
        double held =
            b ? capacity_correlation(log(s->capacities[b - 1]), log(s->capacities[b])) : 0;

        for (size_t arm = 0; arm < m->arms; arm++) {
            double fresh = normal(s->seed, (draw * s->bucket_count + b) * m->arms + arm);

            z[arm] = b ? held * z[arm] + sqrt(1 - held * held) * fresh : fresh;
            m->drawn[b * m->arms + arm] =
                mean[arm] + dot(m->factor + (b * m->arms + arm) * m->arms, z, arm + 1);
        }
    }
}

/* Draws one machine and tunes it: each bucket gets its fastest plan, or the default if that plan
 * saves less than the margin.  The gains are those of a further launch of the ranks, which shifts
 * each plan's times at random. */
static void tune_machine(const struct worth_setup *s, const struct machines *m, uint64_t draw,
                         double *over_default, double *over_static)
{
    double launch_shift[SEARCH_ARMS_MAX], table_log_ns = 0, default_log_ns = 0, static_log_ns = 0,
                                          weights = 0, mean;
    int best;

    draw_times(s, m, draw);
    for (size_t arm = 0; arm < m->arms; arm++)
        launch_shift[arm] = sqrt(s->launch_variance) * normal(~s->seed, draw * m->arms + arm);
    best = best_static(s, m->drawn, &mean);
    for (size_t b = 0; b < s->bucket_count; b++) {
        const double *drawn = m->drawn + b * m->arms;
        int chosen = s->default_arm;

        for (int arm = 0; arm < (int)m->arms; arm++)
            if (!isnan(modelled(s, b, arm)) && drawn[arm] < drawn[chosen] &&
                drawn[arm] < drawn[s->default_arm] + log1p(-s->margin))
                chosen = arm;
        table_log_ns += s->weights[b] * (drawn[chosen] + launch_shift[chosen]);
        default_log_ns += s->weights[b] * (drawn[s->default_arm] + launch_shift[s->default_arm]);
        static_log_ns += s->weights[b] * (drawn[best] + launch_shift[best]);
        weights += s->weights[b];
    }
    *over_default = 1 - exp((table_log_ns - default_log_ns) / weights);
    *over_static = 1 - exp((table_log_ns - static_log_ns) / weights);
}

/* The median of the draws, and the interval that leaves equally many of them out on each side. */
static struct gain gain_of_draws(double *gains)
{
    size_t outside = DRAWS * (100 - WORTH_HOLDS) / 200;

    sort_doubles(gains, DRAWS);
    return (struct gain){ gains[DRAWS / 2], gains[outside], gains[DRAWS - 1 - outside] };
}

static int draw_machines(const struct worth_setup *s, struct prior *prior, struct belief *belief,
                         struct worth *out)
{
    size_t arms = s->search->arm_count, times = s->bucket_count * arms;
    struct machines m = { .arms = arms,
                          .mean = calloc(2 * times + times * arms + 2 * DRAWS, sizeof(double)) };
    double mean;

    if (!m.mean)
        return fail(ERR_NOMEM, "%zu plans at %zu capacities", arms, s->bucket_count);
    m.drawn = m.mean + times;
    m.factor = m.drawn + times;
    m.gains = m.factor + times * arms;
    for (size_t b = 0; b < s->bucket_count; b++) {
        belief_compute(prior, s->steps, s->step_count, log(s->capacities[b]), false, belief);
        memcpy(m.mean + b * arms, belief->mean, arms * sizeof(*m.mean));
        factorise(belief->covariance, belief->stride, arms, m.factor + b * arms * arms);
    }
    for (uint64_t draw = 0; draw < DRAWS; draw++)
        tune_machine(s, &m, draw, &m.gains[draw], &m.gains[DRAWS + draw]);
    out->over_default = gain_of_draws(m.gains);
    out->over_static = gain_of_draws(m.gains + DRAWS);
    out->static_arm = best_static(s, m.mean, &mean);
    free(m.mean);
    return OK;
}

int worth_of(const struct worth_setup *s, struct worth *out)
{
    struct search_model model = { model_log_ns, s };
    struct search_setup setup = *s->search;
    struct belief belief = { .count = 0 };
    struct prior prior;
    int rc;

    if (s->default_arm < 0 || !s->bucket_count)
        return UNSUPPORTED;
    for (size_t b = 0; b < s->bucket_count; b++)
        if (isnan(modelled(s, b, s->default_arm)))
            return UNSUPPORTED;
    setup.model = &model;
    setup.load = NULL; /* the model knows it */
    rc = prior_open(&setup, &prior);
    if (!rc)
        rc = belief_open(&prior, &belief);
    if (!rc) {
        fit_misses(s, &prior, &belief);
        out->error = sqrt(2 * prior.misfit_scale *
                          prior.misfit_covariance[(size_t)s->default_arm * prior.stride +
                                                  (size_t)s->default_arm]);
        out->off = error_of_ratios(s);
        rc = draw_machines(s, &prior, &belief, out);
    }
    belief_close(&belief);
    prior_close(&prior);
    return rc;
}
