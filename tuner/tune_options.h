/* What `tune` and `plan` are asked for: flags, and what follows from them before anything runs. */
#ifndef TUNE_OPTIONS_H
#define TUNE_OPTIONS_H

#include "cluster.h"
#include "layer_options.h"
#include "search.h"
#include "space.h"
#include "traffic.h"
#include "virtual_ranks.h"

enum { TUNE_LAYERS_MAX = 128 };

struct tune_options {
    struct layer_options layer;
    struct virtual_options pretence;
    struct option_list models, shapes, misses;
    bool cluster, retune, json, quiet, steal, repair;
    uint32_t ranks, ranks_per_node, window, effort, repeats;
    uint64_t seed;
    double max_factor, margin, timeout_s;
    const char *device, *sim, *buckets, *search, *axes, *db, *budget, *max_memory;
    const char *hosts, *launcher_arguments;
    const char *exec, *implementation;
};

/* Options, and everything that can be known without ranks. */
struct tune_request {
    struct tune_options options;
    struct cluster cluster;
    struct search_machine machine; /* what the search starts from */
    const struct search_ops *strategy;
    const struct effort *effort;
    double budget_s; /* 0: none */
    int64_t memory_limit_bytes;
    struct space *spaces; /* one per layer */
    size_t space_count;
    /* Of --from-misses: what was recorded, and of each space its part. */
    struct traffic traffic;
    const struct traffic_layer **asked;
};

/* What every option is when it is not given. */
struct tune_options tune_options_default(void);

/* argv[0] is the verb.  ERR_ARGUMENT after a message; *help: the text was printed. */
int tune_options_parse(const char *verb, int argc, char **argv, struct tune_options *out,
                       bool *help);

/* For this cluster; with --sim for that of the file, and `here` is not read. */
int tune_request_make(const struct tune_options *options, const struct cluster *here,
                      struct tune_request *out);

/* One more layer, with buckets "LO:HI" of that width; `asked` may be NULL.  For those that collect
 * layers. */
int tune_request_add(struct tune_request *request, const struct moe_shape *shape, uint32_t window,
                     const char *buckets, const struct traffic_layer *asked);

/* The search starts from what was measured of this cluster, where something was.  A modelled one
 * is known already. */
void tune_request_learn(struct tune_request *request, const struct cluster *known);
/* Of the paper's search, for the buckets of one of the layers. */
uint64_t tune_paper_trials(const struct tune_request *request, size_t space);

void tune_request_free(struct tune_request *request);

/* For other verbs that measure: that of the file, or `here` where `sim` is NULL. */
int tune_cluster(const char *sim, const struct cluster *here, struct cluster *out);

/* What one rank may use: `given` as --max-memory has it, or NULL: what the cluster has for each. */
int tune_memory(const char *given, const struct cluster *cluster, int64_t *bytes);

/* "90s", "10m", "2h"; NULL leaves *seconds alone. */
int tune_budget(const char *text, double *seconds);

#endif
