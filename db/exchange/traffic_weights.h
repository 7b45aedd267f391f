/* How often trainers asked for each bucket of one layer: what a mean over its buckets counts by. */
#ifndef TRAFFIC_WEIGHTS_H
#define TRAFFIC_WEIGHTS_H

#include "traffic.h"

/* Fills weights[bucket], of so many buckets, with the look-ups of the layer, also of records that
 * did not say T.  Those of other buckets count nowhere.  ERR_ARGUMENT after a message: the traffic
 * is of other layers, or nobody asked for any of these buckets. */
int traffic_weights(const struct traffic *traffic, const struct moe_shape *shape, uint32_t window,
                    double *weights, size_t buckets);

#endif
