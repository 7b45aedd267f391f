/* Detects entries that have become slower: adds up how far steps lie above the recorded time, and
 * raises an alarm at a limit that follows from the noise. */
#include "drift.h"

#include "stats.h"

#include <math.h>
#include <string.h>

static const double allowance = 0.03, uses_per_alarm = 1e5;
static const double scale_before = 0.05, scale_least = 0.01;
static const double clip_deviations = 2; /* standard deviations */
enum { USES_MIN = 16, RESCALE_EVERY = 8, USES_TRUSTED = 32, LIMIT_MIN = 8 /* deviations */ };

/* Siegmund's approximation: a sum whose steps have mean -k and deviation 1 reaches h after
 * (exp(2kb) - 2kb - 1) / 2k^2 steps on average, where b = h + 1.166.  The loop solves this for b.
 */
static double limit_at(double scale)
{
    double k = allowance / scale, b = 10 / k;

    for (int i = 0; i < 20; i++)
        b = log(2 * k * k * uses_per_alarm + 2 * k * b + 1) / (2 * k);
    return fmax(b - 1.166, LIMIT_MIN) * scale;
}

/* The median of the last `count` uses. */
static double median_of_recent(const struct drift *d, size_t count)
{
    double values[DRIFT_WINDOW];

    for (size_t i = 0; i < count; i++)
        values[i] = d->recent[(d->uses - 1 - i) % DRIFT_WINDOW];
    return median_of(values, count);
}

static void rescale(struct drift *d)
{
    double values[DRIFT_WINDOW], middle;
    size_t n = d->uses < DRIFT_WINDOW ? (size_t)d->uses : DRIFT_WINDOW;

    middle = median_of_recent(d, n);
    for (size_t i = 0; i < n; i++)
        values[i] = fabs(d->recent[i] - middle);
    d->scale = fmax(1.4826 * median_of(values, n), scale_least);
    d->limit = limit_at(d->scale);
}

/* Few samples leave a wide interval, which the first uses narrow.  They never widen it: a
 * plan that is slow from the start must not count as normal. */
static void narrow_reference(struct drift *d)
{
    double lower = median_of_recent(d, USES_TRUSTED) + 2.5 * 1.2533 * d->scale / sqrt(USES_TRUSTED);

    lower = fmax(lower, d->least - d->reference);
    if (lower >= 0)
        return;
    d->reference += lower;
    for (size_t i = 0; i < USES_TRUSTED; i++)
        d->recent[i] -= (float)lower;
    d->sum = 0;
}

static double median_above(const struct drift *d)
{
    return median_of_recent(d, d->above < DRIFT_WINDOW ? (size_t)d->above : DRIFT_WINDOW);
}

double drift_level_ns(const struct drift *drift)
{
    return exp(drift->reference + median_above(drift));
}

double drift_reference_ns(const struct drift *drift)
{
    return exp(drift->reference);
}

void drift_open(struct drift *drift, double recorded_ns, double high_ns, bool firm)
{
    memset(drift, 0, sizeof(*drift));
    drift->least = log(fmin(recorded_ns, high_ns));
    drift->reference = log(high_ns);
    drift->firm = firm;
    drift->scale = scale_before;
    drift->limit = limit_at(scale_before);
}

bool drift_tell(struct drift *d, double ns)
{
    double above = log(ns) - d->reference, step = above - allowance, most;

    d->recent[d->uses++ % DRIFT_WINDOW] = (float)above;
    if (d->uses >= USES_MIN && d->uses % RESCALE_EVERY == 0)
        rescale(d);
    if (d->uses == USES_TRUSTED && !d->firm)
        narrow_reference(d);
    most = clip_deviations * d->scale;
    d->above = d->sum > 0 ? d->above + 1 : 1;
    d->sum = fmax(0, d->sum + fmax(-most, fmin(most, step)));
    if (d->uses < USES_MIN || d->sum < d->limit)
        return false;
    d->sum = 0;
    return median_above(d) > 0;
}
