/* The options of `tune` and `plan`, and the request that follows from them before anything runs:
 * layers, plans, buckets and limits. */
#ifndef TUNE_OPTIONS_H
#define TUNE_OPTIONS_H

#include "campaign.h"
#include "layer_options.h"
#include "layer_plans.h"
#include "search.h"
#include "store.h"
#include "traffic.h"

#include <stdio.h>

enum { TUNE_LAYERS_MAX = 128, TUNE_LAUNCH_STEPS_MAX = 100 };

/* The options as the command line has them; a plain value that borrows argv. */
struct tune_options {
    struct campaign_setup setup;
    struct layer_options layer;
    struct load_options load;
    struct option_list models, shapes, misses, guards, traffic;
    bool cluster, retune, json, paste, worth, all_fixed;
    uint32_t window; /* 0: each layer's own */
    uint32_t search, effort, repeats, color, launch_steps;
    double max_factor, harm, margin;
    const char *buckets, *axes, *fixed, *space, *exec, *implementation;
};

/* Options that fill struct tune_options, and its defaults. */
extern const struct option_row tune_rows[];
extern const struct tune_options tune_defaults;

/* Prints the strategies and efforts, for --help. */
void tune_tables(FILE *out);

/* Everything that follows from the options without ranks.  tune_request_make() allocates it,
 * tune_request_free() frees it. */
struct tune_request {
    const struct tune_options *options; /* borrowed */
    struct cluster cluster;
    struct search_machine machine; /* the constants that the search starts from */
    const struct search_ops *strategy;
    const struct effort *effort;
    int64_t memory_limit_bytes; /* per rank */
    /* Of --space: the declared space of the file, NULL: no file; and the space that the layers
     * have, NULL: they have moetune's own plans.  `own`: these on all axes (--space moetune). */
    const struct declaration *file_space, *declared;
    bool own;
    struct layer_plans *spaces; /* the layers, each with its plans and buckets */
    size_t space_count;         /* the number of layers */
    /* The traffic of the files of --from-misses, and by layer its part of it. */
    struct traffic traffic;
    const struct traffic_layer **asked;
    /* The axes that trainers cannot switch between buckets, a bit each; 0: they can switch all. And
     * the traffic of --traffic, which weights buckets when launch values are chosen. */
    uint32_t fixed;
    struct traffic weights;
};

/* Writes the fixed axes as `--launch` takes them: "r,d". */
void tune_fixed_text(const struct tune_request *request, char text[FIXED_AXES_BYTES]);

/* The list of axes that vary.  The axis e is added if nothing drops (--routing, or factor 0) and
 * --axes is not given: padding is of no use there. */
const char *tune_axes(const struct tune_options *options);

/* Checks that options do not contradict each other or HOSTS (NULL: none).  ERR_ARGUMENT after a
 * message. */
int tune_options_check(struct tune_options *options, const char *hosts);

/* Makes the request for the cluster `here`; with --sim for the cluster of the file. */
int tune_request_make(const struct tune_options *options, const struct cluster *here,
                      struct tune_request *out);

/* Adds a layer with buckets "LO:HI" of this width (0: that of shape_window()).  `asked` may be
 * NULL. */
int tune_request_add(struct tune_request *request, const struct moe_shape *shape, uint32_t window,
                     const char *buckets, const struct traffic_layer *asked);

/* ERR_NOMEM, after a message for each, if some layer has no plan that fits into memory.  *none: no
 * layer has one. */
int tune_request_fits(const struct tune_request *request, bool *none);

/* Has the search start from numbers that were measured of this cluster.  With --sim they are known
 * already. */
void tune_request_learn(struct tune_request *request, const struct cluster *known);
/* How many trials the paper's search takes for the buckets of one layer. */
uint64_t tune_paper_trials(const struct tune_request *request, size_t space);

void tune_request_free(struct tune_request *request);

/* The cluster of the file of --sim, or `here` without it. */
int tune_cluster(const struct campaign_setup *setup, const struct cluster *here,
                 struct cluster *out);

/* What the memory accounts need to know of a cluster. */
struct account_machine tune_machine(const struct cluster *cluster);

#endif
