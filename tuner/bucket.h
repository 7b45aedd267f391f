/* One bucket: what is known of it is replayed, the search goes on from there, the winner meets the
 * default plan, and an entry results. */
#ifndef BUCKET_H
#define BUCKET_H

#include "sweep.h"

/* A layer's sweep under way. */
struct sweep {
    const struct sweep_setup *setup;
    struct space *space;
    struct search *search;
    int64_t shape;                     /* its id in the store */
    bool told;                         /* the ranks know the layer */
    bool errands;                      /* certain buckets alone */
    bool settled;                      /* nothing is measured any more */
    const struct traffic_layer *asked; /* NULL: nobody knows */
    struct sweep_result result;
};

/* ERR_CUT when time is up: no entry then, but every sample is kept. */
int bucket_measure(struct sweep *sweep, uint32_t bucket, struct entry_row *out);

/* The entry that follows from all samples there are, without another one.  UNSUPPORTED: no plan can
 * run there. */
int bucket_redecide(struct sweep *sweep, uint32_t bucket, struct entry_row *out);

/* For the search alone: tells it what an earlier run measured here. */
int bucket_recall(struct sweep *sweep, uint32_t bucket);

#endif
