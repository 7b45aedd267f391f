/* Tests tuning while training in a space that the program declares, on one rank, and on two ranks
 * that seldom exchange.  It finds what trying every plan finds, and notices what became slower. */
#include "live_training.h"

#include "declaration.h"
#include "store.h"

#include <math.h>

static const char text[] = "space knobs\n"
                           "axis path  a b c default a\n"
                           "axis chunk 1 2 4 8 default 1\n"
                           "need path!=c | chunk<=2\n"
                           "key tokens edges 64 256\n"
                           "class skew edges 1.25\n";

enum { PATHS = 3, CHUNKS = 4, BUCKETS = 6 };

/* What a step takes: each value of an axis has a level of its own in each class, which bends with
 * the range. */
struct costs {
    double path[BUCKETS][PATHS], chunk[BUCKETS][CHUNKS];
};

static double level(uint64_t seed, uint64_t value, uint32_t bucket)
{
    return 1 + 0.06 * random_below(seed, 2 * value, 10) +
           0.04 * random_below(seed, 2 * value + 1, 10) * bucket / BUCKETS;
}

static struct costs costs_of(uint64_t seed)
{
    struct costs c;

    for (uint32_t b = 0; b < BUCKETS; b++) {
        for (uint32_t i = 0; i < PATHS; i++)
            c.path[b][i] = level(seed + 1000 * (b % 2), i, b);
        for (uint32_t i = 0; i < CHUNKS; i++)
            c.chunk[b][i] = level(seed + 1000 * (b % 2), PATHS + i, b);
    }
    return c;
}

struct point {
    uint64_t key;
    double class;
    uint32_t bucket;
};

static const struct point points[BUCKETS] = { { 40, 1, 0 },  { 40, 2, 1 },  { 100, 1.25, 2 },
                                              { 100, 9, 3 }, { 500, 0, 4 }, { 500, 1.3, 5 } };

static double cost_us(const struct costs *c, uint32_t bucket, const char *path, int chunk)
{
    return 1000 * c->path[bucket][*path - 'a'] * c->chunk[bucket][lround(log2(chunk))];
}

static double plan_us(const struct costs *c, uint32_t bucket, const struct moe_plan *plan)
{
    char path[8] = "", chunk[8] = "";

    CHECK(moetune_value(plan, "path", path, sizeof(path)) == 1);
    CHECK(moetune_value(plan, "chunk", chunk, sizeof(chunk)) == 1);
    CHECK(*path != 'c' || atoi(chunk) <= 2);
    return cost_us(c, bucket, path, atoi(chunk));
}

static double best_us(const struct costs *c, uint32_t bucket)
{
    double best = INFINITY;

    for (const char *path = "abc"; *path; path++)
        for (int chunk = 1; chunk <= (*path == 'c' ? 2 : 8); chunk *= 2)
            best = fmin(best, cost_us(c, bucket, path, chunk));
    return best;
}

static struct moetune_options space_options(double share)
{
    struct moetune_options o = options_with(share);

    o.window = 0;
    o.space = text;
    return o;
}

static void step(struct moetune *tuner, const struct costs *c, const struct point *at, double slow,
                 struct noise *noise, struct moe_plan *plan)
{
    double us;

    *plan = (struct moe_plan)MOE_PLAN_INIT;
    CHECK(moetune_ask_key(tuner, at->key, at->class, plan) == MOE_OK);
    us = slow * plan_us(c, at->bucket, plan);
    CHECK(moetune_tell(tuner, (double)noise_sample(noise, us * 1e3) * 1e-3) == MOE_OK);
}

static void check_plan(const struct costs *c, const struct point *at, const struct moe_plan *plan)
{
    CHECK(plan->source == MOE_EXACT || plan->source == MOE_INFERRED);
    CHECK(plan->bucket == at->bucket);
    CHECK(plan_us(c, at->bucket, plan) <= 1.03 * best_us(c, at->bucket));
}

/* ---- what is found */

static void look_up_all(const char *path, const struct costs *c)
{
    struct moe_shape shape = small_shape();
    struct moelookup_view *view;
    struct moelookup *table;

    CHECK(moelookup_open(path, &table) == MOE_OK);
    CHECK(moelookup_space(table, "knobs", &shape.space) == MOE_OK);
    CHECK(moelookup_bind(table, &shape, NULL, &view) == MOE_OK);
    for (int i = 0; i < BUCKETS; i++) {
        struct moe_plan plan = MOE_PLAN_INIT;

        CHECK(moelookup_get_key(view, points[i].key, points[i].class, &plan) == MOE_OK);
        check_plan(c, &points[i], &plan);
    }
    moelookup_view_free(view);
    moelookup_close(table);
}

static void every_range_and_class_has_the_plan_that_trying_all_of_them_finds(void)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct costs c = costs_of(seed);
        const char *path = fresh_path("found");
        struct moetune *tuner = open_with(path, space_options(1));
        struct noise noise = noise_make(seed, 0.005, 0, false);
        struct moe_plan plan;
        char words[128];

        step(tuner, &c, &points[3], 1, &noise, &plan);
        CHECK(moetune_format(&plan, words, sizeof(words)) > 0);
        CHECK(!strncmp(words, "path=a chunk=1 space=knobs@", 27));
        for (int i = 0; i < 6000; i++)
            step(tuner, &c, &points[random_below(seed, (uint64_t)i, BUCKETS)], 1, &noise, &plan);
        CHECK(status_of(tuner).decided == BUCKETS && status_of(tuner).open == 0);
        for (int i = 0; i < BUCKETS; i++) {
            step(tuner, &c, &points[i], 1, &noise, &plan);
            check_plan(&c, &points[i], &plan);
        }
        moetune_close(tuner);
        look_up_all(path, &c);
    }
}

static int count_adopted(void *self, const struct entry_row *e)
{
    *(int *)self += !strcmp(e->decision, "adopted") && e->gain.low > 0.6;
    return OK;
}

/* Once the search knows that it is so slow it would not try it for its own sake. */
static void a_default_that_takes_ten_times_as_long_can_run_and_is_compared(void)
{
    struct costs c = costs_of(3);
    const char *path = fresh_path("slow");
    struct moetune *tuner = open_with(path, space_options(1));
    struct noise noise = noise_make(3, 0.005, 0, false);
    struct store *store;
    struct moe_plan plan;
    int adopted = 0;

    for (int b = 0; b < BUCKETS; b++)
        c.path[b][0] = 10;
    for (int i = 0; i < 6000; i++)
        step(tuner, &c, &points[random_below(3, (uint64_t)i, BUCKETS)], 1, &noise, &plan);
    CHECK(status_of(tuner).decided == BUCKETS);
    moetune_close(tuner);
    CHECK(!store_read(path, &store));
    CHECK(!store_entries(store, 0, 0, count_adopted, &adopted));
    store_close(store);
    CHECK(adopted == BUCKETS);
}

/* ---- drift */

static void a_range_that_became_slower_is_found_out(void)
{
    struct costs c = costs_of(7);
    const char *path = fresh_path("drift");
    struct moetune *tuner = open_with(path, space_options(1));
    struct noise noise = noise_make(7, 0.005, 0, false);
    struct moe_plan plan;

    for (int i = 0; i < 4000; i++)
        step(tuner, &c, &points[2 + i % 2], 1, &noise, &plan);
    CHECK(status_of(tuner).decided == 2 && status_of(tuner).alarms == 0);
    *said = 0;
    /* One class of the range is slower from now on; the other one is not. */
    for (int i = 0; i < 400 && !status_of(tuner).alarms; i++)
        step(tuner, &c, &points[2 + i % 2], i % 2 ? 1.4 : 1, &noise, &plan);
    CHECK(status_of(tuner).alarms == 1 && strstr(said, "steps of tokens=100 take"));
    for (int i = 0; i < 2000; i++)
        step(tuner, &c, &points[2 + i % 2], i % 2 ? 1.4 : 1, &noise, &plan);
    CHECK(status_of(tuner).alarms == 1 && status_of(tuner).decided == 2);
    check_plan(&c, &points[3], &plan);
    moetune_close(tuner);
}

/* ---- two ranks */

/* As the header has it, of ranks that exchange where it is due. */
static void together(struct moetune *ranks[2], const struct costs *c, const struct point *at,
                     uint32_t *exchanges)
{
    struct moe_plan plans[2] = { MOE_PLAN_INIT, MOE_PLAN_INIT };
    struct moetune_order orders[9];
    uint32_t bucket, count;
    double us;

    CHECK(moetune_bucket(ranks[1], at->key, at->class, &bucket) == MOE_OK);
    CHECK(bucket == at->bucket && moetune_due(ranks[0]) == moetune_due(ranks[1]));
    if (!moetune_due(ranks[0])) {
        for (int r = 0; r < 2; r++)
            CHECK(moetune_known(ranks[r], bucket, &plans[r]) == MOE_OK);
        us = plan_us(c, bucket, &plans[0]);
        CHECK(moetune_passed(ranks[0], bucket, &plans[0], us) == MOE_OK);
    } else {
        ++*exchanges;
        CHECK(moetune_ask_key(ranks[0], at->key, at->class, &plans[0]) == MOE_OK);
        CHECK(moetune_orders(ranks[0], orders, 9, &count) == MOE_OK);
        for (int r = 0; r < 2; r++)
            CHECK(moetune_obey(ranks[r], orders, count, bucket, &plans[r]) == MOE_OK);
        us = plan_us(c, bucket, &plans[0]);
        CHECK(moetune_tell(ranks[0], us) == MOE_OK);
        CHECK(moetune_spent(ranks[0], 1) == MOE_OK);
    }
    CHECK(plan_equal(&plans[0], &plans[1]));
}

static void two_ranks_run_the_same_plans(void)
{
    struct costs c = costs_of(11);
    struct moetune_options o = space_options(1);
    struct moetune *ranks[2];
    struct moetune_order order;
    struct moe_plan plan = MOE_PLAN_INIT, other = MOE_PLAN_INIT;
    uint32_t exchanges = 0;

    ranks[0] = open_with(fresh_path("ranks"), o);
    o.rank = 1;
    ranks[1] = open_with(NULL, o);
    for (int i = 0; i < 12000; i++)
        together(ranks, &c, &points[i % BUCKETS], &exchanges);
    CHECK(exchanges < 8000 && status_of(ranks[0]).decided == BUCKETS);
    for (int i = 0; i < BUCKETS; i++) {
        CHECK(moetune_ask_key(ranks[0], points[i].key, points[i].class, &plan) == MOE_OK);
        CHECK(moetune_tell(ranks[0], plan_us(&c, points[i].bucket, &plan)) == MOE_OK);
        check_plan(&c, &points[i], &plan);
        CHECK(moetune_order(ranks[0], &order) == MOE_OK);
        CHECK(moetune_follow(ranks[1], &order, points[i].bucket, &other) == MOE_OK);
        CHECK(plan_equal(&plan, &other));
        CHECK(moetune_follow(ranks[1], &order, (points[i].bucket + 1) % BUCKETS, &other) ==
              MOE_ERR_FORMAT);
    }
    moetune_close(ranks[0]);
    moetune_close(ranks[1]);
}

/* ---- what is refused */

static void refused(struct moetune_options o, const char *why)
{
    struct moe_shape shape = small_shape();
    struct moetune *tuner = NULL;

    *said = 0;
    CHECK(moetune_open(fresh_path("refused"), &shape, &o, &tuner) == MOE_ERR_ARGUMENT);
    CHECK(!tuner && strstr(said, why));
}

static void what_cannot_be_tuned_is_refused(void)
{
    struct moetune_options o = space_options(0);
    struct moe_plan plan = MOE_PLAN_INIT;
    struct moetune *tuner;
    uint32_t bucket;

    o.space = "space s\naxis a 1 2 default 1 restart\nkey k edges 1\n";
    refused(o, "the axis a needs a restart");
    o.space = "space s\naxis a 1 2 default 3\nkey k edges 1\n";
    refused(o, "line 2");
    o = space_options(0);
    o.axes = "r,d";
    refused(o, "does not go with axes");
    o = space_options(0);
    o.window = 16;
    refused(o, "a window");
    tuner = open_with(fresh_path("refused"), space_options(0));
    CHECK(moetune_ask(tuner, BUCKETS, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moetune_ask(tuner, BUCKETS - 1, &plan) == MOE_OK && plan.bucket == BUCKETS - 1);
    CHECK(moetune_ask_key(tuner, 1, NAN, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moetune_bucket(tuner, 1, 1, NULL) == MOE_ERR_ARGUMENT);
    plan.struct_size = offsetof(struct moe_plan, choice);
    CHECK(moetune_ask_key(tuner, 1, 1, &plan) == MOE_ERR_ARGUMENT);
    moetune_close(tuner);
    tuner = open_with(fresh_path("refused"), options_with(0));
    plan = (struct moe_plan)MOE_PLAN_INIT;
    CHECK(moetune_ask_key(tuner, 1, 1, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moetune_bucket(tuner, 1, 1, &bucket) == MOE_ERR_ARGUMENT);
    moetune_close(tuner);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(every_range_and_class_has_the_plan_that_trying_all_of_them_finds),
        TEST(a_default_that_takes_ten_times_as_long_can_run_and_is_compared),
        TEST(a_range_that_became_slower_is_found_out),
        TEST(two_ranks_run_the_same_plans),
        TEST(what_cannot_be_tuned_is_refused),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), prepare);
}
