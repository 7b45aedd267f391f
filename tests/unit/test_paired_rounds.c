/* What rounds say of a table, on made-up times whose truth is known. */
#include "paired_rounds.h"

#include "check.h"
#include "random.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Disturbances that hit a whole round, noise of each step, and now and then one three times as
 * long. */
static double disturbed(double ns, uint64_t seed, size_t round, size_t step)
{
    double common = random_below(seed, round, 5) ? 1 : 2.5;
    double noise = .05 * (random_unit(seed + 1, step) + random_unit(seed + 2, step));

    return ns * common * exp(noise) * (random_below(seed + 3, step, 30) ? 1 : 3);
}

/* truth[bucket * plans + plan] */
static struct paired_rounds made_up(const double *truth, size_t buckets, size_t plans,
                                    size_t visits, uint64_t seed)
{
    struct paired_rounds r = { .plans = plans, .buckets = buckets };
    double ns[ROUNDS_PLANS];
    size_t step = 0;

    for (size_t i = 0; i < visits; i++)
        CHECK(!paired_rounds_grow(&r));
    for (size_t i = 0; i < r.count; i++)
        for (size_t b = 0; b < buckets; b++) {
            for (size_t p = 0; p < plans; p++)
                ns[p] = disturbed(truth[b * plans + p], seed, i * buckets + b, step++);
            paired_rounds_tell(&r, i, b, ns);
        }
    return r;
}

static struct estimate estimated(const double *truth, size_t buckets, size_t plans, size_t visits,
                                 const int *table, uint64_t seed)
{
    struct paired_rounds r = made_up(truth, buckets, plans, visits, seed);
    struct estimate e = { 0 };

    CHECK(!paired_rounds_estimate(&r, table, 0, seed, &e));
    paired_rounds_free(&r);
    return e;
}

static bool near(double a, double b, double within)
{
    return fabs(a - b) < within;
}

/* Plan 0 is the default; 1 is best in bucket 0, 2 in bucket 1, 3 is the best of all buckets. */
static const double two_buckets[] = { 100, 50, 90, 60, 200, 180, 100, 120 };

static void ratios_are_those_of_the_truth(void)
{
    static const int table[] = { 1, 0 };
    struct estimate e = estimated(two_buckets, 2, 4, 30, table, 7);

    CHECK(near(e.over_default.value, 250. / 300, .02));
    CHECK(near(e.over_static.value, 250. / 180, .03));
    CHECK(near(e.over_best.value, 250. / 150, .03));
    CHECK(near(e.bucket_regret[0].value, 0, .02));
    CHECK(near(e.bucket_regret[1].value, 1, .04));
    CHECK(near(e.regret.value, .5, .03));
    CHECK(near(e.bucket_gain[0].value, .5, .02));
    CHECK(near(e.bucket_gain[1].value, 0, 1e-9));
    CHECK(e.static_plan[0] == 3 && e.static_plan[1] == 3);
}

static void intervals_hold_the_truth(void)
{
    static const int table[] = { 3, 3 };
    int inside[3] = { 0 };

    for (uint64_t seed = 0; seed < 100; seed++) {
        struct estimate e = estimated(two_buckets, 2, 4, 6, table, 100 * seed);

        inside[0] += e.over_default.low <= .6 && .6 <= e.over_default.high;
        inside[1] += e.over_best.low <= 1.2 && 1.2 <= e.over_best.high;
        inside[2] += e.bucket_gain[0].low <= .4 && .4 <= e.bucket_gain[0].high;
    }
    for (int i = 0; i < 3; i++)
        CHECK(inside[i] >= 85);
}

/* Sixteen plans that are all the same: the fastest of them by luck is no rival. */
static void the_luckiest_plan_is_no_bias(void)
{
    static const int table[4] = { 5, 5, 5, 5 };
    double truth[4 * 16], over_static = 0, regret = 0;

    for (size_t i = 0; i < sizeof(truth) / sizeof(truth[0]); i++)
        truth[i] = 100;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct estimate e = estimated(truth, 4, 16, 4, table, 100 * seed);

        over_static += e.over_static.value / 20;
        regret += e.regret.value / 20;
    }
    CHECK(near(over_static, 1, .01));
    CHECK(near(regret, 0, .01));
}

static void a_plan_that_fails_is_nobodys_rival(void)
{
    static const int table[] = { 0 };
    static const double ns[] = { 100, INFINITY, 90 };
    struct paired_rounds r = { .plans = 3, .buckets = 1 };
    struct estimate e;

    CHECK(!paired_rounds_grow(&r) && !paired_rounds_grow(&r));
    for (size_t i = 0; i < r.count; i++)
        paired_rounds_tell(&r, i, 0, ns);
    CHECK(!paired_rounds_estimate(&r, table, 0, 1, &e));
    CHECK(e.static_plan[0] == 2 && e.static_plan[1] == 2);
    CHECK(near(e.over_best.value, 100. / 90, 1e-9));
    paired_rounds_free(&r);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(ratios_are_those_of_the_truth),
        TEST(intervals_hold_the_truth),
        TEST(the_luckiest_plan_is_no_bias),
        TEST(a_plan_that_fails_is_nobodys_rival),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
