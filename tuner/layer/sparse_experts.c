/* The ways of a plan with r=0 e=sparse: as many rows as there are, read and summed up where the
 * tokens lie.  There is no (E,C,D); of outputs and input gradients per choice a GPU has a few
 * columns at a time.  Each piece of the weights is used when it has come: what it gives is added up
 * in f32.
 *
 * With w=keep pieces stay where they came.  With w=cache several layers share the room: of d pieces
 * there is room for two, of a single one for that.  A step uses pieces forwards, layer by layer,
 * then backwards; the next that is not there is fetched as soon as a room is free, under what is
 * computed meanwhile.  Where the passes turn round, what the forward pass used last is there. */
#include "shape.h"
#include "sparse_work.h"
#include "status.h"
#include "way.h"

#include <assert.h>

enum { CACHE_ROOMS = 2 };

struct sparse_experts {
    float *sums;                          /* (T,D) of a layer whose tokens have 16 bits */
    struct sparse_work works[PLAN_MAX_D]; /* of each piece of the weights */
    const void *tokens;                   /* of the step */
    struct event *used[CACHE_ROOMS]; /* of w=cache, in the first layer: what a room holds may be
                                      * overwritten */
};

/* ---- Layout */

/* Hidden units of a piece.  In MOE_LAYOUT_EXPERTS, or on one rank, the one piece is whole. */
static uint32_t hidden_of(const struct exec *x, uint32_t piece)
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
    struct sparse_work all = { .stream = x->engine ? x->engine->compute : NULL,
                               .capacities = x->uneven.capacities,
                               .needed = x->router.needed,
                               .gate = x->router.gate,
                               .grad_gate = x->router.grad_gate };

    /* All pieces share their tokens, which are sorted once. */
    sparse_work_shape(&all, x->layer, x->compute_type, x->layer->tokens, 0, x->geometry.capacity);
    all.at.expected = sparse_work_rows(x->layer, x->layer->tokens, &capacities);
    all.at.expert = x->router.expert;
    all.at.slot = x->router.slot;
    for (uint32_t i = 0; i < pieces; i++)
        all.at.hidden = hidden_of(x, i) > all.at.hidden ? hidden_of(x, i) : all.at.hidden;
    all.first = arena_take(arena, (uint64_t)s->experts + 1, sizeof(*all.first));
    all.choice = arena_take(arena, kept_rows_limit(&all.at), sizeof(*all.choice));
    all.at.first = all.first;
    all.at.choice = all.choice;
    all.at.room = x == x->first ? sparse_work_room(&all.at, arena)
                                : ((struct sparse_experts *)x->first->state)->works[0].at.room;
    for (uint32_t i = 0; i < pieces; i++) {
        struct sparse_work *w = &experts->works[i];

        *w = all;
        w->at.hidden = hidden_of(x, i);
        w->later = i > 0;
        sparse_work_weights(w, &x->weights, i, i == 0);
        sparse_work_layout(w, arena);
    }
    if (s->dtype != MOE_F32)
        experts->sums = arena_take(arena, results, sizeof(*experts->sums));
}

/* f32 sums as the tokens' type, `rows` for each. */
static int narrow(const struct exec *x, uint32_t rows, const float *sums, void *to)
{
    const struct moe_shape *s = &x->layer->shape;

    return router_convert(&x->router, x->engine->compute, (uint64_t)rows * s->model_dim, MOE_F32,
                          sums, s->dtype, to);
}

/* Known routes have no gates yet, and nothing that their making could hide. */
static int begin_forward(struct exec *x, const void *tokens)
{
    struct sparse_experts *experts = x->state;

    if (way_is_known(x))
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
    return experts->sums ? narrow(x, shape_result_rows(&x->layer->shape), sums, y) : OK;
}

/* What experts give the gates comes first; then the router begins the tokens' gradients with its
 * own share. */
static int backward(struct exec *x, const void *grad_y, void *grad_x)
{
    const struct sparse_experts *experts = x->state;

    for (uint32_t i = 0; i < x->weights.piece_count; i++)
        TRY(sparse_work_backward_out(&experts->works[i], grad_y));
    TRY(router_backward(&x->router, x->engine, false));
    for (uint32_t i = 0; i < x->weights.piece_count; i++)
        TRY(sparse_work_backward_in(&experts->works[i], experts->tokens, true, x->router.grad_x));
    TRY(narrow(x, 1, x->router.grad_x, grad_x));
    return weights_reduce(&x->weights, x->engine);
}

const struct way_ops way_sparse = { .state_bytes = WAY_STATE_BYTES(struct sparse_experts),
                                    .layout = layout,
                                    .forward = forward,
                                    .backward = backward };

/* ---- w=cache: uses of a step are numbered: of n pieces in all, 0 to n - 1 forwards, n to 2 n - 1
 * backwards. */

/* Pieces of all layers. */
static uint32_t pieces_of(const struct exec *x)
{
    return layer_count(&x->layer->shape) * x->weights.piece_count;
}

/* Weights have as many rooms as there are pieces, or CACHE_ROOMS. */
static uint32_t rooms_of(const struct exec *x)
{
    return x->weights.rooms;
}

static uint32_t number_of(const struct exec *x, uint32_t piece, bool backward)
{
    uint32_t forward = (uint32_t)(x - x->first) * x->weights.piece_count + piece;

    return backward ? 2 * pieces_of(x) - 1 - forward : forward;
}

static int fetch_use(const struct exec *x, uint32_t number)
{
    uint32_t all = pieces_of(x), forward = number < all ? number : 2 * all - 1 - number;
    uint32_t pieces = x->weights.piece_count;

    return weights_fetch(&x->first[forward / pieces].weights, x->engine, forward % pieces);
}

/* Whether a use has its piece fetched: the first ones of the backward pass find those that the
 * forward pass left. */
static bool is_fetched(const struct exec *x, uint32_t number)
{
    return number < pieces_of(x) || number >= pieces_of(x) + rooms_of(x);
}

/* Before what is computed with a piece: the compute stream waits for it, and converts it. */
static int wait_for_piece(struct exec *x, uint32_t piece, bool backward)
{
    return is_fetched(x, number_of(x, piece, backward))
               ? weights_ready(&x->weights, x->engine, piece)
               : OK;
}

/* After it: the next use that wants the room has its piece fetched. */
static int free_room(struct exec *x, uint32_t piece, bool backward)
{
    const struct sparse_experts *first = x->first->state;
    uint32_t next = number_of(x, piece, backward) + rooms_of(x);
    uint32_t all = pieces_of(x) * (x->layer->shape.pass == MOE_TRAIN ? 2 : 1);
    struct event *used = first->used[piece % rooms_of(x)];

    if (next >= all || !is_fetched(x, next))
        return OK;
    TRY(event_record(used, x->engine->compute));
    TRY(event_wait(used, x->engine->comm));
    return fetch_use(x, next);
}

static int open_cache(struct exec *x)
{
    struct sparse_experts *experts = x->state;

    /* A use and the one that takes its room are so far apart. */
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

/* The first layer fetches what has room; the others' pieces follow as rooms become free. */
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
        TRY(wait_for_piece(x, i, false));
        TRY(sparse_work_forward(&experts->works[i], tokens, sums));
        TRY(free_room(x, i, false));
    }
    return experts->sums ? narrow(x, shape_result_rows(&x->layer->shape), sums, y) : OK;
}

/* A piece is there but once, so all of it is computed, and the router comes last.  The last piece
 * of the forward pass comes first: it is there. */
static int backward_cached(struct exec *x, const void *grad_y, void *grad_x)
{
    struct sparse_experts *experts = x->state;

    for (uint32_t i = x->weights.piece_count; i-- > 0;) {
        struct sparse_work *w = &experts->works[i];

        w->later = i + 1 < x->weights.piece_count;
        TRY(wait_for_piece(x, i, true));
        TRY(sparse_work_backward_out(w, grad_y));
        TRY(sparse_work_backward_in(w, experts->tokens, w->later, x->router.grad_x));
        TRY(free_room(x, i, true));
    }
    TRY(router_backward(&x->router, x->engine, true));
    TRY(narrow(x, 1, x->router.grad_x, grad_x));
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
