/* Tests experts that are divided by hidden units.  They give what the plain reference gives,
 * however units and tokens are divided among ranks, and send exactly the bytes of their formulas;
 * started by mpirun. test_hidden [--device host|cuda] [--wire NAME] [--rounds N] */
#include "account.h"
#include "library_wire.h"
#include "option.h"
#include "random.h"
#include "rig.h"
#include "shape.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS_MAX = 32, RANKS_MAX = 8, TOKENS = 20 };

struct setting {
    struct moe_shape shape;
    uint64_t capacity;
    bool uneven;          /* tokens differ between ranks, some have none */
    const double *speeds; /* or NULL */
};

static const double speeds[RANKS_MAX] = { 1, 2.6, 0.01, 1.5, 4, 1, 1, 3 };

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

static void count(const struct setting *s, const struct moe_plan *plan, int rc)
{
    char text[SHAPE_TEXT_BYTES];

    all.passed += !rc;
    all.failed += rc != OK;
    shape_format(&s->shape, text, sizeof(text));
    if (rc && world_topology(all.world)->rank == 0)
        printf("  FAILED %s: %s c=%llu%s: %s\n", plan ? PLAN_TEXT(plan) : "every plan", text,
               (unsigned long long)s->capacity, s->uneven ? ", uneven" : "", status_word(rc));
}

static void tokens_of(const struct setting *s, uint32_t *tokens)
{
    static const uint32_t uneven[RANKS_MAX] = { TOKENS, 0, 3, TOKENS - 1, 1, 0, 7, 11 };

    for (uint32_t q = 0; q < s->shape.ranks; q++)
        tokens[q] = s->uneven ? uneven[q] : TOKENS;
}

/* ---- What a step sends from this rank, by the formulas */

static uint64_t weights_sent(const struct rig *rig)
{
    const struct moe_shape *s = &rig->data.shape;
    uint64_t matrices = s->activation == MOE_SWIGLU ? 3 : 2;
    uint64_t unit = s->experts * (matrices * s->model_dim + 1), own = rig->layer->hidden;
    uint64_t forward = (s->ranks - 1) * own * unit, backward = (s->hidden_dim - own) * unit;

    return (forward + (s->pass == MOE_TRAIN ? backward : 0)) * dtype_bytes(s->dtype);
}

static uint64_t bias2_sent(const struct moe_shape *s)
{
    uint64_t ways = s->pass == MOE_TRAIN ? 2 : 1;

    return ways * (s->ranks - 1) * s->experts * shape_bias2_slice(s) * dtype_bytes(s->dtype);
}

/* Tokens and their choices go to all, partial results come back; backward the same with gradients,
 * of tokens and of gates. */
static uint64_t tokens_sent(const struct rig *rig)
{
    const struct moe_shape *s = &rig->data.shape;
    uint64_t row = s->model_dim * dtype_bytes(s->dtype), own = rig->layer->tokens, others = 0;
    uint64_t ways = s->pass == MOE_TRAIN ? 2 : 1, go, come;

    for (uint32_t q = 0; q < s->ranks; q++)
        others += q == (uint32_t)rig->layer->rank ? 0 : rig->parts.tokens[q];
    go = (s->ranks - 1) * own * (ways * row + s->top_k * sizeof(struct sent_choice));
    come = others * (ways * row + (ways - 1) * s->top_k * sizeof(float));
    return go + come;
}

/* Backward w=cache gathers all again but what the last layer's forward pass used last: as many
 * pieces as there is room for. */
static uint64_t again_sent(const struct rig *rig, const struct moe_plan *plan)
{
    const struct moe_shape *s = &rig->data.shape;
    uint64_t matrices = s->activation == MOE_SWIGLU ? 3 : 2;
    uint64_t unit = s->experts * (matrices * s->model_dim + 1), own = rig->layer->hidden;
    uint32_t rooms = plan->d < 2 ? plan->d : 2, gone = plan->d - rooms, others = layer_count(s) - 1;
    uint64_t units = others * own + part_cut((uint32_t)own, gone, plan->d);
    uint64_t bias2 = (others + (gone > 0)) * (uint64_t)s->experts * shape_bias2_slice(s);

    if (plan->w != MOE_CACHE || s->pass != MOE_TRAIN)
        return 0;
    return (s->ranks - 1) * (units * unit + bias2) * dtype_bytes(s->dtype);
}

static int check_sent(const struct rig *rig, const struct moe_plan *plan, uint64_t sent)
{
    uint64_t each = bias2_sent(&rig->data.shape) + (plan->r ? tokens_sent(rig) : weights_sent(rig));
    uint64_t want = layer_count(&rig->data.shape) * each + again_sent(rig, plan);

    return sent == want ? OK
                        : fail(ERR_WRONG, "%llu bytes sent, should be %llu",
                               (unsigned long long)sent, (unsigned long long)want);
}

/* ---- Settings */

static int check_memory(const struct rig *rig, const struct exec *exec)
{
    const struct moe_shape *s = &rig->data.shape;
    struct topology topology = *world_topology(all.world);
    const struct capacities capacities = rig_capacities(rig);
    size_t asked = exec_bytes(s, &rig->parts, &exec->plan, &topology, &capacities,
                              device_compute_type(all.engine.device, s->dtype), 0);
    bool sums = wire_has(all.engine.wire, COLLECTIVE_SUM, (struct group){ 0, (int)s->ranks });
    struct account_machine machine = { .on_host = strcmp(all.engine.device->ops->name, "cuda") != 0,
                                       .speeds = rig->data.speeds };
    int64_t most = account_plan(s, &machine, &exec->plan, rig->capacity);

    if (rig->data.speeds && (int64_t)exec->memory_bytes > most)
        return fail(ERR_WRONG, "%zu bytes used, at most %lld foreseen", exec->memory_bytes,
                    (long long)most);
    /* A wire that sums by itself needs no parts. */
    return exec->memory_bytes == asked || (sums && exec->memory_bytes < asked)
               ? OK
               : fail(ERR_WRONG, "%zu bytes used, %zu asked", exec->memory_bytes, asked);
}

/* Other tokens and weights; once more: those that it had. */
static int exchange_tokens(struct rig *rig)
{
    int rc;

    judge_close(rig->reference);
    rig->reference = NULL;
    rig->data.seed ^= 1;
    rc = data_fill_layer(&rig->data, rig->layer);
    if (!rc)
        rc = data_fill_rows(&rig->data, rig->layer, data_token, rig->x);
    if (!rc)
        rc = data_fill_rows(&rig->data, rig->layer, data_grad, rig->grad_y);
    return world_settle(rig->world, rc);
}

/* A graph is captured with some tokens, and replayed with others. */
static int run_graph(struct rig *rig, struct exec *exec)
{
    struct graph *graph = NULL;
    double worst;
    int rc;

    if (!device_has_graphs(all.engine.device) || !all.engine.wire->ops->graphs ||
        layer_count(&rig->data.shape) > 1)
        return OK;
    rc = rig_capture(rig, exec, &graph);
    exec->graph = graph;
    for (int i = 0; i < 2 && !rc; i++) { /* then with those that it had */
        rc = exchange_tokens(rig);
        if (!rc)
            rc = rig_check(rig, exec, &worst);
    }
    exec->graph = NULL;
    graph_close(graph);
    /* Else another rank may still have this one's memory mapped when it is freed. */
    return wire_reclaim(all.engine.wire, all.engine.comm) ? ERR_WIRE : rc;
}

/* Whole weights take P for one piece, 2 P/d for d of them, whatever the number of layers; kept they
 * take P for each. */
static int check_rooms(const struct exec *exec)
{
    const struct weights *first = &exec->weights;
    uint32_t hidden = exec->layer->shape.hidden_dim, most = 0, end = 0;

    for (uint32_t i = 0; i < first->piece_count; i++) {
        const struct weights_piece *p = &first->pieces[i];

        most = p->units > most ? p->units : most;
        end = p->place + p->units > end ? p->place + p->units : end;
    }
    if (end > (exec->plan.w == MOE_CACHE && first->piece_count > 1 ? 2 * most : hidden))
        return fail(ERR_WRONG, "pieces take %u of %u units", end, hidden);
    for (uint32_t l = 1; l < layer_count(&exec->layer->shape); l++)
        if ((exec[l].weights.tensors[TENSOR_W1].whole == first->tensors[TENSOR_W1].whole) !=
            (exec->plan.w == MOE_CACHE))
            return fail(ERR_WRONG, "layer %u has the wrong room", l);
    return OK;
}

/* The output of w=keep; w=cache must give the same bits. */
static int same_bits(struct rig *rig, const struct moe_plan *plan)
{
    static unsigned char kept[TOKENS * 32 * sizeof(float)], now[sizeof(kept)];
    size_t bytes =
        (size_t)rig->layer->tokens * rig->data.shape.model_dim * dtype_bytes(rig->data.shape.dtype);

    if (plan->r != 0 || bytes > sizeof(kept))
        return OK;
    TRY(device_download(rig->engine->device, plan->w == MOE_CACHE ? now : kept, rig->y, bytes));
    return plan->w != MOE_CACHE || !memcmp(kept, now, bytes)
               ? OK
               : fail(ERR_WRONG, "w=cache and w=keep differ");
}

static int run_plan(struct rig *rig, const struct moe_plan *plan)
{
    struct wire *wire = all.engine.wire;
    struct exec *exec;
    uint64_t before;
    double worst;
    int rc;

    TRY(plan_check(plan, &rig->data.shape));
    TRY(rig_exec(rig, plan, &exec));
    for (int i = 0; i < 2; i++) {
        before = wire->sent_bytes;
        rc = rig_check(rig, exec, &worst);
        if (!rc)
            rc = world_settle(all.world, check_sent(rig, plan, wire->sent_bytes - before));
        if (rc)
            break;
    }
    if (!rc)
        rc = world_settle(all.world, same_bits(rig, plan));
    if (!rc && plan->r == 0 && rig->data.shape.ranks > 1)
        rc = world_settle(all.world, check_rooms(exec));
    if (!rc)
        rc = world_settle(all.world, check_memory(rig, exec));
    if (!rc)
        rc = run_graph(rig, exec);
    exec_close(exec);
    return rc;
}

/* What padded experts drop in the other layout. */
static int check_drops(const struct setting *s, const uint32_t *tokens, int64_t dropped)
{
    struct data data = { .shape = s->shape, .seed = all.seed };
    struct moe_plan plan = plan_default(NULL);
    struct rig *rig;
    struct exec *exec;
    int64_t padded;
    int rc;

    data.shape.layout = MOE_LAYOUT_EXPERTS;
    if (shape_fault(&data.shape, (char[SHAPE_FAULT_BYTES]){ 0 }, SHAPE_FAULT_BYTES))
        return OK;
    plan.r = 0;
    TRY(rig_open(all.world, &all.engine, &data, tokens, 1, &rig));
    rig_set_capacity(rig, s->capacity);
    rc = rig_exec(rig, &plan, &exec);
    if (!rc) {
        rc = world_settle(all.world, rig_step(rig, exec));
        if (!rc)
            rc = rig_dropped(rig, exec, &padded);
        exec_close(exec);
    }
    rig_close(rig);
    return rc ? rc : (padded == dropped ? OK : fail(ERR_WRONG, "drops differ"));
}

static void run_plans(const struct setting *s, struct rig *rig, int64_t *dropped)
{
    struct moe_plan plans[PLANS_MAX];
    size_t n = plan_list(&s->shape, plans, PLANS_MAX);
    struct exec *exec;

    for (size_t i = 0; i < n; i++) {
        count(s, &plans[i], run_plan(rig, &plans[i]));
        if (plans[i].r)
            continue;
        plans[i].w = MOE_CACHE;
        count(s, &plans[i], run_plan(rig, &plans[i]));
        plans[i].w = MOE_KEEP;
    }
    if (rig_exec(rig, &plans[0], &exec))
        return;
    if (!world_settle(all.world, rig_step(rig, exec)))
        count(s, &plans[0], rig_dropped(rig, exec, dropped));
    exec_close(exec);
}

static void run_setting(const struct setting *s)
{
    struct data data = { .shape = s->shape, .seed = all.seed, .speeds = s->speeds };
    uint32_t tokens[RANKS_MAX];
    int64_t dropped = -1;
    struct rig *rig;
    int rc;

    tokens_of(s, tokens);
    rc = rig_open(all.world, &all.engine, &data, s->speeds ? NULL : tokens, 1, &rig);
    if (rc) {
        count(s, NULL, rc);
        return;
    }
    rig_set_capacity(rig, s->capacity);
    run_plans(s, rig, &dropped);
    rig_close(rig);
    if (!s->speeds && !s->shape.layers) /* what later layers are given differs by rounding */
        count(s, NULL, check_drops(s, tokens, dropped));
}

static struct setting some_setting(uint32_t ranks, int round)
{
    static const uint64_t capacities[] = { 7, 0, 1, 64, 3 };
    struct setting s = { .capacity = capacities[round % 5], .uneven = round % 3 == 1 };

    s.shape = (struct moe_shape){ .struct_size = sizeof(s.shape),
                                  .experts = 1 + below(9),
                                  .tokens = TOKENS,
                                  .model_dim = 1 + below(20),
                                  .ranks = ranks,
                                  .ranks_per_node = ranks,
                                  .dtype = (uint32_t)round % 4 < 2 ? MOE_F32 : 1 + below(2),
                                  .pass = round % 6 ? MOE_TRAIN : MOE_FORWARD,
                                  .activation = (uint32_t)round % 3,
                                  .layout = MOE_LAYOUT_HIDDEN };
    s.shape.top_k = 1 + below(s.shape.experts < 3 ? s.shape.experts : 3);
    s.shape.hidden_dim = ranks + below(30);
    s.shape.layers = (uint32_t)(round / 2 + round) % 4;
    if (round % 4 == 3) {
        s.shape.shares =
            MOE_SHARES_SPEED + (uint32_t)(round / 4) % 3; /* and the words that follow */
        s.speeds = speeds;
    }
    return s;
}

static void run_rounds(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        struct setting s = some_setting((uint32_t)world_topology(all.world)->ranks, round);

        run_setting(&s);
    }
}

/* Where the wire gathers and sums equal parts by itself. */
static int run_on_library(void)
{
    struct engine plain = all.engine;
    struct device *device = NULL;
    struct wire *inner = NULL, *wire = NULL;

    TRY(device_open("host", &device));
    TRY(wire_open(NULL, all.world, device, &inner));
    TRY(library_wire_open(inner, &wire));
    TRY(engine_open_on(device, wire, &all.engine));
    for (int round = 0; round < 3; round++) {
        struct setting s = some_setting((uint32_t)world_topology(all.world)->ranks, round);

        s.shape.hidden_dim = s.shape.ranks * (1 + below(5));
        run_setting(&s);
    }
    engine_close(&all.engine);
    all.engine = plain;
    return OK;
}

int main(int argc, char **argv)
{
    const char *seed = getenv("MOETUNE_TEST_SEED");

    if (world_open(0, 0, &all.world))
        return 1;
    all.seed = seed ? strtoull(seed, NULL, 10) : 1;
    if (engine_open(all.world, option(argc, argv, "--device", "host"),
                    option(argc, argv, "--wire", NULL), &all.engine))
        return 1;
    run_rounds(atoi(option(argc, argv, "--rounds", "24")));
    if (!strcmp(all.engine.device->ops->name, "host") && run_on_library())
        return 1;
    if (world_topology(all.world)->rank == 0)
        printf("%d passed, %d failed\n", all.passed, all.failed);
    engine_close(&all.engine);
    world_close(all.world);
    return all.failed ? 1 : 0;
}
