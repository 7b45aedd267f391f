/* Tests layers with other routers than a softmax over all experts, on real ranks.  Every plan gives
 * what the plain reference gives, and drops the same tokens as every other plan.  Equal known
 * routes give the same bits.  Started by mpirun. test_routers [--brief] [--device host|cuda]
 * [--wire NAME]
 * --brief: each router with one dtype only, forward and backward. */
#include "option.h"
#include "random.h"
#include "rig.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS_MAX = 128, TOKENS = 20, RANKS_MAX = 8 };

static struct {
    struct world *world;
    struct engine engine;
    uint64_t seed;
    int passed, failed, known;
} all;

static void count(const struct moe_shape *shape, const struct moe_plan *plan, int rc)
{
    all.passed += !rc;
    all.failed += rc != 0;
    if (rc && world_topology(all.world)->rank == 0)
        printf("  FAILED %s under %s: %s\n", SHAPE_TEXT(shape), plan ? PLAN_TEXT(plan) : "any plan",
               status_word(rc));
}

/* The loss is a sum over many tokens: closer to the reference than any one result. */
static int check_loss(struct rig *rig, struct exec *exec)
{
    double loss = 0, want = rig->reference ? rig->reference->balance : 0;
    int rc = router_balance(&exec->router, &loss);

    if (!rc && rig->reference && rig->data.shape.dtype == MOE_F32 &&
        fabs(loss - want) > 1e-6 * fabs(want))
        rc = fail(ERR_WRONG, "the loss of balance is %.9g, should be %.9g", loss, want);
    if (!rc && !rig->data.balance && loss != 0)
        rc = fail(ERR_WRONG, "a loss that nobody asked for");
    return world_settle(all.world, rc);
}

/* Other experts than a fresh step would choose, in most tokens, no two of them one. */
static int know_others(struct rig *rig, struct exec *known)
{
    const struct moe_shape *s = &rig->data.shape;
    uint32_t offset = random_below(all.seed, 77, s->experts), n = rig->layer->tokens * s->top_k;
    int32_t *expert = calloc(n + 1, sizeof(*expert));
    int rc = expert ? OK : ERR_NOMEM;

    for (uint32_t i = 0; i < n && !rc; i++)
        expert[i] = (int32_t)((offset + i / s->top_k + i % s->top_k) % s->experts);
    for (uint32_t i = 0; i < layer_count(s) && !rc; i++)
        rc = router_set_known_routes(&known[i].router, expert);
    free(expert);
    return world_settle(rig->world, rc);
}

static void forget_reference(struct rig *rig)
{
    judge_close(rig->reference);
    rig->reference = NULL;
}

static int download(const struct rig *rig, char **out)
{
    const struct moe_shape *s = &rig->data.shape;
    size_t bytes =
        (size_t)rig->layer->tokens * shape_result_rows(s) * s->model_dim * dtype_bytes(s->dtype);

    *out = calloc(bytes + 1, 1);
    return *out ? device_download(rig->engine->device, *out, rig->y, bytes) : ERR_NOMEM;
}

/* The last step's y, of both, bit for bit. */
static int compare_bits(const struct rig *rig, const char *fresh)
{
    const struct moe_shape *s = &rig->data.shape;
    size_t bytes =
        (size_t)rig->layer->tokens * shape_result_rows(s) * s->model_dim * dtype_bytes(s->dtype);
    char *known = NULL;
    int rc = download(rig, &known);

    if (!rc && memcmp(fresh, known, bytes) != 0)
        rc = fail(ERR_WRONG, "y of known routes is not that of fresh ones");
    free(known);
    return rc;
}

static int run_known(struct rig *rig, const struct moe_plan *plan, struct exec *fresh,
                     enum routes routes)
{
    struct exec *known = NULL;
    char *y = NULL;
    double worst;
    int rc;

    TRY(world_settle(rig->world, rig_step(rig, fresh)));
    TRY(world_settle(rig->world, download(rig, &y)));
    rig->routes = routes;
    rc = rig_exec(rig, plan, &known);
    rig->routes = ROUTES_FRESH;
    if (!rc)
        rc = rig_set_known_routes(rig, fresh, known);
    for (int again = 0; again < 2 && !rc; again++) { /* what is known stays so */
        rc = world_settle(rig->world, rig_step(rig, known));
        if (!rc)
            rc = world_settle(rig->world, compare_bits(rig, y));
    }
    if (!rc)
        rc = rig_check(rig, known, &worst);
    if (!rc)
        rc = know_others(rig, known);
    forget_reference(rig);
    if (!rc)
        rc = rig_check(rig, known, &worst);
    forget_reference(rig);
    exec_close(known);
    free(y);
    return rc;
}

static int run_plan(struct rig *rig, const struct moe_plan *plan, int64_t *dropped)
{
    struct exec *exec;
    int64_t now = 0;
    double worst;
    int rc;

    TRY(plan_check(plan, &rig->data.shape));
    TRY(rig_exec(rig, plan, &exec));
    rc = rig_check(rig, exec, &worst);
    if (!rc)
        rc = check_loss(rig, exec);
    if (!rc)
        rc = rig_dropped(rig, exec, &now);
    if (!rc && *dropped >= 0 && now != *dropped)
        rc = fail(ERR_WRONG, "%lld choices dropped, %lld under another plan", (long long)now,
                  (long long)*dropped);
    *dropped = rc ? *dropped : now;
    if (!rc && exec_supports_known_routes(&rig->data.shape, plan)) {
        rc = run_known(rig, plan, exec, plan->d % 2 ? ROUTES_ZERO : ROUTES_KEEP);
        all.known += !rc;
    }
    exec_close(exec);
    return rc;
}

static void run_plans(struct rig *rig)
{
    const struct moe_shape *shape = &rig->data.shape;
    struct moe_plan plans[PLANS_MAX];
    size_t n = plan_list(shape, plans, PLANS_MAX);
    int64_t dropped = -1;

    for (size_t i = 0; i < n; i++) {
        count(shape, &plans[i], run_plan(rig, &plans[i], &dropped));
        if (plans[i].r || plans[i].e == MOE_SPARSE)
            continue;
        plans[i].e = MOE_SPARSE;
        count(shape, &plans[i], run_plan(rig, &plans[i], &dropped));
    }
}

static void run_layer(const struct moe_shape *shape, uint64_t capacity, const double *balance)
{
    static const uint32_t uneven[RANKS_MAX] = { TOKENS, 0, 3, TOKENS - 1, 1, 0, 7, 11 };
    struct data data = { .shape = *shape, .seed = all.seed++, .balance = balance };
    struct rig *rig;
    int rc;

    all.engine.wire->topology.ranks_per_node = (int)shape->ranks_per_node;
    rc = shape_check(shape);
    if (!rc)
        rc = rig_open(all.world, &all.engine, &data, uneven, 1, &rig);
    if (rc) {
        count(shape, NULL, rc);
        return;
    }
    rig_set_capacity(rig, capacity);
    run_plans(rig);
    rig_close(rig);
}

/* E is a multiple of all W; "8/4": 8 groups, of which a token takes 4. */
static const struct router_case {
    uint32_t groups, limit, router, top_k, order, projection, combine;
} cases[] = {
    { 0, 0, MOE_ROUTER_SIGMOID, 3 },
    { 8, 4, MOE_ROUTER_SIGMOID, 4 },
    { 8, 3, MOE_ROUTER_SOFTMAX, 3 },
    { 8, 1, MOE_ROUTER_SOFTMAX, 1 },
    { 8, 2, MOE_ROUTER_SIGMOID, 1 },
    { 0, 1, MOE_ROUTER_BILEVEL, 1 },
    { 0, 0, MOE_ROUTER_SOFTMAX, 2, MOE_ORDER_PRIORITY },
    { 8, 3, MOE_ROUTER_SIGMOID, 2, MOE_ORDER_PRIORITY },
    { 0, 1, MOE_ROUTER_BILEVEL, 1, MOE_ORDER_PRIORITY },
    { 0, 0, MOE_ROUTER_COSINE, 2, MOE_ORDER_TOKEN, 7 },
    { 8, 2, MOE_ROUTER_COSINE, 1, MOE_ORDER_PRIORITY, 10 },
    { 0, 0, MOE_ROUTER_SOFTMAX, 3, MOE_ORDER_TOKEN, 0, MOE_COMBINE_CHOICES },
    { 0, 0, MOE_ROUTER_COSINE, 1, MOE_ORDER_PRIORITY, 4, MOE_COMBINE_CHOICES },
    { 0, 1, MOE_ROUTER_BILEVEL, 1, MOE_ORDER_TOKEN, 0, MOE_COMBINE_CHOICES },
};

static struct moe_shape shape_of(const struct router_case *c, uint32_t ranks, uint32_t per_node)
{
    struct moe_shape shape = { .struct_size = sizeof(shape),
                               .experts = 16,
                               .top_k = c->top_k,
                               .tokens = TOKENS,
                               .model_dim = 10,
                               .hidden_dim = 8,
                               .ranks = ranks,
                               .ranks_per_node = per_node,
                               .pass = MOE_TRAIN,
                               .groups =
                                   c->router == MOE_ROUTER_BILEVEL ? ranks / per_node : c->groups,
                               .group_limit = c->limit,
                               .router = c->router,
                               .order = c->order,
                               .projection = c->projection,
                               .combine = c->combine };

    return shape;
}

/* Few experts of many ranks each, which plans cut. */
static void run_few_experts(uint32_t ranks, uint32_t per_node)
{
    struct moe_shape shape = shape_of(&cases[0], ranks, per_node);
    static const double weights[2] = { 0.5, 0 };

    if (ranks % 2 || ranks < 4)
        return;
    shape.experts = shape.groups = shape.top_k = 2;
    shape.group_limit = 2;
    shape.hidden_dim = 4 * shape_slices(&shape);
    run_layer(&shape, 7, weights);
    shape.router = MOE_ROUTER_SOFTMAX;
    shape.top_k = shape.group_limit = 1;
    run_layer(&shape, 64, NULL);
}

/* Both passes, three types, and what a router has nothing to do with: the layout, several layers.
 */
static void run_case(const struct router_case *c, uint32_t ranks, uint32_t per_node, bool brief)
{
    uint32_t only = brief ? (uint32_t)(c - cases) % 3 : 0;
    static const double weights[2] = { 0.3, 0.7 };
    struct moe_shape shape = shape_of(c, ranks, per_node);

    for (uint32_t type = MOE_F32; type <= MOE_BF16; type++)
        for (uint32_t pass = brief ? MOE_TRAIN : MOE_FORWARD; pass <= MOE_TRAIN; pass++) {
            if (brief && type != only)
                continue;
            shape.activation = type == MOE_F16 ? MOE_GELU : MOE_RELU;
            shape.dtype = type;
            shape.pass = pass;
            run_layer(&shape, type == MOE_F32 ? 3 : 64, type == MOE_F16 ? NULL : weights);
        }
    if (brief)
        return;
    shape.dtype = MOE_F32;
    shape.activation = MOE_RELU;
    shape.layout = MOE_LAYOUT_HIDDEN;
    run_layer(&shape, 3, weights);
    shape.layers = 2;
    if (shape.combine == MOE_COMBINE_SUM)
        run_layer(&shape, 3, weights);
}

int main(int argc, char **argv)
{
    const char *seed = getenv("MOETUNE_TEST_SEED");
    bool brief = argc > 1 && !strcmp(argv[1], "--brief");
    uint32_t ranks;

    if (world_open(0, 0, &all.world))
        return 1;
    all.seed = seed ? strtoull(seed, NULL, 10) : 1;
    ranks = (uint32_t)world_topology(all.world)->ranks;
    if (engine_open(all.world, option(argc, argv, "--device", "host"),
                    option(argc, argv, "--wire", NULL), &all.engine))
        return 1;
    for (uint32_t m = ranks > 4 ? 2 : 1; m <= ranks && m <= 4; m *= 2) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
            if (cases[i].router != MOE_ROUTER_BILEVEL || ranks > m)
                run_case(&cases[i], ranks, m, brief);
        run_few_experts(ranks, m);
    }
    if (world_topology(all.world)->rank == 0)
        printf("  %d of them with known routes\n%d passed, %d failed\n", all.known, all.passed,
               all.failed);
    engine_close(&all.engine);
    world_close(all.world);
    return all.failed ? 1 : 0;
}
