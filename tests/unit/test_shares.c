/* Tests work that is divided among ranks by their speeds. */
#include "check.h"

#include "moelookup.h"
#include "random.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MOST = 9, DRAWS = 1000000 };

static void shares_are(const double *speeds, uint32_t ranks, uint64_t total, uint64_t grain,
                       const uint64_t *wanted)
{
    uint64_t out[RANKS_MOST];

    CHECK(moe_shares(speeds, ranks, total, grain, out) == MOE_OK);
    CHECK(!memcmp(out, wanted, ranks * sizeof(*out)));
}

static void shares_follow_speeds(void)
{
    static const double speeds[] = { 1, 1.5, 2 }, equal[] = { 3, 3, 3 }, two[] = { .4, .6 };

    shares_are(speeds, 3, 9, 1, (uint64_t[]){ 2, 3, 4 });
    shares_are(speeds, 3, 4096, 1, (uint64_t[]){ 910, 1365, 1821 });
    shares_are(speeds, 3, 1024, 8, (uint64_t[]){ 224, 344, 456 });
    shares_are(equal, 3, 0, 1, (uint64_t[]){ 0, 0, 0 });
    shares_are(two, 2, 1000, 1, (uint64_t[]){ 400, 600 });
    shares_are(two, 1, UINT64_C(1) << 48, 1, (uint64_t[]){ UINT64_C(1) << 48 });
}

static void ties_go_to_the_lower_rank(void)
{
    static const double equal[] = { 1, 1, 1, 1 };

    shares_are(equal, 4, 2, 1, (uint64_t[]){ 1, 1, 0, 0 });
    shares_are(equal, 4, 7, 1, (uint64_t[]){ 2, 2, 2, 1 });
    shares_are(equal, 4, 20, 8, (uint64_t[]){ 8, 8, 4, 0 });
}

/* 5 each are a grain of 4 and 1 more; of the 2 that are left, no whole grain can be made. */
static void less_than_a_grain_stays_in_one_piece(void)
{
    static const double equal[] = { 1, 1 }, unequal[] = { .26, .74 };

    shares_are(equal, 2, 10, 4, (uint64_t[]){ 6, 4 });
    shares_are(unequal, 2, 3, 2, (uint64_t[]){ 1, 2 });
    shares_are(unequal, 2, 1, 4, (uint64_t[]){ 0, 1 });
}

static void what_cannot_be_divided_by_is_refused_and_the_output_left_alone(void)
{
    static const double odd[] = { 0, -1, NAN, INFINITY, -INFINITY, -0.0 };
    double speeds[3] = { 1, 1, 1 };
    uint64_t out[3] = { 7, 8, 9 }, same[3] = { 7, 8, 9 };

    CHECK(moe_shares(NULL, 3, 9, 1, out) == MOE_ERR_ARGUMENT);
    CHECK(moe_shares(speeds, 3, 9, 1, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moe_shares(speeds, 0, 9, 1, out) == MOE_ERR_ARGUMENT);
    CHECK(moe_shares(speeds, 3, 9, 0, out) == MOE_ERR_ARGUMENT);
    CHECK(moe_shares(speeds, 3, UINT64_MAX, 1, out) == MOE_ERR_ARGUMENT);
    CHECK(moe_shares(speeds, 3, (UINT64_C(1) << 48) + 1, 1, out) == MOE_ERR_ARGUMENT);
    for (size_t i = 0; i < 3 * sizeof(odd) / sizeof(odd[0]); i++) {
        speeds[i % 3] = odd[i / 3];
        CHECK(moe_shares(speeds, 3, 9, 1, out) == MOE_ERR_ARGUMENT);
        speeds[i % 3] = 1;
    }
    CHECK(!memcmp(out, same, sizeof(out)));
}

static void speeds_of_any_size_are_divided_by(void)
{
    static const double large[] = { DBL_MAX, DBL_MAX / 2 }, apart[] = { DBL_MAX, DBL_TRUE_MIN };
    static const double small[] = { 2 * DBL_TRUE_MIN, DBL_TRUE_MIN };
    static const double least[] = { DBL_MIN, DBL_MIN / 2 };

    shares_are(large, 2, 300, 1, (uint64_t[]){ 200, 100 });
    shares_are(small, 2, 300, 1, (uint64_t[]){ 200, 100 });
    shares_are(least, 2, 300, 1, (uint64_t[]){ 200, 100 });
    shares_are(apart, 2, 300, 1, (uint64_t[]){ 300, 0 });
    shares_are(large, 2, 300, UINT64_MAX, (uint64_t[]){ 300, 0 });
}

/* 514 + 256: the first rank gets 512 + 255, and 256 / 514 is what each of the others is short of.
 */
static void the_last_bit_of_a_slow_ranks_speed_counts(void)
{
    static const double speeds[] = { 512, 1, 1 + DBL_EPSILON }, equal[] = { 512, 1, 1 };

    shares_are(speeds, 3, 770, 1, (uint64_t[]){ 767, 1, 2 });
    shares_are(equal, 3, 770, 1, (uint64_t[]){ 767, 2, 1 });
}

struct draw {
    double speeds[RANKS_MOST];
    uint32_t ranks;
    uint64_t total, grain, out[RANKS_MOST];
};

static uint64_t number(uint64_t key, uint64_t at, unsigned bits_most)
{
    return random_bits(key, at) >> (64 - bits_most) >> random_below(key, at + 1, bits_most);
}

static double random_speed(uint64_t key, uint64_t at)
{
    switch (random_below(key, at, 4)) {
    case 0: return 1 + random_below(key, at + 1, 5); /* ties */
    case 1: return (1 + random_below(key, at + 1, 100)) / 100.0;
    case 2: return ldexp(1 + (double)number(key, at + 1, 30), -(int)random_below(key, at + 3, 40));
    default: return 1.0 + random_unit(key, at + 1) / 2;
    }
}

static void make_draw(uint64_t key, struct draw *d)
{
    d->ranks = 1 + random_below(key, 0, RANKS_MOST);
    d->total = number(key, 1, 48);
    d->grain = 1 + number(key, 3, random_below(key, 5, 2) ? 8 : 40);
    for (uint32_t q = 0; q < d->ranks; q++)
        d->speeds[q] = random_speed(key, 10 + 10 * q);
}

/* A share is what the speed says, give or take less than a grain; a double has bits to spare. */
static bool is_fair(const struct draw *d)
{
    long double sum = 0;
    bool fair = true;

    for (uint32_t q = 0; q < d->ranks; q++)
        sum += d->speeds[q];
    for (uint32_t q = 0; q < d->ranks; q++) {
        long double ideal = (long double)d->total * d->speeds[q] / sum;

        fair = fair && fabsl((long double)d->out[q] - ideal) < (long double)d->grain + 1e-3L;
    }
    return fair;
}

static bool is_whole(const struct draw *d)
{
    uint64_t sum = 0;
    int broken = 0;

    for (uint32_t q = 0; q < d->ranks; q++) {
        sum += d->out[q];
        broken += d->out[q] % d->grain != 0;
    }
    return sum == d->total && broken == (d->total % d->grain != 0);
}

static bool is_in_order(const struct draw *d)
{
    bool in_order = true;

    for (uint32_t p = 0; p < d->ranks; p++)
        for (uint32_t q = 0; q < d->ranks; q++) {
            bool first = d->speeds[p] > d->speeds[q] || (d->speeds[p] == d->speeds[q] && p < q);

            in_order = in_order && (!first || d->out[p] >= d->out[q]);
        }
    return in_order;
}

static void a_million_draws_are_divided_wholly_and_fairly(void)
{
    struct draw d;

    for (uint64_t key = 1; key <= DRAWS; key++) {
        make_draw(key, &d);
        CHECK(moe_shares(d.speeds, d.ranks, d.total, d.grain, d.out) == MOE_OK);
        CHECK(is_whole(&d));
        CHECK(is_fair(&d));
        CHECK(is_in_order(&d));
        if (check_failures)
            return;
    }
}

static void another_unit_of_speed_changes_nothing(void)
{
    struct draw d, again;

    for (uint64_t key = 1; key <= DRAWS / 100; key++) {
        make_draw(key, &d);
        again = d;
        for (uint32_t q = 0; q < d.ranks; q++)
            again.speeds[q] = ldexp(d.speeds[q], -300);
        moe_shares(d.speeds, d.ranks, d.total, d.grain, d.out);
        moe_shares(again.speeds, d.ranks, d.total, d.grain, again.out);
        CHECK(!memcmp(d.out, again.out, d.ranks * sizeof(*d.out)));
    }
}

static void many_ranks_are_divided_among(void)
{
    enum { MANY = 65536 };
    double *speeds = malloc(MANY * sizeof(*speeds));
    uint64_t *out = malloc(MANY * sizeof(*out)), sum = 0;

    for (int q = 0; speeds && q < MANY; q++)
        speeds[q] = 1 + q % 3;
    CHECK(speeds && out && moe_shares(speeds, MANY, 1234567, 1, out) == MOE_OK);
    for (int q = 0; out && q < MANY; q++)
        sum += out[q];
    CHECK(sum == 1234567);
    free(speeds);
    free(out);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(shares_follow_speeds),
        TEST(ties_go_to_the_lower_rank),
        TEST(less_than_a_grain_stays_in_one_piece),
        TEST(what_cannot_be_divided_by_is_refused_and_the_output_left_alone),
        TEST(speeds_of_any_size_are_divided_by),
        TEST(the_last_bit_of_a_slow_ranks_speed_counts),
        TEST(a_million_draws_are_divided_wholly_and_fairly),
        TEST(another_unit_of_speed_changes_nothing),
        TEST(many_ranks_are_divided_among),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
