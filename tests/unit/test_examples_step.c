/* Checks the worked examples of tuner/layer/README.md, comm/README.md and kernels/README.md, which
 * show how a step runs, against the code. */
#include "worked_example.h"

#include "a2a.h"
#include "crew.h"
#include "geometry.h"
#include "host.h"
#include "shape.h"
#include "sim.h"
#include "sim_model.h"
#include "status.h"
#include "wire_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- tuner/layer */

static uint64_t row_of_the_layer(const struct moe_shape *shape)
{
    uint64_t c = moe_capacity(given("factor"), shape->top_k, shape->experts, shape->tokens, 0);
    uint32_t window = moe_window(shape->top_k, shape->experts, shape->tokens);
    uint32_t bucket = (uint32_t)(c / window);

    is("c", (double)c);
    is("R", window);
    is("bucket", bucket);
    is("upper_edge", (double)bucket_capacity(window, bucket));
    return bucket_capacity(window, bucket);
}

static struct geometry place_in_the_layer(const struct moe_shape *shape,
                                          const struct moe_plan *plan, uint64_t capacity)
{
    uint32_t rank = (uint32_t)given("rank");
    struct geometry g = geometry_of(shape, plan, (int)rank, capacity);

    is("s", shape_slices(shape));
    is("Eg", shape_local_experts(shape));
    is("g", g.shares);
    is("C", (double)g.rows);
    is("rows_of_a_chunk", (double)g.chunk_rows);
    is("rows_of_a_product", (double)geometry_chunk_rows(&g));
    is("hidden_units", (double)g.hidden);
    is("expert", rank / shape_slices(shape) * shape_local_experts(shape));
    is("slice", g.slice);
    is("first_of_weights_group", g.weights.first);
    is("ranks_of_weights_group", g.weights.count);
    is("ranks_of_b2_group", g.bias2.count);
    return g;
}

/* Elements that one rank sends in one direction. */
static double weights_sent(const struct moe_shape *shape, const struct geometry *g)
{
    double sum = 0;

    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        int ranks = i == TENSOR_B2 ? g->bias2.count : g->weights.count;

        sum += (double)layer_slice(shape, i) * (ranks - 1);
    }
    return sum;
}

/* What a rank of the modelled layer really hands to its wire. */
static struct reply step_of(const struct moe_shape *shape, const struct moe_plan *plan,
                            uint64_t capacity)
{
    struct order order = { .kind = ORDER_LAYER, .shape = *shape, .memory_limit_bytes = INT64_MAX };
    struct reply reply = { 0 };
    struct cluster cluster;
    struct crew *crew = NULL;

    CHECK(!cluster_read("tests/data/clusters/cpu-4.txt", &cluster));
    cluster.ranks = shape->ranks;
    cluster.ranks_per_node = shape->ranks_per_node;
    cluster.nodes = shape->ranks / shape->ranks_per_node;
    cluster.latency_between_us = cluster.message_between_us = cluster.half_between_kib = 1;
    cluster.bandwidth_between_gbs = 1;
    CHECK(!crew_open(&(struct crew_setup){ .model = &cluster, .seed = 1 }, &crew));
    CHECK(!crew_do(crew, &order, &reply));
    order.kind = ORDER_STEP;
    order.capacity = capacity;
    order.plan = *plan;
    CHECK(!crew_do(crew, &order, &reply));
    CHECK(reply.state == TRIAL_OK);
    crew_close(crew);
    return reply;
}

static void traffic_of_the_layer(const struct moe_shape *shape, const struct moe_plan *plan,
                                 const struct geometry *g)
{
    double bytes = (double)dtype_bytes(shape->dtype), W = shape->ranks;
    double tokens = 4 * plan->r * (double)shape->experts * (double)g->rows * shape->model_dim *
                    (1 - 1 / W) * bytes;
    double weights = 2 * weights_sent(shape, g) * bytes;
    struct reply reply = step_of(shape, plan, g->capacity);

    is("token_bytes", tokens);
    is("weight_bytes", weights);
    is("sent_bytes", (double)reply.sent_bytes);
    is("messages", (double)reply.messages);
    CHECK(fabs(tokens + weights - (double)reply.sent_bytes) < 1);
}

static void the_layer_is_as_its_readme_says(void)
{
    struct moe_shape shape;
    struct moe_plan plan;
    struct geometry g;

    begin_example("tuner/layer/README.md");
    shape = given_layer();
    plan = given_plan("plan");
    is("legal_plans", (double)plan_list(&shape, NULL, 0));
    g = place_in_the_layer(&shape, &plan, row_of_the_layer(&shape));
    traffic_of_the_layer(&shape, &plan, &g);
    end_example();
}

/* ---- comm */

/* One all-to-all of a modelled cluster: what it takes, and what leaves rank 0. */
struct exchange {
    double us;
    uint64_t messages, bytes;
};

static struct exchange exchange_of(const struct cluster *cluster, uint32_t algorithm,
                                   uint64_t block_bytes)
{
    struct a2a_call call = { .dtype = MOE_F32, .block = block_bytes / 4 };
    struct stream *stream = NULL;
    struct device *device = NULL;
    struct exchange x = { 0 };
    struct a2a *a2a = NULL;
    uint64_t elements;

    CHECK(!wire_sim_model_open(cluster, 0, &call.wire));
    CHECK(!sim_model_open(cluster, 1, &device));
    CHECK(!stream_open(device, &stream));
    elements = call.block * cluster->ranks;
    call.send = call.recv = call.scratch = (void *)(uintptr_t)(elements * 4); /* never touched */
    CHECK(!a2a_open(algorithm, &call, &a2a));
    CHECK(!a2a_run(a2a, stream));
    x.us = (double)sim_stream_ns(stream) * 1e-3;
    x.messages = call.wire->messages;
    x.bytes = call.wire->sent_bytes;
    a2a_close(a2a);
    stream_close(stream);
    wire_close(call.wire);
    device_close(device);
    return x;
}

static void compare_exchanges(const struct cluster *cluster, const char *kib, const char *linear,
                              const char *hierarchical)
{
    uint64_t bytes = (uint64_t)(given(kib) * 1024);

    is(linear, exchange_of(cluster, MOE_A2A_LINEAR, bytes).us);
    is(hierarchical, exchange_of(cluster, MOE_A2A_2DH, bytes).us);
}

static void exchanges_are_as_their_readme_says(void)
{
    struct cluster cluster;
    struct exchange linear, hierarchical;

    begin_example("comm/README.md");
    CHECK(!cluster_read(given_text("cluster"), &cluster));
    is("W", cluster.ranks);
    is("m", cluster.ranks_per_node);
    is("n", cluster.nodes);
    compare_exchanges(&cluster, "small_kib", "linear_small_us", "2dh_small_us");
    compare_exchanges(&cluster, "large_kib", "linear_large_us", "2dh_large_us");
    linear = exchange_of(&cluster, MOE_A2A_LINEAR, 1024);
    hierarchical = exchange_of(&cluster, MOE_A2A_2DH, 1024);
    is("linear_messages", (double)linear.messages);
    is("linear_blocks", (double)linear.bytes / 1024);
    is("2dh_messages", (double)hierarchical.messages);
    is("2dh_blocks", (double)hierarchical.bytes / 1024);
    end_example();
}

/* ---- kernels */

enum { TOKENS = 4, EXPERTS = 3, CHOICES = 2 };

static void routes_are_as_the_readme_says(void)
{
    float logits[TOKENS * EXPERTS], gate[TOKENS * CHOICES];
    int32_t expert[TOKENS * CHOICES];
    int64_t slot[TOKENS * CHOICES], needed[EXPERTS];
    struct route route = { TOKENS, EXPERTS, CHOICES, (uint64_t)given("c"), logits, gate,
                           expert, slot,    needed };
    struct list experts = { .used = 0 }, slots = { .used = 0 }, wanted = { .used = 0 };
    char name[24];

    for (int t = 0; t < TOKENS; t++) {
        float *l = logits + t * EXPERTS;

        snprintf(name, sizeof(name), "logits_%d", t);
        CHECK(sscanf(given_text(name), "%f %f %f", &l[0], &l[1], &l[2]) == 3);
    }
    host_route(&route);
    for (int i = 0; i < TOKENS * CHOICES; i++) {
        add(&experts, expert[i]);
        add(&slots, slot[i]);
    }
    for (int i = 0; i < EXPERTS; i++)
        add(&wanted, needed[i]);
    says("experts", experts.text);
    says("slots", slots.text);
    says("needed", wanted.text);
    is("gate_of_token_0", gate[0]);
}

static double product_us(const struct cluster *cluster, uint64_t rows)
{
    struct gemm gemm = {
        .batch = 1, .m = rows, .n = (uint64_t)given("n"), .k = (uint64_t)given("k")
    };
    struct device *device = NULL;
    struct stream *stream = NULL;
    double us;

    CHECK(!sim_model_open(cluster, 1, &device));
    CHECK(!stream_open(device, &stream));
    CHECK(!launch_gemm(stream, &gemm));
    us = (double)sim_stream_ns(stream) * 1e-3;
    stream_close(stream);
    device_close(device);
    return us;
}

static void kernels_are_as_their_readme_says(void)
{
    struct cluster cluster;

    begin_example("kernels/README.md");
    routes_are_as_the_readme_says();
    CHECK(!cluster_read("tests/data/clusters/ndm-a100-8.txt", &cluster));
    cluster.launch_us = given("launch_us");
    cluster.gemm_gflops = given("gemm_gflops");
    cluster.gemm_half_rows = given("gemm_half_rows");
    cluster.memory_gbs = given("memory_gbs");
    is("product_of_64_rows_us", product_us(&cluster, 64));
    is("product_of_512_rows_us", product_us(&cluster, 512));
    end_example();
}

/* The check itself must be able to fail. */
static void a_wrong_number_is_found(void)
{
    char text[64];

    example = (struct example){ .count = 1, .lines = { { "two", "3.0", false } } };
    CHECK(!agrees("two", 2, text) && !strcmp(text, "2.0"));
    CHECK(agrees("two", 3.04, text));
    CHECK(!agrees("three", 3, text));
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_layer_is_as_its_readme_says),
        TEST(exchanges_are_as_their_readme_says),
        TEST(kernels_are_as_their_readme_says),
        TEST(a_wrong_number_is_found),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
