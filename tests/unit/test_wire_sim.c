/* Tests properties of modelled links other than latency, messages and bandwidth. */
#include "small_cluster.h"

#include "a2a.h"
#include "engine.h"
#include "gather.h"
#include "sim.h"
#include "status.h"

static struct engine engine_of(const struct cluster *cluster)
{
    struct device *device = NULL;
    struct wire *wire = NULL;
    struct engine engine = { 0 };

    CHECK(!wire_sim_model_open(cluster, 0, &wire));
    CHECK(!sim_model_open(cluster, 0, &device));
    CHECK(!engine_open_on(device, wire, &engine));
    return engine;
}

/* An exchange of `bytes` with each of `peers`; when it is done. */
static int64_t exchange_ns(const struct cluster *cluster, struct peers peers, size_t bytes)
{
    struct engine engine = engine_of(cluster);
    struct batch batch = { 0 };
    int64_t ns;

    CHECK(!batch_add(&batch, engine.wire, peers, NULL, 0, NULL, bytes));
    CHECK(!wire_exchange(engine.wire, engine.comm, &batch));
    CHECK(!engine_sync(&engine));
    ns = device_now_ns(engine.device);
    batch_free(&batch);
    engine_close(&engine);
    return ns;
}

/* An all-to-all, and a kernel of `beside_ns` that is queued after it. */
static int64_t a2a_ns(const struct cluster *cluster, uint32_t a, uint64_t block, int64_t beside_ns)
{
    static char send[1], recv[1], scratch[1];
    struct engine engine = engine_of(cluster);
    struct a2a_call call = { .wire = engine.wire,
                             .dtype = MOE_F32,
                             .block = block,
                             .send = send,
                             .recv = recv,
                             .scratch = scratch };
    struct a2a *a2a = NULL;
    int64_t ns;

    CHECK(!a2a_open(a, &call, &a2a));
    CHECK(!a2a_run(a2a, engine.comm));
    sim_pass(engine.compute, beside_ns, 1);
    CHECK(!engine_sync(&engine));
    ns = device_now_ns(engine.device);
    a2a_close(a2a);
    engine_close(&engine);
    return ns;
}

/* Slices of two tensors; half as many bytes of the second. */
static int64_t gather_by_ns(const struct cluster *cluster, struct group group, size_t bytes,
                            uint32_t proto, uint64_t *messages)
{
    static char slice[1], whole[1];
    struct engine engine = engine_of(cluster);
    struct batch batch = { .proto = proto };
    int64_t ns;

    CHECK(!gather_add(&batch, engine.wire, group, slice, whole, bytes));
    CHECK(!gather_add(&batch, engine.wire, group, slice, whole, bytes / 2));
    CHECK(!wire_exchange(engine.wire, engine.comm, &batch));
    CHECK(!engine_sync(&engine));
    ns = device_now_ns(engine.device);
    *messages = engine.wire->messages;
    batch_free(&batch);
    engine_close(&engine);
    return ns;
}

static int64_t gather_ns(const struct cluster *cluster, struct group group, size_t bytes,
                         uint64_t *messages)
{
    return gather_by_ns(cluster, group, bytes, MOE_PROTO_AUTO, messages);
}

static const struct peers node = { 0, 1, 4 }, rail = { 0, 4, 2 }, all = { 0, 1, 8 };

static void a_connection_carries_no_more_than_it_can(void)
{
    struct cluster c = small();

    c.peer_between_gbs = 4;
    CHECK(exchange_ns(&c, rail, 1000000) == 20000 + 250000); /* one peer: 4 of the port's 10 */
    /* Four fill it, from when three messages inside are issued. */
    CHECK(exchange_ns(&c, all, 1000000) == 20000 + 3000 + 400000);
    CHECK(exchange_ns(&c, node, 1000000) == 10000 + 30000);
}

/* Rank r's messages go to r + 1, r + 2, ...: those inside its node first, or last. */
static void a_port_waits_for_its_first_message(void)
{
    struct cluster c = small();

    c.message_inside_us = 50;
    CHECK(exchange_ns(&c, all, 1000000) == 20000 + 3 * 50000 + 400000);
    c.bandwidth_inside_gbs = 2; /* now its port works longest, from the beginning */
    CHECK(exchange_ns(&c, all, 1000000) == 20000 + 3 * 500000);
    c.message_between_us = 1000;
    CHECK(exchange_ns(&c, all, 1000000) == 20000 + 3 * 50000 + 4 * 1000000);
}

static void many_peers_get_in_each_others_way(void)
{
    struct cluster c = small();

    c.crowd_between_peers = 4;
    CHECK(exchange_ns(&c, all, 1000000) == 20000 + 3000 + 800000);
    CHECK(exchange_ns(&c, rail, 1000000) == 20000 + 125000);
    CHECK(exchange_ns(&c, node, 1000000) == 10000 + 30000);
}

static void messages_cost_more_among_many_peers(void)
{
    struct cluster c = small();

    c.message_peer_us = 2;
    CHECK(exchange_ns(&c, all, 1) == 20000 + 3 * 1000 + 4 * (5000 + 4 * 2000));
    CHECK(exchange_ns(&c, node, 1) == 10000 + 3 * 1000);
}

static void an_exchange_takes_the_protocol_that_suits_its_size(void)
{
    struct cluster c = small();

    c.half_between_kib = 100000 / 1024.0;
    c.ll_rate_percent = 25;
    CHECK(exchange_ns(&c, rail, 1000000) == 20000 + 110000);
    log_enable(false);
    CHECK(cluster_check_model(&c, "x") == ERR_FORMAT); /* ll_latency_percent is missing */
    log_enable(true);
    c.ll_latency_percent = 50;
    CHECK(cluster_check_model(&c, "x") == OK);
    CHECK(exchange_ns(&c, rail, 1000000) == 20000 + 110000); /* Simple */
    CHECK(exchange_ns(&c, rail, 20000) == 10000 + 8000);     /* LL: at a quarter, without half */
    c.ll128_rate_percent = 80;
    c.ll128_latency_percent = 75;
    CHECK(exchange_ns(&c, rail, 80000) == 15000 + 10000);
}

static void chunks_cost_what_they_say_and_weights_do_not(void)
{
    struct cluster c = small();
    int64_t linear = a2a_ns(&c, MOE_A2A_LINEAR, 1000, 0), both = a2a_ns(&c, MOE_A2A_2DH, 1000, 0);
    int64_t other = exchange_ns(&c, all, 4000);

    c.chunk_us = 7;
    CHECK(a2a_ns(&c, MOE_A2A_LINEAR, 1000, 0) == linear + 7000);
    CHECK(a2a_ns(&c, MOE_A2A_2DH, 1000, 0) == both + 2 * 7000);
    CHECK(exchange_ns(&c, all, 4000) == other);
}

/* What is queued later pays: 1 + slowdown as long while the exchange runs, but for kernels on its
 * own stream. */
static void overlap_may_cost_more_beside_2dh(void)
{
    struct cluster c = small();
    int64_t linear, staged;

    c.overlap_slowdown = 0.5;
    linear = a2a_ns(&c, MOE_A2A_LINEAR, 100000, 10000000);
    staged = a2a_ns(&c, MOE_A2A_2DH, 100000, 10000000);
    c.overlap_slowdown_2dh = 0.5;
    CHECK(a2a_ns(&c, MOE_A2A_2DH, 100000, 10000000) == staged);
    c.overlap_slowdown_2dh = 3;
    CHECK(a2a_ns(&c, MOE_A2A_LINEAR, 100000, 10000000) == linear);
    CHECK(a2a_ns(&c, MOE_A2A_2DH, 100000, 10000000) > staged);
}

/* Racks of two nodes of two. */
static struct cluster racks(void)
{
    struct cluster c = small();

    c.nodes = 4;
    c.ranks_per_node = 2;
    c.ranks_per_rack = 4;
    c.latency_racks_us = 30;
    c.message_racks_us = 7;
    c.bandwidth_racks_gbs = 5;
    return c;
}

static void what_goes_to_another_rack_passes_both_ports(void)
{
    struct cluster c = racks(), flat = racks();

    CHECK(exchange_ns(&c, (struct peers){ 2, 1, 1 }, 1000000) == 20000 + 100000);
    CHECK(exchange_ns(&c, (struct peers){ 4, 1, 1 }, 1000000) == 30000 + 200000);
    CHECK(exchange_ns(&c, (struct peers){ 0, 2, 4 }, 1) == 30000 + 5000 + 2 * 7000);
    /* 3 MB leave the node at 10 GB/s, while 2 of them, issued after the other, go on at 5. */
    CHECK(exchange_ns(&c, (struct peers){ 0, 2, 4 }, 1000000) == 30000 + 5000 + 400000);
    c.bandwidth_racks_gbs = 20;
    CHECK(exchange_ns(&c, (struct peers){ 0, 2, 4 }, 1000000) == 30000 + 300000);
    flat.ranks_per_rack = 0; /* what is said of racks then is said of none */
    CHECK(exchange_ns(&flat, (struct peers){ 4, 1, 1 }, 1000000) == 20000 + 100000);
}

/* 4,000 bytes a block: 1 message of 4 blocks, 1 of 4, 1 of 4, and copies of 8 blocks before each.
 */
static void three_levels_take_three_exchanges(void)
{
    struct cluster c = racks();
    int64_t copy = 2000 + 2 * 8 * 4000 / 500, inside = 10000 + 1000;
    int64_t between = 20000 + 5000, beyond = 30000 + 7000;

    CHECK(a2a_ns(&c, MOE_A2A_3DH, 1000, 0) == 3 * copy + inside + between + beyond);
    CHECK(a2a_ns(&c, MOE_A2A_2DH, 1000, 0) == 2 * copy + inside + 30000 + 5000 + 2 * 7000);
    CHECK(!cluster_resize(&c, 4) && !c.ranks_per_rack && c.nodes == 2);
}

static void gathers_cross_to_a_node_once(void)
{
    struct cluster c = small();
    struct group every = { 0, 8 }, near = { 0, 4 };
    uint64_t direct_messages, messages;

    /* Each from each: four slices and their halves come through the port. */
    CHECK(gather_ns(&c, every, 1000000, &direct_messages) == 20000 + 3000 + 600000);
    c.ring_step_us = 1;
    /* A ring: seven come to the node through four ports, and seven are handed on inside. */
    CHECK(gather_ns(&c, every, 1000000, &messages) == 7 * 1000 + 262500);
    CHECK(messages == direct_messages);
    CHECK(gather_ns(&c, near, 1000000, &messages) == 3 * 1000 + 45000);
    /* Steps that take long: 1.5 MB between nodes, then the other 9 MB inside. */
    c.ring_step_us = 100;
    CHECK(gather_ns(&c, every, 1000000, &messages) == 20000 + 150000 + 10000 + 90000);
}

/* In two levels 30 us and 240 a MB, at least 5 and 3 to issue it; of a node a ring, 3 steps and 45
 * us a MB.  LL has a third of the rate and a quarter of the latency. */
static void a_gather_goes_by_its_protocol_or_the_fastest(void)
{
    struct cluster c = small();
    struct group every = { 0, 8 }, near = { 0, 4 };
    uint64_t messages;

    c.ring_step_us = 1;
    c.ll_rate_percent = 100 / 3.0;
    c.ll_latency_percent = 25;
    CHECK(gather_by_ns(&c, near, 1000000, MOE_PROTO_SIMPLE, &messages) == 3000 + 45000);
    CHECK(gather_by_ns(&c, near, 1000000, MOE_PROTO_LL, &messages) == 750 + 135000);
    c.ring_step_us = 100;
    CHECK(gather_by_ns(&c, every, 1000000, MOE_PROTO_SIMPLE, &messages) == 30000 + 240000);
    CHECK(gather_by_ns(&c, every, 1000000, MOE_PROTO_LL, &messages) == 7500 + 720000);
    CHECK(gather_by_ns(&c, every, 20000, MOE_PROTO_SIMPLE, &messages) == 25000 + 13000);
    CHECK(gather_by_ns(&c, every, 20000, MOE_PROTO_LL, &messages) == 14000 + 7900);
    CHECK(gather_ns(&c, every, 1000000, &messages) == 30000 + 240000);
    CHECK(gather_ns(&c, every, 20000, &messages) == 14000 + 7900);
    /* Nothing is known of LL128: the library chooses. */
    CHECK(gather_by_ns(&c, every, 20000, MOE_PROTO_LL128, &messages) == 14000 + 7900);
    c.ll128_rate_percent = 93.75;
    c.ll128_latency_percent = 50;
    CHECK(gather_by_ns(&c, every, 1000000, MOE_PROTO_LL128, &messages) == 15000 + 256000);
    CHECK(gather_ns(&c, every, 100000, &messages) == 15000 + 25600);
    /* Where the library gathers by sends, these go by what it likes. */
    c.ring_step_us = (double)NAN;
    CHECK(gather_by_ns(&c, every, 1000000, MOE_PROTO_LL, &messages) ==
          gather_ns(&c, every, 1000000, &messages));
}

static void sums_are_the_librarys_own_where_it_has_rings(void)
{
    struct cluster c = small();
    struct engine engine;

    c.ring_step_us = 1;
    engine = engine_of(&c);
    CHECK(reduce_applies(engine.wire, (struct group){ 0, 8 }));
    engine_close(&engine);
    c = small();
    engine = engine_of(&c);
    CHECK(!reduce_applies(engine.wire, (struct group){ 0, 8 }));
    engine_close(&engine);
}

static void a_cluster_has_as_many_ranks_as_are_wanted(void)
{
    struct cluster c = small();

    CHECK(!cluster_resize(&c, 32) && c.ranks == 32 && c.nodes == 8 && c.ranks_per_node == 4);
    log_to(listen, NULL);
    CHECK(cluster_resize(&c, 30) == ERR_ARGUMENT && c.ranks == 32);
    CHECK(strstr(last, "--ranks 30") && strstr(last, "multiple of 4"));
    CHECK(cluster_resize(&c, 0) == ERR_ARGUMENT);
    log_to(NULL, NULL);
    CHECK(!cluster_resize(&c, 2) && c.ranks == 2 && c.nodes == 1 && c.ranks_per_node == 2);
}

/* What came later is part of a cluster's name only where it is said. */
static void old_clusters_keep_their_names(void)
{
    struct cluster c = small();
    char text[CLUSTER_TEXT_BYTES], was[2 * HASH_BYTES + 1], is[2 * HASH_BYTES + 1];

    cluster_hex(&c, was);
    cluster_format(&c, text, sizeof(text));
    CHECK(!strstr(text, "chunk_us") && !strstr(text, "ll_"));
    c.chunk_us = 1;
    cluster_hex(&c, is);
    CHECK(strcmp(was, is) != 0);
    c.chunk_us = NAN;
    cluster_hex(&c, is);
    CHECK(!strcmp(was, is));
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_connection_carries_no_more_than_it_can),
        TEST(a_port_waits_for_its_first_message),
        TEST(many_peers_get_in_each_others_way),
        TEST(messages_cost_more_among_many_peers),
        TEST(an_exchange_takes_the_protocol_that_suits_its_size),
        TEST(chunks_cost_what_they_say_and_weights_do_not),
        TEST(overlap_may_cost_more_beside_2dh),
        TEST(what_goes_to_another_rack_passes_both_ports),
        TEST(three_levels_take_three_exchanges),
        TEST(gathers_cross_to_a_node_once),
        TEST(a_gather_goes_by_its_protocol_or_the_fastest),
        TEST(sums_are_the_librarys_own_where_it_has_rings),
        TEST(a_cluster_has_as_many_ranks_as_are_wanted),
        TEST(old_clusters_keep_their_names),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
