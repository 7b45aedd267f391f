/* Tests that the search of the paper finds the fastest plan within its count of trials. */
#include "searches.h"

#include "plan.h"
#include "random.h"
#include "shape.h"

/* Every divisor of s with four d and two a, and r = 0. */
static size_t all_arms(uint32_t s, struct moe_plan *arms)
{
    size_t n = 0;

    arms[n] = plan_default(NULL);
    arms[n++].r = 0;
    for (uint32_t r = 1; r <= s; r++)
        for (uint32_t d = 1; s % r == 0 && d <= 8; d *= 2)
            for (uint32_t a = 0; a < 2; a++) {
                arms[n] = plan_default(NULL);
                arms[n].r = r;
                arms[n].d = d;
                arms[n++].a = a;
            }
    return n;
}

/* Falls and then rises along r below s in every (d, a); steps from `flattest`, which may be 0. */
static void unimodal(uint64_t seed, const struct moe_plan *arms, size_t n, int64_t flattest,
                     int64_t *ns)
{
    uint64_t at = 0;

    for (size_t i = 0; i < n; i++)
        ns[i] = 1000000 + (int64_t)random_below(seed, at++, 1000000);
    for (uint32_t line = 0; line < 8; line++) {
        int64_t value = 1000000000 + (int64_t)random_below(seed, at++, 1000);
        uint32_t count = 0, least;

        for (size_t i = 1; i < n; i++)
            count += arms[i].d == 1u << line / 2 && arms[i].a == line % 2;
        least = random_below(seed, at++, count);
        for (size_t i = 1, k = 0; i < n; i++) {
            int64_t step = flattest + (int64_t)random_below(seed, at++, flattest ? 1000000 : 3);

            if (arms[i].d != 1u << line / 2 || arms[i].a != line % 2)
                continue;
            if (k + 1 < count) /* r = s is measured apart and may be anything */
                ns[i] = value += k++ <= least ? -step : step;
            else
                ns[i] = 1000000000 + (int64_t)random_below(seed, at++, 1000000);
        }
    }
    ns[0] = 1000000000 + (int64_t)random_below(seed, at++, 1000000);
}

static int64_t least_of(const int64_t *ns, const bool *usable, size_t n)
{
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < n; i++)
        if ((!usable || usable[i]) && ns[i] < least)
            least = ns[i];
    return least;
}

static void the_paper_s_search_finds_the_least_within_its_count(void)
{
    static struct moe_plan arms[SEARCH_ARMS_MAX];
    int64_t ns[SEARCH_ARMS_MAX];

    for (uint32_t s = 1; s <= 2048; s++) {
        struct moe_shape shape = shared_by(s);
        size_t n = all_arms(s, arms);
        struct search *search = search_for("paper", &shape, arms, n, 1);
        struct search_result v;
        int arm;

        unimodal(s, arms, n, 1, ns);
        search_begin(search, 100, NULL, false);
        while ((arm = search_next(search)) != SEARCH_DONE)
            search_tell(search, arm, ns[arm]);
        v = search_result(search);
        CHECK(v.winner >= 0 && ns[v.winner] == least_of(ns, NULL, n));
        CHECK(v.samples <= shape_paper_trials(&shape) && v.samples == v.arms);
        search_close(search);
    }
}

static void the_paper_s_count_is_that_of_its_formula(void)
{
    static const uint32_t expected[][2] = {
        { 1, 16 }, { 2, 32 }, { 8, 64 }, { 32, 88 }, { 128, 112 }
    };

    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        struct moe_shape shape = shared_by(expected[i][0]);

        CHECK(shape_paper_trials(&shape) == expected[i][1]);
    }
}

static void plateaus_and_failures_do_not_lose_the_least(void)
{
    static struct moe_plan arms[SEARCH_ARMS_MAX];
    int64_t ns[SEARCH_ARMS_MAX];

    for (uint32_t trial = 0; trial < 1500; trial++) {
        uint32_t s = 1 + random_below(1, trial, 720);
        struct moe_shape shape = shared_by(s);
        size_t n = all_arms(s, arms);
        struct search *search = search_for("paper", &shape, arms, n, 1);
        bool fits[SEARCH_ARMS_MAX], dropped[SEARCH_ARMS_MAX] = { false };
        uint32_t from = random_below(2, trial, s + 1), mode = trial % 3;
        int arm;

        unimodal(trial, arms, n, trial % 2, ns);
        for (size_t i = 0; i < n; i++) /* out of memory for small r, for large r, or anywhere */
            fits[i] = mode == 0   ? arms[i].r >= from
                      : mode == 1 ? arms[i].r && arms[i].r <= from
                                  : random_below(trial, i, 4) > 0;
        fits[n - 1] = true;
        search_begin(search, 100, NULL, false);
        while ((arm = search_next(search)) != SEARCH_DONE) {
            CHECK(!dropped[arm]);
            dropped[arm] = !fits[arm];
            if (fits[arm])
                search_tell(search, arm, ns[arm]);
            else
                search_drop(search, arm, true);
        }
        arm = search_result(search).winner;
        CHECK(arm >= 0 && fits[arm] && ns[arm] == least_of(ns, fits, n));
        search_close(search);
    }
}

static void the_paper_s_search_takes_the_median_of_its_repeats(void)
{
    struct moe_shape shape = shared_by(2);
    struct moe_plan arms[2] = { plan_default(NULL), plan_default(NULL) };
    static const int64_t ns[2][3] = { { 100, 900, 110 }, { 105, 106, 95 } };
    struct search *search;
    uint32_t told[2] = { 0, 0 };
    int arm;

    arms[1].r = 2;
    search = search_for("paper", &shape, arms, 2, 3);
    search_begin(search, 1, NULL, false);
    while ((arm = search_next(search)) != SEARCH_DONE)
        search_tell(search, arm, ns[arm][told[arm]++]);
    CHECK(told[0] == 3 && told[1] == 3 && search_result(search).winner == 1);
    search_close(search);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_paper_s_search_finds_the_least_within_its_count),
        TEST(the_paper_s_count_is_that_of_its_formula),
        TEST(plateaus_and_failures_do_not_lose_the_least),
        TEST(the_paper_s_search_takes_the_median_of_its_repeats),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
