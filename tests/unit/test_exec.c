/* Tests that every legal plan on real ranks gives what the plain reference gives; started by
 * mpirun. test_exec [--full] [--device host|cuda] [--wire NAME]
 *
 * Steps that can be graphs also run as graphs, with other data than was captured.
 * Each configuration (experts, k, capacity, tokens, nodes, pass, activation, type) is run under all
 * its plans.  --full runs every configuration; otherwise one for each number of experts, and a
 * seeded tenth of the rest. */
#include "baseline.h"
#include "library_wire.h"
#include "option.h"
#include "random.h"
#include "rig.h"
#include "shape.h"
#include "status.h"
#include "way.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS_MAX = 128, TOKENS = 20 };

struct setting {
    struct moe_shape shape;
    uint64_t capacity;
    bool uneven; /* tokens differ between ranks, some have none */
    bool graphs; /* plans are run as graphs too, where that can be, or with several counts */
};

static struct {
    struct world *world;
    struct engine engine;
    uint64_t seed;
    struct judge *other; /* of the data that a rig does not hold now */
    uint32_t plans;      /* of which baselines were asked for */
    int passed, failed;
} all;

static void say(const struct setting *s, const struct moe_plan *plan, const char *what)
{
    char name[PLAN_TEXT_BYTES] = "every plan";
    const struct moe_shape *p = &s->shape;

    if (plan)
        moe_plan_format(plan, name, sizeof(name));
    if (world_topology(all.world)->rank == 0)
        printf("  FAILED %s: W=%u m=%u E=%u k=%u c=%llu D=%u H=%u %s %s %s %s: %s\n", name,
               p->ranks, p->ranks_per_node, p->experts, p->top_k, (unsigned long long)s->capacity,
               p->model_dim, p->hidden_dim, dtype_words[p->dtype], pass_words[p->pass],
               activation_words[p->activation], s->uneven ? "uneven" : "even", what);
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

static void lay_out(const struct moe_shape *shape)
{
    struct topology *t = &all.engine.wire->topology;

    t->ranks_per_node = (int)shape->ranks_per_node;
    t->ranks_per_rack = (int)shape->ranks_per_rack;
}

static uint32_t tokens_of(const struct setting *s, uint32_t rank)
{
    static const uint32_t uneven[] = { TOKENS, 0, 3, TOKENS - 1, 1, 0, 7, 11 };

    return s->uneven ? uneven[rank % 8] : TOKENS;
}

/* Keeps y of the linear plan; the same plan under 2dh or 3dh must give the same bits.  Under rail a
 * token's results are summed by node first. */
static int same_bits(struct rig *rig, const struct moe_plan *plan, void **kept, size_t bytes)
{
    int rc = OK;

    if (plan->a == MOE_A2A_LINEAR) {
        rc = device_download(rig->engine->device, *kept, rig->y, bytes);
    } else if (plan->a != MOE_A2A_RAIL) {
        void *now = malloc(bytes + 1);

        rc = device_download(rig->engine->device, now, rig->y, bytes);
        if (!rc && memcmp(*kept, now, bytes))
            rc = fail(ERR_WRONG, "%s and linear differ", PLAN_TEXT(plan));
        free(now);
    }
    return world_settle(rig->world, rc);
}

/* Other weights, tokens and gradients; once more: those that it had. */
static int exchange_data(struct rig *rig)
{
    struct judge *other = all.other;
    int rc;

    all.other = rig->reference;
    rig->reference = other;
    rig->data.seed ^= 1;
    rc = data_fill_layer(&rig->data, rig->layer);
    if (!rc)
        rc = data_fill_rows(&rig->data, rig->layer, data_token, rig->x);
    if (!rc)
        rc = data_fill_rows(&rig->data, rig->layer, data_grad, rig->grad_y);
    return world_settle(rig->world, rc);
}

/* A graph is captured with some data, and replayed with other, then with that again. */
static int run_graph(struct rig *rig, struct exec *exec)
{
    struct graph *graph = NULL;
    double worst;
    int rc = rig_capture(rig, exec, &graph);

    exec->graph = graph;
    for (int i = 0; i < 2 && !rc; i++) {
        rc = exchange_data(rig);
        if (!rc)
            rc = rig_check(rig, exec, &worst);
    }
    exec->graph = NULL;
    graph_close(graph);
    /* Else another rank may still have this one's memory mapped when it is freed. */
    return wire_reclaim(all.engine.wire, all.engine.comm) ? ERR_WIRE : rc;
}

static bool can_capture(void)
{
    return device_has_graphs(all.engine.device) && all.engine.wire->ops->graphs;
}

/* Rows that one rank has for another: of each of its experts a share of those it keeps.  needed:
 * (W,E) choices. */
static uint64_t rows_to(const struct rig *rig, const struct moe_plan *plan, const int64_t *needed,
                        uint32_t from, uint32_t to)
{
    const struct moe_shape *s = &rig->data.shape;
    uint32_t slices = shape_slices(s), shares = slices / plan->r, share = to % slices % shares;
    uint64_t sum = 0;

    for (uint32_t l = 0; l < shape_local_experts(s); l++) {
        uint64_t e = to / slices * shape_local_experts(s) + l;
        uint64_t n = (uint64_t)needed[from * s->experts + e];

        n = n < rig->capacity ? n : rig->capacity;
        sum += n * (share + 1) / shares - n * share / shares;
    }
    return sum;
}

/* What a step sends besides rows, with linear: weights and their gradients, as the padded plan. */
static int bytes_beside_rows(struct rig *rig, struct moe_plan plan, uint64_t *out)
{
    const struct moe_shape *s = &rig->data.shape;
    uint64_t shares = shape_slices(s) / plan.r, unit = shares * plan.d;
    uint64_t C = (rig->capacity + unit - 1) / unit * unit, sent;
    uint64_t rows = C / shares * shape_local_experts(s) * (s->ranks - 1);
    struct exec *exec;
    int rc;

    plan.e = MOE_PADDED;
    TRY(rig_exec(rig, &plan, &exec));
    sent = rig->engine->wire->sent_bytes;
    rc = rig_step(rig, exec);
    exec_close(exec);
    *out = rig->engine->wire->sent_bytes - sent -
           layer_count(s) * (s->pass == MOE_TRAIN ? 4 : 2) * rows * s->model_dim *
               dtype_bytes(s->dtype);
    return rc;
}

/* Each byte is accounted for: counts, rows there and back, and what padded experts send besides. */
static int check_bytes(struct rig *rig, struct exec *exec, const struct moe_plan *plan,
                       uint64_t wanted)
{
    const struct moe_shape *s = &rig->data.shape;
    uint64_t sent, self = (uint64_t)world_topology(all.world)->rank, rows = 0;
    uint64_t counts = (uint64_t)(s->ranks - 1) * s->experts * sizeof(int64_t);
    int64_t *needed = calloc((size_t)s->ranks * s->experts, sizeof(*needed));
    int rc = needed ? OK : fail(ERR_NOMEM, "counts");

    sent = rig->engine->wire->sent_bytes;
    if (!rc)
        rc = rig_step(rig, exec);
    sent = rig->engine->wire->sent_bytes - sent;
    for (uint32_t i = 0; i < layer_count(s) && !rc; i++) {
        rc = device_download(rig->engine->device, needed + self * s->experts, exec[i].router.needed,
                             s->experts * sizeof(*needed));
        if (!rc)
            rc = world_gather(rig->world, needed + self * s->experts, needed,
                              s->experts * sizeof(*needed));
        for (uint32_t q = 0; q < s->ranks; q++)
            if (q != self)
                rows += rows_to(rig, plan, needed, (uint32_t)self, q) +
                        rows_to(rig, plan, needed, q, (uint32_t)self);
        wanted += counts;
    }
    wanted += rows * (s->pass == MOE_TRAIN ? 2 : 1) * s->model_dim * dtype_bytes(s->dtype);
    if (!rc && sent != wanted)
        rc = fail(ERR_WRONG, "%s sends %llu bytes, not %llu", PLAN_TEXT(plan),
                  (unsigned long long)sent, (unsigned long long)wanted);
    free(needed);
    return world_settle(rig->world, rc);
}

/* Other data have other counts; and a step of which one stream is silent, as those that are timed
 * alone, takes the counts of the step before. */
static int run_counted(struct rig *rig, struct exec *exec, const struct moe_plan *plan,
                       uint64_t beside_rows)
{
    struct engine *engine = rig->engine;
    double worst;

    for (int i = 0; i < 2; i++) {
        TRY(exchange_data(rig));
        TRY(rig_check(rig, exec, &worst));
    }
    engine->comm->muted = true;
    TRY(rig_step(rig, exec));
    engine->comm->muted = false;
    engine->compute->muted = true;
    TRY(rig_step(rig, exec));
    engine->compute->muted = false;
    TRY(rig_check(rig, exec, &worst));
    return plan->a == MOE_A2A_LINEAR ? check_bytes(rig, exec, plan, beside_rows) : OK;
}

static int run_plan(struct rig *rig, const struct moe_plan *plan, bool graphs, void **kept,
                    size_t bytes)
{
    uint64_t beside_rows = 0;
    struct exec *exec;
    double worst;
    int rc;

    TRY(plan_check(plan, &rig->data.shape));
    if (graphs && plan_is_counted(plan, &rig->data.shape))
        TRY(bytes_beside_rows(rig, *plan, &beside_rows));
    TRY(rig_exec(rig, plan, &exec));
    rc = rig_check(rig, exec, &worst);
    if (!rc)
        rc = same_bits(rig, plan, kept, bytes);
    if (!rc && graphs && exec->way->waits)
        rc = run_counted(rig, exec, plan, beside_rows);
    else if (!rc && graphs && can_capture())
        rc = run_graph(rig, exec);
    exec_close(exec);
    return rc;
}

/* What plan_list() leaves to those who ask for it, right after its plain twin. */
static void run_variants(const struct setting *s, struct rig *rig, struct moe_plan plan,
                         void **kept, size_t bytes)
{
    plan.ctas = 2;
    count(s, &plan, run_plan(rig, &plan, s->graphs, kept, bytes));
    plan.a = MOE_A2A_NCCL;
    if (wire_has(all.engine.wire, COLLECTIVE_ALL_TO_ALL, (struct group){ 0, (int)s->shape.ranks }))
        count(s, &plan, run_plan(rig, &plan, s->graphs, kept, bytes));
}

/* Blocks as small as these go together: here each goes by itself, to where its expert reads it. */
static void run_apart(const struct setting *s, struct rig *rig, const struct moe_plan *plan,
                      void **kept, size_t bytes)
{
    struct wire *wire = all.engine.wire;
    size_t usual = wire->separate_bytes;

    if (!usual || s->shape.experts <= s->shape.ranks)
        return;
    wire->separate_bytes = 1;
    count(s, plan, run_plan(rig, plan, s->graphs, kept, bytes));
    wire->separate_bytes = usual;
}

/* Its results, the memory that its account promised, and with naive alone each bit. */
static int run_baseline(const struct setting *s, struct rig *rig, const struct moe_plan *plan,
                        void **kept, size_t bytes)
{
    const struct capacities capacities = rig_capacities(rig);
    uint32_t type = device_compute_type(all.engine.device, s->shape.dtype);
    size_t most = exec_bytes(&s->shape, &rig->parts, plan, &all.engine.wire->topology, &capacities,
                             type, rig->baseline);
    struct exec *exec;
    double worst;
    int rc;

    TRY(rig_exec(rig, plan, &exec));
    rc = rig_check(rig, exec, &worst);
    if (!rc && rig->baseline == BASELINE_NAIVE)
        rc = same_bits(rig, plan, kept, bytes);
    if (!rc && s->graphs && can_capture())
        rc = run_graph(rig, exec);
    if (!rc && exec->memory_bytes > most)
        rc = fail(ERR_WRONG, "baseline %u takes %zu bytes, its account says %zu", rig->baseline,
                  exec->memory_bytes, most);
    exec_close(exec);
    return rc;
}

/* What other systems do must come to the same, one by one and all together: another one at every
 * plan, and where kernels are slow at every fourth. */
static void run_baselines(const struct setting *s, struct rig *rig, const struct moe_plan *plan,
                          void **kept, size_t bytes)
{
    const struct capacities capacities = rig_capacities(rig);
    uint32_t type = device_compute_type(all.engine.device, s->shape.dtype);
    uint32_t every = strcmp(all.engine.device->ops->name, "host") ? 4 : 1;

    if (all.plans++ % every)
        return;
    for (uint32_t i = 0; i < 7 && !rig->baseline; i++) {
        uint32_t baseline = 1 + (all.plans / every + i) % 7;

        if (!baseline_refuses(baseline, &s->shape, plan, &capacities, type))
            rig->baseline = baseline;
    }
    if (rig->baseline)
        count(s, plan, run_baseline(s, rig, plan, kept, bytes));
    rig->baseline = 0;
}

static void run_setting(const struct setting *s, uint64_t seed)
{
    struct data data = { .shape = s->shape, .seed = seed };
    struct moe_plan plans[PLANS_MAX];
    size_t n = plan_list(&s->shape, plans, PLANS_MAX), group = 0; /* of plans alike but in a */
    uint32_t tokens[8], blocks = all.engine.device->block_rows;
    struct rig *rig;
    void *kept, *kept_sparse;
    size_t bytes;
    int rc;

    if (blocks) /* as usual, all rows at once, or as few in a block as there may be */
        all.engine.device->block_rows =
            (uint32_t[]){ blocks, 0, 1, 1 }[random_bits(seed, s->capacity) % 4];
    for (uint32_t q = 0; q < s->shape.ranks; q++)
        tokens[q] = tokens_of(s, q);
    lay_out(&s->shape);
    rc = rig_open(all.world, &all.engine, &data, tokens, 1, &rig);
    if (rc) {
        count(s, NULL, rc);
        return;
    }
    rig->capacity = s->capacity;
    if (s->graphs) /* other tokens will go other ways */
        rig->layer->node_need = 0;
    bytes = (size_t)rig->layer->tokens * s->shape.model_dim * dtype_bytes(s->shape.dtype);
    kept = malloc(bytes + 1);
    kept_sparse = malloc(bytes + 1);
    for (size_t i = 0; i < n; i++) {
        struct moe_plan sparse = plans[i];

        group += plans[i].a == MOE_A2A_LINEAR;
        count(s, &plans[i], run_plan(rig, &plans[i], s->graphs, &kept, bytes));
        sparse.e = MOE_SPARSE;
        /* With r = 0 there is one; of the others a third, but where few ranks look more closely. */
        if (plan_legal(&sparse, &s->shape) &&
            (!sparse.r || (s->graphs && s->shape.ranks <= 4) || group % 3 == seed % 3)) {
            count(s, &sparse, run_plan(rig, &sparse, s->graphs, &kept_sparse, bytes));
            if (sparse.r && sparse.a == MOE_A2A_LINEAR)
                run_apart(s, rig, &sparse, &kept_sparse, bytes);
        }
        run_baselines(s, rig, &plans[i], &kept, bytes);
        if (plans[i].r && plans[i].a == MOE_A2A_LINEAR)
            run_apart(s, rig, &plans[i], &kept, bytes);
        if (plans[i].r && plans[i].d == 2 && plans[i].a == MOE_A2A_LINEAR)
            run_variants(s, rig, plans[i], &kept, bytes);
    }
    free(kept);
    free(kept_sparse);
    judge_close(all.other);
    all.other = NULL;
    rig_close(rig);
    all.engine.device->block_rows = blocks;
}

/* The smallest racks that these nodes can form; 0: none. */
static uint32_t rack_of(uint32_t ranks, uint32_t m)
{
    return m > 1 && ranks > 2 * m && ranks % (2 * m) == 0 ? 2 * m : 0;
}

/* The setting of each number of experts that always runs: drops, padding, two levels if any. */
static struct setting first_setting(uint32_t ranks, uint32_t experts)
{
    struct setting s = { .capacity = 7, .uneven = true };

    s.shape = (struct moe_shape){ .struct_size = sizeof(s.shape),
                                  .experts = experts,
                                  .top_k = experts > 1 ? 2 : 1,
                                  .model_dim = 10,
                                  .ranks = ranks,
                                  .ranks_per_node = ranks % 2 ? 1 : 2,
                                  .ranks_per_rack = rack_of(ranks, ranks % 2 ? 1 : 2),
                                  .pass = MOE_TRAIN,
                                  .activation = MOE_RELU };
    s.shape.hidden_dim = 4 * shape_slices(&s.shape);
    return s;
}

static void run_experts(uint32_t ranks, uint32_t experts, bool full)
{
    static const uint64_t capacities[] = { 0, 1, 7, 64, 130 };
    struct setting s = first_setting(ranks, experts);
    uint64_t number = 0;

    s.graphs = true;
    run_setting(&s, all.seed);
    s.shape.layers = 3;
    run_setting(&s, all.seed);
    s.graphs = full;
    for (uint32_t k = 1; k <= 3 && k <= experts; k++)
        for (int c = 0; c < 5; c++)
            for (uint32_t m = 1; m <= 4; m *= 2)
                for (uint32_t choice = 0; choice < 8; choice++) {
                    uint64_t bits = random_bits(all.seed, number++ * 64 + experts);

                    if (m > ranks || ranks % m || (!full && bits % (ranks > 4 ? 40 : 10)))
                        continue;
                    s.shape.top_k = k;
                    s.shape.ranks_per_node = m;
                    s.shape.ranks_per_rack = rack_of(ranks, m);
                    s.shape.pass = choice & 1 ? MOE_TRAIN : MOE_FORWARD;
                    s.shape.activation =
                        choice & 2 ? MOE_SWIGLU : ((bits >> 8) & 1 ? MOE_GELU : MOE_RELU);
                    s.shape.dtype = (bits >> 16) % 4 == 0 ? 1 + (bits >> 20) % 2 : MOE_F32;
                    s.uneven = choice & 4;
                    s.capacity = capacities[c];
                    s.shape.layers = (bits >> 24) % 4;
                    run_setting(&s, bits);
                }
}

/* Every plan again where the wire gathers and sums by itself: f32, and 16 bits, of which it rounds
 * every partial sum. */
static int run_on_library(uint32_t ranks)
{
    static const uint32_t types[] = { MOE_F32, MOE_BF16, MOE_F16 };
    struct engine plain = all.engine;
    struct device *device = NULL;
    struct wire *inner = NULL, *wire = NULL;
    int sums = 0, most = 0;

    TRY(device_open("host", &device));
    TRY(wire_open(NULL, all.world, device, &inner));
    TRY(library_wire_open(inner, &wire));
    TRY(engine_open_on(device, wire, &all.engine));
    for (int i = 0; i < 3; i++) {
        struct setting s = first_setting(ranks, 1);

        s.shape.dtype = types[i];
        s.shape.activation = MOE_SWIGLU;
        run_setting(&s, all.seed);
        sums = most;
        most = library_wire_calls(wire, COLLECTIVE_SUM);
        if ((most > sums) != (ranks > 1))
            count(&s, NULL, fail(ERR_WRONG, "%d sums of %s", most - sums, dtype_words[types[i]]));
    }
    if (!library_wire_withdrew(wire))
        count(&(struct setting){ .shape = { .ranks = ranks } }, NULL,
              fail(ERR_WRONG, "memory is released that other ranks may have open"));
    engine_close(&all.engine);
    all.engine = plain;
    return OK;
}

/* The capacity rules, agreed over ranks that hold different numbers of tokens. */
static void run_capacity_rules(uint32_t ranks)
{
    static const double factors[] = { 1.0, 0.5, 0.0, -0.25, -8.0 };

    for (int i = 0; i < 5; i++) {
        struct setting s = first_setting(ranks, ranks);
        struct data data = { .shape = s.shape, .seed = all.seed + (uint64_t)i };
        struct moe_plan plan = plan_default(NULL);
        uint32_t tokens[8];
        struct rig *rig;
        struct exec *exec;
        int64_t dropped = -1;
        double worst;
        int rc;

        for (uint32_t q = 0; q < ranks; q++)
            tokens[q] = tokens_of(&s, q);
        lay_out(&s.shape);
        rc = rig_open(all.world, &all.engine, &data, tokens, factors[i], &rig);
        if (rc) {
            count(&s, NULL, rc);
            continue;
        }
        s.capacity = rig->capacity;
        rc = rig_exec(rig, &plan, &exec);
        if (!rc) {
            rc = rig_check(rig, exec, &worst);
            if (!rc)
                rc = rig_dropped(rig, exec, &dropped);
            exec_close(exec);
        }
        /* What is needed is neither less nor more: nothing drops, and one row less would drop. */
        if (!rc && factors[i] == 0 && dropped != 0)
            rc = ERR_WRONG;
        if (!rc && factors[i] == -8.0 && dropped != 0)
            rc = ERR_WRONG;
        if (!rc && factors[i] > 0 &&
            s.capacity != s.shape.top_k * (uint64_t)(factors[i] * ((TOKENS + ranks - 1) / ranks)))
            rc = ERR_WRONG;
        count(&s, &plan, rc);
        rig_close(rig);
    }
}

/* W1 = W2 = [I; -I] and no biases. */
static int set_identity(struct rig *rig)
{
    const struct moe_shape *p = &rig->data.shape;
    size_t elements = (size_t)p->hidden_dim * p->model_dim;
    float *weights = calloc(elements, sizeof(*weights));
    struct device *device = rig->engine->device;
    float **slice = (float **)rig->layer->slice;
    int rc = OK;

    for (uint32_t h = 0; h < p->hidden_dim; h++)
        weights[h * p->model_dim + h % p->model_dim] = h < p->model_dim ? 1 : -1;
    rc = device_upload(device, slice[TENSOR_W1], weights, elements * sizeof(*weights));
    if (!rc)
        rc = device_upload(device, slice[TENSOR_W2], weights, elements * sizeof(*weights));
    memset(weights, 0, elements * sizeof(*weights));
    if (!rc)
        rc = device_upload(device, slice[TENSOR_B1], weights, p->hidden_dim * sizeof(*weights));
    if (!rc)
        rc = device_upload(device, slice[TENSOR_B2], weights, p->model_dim * sizeof(*weights));
    free(weights);
    return rc;
}

/* y is x times the kept gates. */
static int check_identity(struct rig *rig, const struct exec *exec)
{
    uint64_t tokens = rig->layer->tokens, d = rig->data.shape.model_dim, k = rig->data.shape.top_k;
    struct device *device = rig->engine->device;
    float *x = calloc(tokens * d + 1, sizeof(*x)), *y = calloc(tokens * d + 1, sizeof(*y));
    float *gate = calloc(tokens * k + 1, sizeof(*gate));
    int rc = device_download(device, x, rig->x, tokens * d * sizeof(*x));

    if (!rc)
        rc = device_download(device, y, rig->y, tokens * d * sizeof(*y));
    if (!rc)
        rc = device_download(device, gate, exec->router.gate, tokens * k * sizeof(*gate));
    for (uint64_t at = 0; at < tokens * d && !rc; at++) {
        float gates = 0, off;

        for (uint64_t j = 0; j < k; j++)
            gates += gate[at / d * k + j];
        off = y[at] - gates * x[at];
        rc = off > 1e-5f || off < -1e-5f ? ERR_WRONG : OK;
    }
    free(x), free(y), free(gate);
    return rc;
}

/* Experts that give back what they get: relu(x) - relu(-x) = x, so y must be x times the kept gates
 * (their sum is 1 when nothing drops and k > 1). */
static void run_identity(uint32_t ranks)
{
    struct setting s = first_setting(ranks, ranks);
    struct data data = { .shape = s.shape, .seed = all.seed };
    struct moe_plan plans[PLANS_MAX];
    uint32_t tokens[8];
    struct rig *rig;
    size_t n;
    int rc;

    s.capacity = 64;
    data.shape.hidden_dim = s.shape.hidden_dim = 2 * s.shape.model_dim;
    for (uint32_t q = 0; q < ranks; q++)
        tokens[q] = tokens_of(&s, q);
    rc = rig_open(all.world, &all.engine, &data, tokens, 1, &rig);
    if (!rc)
        rc = world_settle(all.world, set_identity(rig));
    if (rc) {
        count(&s, NULL, rc);
        return;
    }
    rig->capacity = s.capacity;
    n = plan_list(&s.shape, plans, PLANS_MAX);
    for (size_t i = 0; i < n; i++) {
        struct exec *exec;

        rc = rig_exec(rig, &plans[i], &exec);
        if (!rc) {
            rc = world_settle(all.world, rig_step(rig, exec));
            if (!rc)
                rc = world_settle(all.world, check_identity(rig, exec));
            exec_close(exec);
        }
        count(&s, &plans[i], rc);
    }
    rig_close(rig);
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && !strcmp(argv[1], "--full");
    const char *seed = getenv("MOETUNE_TEST_SEED");
    uint32_t ranks;

    if (world_open(0, 0, &all.world))
        return 1;
    all.seed = seed ? strtoull(seed, NULL, 10) : 1;
    ranks = (uint32_t)world_topology(all.world)->ranks;
    if (engine_open(all.world, option(argc, argv, "--device", "host"),
                    option(argc, argv, "--wire", NULL), &all.engine))
        return 1;
    for (uint32_t e = 1; e <= 2 * ranks; e++)
        if (e <= ranks ? ranks % e == 0 : e % ranks == 0)
            run_experts(ranks, e, full);
    run_capacity_rules(ranks);
    run_identity(ranks);
    if (!strcmp(all.engine.device->ops->name, "host") && run_on_library(ranks))
        return 1;
    if (world_topology(all.world)->rank == 0)
        printf("%d passed, %d failed\n", all.passed, all.failed);
    engine_close(&all.engine);
    world_close(all.world);
    return all.failed ? 1 : 0;
}
