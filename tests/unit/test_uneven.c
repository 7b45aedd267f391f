/* Tests experts with different capacities, on real ranks; started by mpirun.  Every plan gives what
 * the plain reference gives, forward and backward, and sends the bytes of the formula.  Equal
 * capacities give the same bits as one capacity, also by the kernels and tables for unequal ones.
 *     test_uneven [--device host|cuda] [--wire NAME] [--rounds N, settings for each number of
 * experts]
 */
#include "option.h"
#include "random.h"
#include "rig.h"
#include "shape.h"
#include "status.h"
#include "way.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS_MAX = 128, EXPERTS_MOST = 32, TOKENS = 20 };

struct setting {
    struct moe_shape shape;
    uint64_t rows[EXPERTS_MOST];
    uint64_t seed;
    bool ranks_differ; /* in their tokens: some have none */
};

static struct {
    struct world *world;
    struct engine engine;
    bool blocks; /* the device takes rows in blocks */
    int ranks, rank;
    uint64_t seed;
    int passed, failed;
} all;

static void say(const struct setting *s, const struct moe_plan *plan, const char *what)
{
    const struct moe_shape *p = &s->shape;

    if (all.rank)
        return;
    printf("  FAILED %s: W=%u m=%u E=%u k=%u D=%u H=%u %s %s %s L=%u, capacities",
           plan ? PLAN_TEXT(plan) : "every plan", p->ranks, p->ranks_per_node, p->experts, p->top_k,
           p->model_dim, p->hidden_dim, dtype_words[p->dtype], pass_words[p->pass],
           activation_words[p->activation], p->layers);
    for (uint32_t e = 0; e < p->experts; e++)
        printf(" %llu", (unsigned long long)s->rows[e]);
    printf(": %s\n", what);
}

static void count(const struct setting *s, const struct moe_plan *plan, int rc)
{
    if (rc) {
        all.failed++;
        say(s, plan, status_word(rc));
    } else {
        all.passed++;
    }
}

/* ---- Bytes, by the formulas */

static uint64_t sizes(const struct setting *s)
{
    return s->shape.model_dim * dtype_bytes(s->shape.dtype);
}

/* What a rank gets from each other in one trip: a share of the rows of each of its experts. */
static uint64_t rows_to(const struct setting *s, const struct moe_plan *plan, int rank)
{
    uint32_t slices = shape_slices(&s->shape), local = shape_local_experts(&s->shape);
    uint64_t shares = slices / plan->r, unit = shares * plan->d, sum = 0;

    for (uint32_t e = 0; e < local; e++)
        sum += (s->rows[(uint32_t)rank / slices * local + e] + unit - 1) / unit * plan->d;
    return sum;
}

static uint64_t linear_rows(const struct setting *s, const struct moe_plan *plan)
{
    uint64_t rows = 0;

    for (int q = 0; q < all.ranks; q++)
        if (q != all.rank)
            rows += rows_to(s, plan, q) + rows_to(s, plan, all.rank);
    return rows;
}

/* Inside the node for all nodes, then between nodes for all places; there and back. */
static uint64_t hierarchical_rows(const struct setting *s, const struct moe_plan *plan)
{
    int m = (int)s->shape.ranks_per_node, n = all.ranks / m, node = all.rank / m;
    int place = all.rank % m;
    uint64_t rows = 0;

    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            if (j != place)
                rows += rows_to(s, plan, i * m + j) + rows_to(s, plan, all.rank);
            if (i != node)
                rows += rows_to(s, plan, i * m + place) + rows_to(s, plan, node * m + j);
        }
    return rows;
}

/* But for weights, which travel with any capacity. */
static int check_bytes(const struct setting *s, const struct moe_plan *plan, uint64_t sent)
{
    uint64_t ways = s->shape.pass == MOE_TRAIN ? 2 : 1, rows = 0;

    if (plan->r && plan->a == MOE_A2A_LINEAR)
        rows = linear_rows(s, plan);
    if (plan->r && plan->a == MOE_A2A_2DH)
        rows = hierarchical_rows(s, plan);
    rows *= ways * sizes(s) * (s->shape.layers ? s->shape.layers : 1);
    if (sent == rows)
        return OK;
    return fail(ERR_WRONG, "%llu bytes of rows sent, should be %llu", (unsigned long long)sent,
                (unsigned long long)rows);
}

/* ---- One plan */

/* Where steps can be graphs: what was captured gives the same results. */
static int run_graph(struct rig *rig, struct exec *exec)
{
    double worst;
    int rc;

    if (!device_has_graphs(all.engine.device) || !all.engine.wire->ops->graphs)
        return OK;
    TRY(rig_capture(rig, exec, &exec->graph));
    rc = rig_check(rig, exec, &worst);
    graph_close(exec->graph);
    exec->graph = NULL;
    /* Else another rank may still have this one's memory mapped when it is freed. */
    return wire_reclaim(all.engine.wire, all.engine.comm) ? ERR_WIRE : rc;
}

/* What was asked of the account before is as much as was taken, or more. */
static int check_memory(const struct rig *rig, const struct exec *exec)
{
    const struct moe_shape *s = &rig->data.shape;
    const struct capacities capacities = rig_capacities(rig);
    size_t asked = exec_bytes(s, &rig->parts, &exec->plan, &all.engine.wire->topology, &capacities,
                              device_compute_type(all.engine.device, s->dtype), 0);

    return exec->memory_bytes <= asked
               ? OK
               : fail(ERR_WRONG, "%zu bytes taken, accounted are %zu", exec->memory_bytes, asked);
}

static int run_step(struct rig *rig, const struct moe_plan *plan, bool check, uint64_t *sent)
{
    struct exec *exec;
    double worst;
    uint64_t before;
    int rc;

    TRY(rig_exec(rig, plan, &exec));
    before = all.engine.wire->sent_bytes;
    rc = check ? rig_check(rig, exec, &worst) : world_settle(all.world, rig_step(rig, exec));
    *sent = all.engine.wire->sent_bytes - before;
    if (!rc)
        rc = world_settle(all.world, check_memory(rig, exec));
    if (!rc && check && !exec->way->waits)
        rc = run_graph(rig, exec);
    exec_close(exec);
    return rc;
}

static size_t y_bytes(const struct rig *rig)
{
    return (size_t)rig->layer->tokens * rig->data.shape.model_dim *
           dtype_bytes(rig->data.shape.dtype);
}

/* linear keeps y; 2dh must give the same bits. */
static int same_bits(struct rig *rig, const struct moe_plan *plan, void *kept)
{
    void *now = malloc(y_bytes(rig) + 1);
    int rc = now ? OK : fail(ERR_NOMEM, "a result");

    if (!rc)
        rc = device_download(rig->engine->device, plan->a == MOE_A2A_LINEAR ? kept : now, rig->y,
                             y_bytes(rig));
    if (!rc && plan->a == MOE_A2A_2DH && memcmp(kept, now, y_bytes(rig)))
        rc = fail(ERR_WRONG, "2dh and linear differ");
    free(now);
    return world_settle(all.world, rc);
}

/* Of the plan where no token goes anywhere. */
static int weights_alone(struct rig *rig, const struct setting *s, const struct moe_plan *plan,
                         uint64_t *bytes)
{
    TRY(rig_set_capacities(rig, (uint64_t[EXPERTS_MOST]){ 0 }));
    TRY(run_step(rig, plan, false, bytes));
    return rig_set_capacities(rig, s->rows);
}

/* As many rows as there are: how many bytes these make is checked in test_exec. */
static void run_sparse(const struct setting *s, struct rig *rig, struct moe_plan plan, void *kept)
{
    uint64_t sent;
    int rc;

    plan.e = MOE_SPARSE;
    if (!plan_legal(&plan, &s->shape))
        return;
    rc = run_step(rig, &plan, true, &sent);
    if (!rc && plan.r)
        rc = same_bits(rig, &plan, kept);
    count(s, &plan, rc);
}

static void run_plan(const struct setting *s, struct rig *rig, const struct moe_plan *plan,
                     void *kept)
{
    uint64_t sent = 0, weights = 0;
    int rc = plan->a == MOE_A2A_RAIL ? OK : weights_alone(rig, s, plan, &weights);

    if (!rc)
        rc = run_step(rig, plan, true, &sent);
    if (!rc && plan->a != MOE_A2A_RAIL)
        rc = world_settle(all.world, check_bytes(s, plan, sent - weights));
    if (!rc)
        rc = same_bits(rig, plan, kept);
    count(s, plan, rc);
}

/* Blocks as small as these go together: here each goes by itself, to where its expert reads it. */
static void run_apart(const struct setting *s, struct rig *rig, const struct moe_plan *plan,
                      void *kept)
{
    struct wire *wire = all.engine.wire;
    size_t usual = wire->separate_bytes;

    if (!usual || s->shape.experts <= s->shape.ranks)
        return;
    wire->separate_bytes = 1;
    run_plan(s, rig, plan, kept);
    wire->separate_bytes = usual;
}

static int open_rig(const struct setting *s, struct rig **out)
{
    static const uint32_t some[] = { TOKENS, 0, 3, TOKENS - 1 };
    struct data data = { .shape = s->shape, .seed = s->seed };
    uint32_t tokens[8];

    for (int q = 0; q < all.ranks; q++)
        tokens[q] = s->ranks_differ ? some[q % 4] : TOKENS;
    all.engine.wire->topology.ranks_per_node = (int)s->shape.ranks_per_node;
    /* All rows at once, as few in a block as there may be, an expert's rows in one block. */
    if (all.blocks)
        all.engine.device->block_rows = (uint32_t[]){ 0, 1, UINT32_MAX }[s->seed % 3];
    return rig_open(all.world, &all.engine, &data, tokens, 1, out);
}

static void run_setting(const struct setting *s)
{
    struct moe_plan plans[PLANS_MAX];
    size_t n = plan_list(&s->shape, plans, PLANS_MAX);
    struct rig *rig;
    void *kept, *kept_sparse;
    int rc = open_rig(s, &rig);

    if (rc) {
        count(s, NULL, rc);
        return;
    }
    count(s, NULL, rig_set_capacities(rig, s->rows));
    kept = malloc(y_bytes(rig) + 1);
    kept_sparse = malloc(y_bytes(rig) + 1);
    for (size_t i = 0; i < n; i++) {
        run_plan(s, rig, &plans[i], kept);
        if (plans[i].r && plans[i].a == MOE_A2A_LINEAR)
            run_apart(s, rig, &plans[i], kept);
        run_sparse(s, rig, plans[i], kept_sparse);
    }
    free(kept);
    free(kept_sparse);
    rig_close(rig);
}

/* ---- Which settings */

/* Some have no rows, some more than there are tokens for; of the patterns one leaves a whole rank
 * without rows, one all ranks but one, and one is of experts that have next to nothing. */
static void draw_rows(struct setting *s, uint64_t pattern)
{
    uint32_t experts = s->shape.experts, local = shape_local_experts(&s->shape);

    for (uint32_t e = 0; e < experts; e++) {
        uint64_t bits = random_bits(s->seed + 7, e);

        s->rows[e] = bits % 4 ? (bits >> 8) % (2 * TOKENS) : (bits >> 8) % 2;
        if (pattern == 1 && e < local)
            s->rows[e] = 0;
        if (pattern == 2 && e >= local)
            s->rows[e] = 0;
        if (pattern == 3)
            s->rows[e] = (bits >> 8) % 3;
    }
    s->rows[experts - 1] += pattern == 1; /* they differ in any case */
    s->rows[0] += pattern == 2;
}

static struct setting first_setting(uint32_t experts)
{
    struct setting s = { .seed = all.seed, .ranks_differ = true };

    s.shape = (struct moe_shape){ .struct_size = sizeof(s.shape),
                                  .experts = experts,
                                  .top_k = experts > 1 ? 2 : 1,
                                  .model_dim = 10,
                                  .ranks = (uint32_t)all.ranks,
                                  .ranks_per_node = all.ranks % 2 ? 1 : 2,
                                  .pass = MOE_TRAIN,
                                  .activation = MOE_RELU };
    s.shape.hidden_dim = 4 * shape_slices(&s.shape);
    return s;
}

static void run_experts(uint32_t experts, uint64_t rounds)
{
    for (uint64_t i = 0; i < rounds; i++) {
        struct setting s = first_setting(experts);
        uint64_t bits = random_bits(all.seed, (uint64_t)experts << 32 | i);

        s.seed += i;
        s.ranks_differ = i % 2 == 0;
        s.shape.top_k = 1 + (uint32_t)(bits % (experts < 3 ? experts : 3));
        s.shape.ranks_per_node = (bits >> 8) % 4 ? s.shape.ranks_per_node : 1;
        s.shape.pass = i % 4 == 3 ? MOE_FORWARD : MOE_TRAIN;
        s.shape.activation = (uint32_t)(i % 3);
        /* Where nearly all is dropped, what is left of a gradient may be the difference of two
         * rows, which 16 bits round further than it is large. */
        s.shape.dtype = i % 2 ? MOE_F32 : (uint32_t)(i / 2 % 3);
        s.shape.layers = (bits >> 24) % 3 ? 0 : 2;
        draw_rows(&s, i % 2 ? 1 + i / 2 % 3 : 0);
        run_setting(&s);
    }
}

/* ---- Equal ones */

static int gradient_bits(struct rig *rig, void *to)
{
    uint64_t elements = layer_units(&rig->data.shape, rig->layer->hidden, TENSOR_W1);

    return device_download(rig->engine->device, to, rig->layer->grad[TENSOR_W1],
                           elements * dtype_bytes(rig->data.shape.dtype));
}

struct result {
    void *y, *grad_x, *grad;
    uint64_t sent;
};

static void result_free(struct result *r)
{
    free(r->y), free(r->grad_x), free(r->grad);
    *r = (struct result){ 0 };
}

static int result_of(struct rig *rig, const struct moe_plan *plan, struct result *r)
{
    size_t weights = layer_units(&rig->data.shape, rig->layer->hidden, TENSOR_W1) * 4;
    struct device *device = rig->engine->device;

    *r = (struct result){ malloc(y_bytes(rig) + 1), malloc(y_bytes(rig) + 1), malloc(weights + 1),
                          0 };
    TRY(run_step(rig, plan, false, &r->sent));
    TRY(device_download(device, r->y, rig->y, y_bytes(rig)));
    TRY(device_download(device, r->grad_x, rig->grad_x, y_bytes(rig)));
    return gradient_bits(rig, r->grad);
}

static int compare_results(const struct rig *rig, const struct result *a, const struct result *b)
{
    size_t weights = layer_units(&rig->data.shape, rig->layer->hidden, TENSOR_W1) *
                     dtype_bytes(rig->data.shape.dtype);

    if (a->sent != b->sent || memcmp(a->y, b->y, y_bytes(rig)) ||
        memcmp(a->grad_x, b->grad_x, y_bytes(rig)) || memcmp(a->grad, b->grad, weights))
        return fail(ERR_WRONG, "equal capacities are not one capacity");
    return OK;
}

/* As one number, as E numbers, and as E numbers that nobody finds to be equal. */
static int run_equal(struct rig *rig, const struct setting *s, const struct moe_plan *plan)
{
    struct result want = { 0 }, got[2] = { { 0 } };
    int rc;

    rig_set_capacity(rig, s->rows[0]);
    rc = result_of(rig, plan, &want);
    if (!rc)
        rc = rig_set_capacities(rig, s->rows);
    if (!rc && rig->capacities)
        rc = fail(ERR_WRONG, "equal capacities are taken for unequal ones");
    if (!rc)
        rc = result_of(rig, plan, &got[0]);
    rig->capacities = calloc(s->shape.experts, sizeof(*rig->capacities));
    memcpy(rig->capacities, s->rows, s->shape.experts * sizeof(*rig->capacities));
    if (!rc)
        rc = result_of(rig, plan, &got[1]);
    rig_set_capacity(rig, 0);
    for (int i = 0; i < 2; i++) {
        if (!rc)
            rc = compare_results(rig, &want, &got[i]);
        result_free(&got[i]);
    }
    result_free(&want);
    return world_settle(all.world, rc);
}

static void run_equals(uint32_t experts)
{
    struct setting s = first_setting(experts);
    struct moe_plan plans[PLANS_MAX];
    size_t n = plan_list(&s.shape, plans, PLANS_MAX);
    struct rig *rig;
    int rc;

    for (uint32_t e = 0; e < experts; e++)
        s.rows[e] = 7;
    s.shape.dtype = experts % 3;
    s.shape.activation = MOE_SWIGLU;
    rc = open_rig(&s, &rig);
    if (rc) {
        count(&s, NULL, rc);
        return;
    }
    for (size_t i = 0; i < n; i++)
        count(&s, &plans[i], run_equal(rig, &s, &plans[i]));
    rig_close(rig);
}

/* ---- What does not apply */

static void run_library(void)
{
    struct setting s = first_setting((uint32_t)all.ranks);
    struct moe_plan plan = plan_default(&s.shape);
    struct exec *exec = NULL;
    struct rig *rig;
    int rc;

    if (all.ranks == 1) /* where nothing travels, any all-to-all does */
        return;
    draw_rows(&s, 0);
    s.rows[0] = s.rows[1] + 1;
    plan.a = MOE_A2A_NCCL;
    if (open_rig(&s, &rig))
        return;
    rc = rig_set_capacities(rig, s.rows);
    if (!rc && rig_exec(rig, &plan, &exec) != UNSUPPORTED)
        rc = fail(ERR_WRONG, "a=nccl takes rows that differ");
    exec_close(exec);
    count(&s, &plan, rc);
    rig_close(rig);
}

int main(int argc, char **argv)
{
    uint64_t rounds = strtoull(option(argc, argv, "--rounds", "8"), NULL, 10);
    const char *seed = getenv("MOETUNE_TEST_SEED");

    if (world_open(0, 0, &all.world))
        return 1;
    all.seed = seed ? strtoull(seed, NULL, 10) : 1;
    all.ranks = world_topology(all.world)->ranks;
    all.rank = world_topology(all.world)->rank;
    if (engine_open(all.world, option(argc, argv, "--device", "host"),
                    option(argc, argv, "--wire", NULL), &all.engine))
        return 1;
    all.blocks = all.engine.device->block_rows > 0;
    for (uint32_t e = 2; e <= 4 * (uint32_t)all.ranks; e++) {
        bool legal =
            e <= (uint32_t)all.ranks ? all.ranks % (int)e == 0 : e % (uint32_t)all.ranks == 0;

        if (!legal)
            continue;
        run_experts(e, rounds);
        run_equals(e);
    }
    run_library();
    if (!all.rank)
        printf("%d passed, %d failed\n", all.passed, all.failed);
    engine_close(&all.engine);
    world_close(all.world);
    return all.failed ? 1 : 0;
}
