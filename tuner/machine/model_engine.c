/* Opens the modelled device and the modelled links of one rank. */
#include "model_engine.h"

#include "sim_model.h"
#include "status.h"
#include "wire_sim.h"
#include "world.h"

int model_engine_open(const struct cluster *cluster, int rank, uint64_t seed, struct world **world,
                      struct engine *engine)
{
    struct topology topology = { .rank = rank,
                                 .ranks = (int)cluster->ranks,
                                 .ranks_per_node = (int)cluster->ranks_per_node,
                                 .ranks_per_rack = (int)cluster->ranks_per_rack };
    struct device *device = NULL;
    struct wire *wire = NULL;
    int rc;

    TRY(world_alone(&topology, world));
    TRY(wire_sim_model_open(cluster, rank, &wire));
    rc = sim_model_open(cluster, seed, &device);
    if (rc) {
        wire_close(wire);
        return rc;
    }
    return engine_open_on(device, wire, engine);
}
