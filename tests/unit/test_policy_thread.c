/* Tests a trainer's loop whose policy runs on its own thread, on a virtual clock: how long a step
 * waits for its answer, and that the answers are those of a trainer that asks between steps. */
#include "check.h"

#include "policy_thread.h"
#include "random.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { EXPERTS = 8, STEPS = 400, EVERY = 40 };
static const int64_t step_ns = 1000000;

static struct moe_capacities *open_controller(uint32_t delta)
{
    struct moe_capacities_options o = MOE_CAPACITIES_OPTIONS_INIT;
    struct moe_capacities *c = NULL;

    o.experts = EXPERTS;
    o.ranks = 4;
    o.most = 1000;
    o.start = 120;
    o.hold = 20;
    o.gap = 10;
    o.delta = delta;
    CHECK(!moe_capacities_open(&o, &c));
    return c;
}

static void counts_of(uint64_t step, uint32_t *counts)
{
    for (uint32_t e = 0; e < EXPERTS; e++)
        counts[e] = 100 + random_below(7, step / 30 * EXPERTS + e, 150) + random_below(e, step, 9);
}

/* Now and then a step's policy takes long: a re-plan that prepares what the new rows want. */
struct pad {
    int64_t ns;
    uint32_t every;
};

static int64_t padded_ns(void *self, uint64_t step)
{
    const struct pad *pad = self;

    return step % pad->every == 5 % pad->every ? pad->ns : 0;
}

static bool same_answer(const struct policy_answer *a, struct moe_capacities *alone, uint64_t step)
{
    struct moe_capacities_state state = MOE_CAPACITIES_STATE_INIT;
    const uint32_t *rows;

    return !a->status && !moe_capacities_at(alone, step, &rows, &state) &&
           !memcmp(rows, a->rows, EXPERTS * sizeof(*rows)) && a->state.key == state.key &&
           a->state.first == state.first && a->state.replans == state.replans &&
           a->state.digest == state.digest;
}

/* Total stall, in ns; `alone` is asked and fed in step. */
static int64_t train(uint32_t delta, struct pad *pad, uint64_t *replans)
{
    struct moe_capacities *beside = open_controller(delta), *alone = open_controller(delta);
    struct policy_setup setup = {
        .capacities = beside, .experts = EXPERTS, .delta = delta, .work_ns = padded_ns, .self = pad
    };
    struct policy *policy = NULL;
    int64_t now_ns = 0, stall_ns = 0;
    uint32_t counts[EXPERTS];

    CHECK(!policy_open(&setup, &policy));
    for (uint64_t step = 0; step < STEPS && !check_failures; step++) {
        struct policy_answer answer;

        policy_answer(policy, step, &answer);
        if (answer.ready_ns > now_ns) {
            stall_ns += answer.ready_ns - now_ns;
            now_ns = answer.ready_ns;
        }
        CHECK(same_answer(&answer, alone, step));
        *replans = answer.state.replans;
        counts_of(step, counts);
        policy_counts(policy, step, counts, now_ns); /* routing is what a step begins with */
        CHECK(!moe_capacities_feed(alone, step, counts, EXPERTS));
        now_ns += step_ns;
    }
    policy_close(policy);
    moe_capacities_close(beside);
    moe_capacities_close(alone);
    return stall_ns;
}

static void a_policy_shorter_than_delta_steps_costs_nothing(void)
{
    for (uint32_t delta = 1; delta <= 5; delta++)
        for (int tenth = 0; tenth <= 10; tenth++) {
            struct pad pad = { delta * step_ns * tenth / 10, EVERY };
            uint64_t replans;

            CHECK(train(delta, &pad, &replans) == 0);
            CHECK(replans > 5);
        }
}

static void a_longer_one_costs_what_is_beyond_delta_steps(void)
{
    for (uint32_t delta = 1; delta <= 5; delta++)
        for (int tenth = 11; tenth <= 30; tenth += 3) {
            struct pad pad = { delta * step_ns * tenth / 10, EVERY };
            uint64_t replans;
            double wanted = (double)(pad.ns - delta * step_ns) * (STEPS / EVERY);
            double stall = (double)train(delta, &pad, &replans);

            CHECK(stall >= .9 * wanted && stall <= 1.1 * wanted);
        }
}

/* One thread cannot keep up with a policy that takes more than a step at every step, whatever delta
 * is. */
static void a_policy_that_is_always_longer_than_a_step_sets_the_pace(void)
{
    struct pad pad = { step_ns * 3 / 2, 1 };
    uint64_t replans;
    double stall = (double)train(3, &pad, &replans), wanted = STEPS * .5 * (double)step_ns;

    CHECK(stall >= .9 * wanted && stall <= 1.1 * wanted);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_policy_shorter_than_delta_steps_costs_nothing),
        TEST(a_longer_one_costs_what_is_beyond_delta_steps),
        TEST(a_policy_that_is_always_longer_than_a_step_sets_the_pace),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
