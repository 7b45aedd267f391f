/* Checks the worked examples of search/README.md, db/README.md and tuner/README.md, which show how
 * a table comes about, against the code. */
#include "worked_example.h"

#include "contest.h"
#include "costs.h"
#include "decision.h"
#include "distribution.h"
#include "drift.h"
#include "export.h"
#include "layer_plans.h"
#include "rounds.h"
#include "shape.h"
#include "status.h"
#include "store.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- search */

static const struct effort *effort_named(const char *name)
{
    int i = 0;

    while (effort_words[i] && strcmp(effort_words[i], name) != 0)
        i++;
    CHECK(effort_words[i]);
    return &efforts[effort_words[i] ? i : 0];
}

static void costs_are_as_the_readme_says(const struct moe_shape *shape)
{
    struct search_machine machine = { .message_s = given("message_us") * 1e-6,
                                      .bytes_per_s_between = given("between_gbs") * 1e9,
                                      .bytes_per_s_inside = given("inside_gbs") * 1e9,
                                      .copy_bytes_per_s = given("memory_gbs") * 1e9,
                                      .flops = given("gflops") * 1e9,
                                      .launch_s = given("launch_us") * 1e-6 };
    struct costs costs = costs_of(shape, &machine);
    struct moe_plan one = given_plan("plan_1"), two = given_plan("plan_2");

    is("model_ms_1", exp(costs_log_ns(&costs, costs.prior, given("c"), &one)) * 1e-6);
    is("model_ms_2", exp(costs_log_ns(&costs, costs.prior, given("c"), &two)) * 1e-6);
}

static void pairs_prove_what_the_readme_says(void)
{
    static const char *const words[] = { "default", "likely", "adopted" };
    const char *text = given_text("pairs_percent");
    struct pairs pairs = { 0 };
    struct scatter scatter;
    struct mean mean;
    int percent, used;

    for (; sscanf(text, "%d%n", &percent, &used) == 1; text += used)
        pairs_add(&pairs, log(percent / 100.0), 0);
    scatter_of(&pairs, 1, &scatter);
    mean = pairs_mean(&pairs, &scatter);
    is("pairs_save_percent", 100 * (1 - exp(mean.mean)));
    is("pairs_slower_percent", 100 * mean_chance_above(&mean, 0));
    says("pairs_say", words[mean_proof(&mean, 0, INFINITY, 0.01)]);
}

static void bounds_are_as_the_readme_says(void)
{
    double mean[] = { log1p(given("rival_slower_percent") / 100) };
    double sd[] = { given("rival_sd_percent") / 100 };

    is("bound_percent", 100 * bound_of(mean, sd, 1, 0.05));
}

/* A table of three buckets, and a static plan that is better in one of them. */
static void rounds_are_as_the_readme_says(void)
{
    enum { STATIC = 1, TABLE = 2 };
    const struct rounds_bucket buckets[3] = { { .weight = 1, .capacity = 64, .table = TABLE },
                                              { .weight = 1, .capacity = 128, .table = TABLE },
                                              { .weight = 1, .capacity = 256, .table = TABLE } };
    const int statics[] = { STATIC };
    struct rounds_setup setup = {
        .buckets = buckets, .bucket_count = 3, .statics = statics, .static_count = 1
    };
    struct rounds *r = malloc(sizeof(*r));
    struct rounds_verdict left[ROUNDS_BUCKETS_MAX];
    struct rounds_result result;
    int percent[3][3], bucket, arm, steps = 0;

    for (int i = 0; i < 3; i++)
        percent[i][0] = 100;
    sscanf(given_text("static_percent"), "%d %d %d", &percent[0][1], &percent[1][1],
           &percent[2][1]);
    sscanf(given_text("table_percent"), "%d %d %d", &percent[0][2], &percent[1][2], &percent[2][2]);
    rounds_open(r, &setup);
    while (rounds_next(r, &bucket,
                       &arm)) /* without any noise two rounds would do, and prove nothing */
        rounds_tell(r, bucket, arm, 1000000 * percent[bucket][arm] + 700 * (steps++ % 11));
    result = rounds_result(r);
    is("over_default_percent", 100 * result.over_default.value);
    is("over_static_percent", 100 * result.over_static.value);
    rounds_decide(r, 0.01, 0.01, left);
    for (int i = 0; i < 3; i++)
        if (left[i].arm == STATIC)
            is("takes_the_static_plan", i + 1);
    free(r);
}

static void contests_are_as_the_readme_says(void)
{
    struct contest *c = malloc(sizeof(*c));
    uint32_t n = 1;

    contest_open(c, &(struct contest_settings){ 0 }, 2, 1, false);
    while (c->wins_needed[n] > n)
        n++;
    is("first_rounds_that_can_show_it", n);
    is("wins_of_20_rounds", c->wins_needed[20]);
    is("wins_of_60_rounds", c->wins_needed[60]);
    free(c);
}

static void drift_is_as_the_readme_says(void)
{
    double recorded = 1e7, slower = 1 + given("steps_slower_percent") / 100;
    struct drift d;
    int uses = 1;

    drift_open(&d, recorded, recorded, true);
    while (!drift_tell(&d, recorded * slower) && uses < 1000)
        uses++;
    is("uses_until_drift_is_seen", uses);
}

static void the_search_is_as_its_readme_says(void)
{
    struct moe_shape shape;

    begin_example("search/README.md");
    shape = given_layer();
    is("paper_trials", shape_paper_trials(&shape));
    is("worth", effort_named("normal")->worth);
    is("patience", effort_named("normal")->patience);
    costs_are_as_the_readme_says(&shape);
    bounds_are_as_the_readme_says();
    pairs_prove_what_the_readme_says();
    rounds_are_as_the_readme_says();
    contests_are_as_the_readme_says();
    drift_is_as_the_readme_says();
    end_example();
}

/* ---- db */

static char folder[] = "/tmp/moetune-examples-XXXXXX";

static struct cluster machine_of(const struct moe_shape *shape)
{
    struct cluster c = cluster_unknown();

    snprintf(c.backend, sizeof(c.backend), "host");
    snprintf(c.device, sizeof(c.device), "some CPU");
    c.semantics = CLUSTER_SEMANTICS;
    c.ranks = shape->ranks;
    c.ranks_per_node = shape->ranks_per_node;
    c.nodes = c.ranks / c.ranks_per_node;
    return c;
}

struct table {
    struct store *store;
    int64_t cluster, shape;
    uint32_t window;
};

static void put_entry(const struct table *t, const char *name)
{
    struct entry_row row = { .cluster = t->cluster,
                             .shape = t->shape,
                             .run = 1,
                             .window = t->window,
                             .bucket = (uint32_t)given(name),
                             .stale = strstr(given_text(name), "stale") != NULL,
                             .time_us = 900,
                             .default_us = 1000,
                             .gain = { 0.1, 0.05, 0.15 },
                             .decided_s = 1,
                             .decision = "adopted" };

    row.capacity = bucket_capacity(row.window, row.bucket);
    row.plan = given_plan("plan");
    CHECK(!store_entry_put(t->store, &row, "measured"));
}

static void put_pin(const struct table *t)
{
    struct override_row pin = { .cluster = t->cluster,
                                .shape = t->shape,
                                .window = t->window,
                                .plan = given_plan("pinned_plan") };

    CHECK(sscanf(given_text("pinned_buckets"), "%u to %u", &pin.first, &pin.last) == 2);
    CHECK(!store_override_add(t->store, &pin));
}

static void fill_table(const char *path, const struct moe_shape *shape)
{
    struct cluster cluster = machine_of(shape);
    struct table t = { .window = (uint32_t)given("R") };

    CHECK(!store_open(path, STORE_RELAXED, &t.store));
    CHECK(!store_cluster_add(t.store, &cluster, &t.cluster));
    CHECK(!store_shape_add(t.store, shape, &t.shape));
    put_entry(&t, "entry_1");
    put_entry(&t, "entry_2");
    put_entry(&t, "entry_3");
    put_pin(&t);
    CHECK(!store_publish(t.store));
    store_close(t.store);
}

static void lines_are_as_the_readme_says(const char *path)
{
    struct store *store = NULL;
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    int lines = 0;

    CHECK(!store_read(path, &store));
    CHECK(!export_lines(store, &(struct export_options){ 0 }, to));
    fclose(to);
    store_close(store);
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    is("exported_lines", lines);
    is("format_version", EXPORT_LOWEST);
    free(text);
}

static void ask_for(const struct moelookup_view *view, const char *name)
{
    struct moe_plan plan = MOE_PLAN_INIT;
    char answer[64];
    unsigned capacity = 0;

    CHECK(sscanf(name, "c_%u", &capacity) == 1);
    CHECK(!moelookup_get(view, capacity, &plan));
    snprintf(answer, sizeof(answer), "%s, bucket %u", plan_source_words[plan.source], plan.bucket);
    says(name, answer);
}

static void answers_are_as_the_readme_says(const char *path, const struct moe_shape *shape)
{
    static const char *const asked[] = { "c_124", "c_130", "c_137", "c_162",
                                         "c_5",   "c_170", "c_9000" };
    struct moelookup *table = NULL;
    struct moelookup_view *view = NULL;
    size_t size = 0;

    CHECK(!moelookup_open(path, &table));
    CHECK(!moelookup_bind(table, shape, NULL, &view));
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        ask_for(view, asked[i]);
    CHECK(!moelookup_pack(table, NULL, &size));
    is("packed_bytes", (double)size);
    moelookup_view_free(view);
    moelookup_close(table);
}

static void the_table_is_as_its_readme_says(void)
{
    char path[PATH_MAX], command[PATH_MAX];
    struct moe_shape shape;

    CHECK(mkdtemp(folder) != NULL);
    setenv("HOME", folder, 1);
    snprintf(path, sizeof(path), "%s/x.db", folder);
    begin_example("db/README.md");
    shape = given_layer();
    fill_table(path, &shape);
    lines_are_as_the_readme_says(path);
    answers_are_as_the_readme_says(path, &shape);
    end_example();
    snprintf(command, sizeof(command), "rm -r %s", folder);
    CHECK(!system(command));
}

/* ---- tuner */

static void a_sweep_is_as_its_readme_says(void)
{
    struct moe_shape shape;
    struct layer_plans_setup setup = { .max_factor = 8,
                                       .arms.axes = "r,d,a",
                                       .memory_limit_bytes = INT64_MAX };
    struct moe_plan usual;
    struct list anchors = { .used = 0 };
    struct layer_plans space;

    begin_example("tuner/README.md");
    shape = given_layer();
    usual = given_plan("default_plan");
    setup.effort = effort_named(given_text("effort"));
    is("measured_per_doubling", setup.effort->anchors_per_octave);
    is("refined_above_percent", 100 * setup.effort->refine_above);
    setup.window = shape_window(&shape);
    CHECK(!layer_plans_open(&shape, &setup, &space));
    is("R", space.window);
    is("first_bucket", space.first);
    is("last_bucket", space.last);
    is("plans", (double)space.arm_count);
    for (size_t i = 0; i < space.anchor_count; i++)
        add(&anchors, space.anchors[i]);
    says("measured_in_this_order", anchors.text);
    is("paper_trials", (double)layer_plans_paper_trials(&space));
    CHECK(plan_equal(&space.arms[space.default_arm], &usual));
    layer_plans_close(&space);
    end_example();
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_search_is_as_its_readme_says),
        TEST(the_table_is_as_its_readme_says),
        TEST(a_sweep_is_as_its_readme_says),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
