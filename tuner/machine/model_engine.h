/* One rank of a modelled cluster, on a virtual clock. */
#ifndef MODEL_ENGINE_H
#define MODEL_ENGINE_H

#include "cluster.h"
#include "engine.h"

/* The cluster must have passed cluster_check_model(); it is not kept.  `seed`: of its noise.  On
 * failure *world may be open; engine_close() and world_close() in any case. */
int model_engine_open(const struct cluster *cluster, int rank, uint64_t seed, struct world **world,
                      struct engine *engine);

#endif
