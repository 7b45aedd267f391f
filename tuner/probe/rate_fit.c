/* Fits the rates of a device by straight lines through times, and its noise by medians of
 * logarithms. */
#include "rate_fit.h"

#include "least_squares.h"
#include "stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { SAMPLES_MAX = 64 };

/* A product this close to what its bytes take may be waiting for them. */
static const double near_floor = 1.3;

static bool tells(const struct product_sample *s)
{
    return s->smallest > 0 && s->ops > 0 && s->ns > 0 && isfinite(s->smallest) &&
           isfinite(s->ops) && isfinite(s->ns) && !(s->ns < near_floor * s->floor_ns);
}

struct product_fit product_fit(const struct product_sample *samples, size_t count)
{
    struct equation rows[SAMPLES_MAX];
    double x[UNKNOWNS_MAX]; /* ns per operation, and that times half_rows */
    size_t n = 0;

    for (size_t i = 0; i < count && n < SAMPLES_MAX; i++) {
        const struct product_sample *s = &samples[i];

        if (tells(s))
            rows[n++] = (struct equation){ { s->ops / s->ns, s->ops / s->smallest / s->ns, 0, 0 },
                                           sqrt(s->ns) };
    }
    if (!least_deviations(rows, n, 2, x) || !(x[0] > 0))
        return (struct product_fit){ NAN, NAN };
    return (struct product_fit){ 1 / x[0], x[1] / x[0] };
}

double product_fit_ns(const struct product_fit *fit, const struct product_sample *s)
{
    double ns = s->ops / fit->gflops * (s->smallest + fit->half_rows) / s->smallest;

    return fmax(ns, s->floor_ns);
}

double own_fit_ns(const struct own_sample *samples, size_t count, double quota_share)
{
    int64_t ran[OWN_SAMPLES];
    double pace = INFINITY;

    for (size_t i = 0; i < count; i++) {
        ran[i] = samples[i].ran_ns;
        pace = fmin(pace, (double)samples[i].ns / (double)ran[i]);
    }
    /* A product longer than what the quota gives at a time has pauses in any case. */
    if (quota_share < 1)
        pace = fmax(isfinite(pace) ? pace : 1, 1 / quota_share);
    return count ? (double)spread_of(ran, count).median_ns * pace : NAN;
}

double overlap_fit(double comm_ns, double compute_ns, double both_ns)
{
    double lost;

    if (!(comm_ns > 0 && compute_ns > 0 && both_ns > 0))
        return NAN;
    /* While communication runs, 1 / (1 + slow-down) of the compute gets done. */
    lost = (both_ns - compute_ns) / comm_ns;
    if (both_ns <= fmax(comm_ns, compute_ns))
        return 0;
    return lost < 1 ? fmin(lost / (1 - lost), OVERLAP_MOST) : OVERLAP_MOST;
}

/* The deviation of a normal distribution whose values differ so: half of all pairs differ by less
 * than 0.954 deviations. */
static double deviation_of_pairs(const double *logs, size_t rounds, size_t per_round)
{
    size_t pairs = rounds * per_round * (per_round - 1) / 2, n = 0;
    double *apart = malloc(pairs * sizeof(*apart)), median;

    if (!apart)
        return NAN;
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < per_round; i++)
            for (size_t j = 0; j < i; j++)
                apart[n++] = fabs(logs[round * per_round + i] - logs[round * per_round + j]);
    median = median_of(apart, n);
    free(apart);
    return median / 0.9538726;
}

/* Halfway, in logarithms, to three times the median: unless that is ordinary noise. */
static bool is_outlier(double log_ratio, double sigma)
{
    return log_ratio > fmax(log(3) / 2, 4 * sigma);
}

static double share_of_outliers(const double *logs, size_t count, double middle, double sigma)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        n += is_outlier(logs[i] - middle, sigma);
    return (double)n / (double)count;
}

/* The mean of a round's logarithms without outliers; the middle if nothing is left. */
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

/* What rounds differ by beyond what a mean of `per_round` steps does anyway. */
static double slow_part(double *means, size_t rounds, double middle, double sigma, size_t per_round)
{
    double spread;

    for (size_t i = 0; i < rounds; i++)
        means[i] = fabs(means[i] - middle);
    spread = median_of(means, rounds) / 0.6744898;
    return sqrt(fmax(0, spread * spread - sigma * sigma / (double)per_round));
}

static double percent(double share)
{
    return share < NOISE_MOST / 100.0 ? 100 * share : NOISE_MOST;
}

static struct noise_fit fit_logs(double *logs, size_t rounds, size_t per_round)
{
    size_t count = rounds * per_round;
    double *copy = logs + count, *means = copy + count, middle, sigma;
    struct noise_fit fit;

    for (size_t i = 0; i < count; i++)
        copy[i] = logs[i];
    middle = median_of(copy, count);
    sigma = deviation_of_pairs(logs, rounds, per_round);
    if (isnan(sigma))
        return (struct noise_fit){ NAN, NAN, NAN };
    for (size_t i = 0; i < rounds; i++)
        means[i] = copy[i] = round_mean(logs + i * per_round, per_round, middle, sigma);
    fit = (struct noise_fit){
        .noise = percent(sigma),
        .outliers = percent(share_of_outliers(logs, count, middle, sigma)),
        .drift = percent(slow_part(means, rounds, median_of(copy, rounds), sigma, per_round)),
    };
    return fit;
}

struct noise_fit noise_fit(const int64_t *ns, size_t rounds, size_t per_round)
{
    struct noise_fit fit = { NAN, NAN, NAN };
    size_t count = rounds * per_round;
    double *logs = NULL;
    bool all = rounds >= 3 && per_round >= 2;

    for (size_t i = 0; i < count && all; i++)
        all = ns[i] > 0;
    if (all)
        logs = malloc((2 * count + rounds) * sizeof(*logs));
    for (size_t i = 0; i < count && logs; i++)
        logs[i] = log((double)ns[i]);
    if (logs)
        fit = fit_logs(logs, rounds, per_round);
    free(logs);
    return fit;
}
