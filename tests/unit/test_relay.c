/* Tests that a=rail sends between nodes exactly the bytes of its formula for every r and d, and
 * drops the tokens that a=linear drops; started by mpirun. test_relay [--device host|cuda] [--wire
 * NAME] [--rounds N] */
#include "option.h"
#include "random.h"
#include "relay.h"
#include "rig.h"
#include "runner.h"
#include "shape.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 16, TOKENS = 24, EXPERTS_MAX = 64 };

static struct {
    struct world *world;
    struct engine engine;
    uint64_t seed, drawn;
    int passed, failed;
} all;

static uint32_t below(uint32_t n)
{
    return random_below(all.seed, all.drawn++, n);
}

static void count(const struct rig *rig, const struct moe_plan *plan, int rc)
{
    char text[SHAPE_TEXT_BYTES];

    all.passed += !rc;
    all.failed += rc != OK;
    shape_format(&rig->data.shape, text, sizeof(text));
    if (rc && world_topology(all.world)->rank == 0)
        printf("  FAILED %s: %s c=%llu: %s\n", PLAN_TEXT(plan), text,
               (unsigned long long)rig->capacity, status_word(rc));
}

static uint32_t nodes_of(const struct moe_shape *s)
{
    return s->ranks / s->ranks_per_node;
}

/* ---- The most tokens that a rank sends to a node, counted by hand */

static int64_t need_of_node(const struct rig *rig, const int32_t *expert, uint32_t node)
{
    const struct moe_shape *s = &rig->data.shape;
    uint32_t each = s->experts / nodes_of(s);
    int64_t need = 0;

    for (uint32_t t = 0; t < rig->layer->tokens; t++) {
        bool goes = false;

        for (uint32_t j = 0; j < s->top_k; j++)
            goes |= (uint32_t)expert[t * s->top_k + j] / each == node;
        need += goes;
    }
    return need;
}

static int counted_need(const struct rig *rig, const struct exec *exec, int64_t *need)
{
    const struct moe_shape *s = &rig->data.shape;
    uint64_t choices = (uint64_t)rig->layer->tokens * s->top_k;
    int32_t *expert = calloc(choices + 1, sizeof(*expert));
    int rc = expert ? OK : ERR_NOMEM;

    if (!rc)
        rc = device_download(all.engine.device, expert, exec->router.expert,
                             choices * sizeof(*expert));
    *need = 0;
    for (uint32_t node = 0; node < nodes_of(s) && !rc; node++) {
        int64_t one = need_of_node(rig, expert, node);

        *need = one > *need ? one : *need;
    }
    free(expert);
    TRY(world_settle(all.world, rc));
    return world_max(all.world, need, 1);
}

/* ---- Bytes, by the formulas */

static uint64_t rows_to_node(const struct rig *rig, uint64_t need)
{
    const struct moe_shape *s = &rig->data.shape;
    uint64_t most = rig_most_tokens(rig), slots = rig->capacity * (s->experts / nodes_of(s));
    uint64_t filled = s->top_k * rig_most_tokens(rig); /* of all experts, if none is dropped */

    if (rig->capacity * s->experts > filled)
        need = (need * rig->capacity * s->experts + filled - 1) / filled;
    most = slots < most ? slots : most;
    need = need < most ? need : most;
    return need + need % 2;
}

static uint64_t between_nodes(const struct rig *rig, uint64_t rows)
{
    const struct moe_shape *s = &rig->data.shape;
    uint64_t row = s->model_dim * dtype_bytes(s->dtype), ways = s->pass == MOE_TRAIN ? 2 : 1;

    return (nodes_of(s) - 1) * rows *
           (2 * ways * row + s->top_k * (8 + (ways - 1) * sizeof(float)));
}

static uint64_t inside_node(const struct rig *rig, const struct moe_plan *plan)
{
    const struct moe_shape *s = &rig->data.shape;
    uint64_t share = shape_slices(s) / plan->r * plan->d, c = rig->capacity * nodes_of(s);
    uint64_t rows = (c + share - 1) / share * share * plan->r, m = s->ranks_per_node;
    uint64_t ways = s->pass == MOE_TRAIN ? 4 : 2;

    return ways * (s->experts / nodes_of(s)) * rows * s->model_dim * dtype_bytes(s->dtype) *
           (m - 1) / m;
}

static uint64_t leaving_node(const struct batch *batch, const struct moe_shape *s, int rank)
{
    uint64_t bytes = 0;

    for (int i = 0; i < batch->count; i++)
        if ((uint32_t)batch->transfers[i].peer / s->ranks_per_node !=
            (uint32_t)rank / s->ranks_per_node)
            bytes += batch->transfers[i].send_bytes;
    return bytes;
}

static int check_bytes(const struct rig *rig, const struct exec *exec, uint64_t need, uint64_t sent,
                       uint64_t of_weights)
{
    const struct moe_shape *s = &rig->data.shape;
    const struct relay *relay = exec->state;
    const struct batch *hops[] = { &relay->send_labelled, &relay->send_rows, &relay->return_rows,
                                   &relay->return_grads };
    uint64_t want = between_nodes(rig, rows_to_node(rig, need)), leaving = 0;

    for (size_t i = 0; i < sizeof(hops) / sizeof(hops[0]); i++)
        if (s->pass == MOE_TRAIN || i == 0 || i == 2)
            leaving += leaving_node(hops[i], s, rig->layer->rank);
    if (leaving != want)
        return fail(ERR_WRONG, "%llu bytes leave the node, should be %llu",
                    (unsigned long long)leaving, (unsigned long long)want);
    want += inside_node(rig, &exec->plan) + of_weights;
    return sent == want ? OK
                        : fail(ERR_WRONG, "%llu bytes sent, should be %llu",
                               (unsigned long long)sent, (unsigned long long)want);
}

/* ---- Settings */

struct outcome {
    uint64_t sent;
    int64_t dropped;
};

static int measure(struct rig *rig, const struct moe_plan *plan, bool relayed, uint64_t of_weights,
                   struct outcome *out)
{
    uint64_t before = all.engine.wire->sent_bytes;
    struct exec *exec;
    int64_t need = 0;
    double worst;
    int rc;

    TRY(plan_check(plan, &rig->data.shape));
    TRY(rig_exec(rig, plan, &exec));
    before = all.engine.wire->sent_bytes;
    rc = rig_check(rig, exec, &worst);
    out->sent = all.engine.wire->sent_bytes - before;
    if (!rc)
        rc = rig_dropped(rig, exec, &out->dropped);
    if (!rc && relayed)
        rc = counted_need(rig, exec, &need);
    if (!rc && relayed)
        rc = world_settle(all.world, check_bytes(rig, exec, (uint64_t)need, out->sent, of_weights));
    exec_close(exec);
    return rc;
}

/* Choices that a relay has for each expert of its node. */
static int relayed(const struct exec *exec, int64_t *needed)
{
    uint32_t experts = exec->layer->shape.experts / nodes_of(&exec->layer->shape);
    const struct relay *relay = exec->state;

    return device_download(all.engine.device, needed, relay->needed, experts * sizeof(*needed));
}

/* What only computes sees the labels that came last, whatever was exchanged without computing. */
static int labels_stay(struct rig *rig, const struct moe_plan *plan)
{
    static int64_t whole[EXPERTS_MAX], alone[EXPERTS_MAX];
    struct runner runner = { 0 };
    int64_t ns;
    int rc = runner_open(rig, plan, &runner);

    if (!rc)
        rc = runner_step(&runner, STEP_BOTH, &ns);
    if (!rc)
        rc = world_settle(all.world, relayed(runner.exec, whole));
    if (!rc)
        rc = runner_step(&runner, STEP_COMM, &ns);
    if (!rc)
        rc = runner_step(&runner, STEP_COMPUTE, &ns);
    if (!rc)
        rc = world_settle(all.world, relayed(runner.exec, alone));
    if (!rc && memcmp(whole, alone, sizeof(whole)))
        rc = fail(ERR_WRONG, "relays lose the choices of their rows");
    rc = world_settle(all.world, rc);
    runner_close(&runner);
    return rc;
}

/* What weights add does not depend on how tokens travel. */
static uint64_t linear_tokens(const struct rig *rig, const struct moe_plan *plan)
{
    const struct moe_shape *s = &rig->data.shape;
    uint64_t share = shape_slices(s) / plan->r * plan->d;
    uint64_t rows = (rig->capacity + share - 1) / share * share * plan->r;
    uint64_t ways = s->pass == MOE_TRAIN ? 4 : 2;

    return ways * s->experts * rows * s->model_dim * dtype_bytes(s->dtype) * (s->ranks - 1) /
           s->ranks;
}

static void run_plan(struct rig *rig, struct moe_plan plan)
{
    struct outcome linear, rail;
    int rc = measure(rig, &plan, false, 0, &linear);

    count(rig, &plan, rc);
    plan.a = MOE_A2A_RAIL;
    if (!rc)
        rc = measure(rig, &plan, true, linear.sent - linear_tokens(rig, &plan), &rail);
    if (!rc && rail.dropped != linear.dropped)
        rc = fail(ERR_WRONG, "%lld dropped, linear %lld", (long long)rail.dropped,
                  (long long)linear.dropped);
    if (!rc)
        rc = labels_stay(rig, &plan);
    count(rig, &plan, rc);
}

static struct moe_shape some_shape(uint32_t ranks, uint32_t m, int round)
{
    struct moe_shape s = { .struct_size = sizeof(s),
                           .tokens = TOKENS,
                           .model_dim = 1 + below(20),
                           .ranks = ranks,
                           .ranks_per_node = m,
                           .dtype = (uint32_t)round % 3,
                           .pass = round % 4 ? MOE_TRAIN : MOE_FORWARD,
                           .activation = (uint32_t)round % 3 };

    s.experts = round % 3 == 2 ? ranks / m : ranks * (1 + below(3));
    s.top_k = 1 + below(s.experts < 8 ? s.experts : 8);
    s.hidden_dim = shape_slices(&s) * (1 + below(6));
    return s;
}

static void run_round(uint32_t ranks, uint32_t m, int round)
{
    static const uint64_t capacities[] = { 7, 1, 64, 3 };
    static const uint32_t uneven[] = { TOKENS, 0, 3, TOKENS - 1, 1, 0, 7, 11 };
    struct data data = { .shape = some_shape(ranks, m, round), .seed = all.seed + (uint64_t)round };
    uint32_t tokens[RANKS_MAX];
    struct rig *rig;

    for (uint32_t q = 0; q < ranks; q++)
        tokens[q] = round % 2 ? uneven[q % 8] : TOKENS;
    all.engine.wire->topology.ranks_per_node = (int)m;
    if (rig_open(all.world, &all.engine, &data, tokens, 1, &rig)) {
        all.failed++;
        return;
    }
    rig_set_capacity(rig, capacities[round % 4]);
    for (uint32_t r = 1; r <= shape_slices(&data.shape); r++)
        for (uint32_t d = 1; shape_slices(&data.shape) % r == 0 && d <= 8; d *= 2)
            run_plan(rig,
                     (struct moe_plan){ .struct_size = sizeof(struct moe_plan), .r = r, .d = d });
    rig_close(rig);
}

int main(int argc, char **argv)
{
    const char *seed = getenv("MOETUNE_TEST_SEED");
    uint32_t ranks;

    if (world_open(0, 0, &all.world))
        return 1;
    ranks = (uint32_t)world_topology(all.world)->ranks;
    all.seed = seed ? strtoull(seed, NULL, 10) : 1;
    if (engine_open(all.world, option(argc, argv, "--device", "host"),
                    option(argc, argv, "--wire", NULL), &all.engine))
        return 1;
    for (uint32_t m = 2; m < ranks; m *= 2)
        for (int round = 0; ranks % m == 0 && round < atoi(option(argc, argv, "--rounds", "12"));
             round++)
            run_round(ranks, m, round);
    if (world_topology(all.world)->rank == 0)
        printf("%d passed, %d failed\n", all.passed, all.failed);
    engine_close(&all.engine);
    world_close(all.world);
    return all.failed ? 1 : 0;
}
