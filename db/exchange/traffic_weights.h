/* How often trainers asked for each bucket of one layer: what a mean over its buckets counts by. */
#ifndef TRAFFIC_WEIGHTS_H
#define TRAFFIC_WEIGHTS_H

#include "ranges.h"
#include "traffic.h"

/* Fills weights[bucket], of so many buckets, with the look-ups of the layer, also of records that
 * did not say T.  Those of other buckets count nowhere.  ERR_ARGUMENT after a message: the traffic
 * is of other layers, or nobody asked for any of these buckets. */
int traffic_weights(const struct traffic *traffic, const struct moe_shape *shape, uint32_t window,
                    double *weights, size_t buckets);

/* Where nobody says how often: each doubling of the key alike; a range without a lower or an upper
 * end counts as one. */
void traffic_even(struct ranges ranges, double *weights, size_t buckets);

#endif
