/* The ways of a plan with r=0 e=sparse.  Only rows that exist are computed; kernels read tokens and
 * add results to tokens directly, so there is no (E,C,D).  The experts compute with each piece of
 * the weights as soon as it has come, and add up the results of all pieces in f32.
 *
 * With w=keep, gathered pieces stay.  With w=cache, all layers share two buffers for pieces (one,
 * if there is one piece).  A step uses the pieces layer by layer forwards, then backwards.  As soon
 * as a buffer is free, the next missing piece is fetched into it, while others are computed.  The
 * backward pass begins with the pieces that the forward pass used last, which are still there. */
#include "shape.h"
#include "sparse_work.h"
#include "status.h"
#include "way.h"

#include <assert.h>

enum { CACHE_ROOMS = 2 };

/* The state of both ways. */
struct sparse_experts {
    float *sums;                          /* (T,D) in f32, where tokens have 16 bits; else NULL */
    struct sparse_work works[PLAN_MAX_D]; /* one for each piece of the weights */
    const void *tokens;                   /* of the current step */
    struct event *used[CACHE_ROOMS];      /* w=cache, first layer: the buffer may be overwritten */
};

/* ---- Layout */

/* Hidden units of a piece.  In MOE_LAYOUT_EXPERTS the only piece is whole. */
static uint32_t units_of_piece(const struct exec *x, uint32_t piece)
{
    return x->layer->shape.layout == MOE_LAYOUT_HIDDEN ? x->weights.pieces[piece].units
                                                       : x->layer->shape.hidden_dim;
}

static void layout(struct exec *x, struct arena *arena)
{
    const struct moe_shape *s = &x->layer->shape;
    const struct capacities capacities = uneven_capacities(&x->uneven, &x->geometry);
    struct sparse_experts *experts = x->state;
    uint32_t pieces = x->weights.piece_count;
    uint64_t results = (uint64_t)x->layer->tokens * shape_result_rows(s) * s->model_dim;
    struct sparse_work common = { .stream = x->engine ? x->engine->compute : NULL,
                                  .capacities = x->uneven.capacities,
                                  .needed = x->router.needed,
                                  .gate = x->router.gate,
                                  .grad_gate = x->router.grad_gate };

    /* All pieces have the same tokens, which are sorted once. */
    sparse_work_shape(&common, x->layer, x->compute_type, x->layer->tokens, 0,
                      x->geometry.capacity);
    common.at.expected = sparse_work_rows(x->layer, x->layer->tokens, &capacities);
    common.at.expert = x->router.expert;
    common.at.slot = x->router.slot;
    for (uint32_t i = 0; i < pieces; i++)
        common.at.hidden =
            units_of_piece(x, i) > common.at.hidden ? units_of_piece(x, i) : common.at.hidden;
    common.first = arena_alloc(arena, (uint64_t)s->experts + 1, sizeof(*common.first));
    common.choice = arena_alloc(arena, kept_rows_limit(&common.at), sizeof(*common.choice));
    common.at.first = common.first;
    common.at.choice = common.choice;
    common.at.room = x == x->first ? sparse_work_room(&common.at, arena)
                                   : ((struct sparse_experts *)x->first->state)->works[0].at.room;
    for (uint32_t i = 0; i < pieces; i++) {
        struct sparse_work *w = &experts->works[i];

        *w = common;
        w->at.hidden = units_of_piece(x, i);
        w->later = i > 0;
        sparse_work_weights(w, &x->weights, i, i == 0);
        sparse_work_layout(w, arena);
    }
    if (s->dtype != MOE_F32)
        experts->sums = arena_alloc(arena, results, sizeof(*experts->sums));
}

/* Converts f32 sums, `rows` for each token, to the tokens' type. */
static int narrow_sums(const struct exec *x, uint32_t rows, const float *sums, void *to)
{
    const struct moe_shape *s = &x->layer->shape;

    return router_convert(&x->router, x->engine->compute, (uint64_t)rows * s->model_dim, MOE_F32,
                          sums, s->dtype, to);
}

/* Computes gates for known routes, where no exchange could hide this, and sorts the choices. */
static int begin_forward(struct exec *x, const void *tokens)
{
    struct sparse_experts *experts = x->state;

    if (way_has_known_routes(x))
        TRY(router_gates(&x->router, x->engine, tokens));
    experts->tokens = tokens;
    return sparse_work_sort(&experts->works[0]);
}

/* ---- w=keep */

static int forward(struct exec *x, const void *tokens, void *y)
{
    const struct sparse_experts *experts = x->state;
    float *sums = experts->sums ? experts->sums : y;

    TRY(begin_forward(x, tokens));
    for (uint32_t i = 0; i < x->weights.piece_count; i++) {
        TRY(weights_ready(&x->weights, x->engine, i));
        TRY(sparse_work_forward(&experts->works[i], tokens, sums));
    }
    return experts->sums ? narrow_sums(x, shape_result_rows(&x->layer->shape), sums, y) : OK;
}

/* The gates' gradients of all experts come first.  Then the router writes its part of the tokens'
 * gradients, and the experts add theirs. */
static int backward(struct exec *x, const void *grad_y, void *grad_x)
{
    const struct sparse_experts *experts = x->state;

    for (uint32_t i = 0; i < x->weights.piece_count; i++)
        TRY(sparse_work_backward_out(&experts->works[i], grad_y));
    TRY(router_backward(&x->router, x->engine, false));
    for (uint32_t i = 0; i < x->weights.piece_count; i++)
        TRY(sparse_work_backward_in(&experts->works[i], experts->tokens, true, x->router.grad_x));
    TRY(narrow_sums(x, 1, x->router.grad_x, grad_x));
    return weights_reduce(&x->weights, x->engine);
}

const struct way_ops way_sparse = { .state_bytes = WAY_STATE_BYTES(struct sparse_experts),
                                    .layout = layout,
                                    .forward = forward,
                                    .backward = backward };

/* ---- w=cache.  The uses of pieces in a step are numbered: with n pieces in all layers, uses 0 to
 * n - 1 are forwards, and n to 2 n - 1 backwards. */

/* Number of pieces of all layers. */
static uint32_t pieces_of(const struct exec *x)
{
    return layer_count(&x->layer->shape) * x->weights.piece_count;
}

/* Number of buffers for pieces: CACHE_ROOMS, or fewer if a layer has fewer pieces. */
static uint32_t rooms_of(const struct exec *x)
{
    return x->weights.rooms;
}

enum direction { FORWARD, BACKWARD };

static uint32_t use_number(const struct exec *x, uint32_t piece, enum direction direction)
{
    uint32_t forward = (uint32_t)(x - x->first) * x->weights.piece_count + piece;

    return direction == BACKWARD ? 2 * pieces_of(x) - 1 - forward : forward;
}

static int fetch_use(const struct exec *x, uint32_t number)
{
    uint32_t piece_count = pieces_of(x),
             forward = number < piece_count ? number : 2 * piece_count - 1 - number;
    uint32_t pieces = x->weights.piece_count;

    return weights_fetch(&x->first[forward / pieces].weights, x->engine, forward % pieces);
}

/* True where a use needs a fetch; the first uses of the backward pass find pieces that the forward
 * pass left. */
static bool is_fetched(const struct exec *x, uint32_t number)
{
    return number < pieces_of(x) || number >= pieces_of(x) + rooms_of(x);
}

/* Before a use: makes the compute stream wait for the piece, and converts it. */
static int wait_for_piece(struct exec *x, uint32_t piece, enum direction direction)
{
    return is_fetched(x, use_number(x, piece, direction))
               ? weights_ready(&x->weights, x->engine, piece)
               : OK;
}

/* After a use: fetches the piece of the next use of this buffer. */
static int free_room(struct exec *x, uint32_t piece, enum direction direction)
{
    const struct sparse_experts *first = x->first->state;
    uint32_t next = use_number(x, piece, direction) + rooms_of(x);
    uint32_t use_count = pieces_of(x) * (x->layer->shape.pass == MOE_TRAIN ? 2 : 1);
    struct event *used = first->used[piece % rooms_of(x)];

    if (next >= use_count || !is_fetched(x, next))
        return OK;
    TRY(event_record(used, x->engine->compute));
    TRY(event_wait(used, x->engine->comm));
    return fetch_use(x, next);
}

static int open_cache(struct exec *x)
{
    struct sparse_experts *experts = x->state;

    /* Two uses of the same buffer must be rooms_of() uses apart. */
    assert(x->weights.piece_count % rooms_of(x) == 0);
    for (uint32_t i = 0; i < rooms_of(x) && x == x->first; i++)
        TRY(event_open(x->engine->device, &experts->used[i]));
    return OK;
}

static void close_cache(struct exec *x)
{
    struct sparse_experts *experts = x->state;

    for (uint32_t i = 0; i < CACHE_ROOMS; i++)
        event_close(experts->used[i]);
}

/* The first layer fetches as many pieces as there are buffers; free_room() fetches the others. */
static int fetch_cached(struct exec *x)
{
    for (uint32_t i = 0; i < rooms_of(x) && x == x->first; i++)
        TRY(fetch_use(x, i));
    return OK;
}

static int forward_cached(struct exec *x, const void *tokens, void *y)
{
    struct sparse_experts *experts = x->state;
    float *sums = experts->sums ? experts->sums : y;

    TRY(begin_forward(x, tokens));
    for (uint32_t i = 0; i < x->weights.piece_count; i++) {
        experts->works[i].later = i > 0;
        TRY(wait_for_piece(x, i, FORWARD));
        TRY(sparse_work_forward(&experts->works[i], tokens, sums));
        TRY(free_room(x, i, FORWARD));
    }
    return experts->sums ? narrow_sums(x, shape_result_rows(&x->layer->shape), sums, y) : OK;
}

/* Each piece is there only once, so everything is computed with it, and the router comes last.  The
 * last piece of the forward pass comes first, because it is still there. */
static int backward_cached(struct exec *x, const void *grad_y, void *grad_x)
{
    struct sparse_experts *experts = x->state;

    for (uint32_t i = x->weights.piece_count; i-- > 0;) {
        struct sparse_work *w = &experts->works[i];

        w->later = i + 1 < x->weights.piece_count;
        TRY(wait_for_piece(x, i, BACKWARD));
        TRY(sparse_work_backward_out(w, grad_y));
        TRY(sparse_work_backward_in(w, experts->tokens, w->later, x->router.grad_x));
        TRY(free_room(x, i, BACKWARD));
    }
    TRY(router_backward(&x->router, x->engine, true));
    TRY(narrow_sums(x, 1, x->router.grad_x, grad_x));
    return weights_reduce(&x->weights, x->engine);
}

const struct way_ops way_cached = { .weight_rooms = CACHE_ROOMS,
                                    .state_bytes = WAY_STATE_BYTES(struct sparse_experts),
                                    .layout = layout,
                                    .open = open_cache,
                                    .close = close_cache,
                                    .fetch = fetch_cached,
                                    .forward = forward_cached,
                                    .backward = backward_cached };
