/* A trainer: one MoE layer, learning on MPI ranks, whose capacity changes at every step.  It asks
 * libmoelookup for the plan of each step and switches without stopping.
 *
 *     mpirun -np 4 example_trainer TABLE [STEPS]
 *     mpirun -np 4 example_trainer learn DATABASE [STEPS]
 *
 * The second form asks libmoetune instead, tells how long each step took, and so tunes the layer
 * while it trains.
 *
 * As a check it trains the same layer a second time under one fixed plan: the outputs of every step
 * and the weights at the end must agree.  Ends with "N passed, N failed". */
#include "moelookup_mpi.h"
#include "moetune.h"
#include "plan.h"
#include "rig.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 64, TOKENS = 64, EXECS_MAX = 256 };
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

/* One step on tokens of its own. */
static int train(struct trainer *t, int step, const struct moe_plan *plan, uint64_t capacity)
{
    struct data batch = { .shape = all.shape, .seed = 100 + (uint64_t)step };
    struct exec *exec;

    TRY(exec_for(t, plan, capacity, &exec));
    TRY(data_fill_rows(&batch, t->rig->layer, data_token, t->rig->x));
    TRY(data_fill_rows(&batch, t->rig->layer, data_grad, t->rig->grad_y));
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

/* An expert is now crowded, now not: the capacity follows. */
static uint64_t capacity_at(int step)
{
    static const double factors[] = { 1, 2, 4, 1.5, 6, 3, 1, 8, 2.5, 5 };

    return moe_capacity(factors[step % 10], all.shape.top_k, all.shape.experts, TOKENS, 0);
}

/* ---- where plans come from: a table that is looked up, or a tuner that learns */

struct adviser {
    const struct moelookup_view *view;
    struct moetune *tuner; /* NULL: the table */
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

static int ask(const struct adviser *a, uint64_t capacity, struct moe_plan *plan)
{
    return a->tuner ? moetune_ask(a->tuner, (uint32_t)capacity, plan)
                    : moelookup_get(a->view, (uint32_t)capacity, plan);
}

/* A step under the plan that is advised, timed from when all ranks are there. */
static int train_advised(struct trainer *t, const struct adviser *a, int step, uint64_t capacity,
                         struct moe_plan *plan)
{
    double begun_s;
    struct exec *exec;

    TRY(ask(a, capacity, plan));
    TRY(exec_for(t, plan, capacity, &exec)); /* what is made once is not a step's time */
    MPI_Barrier(MPI_COMM_WORLD);
    begun_s = MPI_Wtime();
    TRY(train(t, step, plan, capacity));
    return a->tuner ? moetune_tell(a->tuner, (MPI_Wtime() - begun_s) * 1e6) : OK;
}

static int compare_training(const struct adviser *adviser, int *switches)
{
    struct moe_plan fixed = plan_default(), before = MOE_PLAN_INIT;
    struct trainer asked, plain;
    double most = 0;
    int rc;
    uint64_t values = (uint64_t)TOKENS * all.shape.model_dim;

    *switches = 0;
    TRY(trainer_open(&asked));
    TRY(trainer_open(&plain));
    for (int step = 0; step < all.steps; step++) {
        struct moe_plan plan = MOE_PLAN_INIT;
        uint64_t capacity = capacity_at(step);

        TRY_OUT(train_advised(&asked, adviser, step, capacity, &plan));
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
    struct adviser adviser = { NULL, NULL };
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

static int run(const char *path)
{
    struct moelookup *table = NULL;
    struct moelookup_view *view = NULL;
    struct adviser adviser;
    int rc, switches;

    TRY_OUT(moelookup_mpi_open(path, 0, MPI_COMM_WORLD, &table));
    TRY_OUT(moelookup_mpi_check(table, MPI_COMM_WORLD));
    TRY_OUT(moelookup_bind(table, &all.shape, NULL, &view));
    adviser = (struct adviser){ view, NULL };
    rc = compare_training(&adviser, &switches);
    if (!rc && !switches)
        rc = fail(ERR_WRONG, "the table never switches: nothing is shown");
out:
    moelookup_view_free(view);
    moelookup_close(table);
    return rc;
}

int main(int argc, char **argv)
{
    bool learns = argc > 1 && !strcmp(argv[1], "learn");
    int rc;
    const struct topology *ranks;

    if (argc < 2 + learns) {
        fprintf(stderr, "usage: mpirun -np N example_trainer TABLE|learn DATABASE [STEPS]\n");
        return 2;
    }
    if (world_open(0, &all.world) || engine_open(all.world, "host", NULL, &all.engine))
        return 1;
    ranks = world_topology(all.world);
    log_only(ranks->rank == 0);
    all.shape = (struct moe_shape){ .struct_size = sizeof(all.shape),
                                    .experts = 2,
                                    .top_k = 2,
                                    .model_dim = 16,
                                    .hidden_dim = 32,
                                    .ranks = (uint32_t)ranks->ranks,
                                    .ranks_per_node = (uint32_t)ranks->ranks_per_node,
                                    .dtype = MOE_F32,
                                    .pass = MOE_TRAIN,
                                    .activation = MOE_RELU,
                                    .tokens = TOKENS };
    all.steps = argc > 2 + learns ? atoi(argv[2 + learns]) : 30;
    rc = learns ? learn(argv[2]) : run(argv[1]);
    if (ranks->rank == 0)
        printf("%d passed, %d failed\n", !rc, !!rc);
    engine_close(&all.engine);
    world_close(all.world);
    return rc ? 1 : 0;
}
