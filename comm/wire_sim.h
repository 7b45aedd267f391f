/* The wire of the sim back end: an exchange takes the time its costs say, for one representative
 * rank of a topology that exists only here. */
#ifndef WIRE_SIM_H
#define WIRE_SIM_H

#include "wire.h"

struct sim_link {
    int64_t (*exchange_ns)(const struct sim_link *link, const struct batch *batch);
};

/* `link` is borrowed and must outlive the wire. */
int wire_sim_open(const struct sim_link *link, const struct topology *topology, struct wire **out);

#endif
