/* Averages samples so that outliers do not count, finds turns of the mood among them, and keeps
 * what is most useful when there is too much. */
#include "history.h"

#include "stats.h"

#include <math.h>
#include <string.h>

/* A sample further than so many deviations of the noise from its arm's centre is an outlier, but
 * none that is nearer than the least, and each that is farther than the most; x3 is 1.1. */
static const double outlier_deviations = 4, outlier_least = 0.4, outlier_most = 0.9;
/* The deviation of what a visit's samples share; the present one may be a burst as a whole. */
static const double offset_sd = 0.08, offset_now_sd = 0.25;
/* What is believed of the noise before anything was repeated: 5 %, as from this many samples. */
static const double prior_sd = 0.05, prior_freedom = 3;

void history_reset(struct history *history, size_t arm_count)
{
    memset(history, 0, sizeof(*history));
    history->arm_count = arm_count;
}

/* ---- turns of the mood */

/* How many standard deviations a common shift is away from none; and how large it must be. */
static const double turn_deviations = 3.7, turn_least = 0.08;
/* One slow step is an outlier, and says no more than this; none is faster than it should be. */
static const double step_deviations = 3;
enum { LOOK_BACK = 12 };

/* How many deviations all steps since are off by, if they are off by the same; 0: by too little. */
struct shift {
    double weights, sum;
};

static double deviations_of(const struct shift *s)
{
    return fabs(s->sum) > turn_least * s->weights ? fabs(s->sum) / sqrt(s->weights) : 0;
}

static void add_step(struct shift *shift, const struct surprise *s)
{
    shift->weights += 1 / s->variance;
    shift->sum += fmin(s->above, step_deviations * sqrt(s->variance)) / s->variance;
}

/* That the mood has turned is shown only by plans that are known from before, because a model may
 * be wrong.  The other plans also tell when it turned. */
int mood_turn(const struct surprise *steps, size_t count)
{
    struct shift known = { 0, 0 }, all = { 0, 0 };
    double most = 0;
    bool shown = false;
    int turn = -1;

    for (size_t k = 1; k <= count && k <= LOOK_BACK; k++) {
        const struct surprise *s = &steps[count - k];

        if (!s->first)
            add_step(&known, s);
        add_step(&all, s);
        shown |= known.weights > 0 && deviations_of(&known) > turn_deviations;
        if (shown && deviations_of(&all) > most) {
            most = deviations_of(&all);
            turn = (int)(count - k);
        }
    }
    return turn;
}

/* ---- the present visit */

static void clear_present(struct history *h, double log_c)
{
    h->log_c = log_c;
    h->sample_count = 0;
    h->stretch = 0;
    memset(h->now, 0, sizeof(h->now));
    for (size_t i = 0; i < h->arm_count; i++)
        h->now[i].arm = (int)i;
}

static double calm(const struct sample *s)
{
    return s->log_ns - s->reading.mood;
}

/* Of few samples the fastest one is right: nothing makes a step faster than it is, and two outliers
 * of three are seen now and then.  Of more, the lower median. */
static double centre_of_arm(const struct history *h, int arm)
{
    double values[HISTORY_SAMPLES_MAX];
    size_t n = 0;

    for (size_t i = 0; i < h->sample_count; i++)
        if (h->samples[i].arm == arm)
            values[n++] = calm(&h->samples[i]);
    if (isnan(median_of(values, n))) /* it sorts them */
        return NAN;
    return values[n < 4 ? 0 : (n - 1) / 2];
}

/* The mean of what lies near the centre.  Were the limit the same under any noise, much noise would
 * lose its slower half, and so look like little. */
static void average(struct history *h, int arm)
{
    double centre = centre_of_arm(h, arm), sum = 0, kept = 0;
    double limit =
        fmax(outlier_least, fmin(outlier_most, outlier_deviations * sqrt(history_variance(h))));

    h->now[arm].weight = 0;
    if (isnan(centre))
        return;
    for (size_t i = 0; i < h->sample_count; i++) {
        struct sample *s = &h->samples[i];

        if (s->arm != arm)
            continue;
        s->outlier = fabs(calm(s) - centre) > limit;
        kept += !s->outlier;
        sum += s->outlier ? 0 : calm(s);
    }
    h->now[arm] = (struct record){ .arm = arm, .log_ns = sum / kept, .weight = kept };
}

/* Looks for a turn among the samples of the last stretch.  What is known of the mood before a turn
 * says nothing of that since. */
static void find_turn(struct history *h)
{
    struct surprise steps[16];
    size_t first = h->sample_count, n = 0, room = sizeof(steps) / sizeof(steps[0]);
    int turn;

    while (first && h->sample_count - first < room &&
           h->samples[first - 1].when.stretch == h->stretch)
        first--;
    for (size_t i = first; i < h->sample_count; i++)
        steps[n++] = h->samples[i].surprise;
    turn = mood_turn(steps, n);
    if (turn < 0 || first + (size_t)turn == 0)
        return;
    h->stretch++;
    for (size_t i = first + (size_t)turn; i < h->sample_count; i++) {
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
    size_t at = history->sample_count;

    if (at == HISTORY_SAMPLES_MAX)
        return;
    history->samples[at] =
        (struct sample){ .arm = arm,
                         .log_ns = log_ns,
                         .reading.mood = at ? history->samples[at - 1].reading.mood : 0,
                         .when = history_now(history),
                         .surprise = { log_ns - expected.mean, expected.sd * expected.sd,
                                       !(history->now[arm].weight > 0) } };
    history->sample_count++;
    if (at)
        find_turn(history);
    average(history, arm);
}

/* A reading that is no number is replaced: else the noise of all later visits would be none, too.
 */
void history_read(struct history *history, const struct belief_reading *readings)
{
    size_t n = 0;

    for (size_t i = 0; i < history->sample_count && n < BELIEF_TOLD_MAX; i++) {
        double mood = i ? history->samples[i - 1].reading.mood : 0;
        struct belief_reading r = { .mood = mood };

        if (!history->samples[i].outlier)
            r = readings[n++];
        if (!isfinite(r.mood) || !isfinite(r.noise) || !isfinite(r.freedom))
            r = (struct belief_reading){ .mood = mood };
        history->samples[i].reading = r;
    }
    for (size_t i = 0; i < history->arm_count; i++)
        if (history->now[i].weight > 0)
            average(history, (int)i);
}

void history_forget(struct history *history, int arm)
{
    size_t kept = 0;

    for (size_t i = 0; i < history->sample_count; i++)
        if (history->samples[i].arm != arm)
            history->samples[kept++] = history->samples[i];
    history->sample_count = kept;
    history->now[arm].weight = 0;
}

/* Noise differs from bucket to bucket, but not without end: what was seen before counts as this
 * many samples. */
static const double before_freedom = 10;

static void add_noise(const struct history *h, double *squares, double *freedom)
{
    for (size_t i = 0; i < h->sample_count; i++) {
        *squares += h->samples[i].reading.noise * h->samples[i].reading.noise;
        *freedom += h->samples[i].reading.freedom;
    }
}

double history_variance(const struct history *history)
{
    double squares = prior_freedom * prior_sd * prior_sd + history->squares;
    double before = squares / (prior_freedom + history->freedom), here = 0, freedom = 0;

    add_noise(history, &here, &freedom);
    return (before_freedom * before + here) / (before_freedom + freedom);
}

/* Student's 99 % over the normal distribution's, and as much again: the first samples are few and
 * chosen. */
double history_doubt(const struct history *history)
{
    double squares = 0, freedom = prior_freedom + history->freedom;

    add_noise(history, &squares, &freedom);
    return 1 + 4 / freedom;
}

/* ---- earlier visits */

static void remove_visit(struct history *h, size_t which)
{
    struct past_visit gone = h->visits[which];

    memmove(h->records + gone.first, h->records + gone.first + gone.count,
            (h->record_count - gone.first - gone.count) * sizeof(*h->records));
    h->record_count -= gone.count;
    memmove(h->visits + which, h->visits + which + 1,
            (h->visit_count - which - 1) * sizeof(*h->visits));
    h->visit_count--;
    for (size_t i = which; i < h->visit_count; i++)
        h->visits[i].first -= gone.count;
}

/* The visit that others can replace best, being nearest to them; the oldest of equals. */
static size_t most_crowded(const struct history *h)
{
    double nearest = INFINITY;
    size_t which = 0;

    for (size_t i = 0; i < h->visit_count; i++) {
        double below = INFINITY, above = INFINITY;

        for (size_t j = 0; j < h->visit_count; j++) {
            double away = h->visits[j].log_c - h->visits[i].log_c;

            if (j != i && away >= 0)
                above = fmin(above, away);
            if (j != i && away <= 0)
                below = fmin(below, -away);
        }
        if (below + above < nearest) {
            nearest = below + above;
            which = i;
        }
    }
    return which;
}

/* A new visit replaces what was known of the same capacity. */
void history_begin(struct history *history, double log_c)
{
    for (size_t i = history->visit_count; i-- > 0;)
        if (!(fabs(history->visits[i].log_c - log_c) > 0))
            remove_visit(history, i);
    clear_present(history, log_c);
    history->visits_ever++;
}

void history_end(struct history *history, bool screened)
{
    size_t count = 0;

    for (size_t i = 0; i < history->arm_count; i++)
        count += history->now[i].weight > 0;
    if (!count)
        return;
    while (history->visit_count && (history->visit_count == HISTORY_VISITS_MAX ||
                                    history->record_count + count > HISTORY_RECORDS_MAX))
        remove_visit(history, most_crowded(history));
    history->visits[history->visit_count++] = (struct past_visit){ .id = history->visits_ever,
                                                                   .log_c = history->log_c,
                                                                   .screened = screened,
                                                                   .first = history->record_count,
                                                                   .count = count };
    for (size_t i = 0; i < history->arm_count; i++)
        if (history->now[i].weight > 0)
            history->records[history->record_count++] = history->now[i];
    add_noise(history, &history->squares, &history->freedom);
    clear_present(history, history->log_c);
}

/* ---- what is known */

size_t history_told(const struct history *history, int except, struct belief_sample *out)
{
    double variance = history_variance(history);
    size_t n = 0;

    for (size_t i = 0; i < history->sample_count && n < BELIEF_TOLD_MAX; i++) {
        const struct sample *s = &history->samples[i];

        if (!s->outlier && s->arm != except)
            out[n++] = (struct belief_sample){ s->arm, s->when, s->log_ns, variance };
    }
    return n;
}

/* A visit's averages as observations, at most `room` of them. */
static size_t observe(const struct past_visit *visit, const struct record *records, size_t count,
                      double variance, double offset, struct observation *out, size_t room)
{
    size_t n = 0;

    for (size_t i = 0; i < count && n < room; i++)
        if (records[i].weight > 0)
            out[n++] = (struct observation){ .arm = records[i].arm,
                                             .visit = visit->id,
                                             .log_c = visit->log_c,
                                             .log_ns = records[i].log_ns,
                                             .variance = variance / records[i].weight,
                                             .offset_variance = offset * offset };
    return n;
}

/* The visit nearest to log_c among those not yet taken; of equals the latest. */
static const struct past_visit *nearest_visit(const struct history *h, double log_c,
                                              const bool *taken)
{
    const struct past_visit *best = NULL;

    for (size_t i = h->visit_count; i-- > 0;)
        if (!taken[i] && (!best || fabs(h->visits[i].log_c - log_c) < fabs(best->log_c - log_c)))
            best = &h->visits[i];
    return best;
}

size_t history_observations(const struct history *history, enum history_part part, double log_c,
                            struct observation *out, size_t room)
{
    bool taken[HISTORY_VISITS_MAX] = { false };
    struct observation told[SEARCH_ARMS_MAX];
    double variance = 1.25 * history_variance(history); /* the mood was not known exactly */
    struct past_visit now = { history->visits_ever, history->log_c };
    size_t present = part == HISTORY_ALL ? history->arm_count : 0, n = 0;
    size_t n_told = observe(&now, history->now, present, variance, offset_now_sd, told, room);

    while (n < room - n_told) {
        const struct past_visit *visit = nearest_visit(history, log_c, taken);

        if (!visit)
            break;
        taken[visit - history->visits] = true;
        n += observe(visit, history->records + visit->first, visit->count, variance, offset_sd,
                     out + n, room - n_told - n);
    }
    memcpy(out + n, told, n_told * sizeof(*told));
    return n + n_told;
}

static const struct record *record_in(const struct history *h, const struct past_visit *visit,
                                      int arm)
{
    for (size_t i = 0; i < visit->count; i++)
        if (h->records[visit->first + i].arm == arm)
            return &h->records[visit->first + i];
    return NULL;
}

struct contrast history_contrast(const struct history *history, int a, int b, double reach)
{
    double variance = history_variance(history), sum = 0, total = 0, samples = 0;

    for (size_t i = 0; i < history->visit_count; i++) {
        const struct past_visit *visit = &history->visits[i];
        const struct record *of_a, *of_b;
        double weight;

        if (fabs(visit->log_c - history->log_c) >= reach)
            continue;
        of_a = record_in(history, visit, a);
        of_b = record_in(history, visit, b);
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
    for (size_t i = 0; i < history->visit_count; i++)
        if (history->visits[i].screened && fabs(history->visits[i].log_c - log_c) < reach)
            return true;
    return false;
}
