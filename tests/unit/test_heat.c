/* Tests what is recorded when heat or other processes slow a measurement down. */
#include "check.h"

#include "heat.h"
#include "store.h"

#include <stdbool.h>
#include <string.h>

static bool heat_says(const struct heat *heat, const char *text)
{
    char said_of_it[HEAT_TEXT_BYTES];

    heat_text(heat, said_of_it);
    return !strcmp(said_of_it, text);
}

static void heat_is_counted_and_said_as_far_as_it_is_known(void)
{
    static const struct sample_row samples[] = {
        { .ns = 100 },
        { .ns = 100, .gpu = { 1755, SAMPLE_FREE } },
        { .ns = 100, .gpu = { 1410, SAMPLE_DISTURBED } },
        { .ns = 100, .gpu = { 1500, SAMPLE_SET_ASIDE } },
    };
    struct heat heat = { 0 }, both = { 0 }, cool = { .steps = 200 };

    CHECK(heat_says(&heat, "") && !heat_is_worrying(&heat));
    for (int i = 0; i < 4; i++) {
        heat_add(&heat, &samples[i]);
        if (i == 0)
            CHECK(heat_says(&heat, ""));
        if (i == 1)
            CHECK(heat_says(&heat, "SM clock 1755 to 1755 MHz") && !heat_is_worrying(&heat));
    }
    CHECK(heat_says(&heat, "2 of 4 steps throttled, 1 of them taken again; SM clock 1410 to 1755 "
                           "MHz"));
    CHECK(heat_is_worrying(&heat));
    heat_join(&both, &heat);
    heat_join(&both, &cool);
    CHECK(both.steps == 204 && both.throttled.steps == 2 && both.clock_low_mhz == 1410);
    CHECK(!heat_is_worrying(&both)); /* one in a hundred */
    CHECK(heat_counted(&both) == 1);
}

static bool others_say(const struct heat *heat, const char *text)
{
    char said_of_it[HEAT_TEXT_BYTES];

    heat_others_text(heat, said_of_it);
    return !strcmp(said_of_it, text);
}

static void a_twentieth_of_a_step_is_not_much_and_more_is(void)
{
    struct sample_row lost = { .ns = 1000, .lost_ns = 51 };

    CHECK(!heat_lost_much(1000, 0) && !heat_lost_much(1000, 50) && heat_lost_much(1000, 51));
    CHECK(!heat_lost_much(0, 0));
    for (int64_t ns = 0; ns < 100; ns++)
        for (int64_t much = 0; much < 10; much++)
            CHECK(heat_lost_much(ns, much) == (20 * much > ns));
    CHECK(heat_lost_much(INT64_MAX, INT64_MAX) && heat_lost_much(1, INT64_MAX));
    CHECK(!heat_lost_much(INT64_MAX, 1) && !heat_lost_much(1, INT64_MIN));
    CHECK(heat_cause(&lost) == CAUSE_NONE); /* nobody has judged it */
    lost.gpu.throttled = SAMPLE_SET_ASIDE;
    CHECK(heat_cause(&lost) == CAUSE_OTHERS);
    lost.lost_ns = 50;
    CHECK(heat_cause(&lost) == CAUSE_HEAT);
}

static void other_processes_are_told_apart_from_heat(void)
{
    struct sample_row free_step = { .ns = 100, .lost_ns = 5 };
    struct sample_row aside = { .ns = 100, .gpu = { 0, SAMPLE_SET_ASIDE }, .lost_ns = 50 };
    struct sample_row counts = { .ns = 100, .gpu = { 0, SAMPLE_DISTURBED }, .lost_ns = 50 };
    struct heat heat = { 0 };

    heat_add(&heat, &free_step);
    CHECK(others_say(&heat, "") && heat_says(&heat, ""));
    heat_add(&heat, &aside);
    CHECK(others_say(&heat, "1 of 2 steps slowed by other processes, and taken again"));
    heat_add(&heat, &counts);
    CHECK(others_say(&heat, "2 of 3 steps slowed by other processes: 1 taken again, 1 kept"));
    CHECK(heat_says(&heat, "") && !heat_is_worrying(&heat) && heat_counted(&heat) == 1);
    heat = (struct heat){ 0 };
    heat_add(&heat, &aside);
    heat_add(&heat, &counts);
    CHECK(others_say(&heat, "every step was disturbed by other processes: 1 were taken again, 1 "
                            "kept, for this is how the machine runs"));
}

int main(void)
{
    static const struct test tests[] = {
        TEST(heat_is_counted_and_said_as_far_as_it_is_known),
        TEST(a_twentieth_of_a_step_is_not_much_and_more_is),
        TEST(other_processes_are_told_apart_from_heat),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
