/* Opens one modelled rank of each class, runs the step on its virtual clock, and takes the largest
 * times: ranks of one class take equally long. */
#include "modelled_step.h"

#include "a2a.h"
#include "account.h"
#include "model_engine.h"
#include "modelled_ranks.h"
#include "plan.h"
#include "rank_speeds.h"
#include "runner.h"
#include "status.h"
#include "world.h"

#include <math.h>
#include <stdlib.h>

/* One modelled rank with all that a step needs.  model_rank_close() frees it, half-opened ones
 * too. */
struct model_rank {
    struct world *world;
    struct engine engine;
    struct rig *rig;
    struct runner runner, known_runner; /* the step; the step with known routes */
};

static void model_rank_close(struct model_rank *s)
{
    runner_close(&s->known_runner);
    runner_close(&s->runner);
    rig_close(s->rig);
    engine_close(&s->engine);
    world_close(s->world);
}

static int model_rank_open(const struct cluster *c, int rank, const struct modelled_ask *ask,
                           const double *speeds, struct model_rank *s)
{
    struct data data = { .shape = ask->shape, .speeds = speeds };

    TRY(model_engine_open(c, rank, 0, &s->world, &s->engine));
    TRY(rig_open(s->world, &s->engine, &data, NULL, 1, &s->rig));
    if (ask->capacities.rows)
        TRY(rig_set_capacities(s->rig, ask->capacities.rows));
    else
        rig_set_capacity(s->rig, ask->capacities.most);
    s->rig->baseline = ask->baseline;
    return runner_open(s->rig, &ask->plan, &s->runner);
}

static int time_known_routes(struct model_rank *s, struct modelled_step *out)
{
    int64_t begin, ns;

    s->rig->routes = ROUTES_KEEP;
    TRY(runner_open(s->rig, &s->runner.plan, &s->known_runner));
    TRY(rig_set_known_routes(s->rig, s->runner.exec, s->known_runner.exec));
    TRY(runner_step(&s->known_runner, STEP_BOTH, &ns));
    out->known_ns = (double)ns;

    /* The gate alone, on the same clock. */
    begin = device_now_ns(s->engine.device);
    TRY(rig_route(s->rig, s->runner.exec));
    out->gate_ns = (double)(device_now_ns(s->engine.device) - begin);
    return OK;
}

static int time_steps(struct model_rank *s, bool known_routes, struct modelled_step *out)
{
    struct phase_times phases;
    int64_t ns[STEP_MODES];

    TRY(runner_warm(&s->runner, 1));
    for (int mode = 0; mode < STEP_MODES; mode++)
        TRY(runner_step(&s->runner, (enum step_mode)mode, &ns[mode]));
    TRY(runner_phases(&s->runner, &phases));
    *out = (struct modelled_step){ .ns = (double)ns[STEP_BOTH],
                                   .compute_ns = (double)ns[STEP_COMPUTE],
                                   .comm_ns = (double)ns[STEP_COMM],
                                   .sent_bytes = (double)s->runner.sent_bytes,
                                   .messages = (double)s->runner.messages,
                                   .known_ns = NAN,
                                   .gate_ns = NAN };
    for (int i = 0; i < PHASE_COUNT; i++)
        out->phase_ns[i] = (double)phases.ns[i];
    return known_routes ? time_known_routes(s, out) : OK;
}

/* ---- all ranks */

/* Runs one rank of the class, and raises `all` to its numbers: all ranks wait for the slowest. */
static int run_class(const struct cluster *c, const struct rank_class *class,
                     const struct modelled_ask *ask, const double *speeds,
                     struct modelled_step *all)
{
    struct cluster paced = cluster_at_pace(*c, class->pace);
    int rank =
        ask->capacities.rows ? capacities_fullest(&ask->capacities, &ask->shape) : class->rank;
    struct modelled_step of_class = { .ns = NAN };
    struct model_rank s = { 0 };
    int rc = model_rank_open(&paced, rank, ask, speeds, &s);

    if (!rc)
        rc = time_steps(&s, ask->known_routes, &of_class);
    model_rank_close(&s);
    TRY(rc);
    all->ns = fmax(all->ns, of_class.ns);
    all->compute_ns = fmax(all->compute_ns, of_class.compute_ns);
    all->comm_ns = fmax(all->comm_ns, of_class.comm_ns);
    all->sent_bytes = fmax(all->sent_bytes, of_class.sent_bytes);
    all->messages = fmax(all->messages, of_class.messages);
    for (int i = 0; i < PHASE_COUNT; i++)
        all->phase_ns[i] = fmax(all->phase_ns[i], of_class.phase_ns[i]);
    all->known_ns = fmax(all->known_ns, of_class.known_ns);
    all->gate_ns = fmax(all->gate_ns, of_class.gate_ns);
    return OK;
}

/* Resizes the machine to the shape's ranks, and lists how fast these are; NULL: equally fast.  The
 * caller frees `speeds`. */
static int fit_machine(const struct cluster *machine, const struct modelled_ask *given,
                       struct cluster *c, struct modelled_ask *ask, double **speeds)
{
    *c = *machine;
    *ask = *given;
    TRY(cluster_resize(c, ask->shape.ranks));
    ask->shape.ranks_per_node = c->ranks_per_node;
    ask->shape.ranks_per_rack = c->ranks_per_rack;
    *speeds = NULL;
    if (!rank_speeds_known(c))
        return OK;
    *speeds = calloc(c->ranks, sizeof(**speeds));
    if (!*speeds)
        return fail(ERR_NOMEM, "the speeds of %u ranks", c->ranks);
    rank_speeds_list(c->rank_speeds_percent, *speeds);
    return OK;
}

static double bytes_of(const struct modelled_ask *ask, const double *speeds)
{
    struct account_machine machine = { .speeds = speeds, .baseline = ask->baseline };

    return (double)account_sum(
        account_layer(&ask->shape, &machine),
        account_capacities(&ask->shape, &machine, &ask->plan, &ask->capacities));
}

int modelled_step_of(const struct cluster *machine, const struct modelled_ask *given,
                     struct modelled_step *out)
{
    struct modelled_ask ask;
    struct cluster c;
    double *speeds;
    int rc = OK;

    TRY(fit_machine(machine, given, &c, &ask, &speeds));
    if (plan_check(&ask.plan, &ask.shape)) { /* which has printed why */
        rc = ERR_ARGUMENT;
    } else if (bytes_of(&ask, speeds) <= c.memory_gib * 0x1p30) {
        struct rank_classes classes = rank_classes_of(&ask.shape, speeds, c.ranks);
        struct modelled_step all = { .known_ns = NAN, .gate_ns = NAN };

        for (int i = 0; i < classes.count && !rc; i++)
            rc = run_class(&c, &classes.at[i], &ask, speeds, &all);
        if (!rc)
            *out = all;
    } else {
        *out = (struct modelled_step){ NAN, NAN, NAN, NAN, NAN, .known_ns = NAN, .gate_ns = NAN };
        for (int i = 0; i < PHASE_COUNT; i++)
            out->phase_ns[i] = NAN;
    }
    free(speeds);
    return rc;
}

int modelled_bytes(const struct cluster *machine, const struct modelled_ask *given, double *out)
{
    struct modelled_ask ask;
    struct cluster c;
    double *speeds;

    TRY(fit_machine(machine, given, &c, &ask, &speeds));
    *out = bytes_of(&ask, speeds);
    free(speeds);
    return OK;
}

/* Buffers of a modelled device: nothing reads or writes them. */
static char send[1], recv[1], scratch[1];

static int open_modelled_a2a(const struct cluster *machine, uint32_t ranks, uint32_t a, bool naive,
                             uint64_t bytes, struct model_rank *s, struct a2a **out)
{
    struct cluster c = *machine;
    struct a2a_call call = { .dtype = MOE_F32,
                             .block = bytes / sizeof(float) / ranks,
                             .send = send,
                             .recv = recv,
                             .scratch = scratch,
                             .naive = naive };

    TRY(cluster_resize(&c, ranks));
    TRY(model_engine_open(&c, 0, 0, &s->world, &s->engine));
    call.wire = s->engine.wire;
    return a2a_open(a, &call, out);
}

int modelled_a2a_ns(const struct cluster *machine, uint32_t ranks, uint32_t a, uint64_t bytes,
                    double *out)
{
    struct model_rank s = { 0 };
    struct a2a *a2a = NULL;
    int rc;

    TRY_OUT(open_modelled_a2a(machine, ranks, a, false, bytes, &s, &a2a));
    TRY_OUT(a2a_run(a2a, s.engine.comm));
    TRY_OUT(engine_sync(&s.engine));
    *out = (double)device_now_ns(s.engine.device);
out:
    a2a_close(a2a);
    model_rank_close(&s);
    return rc;
}

/* Times the whole all-to-all, then its last exchange, by which blocks leave the node, and subtracts
 * the second time from the first. */
int modelled_aggregation_ns(const struct cluster *machine, uint32_t ranks, bool naive,
                            uint64_t bytes, double *out)
{
    struct model_rank s = { 0 };
    struct a2a *a2a = NULL;
    int64_t whole_ns;
    int rc;

    TRY_OUT(open_modelled_a2a(machine, ranks, MOE_A2A_2DH, naive, bytes, &s, &a2a));
    TRY_OUT(a2a_run(a2a, s.engine.comm));
    TRY_OUT(engine_sync(&s.engine));
    whole_ns = device_now_ns(s.engine.device);
    TRY_OUT(wire_exchange(s.engine.wire, s.engine.comm, &a2a->phases[1]));
    TRY_OUT(engine_sync(&s.engine));
    *out = (double)(2 * whole_ns - device_now_ns(s.engine.device));
out:
    a2a_close(a2a);
    model_rank_close(&s);
    return rc;
}
