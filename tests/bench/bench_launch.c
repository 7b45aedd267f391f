/* Measures how good the choice of one launch for a whole table is (search/launch_decision.h), on
 * made-up programs whose truth is known.  The rival is an exhaustive pass: it runs every launch
 * three times with every plan in every range, and takes the least mean.
 *
 *     bench_launch [--draws N] [--seed N] [LAUNCHESxLIVExRANGES]...
 *
 * A program has one or two restart axes and up to two live ones.  Neighbouring values differ by 3
 * to 10 % of a step; how, changes from range to range.  A process shows each plan in each range
 * once: a sample of five steps, which scatter by 3 % each.  Differences
 * between launches: a process is faster or slower as a whole, or in each plan and range by itself,
 * or half and half, as drawn.
 *
 * Regret: the true weighted time of the published launch with its published live plans, over that
 * of the best launch with its best plans, minus 1. */
#include "launch_decision.h"
#include "random.h"
#include "surface.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ARMS_MOST = SEARCH_ARMS_MAX, LAUNCHES_MOST = 1024, BUCKETS_MOST = 10, VALUES_MOST = 64 };
enum { AXES = 4, RESTART_AXES = 2, PASSES = 3 };

struct program {
    size_t launches, live, buckets, arms;
    size_t values[AXES];
    uint32_t launch_of[ARMS_MOST], apart[ARMS_MOST];
    double log_ns[BUCKETS_MOST][ARMS_MOST]; /* true */
    double weight[BUCKETS_MOST];
    double luck, common; /* its deviation; the share of its variance that a process has in all */
    struct points points;
    uint64_t seed, draws;
};

static double normal(struct program *p)
{
    return normal_draw(p->seed, p->draws++);
}

static double uniform(struct program *p)
{
    return uniform_draw(p->seed, p->draws++);
}

/* As near to a square as they can be. */
static void split(size_t all, size_t *a, size_t *b)
{
    *a = 1;
    for (size_t i = 1; i * i <= all; i++)
        if (all % i == 0)
            *a = i;
    *b = all / *a;
}

static void draw_axes(struct program *p)
{
    double numbers[VALUES_MOST];

    split(p->launches, &p->values[0], &p->values[1]);
    split(p->live, &p->values[2], &p->values[3]);
    p->points.axes = AXES;
    p->points.count = p->arms;
    p->points.value = calloc(p->arms * AXES, sizeof(uint16_t));
    if (!p->points.value)
        exit(1);
    for (size_t a = 0; a < AXES; a++) {
        p->points.axis[a].values = p->values[a];
        for (size_t v = 0; v < p->values[a]; v++)
            numbers[v] = (double)v + 1;
        points_place(&p->points.axis[a], numbers, p->values[a]);
        p->points.axis[a].words = uniform(p) < 0.5;
    }
    for (size_t i = 0; i < p->arms; i++) {
        size_t n = i;

        for (size_t a = AXES; a-- > 0; n /= p->values[a])
            p->points.value[i * AXES + a] = (uint16_t)(n % p->values[a]);
        p->launch_of[i] = (uint32_t)(i / p->live);
        for (size_t a = 0; a < AXES; a++)
            if (p->points.value[i * AXES + a])
                p->apart[i] += a < RESTART_AXES ? 1u << 20 : 1u << 14;
    }
}

/* What the values of one axis do: from one to the next 3 to 10 %, up or down; words anything. */
static void draw_effect(struct program *p, size_t axis, double effect[VALUES_MOST])
{
    double at = 0, turn = uniform(p) * (double)p->values[axis];

    for (size_t v = 0; v < p->values[axis]; v++) {
        double step = 0.03 + 0.07 * uniform(p);

        effect[v] = p->points.axis[axis].words ? step * normal(p) : at;
        at += (double)v < turn ? -step : step;
    }
}

static void draw_program(struct program *p, uint64_t seed, double luck)
{
    double always[AXES][VALUES_MOST], here[AXES][VALUES_MOST];

    p->seed = seed;
    p->draws = 0;
    p->arms = p->launches * p->live;
    memset(p->apart, 0, sizeof(p->apart));
    draw_axes(p);
    p->luck = luck;
    p->common = 0.5 * (double)(random_bits(seed, 77) % 3);
    for (size_t a = 0; a < AXES; a++)
        draw_effect(p, a, always[a]);
    for (size_t r = 0; r < p->buckets; r++) {
        double shared = uniform(p), level = log(1e6) + 0.7 * (double)r;

        p->weight[r] = exp(-0.5 * (double)r + 0.5 * normal(p));
        for (size_t a = 0; a < AXES; a++)
            draw_effect(p, a, here[a]);
        for (size_t i = 0; i < p->arms; i++) {
            p->log_ns[r][i] = level + 0.01 * normal(p);
            for (size_t a = 0; a < AXES; a++) {
                size_t v = points_value(&p->points, (int)i, a);

                p->log_ns[r][i] += shared * always[a][v] + (1 - shared) * here[a][v];
            }
        }
    }
}

/* ---- truth */

static double true_total(const struct program *p, size_t launch, const int *live)
{
    double sum = 0;

    for (size_t r = 0; r < p->buckets; r++) {
        double least = INFINITY;

        for (size_t i = launch * p->live; i < (launch + 1) * p->live && !live; i++)
            least = fmin(least, p->log_ns[r][i]);
        sum += p->weight[r] * exp(live ? p->log_ns[r][live[r]] : least);
    }
    return sum;
}

static double best_total(const struct program *p)
{
    double least = INFINITY;

    for (size_t l = 0; l < p->launches; l++)
        least = fmin(least, true_total(p, l, NULL));
    return least;
}

/* ---- a process */

static double sampled(struct program *p, double common, size_t range, size_t arm)
{
    static const double step_sd = 0.03, steps = 5;
    double own = p->luck * sqrt(1 - p->common) * normal(p);

    return p->log_ns[range][arm] + common + own + step_sd / sqrt(steps) * normal(p);
}

static double common_luck(struct program *p)
{
    return p->luck * sqrt(p->common) * normal(p);
}

/* ---- the two rivals */

struct outcome {
    double regret, harm;
    bool default_told, undecided;
    struct gain claim, over_fixed;
    double truth, truth_fixed;
    size_t launches, samples;
};

static struct outcome run_choice(struct program *p)
{
    struct search_setup search = { .points = &p->points, .arm_count = p->arms, .seed = p->seed };
    struct launch_decision_setup setup = { .arm_count = p->arms,
                                           .launch_of = p->launch_of,
                                           .launch_count = p->launches,
                                           .distance = p->apart,
                                           .margin = 0.01,
                                           .seed = p->seed };
    struct search *searches[BUCKETS_MOST];
    struct launch_decision *c;
    struct launch_result result;
    enum decision_purpose purpose;
    struct outcome out = { 0 };
    int live[BUCKETS_MOST], usual[BUCKETS_MOST], launch;
    double total;

    if (launch_decision_open(&setup, &c))
        exit(1);
    for (size_t r = 0; r < p->buckets; r++) {
        if (search_open(search_find("blind"), &search, &searches[r]))
            exit(1);
        search_begin(searches[r], 1, NULL, false);
        launch_decision_add(c, searches[r], p->weight[r]);
    }
    while ((launch = launch_decision_next(c, &purpose)) != DECISION_DONE) {
        double common = common_luck(p);

        launch_decision_begin(c, launch, purpose);
        for (size_t r = 0; r < p->buckets; r++) {
            bool needed;
            int arm;

            while ((arm = launch_decision_next_arm(c, (int)r, &needed)) >= 0) {
                double log_ns = sampled(p, common, r, (size_t)arm);

                launch_decision_tell(c, (int)r, arm, llround(exp(log_ns)));
                out.samples++;
            }
        }
        launch_decision_end(c);
        out.launches++;
    }
    if (!launch_decision_result(c, &result))
        exit(1);
    for (size_t r = 0; r < p->buckets; r++) {
        live[r] = launch_decision_live_arm(c, result.launch, (int)r);
        usual[r] = launch_decision_live_arm(c, 0, (int)r);
    }
    total = true_total(p, (size_t)result.launch, live);
    out.regret = total / best_total(p) - 1;
    out.harm = total / true_total(p, 0, usual) - 1;
    out.default_told = result.launch == 0;
    out.undecided = out.default_told && result.doubt.arm >= 0;
    out.claim = result.over_default;
    out.truth = 1 - total / true_total(p, 0, usual);
    out.over_fixed = result.over_fixed;
    if (result.fixed_arm >= 0) {
        double fixed = 0;

        for (size_t r = 0; r < p->buckets; r++)
            fixed += p->weight[r] * exp(p->log_ns[r][result.fixed_arm]);
        out.truth_fixed = 1 - total / fixed;
    }
    launch_decision_close(c);
    for (size_t r = 0; r < p->buckets; r++)
        search_close(searches[r]);
    return out;
}

static struct outcome run_exhaustive(struct program *p)
{
    static double sum[BUCKETS_MOST][ARMS_MOST];
    struct outcome out = { .launches = PASSES * p->launches };
    double least = INFINITY, usual = true_total(p, 0, NULL);

    memset(sum, 0, sizeof(sum));
    for (size_t l = 0; l < p->launches; l++) {
        int live[BUCKETS_MOST] = { 0 };
        double total = 0;

        for (int pass = 0; pass < PASSES; pass++) {
            double common = common_luck(p);

            for (size_t r = 0; r < p->buckets; r++)
                for (size_t i = l * p->live; i < (l + 1) * p->live; i++)
                    sum[r][i] += sampled(p, common, r, i) / PASSES;
        }
        for (size_t r = 0; r < p->buckets; r++) {
            live[r] = (int)(l * p->live);
            for (size_t i = l * p->live; i < (l + 1) * p->live; i++)
                if (sum[r][i] < sum[r][live[r]])
                    live[r] = (int)i;
            total += p->weight[r] * exp(sum[r][live[r]]);
        }
        if (total < least) {
            least = total;
            out.regret = true_total(p, l, live) / best_total(p) - 1;
            out.harm = true_total(p, l, live) / usual - 1;
        }
    }
    return out;
}

/* ---- cells */

struct sums {
    size_t draws, within, undecided, harmed, claims, held, fixed_claims, fixed_held, told;
    size_t pass_within, pass_harmed;
    double launches, samples, regret, worst, pass_regret, seconds;
};

static void add(struct sums *into, const struct sums *of)
{
    into->draws += of->draws;
    into->within += of->within;
    into->undecided += of->undecided;
    into->harmed += of->harmed;
    into->claims += of->claims;
    into->held += of->held;
    into->fixed_claims += of->fixed_claims;
    into->fixed_held += of->fixed_held;
}

static bool holds(const struct gain *g, double truth)
{
    return g->low <= truth && truth <= g->high;
}

static struct sums run_cell(size_t launches, size_t live, size_t buckets, int luck, size_t draws,
                            uint64_t seed)
{
    static const double within[] = { 0.01, 0.01, 0.02, 0.02, 0.04 };
    static struct program p;
    struct sums s = { .draws = draws };
    double n = (double)draws;

    for (size_t i = 0; i < draws; i++) {
        clock_t began = clock();
        struct outcome ours, pass;

        p.launches = launches;
        p.live = live;
        p.buckets = buckets;
        draw_program(&p, seed + i * 1000 + launches * 31 + live * 7 + buckets, luck / 100.0);
        ours = run_choice(&p);
        s.seconds += (double)(clock() - began) / CLOCKS_PER_SEC / n;
        pass = run_exhaustive(&p);
        points_close(&p.points);
        s.within += ours.regret <= within[luck];
        s.undecided += ours.regret > within[luck] && ours.undecided;
        s.harmed += ours.harm > 0.01;
        s.told += !ours.default_told;
        s.regret += ours.regret / n;
        s.worst = fmax(s.worst, ours.regret);
        s.launches += (double)ours.launches / n;
        s.samples += (double)ours.samples / n;
        if (!ours.default_told && isfinite(ours.claim.low)) {
            s.claims++;
            s.held += holds(&ours.claim, ours.truth);
        }
        if (isfinite(ours.over_fixed.low)) {
            s.fixed_claims++;
            s.fixed_held += holds(&ours.over_fixed, ours.truth_fixed);
        }
        if (getenv("BENCH_SHOW") && ours.regret > atof(getenv("BENCH_SHOW")))
            printf(
                "    draw %zu: regret %.3f harm %.3f %s, claim %.3f [%.3f, %.3f], launches %zu\n",
                i, ours.regret, ours.harm, ours.default_told ? "default" : "told", ours.claim.value,
                ours.claim.low, ours.claim.high, ours.launches);
        s.pass_within += pass.regret <= within[luck];
        s.pass_harmed += pass.harm > 0.01;
        s.pass_regret += pass.regret / n;
    }
    printf(
        "%3zu x %2zu x %2zu %3d %%  %5.1f %6.1f %6.1f %6.1f  %6.2f %6.2f  %6.1f %6.1f  %6.1f %5zu "
        "%7.0f  %6.1f %6.1f %6.2f  %5.2f\n",
        launches, live, buckets, luck, 100 * (double)s.within / n,
        100 * (double)(s.within + s.undecided) / n, 100 * (double)s.told / n,
        100 * (double)s.harmed / n, 100 * s.regret, 100 * s.worst,
        s.claims ? 100 * (double)s.held / (double)s.claims : 100,
        s.fixed_claims ? 100 * (double)s.fixed_held / (double)s.fixed_claims : 100, s.launches,
        PASSES * launches, s.samples, 100 * (double)s.pass_within / n,
        100 * (double)s.pass_harmed / n, 100 * s.pass_regret, s.seconds);
    fflush(stdout);
    return s;
}

static double error_of(size_t hits, size_t count)
{
    double share = (double)hits / (double)count;

    return 100 * sqrt(share * (1 - share) / (double)count);
}

int main(int argc, char **argv)
{
    static const char *const usual[] = { "2x1x3",  "2x8x3",  "2x50x10", "8x1x10", "8x8x3",
                                         "8x50x5", "64x1x3", "64x8x5",  "64x30x3" };
    static const int lucks[] = { 0, 1, 2, 4 };
    const char *cells[64];
    size_t draws = 100, count = 0;
    uint64_t seed = 1;
    struct sums all = { 0 };

    for (int i = 1; i < argc; i++)
        if (i + 1 < argc && !strcmp(argv[i], "--draws"))
            draws = (size_t)atoi(argv[++i]);
        else if (i + 1 < argc && !strcmp(argv[i], "--seed"))
            seed = (uint64_t)atoll(argv[++i]);
        else if (count < 64)
            cells[count++] = argv[i];
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]) && count == i; i++)
        cells[count++] = usual[i];
    printf("%% of %zu draws; pass: each launch three times, least mean; within 1, 1, 2, 4 %% of "
           "the best\n"
           "launches x     luck  within  or un-   told harmed  regret  worst  claims   over   "
           "starts  pass "
           "samples    pass   pass   pass  CPU s\n"
           "live x ranges              decided                                hold  fixed          "
           "       "
           "        within harmed regret\n",
           draws);
    for (size_t i = 0; i < count; i++) {
        size_t launches, live, buckets;

        if (sscanf(cells[i], "%zux%zux%zu", &launches, &live, &buckets) != 3 ||
            launches * live > ARMS_MOST || launches > LAUNCHES_MOST || buckets > BUCKETS_MOST)
            return 2;
        for (size_t l = 0; l < sizeof(lucks) / sizeof(lucks[0]); l++) {
            struct sums s = run_cell(launches, live, buckets, lucks[l], draws, seed);

            add(&all, &s);
        }
    }
    printf(
        "all: within or undecided %.1f %%; slower than the default launch by more than 1 %%: %.2f "
        "(%.2f) %%; intervals hold the truth: %.1f (%.1f) %% of %zu, over the best fixed plan %.1f "
        "(%.1f) %% of %zu\n",
        100 * (double)(all.within + all.undecided) / (double)all.draws,
        100 * (double)all.harmed / (double)all.draws, error_of(all.harmed, all.draws),
        100 * (double)all.held / (double)all.claims, error_of(all.held, all.claims), all.claims,
        100 * (double)all.fixed_held / (double)all.fixed_claims,
        error_of(all.fixed_held, all.fixed_claims), all.fixed_claims);
    return 0;
}
