/* Tests the rule by which a plan gets into the table. */
#include "check.h"

#include "decision.h"
#include "plan.h"
#include "random.h"
#include "shape.h"
#include "status.h"
#include "surface.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 4000 };

/* Plans of a small layer that take what a test says, whatever a model of costs may expect. */
struct bench {
    struct moe_plan arms[SEARCH_ARMS_MAX];
    size_t count;
    double ns[SEARCH_ARMS_MAX]; /* true */
    struct search *search;
    struct noise noise;
    int fails; /* an arm that cannot run, or -1 */
};

static struct bench bench_open(const char *strategy, uint32_t repeats, uint64_t seed, double sigma)
{
    struct moe_shape shape = { .struct_size = sizeof(shape),
                               .experts = 2,
                               .top_k = 2,
                               .model_dim = 64,
                               .hidden_dim = 128,
                               .ranks = 4,
                               .ranks_per_node = 4,
                               .pass = MOE_TRAIN,
                               .tokens = 256 };
    struct search_setup setup = { .shape = shape, .repeats = repeats, .seed = 3 };
    struct bench b = { .noise = noise_make(seed, sigma, sigma > 0 ? 0.01 : 0, false), .fails = -1 };

    b.count = plan_list(&shape, b.arms, SEARCH_ARMS_MAX);
    setup.arms = b.arms;
    setup.arm_count = b.count;
    for (size_t i = 0; i < b.count; i++)
        b.ns[i] = 1.2e6;
    CHECK(search_open(search_find(strategy), &setup, &b.search) == OK);
    return b;
}

static int arm_of(const struct bench *b, const char *text)
{
    struct moe_plan plan = MOE_PLAN_INIT;

    CHECK(!moe_plan_parse(text, &plan));
    for (size_t i = 0; i < b->count; i++)
        if (plan_equal(&b->arms[i], &plan))
            return (int)i;
    return -1;
}

static int default_arm_of(const struct bench *b)
{
    return arm_of(b, "r=1 d=1 a=linear");
}

static struct decision_setup setup_of(const struct bench *b)
{
    return (struct decision_setup){
        .search = b->search, .capacity = 255, .default_arm = default_arm_of(b), .incumbent = -1
    };
}

struct record {
    enum decision_purpose purpose;
    int arm;
    int64_t ns;
};

/* Until it is decided, or `most` steps.  Returns the steps; records may be NULL. */
static uint32_t run(struct bench *b, struct decision *d, uint32_t most, struct record *records)
{
    enum decision_purpose purpose;
    uint32_t steps = 0;
    int arm;

    while (steps < most && (arm = decision_next(d, &purpose)) != DECISION_DONE) {
        int64_t ns = noise_sample(&b->noise, b->ns[arm]);

        CHECK(b->search->usable[arm]);
        if (arm == b->fails) {
            decision_drop(d, arm);
            continue;
        }
        decision_tell(d, purpose, arm, ns);
        if (records)
            records[steps] = (struct record){ purpose, arm, ns };
        steps++;
    }
    return steps;
}

static struct decision_result decide(struct bench *b, const struct decision_setup *setup)
{
    struct decision_result r = { .arm = -1 };
    struct decision d;

    decision_open(&d, setup);
    run(b, &d, STEPS_MAX, NULL);
    CHECK(decision_result(&d, &r));
    return r;
}

/* ---- what is published */

static void a_plan_that_is_clearly_faster_is_adopted(void)
{
    static const char *const strategies[] = { "guided", "exhaustive" };
    int inside = 0;

    for (int i = 0; i < 40; i++) {
        struct bench b = bench_open(strategies[i % 2], 20, (uint64_t)i, 0.03);
        struct decision_setup setup = setup_of(&b);
        struct decision_result r;
        int best = arm_of(&b, "r=2 d=2 a=linear");

        for (size_t arm = 0; arm < b.count; arm++)
            b.ns[arm] = 1e6 * (1 + 0.1 * b.arms[arm].d);
        b.ns[default_arm_of(&b)] = 1e6;
        b.ns[best] = 0.75e6;
        r = decide(&b, &setup);
        CHECK(r.arm == best && r.word == DECISION_ADOPTED);
        inside += r.gain.low < 0.25 && r.gain.high > 0.25;
        CHECK(r.gain.low > 0.05 && r.gain.high < 0.45 && r.harm <= 0.01);
        CHECK(r.samples >= 2 * PAIRS_LEAST && fabs(r.default_ns / 1e6 - 1) < 0.1);
        search_close(b.search);
    }
    CHECK(inside >= 33); /* of 40, of which 38 are expected */
}

static void where_nothing_is_faster_the_default_is_published(void)
{
    struct bench b = bench_open("guided", 0, 2, 0.03);
    struct decision_setup setup = setup_of(&b);
    struct decision_result r;

    b.ns[default_arm_of(&b)] = 1e6;
    r = decide(&b, &setup);
    CHECK(r.arm == default_arm_of(&b) && r.word == DECISION_DEFAULT);
    CHECK(r.gain.value == 0 && r.gain.low == 0 && r.gain.high == 0 && r.harm == 0);
    search_close(b.search);
}

/* Plans without order within a few percent of the default, which is the best: the hardest case, and
 * nothing that a search would expect. */
static uint32_t harmed(const char *strategy, uint32_t repeats, double sigma, uint32_t buckets)
{
    uint32_t harmed = 0;

    for (uint64_t seed = 0; seed < buckets; seed++) {
        struct bench b = bench_open(strategy, repeats, seed, sigma);
        struct decision_setup setup = setup_of(&b);
        struct decision_result r;

        for (size_t i = 0; i < b.count; i++)
            b.ns[i] = 1e6 * (1 + 0.08 * uniform_draw(seed, i));
        b.ns[default_arm_of(&b)] = 1e6;
        r = decide(&b, &setup);
        harmed += b.ns[r.arm] > 1.01e6;
        CHECK(r.harm <= 0.01);
        search_close(b.search);
    }
    if (getenv("MOETUNE_TEST_VERBOSE"))
        printf("    %s, %g: %u of %u\n", strategy, sigma, harmed, buckets);
    return harmed;
}

static void hardly_anything_published_is_slower_than_the_default(void)
{
    CHECK(harmed("guided", 0, 0.05, 300) <= 15);
    CHECK(harmed("exhaustive", 5, 0.05, 300) <= 8);
}

/* A search that is sure of arm 2, whatever it takes. */
static void obstinate_visit(struct search *search)
{
    (void)search;
}

static int obstinate_open(struct search *search)
{
    search->own = NULL;
    return OK;
}

static int obstinate_next(struct search *search)
{
    return search->samples ? SEARCH_DONE : 2;
}

static void obstinate_tell(struct search *search, int arm, double log_ns, bool asked)
{
    (void)search;
    (void)arm;
    (void)log_ns;
    (void)asked;
}

static void obstinate_verdict(struct search *search, struct search_result *out)
{
    (void)search;
    out->winner = 2;
    out->runner_up = 1;
}

static struct normal obstinate_level(struct search *search, int arm)
{
    (void)search;
    return (struct normal){ log(1e6) - 0.05 * arm, 0.002 };
}

static struct normal obstinate_compare(struct search *search, int arm, int other)
{
    (void)search;
    return (struct normal){ 0.05 * (other - arm), 0.003 };
}

static const struct search_ops obstinate = { .name = "obstinate",
                                             .summary = "",
                                             .open = obstinate_open,
                                             .close = obstinate_visit,
                                             .begin = obstinate_visit,
                                             .next = obstinate_next,
                                             .tell = obstinate_tell,
                                             .verdict = obstinate_verdict,
                                             .level = obstinate_level,
                                             .compare = obstinate_compare };

static void a_winner_that_the_default_beats_is_never_published(void)
{
    struct bench b = bench_open("guided", 0, 1, 0);
    struct search_setup setup = { .shape = b.search->setup.shape, .arms = b.arms, .arm_count = 3 };
    struct decision_setup s = setup_of(&b);
    struct decision_result r;

    search_close(b.search);
    CHECK(search_open(&obstinate, &setup, &b.search) == OK);
    s.search = b.search;
    s.default_arm = 0;
    s.patience = 12;
    r = decide(&b, &s);
    CHECK(r.arm == 0 && r.word == DECISION_DEFAULT && r.found.winner == 2);
    CHECK(b.search->samples == 1 + 12); /* patience, not for ever */
    b.ns[2] = 1.05 * b.ns[0];
    r = decide(&b, &s);
    CHECK(r.arm == 0 && r.word == DECISION_DEFAULT && r.found.winner == 2);
    CHECK(b.search->samples == 1 + 2 * PAIRS_LEAST); /* it is plainly slower */
    b.ns[2] = 0.95 * b.ns[0];
    r = decide(&b, &s);
    CHECK(r.arm == 2 && r.word == DECISION_ADOPTED);
    CHECK(fabs(r.gain.value - 0.05) < 1e-6); /* what was measured, not what was believed */
    search_close(b.search);
}

/* An interval of 95 % holds what one further launch finds, where each sample is from a launch of
 * its own, which makes it slow or fast by 5 %. */
static void a_gain_that_launches_showed_is_that_of_a_further_one(void)
{
    uint32_t held = 0, of = 0;

    for (uint64_t seed = 0; seed < 300; seed++) {
        struct bench b = bench_open("blind", 0, seed, 0.05);
        struct decision_setup setup = setup_of(&b);
        struct decision_result r;

        setup.launched = true;
        b.ns[default_arm_of(&b)] = 1e6;
        b.ns[arm_of(&b, "r=2 d=2 a=linear")] = 0.7e6;
        r = decide(&b, &setup);
        for (int launch = 0; launch < 5 && r.arm != default_arm_of(&b); launch++) {
            double found = 1 - (double)noise_sample(&b.noise, b.ns[r.arm]) /
                                   (double)noise_sample(&b.noise, b.ns[default_arm_of(&b)]);

            held += r.gain.low <= found && found <= r.gain.high;
            of++;
        }
        search_close(b.search);
    }
    CHECK(of > 1000);
    CHECK(held >= 0.92 * of && held <= 0.98 * of); /* as if all were of one launch: .675 */
}

/* Under noise of 25 % launches, which go on, prove more often that a plan saves 15 %, and less
 * often what is no better; where they do not they may say what is likely. */
static void launches_go_on_while_that_is_worth_it(void)
{
    enum { CASES = 150 };
    int published[2][2] = { { 0 } }, likely = 0, open = 0;

    for (int equal = 0; equal < 2; equal++)
        for (int launched = 0; launched < 2; launched++)
            for (uint64_t seed = 0; seed < CASES; seed++) {
                struct bench b = bench_open("blind", 0, seed, 0.25);
                struct decision_setup setup = setup_of(&b);
                struct decision_result r;
                int best = arm_of(&b, "r=2 d=2 a=linear");

                b.search->setup.worth = 7e-5;
                setup.launched = launched;
                b.ns[best] = equal ? b.ns[best] : 0.85 * b.ns[best];
                r = decide(&b, &setup);
                published[equal][launched] += r.arm != default_arm_of(&b);
                CHECK(r.doubt.arm < 0 || r.arm == default_arm_of(&b));
                CHECK(r.doubt.arm < 0 || (r.doubt.gain > 0 && r.doubt.chance > 0.5));
                open += launched && !equal && r.arm != best;
                likely += launched && !equal && r.doubt.arm == best;
                search_close(b.search);
            }
    CHECK(published[0][1] > published[0][0]);
    CHECK(published[1][1] * 3 < published[1][0] * 2);
    CHECK(likely > 0 && open < CASES);
}

/* ---- the plan in force */

static void the_plan_in_force_stays_unless_it_is_beaten_by_the_margin(void)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct bench b = bench_open("guided", 0, seed, 0.01);
        struct decision_setup setup = setup_of(&b);
        struct decision_result r;
        int best = arm_of(&b, "r=2 d=2 a=linear"), held = arm_of(&b, "r=2 d=1 a=linear");

        b.ns[default_arm_of(&b)] = 1e6;
        b.ns[held] = 0.8e6;
        b.ns[best] = 0.76e6;
        setup.incumbent = held;
        setup.margin = 0.15;
        r = decide(&b, &setup);
        CHECK(r.arm == held && r.word == DECISION_INCUMBENT && r.found.winner == best);
        CHECK(r.bound > 0.03); /* of the plan that stays, not of the search's winner */
        setup.margin = 0.01;
        r = decide(&b, &setup);
        CHECK(r.arm == best && r.word == DECISION_ADOPTED);
        search_close(b.search);
    }
}

static void a_plan_in_force_that_does_harm_goes(void)
{
    struct bench b = bench_open("guided", 0, 5, 0.02);
    struct decision_setup setup = setup_of(&b);

    b.ns[default_arm_of(&b)] = 1e6;
    setup.incumbent = arm_of(&b, "r=2 d=1 a=linear"); /* 20 % slower */
    setup.margin = 0.5;
    CHECK(decide(&b, &setup).arm == default_arm_of(&b));
    search_close(b.search);
}

static void what_is_published_has_been_sampled(void)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct bench b = bench_open("guided", 0, seed, 0.05);
        struct decision_setup setup = setup_of(&b);
        struct decision_result r;

        setup.incumbent = (int)random_below(seed, 0, (uint32_t)b.count);
        setup.margin = 0.3;
        r = decide(&b, &setup);
        CHECK(b.search->count[r.arm] && b.search->count[default_arm_of(&b)]);
        search_close(b.search);
    }
}

/* ---- what cannot run */

static void without_a_default_the_best_plan_stands_alone(void)
{
    struct bench b = bench_open("guided", 0, 7, 0.02);
    struct decision_setup setup = setup_of(&b);
    bool usable[SEARCH_ARMS_MAX];
    int best = arm_of(&b, "r=2 d=2 a=linear");
    struct decision_result r;

    memset(usable, true, sizeof(usable));
    usable[default_arm_of(&b)] = false;
    setup.usable = usable;
    b.ns[best] = 0.8e6;
    r = decide(&b, &setup);
    CHECK(r.arm == best && r.word == DECISION_ALONE);
    CHECK(isnan(r.default_ns) && isnan(r.gain.value) && isnan(r.gain.low) && r.harm == 0);
    setup.default_arm = -1;
    setup.usable = NULL;
    CHECK(decide(&b, &setup).word == DECISION_ALONE);
    search_close(b.search);
}

static void what_fails_is_neither_asked_for_again_nor_published(void)
{
    struct bench b = bench_open("guided", 0, 8, 0.02);
    struct decision_setup setup = setup_of(&b);
    struct decision_result r;
    int best = arm_of(&b, "r=2 d=2 a=linear"), second = arm_of(&b, "r=2 d=1 a=linear");

    b.ns[default_arm_of(&b)] = 1e6;
    b.ns[best] = 0.7e6;
    b.ns[second] = 0.8e6;
    b.fails = best;
    r = decide(&b, &setup);
    CHECK(r.arm == second && r.word == DECISION_ADOPTED);
    b.fails = default_arm_of(&b);
    r = decide(&b, &setup);
    CHECK(r.arm == best && r.word == DECISION_ALONE);
    search_close(b.search);
}

static void where_nothing_runs_nothing_is_published(void)
{
    struct bench b = bench_open("guided", 0, 9, 0);
    struct decision_setup setup = setup_of(&b);
    bool usable[SEARCH_ARMS_MAX] = { false };
    enum decision_purpose purpose;
    struct decision_result r;
    struct decision d;

    setup.usable = usable;
    decision_open(&d, &setup);
    CHECK(decision_next(&d, &purpose) == DECISION_DONE);
    CHECK(!decision_result(&d, &r));
    search_close(b.search);
}

/* ---- cut, alone, told again */

static void who_is_cut_off_publishes_nothing_that_may_do_harm(void)
{
    struct bench b = bench_open("guided", 0, 10, 0.05);
    struct decision_setup setup = setup_of(&b);
    enum decision_purpose purpose;
    struct decision_result r;
    struct decision d;

    b.ns[default_arm_of(&b)] = 1e6;
    decision_open(&d, &setup);
    run(&b, &d, 3, NULL);
    search_cut(b.search);
    CHECK(decision_next(&d, &purpose) == DECISION_DONE);
    CHECK(decision_result(&d, &r) && r.found.reason == SEARCH_CUT && r.harm <= 0.01);
    search_close(b.search);
}

static void alone_a_bucket_is_decided_by_its_own_samples(void)
{
    struct bench b = bench_open("guided", 0, 11, 0.02);
    struct decision_setup setup = setup_of(&b);
    int before = arm_of(&b, "r=2 d=2 a=linear"), now = arm_of(&b, "r=2 d=1 a=linear");
    bool usable[SEARCH_ARMS_MAX] = { false };

    b.ns[default_arm_of(&b)] = 1e6;
    b.ns[before] = 0.7e6;
    CHECK(decide(&b, &setup).arm == before);
    b.ns[before] = 1.3e6; /* the machine changes */
    b.ns[now] = 0.8e6;
    setup.capacity = 383;
    setup.alone = true;
    usable[default_arm_of(&b)] = usable[before] = usable[now] = true;
    setup.usable = usable;
    CHECK(decide(&b, &setup).arm == now);
    search_close(b.search);
}

static void samples_that_nobody_asked_for_tell_the_search_and_prove_nothing(void)
{
    struct bench b = bench_open("guided", 0, 12, 0.02);
    struct decision_setup setup = setup_of(&b);
    enum decision_purpose purpose;
    struct decision_result r;
    struct decision d;
    int best = arm_of(&b, "r=2 d=2 a=linear");

    b.ns[default_arm_of(&b)] = 1e6;
    b.ns[best] = 0.8e6;
    decision_open(&d, &setup);
    for (int i = 0; i < 200; i++)
        for (int arm = 0; arm < (int)b.count; arm++)
            if (i < 4 || arm == best || arm == default_arm_of(&b))
                decision_recall(&d, DECISION_OTHER, arm, noise_sample(&b.noise, b.ns[arm]));
    CHECK(decision_result(&d, &r) && r.arm == default_arm_of(&b) && r.word == DECISION_DEFAULT);
    CHECK(decision_next(&d, &purpose) == best && purpose == DECISION_SAFETY);
    CHECK(run(&b, &d, STEPS_MAX, NULL) == 2 * PAIRS_LEAST);
    CHECK(decision_result(&d, &r) && r.arm == best && r.word == DECISION_ADOPTED);
    search_close(b.search);
}

static bool same_result(const struct decision_result *a, const struct decision_result *b)
{
    return a->arm == b->arm && a->word == b->word && a->ns == b->ns &&
           a->gain.value == b->gain.value && a->gain.low == b->gain.low && a->harm == b->harm &&
           a->samples == b->samples &&
           (a->bound == b->bound || (isnan(a->bound) && isnan(b->bound)));
}

static void the_same_samples_told_again_give_the_same_state(void)
{
    static const char *const strategies[] = { "guided", "exhaustive", "paper" };
    static struct record records[STEPS_MAX];

    for (int i = 0; i < 3; i++)
        for (uint64_t seed = 20; seed < 26; seed++) {
            struct bench b = bench_open(strategies[i], 3, seed, 0.06);
            struct decision_setup setup = setup_of(&b);
            struct decision_result whole, again;
            struct decision d, e;
            uint32_t steps;

            for (size_t arm = 0; arm < b.count; arm++)
                b.ns[arm] = 1e6 * (0.97 + 0.08 * uniform_draw(seed, arm));
            decision_open(&d, &setup);
            steps = run(&b, &d, STEPS_MAX, records);
            CHECK(decision_result(&d, &whole));
            for (uint32_t cut = 0; cut <= steps; cut += 1 + steps / 9) {
                struct bench c = bench_open(strategies[i], 3, seed, 0); /* a new process's */
                struct decision_setup anew = setup_of(&c);
                enum decision_purpose purpose;

                decision_open(&e, &anew);
                for (uint32_t k = 0; k < cut; k++)
                    decision_recall(&e, records[k].purpose, records[k].arm, records[k].ns);
                for (uint32_t k = cut; k < steps; k++) {
                    CHECK(decision_next(&e, &purpose) == records[k].arm);
                    CHECK(purpose == records[k].purpose);
                    decision_tell(&e, purpose, records[k].arm, records[k].ns);
                }
                CHECK(decision_next(&e, &purpose) == DECISION_DONE);
                CHECK(decision_result(&e, &again) && same_result(&whole, &again));
                search_close(c.search);
            }
            search_close(b.search);
        }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_plan_that_is_clearly_faster_is_adopted),
        TEST(where_nothing_is_faster_the_default_is_published),
        TEST(hardly_anything_published_is_slower_than_the_default),
        TEST(a_winner_that_the_default_beats_is_never_published),
        TEST(a_gain_that_launches_showed_is_that_of_a_further_one),
        TEST(launches_go_on_while_that_is_worth_it),
        TEST(the_plan_in_force_stays_unless_it_is_beaten_by_the_margin),
        TEST(a_plan_in_force_that_does_harm_goes),
        TEST(what_is_published_has_been_sampled),
        TEST(without_a_default_the_best_plan_stands_alone),
        TEST(what_fails_is_neither_asked_for_again_nor_published),
        TEST(where_nothing_runs_nothing_is_published),
        TEST(who_is_cut_off_publishes_nothing_that_may_do_harm),
        TEST(alone_a_bucket_is_decided_by_its_own_samples),
        TEST(samples_that_nobody_asked_for_tell_the_search_and_prove_nothing),
        TEST(the_same_samples_told_again_give_the_same_state),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
