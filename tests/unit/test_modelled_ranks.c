/* Tests modelled clusters whose ranks have different speeds. */
#include "small_cluster.h"

#include "engine.h"
#include "modelled_ranks.h"
#include "plan.h"
#include "status.h"

#include <stdlib.h>

/* So many ranks on one node, without what does not shrink with the work of a rank. */
static struct cluster plain(uint32_t ranks, const char *speeds)
{
    struct cluster c = small();

    c.nodes = 1;
    c.ranks = c.ranks_per_node = ranks;
    c.gemm_half_rows = c.launch_us = 0;
    c.memory_gib = 1e6;
    snprintf(c.rank_speeds_percent, sizeof(c.rank_speeds_percent), "%s", speeds);
    return c;
}

static struct moe_shape layer_of(const struct cluster *c, enum moe_shares_by shares)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = c->ranks < 4 ? 4 : c->ranks,
                               .top_k = 2,
                               .tokens = 1 << 16,
                               .model_dim = 512,
                               .hidden_dim = 2048,
                               .ranks = c->ranks,
                               .ranks_per_node = c->ranks_per_node,
                               .dtype = MOE_BF16,
                               .pass = MOE_TRAIN,
                               .shares = shares };
}

static struct moe_plan plan_of(uint32_t r, enum moe_experts e)
{
    struct moe_plan plan = plan_default(NULL);

    plan.r = r;
    plan.e = e;
    return plan;
}

struct result {
    struct reply layer, step;
    uint64_t kernels; /* of both */
};

/* One step without a row dropped. */
static struct result run(const struct cluster *c, const struct moe_shape *shape,
                         const struct moe_plan *plan)
{
    struct order layer = { .kind = ORDER_LAYER, .shape = *shape, .memory_limit_bytes = INT64_MAX };
    struct order step = { .kind = ORDER_STEP, .plan = *plan };
    struct modelled_ranks *ranks = NULL;
    struct result out = { .step.state = TRIAL_FAILED };

    step.capacity = (uint64_t)2 * shape->tokens * shape->top_k / shape->experts;
    CHECK(!modelled_ranks_open(c, 1, &ranks));
    modelled_ranks_do(ranks, &layer, &out.layer);
    if (out.layer.state == TRIAL_OK)
        modelled_ranks_do(ranks, &step, &out.step);
    out.kernels = modelled_ranks_kernels(ranks);
    modelled_ranks_close(ranks);
    return out;
}

/* ---- shares by speed */

static double ratio_of(const struct cluster *c, uint32_t r, enum moe_layout layout,
                       enum moe_pass pass)
{
    struct moe_plan plan = plan_of(r, MOE_SPARSE);
    struct moe_shape shape = layer_of(c, MOE_SHARES_EQUAL);
    struct result equal, speed;

    shape.layout = layout;
    shape.pass = pass;
    equal = run(c, &shape, &plan);
    shape.shares = MOE_SHARES_SPEED;
    speed = run(c, &shape, &plan);
    CHECK(equal.step.state == TRIAL_OK && speed.step.state == TRIAL_OK);
    CHECK(equal.step.compute_ns > 1000000);
    return (double)speed.step.compute_ns / (double)equal.step.compute_ns;
}

static void kernels_alone_save_what_the_slow_ranks_share_says(void)
{
    static const struct {
        const char *speeds;
        double slow, fast;
    } cases[] = { { "1x100 1x67", 67, 100 },
                  { "1x50 1x100", 50, 100 },
                  { "1x100 1x35", 35, 100 },
                  { "2x100", 100, 100 } };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (enum moe_layout layout = 0; layout <= MOE_LAYOUT_HIDDEN; layout++)
            for (enum moe_pass pass = 0; pass <= MOE_TRAIN; pass++) {
                struct cluster c = plain(2, cases[i].speeds);
                double wanted = 2 * cases[i].slow / (cases[i].slow + cases[i].fast);

                CHECK(fabs(ratio_of(&c, 0, layout, pass) / wanted - 1) < 0.01);
                if (layout == MOE_LAYOUT_HIDDEN) /* tokens go to all hidden units */
                    CHECK(fabs(ratio_of(&c, 2, layout, pass) / wanted - 1) < 0.01);
            }
}

/* Padded experts have as many rows on every rank. */
static void equal_rows_wait_for_the_slow_rank(void)
{
    struct cluster c = plain(4, "2x100 2x50");
    struct moe_shape equal = layer_of(&c, MOE_SHARES_EQUAL), speed = layer_of(&c, MOE_SHARES_SPEED);
    struct moe_plan plan = plan_of(1, MOE_PADDED);
    double ratio = (double)run(&c, &speed, &plan).step.compute_ns /
                   (double)run(&c, &equal, &plan).step.compute_ns;

    CHECK(ratio > 0.9 && ratio < 1);
}

static void a_step_is_that_of_the_slowest_class(void)
{
    struct cluster three = plain(3, "1x100 1x50 1x25"), slow = plain(3, "3x100");
    struct moe_shape shape = layer_of(&three, MOE_SHARES_SPEED);
    struct moe_plan plan = plan_of(0, MOE_SPARSE);
    struct reply shared = run(&three, &shape, &plan).step, equal;

    shape.shares = MOE_SHARES_EQUAL;
    equal = run(&slow, &shape, &plan).step;
    CHECK(fabs((double)shared.compute_ns / (double)equal.compute_ns - 3 * 25 / 175.0) < 0.01);
    CHECK(shared.ns >= shared.compute_ns && shared.ns >= shared.comm_ns);
    CHECK(shared.comm_ns == equal.comm_ns && shared.sent_bytes == equal.sent_bytes);
    CHECK(shared.memory_bytes > equal.memory_bytes); /* of whom has the most tokens */
}

static void speeds_that_are_not_known_are_asked_for(void)
{
    static const char *const unknown[] = { "unknown", "1x100", "3x100", "2 x 100" };
    struct moe_plan plan = plan_of(0, MOE_SPARSE);

    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        struct cluster c = plain(2, unknown[i]);
        struct moe_shape shape = layer_of(&c, MOE_SHARES_SPEED);
        struct result result = run(&c, &shape, &plan);

        CHECK(result.layer.state == TRIAL_FAILED);
        CHECK(strstr(result.layer.message, "(2) are not known: `moetune probe`"));
    }
}

/* ---- equal shares */

/* Whoever is the slow one: as before anything was known of speeds. */
static void equal_work_takes_what_the_slowest_rank_takes(void)
{
    static const char *const speeds[] = { "7x100 1x63", "1x63 7x100", "1x100 7x20" };
    struct cluster even = small();
    struct moe_plan plans[128];
    struct moe_shape shape = layer_of(&even, MOE_SHARES_EQUAL);
    size_t count;

    even.memory_gib = 1e6;
    shape.experts = 4;
    count = plan_list(&shape, plans, 128);
    CHECK(count > 4);
    for (size_t i = 0; i < count; i++) {
        struct result wanted = run(&even, &shape, &plans[i]);
        struct cluster c = even;
        struct result got;

        snprintf(c.rank_speeds_percent, sizeof(c.rank_speeds_percent), "%s", speeds[i % 3]);
        got = run(&c, &shape, &plans[i]);
        CHECK(wanted.step.state == TRIAL_OK && !memcmp(&got.step, &wanted.step, sizeof(got.step)));
        CHECK(got.kernels == wanted.kernels);
    }
}

/* ---- what it costs */

static void two_classes_of_many_ranks_are_two_ranks_work(void)
{
    struct cluster c = plain(2048, "1024x100 1024x50");
    struct moe_shape equal = layer_of(&c, MOE_SHARES_EQUAL), speed = layer_of(&c, MOE_SHARES_SPEED);
    struct moe_plan plans[] = { plan_of(0, MOE_SPARSE), plan_of(1, MOE_PADDED) };

    for (size_t i = 0; i < 2; i++) {
        struct result one = run(&c, &equal, &plans[i]), two = run(&c, &speed, &plans[i]);

        CHECK(one.step.state == TRIAL_OK && two.step.state == TRIAL_OK);
        CHECK(one.kernels && two.kernels > one.kernels && two.kernels <= 3 * one.kernels);
    }
}

/* ---- places */

static int64_t exchange_ns(const struct cluster *c, int rank, struct peers peers)
{
    struct engine engine = { 0 };
    struct device *device = NULL;
    struct batch batch = { 0 };
    struct wire *wire = NULL;
    int64_t ns;

    CHECK(!wire_sim_model_open(c, rank, &wire) && !sim_model_open(c, 1, &device));
    CHECK(!engine_open_on(device, wire, &engine));
    CHECK(!batch_add(&batch, wire, peers, NULL, 0, NULL, 1000000));
    CHECK(!wire_exchange(wire, engine.comm, &batch) && !engine_sync(&engine));
    ns = device_now_ns(device);
    batch_free(&batch);
    engine_close(&engine);
    return ns;
}

static void every_rank_has_neighbours_of_its_own(void)
{
    struct cluster c = small(), unlike = small(); /* two nodes of four; 4, 4 and 2 */

    CHECK(exchange_ns(&c, 6, (struct peers){ 6, 1, 1 }) == 4000);
    CHECK(exchange_ns(&c, 6, (struct peers){ 4, 1, 4 }) == 10000 + 30000);
    CHECK(exchange_ns(&c, 6, (struct peers){ 2, 4, 2 }) == 20000 + 100000);
    CHECK(exchange_ns(&c, 6, (struct peers){ 0, 1, 8 }) == 20000 + 1000 + 400000);
    unlike.ranks = 10, unlike.nodes = 3, unlike.ranks_per_node = 0;
    CHECK(exchange_ns(&unlike, 9, (struct peers){ 8, 1, 2 }) == 10000 + 10000);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(kernels_alone_save_what_the_slow_ranks_share_says),
        TEST(equal_rows_wait_for_the_slow_rank),
        TEST(a_step_is_that_of_the_slowest_class),
        TEST(speeds_that_are_not_known_are_asked_for),
        TEST(equal_work_takes_what_the_slowest_rank_takes),
        TEST(two_classes_of_many_ranks_are_two_ranks_work),
        TEST(every_rank_has_neighbours_of_its_own),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
