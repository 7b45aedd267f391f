/* From flags to a shape. */
#include "layer_options.h"

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
