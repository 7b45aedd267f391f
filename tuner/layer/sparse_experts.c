/* Experts without padding where tokens stay: a work for each piece of the weights. */
#include "sparse_experts.h"

#include "shape.h"
#include "status.h"

static uint32_t count_of(const struct sparse_experts *x)
{
    return x->weights->piece_count;
}

/* In MOE_LAYOUT_EXPERTS, or alone, the one piece is whole. */
static uint32_t hidden_of(const struct sparse_experts *x, uint32_t piece)
{
    return x->layer->shape.layout == MOE_LAYOUT_HIDDEN ? x->weights->pieces[piece].units
                                                       : x->layer->shape.hidden_dim;
}

/* What all pieces share: their tokens, sorted once. */
static void layout_tokens(struct sparse_experts *x, struct arena *arena)
{
    const struct moe_shape *s = &x->layer->shape;
    struct sparse_work *w = &x->works[0];
    uint32_t most = 0;

    for (uint32_t i = 0; i < count_of(x); i++)
        most = hidden_of(x, i) > most ? hidden_of(x, i) : most;
    w->first = arena_take(arena, (uint64_t)s->experts + 1, sizeof(*w->first));
    w->choice = arena_take(arena, kept_most(&w->at), sizeof(*w->choice));
    w->at.first = w->first;
    w->at.choice = w->choice;
    if (x->dtype == MOE_F32) /* also where it is not used: a plan takes the same on every device */
        w->at.scratch = arena_take(arena, kept_scratch_bytes(most, s->model_dim), 1);
}

static void layout_piece(struct sparse_experts *x, uint32_t i, struct arena *arena)
{
    struct sparse_work *w = &x->works[i];

    w->at.hidden = hidden_of(x, i);
    w->later = i > 0;
    sparse_work_weights(w, x->weights, i, i == 0);
    sparse_work_layout(w, arena);
}

void sparse_experts_layout(struct sparse_experts *x, struct arena *arena)
{
    const struct moe_shape *s = &x->layer->shape;
    const struct router *router = x->router;
    const struct capacities capacities = uneven_capacities(x->uneven, x->geometry);
    struct sparse_work *w = &x->works[0];

    *w = (struct sparse_work){ .stream = x->stream,
                               .capacities = x->uneven->capacities,
                               .expert = router->expert,
                               .slot = router->slot,
                               .needed = router->needed,
                               .gate = router->gate,
                               .grad_gate = router->grad_gate };
    sparse_work_shape(w, x->layer, x->dtype, x->layer->tokens, 0, x->geometry->capacity);
    w->at.expected = sparse_work_rows(x->layer, x->layer->tokens, &capacities);
    layout_tokens(x, arena);
    for (uint32_t i = 0; i < count_of(x); i++) {
        x->works[i] = *w;
        layout_piece(x, i, arena);
    }
    if (s->dtype != MOE_F32)
        x->sums =
            arena_take(arena, (uint64_t)x->layer->tokens * shape_result_rows(s) * s->model_dim,
                       sizeof(*x->sums));
}

/* f32 sums as the tokens' type, `rows` for each. */
static int narrow(const struct sparse_experts *x, uint32_t rows, const float *sums, void *to)
{
    const struct moe_shape *s = &x->layer->shape;

    return router_convert(x->router, x->stream, (uint64_t)rows * s->model_dim, MOE_F32, sums,
                          s->dtype, to);
}

static struct cache_use use_of(const struct sparse_experts *x, uint32_t piece, bool backward)
{
    return (struct cache_use){ x->number, piece, backward };
}

static int forward_piece(struct sparse_experts *x, struct engine *engine, uint32_t i, float *sums)
{
    x->works[i].later = i > 0;
    if (!x->cache) {
        TRY(weights_ready(x->weights, engine, i));
        return sparse_work_forward(&x->works[i], x->tokens, sums);
    }
    TRY(cache_take(x->cache, engine, use_of(x, i, false)));
    TRY(sparse_work_forward(&x->works[i], x->tokens, sums));
    return cache_give(x->cache, engine, use_of(x, i, false));
}

int sparse_experts_forward(struct sparse_experts *x, struct engine *engine, const void *tokens,
                           void *y)
{
    float *sums = x->sums ? x->sums : y;

    x->tokens = tokens;
    TRY(sparse_work_sort(&x->works[0]));
    for (uint32_t i = 0; i < count_of(x); i++)
        TRY(forward_piece(x, engine, i, sums));
    return x->sums ? narrow(x, shape_result_rows(&x->layer->shape), sums, y) : OK;
}

int sparse_experts_backward_out(struct sparse_experts *x, const void *grad_y)
{
    for (uint32_t i = 0; i < count_of(x); i++)
        TRY(sparse_work_backward_out(&x->works[i], grad_y));
    return OK;
}

int sparse_experts_backward_in(struct sparse_experts *x, void *grad_x)
{
    for (uint32_t i = 0; i < count_of(x); i++)
        TRY(sparse_work_backward_in(&x->works[i], x->tokens, true, x->router->grad_x));
    return narrow(x, 1, x->router->grad_x, grad_x);
}

/* The last piece of the forward pass comes first: it is there. */
static int backward_piece(struct sparse_experts *x, struct engine *engine, uint32_t i,
                          const void *grad_y)
{
    bool later = i + 1 < count_of(x);

    x->works[i].later = later;
    TRY(cache_take(x->cache, engine, use_of(x, i, true)));
    TRY(sparse_work_backward_out(&x->works[i], grad_y));
    TRY(sparse_work_backward_in(&x->works[i], x->tokens, later, x->router->grad_x));
    return cache_give(x->cache, engine, use_of(x, i, true));
}

int sparse_experts_backward_cached(struct sparse_experts *x, struct engine *engine,
                                   struct router *router, const void *grad_y, void *grad_x)
{
    for (uint32_t i = count_of(x); i-- > 0;)
        TRY(backward_piece(x, engine, i, grad_y));
    TRY(router_backward(router, engine, true));
    return narrow(x, 1, x->router->grad_x, grad_x);
}
