/* Tests what tuning is expected to save, on modelled machines whose truth is known.  The search
 * believes another description than the one that makes the steps, and steps have noise. */
#include "check.h"

#include "cluster.h"
#include "crew.h"
#include "plan.h"
#include "random.h"
#include "status.h"
#include "step_times.h"
#include "tune_options.h"
#include "verbs.h"
#include "worth_layer.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static double normal(uint64_t key, uint64_t index)
{
    double radius = ((double)(random_bits(key, 2 * index) >> 11) + .5) * 0x1p-53;
    double angle = ((double)(random_bits(key, 2 * index + 1) >> 11) + .5) * 0x1p-53;

    return sqrt(-2 * log(radius)) * cos(2 * M_PI * angle);
}

/* Another machine: each number of the model is off by a factor, e^sd or 1 / e^sd as a rule; its
 * steps have noise of 3 %, and a launch of its ranks has luck of 1 %. */
static struct cluster perturbed(struct cluster c, double sd, uint64_t seed)
{
    double *const off[] = { &c.latency_inside_us,    &c.latency_between_us,
                            &c.message_inside_us,    &c.message_between_us,
                            &c.bandwidth_inside_gbs, &c.bandwidth_between_gbs,
                            &c.gemm_gflops,          &c.gemm_half_rows,
                            &c.memory_gbs,           &c.launch_us,
                            &c.overlap_slowdown };

    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++)
        *off[i] *= exp(sd * normal(seed, i));
    c.noise_percent = 3;
    c.drift_percent = 3;
    c.outlier_percent = 2;
    c.launch_noise_percent = 1;
    return c;
}

/* One layer on one machine: what is believed of it, and what is so. */
struct world_of_two {
    struct tune_options options;
    struct tune_request request;
    struct cluster truth;
};

static void open_worlds(const char *file, const char *layer, double sd, uint64_t seed,
                        struct world_of_two *w)
{
    struct cluster here = cluster_unknown();

    w->options = tune_defaults;
    w->options.setup.sim = file;
    w->options.setup.seed = seed;
    w->options.shapes.count = 1;
    w->options.shapes.items[0] = (char *)layer;
    CHECK(!tune_request_make(&w->options, &here, &w->request));
    w->truth = perturbed(w->request.cluster, sd, seed);
}

static struct worth_layer ask(const struct world_of_two *w, bool takes_steps)
{
    struct crew_setup setup = { .model = &w->truth,
                                .seed = w->options.setup.seed,
                                .timeout_s = 60 };
    struct worth_layer found = { .steps = 0 };
    struct progress progress;
    struct crew *real = NULL;

    progress_open(&progress, true, "");
    CHECK(!takes_steps || !crew_open(&setup, &real));
    CHECK(!worth_layer(&w->request.cluster, real, &progress, &w->request, &w->request.spaces[0],
                       &found));
    crew_close(real);
    return found;
}

/* What the best plan of each bucket saves there, without noise, over the default and over the best
 * plan for all of them; every factor of c counts alike. */
static void true_gains(const struct world_of_two *w, double *over_default, double *over_static)
{
    const struct layer_plans *space = &w->request.spaces[0];
    size_t n = space->arm_count, count = space->anchor_count;
    uint64_t *capacities = calloc(count, sizeof(*capacities));
    struct step_times_ask query = { &w->truth, &space->shape, space->load, 1, space->arms,
                                    n,         capacities,    count };
    double fixed[SEARCH_ARMS_MAX] = { 0 }, table = 0, weights = 0, best = INFINITY, below;
    struct step_times times;

    for (size_t i = 0; i < count; i++)
        capacities[i] = layer_plans_capacity(space, space->anchors[i]);
    CHECK(capacities && !step_times_open(&query, &times));
    below = log(fmax(space->first, .5) * space->window);
    for (size_t i = 0; i < times.count; i++) {
        const double *ns = times.ns + i * n;
        double least = INFINITY, above, weight;

        above = i + 1 < times.count
                    ? log((double)times.capacities[i] * (double)times.capacities[i + 1]) / 2
                    : log((space->last + 1.0) * space->window);
        weight = above - below;
        below = above;
        for (size_t arm = 0; arm < n; arm++) {
            least = fmin(least, ns[arm]);
            fixed[arm] += weight * log(ns[arm]);
        }
        table += weight * log(least);
        weights += weight;
    }
    for (size_t arm = 0; arm < n; arm++)
        best = fmin(best, fixed[arm]);
    *over_default = 1 - exp((table - fixed[space->default_arm]) / weights);
    *over_static = 1 - exp((table - best) / weights);
    step_times_close(&times);
    free(capacities);
}

static const struct {
    const char *file, *layer;
} layers[] = {
    { "tests/data/clusters/cpu-4.txt", "E=4 k=2 T=512 D=128 H=256" },
    { "tests/data/clusters/cpu-4.txt", "E=1 k=1 T=256 D=64 H=256" },
    { "tests/data/clusters/workstation-4x4090.txt", "E=8 k=2 T=4096 D=1024 H=2048" },
    { "tests/data/clusters/one-rank-per-node-slow.txt", "E=8 k=2 T=512 D=256 H=512" },
    { "tests/data/clusters/p4d-16.txt", "E=16 k=2 T=2048 D=1024 H=4096" },
    { "tests/data/clusters/ndm-a100-8.txt", "E=32 k=2 T=4096 D=1024 H=4096" },
};
enum { LAYERS = sizeof(layers) / sizeof(layers[0]), MACHINES = 20 };

static bool holds(const struct gain *g, double truth)
{
    /* What is 0 on both sides is held, however it was rounded. */
    return truth >= g->low - 1e-6 && truth <= g->high + 1e-6;
}

static void intervals_hold_what_is_so_as_often_as_they_say(void)
{
    int held = 0, held_static = 0, narrow = 0, all = 0;
    double width = 0;

    for (size_t i = 0; i < LAYERS; i++)
        for (uint64_t k = 0; k < MACHINES; k++) {
            struct world_of_two w;
            struct worth_layer found;
            double gain, over_static;

            open_worlds(layers[i].file, layers[i].layer, .3, test_seed() * 1000 + i * 100 + k, &w);
            found = ask(&w, true);
            true_gains(&w, &gain, &over_static);
            held += holds(&found.worth.over_default, gain);
            held_static += holds(&found.worth.over_static, over_static);
            width += found.worth.over_default.high - found.worth.over_default.low;
            narrow += found.worth.over_default.high - found.worth.over_default.low <= .15;
            all++;
            tune_request_free(&w.request);
        }
    CHECK(held * 100 >= 85 * all);
    CHECK(held_static * 100 >= 85 * all);
    CHECK(narrow * 100 >= 85 * all);
}

/* ---- made-up times of three plans at two capacities */

static int of_made(const double log_ns[2][3], size_t plans, struct worth *out)
{
    static const double capacities[] = { 64, 128 }, weights[] = { 1, 1 };
    struct moe_plan arms[] = { plan_default(NULL), plan_default(NULL), plan_default(NULL) };
    struct search_setup search = { .shape = { .struct_size = sizeof(search.shape),
                                              .experts = 2,
                                              .top_k = 1,
                                              .tokens = 512,
                                              .model_dim = 64,
                                              .hidden_dim = 64,
                                              .ranks = 4,
                                              .ranks_per_node = 4,
                                              .dtype = MOE_F32,
                                              .pass = MOE_TRAIN },
                                   .arms = arms,
                                   .arm_count = plans,
                                   .machine = { 5e-6, 1e9, 3e9, 5e9, 4e10, 2e-5 } };
    double times[6];

    arms[1].r = 2;
    arms[2].r = 0;
    for (size_t b = 0; b < 2; b++)
        for (size_t arm = 0; arm < plans; arm++)
            times[b * plans + arm] = log_ns[b][arm];
    return worth_of(&(struct worth_setup){ .search = &search,
                                           .bucket_count = 2,
                                           .capacities = capacities,
                                           .weights = weights,
                                           .log_ns = times,
                                           .seed = 1 },
                    out);
}

static void a_layer_of_one_plan_has_nothing_to_save(void)
{
    struct worth found;

    CHECK(!of_made((const double[2][3]){ { 14 }, { 15 } }, 1, &found));
    CHECK(found.over_default.low == 0 && found.over_default.high == 0);
    CHECK(found.over_static.low == 0 && found.over_static.high == 0 && found.static_arm == 0);
    CHECK(isnan(found.off));
}

/* Though it would be the best by far where it can. */
static void a_plan_that_cannot_run_everywhere_is_no_static_one(void)
{
    struct worth everywhere, somewhere, nowhere;

    CHECK(!of_made((const double[2][3]){ { 14, 12, 14 }, { 15, 13, 15 } }, 3, &everywhere));
    CHECK(!of_made((const double[2][3]){ { 14, 12, 14 }, { 15, NAN, 15 } }, 3, &somewhere));
    CHECK(!of_made((const double[2][3]){ { 14, NAN, 14 }, { 15, NAN, 15 } }, 3, &nowhere));
    CHECK(everywhere.static_arm == 1 && somewhere.static_arm != 1 && nowhere.static_arm != 1);
    CHECK(everywhere.over_default.low > .7 && everywhere.over_static.high < .1);
    CHECK(somewhere.over_default.low > .4 && somewhere.over_default.high < .8);
    CHECK(somewhere.over_static.low > .3);
    CHECK(nowhere.over_default.high < .4);
}

static void without_a_default_there_is_no_answer(void)
{
    struct worth found;

    CHECK(of_made((const double[2][3]){ { 14, 12, 14 }, { NAN, 13, 15 } }, 3, &found) ==
          UNSUPPORTED);
}

static const struct test tests[] = {
    TEST(a_layer_of_one_plan_has_nothing_to_save),
    TEST(a_plan_that_cannot_run_everywhere_is_no_static_one),
    TEST(without_a_default_there_is_no_answer),
    TEST(intervals_hold_what_is_so_as_often_as_they_say),
};

int main(void)
{
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
