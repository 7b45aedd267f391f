/* From options to a shape. */
#include "layer_options.h"

#include "plan.h"
#include "status.h"

#define AT(field) offsetof(struct layer_options, field)
const struct option_row layer_rows[] = {
    { "experts", "E", OPTION_COUNT, AT(experts), "experts in all (half the ranks)" },
    { "top-k", "K", OPTION_COUNT, AT(top_k), "experts per token (2, or 1 if there is one)" },
    { "tokens", "T", OPTION_COUNT, AT(tokens), "tokens per rank and step" },
    { "model-dim", "D", OPTION_COUNT, AT(model_dim), "model dimension" },
    { "hidden-dim", "H", OPTION_COUNT, AT(hidden_dim), "hidden dimension of an expert" },
    { "dtype", "TYPE", OPTION_WORD, AT(dtype), "storage: f32, f16, bf16", dtype_words },
    { "pass", "PASS", OPTION_WORD, AT(pass), "forward, or train (forward + backward)", pass_words },
    { "activation", "ACT", OPTION_WORD, AT(activation), "relu, gelu, swiglu (gated)",
      activation_words },
    { NULL },
};
#undef AT

#define AT(field) offsetof(struct stated_layer, field)
const struct option_row stated_layer_rows[] = {
    { "ranks", "N", OPTION_COUNT, AT(ranks), "ranks of the group" },
    { "ranks-per-node", "M", OPTION_COUNT, AT(ranks_per_node), "ranks on a node (all of them)" },
    { .kind = OPTION_GROUP, .offset = AT(layer), .rows = layer_rows },
    { "shape", "TEXT", OPTION_TEXT, AT(shape), "the layer as text, as `moetune show` prints it" },
    { NULL },
};
#undef AT

struct moe_shape layer_options_shape(const struct layer_options *o, uint32_t ranks,
                                     uint32_t ranks_per_node)
{
    struct moe_shape shape = { .struct_size = sizeof(shape),
                               .experts = o->experts,
                               .top_k = o->top_k,
                               .model_dim = o->model_dim,
                               .hidden_dim = o->hidden_dim,
                               .ranks = ranks,
                               .ranks_per_node = ranks_per_node,
                               .dtype = o->dtype,
                               .pass = o->pass,
                               .activation = o->activation,
                               .tokens = o->tokens };

    if (shape.experts == LAYER_FOLLOWS)
        shape.experts = ranks % 2 == 0 ? ranks / 2 : 1;
    if (shape.top_k == LAYER_FOLLOWS)
        shape.top_k = shape.experts > 1 ? 2 : 1;
    return shape;
}

int layer_options_plan(const char *text, struct moe_plan *out)
{
    return plan_parse(text, out) ? fail(ERR_ARGUMENT,
                                        "--plan \"%s\": a plan reads \"r=1 d=2 a=2dh\"; d is 1, 2, "
                                        "4 or 8, a is linear, 2dh or nccl",
                                        text)
                                 : OK;
}

int stated_layer_shape(const struct stated_layer *s, struct moe_shape *out)
{
    struct moe_shape shape =
        layer_options_shape(&s->layer, s->ranks, s->ranks_per_node ? s->ranks_per_node : s->ranks);

    if (s->shape && shape_parse(s->shape, &shape))
        return ERR_ARGUMENT;
    TRY(shape_check(&shape));
    *out = shape;
    return OK;
}
