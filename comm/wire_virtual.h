/* The wire of virtual ranks: one process is rank 0 of ranks that are not there.  What it would send
 * and receive is copied inside its own memory, no faster than a stated link would carry it, so that
 * the traffic takes from the kernels beside it what real traffic would.  The bytes that arrive are
 * its own: a step takes the right time and gives the wrong result.  Of a transfer whose sizes
 * differ, what both have is copied; a batch that leaves nothing to copy takes no time. */
#ifndef WIRE_VIRTUAL_H
#define WIRE_VIRTUAL_H

#include "wire.h"

struct virtual_link {
    double inside_gbs, between_gbs; /* per rank and direction, inside a node and between nodes */
    uint32_t ctas;                  /* blocks of GPU threads that copy; 0: the copy engine */
};

/* For a device "host" or "cuda"; borrowed.  UNSUPPORTED: the device has no paced copy. */
int wire_virtual_open(struct device *device, const struct topology *topology,
                      const struct virtual_link *link, struct wire **out);

#endif
