/* Tests tuning while training with difficult callers: they ask for nonsense, stop reporting times,
 * or have plans that fail or are pinned. */
#include "live_training.h"

#include <math.h>

static void nonsense_is_refused_and_teaches_nothing(void)
{
    static const double nonsense[] = { 0, -1, -1e300, 1e12, 1e299, 1e301 };
    struct moetune *tuner = open_with(fresh_path("nonsense"), options_with(0));
    struct moe_plan plan = MOE_PLAN_INIT;

    CHECK(moetune_tell(tuner, 100) == MOE_ERR_ARGUMENT); /* nothing was asked */
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
        CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
        CHECK(moetune_tell(tuner, nonsense[i]) == MOE_ERR_ARGUMENT);
    }
    CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
    CHECK(moetune_tell(tuner, NAN) == MOE_ERR_ARGUMENT);
    CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
    CHECK(moetune_tell(tuner, INFINITY) == MOE_ERR_ARGUMENT);
    CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
    CHECK(moetune_tell(tuner, 100) == MOE_OK);
    CHECK(moetune_tell(tuner, 100) == MOE_ERR_ARGUMENT); /* twice */
    CHECK(status_of(tuner).steps == 1);
    CHECK(moetune_ask(NULL, 300, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moetune_ask(tuner, 300, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moetune_tell(NULL, 1) == MOE_ERR_ARGUMENT);
    CHECK(moetune_status(tuner, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moetune_follow(tuner, NULL, 1, &plan) == MOE_ERR_ARGUMENT);
    moetune_close(tuner);
    moetune_close(NULL);
}

static uint32_t bucket_of_300(const char *path, uint32_t tokens, uint32_t window)
{
    struct moetune_options o = options_with(0);
    struct moe_shape shape = small_shape();
    struct moe_plan plan = MOE_PLAN_INIT;
    struct moetune *tuner = NULL;

    o.window = window;
    shape.tokens = tokens;
    CHECK(moetune_open(path, &shape, &o, &tuner) == MOE_OK);
    CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
    moetune_close(tuner);
    return plan.bucket;
}

static void the_width_of_buckets_follows_the_layer_unless_it_is_given(void)
{
    const char *path = fresh_path("width");

    CHECK(bucket_of_300(path, 256, 0) == 300 / 32);
    CHECK(bucket_of_300(path, 16, 0) == 300 / 2);
    CHECK(bucket_of_300(path, 1 << 20, 0) == 300 / 128);
    CHECK(bucket_of_300(path, 0, 0) == 300 / 128); /* how many tokens there are is not known */
    CHECK(bucket_of_300(path, 256, 7) == 300 / 7);
}

static void bad_options_are_refused(void)
{
    struct moe_shape shape = small_shape();
    struct moetune *tuner = NULL;
    struct moetune_options o;
    const char *path = fresh_path("options");

    shape.experts = 3;
    CHECK(moetune_open(path, &shape, NULL, &tuner) == MOE_ERR_ARGUMENT);
    shape = small_shape();
    o = options_with(1.5);
    CHECK(moetune_open(path, &shape, &o, &tuner) == MOE_ERR_ARGUMENT);
    o = options_with(NAN);
    CHECK(moetune_open(path, &shape, &o, &tuner) == MOE_ERR_ARGUMENT);
    o = options_with(0);
    o.axes = "r,x";
    CHECK(moetune_open(path, &shape, &o, &tuner) == MOE_ERR_ARGUMENT);
    o = options_with(0);
    o.cluster = "colour = blue\n";
    CHECK(moetune_open(path, &shape, &o, &tuner) == MOE_ERR_FORMAT);
    o.cluster = "device = a\u202eb\n";
    CHECK(moetune_open(path, &shape, &o, &tuner) == MOE_ERR_FORMAT);
    o = options_with(0);
    CHECK(moetune_open("/proc/no/such/place.db", &shape, &o, &tuner) == MOE_ERR_IO);
    CHECK(moetune_open(path, NULL, &o, &tuner) == MOE_ERR_ARGUMENT);
    CHECK(!tuner);
}

static void only_the_axes_asked_for_vary(void)
{
    struct moetune_options o = options_with(0.1);
    struct moetune *tuner;
    struct training t;

    o.axes = "d";
    tuner = open_with(fresh_path("axes"), o);
    t = training_of(tuner, 1, 0.03);
    for (int i = 0; i < 3000; i++) {
        train(&t, 300, 1);
        CHECK(t.plan.r == 1 && t.plan.a == MOE_A2A_LINEAR);
    }
    CHECK(status_of(tuner).tried > 0 && status_of(tuner).decided == 1);
    moetune_close(tuner);
}

static void who_never_tells_gets_the_default_plan(void)
{
    const char *path = fresh_path("silent");
    struct moetune *tuner = open_with(path, options_with(1));
    struct moe_plan plan = MOE_PLAN_INIT;
    struct entry_row entry;
    uint32_t others = 0;

    for (int i = 0; i < 5000; i++) {
        CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
        others += !plan_is(&plan, "r=1 d=1 a=linear");
    }
    CHECK(!others);
    CHECK(status_of(tuner).steps == 0);
    moetune_close(tuner);
    CHECK(!read_entry(path, 2, &entry));
    tuner = open_with(path, options_with(0));
    CHECK(tuner != NULL);
    moetune_close(tuner);
}

static void who_stops_telling_is_not_led_on(void)
{
    struct moetune *tuner = open_with(fresh_path("stops"), options_with(0.05));
    struct training t = training_of(tuner, 1, 0.03);
    struct moe_plan plan = MOE_PLAN_INIT;
    uint32_t others = 0;

    train(&t, 300, 200);
    for (int i = 0; i < 5000; i++) {
        CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
        others += plan.source == MOE_TENTATIVE && !plan_is(&plan, best_text);
    }
    CHECK(others < 50);
    moetune_close(tuner);
}

static void a_plan_that_cannot_run_is_not_tried_again(void)
{
    const char *path = fresh_path("fails");
    uint32_t handed_out = 0, total = 0;

    for (int run = 0; run < 2; run++) {
        struct moetune *tuner = open_with(path, options_with(0.05));
        struct training t = training_of(tuner, 1, 0.03);

        for (int i = 0; i < 4000; i++) {
            struct moe_plan plan = MOE_PLAN_INIT;
            double us;

            CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
            us = step_us(&t, &plan, 300);
            if (plan_is(&plan, best_text))
                handed_out++;
            CHECK(moetune_tell(tuner, plan_is(&plan, best_text)
                                          ? MOETUNE_FAILED
                                          : (double)noise_sample(&t.noise, us * 1e3) * 1e-3) ==
                  MOE_OK);
            t.plan = plan;
            total++;
        }
        CHECK(plan_is(&t.plan, second_text));
        moetune_close(tuner);
    }
    CHECK(total == 8000 && handed_out == 1);
}

static void a_winner_that_stops_working_gives_way(void)
{
    const char *path = fresh_path("breaks");
    struct moetune *tuner = open_with(path, options_with(0.05));
    struct training t = training_of(tuner, 1, 0.03);
    uint32_t handed_out = 0;

    train(&t, 300, 4000);
    CHECK(plan_is(&t.plan, best_text));
    for (int i = 0; i < 4000; i++) {
        struct moe_plan plan = MOE_PLAN_INIT;
        bool broken;

        CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
        broken = plan_is(&plan, best_text);
        handed_out += broken;
        CHECK(moetune_tell(tuner, broken ? MOETUNE_FAILED : step_us(&t, &plan, 300)) == MOE_OK);
        t.plan = plan;
    }
    CHECK(handed_out == 1);
    CHECK(plan_is(&t.plan, second_text));
    moetune_close(tuner);
}

static void a_person_has_the_last_word(void)
{
    const char *path = fresh_path("pinned");
    struct moetune *tuner;
    struct training t;

    setenv("MOELOOKUP_FORCE", "r=1 d=4 a=linear", 1);
    tuner = open_with(path, options_with(0.1));
    t = training_of(tuner, 1, 0.03);
    for (int i = 0; i < 500; i++) {
        train(&t, 300, 1);
        CHECK(plan_is(&t.plan, "r=1 d=4 a=linear") && t.plan.source == MOE_OVERRIDE);
    }
    CHECK(status_of(tuner).tried == 0);
    moetune_close(tuner);
    unsetenv("MOELOOKUP_FORCE");
    setenv("MOELOOKUP_DISABLE", "1", 1);
    tuner = open_with(path, options_with(0.1));
    t = training_of(tuner, 1, 0.03);
    for (int i = 0; i < 500; i++) {
        train(&t, 300, 1);
        CHECK(plan_is(&t.plan, "r=1 d=1 a=linear"));
    }
    CHECK(status_of(tuner).looking_up == 1);
    moetune_close(tuner);
    unsetenv("MOELOOKUP_DISABLE");
}

static void a_pinned_bucket_is_not_tuned(void)
{
    const char *path = fresh_path("pin");
    struct moetune *tuner = open_with(path, options_with(0.1));
    struct training t = training_of(tuner, 1, 0.03);
    struct override_row pin = { .window = 128, .first = 5, .last = 5, .why = "a test" };
    struct entry_row entry = { .bucket = 0 };
    struct store *store = NULL;

    train(&t, 300, 2000);
    moetune_close(tuner);
    CHECK(read_entry(path, 2, &entry));
    pin.cluster = entry.cluster;
    pin.shape = entry.shape;
    CHECK(!moe_plan_parse("r=1 d=8 a=linear", &pin.plan));
    CHECK(store_open(path, STORE_RELAXED, &store) == OK);
    CHECK(store_override_add(store, &pin) == OK && store_publish(store) == OK);
    store_close(store);
    tuner = open_with(path, options_with(0.1));
    t = training_of(tuner, 2, 0.03);
    train(&t, 700, 500);
    CHECK(plan_is(&t.plan, "r=1 d=8 a=linear") && t.plan.source == MOE_OVERRIDE);
    CHECK(status_of(tuner).tried == 0);
    train(&t, 300, 10);
    CHECK(plan_is(&t.plan, best_text) && t.plan.source == MOE_EXACT);
    moetune_close(tuner);
}

static void callers_of_the_first_version_are_served(void)
{
    struct moetune *tuner = open_with(fresh_path("first"), options_with(0));
    struct {
        struct moe_plan plan;
        uint32_t guard;
    } small = { .plan = { .struct_size = 16 }, .guard = 0xabcdef };

    small.plan.source = 77; /* beyond what this caller knows */
    CHECK(moetune_ask(tuner, 300, &small.plan) == MOE_OK);
    CHECK(small.plan.struct_size == 16 && small.plan.d == 1 && small.plan.source == 77);
    moetune_close(tuner);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(nonsense_is_refused_and_teaches_nothing),
        TEST(the_width_of_buckets_follows_the_layer_unless_it_is_given),
        TEST(bad_options_are_refused),
        TEST(only_the_axes_asked_for_vary),
        TEST(who_never_tells_gets_the_default_plan),
        TEST(who_stops_telling_is_not_led_on),
        TEST(a_plan_that_cannot_run_is_not_tried_again),
        TEST(a_winner_that_stops_working_gives_way),
        TEST(a_person_has_the_last_word),
        TEST(a_pinned_bucket_is_not_tuned),
        TEST(callers_of_the_first_version_are_served),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), prepare);
}
