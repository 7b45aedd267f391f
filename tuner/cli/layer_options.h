/* The options that describe an MoE layer, shared by every verb that takes one. */
#ifndef LAYER_OPTIONS_H
#define LAYER_OPTIONS_H

#include "moelookup.h"
#include "options.h"
#include "shape.h"

struct layer_options {
    uint32_t experts, top_k, tokens, model_dim, hidden_dim, dtype, pass, activation;
};

/* Experts and top_k follow from the number of ranks unless they are given. */
enum { LAYER_FOLLOWS = UINT32_MAX };

/* The one table of defaults. */
#define LAYER_DEFAULTS                                                                             \
    {                                                                                              \
        .experts = LAYER_FOLLOWS, .top_k = LAYER_FOLLOWS, .tokens = 512, .model_dim = 128,         \
        .hidden_dim = 256, .dtype = MOE_F32, .pass = MOE_TRAIN, .activation = MOE_RELU             \
    }

extern const struct option_row layer_rows[];

/* The value of --plan.  ERR_ARGUMENT after a message; whether the plan fits a layer is not asked.
 */
int layer_options_plan(const char *text, struct moe_plan *out);

/* What was left open follows from the ranks. */
struct moe_shape layer_options_shape(const struct layer_options *options, uint32_t ranks,
                                     uint32_t ranks_per_node);

/* A layer of ranks that are not here: for verbs that only read or write tables. */
struct stated_layer {
    struct layer_options layer;
    uint32_t ranks, ranks_per_node; /* ranks_per_node 0: all of them */
    const char *shape;              /* as text, which counts more; NULL: none */
};
#define STATED_LAYER_DEFAULTS                                                                      \
    {                                                                                              \
        .layer = LAYER_DEFAULTS, .ranks = 4                                                        \
    }

extern const struct option_row stated_layer_rows[];

/* ERR_ARGUMENT after a message for a layer that cannot be. */
int stated_layer_shape(const struct stated_layer *stated, struct moe_shape *out);

#endif
