/* Tests several layers in a step on a modelled cluster: what hides behind the compute between them.
 */
#include "small_cluster.h"

#include "plan.h"
#include "rig.h"
#include "world.h"

enum { LAYERS = 4 };

/* A rig of one process that stands for every rank. */
struct stage {
    struct world *world;
    struct engine engine;
    struct rig *rig;
};

/* The rig keeps where its engine lies. */
static void stage_open(uint32_t pass, double between, struct stage *s)
{
    struct data data = { .between = between };
    struct device *device = NULL;
    struct wire *wire = NULL;
    struct cluster c = small();
    struct topology topology = { 0, (int)c.ranks, (int)c.ranks_per_node };

    *s = (struct stage){ 0 };
    c.memory_gib = 8;
    data.shape = (struct moe_shape){ .struct_size = sizeof(data.shape),
                                     .experts = 8,
                                     .top_k = 2,
                                     .tokens = 1024,
                                     .model_dim = 512,
                                     .hidden_dim = 1024,
                                     .ranks = c.ranks,
                                     .ranks_per_node = c.ranks_per_node,
                                     .pass = pass,
                                     .layout = MOE_LAYOUT_HIDDEN,
                                     .layers = LAYERS };
    CHECK(!world_alone(&topology, &s->world));
    CHECK(!wire_sim_model_open(&c, 0, &wire));
    CHECK(!sim_model_open(&c, 0, &device));
    CHECK(!engine_open_on(device, wire, &s->engine));
    CHECK(!rig_open(s->world, &s->engine, &data, NULL, 1, &s->rig));
}

static void stage_close(struct stage *s)
{
    rig_close(s->rig);
    engine_close(&s->engine);
    world_close(s->world);
}

/* One step; only its exchanges if the compute stream is muted. */
static int64_t step_ns(uint32_t pass, double between, uint32_t w, uint32_t d, bool no_compute)
{
    struct moe_plan plan = { .struct_size = sizeof(plan), .d = d, .e = MOE_SPARSE, .w = w };
    struct stage s;
    struct exec *exec = NULL;
    int64_t begin;

    stage_open(pass, between, &s);
    CHECK(!rig_exec(s.rig, &plan, &exec));
    s.engine.compute->muted = no_compute;
    begin = device_now_ns(s.engine.device);
    CHECK(!rig_step(s.rig, exec));
    begin = device_now_ns(s.engine.device) - begin;
    exec_close(exec);
    stage_close(&s);
    return begin;
}

/* So many GFLOP that they take at least as long as one layer's weights: products of 1024 rows run
 * at 1000 * 1024 / 1124 per ns. */
static double gflop_for(int64_t ns)
{
    return 1e-9 * (double)ns * 1000 * 1024 / 1124;
}

static void time_between_layers_hides_what_a_cache_gathers_again(void)
{
    int64_t gather = step_ns(MOE_FORWARD, 0, MOE_KEEP, 1, true) / LAYERS;

    CHECK(gather > 100000);
    for (uint32_t d = 1; d <= 8; d *= 2) {
        double between = gflop_for(11 * gather / 10);
        double keep = (double)step_ns(MOE_TRAIN, between, MOE_KEEP, d, false);
        double cache = (double)step_ns(MOE_TRAIN, between, MOE_CACHE, d, false);

        CHECK(cache <= 1.02 * keep);
    }
}

/* Without it the step grows: what comes in the place of another piece waits until that was used. */
static void without_time_between_a_cache_costs_what_it_gathers(void)
{
    double gather = (double)step_ns(MOE_FORWARD, 0, MOE_KEEP, 1, true) / LAYERS;
    double keep = (double)step_ns(MOE_TRAIN, 0, MOE_KEEP, 1, false);
    double cache = (double)step_ns(MOE_TRAIN, 0, MOE_CACHE, 1, false);
    CHECK(cache > keep + (LAYERS - 1) * gather / 2);
}

/* Before each layer forwards, twice as much after it backwards. */
static void time_between_layers_is_what_was_asked_for(void)
{
    int64_t without = step_ns(MOE_FORWARD, 0, MOE_KEEP, 1, false);
    int64_t with = step_ns(MOE_FORWARD, 2 * 1024 * 1024 * 1024e-9, MOE_KEEP, 1, false);
    double product = 2000 + 2 * 1024.0 * 1024 * 1024 / 1000 * 1124 / 1024;
    double most = (double)(with - without), both;

    CHECK(most <= LAYERS * product + 10 && most > 0);
    both = (double)(step_ns(MOE_TRAIN, 100, MOE_KEEP, 1, false) -
                    step_ns(MOE_FORWARD, 100, MOE_KEEP, 1, false));
    CHECK(both > LAYERS * 2 * 100e9 / 1000);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(time_between_layers_hides_what_a_cache_gathers_again),
        TEST(without_time_between_a_cache_costs_what_it_gathers),
        TEST(time_between_layers_is_what_was_asked_for),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
