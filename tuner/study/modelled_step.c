/* Runs the executor once on the virtual clock. */
#include "modelled_step.h"

#include "a2a.h"
#include "account.h"
#include "exec.h"
#include "model_engine.h"
#include "phases.h"
#include "status.h"
#include "world.h"

#include <math.h>

struct stage {
    struct world *world;
    struct engine engine;
    struct parts parts;
    struct layer *layer;
    struct exec *exec;
    struct marks marks;
};

static void stage_close(struct stage *s)
{
    exec_close(s->exec);
    marks_close(&s->marks);
    layer_close(s->layer);
    parts_close(&s->parts);
    engine_close(&s->engine);
    world_close(s->world);
}

static int issue(struct stage *s)
{
    TRY(exec_fetch(s->exec));
    TRY(exec_forward(s->exec, NULL, NULL));
    if (s->layer->shape.pass == MOE_TRAIN) {
        TRY(exec_backward(s->exec, NULL, NULL));
        TRY(exec_finish(s->exec));
    }
    return engine_sync(&s->engine);
}

/* One of the streams may be muted. */
static int time_step(struct stage *s, bool compute, bool comm, double *ns)
{
    int64_t begin = device_now_ns(s->engine.device);

    s->engine.compute->muted = !compute;
    s->engine.comm->muted = !comm;
    TRY(issue(s));
    *ns = (double)(device_now_ns(s->engine.device) - begin);
    return OK;
}

/* The computation alone, and its parts. */
static int time_phases(struct stage *s, struct modelled_step *step)
{
    struct phase_times times = { { 0 } };
    int rc = marks_begin(&s->marks, s->engine.compute);

    if (!rc)
        rc = time_step(s, true, false, &step->compute_ns);
    marks_end(s->engine.compute);
    phases_add(&s->marks, &times);
    step->encode_ns = (double)times.ns[PHASE_ENCODE];
    step->experts_ns = (double)times.ns[PHASE_EXPERTS];
    return rc;
}

static int time_steps(struct stage *s, struct modelled_step *out)
{
    struct modelled_step step;

    TRY(time_step(s, true, true, &step.ns));
    step.sent_bytes = (double)s->engine.wire->sent_bytes;
    TRY(time_phases(s, &step));
    TRY(time_step(s, false, true, &step.comm_ns));
    *out = step;
    return OK;
}

static bool fits(const struct cluster *c, const struct moe_shape *shape,
                 const struct moe_plan *plan, uint64_t capacity, uint32_t baseline)
{
    struct account_machine machine = { .baseline = baseline };

    return (double)account_alone(shape, &machine, plan, capacity) <= c->memory_gib * 0x1p30;
}

int modelled_step(const struct cluster *machine, const struct moe_shape *shape,
                  const struct moe_plan *plan, uint64_t capacity, struct modelled_step *out)
{
    return modelled_baseline(machine, shape, plan, capacity, 0, out);
}

int modelled_baseline(const struct cluster *machine, const struct moe_shape *asked,
                      const struct moe_plan *plan, uint64_t capacity, uint32_t baseline,
                      struct modelled_step *out)
{
    struct moe_shape shape = *asked;
    struct cluster c = *machine;
    const struct capacities each = { .most = capacity };
    struct stage s = { 0 };
    int rc;

    TRY(cluster_resize(&c, shape.ranks));
    shape.ranks_per_node = c.ranks_per_node;
    if (!fits(&c, &shape, plan, capacity, baseline)) {
        *out = (struct modelled_step){ NAN, NAN, NAN, NAN, NAN, NAN };
        return OK;
    }
    TRY_OUT(model_engine_open(&c, 0, 0, &s.world, &s.engine));
    TRY_OUT(parts_open(&shape, NULL, &s.parts));
    TRY_OUT(layer_open(s.engine.device, &shape, 0, &s.parts, &s.layer));
    s.layer->baseline = baseline;
    TRY_OUT(exec_open(&s.engine, s.layer, plan, &each, &s.exec));
    TRY_OUT(time_steps(&s, out));
out:
    stage_close(&s);
    return rc;
}

/* Of a modelled device: never looked at. */
static char send[1], recv[1], scratch[1];

static int open_a2a(const struct cluster *machine, uint32_t ranks, uint32_t a, bool naive,
                    uint64_t bytes, struct stage *s, struct a2a **out)
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
    struct stage s = { 0 };
    struct a2a *a2a = NULL;
    int rc;

    TRY_OUT(open_a2a(machine, ranks, a, false, bytes, &s, &a2a));
    TRY_OUT(a2a_run(a2a, s.engine.comm));
    TRY_OUT(engine_sync(&s.engine));
    *out = (double)device_now_ns(s.engine.device);
out:
    a2a_close(a2a);
    stage_close(&s);
    return rc;
}

/* All of it without its last exchange, by which blocks leave the node. */
int modelled_aggregation_ns(const struct cluster *machine, uint32_t ranks, bool naive,
                            uint64_t bytes, double *out)
{
    struct stage s = { 0 };
    struct a2a *a2a = NULL;
    int64_t all;
    int rc;

    TRY_OUT(open_a2a(machine, ranks, MOE_A2A_2DH, naive, bytes, &s, &a2a));
    TRY_OUT(a2a_run(a2a, s.engine.comm));
    TRY_OUT(engine_sync(&s.engine));
    all = device_now_ns(s.engine.device);
    TRY_OUT(wire_exchange(s.engine.wire, s.engine.comm, &a2a->phases[1]));
    TRY_OUT(engine_sync(&s.engine));
    *out = (double)(2 * all - device_now_ns(s.engine.device));
out:
    a2a_close(a2a);
    stage_close(&s);
    return rc;
}
