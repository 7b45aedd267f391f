/* Tests tuning while training: the tuner notices a plan that became slower, and does not take noise
 * for that. */
#include "live_training.h"

#include "drift.h"
#include "stats.h"

#include <math.h>

/* ---- drift, simulated */

/* What an entry of so many steps may hold at least: the upper end of a median's interval. */
static struct drift drift_after(uint64_t key, double sigma, uint32_t rounds)
{
    struct noise noise = noise_make(key, sigma, 0.01, false);
    struct drift drift;
    struct spread spread;
    int64_t ns[64];

    for (uint32_t i = 0; i < rounds; i++)
        ns[i] = noise_sample(&noise, 1e6);
    spread = spread_of(ns, rounds);
    drift_open(&drift, (double)spread.median_ns, (double)spread.high_ns, false);
    return drift;
}

static uint32_t rounds_of(uint64_t key)
{
    return 8 + random_below(key, 1, 40);
}

static void noise_is_no_drift(void)
{
    enum { BUCKETS = 2000, USES = 2000 };
    static const double sigmas[] = { 0.01, 0.05, 0.15 };
    uint32_t alarms[3] = { 0 };

    for (int s = 0; s < 3; s++)
        for (uint64_t b = 0; b < BUCKETS; b++) {
            struct noise noise = noise_make(1000 + b, sigmas[s], 0.01, false);
            struct drift drift = drift_after(b, sigmas[s], rounds_of(b));

            for (int i = 0; i < USES; i++)
                alarms[s] += drift_tell(&drift, (double)noise_sample(&noise, 1e6));
        }
    /* Fewer than one in 10,000 uses. */
    CHECK(alarms[1] < (double)BUCKETS * USES / 10000);
    CHECK(alarms[0] < (double)BUCKETS * USES / 10000);
    CHECK(alarms[2] < (double)BUCKETS * USES / 10000);
    if (alarms[1] * 10000.0 >= (double)BUCKETS * USES || getenv("MOETUNE_TEST_VERBOSE"))
        printf("    alarms in %d uses at 1, 5, 15 %% noise: %u, %u, %u\n", BUCKETS * USES,
               alarms[0], alarms[1], alarms[2]);
}

/* The worst that an inferred entry may be right about: steps take all of its bound. */
static void a_bound_that_is_used_up_is_no_drift(void)
{
    enum { BUCKETS = 2000, USES = 2000 };
    static const double bounds[] = { 0, 0.02, 0.3 };
    uint32_t alarms = 0, found = 0;

    for (uint64_t b = 0; b < BUCKETS; b++) {
        double foreseen = 1e6, most = foreseen * (1 + bounds[b % 3]);
        struct noise noise = noise_make(9000 + b, b % 2 ? 0.02 : 0.1, 0.01, false);
        struct drift drift;
        int at = 0;

        drift_open(&drift, foreseen, most, true);
        for (int i = 0; i < USES; i++)
            alarms += drift_tell(&drift, (double)noise_sample(&noise, most));
        while (at < 400 && !drift_tell(&drift, (double)noise_sample(&noise, 1.1 * most)))
            at++;
        found += at < 400;
    }
    CHECK(alarms < (double)BUCKETS * USES / 10000);
    CHECK(found > 0.99 * BUCKETS);
    if (getenv("MOETUNE_TEST_VERBOSE"))
        printf("    bounds used up: %u alarms in %d uses; %u of %d that are a tenth slower found\n",
               alarms, BUCKETS * USES, found, BUCKETS);
}

static void a_tenth_slower_is_found_within_200_uses(void)
{
    enum { BUCKETS = 2000, USES = 200 };
    uint32_t found = 0, sum = 0;

    for (uint64_t b = 0; b < BUCKETS; b++) {
        struct noise noise = noise_make(5000 + b, 0.05, 0.01, false);
        struct drift drift = drift_after(b, 0.05, rounds_of(b));
        int at = 0;

        for (int i = 0; i < 100; i++) /* all was well before */
            drift_tell(&drift, (double)noise_sample(&noise, 1e6));
        while (at < USES && !drift_tell(&drift, (double)noise_sample(&noise, 1.1e6)))
            at++;
        found += at < USES;
        sum += (uint32_t)at;
    }
    CHECK(found > 0.99 * BUCKETS);
    if (getenv("MOETUNE_TEST_VERBOSE"))
        printf("    %u of %d found, after %.1f uses on average\n", found, BUCKETS,
               (double)sum / BUCKETS);
}

/* ---- drift in training */

static void a_winner_that_became_slower_is_found_out(void)
{
    const char *path = fresh_path("drift");
    struct moetune *tuner = open_with(path, options_with(0.05));
    struct training t = training_of(tuner, 1, 0.05);
    struct entry_row entry;
    uint32_t uses = 0;

    train(&t, 300, 4000);
    CHECK(plan_is(&t.plan, best_text) && t.plan.source == MOE_EXACT);
    said[0] = 0;
    t.slow = 1.3;
    while (!status_of(tuner).alarms && uses < 1000) {
        train(&t, 300, 1);
        uses++;
    }
    CHECK(uses <= 200);
    CHECK(strstr(said, "measured again"));
    train(&t, 300, 2);
    CHECK(t.plan.source == MOE_STALE || t.plan.source == MOE_TENTATIVE);
    train(&t, 300, 3000);
    CHECK(plan_is(&t.plan, second_text) && t.plan.source == MOE_EXACT);
    CHECK(status_of(tuner).replaced == 1);
    moetune_close(tuner);
    CHECK(read_entry(path, 2, &entry) && plan_is(&entry.plan, second_text) && !entry.stale);
}

static void what_became_stale_stays_so_until_it_is_measured(void)
{
    const char *path = fresh_path("stale");
    struct moetune *tuner = open_with(path, options_with(0.05));
    struct training t = training_of(tuner, 1, 0.05);
    struct entry_row entry;

    train(&t, 300, 4000);
    t.slow = 1.3;
    for (int i = 0; i < 1000 && !status_of(tuner).alarms; i++)
        train(&t, 300, 1);
    moetune_close(tuner);
    CHECK(read_entry(path, 2, &entry) && entry.stale);
    tuner = open_with(path, options_with(0.05));
    t = training_of(tuner, 2, 0.05);
    t.slow = 1.3;
    train(&t, 300, 1);
    CHECK(t.plan.source == MOE_STALE || t.plan.source == MOE_TENTATIVE);
    train(&t, 300, 3000);
    CHECK(plan_is(&t.plan, second_text) && t.plan.source == MOE_EXACT);
    moetune_close(tuner);
}

/* An older moetune wrote what it had when it could not tell, and when its time was up. */
static void an_entry_that_is_no_decision_is_measured(void)
{
    const char *path = fresh_path("undecided");
    struct moetune *tuner = open_with(path, options_with(0.05));
    struct training t = training_of(tuner, 1, 0.05);
    struct entry_row entry;
    struct store *store;

    train(&t, 300, 4000);
    moetune_close(tuner);
    CHECK(read_entry(path, 2, &entry) && plan_is(&entry.plan, best_text));
    CHECK(!store_open(path, 0, &store));
    for (int i = 0; i < 3; i++) {
        snprintf(entry.decision, sizeof(entry.decision), "%s", i == 1 ? "tie" : "adopted");
        snprintf(entry.reason, sizeof(entry.reason), "%s", i == 2 ? "cut" : "exhausted");
        CHECK(!store_entry_put(store, &entry, "by hand"));
        store_close(store);
        tuner = open_with(path, options_with(0.05));
        CHECK(status_of(tuner).decided == (i ? 0 : 1));
        t = training_of(tuner, 2, 0.05);
        train(&t, 300, 3000);
        CHECK(plan_is(&t.plan, best_text) && status_of(tuner).decided == 1);
        moetune_close(tuner);
        CHECK(!store_open(path, 0, &store));
    }
    store_close(store);
}

static void noise_alone_switches_nothing(void)
{
    struct moetune *tuner = open_with(fresh_path("calm"), options_with(0.05));
    struct training t = training_of(tuner, 1, 0.05);

    train(&t, 300, 4000);
    train(&t, 300, 40000);
    CHECK(status_of(tuner).alarms == 0 && status_of(tuner).replaced == 0);
    CHECK(plan_is(&t.plan, best_text));
    moetune_close(tuner);
}

/* Capacity factors of .5, 1, 2 and 4 with powers of two: every step lies at a bucket's lower edge.
 */
static void train_at_lower_edges(struct training *t, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++)
        train(t, 128u << i % 4, 1);
}

static void a_run_that_goes_on_compares_what_was_measured_at_the_same_capacity(void)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        const char *path = fresh_path("edges");
        struct moetune *tuner = open_with(path, options_with(0.05));
        struct training t = training_of(tuner, seed, 0.02);
        struct entry_row entry;

        train_at_lower_edges(&t, 12000);
        CHECK(status_of(tuner).decided == 4 && status_of(tuner).alarms == 0);
        moetune_close(tuner);
        CHECK(read_entry(path, 4, &entry) && entry.capacity == 512);
        CHECK(fabs(entry.time_us / step_us(&t, &entry.plan, 512) - 1) < 0.05);
        tuner = open_with(path, options_with(0.05));
        t = training_of(tuner, seed + 10, 0.02);
        train_at_lower_edges(&t, 4000);
        CHECK(status_of(tuner).alarms == 0);
        t.slow = 1.2; /* it is still noticed, and said with the capacity that was run */
        said[0] = 0;
        train_at_lower_edges(&t, 2000);
        CHECK(status_of(tuner).alarms > 0 && strstr(said, "steps of c="));
        moetune_close(tuner);
    }
}

/* What the entry says is no alarm, however fast the first steps were. */
static void a_calm_beginning_is_no_promise(void)
{
    struct drift drift;
    struct noise noise = noise_make(5, 0.01, 0, false);
    bool alarm = false;

    drift_open(&drift, 1e6, 1.1e6, false);
    for (int i = 0; i < 64; i++)
        alarm |= drift_tell(&drift, (double)noise_sample(&noise, 0.8e6));
    for (int i = 0; i < 10000; i++)
        alarm |= drift_tell(&drift, (double)noise_sample(&noise, 1e6));
    CHECK(!alarm);
    for (int i = 0; i < 200 && !alarm; i++)
        alarm |= drift_tell(&drift, (double)noise_sample(&noise, 1.1e6));
    CHECK(alarm && drift_level_ns(&drift) > 1.05e6);
}

/* ---- what nobody measured */

/* Bucket 3 beside bucket 2, as a sweep would have filled it: its time foreseen, and never taken. */
static void infer_next_bucket(const char *path)
{
    struct training truth = { .slow = 1 };
    struct moe_plan usual = plan_default(NULL);
    struct store *store;
    struct entry_row e;

    CHECK(read_entry(path, 2, &e) && plan_is(&e.plan, best_text) && !e.inferred);
    e.bucket = 3;
    e.capacity = 511;
    e.inferred = true;
    e.time_us = step_us(&truth, &e.plan, 511);
    e.default_us = step_us(&truth, &usual, 511);
    e.bound = 0.02;
    e.low_us = e.high_us = e.gain.low = e.gain.high = NAN;
    e.samples = 0;
    snprintf(e.decision, sizeof(e.decision), "inferred");
    CHECK(!store_open(path, 0, &store) && !store_entry_put(store, &e, "inferred"));
    store_close(store);
}

static struct moetune *tuner_with_inferred(const char *path, struct training *t)
{
    struct moetune *tuner = open_with(path, options_with(0.05));

    *t = training_of(tuner, 1, 0.05);
    train(t, 300, 4000);
    moetune_close(tuner);
    infer_next_bucket(path);
    tuner = open_with(path, options_with(0.05));
    *t = training_of(tuner, 2, 0.05);
    return tuner;
}

static void an_inferred_plan_that_takes_what_was_foreseen_stays(void)
{
    const char *path = fresh_path("foreseen");
    struct training t;
    struct moetune *tuner = tuner_with_inferred(path, &t);
    struct entry_row entry;

    for (uint32_t i = 0; i < 20000; i++)
        train(&t, 384 + i % 128, 1);
    CHECK(t.plan.source == MOE_INFERRED && !status_of(tuner).alarms && !status_of(tuner).tried);
    moetune_close(tuner);
    CHECK(read_entry(path, 3, &entry) && entry.inferred && !entry.stale);
}

static void an_inferred_plan_that_is_slower_than_foreseen_is_measured(void)
{
    const char *path = fresh_path("unforeseen");
    struct training t;
    struct moetune *tuner = tuner_with_inferred(path, &t);
    struct entry_row entry;
    uint32_t uses = 0;

    said[0] = 0;
    for (t.slow = 1.3; !status_of(tuner).alarms && uses < 1000; uses++)
        train(&t, 384 + uses % 128, 1);
    CHECK(uses <= 200 && strstr(said, ", inferred, and allows "));
    train(&t, 500, 1);
    CHECK(t.plan.source == MOE_STALE || t.plan.source == MOE_TENTATIVE);
    moetune_close(tuner);
    CHECK(read_entry(path, 3, &entry) && entry.stale && entry.inferred);
    /* Also by a trainer that starts anew; by a search, which finds another plan than those known.
     */
    tuner = open_with(path, options_with(0.05));
    t = training_of(tuner, 3, 0.05);
    t.slow = 1.3;
    train(&t, 500, 1);
    CHECK(t.plan.source == MOE_STALE || t.plan.source == MOE_TENTATIVE);
    train(&t, 500, 6000);
    CHECK(plan_is(&t.plan, second_text) && t.plan.source == MOE_EXACT);
    moetune_close(tuner);
    CHECK(read_entry(path, 3, &entry) && !entry.inferred && !entry.stale && entry.samples > 0);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(noise_is_no_drift),
        TEST(a_bound_that_is_used_up_is_no_drift),
        TEST(a_tenth_slower_is_found_within_200_uses),
        TEST(a_winner_that_became_slower_is_found_out),
        TEST(what_became_stale_stays_so_until_it_is_measured),
        TEST(an_entry_that_is_no_decision_is_measured),
        TEST(an_inferred_plan_that_takes_what_was_foreseen_stays),
        TEST(an_inferred_plan_that_is_slower_than_foreseen_is_measured),
        TEST(noise_alone_switches_nothing),
        TEST(a_run_that_goes_on_compares_what_was_measured_at_the_same_capacity),
        TEST(a_calm_beginning_is_no_promise),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), prepare);
}
