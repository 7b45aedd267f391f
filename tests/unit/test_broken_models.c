/* Tests that a broken cost model (broken_model.h) never makes a search publish a plan that measured
 * slower than the default.  Also tests that tune does not infer such a plan between measured
 * buckets where the default's advantage jumps.
 *
 *     test_broken_models [--full]      1,920 buckets, or 10,080; 475 inferred ones, or 9,000 */
#include "check.h"

#include "arms.h"
#include "broken_model.h"
#include "further_launches.h"
#include "made_ranks.h"
#include "made_table.h"
#include "plan.h"
#include "random.h"
#include "stats.h"
#include "status.h"
#include "store.h"
#include "surface.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- tables whose truth is known */

enum { BUCKETS = 5, LAUNCHES = 2, LAUNCH_CYCLES = 2 }; /* of a table; after the search's */

struct outcomes {
    uint32_t buckets;
    struct stage {
        uint32_t published, harmed, unproven;
    } decided, left; /* by the decision alone, as a training that tunes itself; after rounds */
};

/* In every other bucket the default is the best plan, where all others do harm. */
static void set_truth(const struct surface *s, uint64_t key, double capacity, struct true_bucket *b)
{
    int usual;

    surface_bucket(s, capacity, 0, b);
    usual = b->default_arm;
    b->usable[usual] = true;
    if (random_bits(key, 1) % 2)
        b->ns[usual] = b->seen_ns[usual] = b->best_ns * (1 - 0.06 * uniform_draw(key, 2));
    b->best_ns = fmin(b->best_ns, b->ns[usual]);
}

static void count(struct stage *stage, const struct true_bucket *b, int arm)
{
    stage->published += arm != b->default_arm;
    stage->harmed += b->ns[arm] > 1.02 * b->ns[b->default_arm];
}

static void decide(struct search *search, struct noise *noise, struct contender *c,
                   struct outcomes *out)
{
    const struct true_bucket *b = &c->bucket;
    struct bucket_outcome o = true_bucket_tune(b, search, noise, 0, &c->decision);
    struct decision_result r;

    CHECK(o.samples < 2000 && decision_result(&c->decision, &r) && r.arm == o.arm);
    out->buckets++;
    count(&out->decided, b, r.arm);
    if (r.arm == b->default_arm)
        return;
    CHECK(isfinite(r.gain.value) && r.gain.value > 0);
    CHECK(isfinite(r.ns) && isfinite(r.default_ns));
    out->decided.unproven += proof_pairs(decision_proof(&c->decision)).count < PAIRS_LEAST;
}

/* The static plans that are to meet the table the broken model chooses, too. */
static void play_rounds(const struct surface *s, struct contender *contenders,
                        struct search *search, struct noise *noise, uint64_t seed,
                        struct outcomes *out)
{
    struct rounds_setup how = { .launches = LAUNCHES,
                                .launch_cycles = LAUNCH_CYCLES,
                                .seed = seed };
    struct rounds_verdict left[ROUNDS_BUCKETS_MAX];

    further_launches(s, contenders, BUCKETS, search, &how, 0, noise, left, NULL);
    for (int b = 0; b < BUCKETS; b++) {
        bool usual = left[b].arm == contenders[b].bucket.default_arm;

        count(&out->left, &contenders[b].bucket, left[b].arm);
        out->left.unproven += !usual && !left[b].finding.proof;
        CHECK(usual || left[b].finding.gain.value > 0);
    }
}

static void tune(const char *strategy, uint64_t seed, const struct model_defect *broken_by,
                 struct outcomes *out)
{
    struct surface s = surface_make(seed, &(struct surface_options){ .slices = 4 });
    struct search_setup setup = surface_setup(&s, seed);
    struct noise noise = noise_make(seed, 0.05, 0.01, true);
    static struct contender contenders[BUCKETS];
    double capacities[BUCKETS];
    struct search *search;

    model_defect = *broken_by;
    model_defect.arms = s.arms;
    model_defect.arm = s.arms[random_bits(seed, 3) % s.arm_count];
    CHECK(!search_open(search_find(strategy), &setup, &search));
    for (uint64_t i = 0; i < BUCKETS; i++)
        capacities[i] = surface_capacity(&s, i);
    sort_doubles(capacities, BUCKETS);
    for (uint64_t i = 0; i < BUCKETS; i++) {
        set_truth(&s, seed * 16 + i, capacities[i], &contenders[i].bucket);
        decide(search, &noise, &contenders[i], out);
    }
    play_rounds(&s, contenders, search, &noise, seed, out);
    search_close(search);
    model_defect.scope = NOBODY;
}

static bool full;

static struct model_defect defect_of(uint64_t i)
{
    static const double added[] = { NAN, INFINITY, -INFINITY, 5, -5 };
    static const enum defect_scope scopes[] = { ONE_ARM, FAMILY, ALL };

    if (i % 16 == 15)
        return (struct model_defect){ .scope = ALL, .kind = REVERSED };
    return (struct model_defect){ .scope = scopes[i % 3], .added = added[i % 16 / 3 % 5] };
}

static void hold(const char *strategy)
{
    struct outcomes sound = { 0 }, with_defects = { 0 };
    uint64_t systems = full ? 63 : 12;

    for (uint64_t i = 0; i < 16 * systems; i++) {
        struct model_defect broken_by = defect_of(i);

        tune(strategy, 1 + i, &broken_by, &with_defects);
        if (i % 4 == 0)
            tune(strategy, 1 + i, &(struct model_defect){ .scope = NOBODY }, &sound);
    }
    /* Harm of 2 % is excluded with more than 99 %, and few plans come near it. */
    CHECK(with_defects.decided.harmed <= (full ? 10 : 5));
    CHECK(with_defects.left.harmed <= (full ? 5 : 2)); /* full: .1 % */
    CHECK(!with_defects.decided.unproven && !sound.decided.unproven);
    CHECK(!with_defects.left.unproven && !sound.left.unproven);
    CHECK(with_defects.decided.published > with_defects.buckets / 10);
    CHECK(with_defects.left.published > with_defects.buckets / 10);
    if (getenv("MOETUNE_TEST_VERBOSE"))
        for (int i = 0; i < 2; i++) {
            const struct outcomes *o = i ? &sound : &with_defects;

            printf("  %s, %s: of %u buckets decided %u, %u harmed; after the rounds %u, %u "
                   "harmed\n",
                   strategy, i ? "sound" : "with defects", o->buckets, o->decided.published,
                   o->decided.harmed, o->left.published, o->left.harmed);
        }
}

static void broken_costs_publish_nothing_that_measures_slower(void)
{
    hold("guided");
}

static void a_broken_posterior_publishes_nothing_that_measures_slower(void)
{
    hold("blind");
}

/* ---- between measured buckets: whole tables, by tune itself */

enum { FIRST = 8, LAST = 63, WINDOW = 64, JUMPS = 3 };

/* How much longer than the best other plan the default takes, as a logarithm: by turns it is the
 * best plan and is not.  From each jump on another level holds, or a slope leads from one to the
 * other. */
struct uneven {
    struct surface surface;
    bool smooth;
    int default_arm;
    double from[JUMPS], level[JUMPS + 1], slope;
    double default_ns[LAST + 1], best_ns[LAST + 1]; /* the latter: of the others */
};

static double capacity_of(uint32_t bucket)
{
    return (bucket + 1.0) * WINDOW - 1;
}

static double longer_by(const struct uneven *u, double capacity)
{
    int level = 0;

    if (u->smooth)
        return u->slope * log(capacity / u->from[1]);
    while (level < JUMPS && capacity >= u->from[level])
        level++;
    return u->level[level];
}

/* Jumps are half a doubling of c apart at least, so that tune measures between any two of them:
 * what is shorter, nobody sees. */
static struct uneven uneven_of(uint64_t seed, bool smooth)
{
    static const uint32_t slices[] = { 4, 8, 32, 128 };
    struct surface_options options = { .slices = slices[seed % 4] };
    struct uneven u = { .surface = surface_make(seed, &options), .smooth = smooth };
    struct moe_plan usual = plan_default(NULL);
    uint64_t key = random_bits(seed, 11);
    double sign = random_bits(key, 0) % 2 ? 1 : -1;

    u.surface.shape.tokens = 65536;
    u.default_arm = arms_find(u.surface.arms, u.surface.arm_count, &usual);
    u.slope = sign * (.2 + .4 * uniform_draw(key, 1));
    for (int i = 0; i <= JUMPS; i++) {
        if (i < JUMPS)
            u.from[i] = FIRST * WINDOW * exp2(i + .5 * uniform_draw(key, 2 + (uint64_t)i));
        u.level[i] = (i % 2 ? -sign : sign) * .02 * pow(10, uniform_draw(key, 12 + (uint64_t)i));
    }
    for (uint32_t b = FIRST; b <= LAST; b++) {
        u.best_ns[b] = INFINITY;
        for (int i = 0; i < (int)u.surface.arm_count; i++)
            if (i != u.default_arm)
                u.best_ns[b] = fmin(u.best_ns[b], surface_ns(&u.surface, capacity_of(b), i));
        u.default_ns[b] = u.best_ns[b] * exp(longer_by(&u, capacity_of(b)));
    }
    return u;
}

static double uneven_ns(const void *self, const struct moe_shape *shape,
                        const struct moe_plan *plan, uint64_t capacity)
{
    const struct uneven *u = self;
    int arm = arms_find(u->surface.arms, u->surface.arm_count, plan);

    (void)shape;
    if (arm == u->default_arm)
        return u->default_ns[capacity / WINDOW];
    return arm < 0 ? NAN : surface_ns(&u->surface, (double)capacity, arm);
}

struct between {
    uint32_t tables, measured, inferred, others; /* others: inferred, and not the default */
    uint32_t slower, much_slower;                /* inferred, than the default: by 1 %, by 5 % */
    double steps, regret, gain;                  /* sums; of inferred buckets */
};

static void judge_entry(const struct uneven *u, const struct entry_row *e, struct between *b)
{
    double ns = uneven_ns(u, NULL, &e->plan, e->capacity), usual = u->default_ns[e->bucket];

    if (!entry_is(e, ENTRY_INFERRED)) {
        b->measured++;
        return;
    }
    b->inferred++;
    b->others += !plan_is_default(&e->plan, NULL);
    b->slower += ns > 1.01 * usual;
    b->much_slower += ns > 1.05 * usual;
    b->regret += ns / fmin(usual, u->best_ns[e->bucket]) - 1;
    b->gain += 1 - ns / usual;
}

static void sweep(uint64_t seed, bool smooth, const struct model_defect *broken_by,
                  struct between *out)
{
    struct uneven truth = uneven_of(seed, smooth);
    struct made_table table = {
        &truth.surface, WINDOW, FIRST, LAST, seed % 2 ? "quick" : "normal", seed
    };
    struct table_rows rows;

    made_ranks = (struct made_ranks){ .true_ns = uneven_ns,
                                      .self = &truth,
                                      .noise = .05,
                                      .outliers = .01,
                                      .seed = random_bits(seed, 17) };
    model_defect = *broken_by;
    model_defect.arms = truth.surface.arms;
    model_defect.arm = truth.surface.arms[random_bits(seed, 3) % truth.surface.arm_count];
    CHECK(!made_table_tune(&table, &rows));
    model_defect.scope = NOBODY;
    for (size_t i = 0; i < rows.count; i++)
        judge_entry(&truth, &rows.entries[i], out);
    out->tables++;
    out->steps += rows.timed;
    table_rows_free(&rows);
}

static void say_between(const char *what, const struct between *b)
{
    double inferred = b->inferred;

    if (getenv("MOETUNE_TEST_VERBOSE") && b->tables)
        printf("  %s: %u tables of %.1f measured buckets, %.0f steps each; of %u inferred buckets "
               "%u have another plan, slower than the default by 1 %%: %u, by 5 %%: %u; regret "
               "%.2f %%, gain %.2f %%\n",
               what, b->tables, b->measured / (double)b->tables, b->steps / b->tables, b->inferred,
               b->others, b->slower, b->much_slower, 100 * b->regret / inferred,
               100 * b->gain / inferred);
}

/* The model's curves are smooth, so even a sound one cannot know where the default's advantage
 * jumps; a broken one may be certain of it. */
static void nothing_slower_is_inferred_where_the_default_jumps(void)
{
    const struct model_defect none = { .scope = NOBODY };
    struct between sound = { 0 }, with_defects = { 0 }, smooth = { 0 };

    for (uint64_t i = 0; i < (full ? 64 : 5); i++) {
        struct model_defect broken_by = defect_of(i);

        sweep(1 + i, false, &none, &sound);
        sweep(1 + i, false, &broken_by, &with_defects);
        if (full)
            sweep(1 + i, true, &none, &smooth);
    }
    say_between("jumps, a sound model", &sound);
    say_between("jumps, a model with a defect", &with_defects);
    say_between("slopes, a sound model", &smooth);
    CHECK(sound.inferred + with_defects.inferred > 400);
    CHECK(!sound.much_slower && !with_defects.much_slower);
    CHECK(sound.slower + with_defects.slower <= (sound.inferred + with_defects.inferred) / 400);
    /* That is worth something only if other plans than the default are inferred, too. */
    CHECK(sound.others > sound.inferred / 20);
    if (!full)
        return;
    CHECK(smooth.others > smooth.inferred / 4 && smooth.regret < .02 * smooth.inferred);
    CHECK(!smooth.much_slower && smooth.slower <= smooth.inferred / 400);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(broken_costs_publish_nothing_that_measures_slower),
        TEST(a_broken_posterior_publishes_nothing_that_measures_slower),
        TEST(nothing_slower_is_inferred_where_the_default_jumps),
    };

    full = argc > 1 && !strcmp(argv[1], "--full");
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
