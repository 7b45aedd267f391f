/* Tests the schedule of a step on a virtual clock: what overlaps, and what does not. */
#include "check.h"

#include "exec.h"
#include "sim.h"
#include "status.h"
#include "wire_sim.h"

#include <string.h>

/* A layer whose chunks' products take 2000 in all, and whose two all-to-alls 1000 each. */
enum { RANKS = 8, CAPACITY = 64, WIDTH = 16, COMPUTE = 2000, SEND = 1000 };
static const struct capacities capacities = { CAPACITY, NULL };

static struct moe_shape shape_for(uint32_t pass)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = RANKS,
                               .top_k = 1,
                               .model_dim = WIDTH,
                               .hidden_dim = WIDTH,
                               .ranks = RANKS,
                               .ranks_per_node = RANKS,
                               .pass = pass };
}

/* What was issued: p a product of experts, x an exchange. */
static char issued[256];

static void note_issue(char what)
{
    size_t n = strlen(issued);

    if (n + 1 < sizeof(issued))
        issued[n] = what;
}

/* A bit for each type that a product of the gate read. */
static uint32_t gate_types;

/* Only the experts' products cost anything, in proportion to their operations. */
static int64_t product_ns(const struct sim_costs *costs, enum kernel kernel, const void *args)
{
    const struct gemm *g = args;
    uint64_t whole = (uint64_t)RANKS * CAPACITY * WIDTH * WIDTH;

    (void)costs;
    if (kernel != KERNEL_gemm)
        return 0;
    if (g->m == RANKS || g->n == RANKS || g->k == RANKS) { /* the gate's products are free */
        gate_types |= 1u << g->dtype;
        CHECK(gemm_result_type(g) == MOE_F32);
        return 0;
    }
    note_issue('p');
    return (int64_t)(COMPUTE / 2 * (g->m * g->n * g->k) / whole);
}

static int64_t transfer_ns(const struct sim_link *link, const struct batch *batch)
{
    size_t whole = (size_t)RANKS * CAPACITY * WIDTH * sizeof(float), bytes = 0;

    (void)link;
    note_issue('x');
    for (int i = 0; i < batch->count; i++)
        bytes += batch->transfers[i].send_bytes;
    return (int64_t)(SEND * bytes / whole);
}

static int64_t now(const struct engine *e)
{
    int64_t a = sim_stream_ns(e->compute), b = sim_stream_ns(e->comm);

    return a > b ? a : b;
}

struct stage {
    struct engine engine;
    struct parts parts;
    struct layer *layer;
    bool by_events; /* its stretches are timed */
};

static void stage_open(struct stage *s, uint32_t pass)
{
    static const struct sim_costs costs = { .kernel_ns = product_ns };
    static const struct sim_link link = { .exchange_ns = transfer_ns };
    struct topology topology = { 0, RANKS, RANKS };
    struct moe_shape shape = shape_for(pass);

    struct device *device = NULL;
    struct wire *wire = NULL;

    CHECK(!wire_sim_open(&link, &topology, &wire));
    CHECK(!sim_open(&costs, &device));
    device->asynchronous = s->by_events;
    CHECK(!engine_open_on(device, wire, &s->engine));
    CHECK(!parts_open(&shape, NULL, &s->parts));
    s->parts.tokens[0] = CAPACITY;
    CHECK(!layer_open(s->engine.device, &shape, 0, &s->parts, &s->layer));
}

static void stage_close(struct stage *s)
{
    layer_close(s->layer);
    parts_close(&s->parts);
    engine_close(&s->engine);
}

static int64_t forward_ns(uint32_t chunks, bool mute_compute, bool mute_comm)
{
    struct moe_plan plan = { .r = 1, .d = chunks };
    struct stage s = { 0 };
    struct exec *exec = NULL;
    int64_t took;

    stage_open(&s, MOE_FORWARD);
    CHECK(!exec_open(&s.engine, s.layer, &plan, &capacities, &exec));
    s.engine.compute->muted = mute_compute;
    s.engine.comm->muted = mute_comm;
    CHECK(!exec_fetch(exec));
    CHECK(!exec_forward(exec, NULL, NULL));
    took = now(&s.engine);
    exec_close(exec);
    stage_close(&s);
    return took;
}

static uint32_t gate_types_on(bool modelled, bool computes_f32)
{
    struct moe_plan plan = { .r = 1, .d = 1 };
    struct stage s = { 0 };
    struct exec *exec = NULL;

    stage_open(&s, MOE_TRAIN);
    s.layer->shape.dtype = MOE_BF16;
    s.engine.device->modelled = modelled;
    s.engine.device->computes_f32 = computes_f32;
    gate_types = 0;
    CHECK(!exec_open(&s.engine, s.layer, &plan, &capacities, &exec));
    CHECK(!exec_fetch(exec));
    CHECK(!exec_forward(exec, NULL, NULL));
    CHECK(!exec_backward(exec, NULL, NULL));
    CHECK(!exec_finish(exec));
    exec_close(exec);
    stage_close(&s);
    return gate_types;
}

static void the_gate_multiplies_16_bit_numbers_where_the_device_does(void)
{
    CHECK(gate_types_on(false, false) == 1u << MOE_BF16);
    CHECK(gate_types_on(false, true) == 1u << MOE_F32);
    CHECK(gate_types_on(true, false) == 1u << MOE_F32);
}

static void more_chunks_hide_more(void)
{
    CHECK(forward_ns(1, false, false) == 4000);
    CHECK(forward_ns(2, false, false) == 3000);
    CHECK(forward_ns(4, false, false) == 2500);
    CHECK(forward_ns(8, false, false) == 2250);
}

/* The loop a plain reading of "pipelined" gives. */
static int64_t naive_ns(uint32_t chunks)
{
    struct stage s = { 0 };
    struct event *sent = NULL, *done = NULL;
    int64_t took;

    stage_open(&s, MOE_FORWARD);
    CHECK(!event_open(s.engine.device, &sent) && !event_open(s.engine.device, &done));
    for (uint32_t i = 0; i < chunks; i++) {
        sim_pass(s.engine.comm, SEND / chunks, 1);
        event_record(sent, s.engine.comm);
        event_wait(sent, s.engine.compute);
        sim_pass(s.engine.compute, COMPUTE / chunks, 1);
        event_record(done, s.engine.compute);
        event_wait(done, s.engine.comm);
        sim_pass(s.engine.comm, SEND / chunks, 1);
    }
    took = now(&s.engine);
    event_close(sent);
    event_close(done);
    stage_close(&s);
    return took;
}

static void the_naive_order_would_hide_nothing(void)
{
    for (uint32_t d = 1; d <= 8; d *= 2)
        CHECK(naive_ns(d) == 4000);
}

static void a_muted_stream_leaves_the_time_of_the_other(void)
{
    for (uint32_t d = 1; d <= 8; d *= 2) {
        CHECK(forward_ns(d, true, false) == 2 * SEND);
        CHECK(forward_ns(d, false, true) == COMPUTE);
    }
}

static const char *issue_order(bool by_events)
{
    struct moe_plan plan = { .r = 1, .d = 4 };
    struct stage s = { .by_events = by_events };
    struct exec *exec = NULL;

    memset(issued, 0, sizeof(issued));
    stage_open(&s, MOE_FORWARD);
    CHECK(!exec_open(&s.engine, s.layer, &plan, &capacities, &exec));
    CHECK(!exec_fetch(exec));
    CHECK(!exec_forward(exec, NULL, NULL));
    CHECK(now(&s.engine) == 2500);
    exec_close(exec);
    stage_close(&s);
    return issued;
}

/* Each chunk has two products. */
static void where_issuing_costs_products_do_not_wait_for_it(void)
{
    CHECK(!strcmp(issue_order(true), "xxppxppxppppxxxx"));
    CHECK(!strcmp(issue_order(false), "xxxxppppppppxxxx"));
}

/* Backward: twice the products of forward (gradients of rows and of weights), the same trips. */
static void the_backward_pass_overlaps_as_the_forward_pass_does(void)
{
    int64_t took[9] = { 0 };

    for (uint32_t d = 1; d <= 8; d *= 2) {
        struct moe_plan plan = { .r = 1, .d = d };
        struct stage s = { 0 };
        struct exec *exec = NULL;
        int64_t before;

        stage_open(&s, MOE_TRAIN);
        CHECK(!exec_open(&s.engine, s.layer, &plan, &capacities, &exec));
        CHECK(!exec_fetch(exec));
        CHECK(!exec_forward(exec, NULL, NULL));
        CHECK(!engine_sync(&s.engine));
        before = now(&s.engine);
        CHECK(!exec_backward(exec, NULL, NULL));
        CHECK(!exec_finish(exec));
        took[d] = now(&s.engine) - before;
        exec_close(exec);
        stage_close(&s);
    }
    CHECK(took[1] == 6000 && took[2] == 5000 && took[4] == 4500 && took[8] == 4250);
}

/* Compute ends after communication where it has the last word, before it where it has not. */
static int64_t stretch_ns(bool by_events, int64_t compute_ns, int64_t comm_ns)
{
    struct stage s = { .by_events = by_events };
    int64_t took;

    stage_open(&s, MOE_FORWARD);
    sim_pass(s.engine.compute, 100, 1); /* of an earlier stretch */
    CHECK(!engine_sync(&s.engine));
    CHECK(!engine_begin(&s.engine));
    sim_pass(s.engine.compute, compute_ns, 1);
    sim_pass(s.engine.comm, comm_ns, 1);
    CHECK(!engine_sync(&s.engine));
    took = engine_elapsed_ns(&s.engine);
    stage_close(&s);
    return took;
}

static void a_stretch_lasts_until_the_later_stream_by_events_and_by_the_clock(void)
{
    for (int by_events = 0; by_events < 2; by_events++) {
        CHECK(stretch_ns(by_events, 700, 300) == 700);
        CHECK(stretch_ns(by_events, 300, 700) == 700);
        CHECK(stretch_ns(by_events, 0, 50) == 50);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(more_chunks_hide_more),
        TEST(the_gate_multiplies_16_bit_numbers_where_the_device_does),
        TEST(the_naive_order_would_hide_nothing),
        TEST(a_muted_stream_leaves_the_time_of_the_other),
        TEST(where_issuing_costs_products_do_not_wait_for_it),
        TEST(the_backward_pass_overlaps_as_the_forward_pass_does),
        TEST(a_stretch_lasts_until_the_later_stream_by_events_and_by_the_clock),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
