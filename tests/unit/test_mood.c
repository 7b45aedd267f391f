/* Tests shared noise, which makes all plans slower for a while: the search notices when it changes,
 * and is not misled by it. */
#include "check.h"

#include "decision.h"
#include "history.h"
#include "plan.h"
#include "random.h"
#include "status.h"
#include "surface.h"

#include <math.h>

static const double noise_sd = 0.05;

/* Steps that take what was expected; `shift` more from the `first` on. */
static void draw(uint64_t seed, size_t count, size_t first, double shift, struct surprise *steps)
{
    for (size_t i = 0; i < count; i++)
        steps[i] =
            (struct surprise){ .above = noise_sd * normal_draw(seed, i) + (i >= first ? shift : 0),
                               .variance = noise_sd * noise_sd };
}

static void a_calm_machine_does_not_turn(void)
{
    struct surprise steps[12];
    int turned = 0;

    for (uint64_t seed = 0; seed < 10000; seed++) {
        draw(seed, 12, 12, 0, steps);
        turned += find_change_point(steps, 12) >= 0;
    }
    CHECK(turned < 30);
}

/* A slow step just before it may be taken for its first. */
static void a_burst_is_found_where_it_began_and_where_it_ended(void)
{
    int exact = 0, near = 0;

    for (uint64_t seed = 0; seed < 500; seed++) {
        size_t first = 3 + seed % 7;
        struct surprise steps[12];
        int turn;

        draw(seed, first + 3, first, 0.4, steps);
        turn = find_change_point(steps, first + 3);
        exact += turn == (int)first;
        near += turn >= (int)first - 1 && turn <= (int)first + 1;
        draw(seed, first + 1, first, -0.4, steps);
        exact += find_change_point(steps, first + 1) == (int)first;
    }
    CHECK(exact > 930);
    CHECK(near > 480);
}

/* What the search is tried on: without noise a step shows the shared noise alone. */
static void a_mood_that_switches_lasts_10_to_40_steps_and_slows_by_1_25_to_1_6(void)
{
    static const double true_ns = 1e12;

    for (uint64_t seed = 0; seed < 20; seed++) {
        struct noise noise = noise_make(seed, 0, 0, false);
        int lasts = 0, turns = 0;
        double before = 1;

        noise_set_turns(&noise, NOISE_SWITCHES);
        for (int i = 0; i < 2000; i++) {
            double slower = (double)noise_sample(&noise, true_ns) / true_ns;

            CHECK(fabs(slower - 1) < 1e-9 || (slower > 1.2499 && slower < 1.6001));
            lasts++;
            if (fabs(slower - before) < 1e-9)
                continue;
            CHECK((slower > 1.1) != (before > 1.1));
            CHECK(lasts <= 40 && (!turns || lasts >= 10));
            turns++;
            lasts = 0;
            before = slower;
        }
        CHECK(turns >= 2000 / 40);
    }
}

static void one_slow_step_is_no_turn(void)
{
    struct surprise steps[12];
    int turned = 0;

    for (uint64_t seed = 0; seed < 1000; seed++) {
        draw(seed, 8, 8, 0, steps);
        steps[5].above += log(3);
        turned += find_change_point(steps, 8) >= 0 || find_change_point(steps, 6) >= 0;
    }
    CHECK(turned < 30);
}

/* What a model expects of plans that never ran may be wrong by any factor. */
static void plans_that_never_ran_show_no_turn_and_help_to_find_one(void)
{
    struct surprise steps[12];

    draw(1, 8, 2, 0.5, steps);
    for (int i = 2; i < 8; i++)
        steps[i].first = true;
    CHECK(find_change_point(steps, 8) < 0);
    draw(1, 10, 4, 0.5, steps);
    steps[4].first = steps[5].first = true;
    CHECK(find_change_point(steps, 10) == 4);
}

static void moods_of_one_stretch_are_alike_and_of_two_are_not(void)
{
    struct moment at = { 10, 1 }, near = { 11, 1 }, far = { 60, 1 }, since = { 11, 2 };

    CHECK(shared_noise_covariance(at, near) > shared_noise_covariance(at, far));
    CHECK(shared_noise_covariance(at, far) > 10 * shared_noise_covariance(at, since));
}

/* Plan 1 is 4 % faster than the default; a burst begins and lasts. */
static int decide_in_a_burst(const struct surface *s, uint64_t seed, uint64_t burst_at, int *inside)
{
    struct search_setup setup = {
        .shape = s->shape, .arms = s->arms, .arm_count = 2, .machine = s->machine, .seed = seed
    };
    struct decision_result result = { .arm = -1 };
    enum decision_purpose purpose;
    struct decision decision;
    struct search *search;
    int arm;

    CHECK(search_open(search_find("guided"), &setup, &search) == OK);
    decision_open(&decision,
                  &(struct decision_setup){
                      .search = search, .capacity = 512, .default_arm = 0, .incumbent = -1 });
    for (uint64_t step = 0; (arm = decision_next(&decision, &purpose)) != DECISION_DONE; step++) {
        double log_ns = log(1e7) - (arm == 1 ? 0.04 : 0) + (step >= burst_at ? 0.5 : 0) +
                        0.02 * normal_draw(seed, step);

        decision_tell(&decision, purpose, arm, (int64_t)exp(log_ns));
    }
    CHECK(decision_result(&decision, &result));
    *inside += result.gain.low < 0.04 && result.gain.high > 0.03;
    search_close(search);
    return result.arm;
}

static void a_burst_in_the_middle_of_a_visit_changes_no_decision(void)
{
    struct surface s = surface_make(3, &(struct surface_options){ .slices = 1 });
    int right = 0, inside = 0;

    s.arms[0] = s.arms[1] = plan_default(NULL);
    s.arms[1].d = 2;
    for (uint64_t seed = 0; seed < 200; seed++)
        right += decide_in_a_burst(&s, seed, 2 + seed % 8, &inside) == 1;
    CHECK(right >= 195 && inside >= 180);
}

/* What comes of a visit while moods switch. */
struct visit {
    int longest_run; /* of one plan in succession, that the search asked for */
    double regret;
};

static struct visit visit_of(const struct surface *s, struct search *search, struct noise *noise,
                             uint64_t capacity)
{
    struct visit v = { .longest_run = 0 };
    int last = -1, run = 0, arm;
    double best = INFINITY;

    search_begin(search, capacity, NULL, false);
    while ((arm = search_next(search)) != SEARCH_DONE) {
        run = arm == last ? run + 1 : 1;
        v.longest_run = run > v.longest_run ? run : v.longest_run;
        last = arm;
        search_tell(search, arm, noise_sample(noise, surface_ns(s, (double)capacity, arm)));
    }
    for (int i = 0; i < (int)s->arm_count; i++)
        best = fmin(best, surface_ns(s, (double)capacity, i));
    v.regret = surface_ns(s, (double)capacity, search_result(search).winner) / best - 1;
    return v;
}

/* A plan that ran alone since a turn cannot be told from the shared noise, however often it runs;
 * and of those that run for the first time after one none is taken for fast. */
static void switching_moods_are_not_taken_for_plans(void)
{
    int longest = 0, misled = 0;

    for (uint64_t seed = 1; seed <= 25; seed++) {
        struct surface s = surface_make(seed, &(struct surface_options){ .slices = 8 });
        struct noise noise = noise_make(seed, noise_sd, 0.01, true);
        struct search_setup setup = surface_setup(&s, seed);
        struct search *search;

        noise_set_turns(&noise, NOISE_SWITCHES);
        CHECK(search_open(search_find("guided"), &setup, &search) == OK);
        for (uint64_t i = 0; i < 12; i++) {
            struct visit v = visit_of(&s, search, &noise, (uint64_t)surface_capacity(&s, i));

            longest = v.longest_run > longest ? v.longest_run : longest;
            misled += v.regret > 0.05;
        }
        search_close(search);
    }
    CHECK(longest <= 12); /* the model may not overrule so many */
    CHECK(misled <= 18);  /* of 300 */
}

static const struct test tests[] = {
    TEST(a_calm_machine_does_not_turn),
    TEST(a_burst_is_found_where_it_began_and_where_it_ended),
    TEST(a_mood_that_switches_lasts_10_to_40_steps_and_slows_by_1_25_to_1_6),
    TEST(one_slow_step_is_no_turn),
    TEST(plans_that_never_ran_show_no_turn_and_help_to_find_one),
    TEST(moods_of_one_stretch_are_alike_and_of_two_are_not),
    TEST(a_burst_in_the_middle_of_a_visit_changes_no_decision),
    TEST(switching_moods_are_not_taken_for_plans),
};

int main(void)
{
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
