/* The Gaussian process itself: which errors are alike, and dense linear algebra on at most a few
 * hundred rows. */
#include "gaussian.h"

#include "distribution.h"
#include "plan.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Standard deviations of log(ns), tuned by simulation (tests/bench/bench_search.c). */
static const double offset_now_sd = 0.25, /* of the present visit: it may be a burst as a whole */
    smooth_sd = 0.12,                     /* misfit shared by neighbouring r, d, a and c */
    local_sd = 0.20,                      /* of r = 0, which shares with nobody */
    own_sd = 0.025,                       /* of one arm, over about an octave of c */
    own_visit_sd = 0.012,                 /* of one arm in one visit */
    whole_sd = 0.04,                      /* of all arms with r = s: they gather nothing */
    ctas_sd = 0.6,                        /* of a number of CTAs: the costs know nothing of it */
    proto_sd = 0.3,                       /* of a protocol, likewise */
    unknown_sd = 2;                       /* of an arm for which the costs give no number */
static const double least_variance = 1e-9;

/* ---- memory */

static int allocate(double **out, size_t count)
{
    *out = calloc(count ? count : 1, sizeof(**out));
    return *out ? OK : fail(ERR_NOMEM, "%zu numbers of a search's model", count);
}

static double distance(uint32_t a, uint32_t b)
{
    return log((double)a / (double)b);
}

static double likeness(const struct moe_plan *a, const struct moe_plan *b)
{
    double by_r = distance(a->r, b->r), by_d = fabs(distance(a->d, b->d)) / 0.6931471805599453;
    double like = smooth_sd * smooth_sd * exp(-0.5 * by_r * by_r - 0.35 * by_d);

    for (size_t i = 0; i < plan_axis_count; i++)
        if (i != PLAN_R && i != PLAN_D && plan_value(a, i) != plan_value(b, i))
            like *= i == PLAN_A ? 0.5 : 0.7;
    return like;
}

/* How alike two numbers of CTAs are; 0, what the library itself would take, is like none. */
static double shared_by_ctas(const struct moe_plan *a, const struct moe_plan *b)
{
    double doublings;

    if (!a->ctas || !b->ctas)
        return 0;
    doublings = distance(a->ctas, b->ctas) / 0.6931471805599453;
    return ctas_sd * ctas_sd * exp(-0.25 * doublings * doublings);
}

/* Likewise; one that suits long messages does not suit short ones. */
static double shared_by_protocol(const struct moe_plan *a, const struct moe_plan *b)
{
    return a->proto && a->proto == b->proto ? proto_sd * proto_sd : 0;
}

static double shared_misfit(const struct moe_plan *a, const struct moe_plan *b, uint32_t slices)
{
    double shared = shared_by_ctas(a, b) + shared_by_protocol(a, b);

    if (!a->r || !b->r)
        return shared + (a->r == b->r ? local_sd * local_sd * (a->e == b->e ? 1 : 0.5) : 0);
    return shared + likeness(a, b) + (a->r == slices && b->r == slices ? whole_sd * whole_sd : 0);
}

int gaussian_open(const struct search_setup *setup, struct gaussian *g)
{
    size_t rows = GAUSSIAN_TOLD_MAX;

    *g = (struct gaussian){ .costs = costs_of(&setup->shape, &setup->machine),
                            .model = setup->model,
                            .arms = setup->arms,
                            .count = setup->arm_count,
                            .stride = (setup->arm_count + 3) / 4 * 4,
                            .surprise = 1 };
    if (g->count > SEARCH_ARMS_MAX)
        return fail(ERR_ARGUMENT, "%zu plans", g->count);
    g->costs.kept = setup->load ? setup->kept : NULL;
    g->costs.load = setup->load;
    TRY(allocate(&g->alike, g->count * g->stride));
    TRY(allocate(&g->gradient, g->count * COST_CONSTANTS));
    TRY(allocate(&g->system, rows * rows));
    TRY(allocate(&g->right, rows));
    TRY(allocate(&g->observed, rows * (COST_CONSTANTS + 1)));
    TRY(allocate(&g->half, GAUSSIAN_OBSERVATIONS_MAX * g->stride));
    memcpy(g->constants, g->costs.prior, sizeof(g->constants));
    for (size_t i = 0; i < g->count; i++)
        for (size_t j = 0; j < g->count; j++)
            g->alike[i * g->stride + j] =
                shared_misfit(&g->arms[i], &g->arms[j], shape_slices(&setup->shape));
    return OK;
}

void gaussian_close(struct gaussian *g)
{
    free(g->alike);
    free(g->gradient);
    free(g->system);
    free(g->right);
    free(g->observed);
    free(g->half);
}

int belief_open(const struct gaussian *g, struct belief *out)
{
    struct belief b = { .count = g->count, .stride = g->stride };

    TRY(allocate(&b.mean, b.stride + b.count * b.stride));
    b.covariance = b.mean + b.stride;
    *out = b;
    return OK;
}

void belief_close(struct belief *belief)
{
    free(belief->mean);
}

int outlook_open(const struct gaussian *g, struct outlook *out)
{
    TRY(allocate(&out->mean, (3 + GAUSSIAN_TOLD_MAX) * g->stride));
    out->sd = out->mean + g->stride;
    out->with_mood = out->sd + g->stride;
    out->half = out->with_mood + g->stride;
    return OK;
}

void outlook_close(struct outlook *outlook)
{
    free(outlook->mean);
}

/* ---- linear algebra: matrices by rows */

/* Rows are padded to fours so that the compiler makes vectors of them. */
static void subtract_scaled(double *restrict from, const double *restrict what, double factor,
                            size_t padded)
{
    for (size_t i = 0; i < padded; i += 4) {
        from[i] -= factor * what[i];
        from[i + 1] -= factor * what[i + 1];
        from[i + 2] -= factor * what[i + 2];
        from[i + 3] -= factor * what[i + 3];
    }
}

static double dot(const double *a, const double *b, size_t n)
{
    double sum[4] = { 0 };
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            sum[k] += a[i + (size_t)k] * b[i + (size_t)k];
    for (; i < n; i++)
        sum[0] += a[i] * b[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* Replaces the lower triangle of `a` by its Cholesky factor. */
static void factorise(double *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double *row = a + i * n;

        for (size_t j = 0; j < i; j++)
            row[j] = (row[j] - dot(row, a + j * n, j)) / a[j * n + j];
        row[i] = deviation_of(row[i] - dot(row, row, i), least_variance);
    }
}

static void solve_lower(const double *factor, size_t n, double *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (x[i] - dot(factor + i * n, x, i)) / factor[i * n + i];
}

static void solve_upper(const double *factor, size_t n, double *x)
{
    for (size_t i = n; i-- > 0;) {
        x[i] /= factor[i * n + i];
        for (size_t j = 0; j < i; j++)
            x[j] -= factor[i * n + j] * x[i];
    }
}

/* Does what solve_lower does for many right-hand sides at once, which are the rows of x. */
static void solve_lower_rows(const double *factor, size_t n, double *x, size_t stride)
{
    for (size_t i = 0; i < n; i++) {
        double scale = 1 / factor[i * n + i];

        for (size_t k = 0; k < i; k++)
            subtract_scaled(x + i * stride, x + k * stride, factor[i * n + k], stride);
        for (size_t j = 0; j < stride; j++)
            x[i * stride + j] *= scale;
    }
}

/* ---- the process */

/* The model's mean of an arm, and its gradient by each constant.  False: it has none, for a formula
 * may divide 0 by 0 or overflow for a layer that nobody thought of. */
static bool model_gradient(const struct gaussian *g, double log_c, int arm, double *mean,
                           double *gradient)
{
    static const double sane = 100; /* e^100 ns */
    double sum = 0;

    if (g->model) {
        memset(gradient, 0, COST_CONSTANTS * sizeof(*gradient));
        gradient[COST_SCALE] = 1;
        *mean = g->model->log_ns(g->model->self, exp(log_c), arm) + g->constants[COST_SCALE];
    } else {
        *mean = costs_gradient(&g->costs, g->constants, exp(log_c), &g->arms[arm], gradient);
    }
    for (int i = 0; i < COST_CONSTANTS; i++)
        sum += fabs(gradient[i]);
    return fabs(*mean) < sane && sum < sane;
}

/* The prior mean of an arm and its gradient by each constant, in standard deviations of that
 * constant: the model, linear about g->constants.  An arm without a model may be anywhere about the
 * first that has one; without any of them all are alike. */
static double prior_mean(struct gaussian *g, double log_c, int arm, double *gradient)
{
    static const double bland_log_ns = 14; /* a millisecond */
    double mean;
    bool known = model_gradient(g, log_c, arm, &mean, gradient);

    g->unknown[arm] = g->unknown[arm] || !known;
    for (int other = 0; other < (int)g->count && !known; other++)
        known = model_gradient(g, log_c, other, &mean, gradient);
    if (!known) {
        memset(gradient, 0, COST_CONSTANTS * sizeof(*gradient));
        gradient[COST_SCALE] = 1;
        mean = bland_log_ns + g->constants[COST_SCALE];
    }
    for (int i = 0; i < COST_CONSTANTS; i++) {
        mean += gradient[i] * (g->costs.prior[i] - g->constants[i]);
        gradient[i] *= g->costs.prior_sd[i];
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

/* How far two capacities are apart, for what decays slowly and what decays fast. */
struct decay {
    double slow, fast;
};

static struct decay decay_of(double log_c1, double log_c2)
{
    double away = fabs(log_c1 - log_c2);

    return (struct decay){ .slow = exp(-away * away / 4.5), .fast = exp(-away) };
}

static double misfit(const struct gaussian *g, int a, int b, struct decay decay)
{
    double v = g->alike[(size_t)a * g->stride + (size_t)b] * decay.slow;

    if (a == b)
        v += own_sd * own_sd * decay.fast;
    if (a == b && g->unknown[a])
        v += unknown_sd * unknown_sd * decay.slow;
    return v * g->surprise;
}

/* What one visit adds: its samples are off together, and each arm a little by itself. */
static double visit_misfit(const struct gaussian *g, int a, int b, double offset_variance)
{
    return offset_variance + (a == b ? own_visit_sd * own_visit_sd * g->surprise : 0);
}

/* Neighbouring rows mostly come from the same visits: the last decay is kept. */
static void fill_system(const struct gaussian *g, const struct observation *seen, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct decay decay = { 1, 1 };
        double log_c = seen[i].log_c;

        for (size_t j = 0; j <= i; j++) {
            if (seen[j].log_c != log_c) {
                log_c = seen[j].log_c;
                decay = decay_of(seen[i].log_c, log_c);
            }
            g->system[i * n + j] =
                by_constants(g->observed + i * COST_CONSTANTS, g->observed + j * COST_CONSTANTS) +
                misfit(g, seen[i].arm, seen[j].arm, decay) +
                (seen[i].visit == seen[j].visit
                     ? visit_misfit(g, seen[i].arm, seen[j].arm, seen[i].offset_variance)
                     : 0);
        }
        g->system[i * n + i] += seen[i].variance;
    }
}

/* Leaves the factor of the observations' covariance in g->system and their residuals, not yet
 * solved for, in g->right. */
static void prepare(struct gaussian *g, const struct observation *seen, size_t n)
{
    for (size_t i = 0; i < n; i++)
        g->right[i] = seen[i].log_ns -
                      prior_mean(g, seen[i].log_c, seen[i].arm, g->observed + i * COST_CONSTANTS);
    fill_system(g, seen, n);
    factorise(g->system, n);
    solve_lower(g->system, n, g->right);
}

void gaussian_fit(struct gaussian *g, const struct observation *seen, size_t count)
{
    static const double longest_step = 0.7;

    if (!count)
        return;
    prepare(g, seen, count);
    solve_upper(g->system, count, g->right);
    for (int i = 0; i < COST_CONSTANTS; i++) {
        double sd = g->costs.prior_sd[i], wanted = g->costs.prior[i], step;

        for (size_t k = 0; k < count; k++)
            wanted += sd * g->observed[k * COST_CONSTANTS + (size_t)i] * g->right[k];
        step = isfinite(wanted) ? wanted - g->constants[i] : 0;
        g->constants[i] += fmax(-longest_step, fmin(longest_step, step));
    }
}

static void cross_covariance(const struct gaussian *g, const struct observation *seen, size_t n,
                             double log_c)
{
    for (size_t i = 0; i < n; i++) {
        struct decay decay = decay_of(seen[i].log_c, log_c);
        double *row = g->half + i * g->stride;

        for (size_t j = 0; j < g->count; j++)
            row[j] =
                by_constants(g->observed + i * COST_CONSTANTS, g->gradient + j * COST_CONSTANTS) +
                misfit(g, seen[i].arm, (int)j, decay);
        for (size_t j = g->count; j < g->stride; j++)
            row[j] = 0;
    }
}

static void fill_prior(struct gaussian *g, double log_c, bool visited, struct belief *out)
{
    static const struct decay here = { 1, 1 };

    for (size_t i = 0; i < g->count; i++)
        out->mean[i] = prior_mean(g, log_c, (int)i, g->gradient + i * COST_CONSTANTS);
    for (size_t i = 0; i < g->count; i++)
        for (size_t j = 0; j < g->count; j++)
            out->covariance[i * g->stride + j] =
                by_constants(g->gradient + i * COST_CONSTANTS, g->gradient + j * COST_CONSTANTS) +
                misfit(g, (int)i, (int)j, here) +
                (visited ? visit_misfit(g, (int)i, (int)j, offset_now_sd * offset_now_sd) : 0);
}

void gaussian_predict(struct gaussian *g, const struct observation *seen, size_t count,
                      double log_c, bool visited, struct belief *out)
{
    fill_prior(g, log_c, visited, out);
    if (!count)
        return;
    prepare(g, seen, count);
    cross_covariance(g, seen, count, log_c);
    solve_lower_rows(g->system, count, g->half, g->stride);
    for (size_t k = 0; k < count; k++) {
        const double *row = g->half + k * g->stride;

        subtract_scaled(out->mean, row, -g->right[k], g->stride);
        for (size_t i = 0; i < g->count; i++) {
            size_t from = i / 4 * 4; /* what is left of the diagonal is copied at the end */

            subtract_scaled(out->covariance + i * g->stride + from, row + from, row[i],
                            g->stride - from);
        }
    }
    for (size_t i = 0; i < g->count; i++)
        for (size_t j = 0; j < i; j++)
            out->covariance[i * g->stride + j] = out->covariance[j * g->stride + i];
}

/* ---- within a visit */

/* Standard deviations of log time; a stretch's is that of a burst of 1.3 to 2. */
static const double wander_sd = 0.03, wander_steps = 40, burst_sd = 0.45;

double mood_covariance(struct moment a, struct moment b)
{
    double v = wander_sd * wander_sd * exp(-abs(a.step - b.step) / wander_steps);

    return a.stretch && a.stretch == b.stretch ? v + burst_sd * burst_sd : v;
}

static void fill_outlook(struct gaussian *g, const struct belief *belief, const struct told *told,
                         size_t count, struct outlook *out)
{
    size_t stride = belief->stride;

    for (size_t i = 0; i < count; i++) {
        const double *row = belief->covariance + (size_t)told[i].arm * stride;

        for (size_t j = 0; j <= i; j++)
            g->system[i * count + j] =
                row[told[j].arm] + mood_covariance(told[i].when, told[j].when);
        g->system[i * count + i] += told[i].variance;
        g->right[i] = told[i].log_ns - belief->mean[told[i].arm];
        memcpy(out->half + i * stride, row, stride * sizeof(*row));
    }
    factorise(g->system, count);
    solve_lower(g->system, count, g->right);
    solve_lower_rows(g->system, count, out->half, stride);
}

/* The diagonal element `at` of the inverse of the factored system. */
static double inverse_diagonal(const struct gaussian *g, size_t count, size_t at, double *scratch)
{
    size_t n = count - at;
    double sum = 0;

    memset(scratch, 0, n * sizeof(*scratch));
    scratch[0] = 1;
    for (size_t i = 0; i < n; i++) {
        const double *row = g->system + (at + i) * count + at;

        scratch[i] = (scratch[i] - dot(row, scratch, i)) / row[i];
        sum += scratch[i] * scratch[i];
    }
    return sum;
}

/* Needs g->right half solved. */
static void fill_mood(const struct gaussian *g, const struct told *told, size_t count,
                      struct moment now, struct outlook *out)
{
    size_t stride = out->belief->stride;
    double of[GAUSSIAN_TOLD_MAX];

    for (size_t k = 0; k < count; k++)
        of[k] = mood_covariance(now, told[k].when);
    solve_lower(g->system, count, of);
    memset(out->with_mood, 0, stride * sizeof(*out->with_mood));
    for (size_t k = 0; k < count; k++)
        subtract_scaled(out->with_mood, out->half + k * stride, of[k], stride);
    out->mood_now = dot(of, g->right, count);
    out->mood_variance =
        pow(deviation_of(mood_covariance(now, now) - dot(of, of, count), least_variance), 2);
}

/* What each sample is made of: mood and noise.  Leaves g->right solved. */
static void fill_readings(struct gaussian *g, const struct told *told, size_t count,
                          struct outlook *out)
{
    double scratch[GAUSSIAN_TOLD_MAX];

    solve_upper(g->system, count, g->right);
    for (size_t i = 0; i < count; i++) {
        double mood = 0;

        for (size_t j = 0; j < count; j++)
            mood += mood_covariance(told[i].when, told[j].when) * g->right[j];
        out->readings[i] = (struct reading){
            .mood = mood,
            .noise = told[i].variance * g->right[i],
            .freedom = told[i].variance * inverse_diagonal(g, count, i, scratch),
        };
    }
}

void outlook_of(struct gaussian *g, const struct belief *belief, const struct told *told,
                size_t count, struct moment now, struct outlook *out)
{
    size_t stride = belief->stride;

    out->belief = belief;
    out->told = count;
    fill_outlook(g, belief, told, count, out);
    memcpy(out->mean, belief->mean, stride * sizeof(*out->mean));
    for (size_t j = 0; j < belief->count; j++)
        out->sd[j] = belief->covariance[j * stride + j];
    for (size_t k = 0; k < count; k++) {
        const double *row = out->half + k * stride;

        subtract_scaled(out->mean, row, -g->right[k], stride);
        for (size_t j = 0; j < belief->count; j++)
            out->sd[j] -= row[j] * row[j];
    }
    for (size_t j = 0; j < belief->count; j++)
        out->sd[j] = deviation_of(out->sd[j], least_variance);
    fill_mood(g, told, count, now, out);
    fill_readings(g, told, count, out);
}

static double joint(const struct outlook *o, int a, int b)
{
    size_t stride = o->belief->stride;
    double v = o->belief->covariance[(size_t)a * stride + (size_t)b];

    for (size_t k = 0; k < o->told; k++)
        v -= o->half[k * stride + (size_t)a] * o->half[k * stride + (size_t)b];
    return v;
}

double outlook_difference_sd(const struct outlook *outlook, int a, int b)
{
    double va = outlook->sd[a] * outlook->sd[a], vb = outlook->sd[b] * outlook->sd[b];

    return deviation_of(va + vb - 2 * joint(outlook, a, b), least_variance);
}
