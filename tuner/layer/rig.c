/* Sets up a layer with tokens, and runs single steps of it. */
#include "rig.h"

#include "arena.h"
#include "host.h"
#include "shape.h"
#include "status.h"

#include <stdlib.h>

uint64_t rig_most_tokens(const struct rig *rig)
{
    uint32_t most = 0;

    for (uint32_t q = 0; q < rig->data.shape.ranks; q++)
        most = rig->tokens[q] > most ? rig->tokens[q] : most;
    return most;
}

static void layout(struct rig *rig, struct arena *arena)
{
    uint64_t elements = (uint64_t)rig->layer->tokens * rig->data.shape.model_dim;
    size_t width = dtype_bytes(rig->data.shape.dtype);

    rig->x = arena_take(arena, elements, width);
    rig->y = arena_take(arena, elements, width);
    rig->grad_y = arena_take(arena, elements, width);
    rig->grad_x = arena_take(arena, elements, width);
}

size_t rig_bytes(const struct moe_shape *shape, uint32_t tokens)
{
    struct layer layer = { .tokens = tokens };
    struct rig rig = { .layer = &layer, .data.shape = *shape };
    struct arena arena = { 0 };

    layout(&rig, &arena);
    return arena.used_bytes;
}

static int set_up(struct rig *rig)
{
    int rank = world_topology(rig->world)->rank;
    struct arena arena = { 0 };
    size_t rows;

    TRY(layer_open(rig->engine->device, &rig->data.shape, rank, rig->tokens[rank], &rig->layer));
    rows = rig_bytes(&rig->data.shape, rig->tokens[rank]);
    rig->memory_bytes = rig->layer->memory_bytes + rows + rig->engine->device->cache_bytes;
    TRY(device_alloc(rig->engine->device, rows, &rig->memory));
    arena = (struct arena){ .base = rig->memory };
    layout(rig, &arena);
    if (rig->engine->device->cache_bytes)
        TRY(device_alloc(rig->engine->device, rig->engine->device->cache_bytes, &rig->cold));
    if (rig->engine->device->modelled)
        return OK;
    TRY(data_fill_layer(&rig->data, rig->layer));
    TRY(data_fill_rows(&rig->data, rig->layer, data_token, rig->x));
    return data_fill_rows(&rig->data, rig->layer, data_grad, rig->grad_y);
}

static int agree_capacity(struct rig *rig, double factor)
{
    const struct moe_shape *s = &rig->data.shape;
    int64_t needed = 0;
    int rc = OK;

    if (factor <= 0) {
        rc = router_needed(rig->layer, rig->engine, rig->x, &needed);
        TRY(world_settle(rig->world, rc));
        TRY(world_max(rig->world, &needed, 1));
    }
    rig->capacity =
        moe_capacity(factor, s->top_k, s->experts, rig_most_tokens(rig), (uint64_t)needed);
    return OK;
}

int rig_open(struct world *world, struct engine *engine, const struct data *data,
             const uint32_t *tokens, double factor, struct rig **out)
{
    uint32_t ranks = data->shape.ranks;
    struct rig *rig = calloc(1, sizeof(*rig));
    uint32_t *mine = calloc(ranks, sizeof(*mine));
    int rc = world_settle(world, rig && mine ? OK : fail(ERR_NOMEM, "a rig"));

    if (rc) {
        free(rig);
        free(mine);
        return rc;
    }
    for (uint32_t q = 0; q < ranks; q++)
        mine[q] = tokens ? tokens[q] : data->shape.tokens;
    *rig = (struct rig){ .world = world, .engine = engine, .data = *data, .tokens = mine };
    TRY_OUT(world_settle(world, set_up(rig)));
    TRY_OUT(agree_capacity(rig, factor));
    *out = rig;
    return OK;
out:
    rig_close(rig);
    return rc;
}

void rig_close(struct rig *rig)
{
    if (!rig)
        return;
    reference_close(rig->reference);
    spot_close(rig->spot);
    device_release(rig->engine->device, rig->cold);
    device_release(rig->engine->device, rig->memory);
    layer_close(rig->layer);
    free(rig->tokens);
    free(rig);
}

void rig_set_capacity(struct rig *rig, uint64_t capacity)
{
    if (rig->capacity == capacity)
        return;
    reference_close(rig->reference);
    rig->reference = NULL;
    rig->capacity = capacity;
}

int rig_exec(struct rig *rig, const struct moe_plan *plan, struct exec **out)
{
    struct exec *exec = NULL;
    int rc =
        world_settle(rig->world, exec_open(rig->engine, rig->layer, plan, rig->capacity, &exec));

    if (rc) {
        exec_close(exec);
        return rc;
    }
    *out = exec;
    return OK;
}

struct step {
    struct rig *rig;
    struct exec *exec;
};

static int issue(void *self)
{
    const struct step *s = self;
    struct rig *rig = s->rig;

    TRY(exec_forward(s->exec, rig->x, rig->y));
    return rig->data.shape.pass == MOE_TRAIN ? exec_backward(s->exec, rig->grad_y, rig->grad_x)
                                             : OK;
}

int rig_capture(struct rig *rig, struct exec *exec, struct graph **out)
{
    struct graph *graph = NULL;
    int rc = engine_capture(rig->engine, issue, &(struct step){ rig, exec }, &graph);

    rc = world_settle(rig->world, rc);
    if (rc)
        graph_close(graph);
    else
        *out = graph;
    return rc;
}

static struct issued issued_so_far(const struct rig *rig)
{
    const struct device *device = rig->engine->device;

    return (struct issued){ (int64_t)device->kernels, (int64_t)device->events,
                            (int64_t)rig->engine->wire->exchanges, host_clock_ns() };
}

int rig_step(struct rig *rig, struct exec *exec)
{
    struct issued before = issued_so_far(rig), now;
    int rc = exec->graph ? graph_launch(exec->graph, rig->engine->comm)
                         : issue(&(struct step){ rig, exec }),
        synced;

    now = issued_so_far(rig);
    rig->issued = (struct issued){ now.kernels - before.kernels, now.events - before.events,
                                   now.exchanges - before.exchanges, now.host_ns - before.host_ns };
    synced = engine_sync(rig->engine);
    return rc ? rc : synced;
}

int rig_dropped(struct rig *rig, struct exec *exec, int64_t *dropped)
{
    TRY(world_settle(rig->world, router_dropped(&exec->router, rig->capacity, dropped)));
    return world_sum(rig->world, dropped, 1);
}
