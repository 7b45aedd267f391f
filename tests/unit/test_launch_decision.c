/* Tests the choice of one launch for a whole table.  It is the best one where times are known, the
 * default where nothing is faster, and never one in which a bucket cannot run.  The same results
 * give the same choice again. */
#include "launch_decision.h"

#include "check.h"
#include "random.h"
#include "status.h"
#include "surface.h"

#include <math.h>
#include <string.h>

enum { LAUNCHES = 4, LIVE = 3, ARMS = LAUNCHES * LIVE, RANGES = 3, TOLD_MAX = 20000 };

/* A program whose times are made up, and all that one of its choices was told. */
struct program {
    double log_ns[RANGES][ARMS], weight[RANGES], luck;
    bool broken[RANGES][ARMS];
    uint64_t seed, draws;
    uint32_t launch_of[ARMS], apart[ARMS];
    uint16_t value[ARMS * 2];
    struct points points;
    struct search *search[RANGES];
    struct launch_decision *choice;
    struct launch_result result;
    uint32_t starts[LAUNCHES], all_starts;
    struct trainer_view {
        int launch, range, arm; /* range -1: a launch begins; arm: what for */
        int64_t ns;             /* 0: it cannot run */
    } told[TOLD_MAX];
    size_t sample_count;
};

static struct program program;
static uint64_t seed;

static void draw_program(uint64_t drawn, double spread, double luck)
{
    struct program *p = &program;

    memset(p, 0, sizeof(*p));
    p->seed = drawn;
    p->luck = luck;
    p->points = (struct points){ .axes = 2, .count = ARMS, .value = p->value };
    p->points.axis[0] = (struct point_axis){ .values = LAUNCHES, .words = true };
    p->points.axis[1] = (struct point_axis){ .values = LIVE, .words = true };
    for (size_t i = 0; i < ARMS; i++) {
        p->launch_of[i] = (uint32_t)(i / LIVE);
        p->apart[i] = (i >= LIVE ? 1u << 20 : 0) + (i % LIVE ? 1u << 14 : 0);
        p->value[2 * i] = (uint16_t)(i / LIVE);
        p->value[2 * i + 1] = (uint16_t)(i % LIVE);
    }
    for (size_t r = 0; r < RANGES; r++) {
        p->weight[r] = 0.2 + uniform_draw(drawn, p->draws++);
        for (size_t i = 0; i < ARMS; i++)
            p->log_ns[r][i] = log(1e6) + (double)r + spread * normal_draw(drawn, p->draws++);
    }
}

static void open_choice(void)
{
    struct program *p = &program;
    struct launch_decision_setup setup = { .arm_count = ARMS,
                                           .launch_of = p->launch_of,
                                           .launch_count = LAUNCHES,
                                           .distance = p->apart,
                                           .margin = 0.01,
                                           .seed = p->seed };
    struct search_setup search = { .points = &p->points, .arm_count = ARMS, .seed = p->seed };

    CHECK(!launch_decision_open(&setup, &p->choice));
    for (size_t r = 0; r < RANGES; r++) {
        CHECK(!search_open(search_find("blind"), &search, &p->search[r]));
        search_begin(p->search[r], 1, NULL, false);
        CHECK(launch_decision_add(p->choice, p->search[r], p->weight[r]) == (int)r);
    }
}

static void close_choice(void)
{
    launch_decision_close(program.choice);
    for (size_t r = 0; r < RANGES; r++)
        search_close(program.search[r]);
}

static void note_told(struct trainer_view told)
{
    CHECK(program.sample_count < TOLD_MAX);
    if (program.sample_count < TOLD_MAX)
        program.told[program.sample_count++] = told;
}

static void run_launch(int launch, enum decision_purpose purpose)
{
    struct program *p = &program;
    double luck = p->luck * normal_draw(p->seed, p->draws++);
    int arm;

    launch_decision_begin(p->choice, launch, purpose);
    note_told((struct trainer_view){ launch, -1, (int)purpose, 0 });
    for (int r = 0; r < RANGES; r++) {
        bool needed, shown[ARMS] = { false };

        while ((arm = launch_decision_next_arm(p->choice, r, &needed)) >= 0) {
            double own = 0.002 * normal_draw(p->seed, p->draws++);
            int64_t ns = llround(exp(p->log_ns[r][arm] + luck + own));

            CHECK((int)p->launch_of[arm] == launch);
            CHECK(!shown[arm]); /* a launch shows a plan once */
            if (shown[arm])
                return;
            shown[arm] = true;
            ns = p->broken[r][arm] ? 0 : ns;
            if (ns)
                CHECK(!launch_decision_tell(p->choice, r, arm, ns));
            else
                launch_decision_drop(p->choice, r, arm);
            note_told((struct trainer_view){ launch, r, arm, ns });
        }
    }
    CHECK(!launch_decision_end(p->choice));
    p->starts[launch]++;
    p->all_starts++;
}

/* Until it is decided, or after so many launches; true: it is decided. */
static bool run(uint32_t most)
{
    enum decision_purpose purpose;
    int launch;

    while ((launch = launch_decision_next(program.choice, &purpose)) != DECISION_DONE) {
        if (program.all_starts >= most)
            return false;
        run_launch(launch, purpose);
    }
    return launch_decision_result(program.choice, &program.result);
}

/* By the times themselves; `live`: under these plans, NULL: under the best ones that can run. */
static double total_of(int launch, const int *live)
{
    double sum = 0;

    for (size_t r = 0; r < RANGES; r++) {
        double least = INFINITY;

        for (size_t i = 0; i < ARMS; i++)
            if ((int)program.launch_of[i] == launch && !program.broken[r][i])
                least = fmin(least, program.log_ns[r][i]);
        sum += program.weight[r] * exp(live ? program.log_ns[r][live[r]] : least);
    }
    return sum;
}

static double total_told(void)
{
    int live[RANGES];

    for (int r = 0; r < RANGES; r++) {
        live[r] = launch_decision_live_arm(program.choice, program.result.launch, r);
        CHECK(live[r] >= 0 && (int)program.launch_of[live[r]] == program.result.launch);
        if (live[r] < 0)
            return NAN;
    }
    return total_of(program.result.launch, live);
}

static struct gain price_told(void)
{
    struct launch_part parts[RANGES];

    for (int r = 0; r < RANGES; r++)
        parts[r] = launch_part_of(
            program.search[r], launch_decision_live_arm(program.choice, program.result.launch, r),
            program.weight[r]);
    return launch_price(parts, RANGES);
}

static double best_total(void)
{
    double least = INFINITY;

    for (int l = 0; l < LAUNCHES; l++)
        least = fmin(least, total_of(l, NULL));
    return least;
}

/* ---- */

static void the_best_launch_for_all_ranges_is_found(void)
{
    int within = 0;

    for (uint64_t i = 0; i < 40; i++) {
        draw_program(seed + i, 0.1, 0.005);
        open_choice();
        CHECK(run(1000));
        within += total_told() <= 1.01 * best_total();
        CHECK(total_told() <= 1.01 * total_of(0, NULL));
        close_choice();
    }
    CHECK(within >= 38);
}

static void weights_decide_where_ranges_want_different_launches(void)
{
    for (int heavy = 0; heavy < 2; heavy++) {
        draw_program(seed, 0, 0.002);
        /* Launch 1 is fast in range 0 and slow in range 1, launch 2 the other way round. */
        for (size_t i = 0; i < LIVE; i++) {
            program.log_ns[0][LIVE + i] -= 0.2;
            program.log_ns[1][LIVE + i] += 0.2;
            program.log_ns[0][2 * LIVE + i] += 0.2;
            program.log_ns[1][2 * LIVE + i] -= 0.2;
        }
        program.weight[0] = heavy ? 0.01 : 30;
        program.weight[1] = heavy ? 30 : 0.01;
        program.weight[2] = 0.01;
        open_choice();
        CHECK(run(1000));
        CHECK(program.result.launch == 1 + heavy);
        CHECK(program.result.over_default.low > 0.1);
        CHECK(price_told().value < 0.02);
        close_choice();
    }
}

/* As if each range had started anew: what that would save is said. */
static void the_price_of_one_launch_is_what_ranges_give_up(void)
{
    struct gain price;

    draw_program(seed, 0, 0.002);
    for (size_t r = 0; r < RANGES; r++)
        program.weight[r] = exp(-(double)r); /* all count alike in time */
    for (size_t i = 0; i < LIVE; i++) {
        program.log_ns[0][LIVE + i] -= log(1.25);
        program.log_ns[1][LIVE + i] -= log(1.25);
        program.log_ns[2][2 * LIVE + i] -= log(1.25);
    }
    open_choice();
    CHECK(run(1000));
    CHECK(program.result.launch == 1);
    price = price_told();
    /* .8 + .8 + 1, and .8 of the third. */
    CHECK(fabs(price.value - 0.2 / 2.6) < 0.01);
    CHECK(price.low <= 0.2 / 2.6 && price.high >= 0.2 / 2.6);
    close_choice();
}

static void the_default_stands_where_launches_are_alike(void)
{
    int told = 0, harmed = 0;

    for (uint64_t i = 0; i < 60; i++) {
        draw_program(seed + i, 0, 0.03);
        for (size_t r = 0; r < RANGES; r++)
            for (size_t a = LIVE; a < ARMS; a++) /* all others are 3 % slower */
                program.log_ns[r][a] += log(1.03);
        open_choice();
        CHECK(run(1000));
        told += program.result.launch != 0;
        harmed += total_told() > 1.01 * total_of(0, NULL);
        close_choice();
    }
    CHECK(harmed <= 2);
    CHECK(told == harmed);
}

static void a_launch_in_which_a_range_cannot_run_is_out(void)
{
    for (int whole = 0; whole < 2; whole++) {
        draw_program(seed, 0, 0.002);
        for (size_t r = 0; r < RANGES; r++)
            for (size_t i = 0; i < LIVE; i++) {
                program.log_ns[r][LIVE + i] -= 0.3; /* the best by far */
                program.log_ns[r][3 * LIVE + i] -= 0.1;
            }
        for (size_t i = 0; i < (whole ? (size_t)LIVE : LIVE - 1); i++)
            program.broken[2][LIVE + i] = true;
        open_choice();
        CHECK(run(1000));
        CHECK(program.result.launch == (whole ? 3 : 1));
        CHECK(whole || launch_decision_live_arm(program.choice, 1, 2) == 2 * LIVE - 1);
        close_choice();
    }
    /* The default launch, too. */
    draw_program(seed, 0, 0.002);
    for (size_t i = 0; i < LIVE; i++)
        program.broken[1][i] = true;
    open_choice();
    CHECK(run(1000));
    CHECK(program.result.launch != 0 && program.result.word == DECISION_ALONE);
    close_choice();
}

/* A range in which nothing runs counts no more; the others then have all launches again. */
static void a_range_that_cannot_run_rules_out_no_launch_for_ever(void)
{
    draw_program(seed, 0, 0.002);
    for (size_t r = 0; r < RANGES; r++)
        for (size_t i = 0; i < LIVE; i++)
            program.log_ns[r][2 * LIVE + i] -= 0.2;
    for (size_t i = 0; i < ARMS; i++)
        program.broken[1][i] = true;
    open_choice();
    CHECK(!run(4 * LAUNCHES)); /* no launch runs all buckets */
    CHECK(program.all_starts <= LAUNCHES);
    launch_decision_set_weight(program.choice, 1, 0);
    CHECK(run(1000));
    CHECK(program.result.launch == 2 && program.result.over_default.low > 0.1);
    close_choice();
}

static void what_was_shown_says_the_same_when_it_is_told_again(void)
{
    for (uint64_t i = 0; i < 10; i++) {
        struct launch_result first;
        size_t count;
        int live[RANGES];

        draw_program(seed + i, 0.06, 0.02);
        open_choice();
        CHECK(run(1000));
        first = program.result;
        count = program.sample_count;
        for (int r = 0; r < RANGES; r++)
            live[r] = launch_decision_live_arm(program.choice, first.launch, r);
        close_choice();
        open_choice();
        for (size_t t = 0; t < count; t++) {
            const struct trainer_view *told = &program.told[t];

            if (told->range < 0 && t)
                CHECK(!launch_decision_end(program.choice));
            if (told->range < 0)
                launch_decision_begin(program.choice, told->launch,
                                      (enum decision_purpose)told->arm);
            else
                CHECK(!launch_decision_tell(program.choice, told->range, told->arm, told->ns));
        }
        CHECK(!launch_decision_end(program.choice));
        program.all_starts = 0;
        CHECK(run(0)); /* it wants no launch more */
        CHECK(program.result.launch == first.launch && program.result.word == first.word);
        CHECK(program.result.over_default.value == first.over_default.value);
        CHECK(program.result.pairs == first.pairs);
        for (int r = 0; r < RANGES; r++)
            CHECK(launch_decision_live_arm(program.choice, first.launch, r) == live[r]);
        close_choice();
    }
}

/* A start that costs more than it may save is not made. */
static void dear_starts_are_fewer(void)
{
    uint32_t starts[2] = { 0 };

    for (uint64_t i = 0; i < 20; i++)
        for (int dear = 0; dear < 2; dear++) {
            draw_program(seed + i, 0.02, 0.03);
            open_choice();
            launch_decision_set_cost(program.choice, dear ? 0.01 : 0);
            CHECK(run(1000));
            starts[dear] += program.all_starts;
            close_choice();
        }
    CHECK(10 * starts[1] < 8 * starts[0]);
}

static void a_range_that_no_longer_counts_changes_the_choice(void)
{
    draw_program(seed, 0, 0.002);
    for (size_t i = 0; i < LIVE; i++) {
        program.log_ns[0][LIVE + i] += 0.5;
        program.log_ns[1][LIVE + i] -= 0.1;
        program.log_ns[2][LIVE + i] -= 0.1;
    }
    for (size_t r = 0; r < RANGES; r++)
        program.weight[r] = exp(-(double)r);
    open_choice();
    CHECK(run(1000));
    CHECK(program.result.launch == 0);
    launch_decision_set_weight(program.choice, 0, 0);
    program.all_starts = 0;
    CHECK(run(1000));
    CHECK(program.result.launch == 1);
    launch_decision_set_weight(program.choice, 1, 0);
    launch_decision_set_weight(program.choice, 2, 0);
    {
        enum decision_purpose purpose;

        CHECK(launch_decision_next(program.choice, &purpose) == DECISION_DONE);
        CHECK(!launch_decision_result(program.choice, &program.result));
    }
    close_choice();
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_best_launch_for_all_ranges_is_found),
        TEST(weights_decide_where_ranges_want_different_launches),
        TEST(the_price_of_one_launch_is_what_ranges_give_up),
        TEST(the_default_stands_where_launches_are_alike),
        TEST(a_launch_in_which_a_range_cannot_run_is_out),
        TEST(a_range_that_cannot_run_rules_out_no_launch_for_ever),
        TEST(what_was_shown_says_the_same_when_it_is_told_again),
        TEST(dear_starts_are_fewer),
        TEST(a_range_that_no_longer_counts_changes_the_choice),
    };

    seed = test_seed();
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
