/* Fits a link: one linear fit for every message size up to which issuing might decide, of which the
 * one that explains most wins. */
#include "link_fit.h"

#include "least_squares.h"
#include "stats.h"

#include <math.h>
#include <stdbool.h>

enum { SAMPLES_MAX = 64 };

static const struct link_fit unknown = { NAN, NAN, NAN, NAN, NAN };

double link_ns(const struct link_fit *fit, int messages, double bytes)
{
    double port_ns = (bytes + fit->half_kib * 1024) / fit->bandwidth_gbs;

    return fit->latency_us * 1e3 + messages * fmax(fit->message_us * 1e3, port_ns);
}

static size_t keep_times(const struct link_sample *samples, size_t count, struct link_sample *out)
{
    size_t kept = 0;

    for (size_t i = 0; i < count && kept < SAMPLES_MAX; i++) {
        const struct link_sample *s = &samples[i];

        if (s->messages > 0 && s->bytes > 0 && isfinite(s->bytes) && s->ns > 0 && isfinite(s->ns))
            out[kept++] = *s;
    }
    return kept;
}

/* The next larger size among the samples; INFINITY if there is none. */
static double size_after(const struct link_sample *samples, size_t count, double bytes)
{
    double next = INFINITY;

    for (size_t i = 0; i < count; i++)
        if (samples[i].bytes > bytes)
            next = fmin(next, samples[i].bytes);
    return next;
}

/* Where a link is no line, large messages decide: there are few of them, but they are what steps
 * wait for, and a link may let a burst through faster than it can go on. */
static double weight(const struct link_sample *s)
{
    return sqrt(s->ns);
}

/* Up to `issued` bytes a message costs what issuing costs, above it what the port needs. */
static struct equation equation_of(const struct link_sample *s, double issued)
{
    double n = s->messages;

    if (s->bytes <= issued)
        return (struct equation){ { 1 / s->ns, n / s->ns, 0, 0 }, weight(s) };
    return (struct equation){ { 1 / s->ns, 0, n / s->ns, n * s->bytes / s->ns }, weight(s) };
}

static bool fit_above(const struct link_sample *samples, size_t count, double issued,
                      struct link_fit *out)
{
    struct equation rows[SAMPLES_MAX];
    double x[UNKNOWNS_MAX]; /* ns, ns per message issued, ns per message at the port, ns per byte */

    for (size_t i = 0; i < count; i++)
        rows[i] = equation_of(&samples[i], issued);
    if (!least_deviations(rows, count, 4, x) || !(x[3] > 0))
        return false;
    *out = (struct link_fit){ .latency_us = x[0] * 1e-3,
                              .message_us = x[1] * 1e-3,
                              .bandwidth_gbs = 1 / x[3],
                              .half_kib = x[2] / x[3] / 1024 };
    return true;
}

static double total_error(const struct link_fit *fit, const struct link_sample *samples,
                          size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++) {
        const struct link_sample *x = &samples[i];

        sum += weight(x) * fabs(log(link_ns(fit, x->messages, x->bytes) / x->ns));
    }
    return sum;
}

static double median_error(const struct link_fit *fit, const struct link_sample *samples,
                           size_t count)
{
    double errors[SAMPLES_MAX];

    for (size_t i = 0; i < count; i++)
        errors[i] = fabs(link_ns(fit, samples[i].messages, samples[i].bytes) / samples[i].ns - 1);
    return median_of(errors, count);
}

struct link_fit link_fit(const struct link_sample *samples, size_t count)
{
    struct link_sample times[SAMPLES_MAX];
    struct link_fit best = unknown, fit;
    size_t n = keep_times(samples, count, times);
    double least = INFINITY;

    /* The smallest messages always count as issued: where the port's cost of a message is the
     * larger one, the two cannot be told apart, and it is a thread of ours that pays. */
    for (double issued = size_after(times, n, 0);
         isfinite(size_after(times, n, size_after(times, n, issued)));
         issued = size_after(times, n, issued)) {
        double error;

        if (!fit_above(times, n, issued, &fit))
            continue;
        error = total_error(&fit, times, n);
        if (error < least) {
            least = error;
            best = fit;
        }
    }
    if (isfinite(least))
        best.error = median_error(&best, times, n);
    return best;
}
