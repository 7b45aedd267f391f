/* Tests where a step's time goes, on modelled clusters; one of them is SMILE's, whose Table 3
 * publishes it. */
#include "small_cluster.h"

#include "plan.h"
#include "runner.h"
#include "shape.h"
#include "status.h"
#include "work.h"

struct stage {
    struct world *world;
    struct engine engine;
    struct rig *rig;
    struct runner runner;
};

static void stage_open(struct stage *s, const struct cluster *c, const struct moe_shape *shape,
                       const struct moe_plan *plan, uint64_t capacity, double between)
{
    struct topology topology = { 0, (int)c->ranks, (int)c->ranks_per_node };
    struct data data = { .shape = *shape, .seed = 1, .between = between };
    struct device *device = NULL;
    struct wire *wire = NULL;

    *s = (struct stage){ 0 };
    CHECK(!world_alone(&topology, &s->world));
    CHECK(!wire_sim_model_open(c, 0, &wire));
    CHECK(!sim_model_open(c, 0, &device));
    CHECK(!engine_open_on(device, wire, &s->engine));
    CHECK(!rig_open(s->world, &s->engine, &data, NULL, 1, &s->rig));
    rig_set_capacity(s->rig, capacity);
    CHECK(!runner_open(s->rig, plan, &s->runner));
}

static void stage_close(struct stage *s)
{
    runner_close(&s->runner);
    rig_close(s->rig);
    engine_close(&s->engine);
    world_close(s->world);
}

static struct cluster cluster_of(const char *file)
{
    struct cluster c;

    CHECK(!cluster_read(file, &c));
    return c;
}

struct outcome {
    struct phase_times phases;
    int64_t both_ns, compute_ns, comm_ns;
};

static struct outcome outcome_of(const struct cluster *c, struct moe_shape shape, const char *text,
                                 uint64_t capacity, double between)
{
    struct moe_plan plan = plan_default(NULL);
    struct outcome out;
    struct stage s;

    shape.struct_size = sizeof(shape);
    shape.ranks = c->ranks;
    shape.ranks_per_node = c->ranks_per_node;
    CHECK(!moe_plan_parse(text, &plan));
    CHECK(!plan_check(&plan, &shape));
    stage_open(&s, c, &shape, &plan, capacity, between);
    CHECK(!runner_phases(&s.runner, &out.phases));
    CHECK(!runner_step(&s.runner, STEP_BOTH, &out.both_ns));
    CHECK(!runner_step(&s.runner, STEP_COMPUTE, &out.compute_ns));
    CHECK(!runner_step(&s.runner, STEP_COMM, &out.comm_ns));
    stage_close(&s);
    return out;
}

static int64_t parts_ns(const struct phase_times *t)
{
    int64_t sum = 0;

    for (int i = PHASE_TOTAL + 1; i < PHASE_COUNT; i++)
        sum += t->ns[i];
    return sum;
}

/* ---- what belongs where */

static void every_kernel_and_exchange_has_a_phase(void)
{
    for (uint32_t work = 0; work < MARK_WORKS; work++) {
        struct mark mark = { .work = work };

        CHECK(phase_of(&mark) > PHASE_TOTAL && phase_of(&mark) < PHASE_COUNT);
        mark.purpose = PHASE_GATE;
        CHECK(phase_of(&mark) == PHASE_GATE);
    }
}

static void exchanges_leave_a_node_when_one_of_their_peers_is_elsewhere(void)
{
    struct topology nodes = { 5, 8, 4 }, unlike = { 5, 8, 0 }, one = { 5, 8, 8 };
    struct transfer to[] = { { .peer = 5 }, { .peer = 4 }, { .peer = 7 }, { .peer = 3 } };
    struct collective inside = { .group = { 4, 4 } }, all = { .group = { 0, 8 } };

    for (int n = 0; n <= 4; n++) {
        struct batch batch = { .transfers = to, .count = n };

        CHECK(batch_leaves_node(&batch, &nodes) == (n == 4));
        CHECK(batch_leaves_node(&batch, &unlike) == (n > 1));
        CHECK(!batch_leaves_node(&batch, &one));
    }
    CHECK(!batch_leaves_node(&(struct batch){ .collectives = &inside, .collective_count = 1 },
                             &nodes));
    CHECK(batch_leaves_node(&(struct batch){ .collectives = &all, .collective_count = 1 }, &nodes));
}

/* ---- sums */

static const struct moe_shape layers[] = {
    { .experts = 16,
      .top_k = 2,
      .tokens = 4096,
      .model_dim = 512,
      .hidden_dim = 1024,
      .pass = MOE_TRAIN,
      .dtype = MOE_BF16 },
    { .experts = 2,
      .top_k = 2,
      .tokens = 4096,
      .model_dim = 512,
      .hidden_dim = 1024,
      .pass = MOE_TRAIN },
    { .experts = 8,
      .top_k = 1,
      .tokens = 1000,
      .model_dim = 256,
      .hidden_dim = 512,
      .pass = MOE_FORWARD },
};

static const char *const plans[] = { "r=1", "r=1 d=4 a=2dh", "r=0", "r=1 d=2", "r=0 e=sparse" };

static void phases_are_all_that_both_streams_do(void)
{
    struct cluster c = small();

    c.memory_gib = 1e6;
    c.overlap_slowdown = 0.4;
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++)
        for (size_t p = 0; p < sizeof(plans) / sizeof(plans[0]); p++)
            for (int between = 0; between < 2; between++) {
                struct outcome o = outcome_of(&c, layers[i], plans[p], 1000, between);

                CHECK(o.phases.ns[PHASE_TOTAL] == o.compute_ns + o.comm_ns);
                CHECK(o.phases.ns[PHASE_TOTAL] == parts_ns(&o.phases));
                CHECK(o.phases.ns[PHASE_BETWEEN] + o.phases.ns[PHASE_INSIDE] <= o.comm_ns);
                CHECK(o.phases.ns[PHASE_GATE] > 0 && o.phases.ns[PHASE_EXPERTS] > 0);
            }
}

static void looking_changes_no_step(void)
{
    struct moe_plan plan = { .r = 1, .d = 2, .a = MOE_A2A_2DH };
    struct moe_shape shape = layers[0];
    struct cluster c = small();
    struct phase_times first, second;
    int64_t before, after;
    struct stage s;

    c.memory_gib = 1e6;
    shape.struct_size = sizeof(shape);
    shape.ranks = c.ranks;
    shape.ranks_per_node = c.ranks_per_node;
    stage_open(&s, &c, &shape, &plan, 1000, 0);
    CHECK(!runner_step(&s.runner, STEP_BOTH, &before));
    CHECK(!runner_phases(&s.runner, &first) && !runner_phases(&s.runner, &second));
    CHECK(!s.engine.compute->marks && !s.engine.comm->marks);
    CHECK(!runner_step(&s.runner, STEP_BOTH, &after));
    CHECK(before == after && !memcmp(&first, &second, sizeof(first)));
    stage_close(&s);
}

static int64_t exchanges_ns(const struct outcome *o)
{
    return o->phases.ns[PHASE_BETWEEN] + o->phases.ns[PHASE_INSIDE];
}

static void exchanges_of_r_0_are_those_of_weights(void)
{
    struct cluster c = small();
    struct outcome few, many;

    c.memory_gib = 1e6;
    few = outcome_of(&c, layers[1], "r=0", 500, 0);
    many = outcome_of(&c, layers[1], "r=0", 1000, 0);
    CHECK(exchanges_ns(&few) > 0 && exchanges_ns(&few) == exchanges_ns(&many));
    CHECK(exchanges_ns(&few) == few.comm_ns);
    CHECK(few.phases.ns[PHASE_EXPERTS] < many.phases.ns[PHASE_EXPERTS]);
    few = outcome_of(&c, layers[1], "r=1", 500, 0);
    many = outcome_of(&c, layers[1], "r=1", 1000, 0);
    CHECK(exchanges_ns(&few) < exchanges_ns(&many));
}

static void attention_is_no_expert(void)
{
    struct cluster c = small();
    struct outcome without_it, with_it;

    c.memory_gib = 1e6;
    without_it = outcome_of(&c, layers[0], "r=1", 1000, 0);
    with_it = outcome_of(&c, layers[0], "r=1", 1000, 5);
    for (int i = PHASE_TOTAL + 1; i < PHASE_OTHER; i++)
        CHECK(with_it.phases.ns[i] == without_it.phases.ns[i]);
    /* 5 GFLOP forwards and twice as many backward, at 1000 per second at most. */
    CHECK(with_it.phases.ns[PHASE_OTHER] - without_it.phases.ns[PHASE_OTHER] >= 15000000);
}

static void intervals_are_those_of_each_phase(void)
{
    struct phase_times samples[PHASE_SAMPLES_LEAST] = { 0 };
    struct phase_spreads s;

    for (int i = 0; i < PHASE_SAMPLES_LEAST; i++) {
        samples[i].ns[PHASE_INSIDE] = 10 * (i + 1);
        samples[i].ns[PHASE_BETWEEN] = 30 * (i + 1);
        samples[i].ns[PHASE_EXPERTS] = 120 * (i + 1);
        samples[i].ns[PHASE_TOTAL] = 160 * (i + 1);
    }
    CHECK(!phases_spread(samples, PHASE_SAMPLES_LEAST, &s));
    CHECK(s.of[PHASE_INSIDE].low_ns == 10 && s.of[PHASE_INSIDE].high_ns == 60);
    CHECK(s.of[PHASE_INSIDE].median_ns == 35 && s.of[PHASE_TOTAL].median_ns == 560);
    CHECK(!s.of[PHASE_GATE].high_ns);
    CHECK(s.exchanges_ppm.median_ns == 250000 && s.exchanges_ppm.high_ns == 250000);
}

/* ---- as text, between processes */

static void orders_ask_for_phases_and_kinds_of_steps(void)
{
    for (uint32_t i = 0; i < 12; i++) {
        struct order order = { .kind = ORDER_LAYER, .steps_are = i % 3, .phases = i / 3 & 1 }, got;
        char line[WORK_LINE_BYTES];

        snprintf(order.load, sizeof(order.load), "%s", i >= 6 ? "skew 2" : "");
        order_format(&order, line);
        CHECK(!order_parse(line, &got));
        CHECK(got.steps_are == order.steps_are && got.phases == order.phases);
        CHECK(!strcmp(got.load, order.load));
    }
}

static void replies_carry_all_phases_or_none(void)
{
    struct reply reply = { .state = TRIAL_OK, .ns = 5, .message = "a remark" }, got;
    char line[WORK_LINE_BYTES];

    reply_format(&reply, line);
    CHECK(!reply_parse(line, &got) && !memcmp(got.phases, reply.phases, sizeof(got.phases)));
    CHECK(!strcmp(got.message, reply.message));
    for (int i = 0; i < PHASE_COUNT; i++)
        reply.phases[i] = (struct phase_time){ INT64_MAX, INT64_MAX - i, -i };
    memset(reply.message, 'x', sizeof(reply.message) - 1);
    reply_format(&reply, line);
    CHECK(!reply_parse(line, &got) && !memcmp(got.phases, reply.phases, sizeof(got.phases)));
    CHECK(!strcmp(got.message, reply.message));
    *strrchr(line, '|') = 0;
    CHECK(reply_parse(line, &got) == ERR_FORMAT);
}

/* ---- SMILE's cluster: tests/data/clusters/p4d-16-nccl210.txt says what was fitted */

static struct outcome smile_layer(struct moe_shape shape, uint32_t nodes, const char *plan)
{
    struct cluster c = cluster_of("tests/data/clusters/p4d-16-nccl210.txt");

    c.nodes = nodes;
    c.ranks = shape.experts = nodes * c.ranks_per_node;
    return outcome_of(&c, shape, plan, 2 * shape.tokens / shape.experts, 0);
}

static struct outcome smile(uint32_t nodes, uint32_t pass, const char *plan)
{
    struct moe_shape shape = {
        .top_k = 1, .tokens = 16384, .model_dim = 768, .hidden_dim = 3072, .pass = pass
    };

    return smile_layer(shape, nodes, plan);
}

/* The paper's router: a node, then an expert there. */
static struct outcome smile_bilevel(const char *plan)
{
    struct moe_shape shape = { .top_k = 1,
                               .tokens = 16384,
                               .model_dim = 768,
                               .hidden_dim = 3072,
                               .pass = MOE_FORWARD,
                               .groups = 16,
                               .group_limit = 1,
                               .router = MOE_ROUTER_BILEVEL };

    return smile_layer(shape, 16, plan);
}

static bool near(int64_t ns, double published_ms, double share)
{
    return fabs((double)ns * 1e-6 / published_ms - 1) < share;
}

static void exchanges_take_as_long_as_in_the_table_of_smile(void)
{
    struct outcome linear = smile(16, MOE_FORWARD, "r=1"),
                   levels = smile(16, MOE_FORWARD, "r=1 a=2dh");

    CHECK(near(linear.phases.ns[PHASE_BETWEEN], 382, 0.02));
    CHECK(linear.phases.ns[PHASE_INSIDE] == 0); /* one exchange carries both kinds */
    CHECK(near(levels.comm_ns, 86, 0.02));
    CHECK(near(levels.phases.ns[PHASE_BETWEEN], 77, 0.02));
    CHECK(near(levels.phases.ns[PHASE_INSIDE], 9, 0.05));
}

/* With one expert per token rail sends what 2dh sends, in the other order, and labels. */
static void rail_takes_as_long_as_2dh_for_one_expert_per_token(void)
{
    struct outcome levels = smile(16, MOE_FORWARD, "r=1 a=2dh"),
                   flat = smile(16, MOE_FORWARD, "r=1 a=rail"),
                   bilevel = smile_bilevel("r=1 a=rail");

    CHECK(near(flat.comm_ns, (double)levels.comm_ns * 1e-6, 0.05));
    CHECK(near(bilevel.comm_ns, 86, 0.02));
    CHECK(bilevel.phases.ns[PHASE_GATE] < flat.phases.ns[PHASE_GATE]);
}

static void chunks_do_not_help_there(void)
{
    static const char *const chunked[] = { "r=1 d=2 a=2dh", "r=1 d=4 a=2dh", "r=1 d=8 a=2dh" };
    int64_t whole_ns = smile(16, MOE_FORWARD, "r=1 a=2dh").both_ns;

    for (size_t i = 0; i < sizeof(chunked) / sizeof(chunked[0]); i++)
        CHECK(smile(16, MOE_FORWARD, chunked[i]).both_ns > whole_ns);
}

/* With so many tokens per rank, and an expert per rank: tokens per second of 16 nodes over those of
 * one, which has no levels. */
static double weak_scaling(const char *plan)
{
    return 16 * (double)smile(1, MOE_TRAIN, "r=1").both_ns /
           (double)smile(16, MOE_TRAIN, plan).both_ns;
}

static void sixteen_nodes_gain_nothing_with_linear_and_much_with_2dh(void)
{
    double linear = weak_scaling("r=1"), levels = weak_scaling("r=1 a=2dh");

    CHECK(linear > 0.8 && linear < 1.1);
    CHECK(levels > 3.4);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(every_kernel_and_exchange_has_a_phase),
        TEST(exchanges_leave_a_node_when_one_of_their_peers_is_elsewhere),
        TEST(phases_are_all_that_both_streams_do),
        TEST(looking_changes_no_step),
        TEST(exchanges_of_r_0_are_those_of_weights),
        TEST(attention_is_no_expert),
        TEST(intervals_are_those_of_each_phase),
        TEST(orders_ask_for_phases_and_kinds_of_steps),
        TEST(replies_carry_all_phases_or_none),
        TEST(exchanges_take_as_long_as_in_the_table_of_smile),
        TEST(rail_takes_as_long_as_2dh_for_one_expert_per_token),
        TEST(chunks_do_not_help_there),
        TEST(sixteen_nodes_gain_nothing_with_linear_and_much_with_2dh),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
