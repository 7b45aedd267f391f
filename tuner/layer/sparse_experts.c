/* Experts without padding, kernel by kernel; kernels/sparse.h says what each computes. */
#include "sparse_experts.h"

#include "shape.h"
#include "status.h"

static struct kept_rows kept(const struct sparse_experts *x)
{
    const struct moe_shape *s = &x->layer->shape;

    return (struct kept_rows){ .tokens = x->layer->tokens,
                               .experts = s->experts,
                               .top_k = s->top_k,
                               .token_type = s->dtype,
                               .dtype = x->dtype,
                               .hidden = s->hidden_dim,
                               .width = s->model_dim,
                               .capacity = x->geometry->capacity,
                               .first = x->first,
                               .choice = x->choice,
                               .scratch = x->scratch };
}

void sparse_experts_layout(struct sparse_experts *x, struct arena *arena)
{
    const struct moe_shape *s = &x->layer->shape;
    const struct kept_rows at = kept(x);
    uint64_t rows = kept_most(&at), hidden = size_product(rows, s->hidden_dim);
    size_t width = dtype_bytes(x->dtype);

    x->first = arena_take(arena, (uint64_t)s->experts + 1, sizeof(*x->first));
    x->choice = arena_take(arena, rows, sizeof(*x->choice));
    if (x->dtype == MOE_F32) /* also where it is not used: a plan takes the same on every device */
        x->scratch = arena_take(arena, kept_scratch_bytes(s->hidden_dim, s->model_dim), 1);
    x->pre = x->post = arena_take(arena, hidden, width);
    if (s->activation != MOE_RELU)
        x->post = arena_take(arena, hidden, width);
    if (s->activation == MOE_SWIGLU)
        x->up = arena_take(arena, hidden, width);
    if (s->dtype != MOE_F32)
        x->sums = arena_take(arena, (uint64_t)x->layer->tokens * s->model_dim, sizeof(*x->sums));
}

int sparse_experts_begin(struct sparse_experts *x)
{
    const struct router *router = x->router;
    const struct moe_shape *s = &x->layer->shape;

    return launch_reindex(x->stream, &(struct reindex){ .tokens = x->layer->tokens,
                                                        .experts = s->experts,
                                                        .top_k = s->top_k,
                                                        .capacity = x->geometry->capacity,
                                                        .expert = router->expert,
                                                        .slot = router->slot,
                                                        .needed = router->needed,
                                                        .first = x->first,
                                                        .choice = x->choice });
}

/* f32 sums as the tokens' type. */
static int narrow(const struct sparse_experts *x, const float *sums, void *to)
{
    const struct moe_shape *s = &x->layer->shape;

    return router_convert(x->router, x->stream, s->model_dim, MOE_F32, sums, s->dtype, to);
}

int sparse_experts_forward(struct sparse_experts *x, const void *tokens, void *y)
{
    const struct weight *w = x->weights->tensors;
    const struct moe_shape *s = &x->layer->shape;
    struct esmm m = {
        .at = kept(x), .form = ESMM_FORWARD, .kind = s->activation, .tokens = tokens
    };
    float *sums = x->sums ? x->sums : y;

    x->tokens = tokens;
    if (x->up) {
        m.weights = w[TENSOR_W3].compute;
        m.pre = x->up;
        TRY(launch_esmm(x->stream, &m));
    }
    m.weights = w[TENSOR_W1].compute;
    m.bias = w[TENSOR_B1].compute;
    m.bias_stride = s->hidden_dim;
    m.pre = x->pre;
    m.up = x->up;
    m.post = x->post;
    TRY(launch_esmm(x->stream, &m));
    TRY(launch_esmm(x->stream, &(struct esmm){ .at = m.at,
                                               .form = ESMM_TOKENS,
                                               .weights = w[TENSOR_W2].compute,
                                               .bias = w[TENSOR_B2].compute,
                                               .bias_stride = layer_bias2_stride(s),
                                               .gate = x->router->gate,
                                               .rows = x->post,
                                               .sums = sums }));
    return x->sums ? narrow(x, sums, y) : OK;
}

int sparse_experts_backward_out(struct sparse_experts *x, const void *grad_y)
{
    const struct weight *w = x->weights->tensors;
    const struct moe_shape *s = &x->layer->shape;

    return launch_esfk(x->stream, &(struct esfk){ .product = { .at = kept(x),
                                                               .form = ESMM_BACKWARD,
                                                               .kind = s->activation,
                                                               .weights = w[TENSOR_W2].compute,
                                                               .bias = w[TENSOR_B2].compute,
                                                               .bias_stride = layer_bias2_stride(s),
                                                               .tokens = grad_y,
                                                               .gate = x->router->gate,
                                                               .pre = x->pre,
                                                               .up = x->up,
                                                               .post = x->post,
                                                               .grad_gate = x->router->grad_gate,
                                                               .grad_pre = x->pre,
                                                               .grad_up = x->up ? x->post : NULL },
                                                  .grad = w[TENSOR_W2].grad,
                                                  .grad_bias = w[TENSOR_B2].grad,
                                                  .grad_stride = layer_bias2_stride(s) });
}

int sparse_experts_backward_in(struct sparse_experts *x, void *grad_x)
{
    const struct weight *w = x->weights->tensors;
    const struct moe_shape *s = &x->layer->shape;
    struct esfk f = { .product = { .at = kept(x),
                                   .form = ESMM_TOKENS,
                                   .keep = true,
                                   .weights = w[TENSOR_W1].compute,
                                   .tokens = x->tokens,
                                   .rows = x->pre,
                                   .sums = x->router->grad_x },
                      .grad = w[TENSOR_W1].grad,
                      .grad_bias = w[TENSOR_B1].grad,
                      .grad_stride = s->hidden_dim };

    TRY(launch_esfk(x->stream, &f));
    if (x->up) {
        f.product.weights = w[TENSOR_W3].compute;
        f.product.rows = x->post;
        f.grad = w[TENSOR_W3].grad;
        f.grad_bias = NULL;
        TRY(launch_esfk(x->stream, &f));
    }
    return narrow(x, x->router->grad_x, grad_x);
}
