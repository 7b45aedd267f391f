/* Describes a small layer by its numbers of experts and ranks, for tests of which plans it can run.
 */
#ifndef SMALL_LAYER_H
#define SMALL_LAYER_H

#include "shape.h"

static inline struct moe_shape shape(uint32_t experts, uint32_t ranks, uint32_t per_node)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = experts,
                               .top_k = 1,
                               .model_dim = 10,
                               .hidden_dim = 48,
                               .ranks = ranks,
                               .ranks_per_node = per_node };
}

#endif
