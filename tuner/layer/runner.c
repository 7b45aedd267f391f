/* Opens a plan, runs its warm-up steps, and times its steps and their phases.
 *
 * A step is launched eagerly (kernel by kernel), as a graph, or queued ahead: the host queues the
 * whole step while the device is held. */
#include "runner.h"

#include "fault.h"
#include "plan.h"
#include "status.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int runner_open(struct rig *rig, const struct moe_plan *plan, struct runner *out)
{
    struct runner runner = { .rig = rig, .plan = *plan, .capacity = rig->capacity };
    int rc;

    if (rig->steps_are && plan_is_counted(plan, &rig->data.shape)) {
        if (world_topology(rig->world)->rank == 0) /* every rank finds the same */
            note("%s does not apply: its host waits for counts inside a step, so the step cannot "
                 "be a graph or be queued before it runs; use --graphs off",
                 PLAN_TEXT(plan));
        return UNSUPPORTED;
    }
    TRY(rig_exec(rig, plan, &runner.exec));
    runner.memory_bytes = (int64_t)(runner.exec->memory_bytes + rig->memory_bytes);
    rc = world_max(rig->world, &runner.memory_bytes, 1);
    if (!rc)
        rc = wire_survey(rig->engine->wire);
    if (rc) {
        runner_close(&runner);
        return rc;
    }
    *out = runner;
    return OK;
}

void runner_close(struct runner *runner)
{
    for (int i = 0; i < STEP_MODES; i++)
        graph_close(runner->graphs[i]);
    if (runner->captured && wire_reclaim(runner->rig->engine->wire, runner->rig->engine->comm))
        runner->exec->memory = NULL; /* another rank may have it mapped, so it stays allocated */
    exec_close(runner->exec);
    marks_close(&runner->marks);
    *runner = (struct runner){ 0 };
}

/* The argument of run_step(): which step to run, and how. */
struct step_request {
    struct runner *runner;
    enum step_mode mode;
    struct stream *marked; /* the stream that is not muted; NULL: the step is not marked */
};

static void mute_other_stream(struct engine *engine, enum step_mode mode)
{
    engine->comm->muted = mode == STEP_COMPUTE;
    engine->compute->muted = mode == STEP_COMM;
}

static int run_step(void *self)
{
    const struct step_request *request = self;
    struct rig *rig = request->runner->rig;
    struct exec *exec = request->runner->exec;
    int rc;

    /* Faults that tests inject into one rank in the middle of a step. */
    if (fault_hit("crash"))
        raise(SIGKILL);
    while (fault_hit("hang"))
        for (;;)
            pause();
    exec->graph = request->mode == STEP_EAGER || request->marked
                      ? NULL
                      : request->runner->graphs[request->mode];
    /* The graph holds only the stream that it was captured with. */
    mute_other_stream(rig->engine, exec->graph ? STEP_BOTH : request->mode);
    rc = request->marked ? marks_begin(&request->runner->marks, request->marked) : OK;
    if (!rc)
        rc = rig_step(rig, exec);
    if (request->marked)
        marks_end(request->marked);
    mute_other_stream(rig->engine, STEP_BOTH);
    exec->graph = NULL;
    return rc;
}

/* Captures the graph of this mode at its first step.  A whole step must have run before, in which
 * the wire prepares itself.  The first launch uploads the graph to the GPU; it and the next one are
 * not timed. */
static int prepare_graph(struct runner *runner, enum step_mode mode)
{
    struct rig *rig = runner->rig;
    struct step_request request = { .runner = runner, .mode = mode };
    struct measured measured;
    int rc;

    if (rig->steps_are != STEPS_GRAPHS || !runner->warm || mode == STEP_EAGER ||
        runner->graphs[mode])
        return OK;
    mute_other_stream(rig->engine, mode);
    runner->captured = true;
    rc = rig_capture(rig, runner->exec, &runner->graphs[mode]);
    mute_other_stream(rig->engine, STEP_BOTH);
    TRY(rc);
    for (int i = 0; i < 2; i++)
        TRY(measure_once(rig->world, rig->engine, NULL, run_step, &request, &measured));
    runner->replay_host_ns = rig->issued.host_ns;
    return world_max(rig->world, &runner->replay_host_ns, 1);
}

static int time_step(struct step_request request, struct disturbance *watch, struct measured *out)
{
    enum { TRIES = 4 };
    struct rig *rig = request.runner->rig;
    bool is_queued_ahead = rig->steps_are == STEPS_AHEAD && request.runner->warm &&
                           request.mode != STEP_EAGER && !request.marked;
    int64_t late = 0;

    if (!request.marked)
        TRY(prepare_graph(request.runner, request.mode));
    if (rig->cold) /* all ranks have it, or none */
        TRY(world_settle(rig->world, engine_cool(rig->engine, rig->cold)));
    if (!is_queued_ahead)
        return measure_once(rig->world, rig->engine, watch, run_step, &request, out);
    /* If the device of any rank began before its step was queued, all ranks run the step again. */
    for (int i = 0; i < TRIES; i++) {
        engine_hold_next(rig->engine);
        TRY(measure_once(rig->world, rig->engine, watch, run_step, &request, out));
        late = rig->late;
        TRY(world_max(rig->world, &late, 1));
        if (!late)
            return OK;
        if (rig->cold)
            TRY(world_settle(rig->world, engine_cool(rig->engine, rig->cold)));
    }
    return fail(ERR_ARGUMENT,
                "the host could not queue the %lld launches of a step in %d ms, in %d tries: they "
                "are too many, or the host is busy; use --graphs off or --graphs on",
                (long long)(rig->issued.kernels + rig->issued.events + rig->issued.exchanges),
                HOLD_MOST_NS / 1000000, TRIES);
}

/* Times each recorded step of this capacity once (the same steps for every plan), and gives the
 * mean. */
static int time_recorded_steps(struct step_request request, struct disturbance *watch,
                               struct measured *out)
{
    struct rig *rig = request.runner->rig;
    struct replay_steps steps = load_steps(rig->data.load, request.runner->capacity);
    bool counts = plan_is_counted(&request.runner->plan, &rig->data.shape);
    struct measured sum = { 0 }, measured;

    /* A modelled device has no gate; it computes the rows that the steps keep on average. */
    if (rig->engine->device->modelled)
        steps = (struct replay_steps){ .count = 1 };
    for (uint32_t i = 0; i < steps.count; i++) {
        TRY(rig_replay(rig, steps.first + i));
        /* With one stream muted, a step uses the counts of the step before; so a step with both
         * streams makes them first. */
        if (steps.count > 1 && request.mode != STEP_BOTH && counts)
            TRY(time_step((struct step_request){ .runner = request.runner, .mode = STEP_BOTH },
                          NULL, &measured));
        TRY(time_step(request, watch, &measured));
        sum.ns += measured.ns;
        sum.lost_ns += measured.lost_ns;
    }
    *out = (struct measured){ sum.ns / steps.count, sum.lost_ns / steps.count };
    return OK;
}

int runner_step(struct runner *runner, enum step_mode mode, int64_t *ns)
{
    struct measured measured;

    TRY(time_recorded_steps((struct step_request){ .runner = runner, .mode = mode }, NULL,
                            &measured));
    *ns = measured.ns;
    return OK;
}

int runner_step_watched(struct runner *runner, struct disturbance *watch, struct measured *out)
{
    return time_recorded_steps((struct step_request){ .runner = runner, .mode = STEP_BOTH }, watch,
                               out);
}

/* ---- phases */

/* The usual phase of each kernel and exchange, sorted by phase. */
static const enum phase usual_phases[MARK_WORKS] = {
    [KERNEL_route] = PHASE_GATE,
    [KERNEL_route_backward] = PHASE_GATE,
    [KERNEL_slots] = PHASE_GATE,
    [KERNEL_unit_rows] = PHASE_GATE,
    [KERNEL_unit_rows_backward] = PHASE_GATE,
    [KERNEL_keep_losses] = PHASE_GATE,
    [KERNEL_balance] = PHASE_GATE,
    [KERNEL_balance_backward] = PHASE_GATE,
    [KERNEL_encode] = PHASE_ENCODE,
    [KERNEL_encode_backward] = PHASE_ENCODE,
    [KERNEL_decode] = PHASE_ENCODE,
    [KERNEL_decode_backward] = PHASE_ENCODE,
    [KERNEL_one_hot] = PHASE_ENCODE,
    [KERNEL_one_hot_backward] = PHASE_ENCODE,
    [KERNEL_nonzero] = PHASE_ENCODE,
    [KERNEL_move] = PHASE_ENCODE,
    [KERNEL_move_rows] = PHASE_ENCODE,
    [KERNEL_pack_choices] = PHASE_ENCODE,
    [KERNEL_recount] = PHASE_ENCODE,
    [KERNEL_reindex] = PHASE_ENCODE,
    [KERNEL_list_nodes] = PHASE_ENCODE,
    [KERNEL_label_rows] = PHASE_ENCODE,
    [KERNEL_collect_gates] = PHASE_ENCODE,
    [KERNEL_gemm] = PHASE_EXPERTS,
    [KERNEL_gemm_rows] = PHASE_EXPERTS,
    [KERNEL_activate] = PHASE_EXPERTS,
    [KERNEL_activate_backward] = PHASE_EXPERTS,
    [KERNEL_add_bias] = PHASE_EXPERTS,
    [KERNEL_sum_rows] = PHASE_EXPERTS,
    /* Products of experts without padding (kernels/sparse.h). */
    [KERNEL_esmm] = PHASE_EXPERTS,
    [KERNEL_estmm] = PHASE_EXPERTS,
    [KERNEL_ess] = PHASE_EXPERTS,
    [KERNEL_esfk] = PHASE_EXPERTS,
    [KERNEL_fill] = PHASE_OTHER,
    [MARK_INSIDE] = PHASE_INSIDE,
    [MARK_BETWEEN] = PHASE_BETWEEN,
};

enum phase phase_of(const struct mark *mark)
{
    return mark->purpose ? (enum phase)mark->purpose : usual_phases[mark->work];
}

/* Adds the times of all marks to their phases; must be called after a sync. */
static void add_phases(const struct marks *marks, struct phase_times *times)
{
    for (size_t i = 1; i <= marks->count; i++) {
        int64_t ns = marks_ns(marks, i);

        times->ns[phase_of(&marks->list[i])] += ns;
        times->ns[PHASE_TOTAL] += ns;
    }
}

int runner_phases(struct runner *runner, struct phase_times *out)
{
    struct engine *engine = runner->rig->engine;
    struct phase_times times = { { 0 } };
    struct measured measured;

    TRY(time_step(
        (struct step_request){ .runner = runner, .mode = STEP_COMPUTE, .marked = engine->compute },
        NULL, &measured));
    add_phases(&runner->marks, &times);
    TRY(time_step(
        (struct step_request){ .runner = runner, .mode = STEP_COMM, .marked = engine->comm }, NULL,
        &measured));
    add_phases(&runner->marks, &times);
    TRY(world_max(runner->rig->world, times.ns, PHASE_COUNT));
    times.ns[PHASE_TOTAL] = 0;
    for (int phase = PHASE_TOTAL + 1; phase < PHASE_COUNT; phase++)
        times.ns[PHASE_TOTAL] += times.ns[phase];
    *out = times;
    return OK;
}

int phases_spread(const struct phase_times *samples, size_t count, struct phase_spreads *out)
{
    int64_t *column = calloc(count, sizeof(*column));

    if (!column)
        return fail(ERR_NOMEM, "%zu samples of phases", count);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        for (size_t i = 0; i < count; i++)
            column[i] = samples[i].ns[phase];
        out->of[phase] = spread_of(column, count);
    }
    for (size_t i = 0; i < count; i++) {
        int64_t total = samples[i].ns[PHASE_TOTAL];
        int64_t exchanges = samples[i].ns[PHASE_BETWEEN] + samples[i].ns[PHASE_INSIDE];

        column[i] = total ? exchanges * 1000000 / total : 0;
    }
    out->exchanges_ppm = spread_of(column, count);
    free(column);
    return OK;
}

/* ---- warm-up */

int runner_warm(struct runner *runner, uint32_t steps)
{
    const struct rig *rig = runner->rig;
    const struct wire *wire = rig->engine->wire;
    struct step_request request = { .runner = runner, .mode = STEP_BOTH };
    struct measured measured;
    enum { SENT_BYTES, MESSAGES, KERNELS, EVENTS, EXCHANGES, HOST_NS, AGREED };
    int64_t agreed[AGREED];
    uint64_t sent_before, messages_before;

    for (uint32_t i = 1; i < steps; i++)
        TRY(time_step(request, NULL, &measured));
    sent_before = wire->sent_bytes;
    messages_before = wire->messages;
    TRY(time_step(request, NULL, &measured));
    agreed[SENT_BYTES] = (int64_t)(wire->sent_bytes - sent_before);
    agreed[MESSAGES] = (int64_t)(wire->messages - messages_before);
    agreed[KERNELS] = rig->issued.kernels;
    agreed[EVENTS] = rig->issued.events;
    agreed[EXCHANGES] = rig->issued.exchanges;
    agreed[HOST_NS] = rig->issued.host_ns;
    TRY(world_max(rig->world, agreed, AGREED));
    runner->warm = true;
    runner->sent_bytes = agreed[SENT_BYTES];
    runner->messages = agreed[MESSAGES];
    runner->issued = (struct issued){ .kernels = agreed[KERNELS],
                                      .events = agreed[EVENTS],
                                      .exchanges = agreed[EXCHANGES],
                                      .host_ns = agreed[HOST_NS] };
    return OK;
}
