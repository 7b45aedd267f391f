/* Remembers samples for `guided`: averages them without outliers, finds jumps of the shared noise,
 * and drops the least useful bucket when the memory is full. */
#include "history.h"

#include "stats.h"

#include <math.h>
#include <string.h>

/* A sample farther than so many standard deviations from its arm's centre is an outlier.  One that
 * is nearer than outlier_least never is, and one that is farther than outlier_most always is.  (A
 * step that takes 3 times as long lies 1.1 away.) */
static const double outlier_deviations = 4, outlier_least = 0.4, outlier_most = 0.9;
/* The deviation of a bucket's offset.  It is larger in the present bucket, which one burst may
 * span. */
static const double offset_sd = 0.08, present_offset_sd = 0.25;
/* The prior of the noise: 5 %, which counts like this many samples. */
static const double prior_sd = 0.05, prior_freedom = 3;

void history_reset(struct history *history, size_t arm_count)
{
    memset(history, 0, sizeof(*history));
    history->arm_count = arm_count;
}

/* ---- jumps of the shared noise */

/* A jump is a common shift by at least so many standard deviations and at least so much. */
static const double change_deviations = 3.7, change_least = 0.08;
/* A step counts at most so many deviations above its prediction, because it may be an outlier.
 * There are no fast outliers. */
static const double step_deviations = 3;
enum { LOOK_BACK = 12 };

/* The weighted mean of how far steps lie above their predictions. */
struct shift {
    double weights, sum;
};

/* The size of a shift in standard deviations; 0: the shift is too small to matter. */
static double deviations_of(const struct shift *s)
{
    return fabs(s->sum) > change_least * s->weights ? fabs(s->sum) / sqrt(s->weights) : 0;
}

static void add_step(struct shift *shift, const struct surprise *s)
{
    shift->weights += 1 / s->variance;
    shift->sum += fmin(s->above, step_deviations * sqrt(s->variance)) / s->variance;
}

/* Only plans that had samples before can show a jump, because the model may be wrong about others.
 * When it happened, all plans show together. */
int find_change_point(const struct surprise *steps, size_t count)
{
    struct shift sampled_before = { 0, 0 }, all = { 0, 0 };
    double largest = 0;
    bool is_shown = false;
    int change = -1;

    for (size_t k = 1; k <= count && k <= LOOK_BACK; k++) {
        const struct surprise *s = &steps[count - k];

        if (!s->first)
            add_step(&sampled_before, s);
        add_step(&all, s);
        is_shown |=
            sampled_before.weights > 0 && deviations_of(&sampled_before) > change_deviations;
        if (is_shown && deviations_of(&all) > largest) {
            largest = deviations_of(&all);
            change = (int)(count - k);
        }
    }
    return change;
}

/* ---- the present bucket */

static void clear_present(struct history *h, double log_c)
{
    h->log_c = log_c;
    h->sample_count = 0;
    h->stretch = 0;
    memset(h->present, 0, sizeof(h->present));
    for (size_t i = 0; i < h->arm_count; i++)
        h->present[i].arm = (int)i;
}

static double without_shared_noise(const struct sample *s)
{
    return s->log_ns - s->reading.shared_noise;
}

/* The centre of an arm's samples.  Of up to three samples it is the fastest: nothing makes a step
 * faster, and two outliers among three do occur.  Of more samples it is the lower median. */
static double centre_of_arm(const struct history *h, int arm)
{
    double values[HISTORY_SAMPLES_MAX];
    size_t n = 0;

    for (size_t i = 0; i < h->sample_count; i++)
        if (h->samples[i].arm == arm)
            values[n++] = without_shared_noise(&h->samples[i]);
    if (isnan(median_of(values, n))) /* it sorts them */
        return NAN;
    return values[n < 4 ? 0 : (n - 1) / 2];
}

/* Averages an arm's samples near its centre.  The limit grows with the noise: a fixed limit would
 * cut off the slower half of noisy samples, and the noise would look small. */
static void average_arm(struct history *h, int arm)
{
    double centre = centre_of_arm(h, arm), sum = 0, kept = 0;
    double limit =
        fmax(outlier_least, fmin(outlier_most, outlier_deviations * sqrt(history_noise(h))));

    h->present[arm].weight = 0;
    if (isnan(centre))
        return;
    for (size_t i = 0; i < h->sample_count; i++) {
        struct sample *s = &h->samples[i];

        if (s->arm != arm)
            continue;
        s->outlier = fabs(without_shared_noise(s) - centre) > limit;
        kept += !s->outlier;
        sum += s->outlier ? 0 : without_shared_noise(s);
    }
    h->present[arm] = (struct record){ .arm = arm, .log_ns = sum / kept, .weight = kept };
}

/* Looks for a jump among the samples of the last stretch.  Samples after the jump form a new
 * stretch, because the shared noise before it says nothing about the one after it. */
static void note_change_point(struct history *h)
{
    struct surprise steps[16];
    size_t first = h->sample_count, n = 0, steps_max = sizeof(steps) / sizeof(steps[0]);
    int change;

    while (first && h->sample_count - first < steps_max &&
           h->samples[first - 1].when.stretch == h->stretch)
        first--;
    for (size_t i = first; i < h->sample_count; i++)
        steps[n++] = h->samples[i].surprise;
    change = find_change_point(steps, n);
    if (change < 0 || first + (size_t)change == 0)
        return;
    h->stretch++;
    for (size_t i = first + (size_t)change; i < h->sample_count; i++) {
        h->samples[i].when.stretch = h->stretch;
        h->samples[i].surprise.above = 0;
    }
}

struct moment history_now(const struct history *history)
{
    return (struct moment){ (int)history->sample_count, history->stretch };
}

void history_add(struct history *history, int arm, double log_ns, struct normal expected)
{
    size_t index = history->sample_count;

    if (index == HISTORY_SAMPLES_MAX)
        return;
    history->samples[index] =
        (struct sample){ .arm = arm,
                         .log_ns = log_ns,
                         .reading.shared_noise =
                             index ? history->samples[index - 1].reading.shared_noise : 0,
                         .when = history_now(history),
                         .surprise = { log_ns - expected.mean, expected.sd * expected.sd,
                                       !(history->present[arm].weight > 0) } };
    history->sample_count++;
    if (index)
        note_change_point(history);
    average_arm(history, arm);
}

/* A NAN is replaced; otherwise the noise of all later buckets would become NAN, too. */
void history_read(struct history *history, const struct belief_reading *readings)
{
    size_t n = 0;

    for (size_t i = 0; i < history->sample_count && n < BELIEF_SAMPLES_MAX; i++) {
        double shared_noise = i ? history->samples[i - 1].reading.shared_noise : 0;
        struct belief_reading r = { .shared_noise = shared_noise };

        if (!history->samples[i].outlier)
            r = readings[n++];
        if (!isfinite(r.shared_noise) || !isfinite(r.noise) || !isfinite(r.freedom))
            r = (struct belief_reading){ .shared_noise = shared_noise };
        history->samples[i].reading = r;
    }
    for (size_t i = 0; i < history->arm_count; i++)
        if (history->present[i].weight > 0)
            average_arm(history, (int)i);
}

void history_forget(struct history *history, int arm)
{
    size_t kept = 0;

    for (size_t i = 0; i < history->sample_count; i++)
        if (history->samples[i].arm != arm)
            history->samples[kept++] = history->samples[i];
    history->sample_count = kept;
    history->present[arm].weight = 0;
}

/* The noise of earlier buckets counts like this many samples of the present one, because noise
 * differs somewhat between buckets. */
static const double before_freedom = 10;

static void add_noise(const struct history *h, double *squares, double *freedom)
{
    for (size_t i = 0; i < h->sample_count; i++) {
        *squares += h->samples[i].reading.noise * h->samples[i].reading.noise;
        *freedom += h->samples[i].reading.freedom;
    }
}

double history_noise(const struct history *history)
{
    double squares = prior_freedom * prior_sd * prior_sd + history->squares;
    double before = squares / (prior_freedom + history->freedom), here = 0, freedom = 0;

    add_noise(history, &here, &freedom);
    return (before_freedom * before + here) / (before_freedom + freedom);
}

/* About twice the excess of Student's 99 % quantile over the normal one, because the first samples
 * are few and were chosen by the search. */
double history_doubt(const struct history *history)
{
    double squares = 0, freedom = prior_freedom + history->freedom;

    add_noise(history, &squares, &freedom);
    return 1 + 4 / freedom;
}

/* ---- past buckets */

static void remove_bucket(struct history *h, size_t which)
{
    struct past_bucket removed = h->past[which];

    memmove(h->records + removed.first, h->records + removed.first + removed.count,
            (h->record_count - removed.first - removed.count) * sizeof(*h->records));
    h->record_count -= removed.count;
    memmove(h->past + which, h->past + which + 1, (h->past_count - which - 1) * sizeof(*h->past));
    h->past_count--;
    for (size_t i = which; i < h->past_count; i++)
        h->past[i].first -= removed.count;
}

/* The past bucket whose two neighbours are nearest, so that they can replace it; of equals the
 * oldest. */
static size_t most_crowded(const struct history *h)
{
    double nearest = INFINITY;
    size_t which = 0;

    for (size_t i = 0; i < h->past_count; i++) {
        double below = INFINITY, above = INFINITY;

        for (size_t j = 0; j < h->past_count; j++) {
            double distance = h->past[j].log_c - h->past[i].log_c;

            if (j != i && distance >= 0)
                above = fmin(above, distance);
            if (j != i && distance <= 0)
                below = fmin(below, -distance);
        }
        if (below + above < nearest) {
            nearest = below + above;
            which = i;
        }
    }
    return which;
}

void history_begin(struct history *history, double log_c)
{
    for (size_t i = history->past_count; i-- > 0;)
        if (!(fabs(history->past[i].log_c - log_c) > 0))
            remove_bucket(history, i);
    clear_present(history, log_c);
    history->groups++;
}

void history_end(struct history *history, bool screened)
{
    size_t count = 0;

    for (size_t i = 0; i < history->arm_count; i++)
        count += history->present[i].weight > 0;
    if (!count)
        return;
    while (history->past_count && (history->past_count == HISTORY_BUCKETS_MAX ||
                                   history->record_count + count > HISTORY_RECORDS_MAX))
        remove_bucket(history, most_crowded(history));
    history->past[history->past_count++] = (struct past_bucket){ .id = history->groups,
                                                                 .log_c = history->log_c,
                                                                 .screened = screened,
                                                                 .first = history->record_count,
                                                                 .count = count };
    for (size_t i = 0; i < history->arm_count; i++)
        if (history->present[i].weight > 0)
            history->records[history->record_count++] = history->present[i];
    add_noise(history, &history->squares, &history->freedom);
    clear_present(history, history->log_c);
}

/* ---- lists for the belief */

size_t history_samples(const struct history *history, int except, struct belief_sample *out)
{
    double variance = history_noise(history);
    size_t n = 0;

    for (size_t i = 0; i < history->sample_count && n < BELIEF_SAMPLES_MAX; i++) {
        const struct sample *s = &history->samples[i];

        if (!s->outlier && s->arm != except)
            out[n++] = (struct belief_sample){ s->arm, s->when, s->log_ns, variance };
    }
    return n;
}

/* Appends a bucket's means as observations, at most `room` of them.  Returns how many. */
static size_t observe(const struct past_bucket *past, const struct record *records, size_t count,
                      double variance, double offset, struct observation *out, size_t room)
{
    size_t n = 0;

    for (size_t i = 0; i < count && n < room; i++)
        if (records[i].weight > 0)
            out[n++] = (struct observation){ .arm = records[i].arm,
                                             .group = past->id,
                                             .log_c = past->log_c,
                                             .log_ns = records[i].log_ns,
                                             .variance = variance / records[i].weight,
                                             .offset_variance = offset * offset };
    return n;
}

/* The past bucket nearest to log_c that is not marked in `taken`; of equals the latest. */
static const struct past_bucket *nearest_bucket(const struct history *h, double log_c,
                                                const bool *taken)
{
    const struct past_bucket *best = NULL;

    for (size_t i = h->past_count; i-- > 0;)
        if (!taken[i] && (!best || fabs(h->past[i].log_c - log_c) < fabs(best->log_c - log_c)))
            best = &h->past[i];
    return best;
}

size_t history_observations(const struct history *history, enum history_part part, double log_c,
                            struct observation *out, size_t room)
{
    bool taken[HISTORY_BUCKETS_MAX] = { false };
    struct observation present_samples[SEARCH_ARMS_MAX];
    double variance = 1.25 * history_noise(history); /* the shared noise is an estimate */
    struct past_bucket present = { .id = history->groups, .log_c = history->log_c };
    size_t arms = part == HISTORY_ALL ? history->arm_count : 0, n = 0;
    size_t present_count = observe(&present, history->present, arms, variance, present_offset_sd,
                                   present_samples, room);

    while (n < room - present_count) {
        const struct past_bucket *past = nearest_bucket(history, log_c, taken);

        if (!past)
            break;
        taken[past - history->past] = true;
        n += observe(past, history->records + past->first, past->count, variance, offset_sd,
                     out + n, room - present_count - n);
    }
    memcpy(out + n, present_samples, present_count * sizeof(*present_samples));
    return n + present_count;
}

static const struct record *record_in(const struct history *h, const struct past_bucket *past,
                                      int arm)
{
    for (size_t i = 0; i < past->count; i++)
        if (h->records[past->first + i].arm == arm)
            return &h->records[past->first + i];
    return NULL;
}

struct contrast history_contrast(const struct history *history, int a, int b, double reach)
{
    double variance = history_noise(history), sum = 0, total = 0, samples = 0;

    for (size_t i = 0; i < history->past_count; i++) {
        const struct past_bucket *past = &history->past[i];
        const struct record *of_a, *of_b;
        double weight;

        if (fabs(past->log_c - history->log_c) >= reach)
            continue;
        of_a = record_in(history, past, a);
        of_b = record_in(history, past, b);
        if (!of_a || !of_b)
            continue;
        weight = 1 / (1 / of_a->weight + 1 / of_b->weight);
        sum += weight * (of_a->log_ns - of_b->log_ns);
        total += weight;
        samples += of_a->weight;
    }
    return (struct contrast){ .mean = total > 0 ? sum / total : 0,
                              .error = total > 0 ? sqrt(variance / total) : INFINITY,
                              .samples = samples };
}

bool history_screened_near(const struct history *history, double log_c, double reach)
{
    for (size_t i = 0; i < history->past_count; i++)
        if (history->past[i].screened && fabs(history->past[i].log_c - log_c) < reach)
            return true;
    return false;
}
