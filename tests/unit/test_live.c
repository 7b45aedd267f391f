/* Tests tuning while training: buckets are decided, published and resumed, and the tuner keeps its
 * budget. */
#include "live_training.h"

#include "claim_faults.h"

#include "modelled.h"

#include <math.h>
#include <sqlite3.h>

/* ---- the search */

struct small_search {
    struct moe_plan arms[SEARCH_ARMS_MAX];
    size_t count;
    struct search *search;
};

static struct small_search open_search(void)
{
    struct moe_shape shape = small_shape();
    struct small_search s;
    struct search_setup setup = { .shape = shape, .seed = 3 };

    s.count = plan_list(&shape, s.arms, SEARCH_ARMS_MAX);
    setup.arms = s.arms;
    setup.arm_count = s.count;
    CHECK(search_open(search_find("guided"), &setup, &s.search) == OK);
    return s;
}

static int arm_of(const struct small_search *s, const char *text)
{
    for (size_t i = 0; i < s->count; i++)
        if (plan_is(&s->arms[i], text))
            return (int)i;
    return -1;
}

static void a_capacity_that_is_visited_again_counts_once(void)
{
    struct small_search s = open_search();
    double before, after;

    for (int visit = 0; visit < 2; visit++) {
        search_begin(s.search, 255, NULL, false);
        for (int i = 0; i < 4; i++)
            search_tell(s.search, arm_of(&s, best_text), visit ? 2000000 : 1000000);
        before = search_estimate(s.search, 255, arm_of(&s, best_text));
    }
    search_begin(s.search, 4095, NULL, false);
    after = search_estimate(s.search, 255, arm_of(&s, best_text));
    /* Of the first visit, which said half of that, nothing is left. */
    CHECK(fabs(before - 2e6) < 1e5);
    CHECK(fabs(after - 2e6) < 1e5);
    search_close(s.search);
}

/* ---- training */

static void a_bucket_is_decided_and_published(void)
{
    const char *path = fresh_path("decided");
    struct moetune *tuner = open_with(path, options_with(0));
    struct training t = training_of(tuner, 1, 0.03);
    struct moetune_status s;
    struct entry_row entry;

    train(&t, 300, 1);
    CHECK(plan_is(&t.plan, "r=1 d=1 a=linear")); /* the default plan first */
    CHECK(t.plan.source == MOE_DEFAULT);
    train(&t, 300, 5000);
    CHECK(plan_is(&t.plan, best_text));
    CHECK(t.plan.source == MOE_EXACT && t.plan.bucket == 2);
    s = status_of(tuner);
    CHECK(s.decided == 1 && s.open == 0 && s.steps == 5001 && s.tried > 5 && !s.looking_up);
    CHECK(s.cost_us <= 0.01 * s.time_us);
    /* Published before the end. */
    snprintf(said, sizeof(said), "%.4000s.published", path);
    CHECK(read_entry(said, 2, &entry));
    CHECK(plan_is(&entry.plan, best_text) && !strcmp(entry.decision, "adopted"));
    CHECK(entry.gain.value > 0.15 && entry.gain.value < 0.35 && entry.samples >= 3);
    CHECK(fabs(entry.time_us / (0.75 * (500 + 2.0 * 300)) - 1) < 0.2);
    moetune_close(tuner);
}

/* Writes the numbers of bucket 2 behind the tuner's back. */
static void alter_entry(const char *path, const struct claim_case *c, const char *word)
{
    const double values[] = { c->time_us,   c->default_us, c->gain.value, c->gain.low,
                              c->gain.high, c->low_us,     c->high_us,    c->bound };
    sqlite3_stmt *s = NULL;
    sqlite3 *db = NULL;

    CHECK(sqlite3_open(path, &db) == SQLITE_OK);
    CHECK(sqlite3_prepare_v2(db,
                             "UPDATE entry SET time_us=?1, default_us=?2, gain=?3, gain_low=?4,"
                             " gain_high=?5, low_us=?6, high_us=?7, bound=?8, decision=?9",
                             -1, &s, NULL) == SQLITE_OK);
    for (int i = 0; i < 8; i++)
        sqlite3_bind_double(s, i + 1, values[i]);
    sqlite3_bind_text(s, 9, word, -1, SQLITE_STATIC);
    CHECK(sqlite3_step(s) == SQLITE_DONE);
    sqlite3_finalize(s);
    sqlite3_close(db);
}

/* Nor does its plan answer in a bucket beside it. */
static void a_plan_that_its_own_numbers_forbid_is_not_told(void)
{
    const char *path = fresh_path("unsound");
    struct moetune *tuner = open_with(path, options_with(0));
    struct training t = training_of(tuner, 1, 0.03);
    struct entry_row entry;

    train(&t, 300, 4000);
    CHECK(status_of(tuner).decided == 1);
    moetune_close(tuner);
    EACH_CLAIM(c, word)
    {
        int failed = check_failures;

        alter_entry(path, c, *word);
        tuner = open_with(path, options_with(0));
        t = training_of(tuner, 2, 0.03);
        train(&t, 300, 1);
        CHECK(plan_is(&t.plan, c->field ? "r=1 d=1 a=linear" : best_text));
        CHECK((t.plan.source == MOE_UNSOUND) == (c->field != NULL));
        CHECK(!c->field || status_of(tuner).open == 1);
        train(&t, 400, 1);
        CHECK(!c->field || plan_is(&t.plan, "r=1 d=1 a=linear"));
        if (check_failures > failed)
            claim_print(c, *word);
        moetune_close(tuner);
    }
    /* It is measured again. */
    alter_entry(path, &claim_cases[4], "static");
    tuner = open_with(path, options_with(0));
    t = training_of(tuner, 2, 0.03);
    train(&t, 300, 5000);
    CHECK(plan_is(&t.plan, best_text) && t.plan.source == MOE_EXACT);
    moetune_close(tuner);
    CHECK(read_entry(path, 2, &entry) && !entry.fault && !strcmp(entry.decision, "adopted"));
    /* Where the default cannot run it answers. */
    alter_entry(path, &claim_alone, "alone");
    tuner = open_with(path, options_with(0));
    t = training_of(tuner, 2, 0.03);
    train(&t, 300, 1);
    CHECK(plan_is(&t.plan, best_text) && t.plan.source == MOE_EXACT);
    moetune_close(tuner);
}

static void a_second_run_knows_what_the_first_one_learnt(void)
{
    const char *path = fresh_path("again");
    struct moetune *tuner = open_with(path, options_with(0));
    struct training t = training_of(tuner, 1, 0.03);
    uint64_t tried;

    train(&t, 300, 4000);
    CHECK(status_of(tuner).decided == 1);
    moetune_close(tuner);
    tuner = open_with(path, options_with(0));
    t = training_of(tuner, 2, 0.03);
    train(&t, 310, 1000);
    tried = status_of(tuner).tried;
    CHECK(plan_is(&t.plan, best_text) && t.plan.source == MOE_EXACT && !tried);
    /* Of another implementation of the layer it knows nothing. */
    moetune_close(tuner);
    tuner = open_with(path, (struct moetune_options){ .struct_size = sizeof(struct moetune_options),
                                                      .window = 128,
                                                      .now_us = no_time,
                                                      .layer = "another one 1.0" });
    t = training_of(tuner, 2, 0.03);
    train(&t, 310, 1);
    CHECK(t.plan.source == MOE_DEFAULT);
    moetune_close(tuner);
}

static int count_sample(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    (void)trial;
    (void)sample;
    return ++*(uint32_t *)self, OK;
}

static uint32_t samples_in(const char *path)
{
    struct store *store;
    uint32_t count = 0;

    if (store_read(path, &store))
        return 0;
    store_samples_all(store, count_sample, &count);
    store_close(store);
    return count;
}

/* Trains until the bucket is decided, after a cut when so many plans were tried; returns the
 * samples that it took. */
static uint32_t samples_with_cut_after(uint64_t tried, uint64_t seed)
{
    const char *path = fresh_path("cut");

    for (int run = 0; run < 2; run++) {
        struct moetune *tuner = open_with(path, options_with(0));
        struct training t = training_of(tuner, seed, 0.03);
        struct moetune_status s = status_of(tuner);

        for (int i = 0; i < 10000 && !s.decided && (run || s.tried < tried); i++) {
            train(&t, 300, 1);
            s = status_of(tuner);
        }
        CHECK(run == 0 || s.decided);
        moetune_close(tuner);
    }
    return samples_in(path);
}

static void an_undecided_bucket_is_gone_on_with(void)
{
    uint32_t whole = 0, cut = 0;

    /* One search may take three times as long as another one. */
    for (uint64_t seed = 1; seed <= 16; seed++) {
        whole += samples_with_cut_after(10000, seed);
        cut += samples_with_cut_after(9, seed);
    }
    CHECK(whole > 16 * 8);
    CHECK(cut < 1.25 * whole);
}

static void the_best_plan_so_far_runs_before_it_is_certain(void)
{
    enum { SEEDS = 8 };
    uint32_t under_best = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct moetune *tuner = open_with(fresh_path("sofar"), options_with(0));
        struct training t = training_of(tuner, seed, 0.2);
        uint32_t steps = 0;

        while (!status_of(tuner).decided && steps++ < 10000) {
            train(&t, 300, 1);
            under_best += plan_is(&t.plan, best_text);
        }
        CHECK(steps < 10000);
        moetune_close(tuner);
    }
    CHECK(under_best > 3 * SEEDS); /* how often differs much from seed to seed */
}

static void libmoelookup_reads_what_was_learnt(void)
{
    const char *path = fresh_path("looked");
    struct moetune *tuner = open_with(path, options_with(0));
    struct training t = training_of(tuner, 1, 0.03);
    struct moe_shape shape = small_shape();
    struct moe_plan plan = MOE_PLAN_INIT;
    struct moelookup_view *view = NULL;
    struct moelookup *table = NULL;

    train(&t, 300, 4000);
    moetune_close(tuner);
    CHECK(moelookup_open(path, &table) == MOE_OK);
    CHECK(moelookup_bind(table, &shape, NULL, &view) == MOE_OK);
    CHECK(moelookup_get(view, 300, &plan) == MOE_OK);
    CHECK(plan_is(&plan, best_text) && plan.source == MOE_EXACT && plan.bucket == 2);
    moelookup_view_free(view);
    moelookup_close(table);
}

/* A range that wanders by a factor of 4.38 (Tutel's Figure 1) on a modelled cluster. */
static void a_wandering_capacity_pays_within_20000_steps(void)
{
    enum { STEPS = 20000 };
    static uint32_t trace[STEPS];
    struct moe_shape shape = { .struct_size = sizeof(shape),
                               .experts = 2,
                               .top_k = 2,
                               .model_dim = 1024,
                               .hidden_dim = 4096,
                               .dtype = MOE_BF16,
                               .pass = MOE_TRAIN,
                               .tokens = 2048 };
    struct moetune_options options = options_with(0);
    struct noise noise = noise_make(3, 0.05, 0.01, false);
    double mine = 0, fixed = 0, by_default = 0, worst = 0;
    struct moetune *tuner = NULL;
    struct modelled m;
    char file[PATH_MAX + 64];
    int best;

    snprintf(file, sizeof(file), "tests/data/clusters/workstation-4x4090.txt");
    CHECK(modelled_open(file, &shape, 512, 16, 109, &m) == OK);
    for (uint32_t i = 0; i < STEPS; i++)
        trace[i] = modelled_wander(&m, 7, i, STEPS);
    log_to(hear, NULL); /* the modelled ranks had it */
    best = modelled_best_static(&m, trace, STEPS);
    CHECK(moetune_open(fresh_path("wander"), &m.shape, &options, &tuner) == MOE_OK);
    for (uint32_t i = 0; i < STEPS; i++) {
        struct moe_plan plan = MOE_PLAN_INIT;
        double ns;

        moetune_ask(tuner, trace[i], &plan);
        ns = modelled_ns(&m, trace[i], modelled_arm(&m, &plan));
        mine += ns;
        fixed += modelled_ns(&m, trace[i], best);
        by_default += modelled_ns(&m, trace[i], m.default_arm);
        worst = fmax(worst, mine / by_default - 1);
        moetune_tell(tuner, (double)noise_sample(&noise, ns) * 1e-3);
    }
    /* Never above the default plan's time by more than the share. */
    CHECK(worst <= 0.01);
    /* Exploring included, faster than the plan that a wise person would have fixed. */
    CHECK(mine < fixed);
    CHECK(status_of(tuner).cost_us <= 0.01 * status_of(tuner).time_us);
    CHECK(status_of(tuner).alarms <= STEPS / 10000 && status_of(tuner).replaced == 0);
    if (getenv("MOETUNE_TEST_VERBOSE"))
        printf("    time / default's: tuned %.4f, best static %.4f, worst %.4f\n",
               mine / by_default, fixed / by_default, worst);
    moetune_close(tuner);
    modelled_close(&m);
}

/* On every kind of cluster, at every step. */
static void training_never_takes_longer_than_the_default_plan_and_the_share(void)
{
    static const char *const clusters[] = { "ndm-a100-2", "one-rank-per-node-slow",
                                            "workstation-4x4090", "cpu-4" };

    for (int i = 0; i < 4; i++) {
        struct moe_shape shape = { .struct_size = sizeof(shape),
                                   .experts = 4,
                                   .top_k = 2,
                                   .model_dim = 1024,
                                   .hidden_dim = 4096,
                                   .pass = MOE_TRAIN,
                                   .tokens = 2048 };
        struct moetune_options options = options_with(0.01);
        struct noise noise = noise_make(11 + (uint64_t)i, 0.03, 0.01, false);
        struct moetune *tuner = NULL;
        double mine = 0, by_default = 0, worst = 0;
        struct modelled m;
        char file[PATH_MAX + 64];

        snprintf(file, sizeof(file), "tests/data/clusters/%s.txt", clusters[i]);
        CHECK(modelled_open(file, &shape, 512, 32, 55, &m) == OK);
        log_to(hear, NULL);
        CHECK(moetune_open(fresh_path("never"), &m.shape, &options, &tuner) == MOE_OK);
        for (uint32_t step = 0; step < 3000; step++) {
            uint32_t capacity = modelled_wander(&m, 9, step, 3000);
            struct moe_plan plan = MOE_PLAN_INIT;
            double ns;

            moetune_ask(tuner, capacity, &plan);
            ns = modelled_ns(&m, capacity, modelled_arm(&m, &plan));
            mine += ns;
            by_default += modelled_ns(&m, capacity, m.default_arm);
            worst = fmax(worst, mine / by_default - 1);
            moetune_tell(tuner, (double)noise_sample(&noise, ns) * 1e-3);
        }
        CHECK(worst <= 0.012);
        if (getenv("MOETUNE_TEST_VERBOSE"))
            printf("    %s: worst %.4f, at the end %.4f\n", clusters[i], worst, mine / by_default);
        moetune_close(tuner);
        modelled_close(&m);
    }
}

static void a_share_below_nothing_explores_nothing(void)
{
    struct moetune *tuner = open_with(fresh_path("nothing"), options_with(-1));
    struct training t = training_of(tuner, 1, 0.03);

    train(&t, 300, 3000);
    CHECK(status_of(tuner).tried == 0);
    CHECK(plan_is(&t.plan, "r=1 d=1 a=linear"));
    moetune_close(tuner);
}

/* A clock by which every look at it takes so long, whatever happens between two. */
struct slow_clock {
    double us, each_us;
};

static double look_slowly(void *self)
{
    struct slow_clock *clock = self;

    return clock->us += clock->each_us;
}

static struct moetune *open_with_clock(const char *path, double share, struct slow_clock *clock)
{
    struct moetune_options options = options_with(share);

    options.now_us = look_slowly;
    options.self = clock;
    return open_with(path, options);
}

static void what_the_library_itself_takes_counts(void)
{
    struct slow_clock clock = { .each_us = 1000 };
    struct moetune *tuner = open_with_clock(fresh_path("own"), 0.01, &clock);
    struct training t = training_of(tuner, 1, 0.03);
    struct moetune_status s;

    train(&t, 300, 3000);
    s = status_of(tuner);
    /* By this clock even an answer takes as long as a step: nothing may be tried. */
    CHECK(s.own_us > 1e6);
    CHECK(s.tried == 0);
    moetune_close(tuner);
}

static void wondering_what_to_try_does_not_eat_what_was_saved_for_it(void)
{
    struct slow_clock clock = { .each_us = 4 }; /* an answer while searching takes a share or so */
    struct moetune *tuner = open_with_clock(fresh_path("wondering"), 0.01, &clock);
    struct training t = training_of(tuner, 1, 0.03);
    struct moetune_status s;

    train(&t, 300, 10000);
    s = status_of(tuner);
    CHECK(s.decided == 1);
    CHECK(s.own_us > 1000 && s.cost_us <= 0.01 * s.time_us);
    moetune_close(tuner);
}

/* r = 0 takes five times as long: seen in one bucket, it is left alone in the next ones. */
static void what_takes_three_times_as_long_is_not_tried(void)
{
    struct moetune *tuner = open_with(fresh_path("three"), options_with(0.5));
    struct noise noise = noise_make(1, 0.03, 0, false);
    uint32_t tried[2] = { 0 };

    for (uint32_t step = 0; step < 12000; step++) {
        uint32_t later = step >= 2000, capacity = later ? 300 + 128 * (step / 1000) : 300;
        struct moe_plan plan = MOE_PLAN_INIT;
        double us = 500 + 2.0 * capacity;

        CHECK(moetune_ask(tuner, capacity, &plan) == MOE_OK);
        us *= plan.r ? factor_of(&plan) : 5;
        tried[later] += !plan.r;
        CHECK(moetune_tell(tuner, (double)noise_sample(&noise, us * 1e3) * 1e-3) == MOE_OK);
    }
    CHECK(tried[0] <= 2);
    CHECK(tried[1] <= 1); /* of ten buckets: far away it may look better */
    CHECK(status_of(tuner).decided > 5);
    moetune_close(tuner);
}

/* What a plan that never ran may take is read from the nearest one that did. */
static void the_next_value_of_an_axis_takes_at_most_three_times_as_long(void)
{
    static const struct {
        const char *from, *to;
        double factor;
    } cases[] = {
        { "r=1 d=1 a=linear", "r=1 d=1 a=linear", 1 },
        { "r=1 d=1 a=linear", "r=1 d=8 a=linear", 8 }, /* in proportion */
        { "r=2 d=8 a=linear", "r=1 d=4 a=linear", 4 },
        { "r=1 d=1 a=linear", "r=1 d=1 a=2dh", 3 }, /* words have no order */
        { "r=1 d=1 a=linear", "r=0 d=1 a=linear", 3 },
        { "r=0 d=1 a=linear", "r=2 d=1 a=linear", 6 }, /* 0 to 1, 1 to 2 */
    };
    enum { CASES = sizeof(cases) / sizeof(cases[0]) };
    struct moe_plan arms[2 * CASES + 2] = { { 0 } };
    struct reach reach;

    /* Values that lie between are steps, too. */
    CHECK(!moe_plan_parse("r=1 d=2 a=linear", &arms[2 * CASES]));
    CHECK(!moe_plan_parse("r=2 d=4 a=linear", &arms[2 * CASES + 1]));
    for (int i = 0; i < 2 * CASES; i++)
        CHECK(!moe_plan_parse(i % 2 ? cases[i / 2].to : cases[i / 2].from, &arms[i]));
    CHECK(!reach_open(arms, 2 * CASES + 2, &reach));
    for (int i = 0; i < CASES; i++) {
        CHECK(fabs(reach_factor(&reach, 2 * i, 2 * i + 1) / cases[i].factor - 1) < 1e-9);
        CHECK(fabs(reach_factor(&reach, 2 * i + 1, 2 * i) / cases[i].factor - 1) < 1e-9);
    }
    reach_close(&reach);
}

/* ---- buckets wait for each other, but not for ever */

/* Steps of a second bucket until it is decided, while a first one has begun and comes no further:
 * it is not asked for any more, or asked for at every other step and never told. */
static uint32_t steps_beside(bool asks)
{
    struct moetune *tuner = open_with(fresh_path("beside"), options_with(0.1));
    struct training t = training_of(tuner, 1, 0.03);
    struct moe_plan plan = MOE_PLAN_INIT;
    uint32_t steps = 0;

    while (status_of(tuner).tried < 3)
        train(&t, 300, 1);
    CHECK(status_of(tuner).decided == 0);
    for (; status_of(tuner).decided == 0 && steps < 10000; steps++) {
        train(&t, 5000, 1);
        if (asks)
            CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
    }
    train(&t, 5000, 1);
    CHECK(t.plan.source == MOE_EXACT);
    moetune_close(tuner);
    return steps;
}

static void one_undecided_bucket_does_not_hold_up_the_others(void)
{
    uint32_t unseen = steps_beside(false), silent = steps_beside(true);

    CHECK(unseen < 1000);
    CHECK(silent < 1000);
}

/* Asks and tells where the one plan beside the default takes so many times as long. */
static void train_two_plans(struct moetune *tuner, struct noise *noise, uint32_t capacity,
                            double factor, uint32_t steps, struct moe_plan *last)
{
    for (uint32_t i = 0; i < steps; i++) {
        *last = (struct moe_plan)MOE_PLAN_INIT;
        CHECK(moetune_ask(tuner, capacity, last) == MOE_OK);
        CHECK(moetune_tell(tuner, (double)noise_sample(noise, 1e6 * (last->r == 2 ? factor : 1)) *
                                      1e-3) == MOE_OK);
    }
}

/* What is told in a bucket between one where r=2 saves 10 %, and one where it takes so many times
 * as long as the default. */
static struct moe_plan between_ten_percent_and(const char *name, double factor)
{
    struct moetune_options o = options_with(0.05);
    struct noise noise = noise_make(3, 0.01, 0, false);
    struct moe_plan plan;
    struct moetune *tuner;

    o.axes = "r=2";
    tuner = open_with(fresh_path(name), o);
    train_two_plans(tuner, &noise, 1407, 0.9, 4000, &plan);
    CHECK(plan.r == 2 && plan.source == MOE_EXACT);
    train_two_plans(tuner, &noise, 1791, factor, 4000, &plan);
    CHECK(plan.r == (factor < 1 ? 2 : 1) && plan.source == MOE_EXACT);
    train_two_plans(tuner, &noise, 1535, 0.9, 20, &plan);
    moetune_close(tuner);
    return plan;
}

static void a_plan_is_not_inferred_beside_a_bucket_where_the_default_is_best(void)
{
    CHECK(between_ten_percent_and("agreed", 0.9).source == MOE_INFERRED);
    CHECK(between_ten_percent_and("jumps", 1.03).source != MOE_INFERRED);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_capacity_that_is_visited_again_counts_once),
        TEST(a_bucket_is_decided_and_published),
        TEST(a_plan_that_its_own_numbers_forbid_is_not_told),
        TEST(a_second_run_knows_what_the_first_one_learnt),
        TEST(an_undecided_bucket_is_gone_on_with),
        TEST(the_best_plan_so_far_runs_before_it_is_certain),
        TEST(libmoelookup_reads_what_was_learnt),
        TEST(a_wandering_capacity_pays_within_20000_steps),
        TEST(training_never_takes_longer_than_the_default_plan_and_the_share),
        TEST(a_share_below_nothing_explores_nothing),
        TEST(what_the_library_itself_takes_counts),
        TEST(wondering_what_to_try_does_not_eat_what_was_saved_for_it),
        TEST(what_takes_three_times_as_long_is_not_tried),
        TEST(the_next_value_of_an_axis_takes_at_most_three_times_as_long),
        TEST(one_undecided_bucket_does_not_hold_up_the_others),
        TEST(a_plan_is_not_inferred_beside_a_bucket_where_the_default_is_best),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), prepare);
}
