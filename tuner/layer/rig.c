/* Sets up a layer with tokens, runs single steps of it, and compares their results with the
 * reference. */
#include "rig.h"

#include "arena.h"
#include "fault.h"
#include "host.h"
#include "rows.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

static uint64_t most_tokens(const struct rig *rig)
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
    rig->capacity = moe_capacity(factor, s->top_k, s->experts, most_tokens(rig), (uint64_t)needed);
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

/* Everybody's choices, `each` of every rank: padded to the most tokens for one gather.
 * Collective; the caller frees them. */
static int gather_choices(struct rig *rig, struct exec *exec, size_t each, int32_t **out)
{
    uint32_t ranks = rig->data.shape.ranks;
    size_t mine = (size_t)rig->layer->tokens * rig->data.shape.top_k;
    int32_t *send = calloc(each + 1, sizeof(*send)), *all = calloc(each * ranks + 1, sizeof(*all));
    int rc = send && all ? OK : fail(ERR_NOMEM, "the choices of all ranks");

    if (!rc)
        rc = device_download(rig->engine->device, send, exec->router.expert, mine * sizeof(*send));
    rc = world_settle(rig->world, rc);
    if (!rc)
        rc = world_gather(rig->world, send, all, each * sizeof(*send));
    free(send);
    if (rc)
        free(all);
    else
        *out = all;
    return rc;
}

static int make_reference(struct rig *rig, struct exec *exec)
{
    struct batch_of_tokens batch = { .ranks = (int)rig->data.shape.ranks,
                                     .tokens = rig->tokens,
                                     .each = most_tokens(rig) * rig->data.shape.top_k,
                                     .capacity = rig->capacity };
    int32_t *choices = NULL;
    int rc = gather_choices(rig, exec, batch.each, &choices);

    batch.expert = choices;
    if (!rc)
        rc = reference_open(&rig->data, &batch, rig->layer->rank, &rig->reference);
    free(choices);
    return world_settle(rig->world, rc);
}

/* What rounding may explain, as a share of the largest value: a few roundings to storage (more
 * where r partial results are stored and summed), and f32 sums over D and H terms. */
static double allowance(const struct rig *rig, const struct exec *exec)
{
    const struct moe_shape *s = &rig->data.shape;
    double storage = s->dtype == MOE_F32 ? 0x1p-24 : (s->dtype == MOE_BF16 ? 0x1p-9 : 0x1p-12);

    return (6 + 2 * sqrt(exec->geometry.copies * exec->geometry.shares)) * storage +
           8 * sqrt((double)s->model_dim + s->hidden_dim) * 0x1p-24;
}

struct comparison {
    const char *name;
    const void *got;
    const double *want;
    const double *size; /* what rounding is measured against; NULL: want */
    uint64_t count;
    uint32_t dtype;
};

static int compare(const struct rig *rig, const struct comparison *c, double allowed, double *worst)
{
    size_t bytes = c->count * dtype_bytes(c->dtype);
    void *raw = malloc(bytes + 1);
    float *got = malloc(c->count * sizeof(*got) + 1);
    double scale = 0, most = 0;
    int rc = raw && got ? OK : fail(ERR_NOMEM, "%zu bytes to compare", bytes);
    uint64_t at = 0;

    if (!rc)
        rc = device_download(rig->engine->device, raw, c->got, bytes);
    if (!rc)
        row_load(c->dtype, raw, 0, got, c->count);
    for (uint64_t i = 0; i < c->count && !rc; i++)
        scale = fmax(scale, fabs(c->size ? c->size[i] : c->want[i]));
    for (uint64_t i = 0; i < c->count && !rc; i++) {
        double error = fabs((double)got[i] - c->want[i]) / (allowed * scale);

        if (isnan(error)) /* 0/0: both are zero; everything else that is not a number is wrong */
            error = (double)got[i] == c->want[i] ? 0 : INFINITY;
        if (error > most) {
            most = error;
            at = i;
        }
    }
    if (most > 1)
        rc = fail(ERR_WRONG, "%s[%llu] is %.9g, should be %.9g: %.3g times what rounding explains",
                  c->name, (unsigned long long)at, (double)got[at], c->want[at], most);
    *worst = fmax(*worst, most);
    free(raw);
    free(got);
    return rc;
}

static int compare_all(struct rig *rig, struct exec *exec, double *worst)
{
    static const char *const names[TENSOR_COUNT] = { "dW1", "dW3", "db1", "dW2", "db2" };
    const struct reference *want = rig->reference;
    const struct moe_shape *s = &rig->data.shape;
    uint64_t own = (uint64_t)rig->layer->tokens * s->model_dim;
    double allowed = allowance(rig, exec);
    struct comparison y = { "y", rig->y, want->y, NULL, own, s->dtype };
    struct comparison grad_x = { "dx", rig->grad_x, want->grad_x, NULL, own, s->dtype };
    struct comparison gate = { "dgate",
                               rig->layer->grad_gate,
                               want->grad_gate,
                               want->grad_gate_size,
                               (uint64_t)s->experts * s->model_dim,
                               MOE_F32 };
    int64_t dropped = 0;

    TRY(router_dropped(&exec->router, rig->capacity, &dropped));
    if ((uint64_t)dropped != want->dropped)
        return fail(ERR_WRONG, "%lld choices dropped, should be %llu", (long long)dropped,
                    (unsigned long long)want->dropped);
    TRY(compare(rig, &y, allowed, worst));
    if (s->pass != MOE_TRAIN)
        return OK;
    TRY(compare(rig, &grad_x, allowed, worst));
    TRY(compare(rig, &gate, allowed, worst));
    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        struct comparison c = { names[i],           rig->layer->grad[i], want->grad[i],
                                want->grad_size[i], layer_slice(s, i),   s->dtype };

        TRY(compare(rig, &c, 2 * allowed, worst));
    }
    return OK;
}

int rig_check(struct rig *rig, struct exec *exec, double *worst)
{
    uint32_t wrong = 0x42424242; /* 48.6 as f32, two values of 48 or 3 in a half type */
    int64_t millionths;
    double mine = 0;
    int rc;

    TRY(world_settle(rig->world, rig_step(rig, exec)));
    if (!rig->reference)
        TRY(make_reference(rig, exec));
    if (rig->layer->tokens && fault_hit("wrong"))
        device_upload(rig->engine->device, rig->y, &wrong, sizeof(wrong));
    rc = compare_all(rig, exec, &mine);
    millionths = (int64_t)(fmin(mine, 1e9) * 1e6);
    TRY(world_max(rig->world, &millionths, 1));
    *worst = (double)millionths * 1e-6;
    return world_settle(rig->world, rc);
}

int rig_dropped(struct rig *rig, struct exec *exec, int64_t *dropped)
{
    TRY(world_settle(rig->world, router_dropped(&exec->router, rig->capacity, dropped)));
    return world_sum(rig->world, dropped, 1);
}
