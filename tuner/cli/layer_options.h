/* The flags that describe an MoE layer, shared by every verb that takes one. */
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

/* Option rows for a struct whose layer_options are the member `layer`. */
#define LAYER_AT(owner, field) offsetof(owner, layer) + offsetof(struct layer_options, field)
#define LAYER_OPTION_ROWS(owner)                                                                    \
    { "experts", "E", OPTION_COUNT, LAYER_AT(owner, experts), "experts in all (half the ranks)",    \
      NULL },                                                                                       \
        { "top-k",                                                                                  \
          "K",                                                                                      \
          OPTION_COUNT,                                                                             \
          LAYER_AT(owner, top_k),                                                                   \
          "experts per token (2, or 1 if there is one)",                                            \
          NULL },                                                                                   \
        { "tokens", "T", OPTION_COUNT, LAYER_AT(owner, tokens), "tokens per rank and step", NULL }, \
        { "model-dim", "D", OPTION_COUNT, LAYER_AT(owner, model_dim), "model dimension", NULL },    \
        { "hidden-dim",                                                                             \
          "H",                                                                                      \
          OPTION_COUNT,                                                                             \
          LAYER_AT(owner, hidden_dim),                                                              \
          "hidden dimension of an expert",                                                          \
          NULL },                                                                                   \
        { "dtype",    "TYPE", OPTION_WORD, LAYER_AT(owner, dtype), "storage: f32, f16, bf16",       \
          dtype_words },                                                                            \
        { "pass",                                                                                   \
          "PASS",                                                                                   \
          OPTION_WORD,                                                                              \
          LAYER_AT(owner, pass),                                                                    \
          "forward, or train (forward + backward)",                                                 \
          pass_words },                                                                             \
    {                                                                                               \
        "activation", "ACT", OPTION_WORD, LAYER_AT(owner, activation),                              \
            "relu, gelu, swiglu (gated)", activation_words                                          \
    }

/* What was left open follows from the ranks. */
struct moe_shape layer_options_shape(const struct layer_options *options, uint32_t ranks,
                                     uint32_t ranks_per_node);

#endif
