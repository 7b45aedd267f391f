/* Fits the constants of a link, a device and its noise to measured times, with one solver for the
 * first two. */
#include "fits.h"

#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the solver: weighted least squares, tried with every set of unknowns that may be zero.  Each
 * iteration gives equations that are far off less weight. */

enum { ITERATIONS = 30, SAMPLES_MAX = 64 };

/* Columns are scaled to length 1; a smaller pivot is only rounding. */
static const double least_pivot = 1e-9;

/* Deviations below this share count as if they were this large. */
static const double least_deviation = 2e-3;

/* The equations to solve; rows are borrowed.  Each column is scaled to length 1. */
struct problem {
    const struct equation *rows;
    size_t count;
    int unknowns;
    double scale[UNKNOWNS_MAX]; /* of each column */
};

static double scaled_part(const struct problem *p, size_t row, int column)
{
    return p->rows[row].part[column] / p->scale[column];
}

static double deviation(const struct problem *p, size_t row, const double *x)
{
    double sum = -1;

    for (int i = 0; i < p->unknowns; i++)
        sum += scaled_part(p, row, i) * x[i];
    return sum;
}

static double equation_weight(const struct problem *p, size_t row, const double *x)
{
    return p->rows[row].weight / fmax(fabs(deviation(p, row, x)), least_deviation);
}

static double weighted_cost(const struct problem *p, const double *weights_from, const double *x)
{
    double sum = 0;

    for (size_t row = 0; row < p->count; row++) {
        double error = deviation(p, row, x);

        sum += equation_weight(p, row, weights_from) * error * error;
    }
    return sum;
}

/* Makes the normal equations of the columns in `set`; the other unknowns are 0. */
static void normal_equations(const struct problem *p, const double *weights_from, unsigned set,
                             double m[UNKNOWNS_MAX][UNKNOWNS_MAX + 1])
{
    memset(m, 0, UNKNOWNS_MAX * sizeof(*m));
    for (size_t row = 0; row < p->count; row++) {
        double w = equation_weight(p, row, weights_from);

        for (int i = 0; i < p->unknowns; i++) {
            for (int j = 0; j < p->unknowns; j++)
                m[i][j] += w * scaled_part(p, row, i) * scaled_part(p, row, j);
            m[i][UNKNOWNS_MAX] += w * scaled_part(p, row, i);
        }
    }
    for (int i = 0; i < p->unknowns; i++)
        for (int j = 0; j < p->unknowns; j++)
            if (i != j && !(set >> i & set >> j & 1))
                m[i][j] = 0;
    for (int i = 0; i < p->unknowns; i++)
        if (!(set >> i & 1))
            m[i][UNKNOWNS_MAX] = 0;
}

/* Solves the normal equations by elimination, which is shorter than Cholesky's method.  The matrix
 * is symmetric and not negative, so its diagonal elements are good pivots.  False: not determined.
 */
static bool eliminate(double m[UNKNOWNS_MAX][UNKNOWNS_MAX + 1], int n, double *x)
{
    double diagonal[UNKNOWNS_MAX];

    for (int i = 0; i < n; i++)
        diagonal[i] = m[i][i];
    for (int i = 0; i < n; i++) {
        if (!(m[i][i] > least_pivot * diagonal[i]))
            return false;
        for (int j = i + 1; j < n; j++) {
            double factor = m[j][i] / m[i][i];

            for (int k = i; k < UNKNOWNS_MAX; k++)
                m[j][k] -= factor * m[i][k];
            m[j][UNKNOWNS_MAX] -= factor * m[i][UNKNOWNS_MAX];
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        x[i] = m[i][UNKNOWNS_MAX];
        for (int j = i + 1; j < n; j++)
            x[i] -= m[i][j] * x[j];
        x[i] /= m[i][i];
    }
    return true;
}

/* Finds the solution of least cost over all sets of unknowns that are not zero: 15 sets for 4
 * unknowns.
 */
static bool solve(const struct problem *p, const double *weights_from, double *out)
{
    double least = INFINITY, m[UNKNOWNS_MAX][UNKNOWNS_MAX + 1], x[UNKNOWNS_MAX];

    for (unsigned set = (1u << p->unknowns) - 1; set; set--) {
        bool is_legal;
        double cost;

        normal_equations(p, weights_from, set, m);
        if (!eliminate(m, p->unknowns, x)) {
            if (set == (1u << p->unknowns) - 1)
                return false; /* not all unknowns are determined */
            continue;
        }
        is_legal = true;
        for (int i = 0; i < p->unknowns; i++)
            is_legal = is_legal && x[i] >= 0;
        if (!is_legal)
            continue;
        cost = weighted_cost(p, weights_from, x);
        if (cost < least) {
            least = cost;
            memcpy(out, x, sizeof(x));
        }
    }
    return isfinite(least);
}

bool least_deviations(const struct equation *equations, size_t count, int unknowns, double *x)
{
    struct problem p = { .rows = equations, .count = count, .unknowns = unknowns };
    double solution[UNKNOWNS_MAX] = { 0 }, next_solution[UNKNOWNS_MAX] = { 0 };

    for (int i = 0; i < unknowns; i++) {
        double sum = 0;

        for (size_t row = 0; row < count; row++)
            sum += equations[row].part[i] * equations[row].part[i];
        p.scale[i] = sqrt(sum);
        if (!(p.scale[i] > 0 && isfinite(p.scale[i])))
            return false;
    }
    if (!count)
        return false;
    for (int i = 0; i < ITERATIONS; i++) { /* begins at x = 0, where all weights are equal */
        if (!solve(&p, solution, next_solution))
            return false;
        memcpy(solution, next_solution, sizeof(solution));
    }
    for (int i = 0; i < unknowns; i++)
        x[i] = solution[i] / p.scale[i];
    return true;
}

/* ---- a link: up to some message size the cost of issuing decides, above it the bandwidth.  Each
 * size is tried as that limit; the fit with the least error wins. */

static const struct link_fit no_link = { NAN, NAN, NAN, NAN, NAN };

double link_ns(const struct link_fit *fit, int messages, double bytes)
{
    double port_ns = (bytes + fit->half_kib * 1024) / fit->bandwidth_gbs;

    return fit->latency_us * 1e3 + messages * fmax(fit->message_us * 1e3, port_ns);
}

/* Finds the next larger message size among the samples; INFINITY: there is none. */
static double next_larger_size(const struct link_sample *samples, size_t count, double bytes)
{
    double next = INFINITY;

    for (size_t i = 0; i < count; i++)
        if (samples[i].bytes > bytes)
            next = fmin(next, samples[i].bytes);
    return next;
}

/* Where times of a link are not on a line, large messages decide: they are few, but steps wait for
 * them, and a link may let a short burst through faster than it can go on. */
static double sample_weight(const struct link_sample *s)
{
    return sqrt(s->ns);
}

/* Fits a link where a message of up to `issued` bytes takes the time to issue it, and a larger one
 * the time that the port needs.  False: not determined. */
static bool fit_issued_up_to(const struct link_sample *samples, size_t count, double issued,
                             struct link_fit *out)
{
    struct equation rows[SAMPLES_MAX];
    double costs[UNKNOWNS_MAX]; /* ns, ns per message issued, ns per message at the port, ns per
                                   byte */

    for (size_t i = 0; i < count; i++) {
        const struct link_sample *s = &samples[i];
        double messages_per_ns = s->messages / s->ns;

        rows[i] = (struct equation){ { 1 / s->ns, messages_per_ns, 0, 0 }, sample_weight(s) };
        if (s->bytes > issued)
            rows[i] = (struct equation){
                { 1 / s->ns, 0, messages_per_ns, s->messages * s->bytes / s->ns }, sample_weight(s)
            };
    }
    if (!least_deviations(rows, count, 4, costs) || !(costs[3] > 0))
        return false;
    *out = (struct link_fit){ .latency_us = costs[0] * 1e-3,
                              .message_us = costs[1] * 1e-3,
                              .bandwidth_gbs = 1 / costs[3],
                              .half_kib = costs[2] / costs[3] / 1024 };
    return true;
}

static double total_error(const struct link_fit *fit, const struct link_sample *samples,
                          size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++) {
        const struct link_sample *sample = &samples[i];

        sum += sample_weight(sample) *
               fabs(log(link_ns(fit, sample->messages, sample->bytes) / sample->ns));
    }
    return sum;
}

struct link_fit link_fit(const struct link_sample *samples, size_t count)
{
    struct link_sample times[SAMPLES_MAX];
    struct link_fit best = no_link, fit;
    double least_error = INFINITY, errors[SAMPLES_MAX];
    size_t usable = 0;

    for (size_t i = 0; i < count && usable < SAMPLES_MAX; i++) {
        const struct link_sample *sample = &samples[i];

        if (sample->messages > 0 && sample->bytes > 0 && isfinite(sample->bytes) &&
            sample->ns > 0 && isfinite(sample->ns))
            times[usable++] = *sample;
    }

    /* The smallest messages always count as issued.  If the port's cost of a message were larger,
     * times could not tell the two costs apart. */
    for (double issued = next_larger_size(times, usable, 0);
         isfinite(next_larger_size(times, usable, next_larger_size(times, usable, issued)));
         issued = next_larger_size(times, usable, issued)) {
        double error;

        if (!fit_issued_up_to(times, usable, issued, &fit))
            continue;
        error = total_error(&fit, times, usable);
        if (error < least_error) {
            least_error = error;
            best = fit;
        }
    }
    if (!isfinite(least_error))
        return best;
    for (size_t i = 0; i < usable; i++)
        errors[i] = fabs(link_ns(&best, times[i].messages, times[i].bytes) / times[i].ns - 1);
    best.error = median_of(errors, usable);
    return best;
}

/* ---- a device by straight lines through times, and its noise by medians of logarithms */

/* A product whose time is this close to the time of its bytes may wait for memory. */
static const double near_floor_ratio = 1.3;

struct product_fit product_fit(const struct product_sample *samples, size_t count)
{
    struct equation rows[SAMPLES_MAX];
    double costs[UNKNOWNS_MAX]; /* ns per operation, and ns per operation times half_rows */
    size_t usable = 0;

    for (size_t i = 0; i < count && usable < SAMPLES_MAX; i++) {
        const struct product_sample *sample = &samples[i];

        if (sample->smallest > 0 && sample->ops > 0 && sample->ns > 0 &&
            isfinite(sample->smallest) && isfinite(sample->ops) && isfinite(sample->ns) &&
            !(sample->ns < near_floor_ratio * sample->floor_ns))
            rows[usable++] =
                (struct equation){ { sample->ops / sample->ns,
                                     sample->ops / sample->smallest / sample->ns, 0, 0 },
                                   sqrt(sample->ns) };
    }
    if (!least_deviations(rows, usable, 2, costs) || !(costs[0] > 0))
        return (struct product_fit){ NAN, NAN };
    return (struct product_fit){ 1 / costs[0], costs[1] / costs[0] };
}

double product_fit_ns(const struct product_fit *fit, const struct product_sample *s)
{
    double ns = s->ops / fit->gflops * (s->smallest + fit->half_rows) / s->smallest;

    return fmax(ns, s->floor_ns);
}

double own_product_ns(const struct own_sample *samples, size_t count, double quota_share)
{
    int64_t ran[OWN_SAMPLES];
    double pace = INFINITY;

    for (size_t i = 0; i < count; i++) {
        ran[i] = samples[i].ran_ns;
        pace = fmin(pace, (double)samples[i].ns / (double)ran[i]);
    }
    /* A product longer than the quota's time of a period has pauses in any case. */
    if (quota_share < 1)
        pace = fmax(isfinite(pace) ? pace : 1, 1 / quota_share);
    return count ? (double)spread_of(ran, count).median_ns * pace : NAN;
}

double overlap_fit(double comm_ns, double compute_ns, double both_ns)
{
    double lost;

    if (!(comm_ns > 0 && compute_ns > 0 && both_ns > 0))
        return NAN;
    /* While communication runs, compute advances at 1 / (1 + slow-down) of its speed. */
    lost = (both_ns - compute_ns) / comm_ns;
    if (both_ns <= fmax(comm_ns, compute_ns))
        return 0;
    return lost < 1 ? fmin(lost / (1 - lost), OVERLAP_MOST) : OVERLAP_MOST;
}

/* Estimates the standard deviation from differences within rounds: of a normal distribution, half
 * of all pairs differ by less than 0.954 deviations. */
static double deviation_of_pairs(const double *logs, size_t rounds, size_t per_round)
{
    size_t pairs = rounds * per_round * (per_round - 1) / 2, found = 0;
    double *distances = malloc(pairs * sizeof(*distances)), median;

    if (!distances)
        return NAN;
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < per_round; i++)
            for (size_t j = 0; j < i; j++)
                distances[found++] =
                    fabs(logs[round * per_round + i] - logs[round * per_round + j]);
    median = median_of(distances, found);
    free(distances);
    return median / 0.9538726;
}

/* Is a step, in logarithms, more than halfway to three times the median, and beyond ordinary noise?
 */
static bool is_outlier(double log_ratio, double sigma)
{
    return log_ratio > fmax(log(3) / 2, 4 * sigma);
}

/* The mean of a round's logarithms without outliers; `middle` if all are outliers. */
static double round_mean(const double *logs, size_t count, double middle, double sigma)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        if (!is_outlier(logs[i] - middle, sigma)) {
            sum += logs[i];
            n++;
        }
    return n ? sum / (double)n : middle;
}

static double percent(double share)
{
    return share < NOISE_MOST / 100.0 ? 100 * share : NOISE_MOST;
}

/* `logs` has room for twice its values, and for one more per round. */
static struct noise_fit fit_logs(double *logs, size_t rounds, size_t per_round)
{
    size_t count = rounds * per_round, outliers = 0;
    double *copy = logs + count, *means = copy + count, middle, sigma, spread, variance_of_mean;

    memcpy(copy, logs, count * sizeof(*copy));
    middle = median_of(copy, count);
    sigma = deviation_of_pairs(logs, rounds, per_round);
    if (isnan(sigma))
        return (struct noise_fit){ NAN, NAN, NAN };
    for (size_t i = 0; i < count; i++)
        outliers += is_outlier(logs[i] - middle, sigma);
    /* Drift is how much rounds differ, beyond how much means of `per_round` steps differ anyway. */
    for (size_t i = 0; i < rounds; i++)
        means[i] = copy[i] = round_mean(logs + i * per_round, per_round, middle, sigma);
    middle = median_of(copy, rounds);
    for (size_t i = 0; i < rounds; i++)
        means[i] = fabs(means[i] - middle);
    spread = median_of(means, rounds) / 0.6744898;
    variance_of_mean = sigma * sigma / (double)per_round;
    return (struct noise_fit){
        .noise = percent(sigma),
        .outliers = percent((double)outliers / (double)count),
        .drift = percent(sqrt(fmax(0, spread * spread - variance_of_mean))),
    };
}

struct noise_fit noise_fit(const int64_t *ns, size_t rounds, size_t per_round)
{
    struct noise_fit fit = { NAN, NAN, NAN };
    size_t count = rounds * per_round;
    double *logs = NULL;
    bool is_usable = rounds >= 3 && per_round >= 2;

    for (size_t i = 0; i < count && is_usable; i++)
        is_usable = ns[i] > 0;
    if (is_usable)
        logs = malloc((2 * count + rounds) * sizeof(*logs));
    for (size_t i = 0; i < count && logs; i++)
        logs[i] = log((double)ns[i]);
    if (logs)
        fit = fit_logs(logs, rounds, per_round);
    free(logs);
    return fit;
}
