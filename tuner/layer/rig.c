/* Sets up the layers of a step with random tokens, and runs single steps. */
#include "rig.h"

#include "arena.h"
#include "fault.h"
#include "host.h"
#include "load.h"
#include "node_rows.h"
#include "phase.h"
#include "random.h"
#include "relay.h"
#include "rows.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t rig_most_tokens(const struct rig *rig)
{
    uint32_t most_tokens = 0;

    for (uint32_t q = 0; q < rig->data.shape.ranks; q++)
        most_tokens = rig->parts.tokens[q] > most_tokens ? rig->parts.tokens[q] : most_tokens;
    return most_tokens;
}

/* The largest side of attention's matrices: large enough for a device's full speed, and small
 * enough for its memory. */
enum { SIDE_MOST = 1024 };

/* Cuts the arena into the rows and gradients of all layers.  It runs twice: first without
 * rig->rows, when it only adds up sizes, and then with real memory. */
static void layout(struct rig *rig, uint32_t compute_type, struct arena *arena)
{
    const struct moe_shape *s = &rig->data.shape;
    uint64_t elements = (uint64_t)rig->layer->tokens * s->model_dim;
    size_t width = dtype_bytes(s->dtype);
    struct attention *attention = &rig->attention;
    double operations = rig->data.between * 1e9; /* of one forward pass of one layer */
    double side = ceil(cbrt(operations / 2));

    for (uint32_t i = 0; i <= layer_count(s); i++) {
        uint64_t n = i == layer_count(s) ? size_product(elements, shape_result_rows(s)) : elements;
        void *row = arena_alloc(arena, n, width), *grad = arena_alloc(arena, n, width);

        if (!rig->rows)
            continue;
        rig->rows[i] = row;
        rig->grads[i] = grad;
    }
    if (s->combine == MOE_COMBINE_CHOICES && s->pass == MOE_TRAIN)
        rig->losses = arena_alloc(arena, (uint64_t)rig->layer->tokens * s->top_k, sizeof(float));
    *attention = (struct attention){ .operations = operations, .dtype = compute_type };
    if (!(operations > 0))
        return;
    attention->side = side < SIDE_MOST ? (uint64_t)side : SIDE_MOST;
    attention->a = arena_alloc(arena, attention->side * attention->side, dtype_bytes(compute_type));
    attention->b = arena_alloc(arena, attention->side * attention->side, dtype_bytes(compute_type));
    attention->c = arena_alloc(arena, attention->side * attention->side, dtype_bytes(compute_type));
}

size_t rig_bytes(const struct data *data, uint32_t tokens, uint32_t compute_type)
{
    struct layer layer = { .tokens = tokens };
    struct rig rig = { .layer = &layer, .data = *data };
    struct arena arena = { 0 };

    layout(&rig, compute_type, &arena);
    return arena.used_bytes;
}

/* Fills attention's matrices with random numbers, because on some processors products of zeros or
 * of uninitialised numbers take another time. */
static int fill_attention(const struct attention *attention, struct device *device)
{
    uint64_t elements = attention->side * attention->side;
    float *values = malloc(elements * sizeof(*values) + 1);
    void *stored = malloc(elements * dtype_bytes(attention->dtype) + 1);
    int rc = values && stored ? OK : fail(ERR_NOMEM, "the matrices of --between");

    for (uint64_t i = 0; i < elements && !rc; i++)
        values[i] = random_unit(1, i);
    if (!rc)
        row_store(attention->dtype, stored, 0, values, elements);
    if (!rc && elements)
        rc = device_upload(device, attention->a, stored, elements * dtype_bytes(attention->dtype));
    if (!rc && elements)
        rc = device_upload(device, attention->b, stored, elements * dtype_bytes(attention->dtype));
    free(values);
    free(stored);
    return rc;
}

/* The local part of rig_open(): allocates and fills everything. */
static int set_up_layers(struct rig *rig)
{
    struct device *device = rig->engine->device;
    const struct data *data = &rig->data;
    uint32_t layers = layer_count(&data->shape);
    uint32_t compute_type = device_compute_type(device, data->shape.dtype);
    struct arena arena;
    size_t rows;

    TRY(layer_open(device, &data->shape, world_topology(rig->world)->rank, &rig->parts,
                   &rig->layer));
    for (uint32_t i = 0; i < layers; i++) {
        rig->layer[i].load = data->load;
        rig->layer[i].balance = data->balance;
    }
    rows = rig_bytes(data, rig->layer->tokens, compute_type);
    rig->memory_bytes = rig->layer->memory_bytes + rows + device->cache_bytes;
    TRY(device_alloc(device, rows, &rig->memory));
    rig->rows = calloc(2 * ((size_t)layers + 1), sizeof(*rig->rows));
    if (!rig->rows)
        return fail(ERR_NOMEM, "rows of %u layers", layers);
    rig->grads = rig->rows + layers + 1;
    arena = (struct arena){ .base = rig->memory };
    layout(rig, compute_type, &arena);
    rig->x = rig->rows[0];
    rig->y = rig->rows[layers];
    rig->grad_x = rig->grads[0];
    rig->grad_y = rig->grads[layers];
    rig->layer->losses = rig->losses; /* only a single layer has losses */
    if (device->cache_bytes)
        TRY(device_alloc(device, device->cache_bytes, &rig->cold));
    if (device->modelled)
        return OK;
    TRY(data_fill_layer(data, rig->layer));
    TRY(fill_attention(&rig->attention, device));
    if (rig->losses)
        TRY(data_fill_losses(data, rig->layer, rig->losses));
    TRY(data_fill_rows(data, rig->layer, data_token, rig->x));
    return data_fill_rows(data, rig->layer, data_grad, rig->grad_y);
}

/* The largest result of find_need() over all ranks and all recorded steps. */
static int agree_on_largest(struct rig *rig,
                            int (*find_need)(const struct layer *, struct engine *, const void *,
                                             int64_t *),
                            int64_t *most)
{
    int64_t needed;
    int rc = OK;

    *most = 0;
    /* Backwards, so that the rig is left at step 0. */
    for (uint32_t step = load_step_count(rig->data.load); step-- > 0;) {
        TRY(rig_replay(rig, step));
        rc = find_need(rig->layer, rig->engine, rig->x, &needed);
        TRY(world_settle(rig->world, rc));
        *most = needed > *most ? needed : *most;
    }
    return world_max(rig->world, most, 1);
}

int rig_open(struct world *world, struct engine *engine, const struct data *data,
             const uint32_t *tokens, double factor, struct rig **out)
{
    const struct moe_shape *s = &data->shape;
    struct moe_plan relayed = { .struct_size = sizeof(relayed), .r = 1, .d = 1, .a = MOE_A2A_RAIL };
    struct rig *rig = calloc(1, sizeof(*rig));
    struct parts parts = { 0 };
    int64_t needed = 0, node_need = 0;
    int rc = rig ? parts_open(&data->shape, data->speeds, &parts) : fail(ERR_NOMEM, "a rig");

    rc = world_settle(world, rc);
    if (rc) {
        free(rig);
        parts_close(&parts);
        return rc;
    }
    for (uint32_t q = 0; tokens && q < data->shape.ranks; q++)
        parts.tokens[q] = tokens[q];
    *rig = (struct rig){ .world = world, .engine = engine, .data = *data, .parts = parts };
    TRY_OUT(world_settle(world, set_up_layers(rig)));
    if (factor <= 0 && engine->device->modelled)
        needed = (int64_t)load_most(data->load);
    else if (factor <= 0)
        TRY_OUT(agree_on_largest(rig, router_needed, &needed));
    rig->capacity =
        moe_capacity(factor, s->top_k, s->experts, rig_most_tokens(rig), (uint64_t)needed);
    /* The need of a node with a=rail.  With several layers, only the tokens of the first one are
     * known before a step. */
    if (layer_count(s) == 1 && plan_legal(&relayed, s)) {
        if (engine->device->modelled)
            node_need = (int64_t)shape_node_need(s, rig_most_tokens(rig));
        else
            TRY_OUT(agree_on_largest(rig, relay_need, &node_need));
        rig->layer->node_need = (uint64_t)node_need;
    }
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
    judge_close(rig->reference);
    judge_close(rig->spot);
    device_release(rig->engine->device, rig->cold);
    device_release(rig->engine->device, rig->memory);
    layer_close(rig->layer);
    free(rig->rows);
    free(rig->capacities);
    parts_close(&rig->parts);
    free(rig);
}

void rig_forget_reference(struct rig *rig)
{
    judge_close(rig->reference);
    rig->reference = NULL;
}

struct capacities rig_capacities(const struct rig *rig)
{
    return (struct capacities){ rig->capacity, rig->capacities };
}

void rig_set_capacity(struct rig *rig, uint64_t capacity)
{
    if (rig->capacity == capacity && !rig->capacities)
        return;
    rig_forget_reference(rig);
    free(rig->capacities);
    rig->capacities = NULL;
    rig->capacity = capacity;
}

int rig_set_capacities(struct rig *rig, const uint64_t *rows)
{
    uint32_t experts = rig->data.shape.experts;
    struct capacities capacities = capacities_of(rows, experts);
    uint64_t *copy = NULL;

    if (capacities.rows) {
        copy = calloc(experts, sizeof(*copy));
        if (!copy)
            return fail(ERR_NOMEM, "capacities of %u experts", experts);
        memcpy(copy, rows, experts * sizeof(*copy));
    }
    rig_forget_reference(rig);
    free(rig->capacities);
    rig->capacities = copy;
    rig->capacity = capacities.most;
    return OK;
}

int rig_replay(struct rig *rig, uint32_t step)
{
    int rc = OK;

    if (rig->data.replayed == step)
        return OK;
    rig->data.replayed = step;
    rig_forget_reference(rig);
    if (!rig->engine->device->modelled)
        rc = data_fill_gate(&rig->data, rig->layer);
    return world_settle(rig->world, rc);
}

int rig_exec(struct rig *rig, const struct moe_plan *plan, struct exec **out)
{
    const struct capacities capacities = rig_capacities(rig);
    struct exec *exec = NULL;
    int rc;

    for (uint32_t i = 0; i < layer_count(&rig->data.shape); i++) {
        rig->layer[i].routes = rig->routes;
        rig->layer[i].baseline = rig->baseline;
    }
    rc = world_settle(rig->world, exec_open(rig->engine, rig->layer, plan, &capacities, &exec));

    if (rc) {
        exec_close(exec);
        return rc;
    }
    *out = exec;
    return OK;
}

static int copy_choices(const struct rig *rig, const struct exec *fresh, struct exec *known)
{
    size_t n = (size_t)rig->layer->tokens * rig->data.shape.top_k;
    int32_t *expert = malloc(n * sizeof(*expert) + 1);
    int rc = expert ? OK : fail(ERR_NOMEM, "%zu choices", n);

    if (!rc)
        rc =
            device_download(rig->engine->device, expert, fresh->router.expert, n * sizeof(*expert));
    if (!rc)
        rc = router_set_known_routes(&known->router, expert);
    free(expert);
    return rc;
}

int rig_set_known_routes(struct rig *rig, struct exec *fresh, struct exec *known)
{
    int rc = OK;

    for (uint32_t i = 0; i < layer_count(&rig->data.shape) && !rc; i++)
        rc = rig->engine->device->modelled ? OK : copy_choices(rig, &fresh[i], &known[i]);
    return world_settle(rig->world, rc);
}

int rig_route(struct rig *rig, struct exec *fresh)
{
    int rc = OK, synced;

    for (uint32_t i = 0; i < layer_count(&rig->data.shape) && !rc; i++)
        rc = router_forward(&fresh[i].router, rig->engine, rig->rows[i], rig->capacity);
    synced = engine_sync(rig->engine);
    return rc ? rc : synced;
}

static int run_attention(const struct attention *attention, struct stream *stream, bool backward)
{
    uint64_t side = attention->side, rows, part;
    int rc = OK;

    if (!side)
        return OK;
    rows = (uint64_t)ceil((backward ? 2 : 1) * attention->operations /
                          (2.0 * (double)side * (double)side));
    stream->purpose = PHASE_OTHER;
    for (; rows && !rc; rows -= part) {
        part = rows < side ? rows : side;
        rc = launch_gemm(stream, &(struct gemm){ .dtype = attention->dtype,
                                                 .batch = 1,
                                                 .m = part,
                                                 .n = side,
                                                 .k = side,
                                                 .a = attention->a,
                                                 .b = attention->b,
                                                 .c = attention->c });
    }
    stream->purpose = 0;
    return rc;
}

/* The argument of issue_step(). */
struct rig_step {
    struct rig *rig;
    struct exec *exec;
};

/* Issues a step.  The products in place of attention come before each layer, and hide the gather of
 * its weights; in the backward pass, they hide the exchange of the weights' gradients. */
static int issue_step(void *self)
{
    const struct rig_step *s = self;
    uint32_t count = layer_count(&s->rig->data.shape);

    TRY(exec_fetch(&s->exec[0]));
    for (uint32_t i = 0; i < count; i++) {
        TRY(run_attention(&s->rig->attention, s->rig->engine->compute, false));
        TRY(exec_forward(&s->exec[i], s->rig->rows[i], s->rig->rows[i + 1]));
        if (i + 1 < count)
            TRY(exec_fetch(&s->exec[i + 1]));
    }
    for (uint32_t i = s->rig->data.shape.pass == MOE_TRAIN ? count : 0; i-- > 0;) {
        TRY(exec_backward(&s->exec[i], s->rig->grads[i + 1], s->rig->grads[i]));
        TRY(run_attention(&s->rig->attention, s->rig->engine->compute, true));
        TRY(exec_finish(&s->exec[i]));
    }
    return OK;
}

int rig_capture(struct rig *rig, struct exec *exec, struct graph **out)
{
    struct graph *graph = NULL;
    int rc = engine_capture(rig->engine, issue_step, &(struct rig_step){ rig, exec }, &graph);

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
                         : issue_step(&(struct rig_step){ rig, exec }),
        synced;

    now = issued_so_far(rig);
    if (engine_is_holding(
            rig->engine)) { /* no rank begins before all ranks have queued their step */
        if (fault_hit("late"))
            usleep(HOLD_MOST_NS / 1000 * 2);
        rc = world_settle(rig->world, rc);
        rig->late = engine_end_hold(rig->engine) == UNSUPPORTED;
    }
    rig->issued = (struct issued){ now.kernels - before.kernels, now.events - before.events,
                                   now.exchanges - before.exchanges, now.host_ns - before.host_ns };
    synced = engine_sync(rig->engine);
    return rc ? rc : synced;
}

int rig_balance(struct rig *rig, struct exec *exec, double *loss)
{
    static const double unit = 1e-9; /* the world adds up integers */
    uint32_t count = layer_count(&rig->data.shape);
    int64_t sum = 0;
    double layer_loss;
    int rc = OK;

    for (uint32_t i = 0; i < count && !rc; i++) {
        rc = router_balance(&exec[i].router, &layer_loss);
        if (!rc && !(fabs(layer_loss) < 1e6))
            rc = fail(ERR_WRONG, "the balance loss is %g", layer_loss);
        sum += rc ? 0 : llround(layer_loss / unit);
    }
    TRY(world_settle(rig->world, rc));
    TRY(world_sum(rig->world, &sum, 1));
    *loss = (double)sum * unit / count / rig->data.shape.ranks;
    return OK;
}

int rig_dropped(struct rig *rig, struct exec *exec, int64_t *dropped)
{
    const struct capacities capacities = rig_capacities(rig);
    int64_t layer_dropped;
    int rc = OK;

    *dropped = 0;
    for (uint32_t i = 0; i < layer_count(&rig->data.shape) && !rc; i++) {
        rc = router_dropped(&exec[i].router, &capacities, &layer_dropped);
        *dropped += rc ? 0 : layer_dropped;
    }
    TRY(world_settle(rig->world, rc));
    return world_sum(rig->world, dropped, 1);
}
