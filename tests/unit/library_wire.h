/* A test wire, on the host over another wire, whose library has its own gathers, sums and
 * all-to-alls, as NCCL has.  It shows that such calls get the right arguments. */
#ifndef LIBRARY_WIRE_H
#define LIBRARY_WIRE_H

#include "wire.h"

/* `inner` is owned from here on, even on failure. */
int library_wire_open(struct wire *inner, struct wire **out);

/* Collectives of a kind that were exchanged so far. */
int library_wire_calls(const struct wire *wire, enum collective_kind kind);

/* Whether memory was withdrawn, and never while a batch was left: for one executor at a time. */
bool library_wire_withdrew(const struct wire *wire);

#endif
