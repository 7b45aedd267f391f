/* Launches the kernels of experts without padding; kernels/sparse.h says what each computes. */
#include "sparse_work.h"

#include "load.h"
#include "shape.h"
#include "status.h"

/* Rows that one rank keeps; without a load, those of a balanced one. */
static uint64_t kept_rows(const struct layer *layer, const struct capacities *c)
{
    const struct moe_shape *s = &layer->shape;
    uint64_t balanced_count = ((uint64_t)layer->tokens * s->top_k + s->experts - 1) / s->experts,
             sum = 0;
    struct replay_steps steps = load_steps(layer->load, c->most);

    if (layer->load && !c->rows)
        return load_kept(layer->load, c->most, s->experts);
    for (uint32_t i = steps.first; i < steps.first + steps.count; i++)
        for (uint32_t e = 0; e < s->experts; e++) {
            uint64_t chosen = layer->load ? load_count(layer->load, i, 0, e) : balanced_count;

            sum += chosen < capacity_of(c, e) ? chosen : capacity_of(c, e);
        }
    return sum / steps.count;
}

uint64_t sparse_work_rows(const struct layer *layer, uint32_t tokens, const struct capacities *c)
{
    uint64_t rows, load_tokens = layer->load ? layer->load->tokens : layer->tokens;

    /* Without a device only sizes are wanted, and they do not depend on the rows. */
    if (!(layer->load || c->rows) || !layer->device || !layer->device->modelled || !load_tokens)
        return 0;
    /* 0 would mean that the number is unknown. */
    rows = (kept_rows(layer, c) * tokens + load_tokens - 1) / load_tokens;
    return rows ? rows : 1;
}

void sparse_work_shape(struct sparse_work *w, const struct layer *layer, uint32_t dtype,
                       uint32_t tokens, uint32_t hidden, uint64_t capacity)
{
    const struct moe_shape *s = &layer->shape;
    bool units_first = s->layout == MOE_LAYOUT_HIDDEN;

    w->layer = layer;
    w->at =
        (struct kept_rows){ .tokens = tokens,
                            .experts = s->experts,
                            .top_k = s->top_k,
                            .token_type = s->dtype,
                            .dtype = dtype,
                            .hidden = hidden,
                            .width = s->model_dim,
                            .capacity = capacity,
                            .unit_stride = units_first ? (uint64_t)s->experts * s->model_dim : 0,
                            .expert_stride = units_first ? s->model_dim : 0 };
}

void sparse_work_layout(struct sparse_work *w, struct arena *arena)
{
    uint64_t hidden = size_product(kept_rows_limit(&w->at), w->at.hidden);
    uint32_t kind = w->layer->shape.activation;
    size_t width = dtype_bytes(w->at.dtype);

    w->pre = w->post = arena_alloc(arena, hidden, width);
    if (kind != MOE_RELU)
        w->post = arena_alloc(arena, hidden, width);
    if (kind == MOE_SWIGLU)
        w->up = arena_alloc(arena, hidden, width);
}

/* A plan needs the same memory on every device, even memory that only one device uses.  f32 gets
 * the host's scratch memory, because a host computes in f32. */
struct kept_room sparse_work_room(const struct kept_rows *largest, struct arena *arena)
{
    struct kept_room room = { 0 };
    uint64_t results = kept_results_bytes(largest, dtype_bytes(largest->dtype));

    if (largest->dtype == MOE_F32)
        room.scratch = arena_alloc(arena, kept_scratch_bytes(largest->hidden, largest->width), 1);
    if (results)
        room.results = arena_alloc(arena, results, 1);
    return room;
}

void sparse_work_weights(struct sparse_work *w, const struct weights *weights, uint32_t piece,
                         bool bias2)
{
    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        bool used = i != TENSOR_B2 || bias2;

        w->weights[i] = used ? weights_of(weights, i, piece) : NULL;
        w->grads[i] = used ? weights_grad_of(weights, i, piece) : NULL;
    }
}

int sparse_work_sort(const struct sparse_work *w)
{
    return launch_reindex(w->stream, &(struct reindex){ .tokens = w->at.tokens,
                                                        .experts = w->at.experts,
                                                        .top_k = w->at.top_k,
                                                        .capacity = w->at.capacity,
                                                        .expert = w->at.expert,
                                                        .slot = w->at.slot,
                                                        .needed = w->needed,
                                                        .first = w->first,
                                                        .choice = w->choice,
                                                        .capacities = w->capacities });
}

/* The rows for results: with MOE_COMBINE_CHOICES each choice is like a token of its own. */
static struct kept_rows results_of(const struct sparse_work *w)
{
    struct kept_rows results = w->at;

    if (w->layer->shape.combine == MOE_COMBINE_CHOICES) {
        results.tokens *= results.top_k;
        results.top_k = 1;
    }
    return results;
}

int sparse_work_forward(const struct sparse_work *w, const void *tokens, float *sums)
{
    struct esmm product = {
        .at = w->at, .form = ESMM_FORWARD, .kind = w->layer->shape.activation, .tokens = tokens
    };
    bool per_choice = w->layer->shape.combine == MOE_COMBINE_CHOICES;

    if (w->up) {
        product.weights = w->weights[TENSOR_W3];
        product.pre = w->up;
        TRY(launch_esmm(w->stream, &product));
    }
    product.weights = w->weights[TENSOR_W1];
    product.bias = w->weights[TENSOR_B1];
    product.bias_stride = w->at.hidden;
    product.pre = w->pre;
    product.up = w->up;
    product.post = w->post;
    TRY(launch_esmm(w->stream, &product));
    return launch_esmm(w->stream,
                       &(struct esmm){ .at = results_of(w),
                                       .form = ESMM_TOKENS,
                                       .keep = w->later,
                                       .weights = w->weights[TENSOR_W2],
                                       .bias = w->weights[TENSOR_B2],
                                       .bias_stride = layer_bias2_stride(&w->layer->shape),
                                       .gate = per_choice ? NULL : w->gate,
                                       .rows = w->post,
                                       .sums = sums });
}

int sparse_work_backward_out(const struct sparse_work *w, const void *grad_y)
{
    uint64_t stride = layer_bias2_stride(&w->layer->shape);

    return launch_esfk(w->stream, &(struct esfk){ .product = { .at = results_of(w),
                                                               .form = ESMM_BACKWARD,
                                                               .kind = w->layer->shape.activation,
                                                               .keep = w->later,
                                                               .weights = w->weights[TENSOR_W2],
                                                               .bias = w->weights[TENSOR_B2],
                                                               .bias_stride = stride,
                                                               .tokens = grad_y,
                                                               .gate = w->gate,
                                                               .pre = w->pre,
                                                               .up = w->up,
                                                               .post = w->post,
                                                               .grad_gate = w->grad_gate,
                                                               .grad_pre = w->pre,
                                                               .grad_up = w->up ? w->post : NULL },
                                                  .grad = w->grads[TENSOR_W2],
                                                  .grad_bias = w->grads[TENSOR_B2],
                                                  .grad_stride = stride,
                                                  .keep = w->later_tokens });
}

int sparse_work_backward_in(const struct sparse_work *w, const void *tokens, bool keep, float *sums)
{
    struct esfk f = { .product = { .at = w->at,
                                   .form = ESMM_TOKENS,
                                   .keep = keep,
                                   .weights = w->weights[TENSOR_W1],
                                   .tokens = tokens,
                                   .rows = w->pre,
                                   .sums = sums },
                      .grad = w->grads[TENSOR_W1],
                      .grad_bias = w->grads[TENSOR_B1],
                      .grad_stride = w->at.hidden,
                      .keep = w->later_tokens };

    TRY(launch_esfk(w->stream, &f));
    if (!w->up)
        return OK;
    f.product.keep = true;
    f.product.weights = w->weights[TENSOR_W3];
    f.product.rows = w->post;
    f.grad = w->grads[TENSOR_W3];
    f.grad_bias = NULL;
    return launch_esfk(w->stream, &f);
}
