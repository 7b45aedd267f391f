/* A layer on a modelled cluster, as `tune --sim` would take it in hand: its plans, its buckets, and
 * what the search is told of the machine. */
#ifndef MODELLED_LAYER_H
#define MODELLED_LAYER_H

#include "noise.h"
#include "step_times.h"
#include "study.h"
#include "true_bucket.h"

struct modelled_layer {
    struct tune_options options;
    struct cluster cluster;
    struct tune_request request;
    struct layer_plans
        *space; /* of the request: the setting that is looked at, the first one at first */
    struct step_times times;
    double sigma; /* of noise */
    uint64_t seed;
};

/* The cluster, its plans and buckets; no times yet.  Who names no layer gets that of Tutel's
 * Figure 1, who names no cluster the paper's.  ERR_ARGUMENT after a message, also where several
 * layers are named; one in several layouts or shares has a space for each. */
int modelled_layer_open(const struct study_ask *ask, struct modelled_layer *out);
void modelled_layer_close(struct modelled_layer *layer);

/* Looks at another setting; what was known of times is forgotten. */
void modelled_layer_choose(struct modelled_layer *layer, size_t setting);

/* What steps take at these capacities, under the layer's load. */
int modelled_layer_time(struct modelled_layer *layer, const uint64_t *capacities, size_t count);

/* What a step takes; NAN: more memory than there is. */
double modelled_layer_ns(const struct modelled_layer *layer, uint64_t capacity, int arm);

/* True times of a bucket at the capacity that stands for it.  False: no plan fits into the memory.
 */
bool modelled_layer_bucket(const struct modelled_layer *layer, uint32_t bucket,
                           struct true_bucket *out);

/* A search as `tune` opens one, and the noise that it is told, of this run of several. */
int modelled_layer_search(const struct modelled_layer *layer, const struct search_ops *strategy,
                          uint32_t run, struct search **out);
struct noise modelled_layer_noise(const struct modelled_layer *layer, uint32_t run);

#endif
