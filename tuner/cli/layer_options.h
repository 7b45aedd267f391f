/* The options that describe an MoE layer, shared by every verb that takes one, and the shape that
 * they make. */
#ifndef LAYER_OPTIONS_H
#define LAYER_OPTIONS_H

#include "moelookup.h"
#include "options.h"
#include "shape.h"

/* The values of layer_rows, a plain value.  NOT_GIVEN: the option was not typed. */
struct layer_options {
    uint32_t experts, top_k, tokens, model_dim, hidden_dim, dtype, pass, activation, layers;
    uint32_t layouts, shares; /* a bit for each word that is named */
    uint32_t groups, group_limit, router, projection, order, combine;
};

/* An option that was not typed has its default, or follows from the number of ranks. */
enum { NOT_GIVEN = UINT32_MAX };
#define LAYER_DEFAULTS                                                                             \
    {                                                                                              \
        NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN,    \
            NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN,           \
            NOT_GIVEN, NOT_GIVEN                                                                   \
    }

extern const struct option_row layer_rows[];

/* The values of load_rows, for load_open(): the expert load, and what else a step computes. Without
 * skew and routing tokens choose experts at random. */
struct load_options {
    double skew, between;       /* largest over mean load, 0: not given; GFLOP before each layer */
    struct option_list routing; /* files */
};
#define LOAD_BETWEEN_MOST 1e5 /* GFLOP */
extern const struct option_row load_rows[];

/* ERR_ARGUMENT after a message where --skew and --routing are both given. */
int load_options_check(const struct load_options *options);

/* Options with several words of --layout or --shares name several layers.  Writes the options of
 * each, with one bit, or none, in both members.  Returns the number of layers. */
enum { LAYER_SETTINGS_MAX = 8 };
size_t layer_options_settings(const struct layer_options *options,
                              struct layer_options out[LAYER_SETTINGS_MAX]);

/* ERR_ARGUMENT after a message if the options name several layers. */
int layer_options_single(const struct layer_options *options);

/* Reads the value of --plan.  ERR_ARGUMENT after a message.  Does not check whether the plan fits a
 * layer. */
int layer_options_plan(const char *text, struct moe_plan *out);

/* Whether no option names a layer. */
bool layer_options_none(const struct layer_options *options);

/* If no option names a layer, writes an example and returns true.  Its plans differ in time on such
 * ranks, and its steps take milliseconds.  `device`: the backend of the real cluster. */
bool layer_options_example(const char *device, uint32_t ranks, struct layer_options *inout);

/* The shape of the one layer that the options name.  `dtype`: the storage type if --dtype is not
 * given, see gpus_dtype(). */
struct moe_shape layer_options_shape(const struct layer_options *options,
                                     struct rank_layout placement, uint32_t dtype);

/* Calls shape_check(), and notes once if a group of experts lies on parts of several nodes. */
int layer_options_check(const struct moe_shape *shape);

/* Adds the values of a text such as "E=8 H=4096 W=4" to options that were not given.  ERR_ARGUMENT
 * if the text is wrong, or contradicts an option; then nothing is changed. */
int layer_options_text(const char *text, struct layer_options *inout,
                       struct rank_layout *placement);

/* A layer and its ranks as options name them, for verbs that start no ranks but read or write
 * tables. */
struct stated_layer {
    struct layer_options layer;
    struct rank_layout on; /* members may be NOT_GIVEN */
    const char *shape;     /* the text of --shape; NULL: not given */
};
#define STATED_LAYER_DEFAULTS                                                                      \
    {                                                                                              \
        .layer = LAYER_DEFAULTS, .on = { NOT_GIVEN, NOT_GIVEN, NOT_GIVEN }                         \
    }

extern const struct option_row stated_layer_rows[];

/* Makes the shape, with defaults for what was not given.  ERR_ARGUMENT after a message for a layer
 * that cannot be. */
int stated_layer_shape(const struct stated_layer *stated, uint32_t dtype, struct moe_shape *out);

/* Whether a layer agrees with every option that was given. */
bool stated_layer_fits(const struct stated_layer *stated, const struct moe_shape *shape);

#endif
