/* Tests what a verification leaves of an entry that it did not refute. */
#include "check.h"

#include "ledger.h"
#include "plan.h"

#include <math.h>
#include <string.h>

static const struct moe_shape shape = { .struct_size = sizeof(struct moe_shape),
                                        .experts = 2,
                                        .top_k = 2,
                                        .model_dim = 16,
                                        .hidden_dim = 32,
                                        .ranks = 2,
                                        .ranks_per_node = 2,
                                        .tokens = 64 };

static struct entry_row entry_of(const char *plan, struct gain gain)
{
    struct entry_row e = { .time_us = 1000 * (1 - gain.value),
                           .low_us = 990 * (1 - gain.value),
                           .high_us = 1010 * (1 - gain.value),
                           .default_us = 1000,
                           .gain = gain,
                           .bound = 0.01,
                           .other_us = 2000,
                           .decision = "adopted" };

    CHECK(!moe_plan_parse(plan, &e.plan) && !moe_plan_parse("r=1 d=4 a=linear", &e.other));
    return e;
}

static const struct gain sure = { 0.1, 0.09, 0.11 }, unsure = { 0.001, -0.2, 0.17 },
                         nothing = { -0.01, -0.03, 0.01 };

/* Its plan met the default again, and gained so much. */
static struct entry_row weighed(struct entry_row claim, struct gain found)
{
    struct entry_row e = claim;

    e.gain = found;
    e.time_us = 1005;
    e.low_us = 995;
    e.high_us = 1015;
    ledger_weigh(&shape, &claim, &e);
    return e;
}

static void times_follow_the_gain(void)
{
    struct entry_row e = weighed(entry_of("r=0", sure), (struct gain){ 0.05, 0.01, 0.09 });

    CHECK(e.plan.r == 0 && !strcmp(e.decision, "adopted") && e.gain.value == 0.05);
    CHECK(e.time_us == 950 && e.low_us < 950 && e.high_us > 950 && !entry_fault(&e, &shape, NULL));
    CHECK(fabs(e.other_us / e.time_us - 2000.0 / 1005) < 1e-9);
}

static void a_sure_claim_outweighs_one_bad_hour(void)
{
    struct entry_row e = weighed(entry_of("r=0", sure), nothing);

    CHECK(e.plan.r == 0 && !strcmp(e.decision, "incumbent"));
    CHECK(e.gain.value > 0.05 && e.gain.value < 0.1);
    CHECK(e.gain.low < e.gain.value && e.gain.high > e.gain.value && e.gain.low > sure.low - 0.03);
    CHECK(!entry_fault(&e, &shape, NULL));
}

static void takes_the_default(struct entry_row e)
{
    CHECK(plan_is_default(&e.plan, &shape) && !strcmp(e.decision, "default") && !e.inferred);
    CHECK(e.time_us == e.default_us && e.gain.value == 0 && !e.other.struct_size && !e.other_us);
}

static void what_gains_nothing_by_both_gives_way_to_the_default(void)
{
    struct entry_row inferred = entry_of("r=0", sure), stale = inferred, unsound = inferred;
    static const struct claim_fault fault = { "gain", "is wrong" };

    takes_the_default(weighed(entry_of("r=0", unsure), nothing));
    inferred.inferred = stale.stale = true;
    unsound.fault = &fault;
    takes_the_default(weighed(inferred, nothing)); /* nobody measured it */
    takes_the_default(weighed(stale, nothing));
    takes_the_default(weighed(unsound, nothing));
}

static void where_the_default_cannot_run_the_plan_stays(void)
{
    struct entry_row e = weighed(entry_of("r=0", sure), (struct gain)GAIN_UNKNOWN);

    CHECK(e.plan.r == 0 && !strcmp(e.decision, "incumbent") && e.time_us == 1005);
}

static void the_default_plan_is_left_alone(void)
{
    struct entry_row e = weighed(entry_of("r=1", sure), nothing);

    CHECK(e.time_us == 1005 && e.gain.value == nothing.value && !strcmp(e.decision, "adopted"));
}

int main(void)
{
    static const struct test tests[] = {
        TEST(times_follow_the_gain),
        TEST(a_sure_claim_outweighs_one_bad_hour),
        TEST(what_gains_nothing_by_both_gives_way_to_the_default),
        TEST(where_the_default_cannot_run_the_plan_stays),
        TEST(the_default_plan_is_left_alone),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
