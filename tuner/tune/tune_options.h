/* What `tune` and `plan` are asked for: flags, and what follows from them before anything runs. */
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

/* Strategies and efforts, for --help. */
void tune_tables(FILE *out);

/* Options, and everything that can be known without ranks. */
struct tune_request {
    const struct tune_options *options; /* borrowed */
    struct cluster cluster;
    struct search_machine machine; /* what the search starts from */
    const struct search_ops *strategy;
    const struct effort *effort;
    int64_t memory_limit_bytes;
    /* Of --space: the file's, and whose plans are declared so; NULL: moetune's own, `own` on all
     * axes. */
    const struct declaration *file_space, *declared;
    bool own;
    struct layer_plans *spaces; /* one per layer */
    size_t space_count;
    /* What the files of --from-misses recorded, and each space's part of it. */
    struct traffic traffic;
    const struct traffic_layer **asked;
    /* What trainers cannot switch from bucket to bucket: axes, a bit each; 0: nothing.  By what
     * --traffic recorded a launch of these is chosen, where it is given. */
    uint32_t fixed;
    struct traffic weights;
};

/* "r,d": all axes that are fixed, as `--launch` takes them. */
void tune_fixed_text(const struct tune_request *request, char text[FIXED_AXES_BYTES]);

/* Which axes vary.  Who records a load, or asks for capacities at which nothing drops, has no use
 * for padding: there e is one of them, unless the options name those that are wanted. */
const char *tune_axes(const struct tune_options *options);

/* Refuses options that contradict each other or HOSTS (NULL: none): ERR_ARGUMENT after a message.
 */
int tune_options_check(struct tune_options *options, const char *hosts);

/* Makes the request for this cluster; with --sim for that of the file, and `here` is not read. */
int tune_request_make(const struct tune_options *options, const struct cluster *here,
                      struct tune_request *out);

/* One more layer, with buckets "LO:HI" of that width (0: that of shape_window()); `asked` may be
 * NULL.  For those that collect layers. */
int tune_request_add(struct tune_request *request, const struct moe_shape *shape, uint32_t window,
                     const char *buckets, const struct traffic_layer *asked);

/* Where no plan of a layer fits into the memory there is, that is said.  ERR_NOMEM if it is so of
 * one, and in *none whether it is of every one. */
int tune_request_fits(const struct tune_request *request, bool *none);

/* The search starts from what was measured of this cluster, where something was.  A modelled one
 * is known already. */
void tune_request_learn(struct tune_request *request, const struct cluster *known);
/* How many trials the paper's search takes for the buckets of one of the layers. */
uint64_t tune_paper_trials(const struct tune_request *request, size_t space);

void tune_request_free(struct tune_request *request);

/* The cluster that the file `sim` describes, or `here` where it is NULL; for other verbs that
 * measure. */
int tune_cluster(const struct campaign_setup *setup, const struct cluster *here,
                 struct cluster *out);

/* What is known of it before its ranks run. */
struct account_machine tune_machine(const struct cluster *cluster);

#endif
