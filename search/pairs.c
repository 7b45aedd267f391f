/* Computes Huber's mean of pairs, its variance from steps and from launches, proofs and
 * intervals. */
#include "pairs.h"

#include "stats.h"

#include <math.h>
#include <string.h>

void pairs_add(struct pairs *p, double log_ratio, int launch)
{
    if (p->count == PAIRS_MAX || !isfinite(log_ratio))
        return;
    p->log_ratio[p->count] = log_ratio;
    p->launch[p->count++] = (uint8_t)launch;
}

/* ---- means that outliers cannot move */

/* Values farther than so many deviations from the centre count as if they lay there.  Without
 * outliers this has 96 % of a plain mean's efficiency. */
static const double huber_limit = 1.5;

static double clipped(double value, double limit)
{
    return fmax(-limit, fmin(limit, value));
}

/* Huber's mean: values beyond the limit count as if they lay at the limit.  A median resists
 * outliers, too, but needs half as many samples again for the same interval.  A trimmed mean of
 * four rounds would drop two of them. */
static double huber_centre(const double *values, uint32_t count, double limit)
{
    double sorted[PAIRS_MAX], centre;

    memcpy(sorted, values, count * sizeof(*sorted));
    centre = median_of(sorted, count);
    for (int pass = 0; pass < 20; pass++) {
        double sum = 0;

        for (uint32_t i = 0; i < count; i++)
            sum += clipped(values[i] - centre, limit);
        centre += sum / count;
    }
    return centre;
}

/* With these values, means of halves, of launches and of all buckets are plain sums, and one
 * outlier in a half of two pairs is harmless. */
struct pairs pairs_winsorized(const struct pairs *p, const struct scatter *s)
{
    double limit = huber_limit * s->scale, centre = huber_centre(p->log_ratio, p->count, limit);
    struct pairs out = *p;
    uint32_t inside = 0;

    for (uint32_t i = 0; i < p->count; i++)
        inside += fabs(p->log_ratio[i] - centre) <= limit;
    for (uint32_t i = 0; i < p->count; i++)
        out.log_ratio[i] =
            centre + clipped(p->log_ratio[i] - centre, limit) * p->count / (inside ? inside : 1);
    return out;
}

/* The plain means of the pairs, for each launch that has some. */
struct by_launch {
    int count;
    uint32_t pairs[LAUNCHES_MAX];
    double mean[LAUNCHES_MAX];
    double squares; /* of the pairs about their launch's mean */
};

static struct by_launch launches_of(const struct pairs *p)
{
    struct by_launch out = { 0 };
    int index_of[LAUNCHES_MAX]; /* by launch; -1: it has no pair yet */

    memset(index_of, -1, sizeof(index_of));
    for (uint32_t i = 0; i < p->count; i++) {
        int *index = &index_of[p->launch[i] % LAUNCHES_MAX];

        if (*index < 0)
            *index = out.count++;
        out.mean[*index] += p->log_ratio[i];
        out.pairs[*index]++;
    }
    for (int l = 0; l < out.count; l++)
        out.mean[l] /= out.pairs[l];
    for (uint32_t i = 0; i < p->count; i++) {
        double from_mean = p->log_ratio[i] - out.mean[index_of[p->launch[i] % LAUNCHES_MAX]];

        out.squares += from_mean * from_mean;
    }
    return out;
}

/* ---- how far pairs scatter */

/* The median distance of pairs from their bucket's median, scaled to a standard deviation.  Few
 * values make the median distance too small, hence the factors: 1.414 for two pairs, 1.2 for less
 * than eight. */
static double robust_scale(const struct pairs *buckets, size_t count)
{
    enum { VALUES_MAX = 64 * PAIRS_MAX };
    static const double to_deviation = 1.4826, two_values = 1.414, few_values = 1.2;
    double distances[VALUES_MAX];
    size_t n = 0;

    for (size_t b = 0; b < count; b++) {
        double sorted[PAIRS_MAX], median, factor = 1;
        uint32_t pairs = buckets[b].count;

        if (pairs == 2)
            factor = two_values;
        else if (pairs < 8)
            factor = few_values;
        memcpy(sorted, buckets[b].log_ratio, pairs * sizeof(*sorted));
        median = median_of(sorted, pairs);
        for (uint32_t i = 0; pairs > 1 && i < pairs && n < VALUES_MAX; i++)
            distances[n++] = fabs(buckets[b].log_ratio[i] - median) * factor;
    }
    return n ? to_deviation * median_of(distances, n) : 0;
}

/* The prior of the differences between launches, for buckets that had few launches: 2 %, which
 * counts like six differences. */
static const double usual_launch_sd = 0.02, usual_launch_freedom = 6;

void scatter_of(const struct pairs *buckets, size_t count, struct scatter *out)
{
    struct scatter s = { .scale = robust_scale(buckets, count) };
    double squares = 0, launch_squares = 0, step_squares = 0, prior_freedom;

    for (size_t b = 0; b < count; b++) {
        struct pairs p = pairs_winsorized(&buckets[b], &s);
        struct by_launch launches = launches_of(&p);

        squares += launches.squares;
        s.within_freedom +=
            p.count > (uint32_t)launches.count ? p.count - (uint32_t)launches.count : 0;
    }
    s.within = s.within_freedom > 0 ? squares / s.within_freedom : 0;
    for (size_t b = 0; b < count; b++) {
        struct pairs p = pairs_winsorized(&buckets[b], &s);
        struct by_launch launches = launches_of(&p);
        double mean = 0;

        for (int l = 0; l < launches.count; l++)
            mean += launches.mean[l] / launches.count;
        for (int l = 0; l < launches.count; l++) {
            launch_squares += (launches.mean[l] - mean) * (launches.mean[l] - mean);
            step_squares += (1 - 1.0 / launches.count) * s.within / launches.pairs[l];
        }
        s.between_freedom += launches.count > 1 ? launches.count - 1 : 0;
    }
    s.launches = s.between_freedom > 0;
    if (s.launches) {
        prior_freedom = fmax(0, usual_launch_freedom - s.between_freedom);
        s.between = fmax(0, launch_squares - step_squares +
                                prior_freedom * usual_launch_sd * usual_launch_sd) /
                    (s.between_freedom + prior_freedom);
        s.between_freedom += prior_freedom;
    }
    *out = s;
}

void scatter_know_within(struct scatter *s, double variance, double freedom)
{
    double sum = s->within_freedom + freedom;

    if (!(freedom > 0) || !isfinite(variance))
        return;
    s->within = (s->within * s->within_freedom + variance * freedom) / sum;
    s->within_freedom = sum;
}

/* A bucket's own pairs tell their scatter, but few pairs tell it badly.  So the scatter of all
 * buckets counts like up to four further pairs. */
struct mean pairs_mean(const struct pairs *pairs, const struct scatter *s)
{
    static const double most_borrowed = 4;
    struct mean m = { .count = pairs->count };
    struct pairs p = pairs_winsorized(pairs, s);
    struct by_launch launches = launches_of(&p);
    double own_freedom =
               p.count > (uint32_t)launches.count ? p.count - (uint32_t)launches.count : 0,
           weights = 0;
    double borrowed_freedom = fmin(most_borrowed, fmax(0, s->within_freedom - own_freedom)),
           variance;

    if (!m.count || !(borrowed_freedom + own_freedom > 0)) /* the scatter is unknown */
        return (struct mean){ 0 };
    variance = (borrowed_freedom * s->within + launches.squares) / (borrowed_freedom + own_freedom);
    for (uint32_t i = 0; i < p.count; i++) {
        m.half[i % 2] += p.log_ratio[i];
        m.half_count[i % 2]++;
    }
    for (int half = 0; half < 2; half++)
        m.half[half] /= m.half_count[half] ? m.half_count[half] : 1;
    for (int l = 0; l < launches.count; l++) {
        double launch_variance = s->between + variance / launches.pairs[l];
        double weight = launch_variance > 0 ? 1 / launch_variance : launches.pairs[l] * 1e12;

        m.mean += weight * launches.mean[l];
        m.steps += weight * weight * variance / launches.pairs[l];
        m.launches += weight * weight * s->between;
        weights += weight;
    }
    m.mean /= weights;
    m.steps /= weights * weights;
    m.launches /= weights * weights;
    m.further = s->between;
    m.freedom = borrowed_freedom + own_freedom;
    m.own_freedom = fmax(own_freedom, 1);
    m.launch_freedom = s->between_freedom;
    if (m.launches > 0)
        m.freedom = (m.steps + m.launches) * (m.steps + m.launches) /
                    (m.steps * m.steps / m.freedom + m.launches * m.launches / s->between_freedom);
    return m;
}

double mean_chance_above(const struct mean *m, double log_ratio)
{
    double variance = m->steps + m->launches;

    if (!m->count || !isfinite(m->mean) || !isfinite(variance))
        return 1;
    return variance > 0 ? student_tail((log_ratio - m->mean) / sqrt(variance), m->freedom)
                        : m->mean > log_ratio;
}

struct mean mean_with_belief(const struct mean *m, double belief, double variance)
{
    struct mean out = *m;
    double own = m->steps + m->launches, share = variance / (variance + own);

    if (!isfinite(belief) || !(variance > 0) || isinf(variance) || !(own > 0) ||
        !(fabs(m->mean - belief) <= 3 * sqrt(own + variance)))
        return out;
    out.mean = share * m->mean + (1 - share) * belief;
    out.steps *= share;
    out.launches *= share;
    return out;
}

const double pairs_harmless = 0.01, pairs_least = 1e-6;

enum proof mean_proof(const struct mean *m, double belief, double variance, double chance)
{
    struct mean both = mean_with_belief(m, belief, variance);

    if (m->count < PAIRS_LEAST || !(m->mean < -pairs_least))
        return PROOF_NONE;
    if (mean_chance_above(m, 0) <= chance)
        return PROOF_FASTER;
    return both.mean < 0 && mean_chance_above(&both, log1p(pairs_harmless)) <= chance
               ? PROOF_HARMLESS
               : PROOF_NONE;
}

/* ---- intervals */

static struct pair_range range_about(double mean, double variance, double freedom,
                                     enum certainty certainty)
{
    double width = variance > 0 ? student_quantile(freedom, certainty) * sqrt(variance) : 0;

    return (struct pair_range){ mean, mean - width, mean + width };
}

struct pair_range mean_range(const struct mean *m, enum certainty certainty)
{
    return range_about(m->mean, m->steps + m->launches + m->further, m->freedom, certainty);
}

struct gain range_gain(struct pair_range r)
{
    return (struct gain){ 0 - expm1(r.mean), 0 - expm1(r.high), 0 - expm1(r.low) };
}

void total_add(struct total *t, double share, const struct mean *m)
{
    double steps = share * share * m->steps;

    t->mean += share * m->mean;
    t->steps += steps;
    t->launches += share * share * m->launches;
    t->further += share * share * m->further;
    t->spent += steps > 0 ? steps * steps / m->own_freedom : 0;
    t->launch_freedom = fmax(t->launch_freedom, m->launch_freedom);
}

static double freedom_of(const struct total *t)
{
    double variance = t->steps + t->launches;
    double spent = t->spent + (t->launches > 0 ? t->launches * t->launches / t->launch_freedom : 0);

    return spent > 0 ? variance * variance / spent : 1;
}

struct pair_range total_range(const struct total *t, enum certainty certainty)
{
    return range_about(t->mean, t->steps + t->launches + (certainty == STATED ? t->further : 0),
                       freedom_of(t), certainty);
}

double total_chance_above(const struct total *t, double log_ratio)
{
    double variance = t->steps + t->launches;

    if (!isfinite(t->mean) || !isfinite(variance))
        return 1;
    return variance > 0 ? student_tail((log_ratio - t->mean) / sqrt(variance), freedom_of(t))
                        : t->mean > log_ratio;
}

/* ---- what further pairs may show */

/* How many further pairs it takes until the mean lies 2.5 standard deviations below the limit of
 * harm; INFINITY: more than `most_pairs`. */
static double pairs_to_proof(const struct mean *m, double log_ratio, double pairs_per_launch,
                             double most_pairs)
{
    static const double sds = 2.5;
    double slack = log1p(pairs_harmless) - fmin(log_ratio, 0);
    double launch_count = m->launches > 0 ? m->further / m->launches : 0;

    for (double pairs = fmax(1, ceil(m->count / 2.0)); pairs <= most_pairs; pairs++) {
        double steps = m->steps * m->count / (m->count + pairs), launches = m->launches;

        if (pairs_per_launch > 0)
            launches *= launch_count / (launch_count + pairs / pairs_per_launch);
        if (sds * sds * (steps + launches) <= slack * slack)
            return pairs;
    }
    return INFINITY;
}

struct prospect mean_prospect(const struct mean *m, struct normal usual, double of_launch,
                              double most)
{
    struct prospect p = { { m->mean, 0 }, -m->mean, INFINITY };
    double variance = m->steps + m->launches, spread = usual.sd * usual.sd, share;

    if (!m->count || !isfinite(m->mean) || !isfinite(variance)) {
        p.lost = -1;
        return p;
    }
    if (!(variance > 0)) { /* no scatter: there are too few pairs, or the plan is slower */
        p.pairs = 0;
        return p;
    }
    share = isinf(spread) ? 1 : spread / (spread + variance);
    p.log_ratio.mean = share * m->mean + (1 - share) * usual.mean;
    p.log_ratio.sd = sqrt(share * variance);
    p.lost = gain_of_learning(p.log_ratio.mean, p.log_ratio.sd);
    p.pairs = pairs_to_proof(m, p.log_ratio.mean, of_launch, most);
    return p;
}

double prospect_worth(const struct prospect *p, double step)
{
    return isfinite(p->pairs) ? p->lost - 2 * p->pairs * step : -1;
}

const double prospect_least = 0.005;

struct doubt prospect_doubt(const struct prospect *p, int arm)
{
    const struct normal *log_ratio = &p->log_ratio;

    if (p->lost < prospect_least || !(log_ratio->mean < log1p(-prospect_least)))
        return (struct doubt){ .arm = -1 };
    return (struct doubt){ arm, -expm1(log_ratio->mean),
                           log_ratio->sd > 0 ? normal_tail(-log_ratio->mean / log_ratio->sd) : 1,
                           p->pairs };
}

/* ---- calibration */

/* Half of a 95 % interval in standard deviations; the least deviation of a difference: a tenth of a
 * percent is less than anything that is claimed. */
static const double half_interval = 1.96, least_apart = 0.001;
static const double prior_claims = 10, kappa_least = 1, kappa_most = 3;
/* A claim that is farther off counts as this far: something else happened there. */
static const double furthest = 4;

/* The standard deviation of the log ratio that a gain's 95 % interval stands for. */
static double interval_deviation(const struct gain *gain)
{
    return (log1p(-gain->low) - log1p(-gain->high)) / (2 * half_interval);
}

void calibration_add(struct calibration *c, const struct gain *claim, double kappa,
                     const struct gain *found)
{
    double claimed_sd = interval_deviation(claim) / fmax(kappa, kappa_least),
           found_sd = interval_deviation(found);
    double difference = log1p(-claim->value) - log1p(-found->value);
    double z = difference / hypot(hypot(claimed_sd, found_sd), least_apart);

    if (!isfinite(z) || !(claimed_sd >= 0) || !(found_sd >= 0))
        return;
    z = fmin(fabs(z), furthest);
    c->squares += z * z;
    c->count++;
}

double calibration_kappa(const struct calibration *c)
{
    double square = (prior_claims + c->squares) / (prior_claims + c->count);

    return fmax(kappa_least, fmin(kappa_most, sqrt(square)));
}

bool calibration_is_too_sure(const struct calibration *c, double then)
{
    return !(calibration_kappa(c) < 1.2 * then);
}
