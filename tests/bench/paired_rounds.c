/* Compares plans in paired rounds: robust times of each launch, rivals that other launches choose,
 * Student's intervals. */
#include "paired_rounds.h"

#include "pairs.h"
#include "stats.h"
#include "status.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* ---- rounds */

int paired_rounds_open(size_t plans, size_t buckets, size_t launches, struct paired_rounds *out)
{
    size_t count = launches * ROUNDS_IN_LAUNCH * buckets;
    struct paired_rounds r = { .plans = plans, .buckets = buckets, .launches = launches };

    assert(plans <= ROUNDS_PLANS && buckets <= ROUNDS_BUCKETS && launches <= LAUNCHES_MOST);
    r.level = calloc(count, sizeof(*r.level));
    r.deviation = calloc(count * plans, sizeof(*r.deviation));
    if (!r.level || !r.deviation) {
        paired_rounds_free(&r);
        return fail(ERR_NOMEM, "%zu steps", count * plans);
    }
    *out = r;
    return OK;
}

void paired_rounds_free(struct paired_rounds *r)
{
    free(r->level);
    free(r->deviation);
    *r = (struct paired_rounds){ 0 };
}

static size_t row_of(const struct paired_rounds *r, size_t launch, size_t round, size_t bucket)
{
    return (launch * ROUNDS_IN_LAUNCH + round) * r->buckets + bucket;
}

void paired_rounds_tell(struct paired_rounds *r, size_t launch, size_t round, size_t bucket,
                        const double *ns)
{
    size_t row = row_of(r, launch, round, bucket);
    double *deviation = r->deviation + row * r->plans;
    double sorted[ROUNDS_PLANS], level;

    for (size_t p = 0; p < r->plans; p++)
        sorted[p] = log(ns[p]);
    level = median_of(sorted, r->plans);
    r->level[row] = level;
    for (size_t p = 0; p < r->plans; p++)
        deviation[p] = isinf(ns[p]) ? INFINITY : log(ns[p]) - level;
}

/* The mean of the middle half; of three values the middle one. */
static double midmean(double *values, size_t count)
{
    size_t cut = count < 3 ? 0 : (count + 3) / 4;
    double sum = 0;

    sort_doubles(values, count);
    for (size_t i = cut; i < count - cut; i++)
        sum += values[i];
    return sum / (double)(count - 2 * cut);
}

/* ---- what launches say: logarithms of a plan's time, without the level */

static double log_in(const struct paired_rounds *r, size_t launch, size_t bucket, int plan)
{
    double values[ROUNDS_IN_LAUNCH];

    for (size_t i = 0; i < ROUNDS_IN_LAUNCH; i++)
        values[i] = r->deviation[row_of(r, launch, i, bucket) * r->plans + (size_t)plan];
    return midmean(values, ROUNDS_IN_LAUNCH);
}

static double log_in_others(const struct paired_rounds *r, size_t launch, size_t bucket, int plan)
{
    double sum = 0;

    for (size_t l = 0; l < r->launches; l++)
        sum += l == launch ? 0 : log_in(r, l, bucket, plan);
    return sum / (double)(r->launches - 1);
}

/* What a step takes at a bucket, for sums over buckets: of all launches, for a launch that was slow
 * while it was there says nothing of how long the others' steps are. */
static void weigh(const struct paired_rounds *r, double weights[ROUNDS_BUCKETS])
{
    double values[LAUNCHES_MOST * ROUNDS_IN_LAUNCH];

    for (size_t b = 0; b < r->buckets; b++) {
        size_t n = 0;

        for (size_t l = 0; l < r->launches; l++)
            for (size_t i = 0; i < ROUNDS_IN_LAUNCH; i++)
                values[n++] = r->level[row_of(r, l, i, b)];
        weights[b] = exp(midmean(values, n));
    }
}

/* ---- rivals of a launch, chosen by the others */

struct rivals {
    int fixed, best[ROUNDS_BUCKETS];
};

static struct rivals choose(const struct paired_rounds *r, const double *weights, size_t launch)
{
    struct rivals rivals = { .fixed = 0 };
    double least_ns = INFINITY, least[ROUNDS_BUCKETS];

    for (int p = 0; p < (int)r->plans; p++) {
        double ns = 0;

        for (size_t b = 0; b < r->buckets; b++) {
            double here = log_in_others(r, launch, b, p);

            ns += weights[b] * exp(here);
            if (!p || here < least[b]) {
                least[b] = here;
                rivals.best[b] = p;
            }
        }
        if (ns < least_ns) {
            least_ns = ns;
            rivals.fixed = p;
        }
    }
    return rivals;
}

/* ---- intervals */

/* A figure of each launch. */
struct figures {
    double of[LAUNCHES_MOST];
};

static double mean_of(const struct figures *f, size_t launches)
{
    double sum = 0;

    for (size_t l = 0; l < launches; l++)
        sum += f->of[l];
    return sum / (double)launches;
}

static double squares_of(const struct figures *f, size_t launches)
{
    double mean = mean_of(f, launches), sum = 0;

    for (size_t l = 0; l < launches; l++)
        sum += (f->of[l] - mean) * (f->of[l] - mean);
    return sum;
}

/* The half-width of the mean's interval, from squares about means with so many degrees of freedom.
 */
static double half_width(double squares, double freedom, size_t launches)
{
    return freedom ? student_quantile(freedom, STATED) * sqrt(squares / freedom / (double)launches)
                   : 0;
}

static double half_width_of(const struct figures *f, size_t launches)
{
    return half_width(squares_of(f, launches), (double)launches - 1, launches);
}

static struct interval ratio_of(const struct figures *logs, size_t launches)
{
    double mean = mean_of(logs, launches), half = half_width_of(logs, launches);

    return (struct interval){ exp(mean), exp(mean - half), exp(mean + half) };
}

/* ---- the estimate */

/* The table beside its rivals: logarithms of ratios. */
struct contest {
    struct figures over_default, over_static, over_best;
    struct figures regret[ROUNDS_BUCKETS], loss[ROUNDS_BUCKETS]; /* loss: over the default */
};

static void meet(const struct paired_rounds *r, const double *weights, const int *table,
                 int default_plan, size_t launch, int *fixed, struct contest *c)
{
    struct rivals rivals = choose(r, weights, launch);
    double own_ns = 0, default_ns = 0, fixed_ns = 0, best_ns = 0;

    for (size_t b = 0; b < r->buckets; b++) {
        double own = log_in(r, launch, b, table[b]), best = log_in(r, launch, b, rivals.best[b]);
        double standard = log_in(r, launch, b, default_plan);

        own_ns += weights[b] * exp(own);
        default_ns += weights[b] * exp(standard);
        fixed_ns += weights[b] * exp(log_in(r, launch, b, rivals.fixed));
        best_ns += weights[b] * exp(best);
        c->regret[b].of[launch] = own - best;
        c->loss[b].of[launch] = own - standard;
    }
    c->over_default.of[launch] = log(own_ns / default_ns);
    c->over_static.of[launch] = log(own_ns / fixed_ns);
    c->over_best.of[launch] = log(own_ns / best_ns);
    *fixed = rivals.fixed;
}

/* The mean over buckets is one of shares, its variance that of what each launch adds to it. */
static void estimate_regret(const struct contest *c, size_t buckets, size_t launches,
                            struct estimate *out)
{
    struct figures part = { { 0 } };
    double sum = 0, half;

    for (size_t b = 0; b < buckets; b++) {
        struct interval ratio = ratio_of(&c->regret[b], launches);

        out->bucket_regret[b] = (struct interval){ ratio.value - 1, ratio.low - 1, ratio.high - 1 };
        sum += (ratio.value - 1) / (double)buckets;
        for (size_t l = 0; l < launches; l++)
            part.of[l] += ratio.value * c->regret[b].of[l] / (double)buckets;
    }
    half = half_width_of(&part, launches);
    out->regret = (struct interval){ sum, sum - half, sum + half };
}

/* One variance for all buckets: a few launches alone would tell little of each.  The default gains
 * nothing over itself, and has none. */
static void estimate_gains(const struct contest *c, const int *table, int default_plan,
                           size_t buckets, size_t launches, struct estimate *out)
{
    double squares = 0, freedom = 0, half;

    for (size_t b = 0; b < buckets; b++)
        if (table[b] != default_plan) {
            squares += squares_of(&c->loss[b], launches);
            freedom += (double)launches - 1;
        }
    half = half_width(squares, freedom, launches);
    for (size_t b = 0; b < buckets; b++) {
        double mean = mean_of(&c->loss[b], launches), own = table[b] == default_plan ? 0 : half;

        out->bucket_gain[b] =
            (struct interval){ -expm1(mean), -expm1(mean + own), -expm1(mean - own) };
    }
}

void paired_rounds_estimate(const struct paired_rounds *r, const int *table, int default_plan,
                            struct estimate *out)
{
    double weights[ROUNDS_BUCKETS];
    struct contest c;

    assert(r->launches >= 2);
    weigh(r, weights);
    for (size_t l = 0; l < r->launches; l++)
        meet(r, weights, table, default_plan, l, &out->static_plan[l], &c);
    out->over_default = ratio_of(&c.over_default, r->launches);
    out->over_static = ratio_of(&c.over_static, r->launches);
    out->over_best = ratio_of(&c.over_best, r->launches);
    estimate_regret(&c, r->buckets, r->launches, out);
    estimate_gains(&c, table, default_plan, r->buckets, r->launches, out);
}
