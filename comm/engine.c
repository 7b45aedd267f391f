/* Opens a rank's device, wire and pair of streams, times what they do, and captures it as a graph.
 */
#include "engine.h"

#include "cluster.h"
#include "own_cores.h"
#include "status.h"
#include "world.h"

static int open_streams(struct engine *engine)
{
    TRY(stream_open(engine->device, &engine->compute));
    TRY(stream_open_urgent(engine->device, &engine->comm));
    if (!engine->device->asynchronous)
        return OK;
    TRY(event_open_dated(engine->device, &engine->begun));
    TRY(event_open(engine->device, &engine->joined));
    return event_open_dated(engine->device, &engine->ended);
}

int engine_open(struct world *world, const char *device_name, const char *wire_name,
                struct engine *out)
{
    struct engine engine = { 0 };
    int rc = world_settle(world, device_open(device_name, &engine.device));

    if (!rc)
        rc = wire_open(wire_name, world, engine.device, &engine.wire);
    if (rc) {
        device_close(engine.device);
        return rc;
    }
    /* Ranks agree before one of them closes anything: only all ranks together may close a wire. */
    rc = world_settle(world, open_streams(&engine));
    if (rc) {
        engine_close(&engine);
        return rc;
    }
    if (!engine.device->asynchronous)
        own_cores_bind(world_topology(world));
    *out = engine;
    return OK;
}

int engine_open_on(struct device *device, struct wire *wire, struct engine *out)
{
    struct engine engine = { .device = device, .wire = wire };
    int rc = open_streams(&engine);

    if (rc)
        engine_close(&engine);
    else
        *out = engine;
    return rc;
}

void engine_close(struct engine *engine)
{
    event_close(engine->ended);
    event_close(engine->joined);
    event_close(engine->begun);
    stream_close(engine->comm);
    stream_close(engine->compute);
    wire_close(engine->wire);
    device_close(engine->device);
    *engine = (struct engine){ 0 };
}

int engine_alloc(struct engine *engine, size_t bytes, void **out)
{
    size_t multiple = engine->wire->alloc_multiple_bytes, excess = multiple ? bytes % multiple : 0;

    if (excess && __builtin_add_overflow(bytes, multiple - excess, &bytes))
        return fail(ERR_NOMEM, "memory for a wire");
    return device_alloc(engine->device, bytes, out);
}

void engine_release(struct engine *engine, void *memory)
{
    if (memory && !wire_withdraw(engine->wire, memory))
        device_release(engine->device, memory);
}

/* Records the end of a stretch after the work of both streams, on the stream that the host syncs
 * last. */
static int record_end(struct engine *engine)
{
    if (!engine->ended)
        return OK;
    TRY(event_record(engine->joined, engine->comm));
    TRY(event_wait(engine->joined, engine->compute));
    return event_record(engine->ended, engine->compute);
}

int engine_sync(struct engine *engine)
{
    int joined = record_end(engine), wire = wire_wait(engine->wire, engine->comm);
    int compute = stream_sync(engine->compute), comm = stream_sync(engine->comm);

    /* The wire's error first: it explains the others. */
    return wire ? wire : (compute ? compute : (comm ? comm : joined));
}

int engine_begin(struct engine *engine)
{
    engine->begun_ns = device_now_ns(engine->device);
    if (!engine->begun)
        return OK;
    if (engine->holds)
        TRY(stream_hold(engine->compute));
    TRY(event_record(engine->begun, engine->compute));
    return event_wait(engine->begun, engine->comm);
}

void engine_hold_next(struct engine *engine)
{
    engine->holds = true;
}

bool engine_is_holding(const struct engine *engine)
{
    return engine->holds;
}

int engine_end_hold(struct engine *engine)
{
    engine->holds = false;
    return device_end_hold(engine->device);
}

int64_t engine_elapsed_ns(const struct engine *engine)
{
    return engine->begun ? event_ns(engine->ended) - event_ns(engine->begun)
                         : device_now_ns(engine->device) - engine->begun_ns;
}

int engine_refuse_steps(uint32_t steps_are, const char *kind, const char *name)
{
    bool graphs = steps_are == STEPS_GRAPHS;

    return fail(ERR_ARGUMENT,
                "--graphs %s: %s %s cannot %s; on device cuda one rank, wire nccl (a GPU for each "
                "rank) and --virtual-ranks can",
                graphs ? "on" : "ahead", kind, name,
                graphs ? "launch steps as graphs" : "queue a whole step before any of it runs");
}

/* A wire whose ranks meet on the host in the middle of an exchange can do neither. */
int engine_check_steps(const struct engine *engine, uint32_t steps_are)
{
    const struct device *device = engine->device;

    if (steps_are == STEPS_EAGER)
        return OK;
    if (steps_are == STEPS_GRAPHS ? !device_has_graphs(device) : !device_can_hold(device))
        return engine_refuse_steps(steps_are, "device", device->ops->name);
    return engine->wire->ops->graphs
               ? OK
               : engine_refuse_steps(steps_are, "wire", engine->wire->ops->name);
}

/* Begins and ends on the communication stream, which wire_wait() watches: so waiting for a replay
 * is like waiting for an exchange. */
static int issue_on_both(struct engine *engine, int (*issue)(void *self), void *self)
{
    TRY(event_record(engine->begun, engine->comm));
    TRY(event_wait(engine->begun, engine->compute));
    TRY(issue(self));
    TRY(event_record(engine->joined, engine->compute));
    return event_wait(engine->joined, engine->comm);
}

int engine_capture(struct engine *engine, int (*issue)(void *self), void *self, struct graph **out)
{
    struct graph *graph = NULL;
    int rc, ended, synced;

    TRY(graph_begin(engine->comm));
    rc = issue_on_both(engine, issue, self);
    ended = graph_end(engine->comm, &graph);
    synced = engine_sync(engine); /* reports a failure that a stream has stored */
    rc = rc ? rc : (synced ? synced : ended);
    if (rc)
        graph_close(graph);
    else
        *out = graph;
    return rc;
}

int engine_cool(struct engine *engine, void *cold)
{
    if (!cold)
        return OK;
    TRY(launch_fill(engine->compute, &(struct fill){ cold, engine->device->cache_bytes }));
    return stream_sync(engine->compute);
}
