/* Measures what experts with different numbers of rows save under a skewed load, by turns in one
 * run:
 * - capacities that were agreed, the counts of the load, beside steps in which all have the largest
 *   one, and beside those in which all have the capacity by which a table answers;
 * - rows without padding (e=sparse), beside padded steps that drop nothing either; and, of real
 *   ranks, steps whose counts change each time beside steps whose counts stay.
 *
 *     bench_uneven                   on real ranks, started by mpirun
 *     bench_uneven CLUSTER.txt...    on modelled ones */
#include "capacities.h"
#include "cluster.h"
#include "load.h"
#include "model_engine.h"
#include "runner.h"
#include "stats.h"
#include "status.h"
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { E = 32, ROUNDS = 15, PLANS = 3 };
enum { UNEVEN, LARGEST, KEY, COUNTED, WAYS };

static struct moe_shape shape_on(uint32_t ranks, uint32_t per_node, bool modelled)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = E,
                               .top_k = 2,
                               .tokens = modelled ? 8192 : 2048,
                               .model_dim = modelled ? 1024 : 256,
                               .hidden_dim = modelled ? 4096 : 512,
                               .ranks = ranks,
                               .ranks_per_node = per_node,
                               .dtype = modelled ? MOE_BF16 : MOE_F32,
                               .pass = MOE_TRAIN,
                               .activation = MOE_RELU };
}

/* What each expert is chosen for: nothing is dropped. */
static struct capacities needed_by(const struct load *load, uint64_t rows[E])
{
    for (uint32_t e = 0; e < E; e++)
        rows[e] = load_count(load, 0, 0, e);
    return capacities_of(rows, E);
}

static int open_way(struct rig *rig, struct moe_plan plan, const struct capacities *c, int way,
                    struct runner *out)
{
    if (way == UNEVEN)
        TRY(rig_set_capacities(rig, c->rows));
    else
        rig_set_capacity(rig, way == KEY ? capacities_key(c, &rig->data.shape) : c->most);
    plan.e = way == COUNTED ? MOE_SPARSE : MOE_PADDED;
    TRY(runner_open(rig, &plan, out));
    return runner_warm(out, 2);
}

/* Within a round each. */
static struct spread ratios(int64_t ns[WAYS][ROUNDS], int of, int to)
{
    int64_t ratio[ROUNDS];

    for (int i = 0; i < ROUNDS; i++)
        ratio[i] = llround(1e6 * (double)ns[of][i] / (double)ns[to][i]);
    return spread_of(ratio, ROUNDS);
}

static void print(const struct rig *rig, const struct capacities *c, const struct moe_plan *plan,
                  int64_t ns[WAYS][ROUNDS])
{
    const struct moe_shape *s = &rig->data.shape;
    struct spread step = ratios(ns, UNEVEN, LARGEST), key = ratios(ns, UNEVEN, KEY);
    struct spread counted = ratios(ns, COUNTED, LARGEST);
    double fullest = (double)capacities_of_rank(c, s, capacities_fullest(c, s)) * s->ranks /
                     (E * (double)c->most);
    double ratio = (double)step.median_ns * 1e-6;

    printf("%-20s rows %.3f, step %.3f [%.3f, %.3f], %+5.1f %%; of the step at c_eq %.3f [%.3f, "
           "%.3f]\n",
           PLAN_TEXT(plan), fullest, ratio, (double)step.low_ns * 1e-6, (double)step.high_ns * 1e-6,
           100 * (ratio / fullest - 1), (double)key.median_ns * 1e-6, (double)key.low_ns * 1e-6,
           (double)key.high_ns * 1e-6);
    printf("%-20s rows %.3f, step %.3f [%.3f, %.3f], over the rows %.3f [%.3f, %.3f]\n",
           "  without padding", fullest, (double)counted.median_ns * 1e-6,
           (double)counted.low_ns * 1e-6, (double)counted.high_ns * 1e-6,
           (double)counted.median_ns * 1e-6 / fullest, (double)counted.low_ns * 1e-6 / fullest,
           (double)counted.high_ns * 1e-6 / fullest);
}

static int measure(struct rig *rig, const struct moe_plan *plan, const struct capacities *c,
                   bool speaks)
{
    struct runner runners[WAYS] = { { .rig = NULL } };
    int64_t ns[WAYS][ROUNDS];
    int rc = OK;

    for (int way = 0; way < WAYS && !rc; way++)
        rc = open_way(rig, *plan, c, way, &runners[way]);
    for (int i = 0; i < ROUNDS * WAYS && !rc; i++) {
        int way = (i + i / WAYS) % WAYS;

        rc = runner_step(&runners[way], STEP_BOTH, &ns[way][i / WAYS]);
    }
    if (!rc && speaks)
        print(rig, c, plan, ns);
    for (int way = 0; way < WAYS; way++)
        runner_close(&runners[way]);
    return rc;
}

static int run_load(struct world *world, struct engine *engine, const struct moe_shape *shape,
                    const struct load *load, bool speaks)
{
    static const uint32_t d[PLANS] = { 1, 2, 4 };
    struct data data = { .shape = *shape, .seed = 1, .load = load };
    uint64_t rows[E];
    struct capacities c = needed_by(load, rows);
    struct rig *rig;
    int rc;

    TRY(rig_open(world, engine, &data, NULL, 1, &rig));
    for (int i = 0; i < PLANS; i++) {
        struct moe_plan plan = { .struct_size = sizeof(plan), .r = 1, .d = d[i] };

        rc = measure(rig, &plan, &c, speaks);
        if (rc)
            break;
    }
    rig_close(rig);
    return rc;
}

/* Loads of different skews; which experts are hot depends on the seed. */
enum { SKEWS = 3 };

static int open_load(const struct moe_shape *shape, int i, bool speaks, struct load **out)
{
    static const double skews[SKEWS] = { 1.05, 2, 4 };

    if (speaks)
        printf("E=%u T=%u D=%u H=%u on %u ranks, max/mean %g:\n", E, shape->tokens,
               shape->model_dim, shape->hidden_dim, shape->ranks, skews[i]);
    return load_open_skew(shape, (uint64_t)i + 1, skews[i], out);
}

/* The fullest rank stands for all. */
static int run_modelled(const struct cluster *cluster, int i)
{
    struct moe_shape shape = shape_on(cluster->ranks, cluster->ranks_per_node, true);
    struct engine engine = { 0 };
    struct world *world = NULL;
    struct capacities c;
    struct load *load;
    uint64_t rows[E];
    int rc;

    TRY(open_load(&shape, i, true, &load));
    c = needed_by(load, rows);
    rc = model_engine_open(cluster, capacities_fullest(&c, &shape), 1, &world, &engine);
    if (!rc)
        rc = run_load(world, &engine, &shape, load, true);
    engine_close(&engine);
    world_close(world);
    load_close(load);
    return rc;
}

/* ---- counts that change */

/* Recorded steps: of `turned` the second has the counts of the first in the other order, so that
 * the fullest rank gets as many rows, and is another one. */
static int open_steps(const struct moe_shape *shape, const uint64_t rows[E], bool turned,
                      struct load **out)
{
    char path[] = "/tmp/bench_uneven_XXXXXX";
    struct option_list list = { .items = { path }, .count = 1 };
    int file = mkstemp(path), rc;
    FILE *to = file < 0 ? NULL : fdopen(file, "w");

    if (!to)
        return fail(ERR_IO, "no file for counts");
    for (int step = 0; step < 2; step++) {
        fprintf(to, "{\"counts\": [");
        for (uint32_t e = 0; e < E; e++)
            fprintf(to, "%s%llu", e ? ", " : "",
                    (unsigned long long)(shape->ranks * rows[turned && step ? E - 1 - e : e]));
        fprintf(to, "]}\n");
    }
    fclose(to);
    rc = load_open_routing(shape, 64, 1, &list, out);
    unlink(path);
    return rc;
}

/* One rig for each; a round of a runner takes both of its steps, and fills the gate before each. */
static int run_changing(struct world *world, struct engine *engine, const struct moe_shape *shape,
                        const struct load *load, bool speaks)
{
    enum { STAYS, CHANGES, KINDS };
    const struct moe_plan plan = { .struct_size = sizeof(plan), .r = 1, .d = 2, .e = MOE_SPARSE };
    struct runner runners[KINDS] = { { .rig = NULL } };
    struct load *steps[KINDS] = { NULL };
    struct rig *rigs[KINDS] = { NULL };
    int64_t ns[WAYS][ROUNDS];
    uint64_t rows[E];
    int rc = OK;

    needed_by(load, rows);
    for (int kind = 0; kind < KINDS && !rc; kind++) {
        struct data data = { .shape = *shape, .seed = 1 };

        rc = world_settle(world, open_steps(shape, rows, kind == CHANGES, &steps[kind]));
        data.load = steps[kind];
        if (!rc)
            rc = rig_open(world, engine, &data, NULL, 1, &rigs[kind]);
        if (!rc)
            rig_set_capacity(rigs[kind], load_most(steps[kind]));
        if (!rc)
            rc = runner_open(rigs[kind], &plan, &runners[kind]);
        if (!rc)
            rc = runner_warm(&runners[kind], 2);
    }
    for (int i = 0; i < KINDS * ROUNDS && !rc; i++) {
        int kind = (i + i / KINDS) % KINDS;

        rc = runner_step(&runners[kind], STEP_BOTH, &ns[kind][i / KINDS]);
    }
    if (!rc && speaks) {
        struct spread changing = ratios(ns, CHANGES, STAYS);

        printf("counts that change   step %.3f [%.3f, %.3f] of one whose counts stay (%u steps)\n",
               (double)changing.median_ns * 1e-6, (double)changing.low_ns * 1e-6,
               (double)changing.high_ns * 1e-6, load_step_count(steps[CHANGES]));
    }
    for (int kind = 0; kind < KINDS; kind++) {
        runner_close(&runners[kind]);
        rig_close(rigs[kind]);
        load_close(steps[kind]);
    }
    return rc;
}

static int run_real(struct world *world)
{
    const struct topology *t = world_topology(world);
    struct moe_shape shape = shape_on((uint32_t)t->ranks, (uint32_t)t->ranks_per_node, false);
    struct engine engine = { 0 };
    int rc = engine_open(world, "host", NULL, &engine);

    for (int i = 0; i < SKEWS && !rc; i++) {
        struct load *load = NULL;

        rc = open_load(&shape, i, t->rank == 0, &load);
        if (!rc)
            rc = run_load(world, &engine, &shape, load, t->rank == 0);
        if (!rc)
            rc = run_changing(world, &engine, &shape, load, t->rank == 0);
        load_close(load);
    }
    engine_close(&engine);
    return rc;
}

static int run_file(const char *file)
{
    struct cluster cluster;

    TRY(cluster_read_model(file, 0, &cluster));
    printf("modelled: %s\n", file);
    for (int i = 0; i < SKEWS; i++)
        TRY(run_modelled(&cluster, i));
    return OK;
}

int main(int argc, char **argv)
{
    struct world *world;
    int rc = OK;

    for (int i = 1; i < argc && !rc; i++)
        rc = run_file(argv[i]);
    if (argc == 1) {
        if (world_open(0, 0, &world))
            return 1;
        rc = run_real(world);
        world_close(world);
    }
    return rc ? 1 : 0;
}
