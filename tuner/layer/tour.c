/* The way of a plan with r=W in MOE_LAYOUT_HIDDEN: weights stay, and the tokens of every rank go to
 * all ranks.  Each rank computes its hidden units for all tokens, without padding.  Partial results
 * go back to the tokens' ranks, which add them up.  The tokens of each rank are cut into d parts;
 * the i-th parts of all ranks are chunk i, which travels and is computed together.
 *
 * All chunks are sent before any result returns.  The communication stream is in order, so a chunk
 * behind a return would wait for the experts. */
#include "shape.h"
#include "sparse_work.h"
#include "status.h"
#include "way.h"

/* One chunk. */
struct tour_chunk {
    uint32_t all_tokens, own_tokens; /* number of tokens of all ranks, and of this rank */
    uint64_t tokens_before;          /* where this rank's tokens begin among those of all ranks */
    uint64_t first_token;            /* where they begin among this rank's T tokens */
    char *x, *grad; /* (all_tokens,D) in the storage type: tokens, and gradients of y */
    struct sent_choice *choices; /* (all_tokens,k) as received */
    int32_t *expert;             /* (all_tokens,k), as are slot and gate: unpacked choices */
    int64_t *slot, *needed;      /* needed: (E) */
    float *gate;
    char *partial; /* (all_tokens,D) this rank's part of y; in backward, of the gradient of x */
    char *parts;   /* (W,own_tokens,D) the parts of all ranks, for this rank's tokens */
    float *partial_gate; /* (all_tokens,k) this rank's part of the gates' gradients */
    float *parts_gate;   /* (W,own_tokens,k) the parts of all ranks */
    struct sparse_work work;
    struct batch send_x, return_y, send_grads, return_grads;
    struct event *arrived, *done, *returned;
};

/* The state of way_tour. */
struct tour {
    float *sums; /* f32 sums of a chunk, where tokens have 16 bits; else NULL */
    struct event *packed;
    uint32_t count;
    struct tour_chunk chunks[PLAN_MAX_D];
};

static size_t row_bytes(const struct exec *x)
{
    return x->layer->shape.model_dim * dtype_bytes(x->layer->shape.dtype);
}

static struct parts_exchange exchange_of(const struct exec *x, uint32_t i, size_t unit, void *whole)
{
    const struct parts *parts = x->layer->parts;

    return (struct parts_exchange){ .of_ranks = parts->tokens,
                                    .ranks = parts->ranks,
                                    .self = (uint32_t)x->layer->rank,
                                    .piece = i,
                                    .pieces = x->geometry.chunks,
                                    .unit = unit,
                                    .whole = whole };
}

/* ---- Layout */

static void layout_rows(struct exec *x, uint32_t i, struct arena *arena)
{
    const struct moe_shape *s = &x->layer->shape;
    const struct parts *parts = x->layer->parts;
    const struct parts_exchange exchange = exchange_of(x, i, 0, NULL);
    struct tour_chunk *c = &((struct tour *)x->state)->chunks[i];
    uint64_t ranks = parts->ranks, choices;

    c->all_tokens = (uint32_t)parts_sum(parts->tokens, parts->ranks, i, exchange.pieces);
    c->own_tokens = part_piece(x->layer->tokens, i, exchange.pieces);
    c->tokens_before = parts_before(&exchange);
    c->first_token = part_cut(x->layer->tokens, i, exchange.pieces);
    choices = (uint64_t)c->all_tokens * s->top_k;
    c->x = arena_alloc(arena, c->all_tokens, row_bytes(x));
    c->partial = arena_alloc(arena, c->all_tokens, row_bytes(x));
    c->parts = arena_alloc(arena, size_product(ranks, c->own_tokens), row_bytes(x));
    c->choices = arena_alloc(arena, choices, sizeof(*c->choices));
    c->expert = arena_alloc(arena, choices, sizeof(*c->expert));
    c->slot = arena_alloc(arena, choices, sizeof(*c->slot));
    c->gate = arena_alloc(arena, choices, sizeof(*c->gate));
    c->needed = arena_alloc(arena, s->experts, sizeof(*c->needed));
    if (s->pass != MOE_TRAIN)
        return;
    c->grad = arena_alloc(arena, c->all_tokens, row_bytes(x));
    c->partial_gate = arena_alloc(arena, choices, sizeof(*c->partial_gate));
    c->parts_gate = arena_alloc(arena, size_product(ranks, (uint64_t)c->own_tokens * s->top_k),
                                sizeof(*c->parts_gate));
}

static void layout_work(struct exec *x, uint32_t i, struct arena *arena)
{
    const struct capacities capacities = uneven_capacities(&x->uneven, &x->geometry);
    const struct parts *parts = x->layer->parts;
    struct tour_chunk *c = &((struct tour *)x->state)->chunks[i];
    struct sparse_work *w = &c->work;
    uint64_t rows_most = 0;

    /* The most rows of an expert in a chunk: each rank keeps at most c of its choices. */
    for (uint32_t q = 0; q < parts->ranks; q++) {
        uint64_t tokens = part_piece(parts->tokens[q], i, x->geometry.chunks);

        rows_most += tokens < x->geometry.capacity ? tokens : x->geometry.capacity;
    }
    sparse_work_shape(w, x->layer, x->compute_type, c->all_tokens, x->layer->hidden, rows_most);
    w->at.expected = sparse_work_rows(x->layer, c->all_tokens, &capacities);
    w->stream = x->engine ? x->engine->compute : NULL;
    w->needed = c->needed;
    w->gate = c->gate;
    w->grad_gate = c->partial_gate;
    w->later_tokens = i > 0;
    w->first = arena_alloc(arena, (uint64_t)w->at.experts + 1, sizeof(*w->first));
    w->choice = arena_alloc(arena, kept_rows_limit(&w->at), sizeof(*w->choice));
    w->at.first = w->first;
    w->at.choice = w->choice;
    w->at.expert = c->expert;
    w->at.slot = c->slot;
    sparse_work_weights(w, &x->weights, 0, x->geometry.slice == 0);
    sparse_work_layout(w, arena);
}

static void layout(struct exec *x, struct arena *arena)
{
    const struct moe_shape *s = &x->layer->shape;
    struct tour *tour = x->state;
    const struct kept_rows *largest = &tour->chunks[0].work.at;
    struct kept_room room;
    uint32_t tokens_most = 0;

    tour->count = x->geometry.chunks;
    for (uint32_t i = 0; i < tour->count; i++) {
        const struct kept_rows *chunk_rows = &tour->chunks[i].work.at;

        layout_rows(x, i, arena);
        layout_work(x, i, arena);
        largest = kept_rows_limit(chunk_rows) > kept_rows_limit(largest) ? chunk_rows : largest;
        tokens_most =
            tour->chunks[i].all_tokens > tokens_most ? tour->chunks[i].all_tokens : tokens_most;
    }
    room = x == x->first ? sparse_work_room(largest, arena)
                         : ((struct tour *)x->first->state)->chunks[0].work.at.room;
    for (uint32_t i = 0; i < tour->count; i++)
        tour->chunks[i].work.at.room = room;
    if (s->dtype != MOE_F32)
        tour->sums =
            arena_alloc(arena, size_product(tokens_most, s->model_dim), sizeof(*tour->sums));
}

/* ---- Open and close */

static int add_gather(const struct exec *x, uint32_t i, size_t unit, void *whole,
                      struct batch *batch)
{
    const struct parts_exchange exchange = exchange_of(x, i, unit, whole);

    return parts_gather(&exchange, batch);
}

static int add_scatter(const struct exec *x, uint32_t i, size_t unit, void *whole, void *parts,
                       struct batch *batch)
{
    struct parts_exchange exchange = exchange_of(x, i, unit, whole);

    exchange.own = parts;
    exchange.own_step = part_piece(x->layer->tokens, i, exchange.pieces) * unit;
    return parts_scatter(&exchange, batch);
}

static int open_chunk(const struct exec *x, uint32_t i, struct tour_chunk *c)
{
    struct device *device = x->engine->device;
    struct wire *wire = x->engine->wire;
    size_t k = x->layer->shape.top_k;

    TRY(event_open(device, &c->arrived));
    TRY(event_open(device, &c->done));
    TRY(event_open(device, &c->returned));
    TRY(add_gather(x, i, row_bytes(x), c->x, &c->send_x));
    TRY(add_gather(x, i, k * sizeof(*c->choices), c->choices, &c->send_x));
    TRY(add_scatter(x, i, row_bytes(x), c->partial, c->parts, &c->return_y));
    TRY(wire_reserve(wire, &c->send_x));
    TRY(wire_reserve(wire, &c->return_y));
    if (x->layer->shape.pass != MOE_TRAIN)
        return OK;
    TRY(add_gather(x, i, row_bytes(x), c->grad, &c->send_grads));
    TRY(add_scatter(x, i, row_bytes(x), c->partial, c->parts, &c->return_grads));
    TRY(add_scatter(x, i, k * sizeof(*c->partial_gate), c->partial_gate, c->parts_gate,
                    &c->return_grads));
    TRY(wire_reserve(wire, &c->send_grads));
    return wire_reserve(wire, &c->return_grads);
}

static int open_chunks(struct exec *x)
{
    struct tour *tour = x->state;

    TRY(event_open(x->engine->device, &tour->packed));
    for (uint32_t i = 0; i < tour->count; i++)
        TRY(open_chunk(x, i, &tour->chunks[i]));
    return OK;
}

static void close_chunks(struct exec *x)
{
    struct tour *tour = x->state;

    for (uint32_t i = 0; i < tour->count; i++) {
        struct tour_chunk *c = &tour->chunks[i];

        batch_free(&c->send_x);
        batch_free(&c->return_y);
        batch_free(&c->send_grads);
        batch_free(&c->return_grads);
        event_close(c->arrived);
        event_close(c->done);
        event_close(c->returned);
    }
    event_close(tour->packed);
}

/* ---- Sending */

/* Copies this rank's rows to their place among those of all ranks. */
static int put_rows(const struct exec *x, const struct tour_chunk *c, const void *rows, char *all)
{
    const struct moe_shape *s = &x->layer->shape;

    if (!c->own_tokens)
        return OK;
    return launch_move(x->engine->compute,
                       &(struct move){ .from_type = s->dtype,
                                       .to_type = s->dtype,
                                       .block = (uint64_t)c->own_tokens * s->model_dim,
                                       .dims = { 1, 1, 1 },
                                       .terms = 1,
                                       .from = (const char *)rows + c->first_token * row_bytes(x),
                                       .to = all + c->tokens_before * row_bytes(x) });
}

static int enqueue_exchange(const struct exec *x, const struct batch *batch, struct event *finished)
{
    TRY(wire_exchange(x->engine->wire, x->engine->comm, batch));
    return event_record(finished, x->engine->comm);
}

enum direction { FORWARD, BACKWARD };

/* Sends all chunks, after the compute stream has put this rank's rows in place. */
static int send_chunks(const struct exec *x, enum direction direction)
{
    const struct tour *tour = x->state;

    TRY(event_record(tour->packed, x->engine->compute));
    TRY(event_wait(tour->packed, x->engine->comm));
    for (uint32_t i = 0; i < tour->count; i++) {
        const struct tour_chunk *c = &tour->chunks[i];

        TRY(enqueue_exchange(x, direction == BACKWARD ? &c->send_grads : &c->send_x, c->arrived));
    }
    return OK;
}

/* Where a chunk's results are added up in f32: in `partial` itself, if it is f32. */
static float *sums_of(const struct exec *x, const struct tour_chunk *c)
{
    const struct tour *tour = x->state;

    return tour->sums ? tour->sums : (float *)c->partial;
}

static int return_chunk(const struct exec *x, const struct tour_chunk *c, enum direction direction)
{
    const struct moe_shape *s = &x->layer->shape;
    const float *sums = sums_of(x, c);

    if ((const char *)sums != c->partial && c->all_tokens)
        TRY(launch_move(x->engine->compute,
                        &(struct move){ .from_type = MOE_F32,
                                        .to_type = s->dtype,
                                        .block = (uint64_t)c->all_tokens * s->model_dim,
                                        .dims = { 1, 1, 1 },
                                        .terms = 1,
                                        .from = sums,
                                        .to = c->partial }));
    TRY(event_record(c->done, x->engine->compute));
    TRY(event_wait(c->done, x->engine->comm));
    return enqueue_exchange(x, direction == BACKWARD ? &c->return_grads : &c->return_y,
                            c->returned);
}

/* Adds up the parts of all ranks for this rank's tokens, rows of `width`. */
static int add_parts(const struct exec *x, const struct tour_chunk *c, uint64_t width,
                     uint32_t from_type, const void *parts, uint32_t to_type, void *to)
{
    uint64_t elements = c->own_tokens * width;

    if (!elements)
        return OK;
    return launch_move(
        x->engine->compute,
        &(struct move){ .from_type = from_type,
                        .to_type = to_type,
                        .block = elements,
                        .dims = { 1, 1, 1 },
                        .terms = x->layer->parts->ranks,
                        .term_stride = 1,
                        .from = parts,
                        .to = (char *)to + c->first_token * width * dtype_bytes(to_type) });
}

/* ---- The way */

static int forward(struct exec *x, const void *tokens, void *y)
{
    const struct moe_shape *s = &x->layer->shape;
    struct stream *compute = x->engine->compute;
    const struct tour *tour = x->state;

    for (uint32_t i = 0; i < tour->count; i++) {
        const struct tour_chunk *c = &tour->chunks[i];
        uint64_t k = s->top_k, first_choice = c->first_token * k;
        struct pack_choices pack = { .choices = c->own_tokens * k,
                                     .expert = x->router.expert + first_choice,
                                     .slot = x->router.slot + first_choice,
                                     .gate = x->router.gate + first_choice,
                                     .to = c->choices + c->tokens_before * k };

        TRY(put_rows(x, c, tokens, c->x));
        TRY(launch_pack_choices(compute, &pack));
    }
    TRY(send_chunks(x, FORWARD));
    TRY(weights_ready(&x->weights, x->engine, 0));
    for (uint32_t i = 0; i < tour->count; i++) {
        const struct tour_chunk *c = &tour->chunks[i];
        struct recount recount = { .tokens = c->all_tokens,
                                   .experts = s->experts,
                                   .top_k = s->top_k,
                                   .from = c->choices,
                                   .expert = c->expert,
                                   .gate = c->gate,
                                   .slot = c->slot,
                                   .needed = c->needed };

        TRY(event_wait(c->arrived, compute));
        TRY(launch_recount(compute, &recount));
        TRY(sparse_work_sort(&c->work));
        TRY(sparse_work_forward(&c->work, c->x, sums_of(x, c)));
        TRY(return_chunk(x, c, FORWARD));
    }
    for (uint32_t i = 0; i < tour->count; i++) {
        const struct tour_chunk *c = &tour->chunks[i];

        TRY(event_wait(c->returned, compute));
        TRY(add_parts(x, c, s->model_dim, s->dtype, c->parts, s->dtype, y));
    }
    return OK;
}

static int backward(struct exec *x, const void *grad_y, void *grad_x)
{
    const struct moe_shape *s = &x->layer->shape;
    const struct weight *b2 = &x->weights.tensors[TENSOR_B2];
    struct stream *compute = x->engine->compute;
    const struct tour *tour = x->state;

    for (uint32_t i = 0; i < tour->count; i++)
        TRY(put_rows(x, &tour->chunks[i], grad_y, tour->chunks[i].grad));
    TRY(send_chunks(x, BACKWARD));
    if (x->geometry.slice != 0) /* a rank that does not add b2 has a zero gradient of it */
        TRY(launch_fill(compute,
                        &(struct fill){ b2->grad, b2->all * dtype_bytes(x->compute_type) }));
    for (uint32_t i = 0; i < tour->count; i++) {
        const struct tour_chunk *c = &tour->chunks[i];

        TRY(event_wait(c->arrived, compute));
        TRY(sparse_work_backward_out(&c->work, c->grad));
        TRY(sparse_work_backward_in(&c->work, c->x, false, sums_of(x, c)));
        TRY(return_chunk(x, c, BACKWARD));
    }
    TRY(weights_reduce(&x->weights, x->engine));
    for (uint32_t i = 0; i < tour->count; i++) {
        const struct tour_chunk *c = &tour->chunks[i];

        TRY(event_wait(c->returned, compute));
        TRY(add_parts(x, c, s->top_k, MOE_F32, c->parts_gate, MOE_F32, x->router.grad_gate));
        TRY(add_parts(x, c, s->model_dim, s->dtype, c->parts, MOE_F32, x->router.grad_x));
    }
    TRY(router_backward(&x->router, x->engine, true));
    return router_convert(&x->router, compute, s->model_dim, MOE_F32, x->router.grad_x, s->dtype,
                          grad_x);
}

const struct way_ops way_tour = { .why_no_known_routes =
                                      "choices travel to all ranks together with their gates",
                                  .state_bytes = WAY_STATE_BYTES(struct tour),
                                  .layout = layout,
                                  .open = open_chunks,
                                  .close = close_chunks,
                                  .forward = forward,
                                  .backward = backward };
