/* Tests how many steps of a launch make a sample, against trying all numbers. */
#include "launches.h"

#include "check.h"
#include "folder.h"

#include <math.h>

static double between(double low, double high)
{
    return low * pow(high / low, draw(1000001) * 1e-6);
}

/* Launches that all cost the same. */
static struct launch_cost cost_of(double start_s, double step_s, uint32_t steps, uint32_t launches)
{
    struct launch_cost cost = { .last_step_ns = 0 };
    int64_t now = 1;

    for (uint32_t i = 0; i < launches; i++) {
        launch_cost_started(&cost, now);
        now += (int64_t)(0.75e9 * start_s);
        for (uint32_t s = 0; s < steps; s++) {
            launch_cost_question(&cost, now);
            now += (int64_t)(1e9 * step_s);
            launch_cost_step(&cost, now);
        }
        now += (int64_t)(0.25e9 * start_s);
        launch_cost_ended(&cost, now);
    }
    return cost;
}

/* What a sample of n steps costs, times its variance. */
static double price(uint32_t n, double start_s, double step_s, double scatter)
{
    return (start_s + n * step_s) * (0.02 * 0.02 + scatter * scatter / n);
}

static void the_fewest_steps_are_taken_that_are_nearly_the_best(void)
{
    draw_from_seed();
    for (int i = 0; i < 300; i++) {
        double start_s = between(0.1, 300), step_s = between(1e-3, 3), scatter = between(1e-3, 0.5);
        uint32_t samples = 1 + draw(9), pace;
        struct launch_cost cost = cost_of(start_s, step_s, 20, 7);
        struct watched_bucket buckets = { .samples = 7 * samples, .spare = 7 * (20 - samples) };
        double least = INFINITY;

        /* With what is guessed of four more. */
        buckets.squares = scatter * scatter * (buckets.spare + 4) - 4 * 0.05 * 0.05;
        pace = launch_pace(&cost, &buckets);
        CHECK(pace >= LAUNCH_STEPS_LEAST && pace <= TUNE_LAUNCH_STEPS_MAX);
        for (uint32_t n = 1; n < 5000; n++)
            least = fmin(least, price(n, start_s / samples, step_s, scatter));
        CHECK(pace == TUNE_LAUNCH_STEPS_MAX || pace == LAUNCH_STEPS_LEAST ||
              price(pace, start_s / samples, step_s, scatter) < 1.27 * least);
        CHECK(pace == LAUNCH_STEPS_LEAST ||
              price(pace - 1, start_s / samples, step_s, scatter) > 1.22 * least);
        /* Never beyond what is best: there each step more makes samples dearer. */
        CHECK(pace == LAUNCH_STEPS_LEAST ||
              price(pace, start_s / samples, step_s, scatter) <
                  price(pace - 1, start_s / samples, step_s, scatter));
    }
}

static void nothing_is_concluded_from_nothing(void)
{
    struct launch_cost cost = cost_of(60, 1, 20, 1);
    struct watched_bucket none = { .samples = 0 },
                          some = { .samples = 4, .spare = 16, .squares = 0.16 };

    CHECK(launch_pace(&cost, &none) == LAUNCH_STEPS_LEAST);
    CHECK(launch_pace(&cost, &some) > LAUNCH_STEPS_LEAST);
    cost = (struct launch_cost){ .last_step_ns = 0 };
    CHECK(launch_pace(&cost, &some) == LAUNCH_STEPS_LEAST);
    launch_cost_started(&cost, 5);
    launch_cost_ended(&cost, 500); /* it asked nothing */
    CHECK(!(cost.inside_ns > 0) && !(cost.outside_ns > 0));
    launch_cost_started(&cost, 600);
    launch_cost_question(&cost, 700);
    launch_cost_step(&cost, 800);
    launch_cost_ended(&cost, -1); /* it hung */
    CHECK(!(cost.inside_ns > 0) && !(cost.outside_ns > 0));
}

static void no_step_counts_for_more_than_twice_their_median(void)
{
    for (int i = 0; i < 200; i++) {
        uint32_t n = 1 + draw(TUNE_LAUNCH_STEPS_MAX);
        struct watched_bucket watched = { .steps = 0 };
        double mean = 0, log_mean = 0, squares = 0;
        int64_t ns[TUNE_LAUNCH_STEPS_MAX], sample = 0;

        for (uint32_t s = 0; s < n; s++) {
            ns[s] = 1000 + draw(500);
            mean += (double)ns[s] / n;
            log_mean += log((double)ns[s]) / n;
        }
        for (uint32_t s = 0; s < n; s++) {
            squares += pow(log((double)ns[s]) - log_mean, 2);
            CHECK(watched_add_step(&watched, ns[s], n, &sample) == (s + 1 == n));
        }
        CHECK(fabs((double)sample - mean) < 0.51);
        CHECK(watched.samples == 1 && watched.spare == n - 1 && !watched.steps && watched.learnt);
        CHECK(fabs(watched.squares - squares) < 1e-9);
        if (n < 5)
            continue;
        ns[n - 1] = INT64_MAX / 2;
        for (uint32_t s = 0; s < n; s++)
            watched_add_step(&watched, ns[s], n, &sample);
        CHECK(sample >= 1000 && (double)sample <= 1500 + 2 * 1500. / n + 1);
    }
}

static const struct test tests[] = {
    TEST(the_fewest_steps_are_taken_that_are_nearly_the_best),
    TEST(nothing_is_concluded_from_nothing),
    TEST(no_step_counts_for_more_than_twice_their_median),
};

int main(void)
{
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
