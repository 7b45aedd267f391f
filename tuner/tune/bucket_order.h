/* Which buckets of a layer are measured, and in which order. */
#ifndef BUCKET_ORDER_H
#define BUCKET_ORDER_H

#include "space.h"

/* Fills the space's anchors: so many per doubling of c (0: every bucket), and the last one.
 * ERR_NOMEM. */
int bucket_order(struct space *space, double per_octave);

#endif
