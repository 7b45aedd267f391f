/* Tests which launch a table takes, by what the search believes of its plans, and how much the
 * other launches would save. */
#include "check.h"

#include "launch_decision.h"
#include "plan.h"

#include <math.h>

static void of_launches_as_good_the_nearest_is_picked(void)
{
    static const uint32_t apart[] = { 2, 0, 1, 1 };

    CHECK(launch_choose((double[]){ 100, 101, 103, 104 }, apart, 4, 1) == 0);
    CHECK(launch_choose((double[]){ 100, 100.4, 100.3, 104 }, apart, 4, 1) == 1);
    CHECK(launch_choose((double[]){ 100, 101, 100.3, 100.4 }, apart, 4, 1) == 2);
    CHECK(launch_choose((double[]){ NAN, 101, 100.3, 100.4 }, apart, 4, -1) == 2);
    CHECK(launch_choose((double[]){ NAN, NAN, NAN, 900 }, apart, 4, 1) == 3);
    CHECK(launch_choose((double[]){ NAN, NAN }, apart, 2, 1) == -1);
}

static void the_price_is_of_all_time_together(void)
{
    const struct launch_part parts[] = { { 1, log(100), log(50), 0.1 },
                                         { 3, log(300), log(300), 0 } };
    struct gain price = launch_price(parts, 2);

    CHECK(fabs(price.value - 0.05) < 1e-12);
    CHECK(fabs(price.high - (0.05 + 1.96 * 0.005)) < 1e-12 && price.low < price.value);
    CHECK(isnan(launch_price(parts, 0).value));
}

enum { ARMS = 4 };
static const uint32_t launch_of[ARMS] = { 0, 0, 1, 1 };

static void a_launch_shows_its_best_plan_that_ran(void)
{
    static const int64_t ns[ARMS] = { 1000, 900, 500, 0 };
    struct moe_plan arms[ARMS];
    bool usable[ARMS] = { true, true, true, true };
    struct search_setup setup = { .arms = arms, .arm_count = ARMS, .seed = 1 };
    struct launch_part part;
    struct search *search;

    setup.shape = (struct moe_shape)MOE_SHAPE_INIT;
    setup.shape.experts = 8;
    setup.shape.ranks = 4;
    setup.shape.ranks_per_node = 4;
    for (uint32_t i = 0; i < ARMS; i++) {
        arms[i] = plan_default(NULL);
        arms[i].d = 1 << i;
    }
    CHECK(!search_open(search_find("blind"), &setup, &search));
    search_begin(search, 64, usable, false);
    for (int arm = 0; arm < ARMS; arm++)
        for (int n = 0; n < 5 && ns[arm]; n++)
            search_tell_unasked(search, arm, ns[arm]);
    CHECK(launch_live_arm(search, launch_of, 0) == 1);
    CHECK(launch_live_arm(search, launch_of, 1) == 2); /* the other one never ran */
    part = launch_part_of(search, 0, 1);
    CHECK(exp(part.best_log_ns) < 0.7 * exp(part.log_ns));
    CHECK(launch_part_of(search, 2, 1).sd == 0);
    search_drop(search, 2, true);
    CHECK(launch_live_arm(search, launch_of, 1) == 3);
    search_drop(search, 3, true);
    CHECK(launch_live_arm(search, launch_of, 1) == -1);
    search_close(search);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(of_launches_as_good_the_nearest_is_picked),
        TEST(the_price_is_of_all_time_together),
        TEST(a_launch_shows_its_best_plan_that_ran),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
