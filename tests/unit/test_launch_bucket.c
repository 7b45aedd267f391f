/* Tests one bucket of a program's space: what is published when time is up, and when the bucket is
 * given up. */
#include "launch_bucket.h"

#include "store_rows.h"

#include "arms.h"
#include "declaration.h"
#include "plan.h"

#include <string.h>

enum { BUCKET = 1 };

static const struct declaration *space;

/* One run of moetune on a database. */
struct one_run {
    struct dictionary dictionary;
    struct moe_plan arms[SEARCH_ARMS_MAX];
    uint32_t values_of[SEARCH_ARMS_MAX];
    struct launch_under_way now;
    struct launch_bucket shown;
};

static void list_arms(struct one_run *run, const struct moe_shape *shape)
{
    struct dictionary *d = &run->dictionary;
    struct moe_plan usual = plan_default(shape);
    struct launch_values *values = NULL;
    size_t values_count = 0;

    CHECK(!arms_list(shape, &(struct arms_setup){ .axes = "r", .foreign = true }, run->arms,
                     &d->arm_count));
    CHECK(!launch_values_list(space, run->arms, d->arm_count, run->values_of, &values,
                              &values_count));
    CHECK(values_count == 3);
    free(values);
    d->default_arm = arms_find(run->arms, d->arm_count, &usual);
}

static void begin(struct one_run *run, const char *path)
{
    struct moe_shape shape = some_shape(32);
    struct cluster cluster = some_cluster("a device");
    struct run_row row = { .state = RUN_RUNNING };
    struct search_setup search = { .arms = run->arms, .worth = efforts[1].worth, .seed = 1 };
    struct dictionary *d = &run->dictionary;

    shape.space = space->id;
    *run = (struct one_run){ .now = { .values_of = run->values_of },
                             .dictionary = { .buckets = { space, 1 },
                                             .arms = run->arms,
                                             .effort = &efforts[1],
                                             .harm = 0.01 } };
    list_arms(run, &shape);
    CHECK(!store_open(path, STORE_RELAXED, &d->store));
    CHECK(!store_cluster_add(d->store, &cluster, &d->cluster));
    CHECK(!store_shape_add(d->store, &shape, &d->shape));
    row.cluster = d->cluster;
    CHECK(!store_run_begin(d->store, &row));
    d->run = row.id;
    search.shape = shape;
    search.arm_count = d->arm_count;
    CHECK(!launch_bucket_open(&run->shown, d, BUCKET, &search));
    run->shown.demand = 1;
    CHECK(!launch_bucket_begin(&run->shown));
}

static void end(struct one_run *run)
{
    launch_bucket_close(&run->shown);
    CHECK(!store_commit(run->dictionary.store));
    store_close(run->dictionary.store);
}

static void launch(struct one_run *run, uint32_t values)
{
    run->now.number++;
    run->now.values = values;
    launch_bucket_begin_launch(&run->shown, &run->now, DECISION_SEARCH);
    launch_bucket_use_launch(&run->shown, &run->now);
}

/* Each plan has a level of its own, and one may have become fast. */
struct truth {
    uint64_t seed;
    int fast; /* -1: none */
};

static int64_t step_ns(const struct truth *truth, int arm)
{
    double level =
        (1 + 0.1 * random_below(truth->seed, (uint64_t)arm, 8)) * (arm == truth->fast ? 0.5 : 1);

    return (int64_t)(1e6 * level * (1 + 0.02 * (draw(1001) * 1e-3 - 0.5)));
}

/* Launches until so many samples came, or all is known. */
static void sample(struct one_run *run, uint32_t samples, const struct truth *truth)
{
    struct launch_bucket *r = &run->shown;

    while (samples && r->watched.state == BUCKET_OPEN) {
        launch(run, run->values_of[r->wanted]);
        for (; samples && launch_bucket_wants(r, &run->now); samples--)
            CHECK(!launch_bucket_add_step(r, &run->now, step_ns(truth, r->wanted), 1));
        CHECK(!launch_bucket_advance(r));
    }
}

/* ---- time is up */

/* Runs that are cut one after the other, until one decides: until then nothing is told, however
 * fast a plan has looked. */
static uint32_t cut_often(const char *path)
{
    struct truth truth = { draw(1000), -1 };
    enum bucket_state state = BUCKET_OPEN;
    struct entry_row entry;
    struct one_run run;
    uint32_t cuts = 0;

    while (state == BUCKET_OPEN) {
        begin(&run, path);
        sample(&run, 1 + draw(3), &truth);
        CHECK(!launch_bucket_advance(&run.shown));
        state = run.shown.watched.state;
        CHECK((dictionary_entry(&run.dictionary, BUCKET, &entry) == OK) == (state != BUCKET_OPEN));
        cuts += state == BUCKET_OPEN;
        end(&run);
    }
    CHECK(state == BUCKET_DECIDED);
    begin(&run, path);
    CHECK(run.shown.watched.state == BUCKET_DECIDED &&
          !entry_is(&run.shown.bucket.entry, ENTRY_CUT));
    end(&run);
    return cuts;
}

static void a_range_that_is_cut_off_says_nothing_and_goes_on(void)
{
    char name[32];

    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof(name), "cut-%d.db", i);
        CHECK(cut_often(place(name)) > 2);
    }
}

/* ---- given up */

/* Launches that show nothing: one that the range wants, and one that it would like to see on the
 * occasion.  How many of the former gave it up. */
static uint32_t vain_launches(struct one_run *run, uint32_t *on_occasion)
{
    struct launch_bucket *r = &run->shown;
    uint32_t own = 0;

    while (r->watched.state == BUCKET_OPEN && own < 2 * LAUNCH_PATIENCE) {
        bool gives_up;

        launch(run,
               draw(3) ? (run->values_of[r->wanted] + 1 + draw(2)) % 3 : run->values_of[r->wanted]);
        own += launch_bucket_wants(r, &run->now) && !r->on_occasion;
        *on_occasion += launch_bucket_wants(r, &run->now) && r->on_occasion;
        gives_up =
            launch_bucket_wish(r, &run->now) == WISH_SAMPLE && watched_count_miss(&r->watched);
        CHECK(gives_up == (own == LAUNCH_PATIENCE));
        if (gives_up)
            r->watched.state = BUCKET_GIVEN_UP;
        CHECK(!launch_bucket_advance(r));
    }
    return own;
}

static void what_is_wanted_on_the_occasion_gives_no_range_up(void)
{
    uint32_t on_occasion = 0;
    struct one_run run;

    for (int i = 0; i < 20; i++) {
        char name[32];

        snprintf(name, sizeof(name), "vain-%d.db", i);
        begin(&run, place(name));
        sample(&run, 3 + draw(6), &(struct truth){ draw(1000), -1 });
        if (run.shown.watched.state == BUCKET_OPEN)
            CHECK(vain_launches(&run, &on_occasion) == LAUNCH_PATIENCE);
        end(&run);
    }
    CHECK(on_occasion > 2 * LAUNCH_PATIENCE);
}

/* ---- decided again */

static void read_beliefs(const struct one_run *run, struct normal *levels)
{
    struct search *search = run->shown.dictionary.search;

    for (int arm = 0; arm < (int)run->dictionary.arm_count; arm++)
        levels[arm] = search->ops->level(search, arm);
}

/* False: what is left has decided it. */
static bool fail_and_begin_again(struct one_run *run, const char *path, int arm)
{
    bool open;
    struct normal here[SEARCH_ARMS_MAX], fresh[SEARCH_ARMS_MAX];

    CHECK(!launch_bucket_fail(&run->shown, arm, TRIAL_CRASHED, "it died"));
    open = run->shown.watched.state == BUCKET_OPEN;
    read_beliefs(run, here);
    end(run);
    begin(run, path);
    read_beliefs(run, fresh);
    for (int i = 0; i < (int)run->dictionary.arm_count && open; i++)
        CHECK(fabs(here[i].mean - fresh[i].mean) < 1e-6 && fabs(here[i].sd - fresh[i].sd) < 1e-6);
    return open;
}

/* As a process does that begins with what is in the database. */
static void what_fails_after_it_was_decided_leaves_samples_that_count_once(void)
{
    uint32_t open = 0;

    for (int i = 0; i < 20; i++) {
        struct one_run run;
        char name[32];
        int arm;

        snprintf(name, sizeof(name), "again-%d.db", i);
        begin(&run, place(name));
        sample(&run, 1000, &(struct truth){ draw(1000), -1 });
        arm = dictionary_arm(&run.dictionary, &run.shown.bucket.entry.plan);
        if (run.shown.watched.state == BUCKET_DECIDED && arm != run.dictionary.default_arm)
            open += fail_and_begin_again(&run, place(name), arm);
        end(&run);
    }
    CHECK(open > 1);
}

/* ---- what is claimed */

static void a_gain_is_that_of_a_further_launch(void)
{
    uint32_t held = 0, of = 0;

    for (int i = 0; i < 60; i++) {
        struct truth truth = { draw(1000), 1 };
        struct one_run run;
        char name[32];
        int arm, usual;

        snprintf(name, sizeof(name), "further-%d.db", i);
        begin(&run, place(name));
        sample(&run, 1000, &truth);
        usual = run.dictionary.default_arm;
        arm = dictionary_arm(&run.dictionary, &run.shown.bucket.entry.plan);
        for (int further = 0; further < 10 && arm != usual; further++, of++) {
            struct gain gain = run.shown.bucket.entry.gain;
            double found = 1 - (double)step_ns(&truth, arm) / (double)step_ns(&truth, usual);

            held += gain.low <= found && found <= gain.high;
        }
        end(&run);
    }
    CHECK(of > 400);
    CHECK(held >= 0.93 * of); /* 70 % where pairs are taken to be of one launch */
}

static void set_up(void)
{
    draw_from_seed();
    listen();
    CHECK(!declaration_register("space launched\naxis way a b c default a restart\n"
                                "axis chunks 1 2 4 default 1 live\nkey tokens edges 64 256\n",
                                &space));
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_range_that_is_cut_off_says_nothing_and_goes_on),
        TEST(what_is_wanted_on_the_occasion_gives_no_range_up),
        TEST(what_fails_after_it_was_decided_leaves_samples_that_count_once),
        TEST(a_gain_is_that_of_a_further_launch),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), set_up);
}
