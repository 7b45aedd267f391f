/* The options that describe an MoE layer, shared by every verb that takes one. */
#ifndef LAYER_OPTIONS_H
#define LAYER_OPTIONS_H

#include "moelookup.h"
#include "options.h"
#include "shape.h"

struct layer_options {
    uint32_t experts, top_k, tokens, model_dim, hidden_dim, dtype, pass, activation, layers;
    uint32_t layouts, shares; /* a bit for each word that is named */
    uint32_t groups, group_limit, router, projection, order, combine;
};

/* What was not given has its default, or follows from the number of ranks. */
enum { NOT_GIVEN = UINT32_MAX };
#define LAYER_DEFAULTS                                                                             \
    {                                                                                              \
        NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN,    \
            NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN,           \
            NOT_GIVEN, NOT_GIVEN                                                                   \
    }

extern const struct option_row layer_rows[];

/* How tokens choose experts, for load_open(): at random unless one of the first two is given; and
 * what else a step computes. */
struct load_options {
    double skew, between;
    struct option_list routing; /* files */
};
#define LOAD_BETWEEN_MOST 1e5 /* GFLOP */
extern const struct option_row load_rows[];

/* ERR_ARGUMENT after a message where --skew and --routing are both given. */
int load_options_check(const struct load_options *options);

/* What the options name may be several layers, which differ in layout and shares: each with one bit
 * of both, or none.  Returns how many. */
enum { LAYER_SETTINGS_MAX = 8 };
size_t layer_options_settings(const struct layer_options *options,
                              struct layer_options out[LAYER_SETTINGS_MAX]);

/* ERR_ARGUMENT where they name several and one is wanted. */
int layer_options_single(const struct layer_options *options);

/* The value of --plan.  ERR_ARGUMENT after a message; whether the plan fits a layer is not asked.
 */
int layer_options_plan(const char *text, struct moe_plan *out);

/* Nobody names a layer. */
bool layer_options_none(const struct layer_options *options);

/* Where nobody names a layer: true, and one whose plans differ on such ranks, in steps of
 * milliseconds.  `device` is the backend of a cluster that is there. */
bool layer_options_example(const char *device, uint32_t ranks, struct layer_options *inout);

/* The shape of a layer in a single setting.  dtype: how it is stored where nobody says it, see
 * gpus_dtype(). */
struct moe_shape layer_options_shape(const struct layer_options *options, struct rank_layout on,
                                     uint32_t dtype);

/* shape_check(), which says once if groups of experts lie on several nodes in part. */
int layer_options_check(const struct moe_shape *shape);

/* Adds what a text such as "E=8 H=4096 W=4" says.  ERR_ARGUMENT for what is no such text, or says
 * something else than what was given; then nothing is changed. */
int layer_options_text(const char *text, struct layer_options *inout, struct rank_layout *on);

/* A layer of ranks that are not here: for verbs that only read or write tables. */
struct stated_layer {
    struct layer_options layer;
    struct rank_layout on; /* NOT_GIVEN */
    const char *shape;     /* as text; NULL: none */
};
#define STATED_LAYER_DEFAULTS                                                                      \
    {                                                                                              \
        .layer = LAYER_DEFAULTS, .on = { NOT_GIVEN, NOT_GIVEN, NOT_GIVEN }                         \
    }

extern const struct option_row stated_layer_rows[];

/* ERR_ARGUMENT after a message for a layer that cannot be. */
int stated_layer_shape(const struct stated_layer *stated, uint32_t dtype, struct moe_shape *out);

/* Whether a layer has every word that was given. */
bool stated_layer_fits(const struct stated_layer *stated, const struct moe_shape *shape);

#endif
