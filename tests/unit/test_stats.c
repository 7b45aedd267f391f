/* Tests medians, their confidence intervals and quantiles, against counting and sorting. */
#include "check.h"

#include "overlap.h"
#include "random.h"
#include "stats.h"

#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void the_median_interval_covers_what_it_says_and_no_more(void)
{
    for (size_t n = 6; n <= 60; n++) {
        size_t low, high;
        double outside = 0, wider = 0, p = 1;

        median_interval(n, 0.95, &low, &high);
        CHECK(low < n / 2 && high == n - 1 - low);
        for (size_t i = 0; i < n; i++)
            p /= 2;
        /* brute force: the chance that at most `low` of n fair coins fall heads, twice */
        for (size_t i = 0; i <= low + 1; i++) {
            if (i <= low)
                outside += 2 * p;
            wider += 2 * p;
            p = p * (double)(n - i) / (double)(i + 1);
        }
        CHECK(outside <= 0.05 && wider > 0.05);
    }
}

static void quantiles_agree_with_sorting(void)
{
    uint64_t seed = test_seed();

    for (uint64_t round = 0; round < 300; round++) {
        int64_t samples[64], sorted[64];
        size_t n = 1 + random_below(seed, round, 64);
        struct spread s;

        for (size_t i = 0; i < n; i++)
            samples[i] = (int64_t)random_below(seed + 1, round * 64 + i, 50);
        memcpy(sorted, samples, sizeof(sorted));
        qsort(sorted, n, sizeof(*sorted), ascending);
        s = spread_of(samples, n);
        CHECK(s.min_ns == sorted[0]);
        CHECK(s.median_ns == (n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2));
        CHECK(s.low_ns <= s.median_ns && s.median_ns <= s.high_ns);
        CHECK(s.p95_ns >= s.median_ns && s.p95_ns <= sorted[n - 1]);
    }
}

/* Chunks hide exchanges: what they gain beyond these has another reason, which is named. */
static void what_overlap_cannot_hide_is_said(void)
{
    struct step_halves whole = {
        { .median_ns = 44000000, .low_ns = 42000000, .high_ns = 46000000, .count = 9 },
        40000000,
        4000000
    };
    struct step_halves cut = {
        { .median_ns = 31000000, .low_ns = 30000000, .high_ns = 32000000, .count = 9 },
        29000000,
        5000000
    };
    char text[BEYOND_TEXT_BYTES];

    overlap_beyond(&whole, &cut, text);
    CHECK(strstr(text, "gains 13 ms over d=1, where all exchanges take 4 ms: it computes faster "
                       "(29 ms instead of 40, alone)"));
    cut.compute_ns = whole.compute_ns;
    overlap_beyond(&whole, &cut, text);
    CHECK(strstr(text, "perhaps other work on the machine"));
    whole.steps.low_ns = 35000000; /* 3 ms are certain, and 4 can be hidden */
    overlap_beyond(&whole, &cut, text);
    CHECK(!*text);
    whole.steps.low_ns = 42000000;
    whole.comm_ns = 0; /* nothing is known of exchanges */
    overlap_beyond(&whole, &cut, text);
    CHECK(!*text);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_median_interval_covers_what_it_says_and_no_more),
        TEST(quantiles_agree_with_sorting),
        TEST(what_overlap_cannot_hide_is_said),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
