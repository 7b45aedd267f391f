/* Robust averages, and which of them to keep. */
#include "history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A sample further than this from its arm's median is an outlier; x3 is 1.1. */
static const double outlier_log = 0.4;
/* What is believed of the noise before anything was repeated: 5 %, as from this many samples. */
static const double prior_sd = 0.05, prior_freedom = 6;

void history_reset(struct history *history, size_t arm_count)
{
    memset(history, 0, sizeof(*history));
    history->arm_count = arm_count;
}

/* ---- the present visit */

static void clear_present(struct history *h, double log_c)
{
    h->log_c = log_c;
    h->sample_count = 0;
    memset(h->now, 0, sizeof(h->now));
    memset(h->square, 0, sizeof(h->square));
    for (size_t i = 0; i < h->arm_count; i++)
        h->now[i].arm = (int)i;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of few samples the fastest one is right: nothing makes a step faster than it is, and two outliers
 * of three are seen now and then.  Of more, the lower median. */
static double centre_of(const double *ascending_values, size_t n)
{
    return ascending_values[n < 4 ? 0 : (n - 1) / 2];
}

/* The mean of what lies near the centre. */
static void average(struct history *h, int arm)
{
    double values[HISTORY_SAMPLES_MAX], centre, sum = 0, square = 0;
    size_t n = 0, kept = 0;

    for (size_t i = 0; i < h->sample_count; i++)
        if (h->samples[i].arm == arm)
            values[n++] = h->samples[i].log_ns;
    if (!n)
        return;
    qsort(values, n, sizeof(*values), ascending);
    centre = centre_of(values, n);
    for (size_t i = 0; i < n; i++)
        if (fabs(values[i] - centre) <= outlier_log)
            values[kept++] = values[i];
    for (size_t i = 0; i < kept; i++)
        sum += values[i] / (double)kept;
    for (size_t i = 0; i < kept; i++)
        square += (values[i] - sum) * (values[i] - sum);
    h->now[arm] = (struct record){ .arm = arm, .log_ns = sum, .weight = (double)kept };
    h->square[arm] = square;
}

void history_add(struct history *history, int arm, double log_ns)
{
    if (history->sample_count == HISTORY_SAMPLES_MAX)
        return;
    history->samples[history->sample_count++] = (struct sample){ arm, log_ns };
    average(history, arm);
}

void history_forget(struct history *history, int arm)
{
    size_t kept = 0;

    for (size_t i = 0; i < history->sample_count; i++)
        if (history->samples[i].arm != arm)
            history->samples[kept++] = history->samples[i];
    history->sample_count = kept;
    history->now[arm].weight = 0;
    history->square[arm] = 0;
}

double history_variance(const struct history *history)
{
    double squares = prior_freedom * prior_sd * prior_sd + history->squares;
    double freedom = prior_freedom + history->freedom;

    for (size_t i = 0; i < history->arm_count; i++)
        if (history->now[i].weight > 1) {
            squares += history->square[i];
            freedom += history->now[i].weight - 1;
        }
    return squares / freedom;
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

/* The one that the others can best stand in for; the oldest of equals. */
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

/* The same capacity again takes the place of what was known of it. */
void history_begin(struct history *history, double log_c)
{
    for (size_t i = history->visit_count; i-- > 0;)
        if (!(fabs(history->visits[i].log_c - log_c) > 0))
            remove_visit(history, i);
    clear_present(history, log_c);
    history->visits_ever++;
}

static void make_room(struct history *h, size_t records)
{
    while (h->visit_count && (h->visit_count == HISTORY_VISITS_MAX ||
                              h->record_count + records > HISTORY_RECORDS_MAX))
        remove_visit(h, most_crowded(h));
}

void history_end(struct history *history, bool screened)
{
    size_t count = 0;

    for (size_t i = 0; i < history->arm_count; i++)
        count += history->now[i].weight > 0;
    if (!count)
        return;
    make_room(history, count);
    history->visits[history->visit_count++] = (struct past_visit){ .id = history->visits_ever,
                                                                   .log_c = history->log_c,
                                                                   .screened = screened,
                                                                   .first = history->record_count,
                                                                   .count = count };
    for (size_t i = 0; i < history->arm_count; i++) {
        if (!(history->now[i].weight > 0))
            continue;
        history->records[history->record_count++] = history->now[i];
        history->squares += history->square[i];
        history->freedom += history->now[i].weight - 1;
    }
    clear_present(history, history->log_c);
}

/* ---- what is known */

static double variance_of(const struct history *h, const struct record *record)
{
    /* More than the pooled variance says: drift within a visit is not in it. */
    return 1.25 * history_variance(h) / record->weight;
}

static struct observation observation_of(const struct record *record, uint32_t visit, double log_c,
                                         double variance)
{
    return (struct observation){ .arm = record->arm,
                                 .visit = visit,
                                 .log_c = log_c,
                                 .log_ns = record->log_ns,
                                 .variance = variance };
}

size_t history_told(const struct history *history, int except, struct observation *out)
{
    size_t n = 0;

    for (size_t i = 0; i < history->arm_count; i++)
        if (history->now[i].weight > 0 && (int)i != except)
            out[n++] = observation_of(&history->now[i], history->visits_ever, history->log_c,
                                      variance_of(history, &history->now[i]));
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

static size_t add_visit(const struct history *h, const struct past_visit *visit, double variance,
                        struct observation *out, size_t room)
{
    size_t n = visit->count < room ? visit->count : room;

    for (size_t i = 0; i < n; i++) {
        const struct record *record = &h->records[visit->first + i];

        out[i] = observation_of(record, visit->id, visit->log_c, variance / record->weight);
    }
    return n;
}

size_t history_observations(const struct history *history, enum history_part part, double log_c,
                            struct observation *out, size_t room)
{
    bool taken[HISTORY_VISITS_MAX] = { false };
    struct observation told[SEARCH_ARMS_MAX];
    size_t n_told = part == HISTORY_ALL ? history_told(history, -1, told) : 0, n = 0;
    double variance = 1.25 * history_variance(history);

    if (n_told > room)
        n_told = room;
    while (n < room - n_told) {
        const struct past_visit *visit = nearest_visit(history, log_c, taken);

        if (!visit)
            break;
        taken[visit - history->visits] = true;
        n += add_visit(history, visit, variance, out + n, room - n_told - n);
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

double history_weight(const struct history *history, double reach,
                      bool (*belongs)(const void *self, int arm), const void *self)
{
    double weight = 0;

    for (size_t i = 0; i < history->arm_count; i++)
        if (history->now[i].weight > 0 && belongs(self, (int)i))
            weight += history->now[i].weight;
    for (size_t i = 0; i < history->visit_count; i++) {
        const struct past_visit *visit = &history->visits[i];

        if (fabs(visit->log_c - history->log_c) >= reach)
            continue;
        for (size_t k = 0; k < visit->count; k++)
            if (belongs(self, history->records[visit->first + k].arm))
                weight += history->records[visit->first + k].weight;
    }
    return weight;
}

bool history_screened_near(const struct history *history, double log_c, double reach)
{
    for (size_t i = 0; i < history->visit_count; i++)
        if (history->visits[i].screened && fabs(history->visits[i].log_c - log_c) < reach)
            return true;
    return false;
}
