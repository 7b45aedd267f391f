/* A trainer: one MoE layer, learning on MPI ranks, whose capacity changes at every step.  It asks
 * libmoelookup for the plan of each step and switches without stopping.
 *
 *     mpirun -np 4 example_trainer TABLE [STEPS]
 *     mpirun -np 4 example_trainer follow TABLE [STEPS]
 *     mpirun -np 4 example_trainer learn DATABASE [STEPS]
 *
 * In the second form capacities follow the experts: the controller, and the look-up at its key, run
 * on a thread beside the steps.  (This layer has one expert on several ranks, so the key is the
 * largest capacity.)  The third form asks libmoetune instead, tells how long each step took, and so
 * tunes the layer while it trains.
 *
 * As a check it trains the same layer a second time under one fixed plan: the outputs of every step
 * and the weights at the end must agree.  Ends with "N passed, N failed". */
#include "moelookup_mpi.h"
#include "moetune.h"
#include "plan.h"
#include "policy_thread.h"
#include "rig.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 64, TOKENS = 64, EXPERTS = 2, EXECS_MAX = 256 };
/* Over all steps: rounding differences grow with every step that is learnt from. */
static const double learning_rate = 0.01, tolerance = 1e-4;

/* Prepared executors are kept: going back to a plan costs nothing. */
struct prepared {
    struct exec *exec;
    uint64_t capacity;
};

struct trainer {
    struct rig *rig;
    struct prepared kept[EXECS_MAX];
    int count;
};

/* What every trainer on these ranks shares. */
static struct {
    struct world *world;
    struct engine engine;
    struct moe_shape shape;
    int steps;
    bool leans; /* tokens move to the first expert and back */
} all;

static int rank_of_mine(void)
{
    return world_topology(all.world)->rank;
}

static int trainer_open(struct trainer *t)
{
    struct data data = { .shape = all.shape, .seed = 7 };
    uint32_t tokens[RANKS_MAX];

    *t = (struct trainer){ .count = 0 };
    for (int q = 0; q < RANKS_MAX; q++)
        tokens[q] = TOKENS;
    return rig_open(all.world, &all.engine, &data, tokens, 1, &t->rig);
}

static void trainer_close(struct trainer *t)
{
    for (int i = 0; i < t->count; i++)
        exec_close(t->kept[i].exec);
    rig_close(t->rig);
}

static int exec_for(struct trainer *t, const struct moe_plan *plan, uint64_t capacity,
                    struct exec **out)
{
    for (int i = 0; i < t->count; i++)
        if (t->kept[i].capacity == capacity && plan_equal(&t->kept[i].exec->plan, plan)) {
            *out = t->kept[i].exec;
            return OK;
        }
    if (t->count == EXECS_MAX)
        return fail(ERR_NOMEM, "more than %d prepared steps", EXECS_MAX);
    rig_set_capacity(t->rig, capacity);
    TRY(rig_exec(t->rig, plan, out));
    t->kept[t->count++] = (struct prepared){ *out, capacity };
    return OK;
}

static void descend(float *weights, const float *gradient, uint64_t n)
{
    for (uint64_t i = 0; i < n && weights; i++)
        weights[i] -= (float)(learning_rate / all.steps) * gradient[i];
}

/* The gate is the same on every rank, its gradient is not. */
static int update(struct layer *layer)
{
    uint64_t gate = (uint64_t)layer->shape.experts * layer->shape.model_dim;

    if (MPI_Allreduce(MPI_IN_PLACE, layer->grad_gate, (int)gate, MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD) != MPI_SUCCESS)
        return ERR_WIRE;
    descend(layer->gate, layer->grad_gate, gate);
    for (int i = 0; i < TENSOR_COUNT; i++)
        descend(layer->slice[i], layer->grad[i], layer_slice(&layer->shape, (enum tensor)i));
    return OK;
}

/* In the second half of the steps, what the gate of the first expert looks for: more, then less. */
static void lean(struct trainer *t, int step)
{
    const float *gate = t->rig->layer->gate;
    uint32_t width = all.shape.model_dim;
    double most = fmax(0, -2 * sin(6.28318 * step / all.steps));
    float *x = t->rig->x;

    for (uint32_t token = 0; token < TOKENS; token++)
        for (uint32_t i = 0; i < width; i++)
            x[token * width + i] += (float)most * (gate[i] - gate[width + i]);
}

/* One step on tokens of its own. */
static int train(struct trainer *t, int step, const struct moe_plan *plan, uint64_t capacity)
{
    struct data batch = { .shape = all.shape, .seed = 100 + (uint64_t)step };
    struct exec *exec;

    TRY(exec_for(t, plan, capacity, &exec));
    TRY(data_fill_rows(&batch, t->rig->layer, data_token, t->rig->x));
    TRY(data_fill_rows(&batch, t->rig->layer, data_grad, t->rig->grad_y));
    if (all.leans)
        lean(t, step);
    TRY(world_settle(all.world, rig_step(t->rig, exec)));
    return update(t->rig->layer);
}

/* The largest difference as a share of the largest value. */
static double difference(const float *a, const float *b, uint64_t n)
{
    double most = 0, scale = 1e-30;

    for (uint64_t i = 0; i < n && a; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        scale = fmax(scale, fabs((double)b[i]));
    }
    return most / scale;
}

static double weights_differ(const struct layer *a, const struct layer *b)
{
    double most = difference(a->gate, b->gate, (uint64_t)a->shape.experts * a->shape.model_dim);

    for (int i = 0; i < TENSOR_COUNT; i++)
        most = fmax(most,
                    difference(a->slice[i], b->slice[i], layer_slice(&a->shape, (enum tensor)i)));
    return most;
}

/* An expert is now crowded, now not. */
static uint64_t capacity_at(int step)
{
    static const double factors[] = { 1, 2, 4, 1.5, 6, 3, 1, 8, 2.5, 5 };

    return moe_capacity(factors[step % 10], all.shape.top_k, all.shape.experts, TOKENS, 0);
}

/* ---- where plans come from: a table that is looked up, perhaps beside the steps, or a tuner that
 * learns */

struct adviser {
    const struct moelookup_view *view;
    struct moetune *tuner; /* NULL: the table */
    struct policy *policy; /* NULL: capacities are given */
};

static int broadcast(void *self, void *bytes, size_t size)
{
    (void)self;
    return MPI_Bcast(bytes, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS;
}

static int largest(void *self, double *value)
{
    (void)self;
    return MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD) !=
           MPI_SUCCESS;
}

/* The capacity, too, where it follows the experts. */
static int ask(const struct adviser *a, int step, uint64_t *capacity, struct moe_plan *plan)
{
    struct policy_answer answer;

    *capacity = capacity_at(step);
    if (a->policy) {
        policy_answer(a->policy, (uint64_t)step, &answer);
        *capacity = answer.state.key;
        *plan = answer.plan;
        return answer.status;
    }
    return a->tuner ? moetune_ask(a->tuner, (uint32_t)*capacity, plan)
                    : moelookup_get(a->view, (uint32_t)*capacity, plan);
}

/* The largest counts over ranks go to the policy, whose answer is for a later step. */
static int tell_counts(const struct adviser *a, int step, const struct exec *exec)
{
    uint32_t counts[EXPERTS];

    for (int e = 0; e < EXPERTS; e++)
        counts[e] = (uint32_t)exec->router.needed[e];
    if (MPI_Allreduce(MPI_IN_PLACE, counts, EXPERTS, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD) !=
        MPI_SUCCESS)
        return ERR_WIRE;
    policy_counts(a->policy, (uint64_t)step, counts, 0);
    return OK;
}

/* A step under the plan that is advised, timed from when all ranks are there. */
static int train_advised(struct trainer *t, const struct adviser *a, int step, uint64_t *capacity,
                         struct moe_plan *plan)
{
    double begun_s;
    struct exec *exec;

    TRY(ask(a, step, capacity, plan));
    TRY(exec_for(t, plan, *capacity, &exec)); /* what is made once is not a step's time */
    MPI_Barrier(MPI_COMM_WORLD);
    begun_s = MPI_Wtime();
    TRY(train(t, step, plan, *capacity));
    if (a->policy)
        return tell_counts(a, step, exec);
    return a->tuner ? moetune_tell(a->tuner, (MPI_Wtime() - begun_s) * 1e6) : OK;
}

static int compare_training(const struct adviser *adviser, int *switches)
{
    struct moe_plan fixed = plan_default(NULL), before = MOE_PLAN_INIT;
    struct trainer asked, plain;
    double most = 0;
    int rc;
    uint64_t values = (uint64_t)TOKENS * all.shape.model_dim;

    *switches = 0;
    TRY(trainer_open(&asked));
    TRY(trainer_open(&plain));
    for (int step = 0; step < all.steps; step++) {
        struct moe_plan plan = MOE_PLAN_INIT;
        uint64_t capacity;

        TRY_OUT(train_advised(&asked, adviser, step, &capacity, &plan));
        *switches += step && !plan_equal(&plan, &before);
        before = plan;
        TRY_OUT(train(&plain, step, &fixed, capacity));
        most = fmax(most, difference(asked.rig->y, plain.rig->y, values));
    }
    most = fmax(most, weights_differ(asked.rig->layer, plain.rig->layer));
    rc = world_settle(all.world, most <= tolerance ? OK : ERR_WRONG);
    if (!rank_of_mine())
        printf("%d steps, %d switches of plan, %d prepared steps; largest difference from a fixed "
               "plan %.2g\n",
               all.steps, *switches, asked.count, most);
out:
    trainer_close(&asked);
    trainer_close(&plain);
    return rc;
}

static int learn(const char *path)
{
    struct moetune_options options = MOETUNE_OPTIONS_INIT;
    struct moetune_status status = MOETUNE_STATUS_INIT;
    struct adviser adviser = { NULL, NULL, NULL };
    int rc, switches;

    options.rank = (uint32_t)rank_of_mine();
    options.window = 32;
    options.share = 0.5; /* a short training */
    options.layer = "example_trainer";
    options.broadcast = broadcast;
    options.largest = largest;
    TRY(world_settle(all.world, moetune_open(path, &all.shape, &options, &adviser.tuner)));
    rc = compare_training(&adviser, &switches);
    moetune_status(adviser.tuner, &status);
    if (!rank_of_mine())
        printf("%llu steps under plans that were tried, %u buckets decided\n",
               (unsigned long long)status.tried, status.decided);
    moetune_close(adviser.tuner);
    return rc;
}

/* Equal counts have to lead to equal capacities: the digest says so without sending them. */
static int check_digest(struct moe_capacities *c, uint64_t step)
{
    struct moe_capacities_state state = MOE_CAPACITIES_STATE_INIT;
    const uint32_t *rows;
    uint64_t ends[2];

    TRY(moe_capacities_at(c, step, &rows, &state));
    ends[0] = state.digest;
    ends[1] = ~state.digest;
    MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (ends[0] != ~ends[1])
        return fail(ERR_WRONG, "ranks have different capacities");
    if (!rank_of_mine())
        printf("%llu re-plans, digest %016llx on all ranks\n", (unsigned long long)state.replans,
               (unsigned long long)state.digest);
    return state.replans ? OK : fail(ERR_WRONG, "capacities never change: nothing is shown");
}

static int follow(const struct adviser *table, int *switches)
{
    struct moe_capacities_options options = MOE_CAPACITIES_OPTIONS_INIT;
    struct policy_setup setup = { .view = table->view, .experts = EXPERTS };
    struct adviser adviser = *table;
    int rc;

    options.experts = EXPERTS;
    options.ranks = all.shape.ranks;
    options.most = TOKENS;
    options.grid = 4;
    options.hold = 10;
    options.gap = 5;
    options.delta = setup.delta = 3;
    TRY(moe_capacities_open(&options, &setup.capacities));
    TRY_OUT(policy_open(&setup, &adviser.policy));
    rc = compare_training(&adviser, switches);
out:
    policy_close(adviser.policy);
    if (!rc)
        rc = check_digest(setup.capacities, (uint64_t)all.steps);
    moe_capacities_close(setup.capacities);
    return rc;
}

static int run(const char *path)
{
    struct moelookup *table = NULL;
    struct moelookup_view *view = NULL;
    struct adviser adviser;
    int rc, switches;

    TRY_OUT(moelookup_mpi_open(path, 0, MPI_COMM_WORLD, &table));
    TRY_OUT(moelookup_mpi_check(table, MPI_COMM_WORLD));
    TRY_OUT(moelookup_bind(table, &all.shape, NULL, &view));
    adviser = (struct adviser){ view, NULL, NULL };
    TRY_OUT(all.leans ? follow(&adviser, &switches) : compare_training(&adviser, &switches));
    if (!switches)
        rc = fail(ERR_WRONG, "the table never switches: nothing is shown");
out:
    moelookup_view_free(view);
    moelookup_close(table);
    return rc;
}

int main(int argc, char **argv)
{
    bool learns = argc > 1 && !strcmp(argv[1], "learn");
    bool follows = argc > 1 && !strcmp(argv[1], "follow"), word = learns || follows;
    int rc;
    const struct topology *ranks;

    if (argc < 2 + word) {
        fprintf(stderr, "usage: mpirun -np N example_trainer [follow] TABLE|learn DATABASE "
                        "[STEPS]\n");
        return 2;
    }
    if (world_open(0, 0, &all.world) || engine_open(all.world, "host", NULL, &all.engine))
        return 1;
    ranks = world_topology(all.world);
    log_enable(ranks->rank == 0);
    all.shape = (struct moe_shape){ .struct_size = sizeof(all.shape),
                                    .experts = EXPERTS,
                                    .top_k = follows ? 1 : 2,
                                    .model_dim = 16,
                                    .hidden_dim = 32,
                                    .ranks = (uint32_t)ranks->ranks,
                                    .ranks_per_node = (uint32_t)ranks->ranks_per_node,
                                    .dtype = MOE_F32,
                                    .pass = MOE_TRAIN,
                                    .activation = MOE_RELU,
                                    .tokens = TOKENS };
    all.steps = argc > 2 + word ? atoi(argv[2 + word]) : 30;
    all.leans = follows;
    rc = learns ? learn(argv[2]) : run(argv[1 + word]);
    if (ranks->rank == 0)
        printf("%d passed, %d failed\n", !rc, !!rc);
    engine_close(&all.engine);
    world_close(all.world);
    return rc ? 1 : 0;
}
