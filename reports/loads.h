/* Steps of r=0 with padded and with sparse experts, under every load that a layer was measured
 * under. */
#ifndef LOADS_H
#define LOADS_H

#include "facts.h"

struct load_pair {
    double skew; /* max/mean of the tokens per expert */
    uint32_t bucket;
    uint64_t capacity;
    struct spread padded, sparse;
};

/* Those of which both are known, into the layer; by capacity, then skew. */
int loads_read(struct store *store, struct layer_facts *layer);

#endif
