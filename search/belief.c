/* Computes what guided believes: the covariances of the cost model's errors and of samples, and the
 * Gaussian process that follows from them. */
#include "belief.h"

#include "distribution.h"
#include "plan.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Standard deviations of log(ns), tuned by simulation (tests/bench/bench_search.c). */
static const double present_offset_sd = 0.25, /* of the present bucket: one burst may span it */
    smooth_sd = 0.12,                         /* misfit that neighbouring r, d, a and c share */
    local_sd = 0.20,                          /* misfit of r = 0, shared with no other r */
    own_sd = 0.025,                           /* of one arm, over about an octave of c */
    own_bucket_sd = 0.012,                    /* of one arm in one bucket */
    whole_sd = 0.04,                          /* of all arms with r = s: they gather nothing */
    ctas_sd = 0.6,                            /* of a number of CTAs: the cost model ignores it */
    proto_sd = 0.3,                           /* of a protocol: the cost model ignores it */
    unknown_sd = 2;                           /* of an arm for which the cost model has no number */
static const double least_variance = 1e-9;

/* ---- which errors are similar */

static double distance(uint32_t a, uint32_t b)
{
    return log((double)a / (double)b);
}

static double shared_misfit(const struct moe_plan *a, const struct moe_plan *b, uint32_t slices)
{
    static const double log_2 = 0.6931471805599453;
    double shared = 0, like, by_r, by_d;

    /* A number of CTAs behaves like its neighbours; 0, the library's own choice, like no other.  A
     * protocol that suits long messages does not suit short ones. */
    if (a->ctas && b->ctas) {
        double doublings = distance(a->ctas, b->ctas) / log_2;

        shared = ctas_sd * ctas_sd * exp(-0.25 * doublings * doublings);
    }
    if (a->proto && a->proto == b->proto)
        shared += proto_sd * proto_sd;
    if (!a->r || !b->r)
        return shared + (a->r == b->r ? local_sd * local_sd * (a->e == b->e ? 1 : 0.5) : 0);
    by_r = distance(a->r, b->r);
    by_d = fabs(distance(a->d, b->d)) / log_2;
    like = smooth_sd * smooth_sd * exp(-0.5 * by_r * by_r - 0.35 * by_d);
    for (size_t i = 0; i < plan_axis_count; i++)
        if (i != PLAN_R && i != PLAN_D && plan_value(a, i) != plan_value(b, i))
            like *= i == PLAN_A ? 0.5 : 0.7;
    return shared + like + (a->r == slices && b->r == slices ? whole_sd * whole_sd : 0);
}

/* ---- memory */

static int allocate(double **out, size_t count)
{
    *out = calloc(count ? count : 1, sizeof(**out));
    return *out ? OK : fail(ERR_NOMEM, "%zu numbers of a search's model", count);
}

int prior_open(const struct search_setup *setup, struct prior *p)
{
    *p = (struct prior){ .costs = costs_of(&setup->shape, &setup->machine),
                         .model = setup->model,
                         .arms = setup->arms,
                         .count = setup->arm_count,
                         .stride = (setup->arm_count + 3) / 4 * 4,
                         .misfit_scale = 1 };
    if (p->count > SEARCH_ARMS_MAX)
        return fail(ERR_ARGUMENT, "%zu plans", p->count);
    p->costs.kept = setup->load ? setup->kept : NULL;
    p->costs.load = setup->load;
    TRY(allocate(&p->misfit_covariance, p->count * p->stride));
    TRY(allocate(&p->gradient, p->count * COST_CONSTANTS));
    TRY(allocate(&p->seen_gradient, BELIEF_OBSERVATIONS_MAX * COST_CONSTANTS));
    TRY(gaussian_open(p->count, BELIEF_OBSERVATIONS_MAX, least_variance, &p->process));
    memcpy(p->constants, p->costs.prior, sizeof(p->constants));
    for (size_t i = 0; i < p->count; i++)
        for (size_t j = 0; j < p->count; j++)
            p->misfit_covariance[i * p->stride + j] =
                shared_misfit(&p->arms[i], &p->arms[j], shape_slices(&setup->shape));
    return OK;
}

void prior_close(struct prior *p)
{
    free(p->misfit_covariance);
    free(p->gradient);
    free(p->seen_gradient);
    gaussian_close(&p->process);
}

int belief_open(const struct prior *p, struct belief *out)
{
    struct belief b = { .count = p->count, .stride = p->stride };

    TRY(allocate(&b.mean, b.stride + b.count * b.stride));
    b.covariance = b.mean + b.stride;
    *out = b;
    return OK;
}

void belief_close(struct belief *belief)
{
    free(belief->mean);
}

int outlook_open(const struct prior *p, struct outlook *out)
{
    TRY(allocate(&out->sd, 2 * p->stride));
    out->with_shared_noise = out->sd + p->stride;
    TRY(gaussian_open(p->count, BELIEF_SAMPLES_MAX, least_variance, &out->process));
    out->mean = out->process.mean;
    return OK;
}

void outlook_close(struct outlook *outlook)
{
    free(outlook->sd);
    gaussian_close(&outlook->process);
}

/* ---- before the samples of this bucket */

/* The model's mean for an arm, and its gradient by each constant.  False: the formula gave no sane
 * number; it may divide 0 by 0 or overflow for an unusual layer. */
static bool model_gradient(const struct prior *p, double log_c, int arm, double *mean,
                           double *gradient)
{
    static const double sane = 100; /* e^100 ns */
    double sum = 0;

    if (p->model) {
        memset(gradient, 0, COST_CONSTANTS * sizeof(*gradient));
        gradient[COST_SCALE] = 1;
        *mean = p->model->log_ns(p->model->self, exp(log_c), arm) + p->constants[COST_SCALE];
    } else {
        *mean = costs_gradient(&p->costs, p->constants, exp(log_c), &p->arms[arm], gradient);
    }
    for (int i = 0; i < COST_CONSTANTS; i++)
        sum += fabs(gradient[i]);
    return fabs(*mean) < sane && sum < sane;
}

/* The prior mean of an arm, and its gradient by each constant in standard deviations of that
 * constant.  The model is linearised about p->constants.  An arm for which the model fails gets the
 * mean of the first arm for which it works; if it works for none, all arms get the same mean. */
static double prior_mean(struct prior *p, double log_c, int arm, double *gradient)
{
    static const double typical_log_ns = 14; /* a millisecond */
    double mean;
    bool known = model_gradient(p, log_c, arm, &mean, gradient);

    p->unknown[arm] = p->unknown[arm] || !known;
    for (int other = 0; other < (int)p->count && !known; other++)
        known = model_gradient(p, log_c, other, &mean, gradient);
    if (!known) {
        memset(gradient, 0, COST_CONSTANTS * sizeof(*gradient));
        gradient[COST_SCALE] = 1;
        mean = typical_log_ns + p->constants[COST_SCALE];
    }
    for (int i = 0; i < COST_CONSTANTS; i++) {
        mean += gradient[i] * (p->costs.prior[i] - p->constants[i]);
        gradient[i] *= p->costs.prior_sd[i];
    }
    return mean;
}

static double by_constants(const double *a, const double *b)
{
    double even = 0, odd = 0;
    int i = 0;

    for (; i + 1 < COST_CONSTANTS; i += 2) {
        even += a[i] * b[i];
        odd += a[i + 1] * b[i + 1];
    }
    return i < COST_CONSTANTS ? even + odd + a[i] * b[i] : even + odd;
}

/* The correlation of misfits at two capacities: of those that decay slowly and those that decay
 * fast with the distance. */
struct decay {
    double slow, fast;
};

static struct decay decay_of(double log_c1, double log_c2)
{
    return (struct decay){ capacity_correlation(log_c1, log_c2), exp(-fabs(log_c1 - log_c2)) };
}

static double misfit(const struct prior *p, int a, int b, struct decay decay)
{
    double v = p->misfit_covariance[(size_t)a * p->stride + (size_t)b] * decay.slow;

    if (a == b)
        v += own_sd * own_sd * decay.fast;
    if (a == b && p->unknown[a])
        v += unknown_sd * unknown_sd * decay.slow;
    return v * p->misfit_scale;
}

/* The covariance of samples of one bucket beyond misfit(): all share an offset, and each arm has a
 * small offset of its own. */
static double bucket_misfit(const struct prior *p, int a, int b, double offset_variance)
{
    return offset_variance + (a == b ? own_bucket_sd * own_bucket_sd * p->misfit_scale : 0);
}

/* The covariance of two observations; `decay` is for their two capacities. */
static double shared(const struct prior *p, const struct observation *seen, size_t i, size_t j,
                     struct decay decay)
{
    return by_constants(p->seen_gradient + i * COST_CONSTANTS,
                        p->seen_gradient + j * COST_CONSTANTS) +
           misfit(p, seen[i].arm, seen[j].arm, decay) +
           (seen[i].group == seen[j].group
                ? bucket_misfit(p, seen[i].arm, seen[j].arm, seen[i].offset_variance)
                : 0);
}

/* Adds the observations to the process.  Neighbours in the list mostly have the same capacity, so
 * the last decay is reused. */
static void observe(struct prior *p, const struct observation *seen, size_t n, double log_c)
{
    struct gaussian *g = &p->process;
    double residual[BELIEF_OBSERVATIONS_MAX];

    for (size_t i = 0; i < n; i++)
        residual[i] = seen[i].log_ns - prior_mean(p, seen[i].log_c, seen[i].arm,
                                                  p->seen_gradient + i * COST_CONSTANTS);
    for (size_t i = 0; i < n; i++) {
        struct decay decay = { 1, 1 }, away = decay_of(seen[i].log_c, log_c);
        double last = seen[i].log_c, *among = gaussian_sample_row(g), *with = gaussian_arm_row(g);

        for (size_t j = 0; j <= i; j++) {
            if (seen[j].log_c != last) {
                last = seen[j].log_c;
                decay = decay_of(seen[i].log_c, last);
            }
            among[j] = shared(p, seen, i, j, decay);
        }
        among[i] += seen[i].variance;
        for (size_t j = 0; j < g->arms; j++)
            with[j] = by_constants(p->seen_gradient + i * COST_CONSTANTS,
                                   p->gradient + j * COST_CONSTANTS) +
                      misfit(p, seen[i].arm, (int)j, away);
        gaussian_add(g, residual[i]);
    }
}

void prior_fit(struct prior *p, const struct observation *seen, size_t count)
{
    static const double longest_step = 0.7;
    double weights[BELIEF_OBSERVATIONS_MAX];

    if (!count)
        return;
    gaussian_reset(&p->process, 0);
    observe(p, seen, count, 0);
    gaussian_weights(&p->process, weights);
    for (int i = 0; i < COST_CONSTANTS; i++) {
        double sd = p->costs.prior_sd[i], wanted = p->costs.prior[i], step;

        for (size_t k = 0; k < count; k++)
            wanted += sd * p->seen_gradient[k * COST_CONSTANTS + (size_t)i] * weights[k];
        step = isfinite(wanted) ? wanted - p->constants[i] : 0;
        p->constants[i] += fmax(-longest_step, fmin(longest_step, step));
    }
}

void belief_compute(struct prior *p, const struct observation *seen, size_t count, double log_c,
                    bool measured, struct belief *out)
{
    static const struct decay here = { 1, 1 };
    struct gaussian *g = &p->process;

    gaussian_reset(g, p->count);
    for (size_t i = 0; i < p->count; i++)
        g->mean[i] = prior_mean(p, log_c, (int)i, p->gradient + i * COST_CONSTANTS);
    for (size_t i = 0; i < p->count; i++)
        for (size_t j = 0; j < p->count; j++)
            out->covariance[i * p->stride + j] =
                by_constants(p->gradient + i * COST_CONSTANTS, p->gradient + j * COST_CONSTANTS) +
                misfit(p, (int)i, (int)j, here) +
                (measured ? bucket_misfit(p, (int)i, (int)j, present_offset_sd * present_offset_sd)
                          : 0);
    for (size_t i = 0; i < p->count; i++)
        g->variance[i] = out->covariance[i * p->stride + i];
    observe(p, seen, count, log_c);
    memcpy(out->mean, g->mean, p->count * sizeof(*out->mean));
    if (!count)
        return;
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < p->count; i++) {
            const double *row = g->arm_rows + k * g->stride;
            size_t from = i / 4 * 4; /* the lower triangle is copied at the end */

            subtract_scaled(out->covariance + i * p->stride + from, row + from, row[i],
                            p->stride - from);
        }
    for (size_t i = 0; i < p->count; i++)
        for (size_t j = 0; j < i; j++)
            out->covariance[i * p->stride + j] = out->covariance[j * p->stride + i];
}

/* ---- after the samples of this bucket */

/* Standard deviations of log time.  burst_sd allows for bursts that slow steps by 1.3 to 2. */
static const double wander_sd = 0.03, wander_steps = 40, burst_sd = 0.45;

double shared_noise_covariance(struct moment a, struct moment b)
{
    double v = wander_sd * wander_sd * exp(-abs(a.step - b.step) / wander_steps);

    return a.stretch && a.stretch == b.stretch ? v + burst_sd * burst_sd : v;
}

/* Estimates the shared noise of the next step. */
static void find_shared_noise(const struct belief_sample *samples, size_t count, struct moment now,
                              struct outlook *out)
{
    const struct gaussian *g = &out->process;
    double of[BELIEF_SAMPLES_MAX];

    for (size_t k = 0; k < count; k++)
        of[k] = shared_noise_covariance(now, samples[k].when);
    gaussian_solve_lower(g, of);
    memset(out->with_shared_noise, 0, g->stride * sizeof(*out->with_shared_noise));
    for (size_t k = 0; k < count; k++)
        subtract_scaled(out->with_shared_noise, g->arm_rows + k * g->stride, of[k], g->stride);
    out->shared_noise_now = dot(of, g->residuals, count);
    out->shared_noise_variance = pow(
        safe_deviation(shared_noise_covariance(now, now) - dot(of, of, count), least_variance), 2);
}

/* Divides each sample into shared noise and noise of its own. */
static void read_samples(const struct belief_sample *samples, size_t count, struct outlook *out)
{
    double weights[BELIEF_SAMPLES_MAX], scratch[BELIEF_SAMPLES_MAX];

    gaussian_weights(&out->process, weights);
    for (size_t i = 0; i < count; i++) {
        double shared_noise = 0;

        for (size_t j = 0; j < count; j++)
            shared_noise += shared_noise_covariance(samples[i].when, samples[j].when) * weights[j];
        out->readings[i] = (struct belief_reading){
            .shared_noise = shared_noise,
            .noise = samples[i].variance * weights[i],
            .freedom = samples[i].variance * gaussian_precision(&out->process, i, scratch),
        };
    }
}

void outlook_update(const struct belief *belief, const struct belief_sample *samples, size_t count,
                    struct moment now, struct outlook *out)
{
    struct gaussian *g = &out->process;
    size_t stride = belief->stride;

    out->belief = belief;
    gaussian_reset(g, belief->count);
    memcpy(g->mean, belief->mean, belief->count * sizeof(*g->mean));
    for (size_t j = 0; j < belief->count; j++)
        g->variance[j] = belief->covariance[j * stride + j];
    for (size_t i = 0; i < count; i++) {
        const double *row = belief->covariance + (size_t)samples[i].arm * stride;
        double *among = gaussian_sample_row(g);

        for (size_t j = 0; j <= i; j++)
            among[j] =
                row[samples[j].arm] + shared_noise_covariance(samples[i].when, samples[j].when);
        among[i] += samples[i].variance;
        memcpy(gaussian_arm_row(g), row, stride * sizeof(*row));
        gaussian_add(g, samples[i].log_ns - belief->mean[samples[i].arm]);
    }
    for (size_t j = 0; j < belief->count; j++)
        out->sd[j] = safe_deviation(g->variance[j], least_variance);
    find_shared_noise(samples, count, now, out);
    read_samples(samples, count, out);
}

double outlook_difference_sd(const struct outlook *o, int a, int b)
{
    double before = o->belief->covariance[(size_t)a * o->belief->stride + (size_t)b];

    return gaussian_difference_sd(&o->process, before, a, b);
}
