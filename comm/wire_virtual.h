/* The wire of virtual ranks (--virtual-ranks): one process plays rank 0, and the other ranks do not
 * exist.  It copies what it would send and receive inside its own memory, no faster than a stated
 * link.  So these copies slow the kernels beside them as real transfers would.  The bytes that
 * arrive are its own: a step takes the right time and gives a wrong result.  Where the two sizes of
 * a transfer differ, it copies the smaller; a batch with nothing to copy takes no time. */
#ifndef WIRE_VIRTUAL_H
#define WIRE_VIRTUAL_H

#include "wire.h"

/* The speed of the links that the wire imitates.  A plain value. */
struct virtual_link {
    double inside_gbs, between_gbs; /* GB/s per rank and direction, inside and between nodes */
    uint32_t ctas;                  /* number of GPU thread blocks that copy; 0: copy engines */
};

/* Opens it on device "host" or "cuda", which is borrowed.  UNSUPPORTED: the device has no copy at a
 * limited speed. */
int wire_virtual_open(struct device *device, const struct topology *topology,
                      const struct virtual_link *link, struct wire **out);

#endif
