/* Sends tokens, computes on all of them, and sums up what comes back, chunk by chunk. */
#include "tour.h"

#include "shape.h"
#include "status.h"

static uint32_t count_of(const struct tour *x)
{
    return x->geometry->chunks;
}

static bool trains(const struct tour *x)
{
    return x->layer->shape.pass == MOE_TRAIN;
}

static size_t row_bytes(const struct tour *x)
{
    return x->layer->shape.model_dim * dtype_bytes(x->layer->shape.dtype);
}

static struct parts_exchange exchange_of(const struct tour *x, uint32_t i, size_t unit, void *whole)
{
    const struct parts *parts = x->layer->parts;

    return (struct parts_exchange){ .of_ranks = parts->tokens,
                                    .ranks = parts->ranks,
                                    .self = (uint32_t)x->layer->rank,
                                    .piece = i,
                                    .pieces = count_of(x),
                                    .unit = unit,
                                    .whole = whole };
}

/* ---- Layout */

/* No expert has more rows of a chunk: each rank kept at most c of its own. */
static uint64_t rows_most(const struct tour *x, uint32_t i)
{
    const struct parts *parts = x->layer->parts;
    uint64_t sum = 0;

    for (uint32_t q = 0; q < parts->ranks; q++) {
        uint64_t tokens = part_piece(parts->tokens[q], i, count_of(x));

        sum += tokens < x->geometry->capacity ? tokens : x->geometry->capacity;
    }
    return sum;
}

static void layout_sizes(struct tour *x, uint32_t i)
{
    const struct parts *parts = x->layer->parts;
    struct tour_chunk *c = &x->chunks[i];
    struct parts_exchange m = exchange_of(x, i, 0, NULL);

    c->all = (uint32_t)parts_sum(parts->tokens, parts->ranks, i, count_of(x));
    c->own = part_piece(x->layer->tokens, i, count_of(x));
    c->before = parts_before(&m);
    c->from = part_cut(x->layer->tokens, i, count_of(x));
}

static void layout_work(struct tour *x, uint32_t i, float *scratch, struct arena *arena)
{
    const struct capacities capacities = uneven_capacities(x->uneven, x->geometry);
    struct tour_chunk *c = &x->chunks[i];
    struct sparse_work *w = &c->work;

    sparse_work_shape(w, x->layer, x->dtype, c->all, x->layer->hidden, rows_most(x, i));
    w->at.expected = sparse_work_rows(x->layer, c->all, &capacities);
    w->stream = x->stream;
    w->expert = c->expert;
    w->slot = c->slot;
    w->needed = c->needed;
    w->gate = c->gate;
    w->grad_gate = c->partial_gate;
    w->later_tokens = i > 0;
    w->first = arena_take(arena, (uint64_t)w->at.experts + 1, sizeof(*w->first));
    w->choice = arena_take(arena, kept_most(&w->at), sizeof(*w->choice));
    w->at.first = w->first;
    w->at.choice = w->choice;
    w->at.scratch = scratch;
    sparse_work_weights(w, x->weights, 0, x->geometry->slice == 0);
    sparse_work_layout(w, arena);
}

static void layout_rows(struct tour *x, uint32_t i, struct arena *arena)
{
    struct tour_chunk *c = &x->chunks[i];
    uint64_t ranks = x->layer->parts->ranks, choices = (uint64_t)c->all * x->layer->shape.top_k;
    uint64_t own = size_product(ranks, (uint64_t)c->own * x->layer->shape.top_k);

    c->x = arena_take(arena, c->all, row_bytes(x));
    c->partial = arena_take(arena, c->all, row_bytes(x));
    c->parts = arena_take(arena, size_product(ranks, c->own), row_bytes(x));
    c->choices = arena_take(arena, choices, sizeof(*c->choices));
    c->expert = arena_take(arena, choices, sizeof(*c->expert));
    c->slot = arena_take(arena, choices, sizeof(*c->slot));
    c->gate = arena_take(arena, choices, sizeof(*c->gate));
    c->needed = arena_take(arena, x->layer->shape.experts, sizeof(*c->needed));
    if (!trains(x))
        return;
    c->grad = arena_take(arena, c->all, row_bytes(x));
    c->partial_gate = arena_take(arena, choices, sizeof(*c->partial_gate));
    c->parts_gate = arena_take(arena, own, sizeof(*c->parts_gate));
}

void tour_layout(struct tour *x, struct arena *arena)
{
    const struct moe_shape *s = &x->layer->shape;
    float *scratch = NULL;
    uint32_t most = 0;

    if (x->dtype == MOE_F32) /* also where it is not used: a plan takes the same on every device */
        scratch = arena_take(arena, kept_scratch_bytes(x->layer->hidden, s->model_dim), 1);
    for (uint32_t i = 0; i < count_of(x); i++) {
        layout_sizes(x, i);
        layout_rows(x, i, arena);
        layout_work(x, i, scratch, arena);
        most = x->chunks[i].all > most ? x->chunks[i].all : most;
    }
    if (s->dtype != MOE_F32)
        x->sums = arena_take(arena, size_product(most, s->model_dim), sizeof(*x->sums));
}

/* ---- Open and close */

static int add_gather(const struct tour *x, uint32_t i, size_t unit, void *whole,
                      struct batch *batch)
{
    struct parts_exchange m = exchange_of(x, i, unit, whole);

    return parts_gather(&m, batch);
}

static int add_scatter(const struct tour *x, uint32_t i, size_t unit, void *whole, void *parts,
                       struct batch *batch)
{
    struct parts_exchange m = exchange_of(x, i, unit, whole);

    m.own = parts;
    m.own_step = x->chunks[i].own * unit;
    return parts_scatter(&m, batch);
}

static int open_backward(struct tour *x, uint32_t i, struct engine *engine)
{
    struct tour_chunk *c = &x->chunks[i];
    size_t gates = x->layer->shape.top_k * sizeof(*c->partial_gate);

    TRY(add_gather(x, i, row_bytes(x), c->grad, &c->go_back));
    TRY(add_scatter(x, i, row_bytes(x), c->partial, c->parts, &c->come_back));
    TRY(add_scatter(x, i, gates, c->partial_gate, c->parts_gate, &c->come_back));
    TRY(wire_reserve(engine->wire, &c->go_back));
    return wire_reserve(engine->wire, &c->come_back);
}

static int open_chunk(struct tour *x, uint32_t i, struct engine *engine)
{
    struct tour_chunk *c = &x->chunks[i];

    TRY(event_open(engine->device, &c->arrived));
    TRY(event_open(engine->device, &c->done));
    TRY(event_open(engine->device, &c->returned));
    TRY(add_gather(x, i, row_bytes(x), c->x, &c->go));
    TRY(add_gather(x, i, x->layer->shape.top_k * sizeof(*c->choices), c->choices, &c->go));
    TRY(add_scatter(x, i, row_bytes(x), c->partial, c->parts, &c->come));
    TRY(wire_reserve(engine->wire, &c->go));
    TRY(wire_reserve(engine->wire, &c->come));
    return trains(x) ? open_backward(x, i, engine) : OK;
}

int tour_open(struct tour *x, struct engine *engine)
{
    TRY(event_open(engine->device, &x->packed));
    for (uint32_t i = 0; i < count_of(x); i++)
        TRY(open_chunk(x, i, engine));
    return OK;
}

void tour_close(struct tour *x)
{
    for (int i = 0; i < PLAN_MAX_D; i++) {
        struct tour_chunk *c = &x->chunks[i];

        batch_free(&c->go);
        batch_free(&c->come);
        batch_free(&c->go_back);
        batch_free(&c->come_back);
        event_close(c->arrived);
        event_close(c->done);
        event_close(c->returned);
    }
    event_close(x->packed);
    *x = (struct tour){ 0 };
}

/* ---- Sending */

/* This rank's rows of D to their place among those of all. */
static int put(const struct tour *x, const struct tour_chunk *c, const void *rows, char *all)
{
    const struct moe_shape *s = &x->layer->shape;

    if (!c->own)
        return OK;
    return launch_move(x->stream,
                       &(struct move){ .from_type = s->dtype,
                                       .to_type = s->dtype,
                                       .block = (uint64_t)c->own * s->model_dim,
                                       .dims = { 1, 1, 1 },
                                       .terms = 1,
                                       .from = (const char *)rows + c->from * row_bytes(x),
                                       .to = all + c->before * row_bytes(x) });
}

static int put_choices(const struct tour *x, const struct tour_chunk *c)
{
    uint64_t k = x->layer->shape.top_k, from = c->from * k;

    return launch_pack_choices(x->stream,
                               &(struct pack_choices){ .choices = c->own * k,
                                                       .expert = x->router->expert + from,
                                                       .slot = x->router->slot + from,
                                                       .gate = x->router->gate + from,
                                                       .to = c->choices + c->before * k });
}

static int exchange(struct engine *engine, const struct batch *batch, struct event *event)
{
    TRY(wire_exchange(engine->wire, engine->comm, batch));
    return event_record(event, engine->comm);
}

/* What the compute stream has put in place leaves, all of it. */
static int depart(struct tour *x, struct engine *engine, bool back)
{
    TRY(event_record(x->packed, engine->compute));
    TRY(event_wait(x->packed, engine->comm));
    for (uint32_t i = 0; i < count_of(x); i++) {
        struct tour_chunk *c = &x->chunks[i];

        TRY(exchange(engine, back ? &c->go_back : &c->go, c->arrived));
    }
    return OK;
}

/* f32 sums of a chunk as they are sent. */
static float *sums_of(const struct tour *x, const struct tour_chunk *c)
{
    return x->sums ? x->sums : (float *)c->partial;
}

static int give_back(struct tour *x, struct tour_chunk *c, struct engine *engine, bool back)
{
    const struct moe_shape *s = &x->layer->shape;

    if (x->sums && c->all)
        TRY(launch_move(x->stream, &(struct move){ .from_type = MOE_F32,
                                                   .to_type = s->dtype,
                                                   .block = (uint64_t)c->all * s->model_dim,
                                                   .dims = { 1, 1, 1 },
                                                   .terms = 1,
                                                   .from = x->sums,
                                                   .to = c->partial }));
    TRY(event_record(c->done, engine->compute));
    TRY(event_wait(c->done, engine->comm));
    return exchange(engine, back ? &c->come_back : &c->come, c->returned);
}

/* Rows of `width` that all ranks computed for this rank's tokens, summed. */
static int add_parts(const struct tour *x, const struct tour_chunk *c, uint64_t width,
                     uint32_t from_type, const void *parts, uint32_t to_type, void *to)
{
    uint64_t elements = c->own * width;

    if (!elements)
        return OK;
    return launch_move(x->stream,
                       &(struct move){ .from_type = from_type,
                                       .to_type = to_type,
                                       .block = elements,
                                       .dims = { 1, 1, 1 },
                                       .terms = x->layer->parts->ranks,
                                       .term_stride = 1,
                                       .from = parts,
                                       .to = (char *)to + c->from * width * dtype_bytes(to_type) });
}

/* ---- Forward */

static int forward_chunk(struct tour *x, struct tour_chunk *c, struct engine *engine)
{
    TRY(event_wait(c->arrived, engine->compute));
    TRY(launch_recount(x->stream, &(struct recount){ .tokens = c->all,
                                                     .experts = x->layer->shape.experts,
                                                     .top_k = x->layer->shape.top_k,
                                                     .from = c->choices,
                                                     .expert = c->expert,
                                                     .gate = c->gate,
                                                     .slot = c->slot,
                                                     .needed = c->needed }));
    TRY(sparse_work_sort(&c->work));
    TRY(sparse_work_forward(&c->work, c->x, sums_of(x, c)));
    return give_back(x, c, engine, false);
}

int tour_forward(struct tour *x, struct engine *engine, const void *tokens, void *y)
{
    const struct moe_shape *s = &x->layer->shape;

    for (uint32_t i = 0; i < count_of(x); i++) {
        TRY(put(x, &x->chunks[i], tokens, x->chunks[i].x));
        TRY(put_choices(x, &x->chunks[i]));
    }
    TRY(depart(x, engine, false));
    TRY(weights_ready(x->weights, engine, 0));
    for (uint32_t i = 0; i < count_of(x); i++)
        TRY(forward_chunk(x, &x->chunks[i], engine));
    for (uint32_t i = 0; i < count_of(x); i++) {
        TRY(event_wait(x->chunks[i].returned, engine->compute));
        TRY(add_parts(x, &x->chunks[i], s->model_dim, s->dtype, x->chunks[i].parts, s->dtype, y));
    }
    return OK;
}

/* ---- Backward */

static int backward_chunk(struct tour *x, struct tour_chunk *c, struct engine *engine)
{
    TRY(event_wait(c->arrived, engine->compute));
    TRY(sparse_work_backward_out(&c->work, c->grad));
    TRY(sparse_work_backward_in(&c->work, c->x, false, sums_of(x, c)));
    return give_back(x, c, engine, true);
}

/* Who does not add b2 has no gradient of it. */
static int clear_bias2(struct tour *x)
{
    const struct weight *w = &x->weights->tensors[TENSOR_B2];

    if (x->geometry->slice == 0)
        return OK;
    return launch_fill(x->stream, &(struct fill){ w->grad, w->all * dtype_bytes(x->dtype) });
}

static int add_chunk(struct tour *x, struct tour_chunk *c, struct engine *engine)
{
    const struct moe_shape *s = &x->layer->shape;

    TRY(event_wait(c->returned, engine->compute));
    TRY(add_parts(x, c, s->top_k, MOE_F32, c->parts_gate, MOE_F32, x->router->grad_gate));
    return add_parts(x, c, s->model_dim, s->dtype, c->parts, MOE_F32, x->router->grad_x);
}

int tour_backward(struct tour *x, struct engine *engine, const void *grad_y, void *grad_x)
{
    const struct moe_shape *s = &x->layer->shape;

    for (uint32_t i = 0; i < count_of(x); i++)
        TRY(put(x, &x->chunks[i], grad_y, x->chunks[i].grad));
    TRY(depart(x, engine, true));
    TRY(clear_bias2(x));
    for (uint32_t i = 0; i < count_of(x); i++)
        TRY(backward_chunk(x, &x->chunks[i], engine));
    TRY(weights_reduce(x->weights, engine));
    for (uint32_t i = 0; i < count_of(x); i++)
        TRY(add_chunk(x, &x->chunks[i], engine));
    TRY(router_backward(x->router, engine, true));
    return router_convert(x->router, x->stream, s->model_dim, MOE_F32, x->router->grad_x, s->dtype,
                          grad_x);
}
