/* A layer on a modelled cluster, prepared as `tune --sim` prepares it: its plans, its buckets, and
 * its true step times.  `study trace` and tests/bench judge searches with it. */
#ifndef MODELLED_LAYER_H
#define MODELLED_LAYER_H

#include "noise.h"
#include "step_times.h"
#include "study.h"
#include "true_bucket.h"

/* modelled_layer_open() makes one, modelled_layer_close() frees it. */
struct modelled_layer {
    struct tune_options options;
    struct cluster cluster;
    struct tune_request request;
    /* The setting (layout and shares) that the calls below are about: one of request.spaces. */
    struct layer_plans *space;
    struct step_times times; /* true times of the setting; empty until modelled_layer_time() */
    double sigma;            /* of the noise, in log time */
    uint64_t seed;
};

/* Opens the layer on its cluster without step times, at its first setting.  Without options of a
 * layer it is that of Tutel's Figure 1; without --sim the cluster is the paper's.  A layer in
 * several layouts or shares has one setting for each.  ERR_ARGUMENT after a message, also for more
 * than one layer. */
int modelled_layer_open(const struct study_ask *ask, struct modelled_layer *out);
void modelled_layer_close(struct modelled_layer *layer);

/* Changes to another setting of the request, and drops the step times. */
void modelled_layer_choose(struct modelled_layer *layer, size_t setting);

/* Computes the true times of all plans at these capacities, under the layer's load. */
int modelled_layer_time(struct modelled_layer *layer, const uint64_t *capacities, size_t count);

/* Returns a true step time in ns; NAN if the plan does not fit into the memory.  `capacity` is one
 * of those given to modelled_layer_time(). */
double modelled_layer_ns(const struct modelled_layer *layer, uint64_t capacity, int arm);

/* Writes the true times of a bucket, at the capacity at which tune measures it.  Returns false if
 * no plan fits into the memory. */
bool modelled_layer_bucket(const struct modelled_layer *layer, uint32_t bucket,
                           struct true_bucket *out);

/* Opens a search as `tune` opens one.  `run` numbers repetitions: it changes the seed. */
int modelled_layer_search(const struct modelled_layer *layer, const struct search_ops *strategy,
                          uint32_t run, struct search **out);

/* Returns the noise of this run's timed steps. */
struct noise modelled_layer_noise(const struct modelled_layer *layer, uint32_t run);

#endif
