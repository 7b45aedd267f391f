/* Makes one rank of a modelled cluster, which computes and exchanges on a virtual clock. */
#ifndef MODEL_ENGINE_H
#define MODEL_ENGINE_H

#include "cluster.h"
#include "engine.h"

/* Opens a world and an engine for one rank.  The cluster must have passed cluster_check_model(),
 * and is borrowed for the call.  `seed`: of its noise.  Call engine_close() and world_close() in
 * any case: after a failure *world may be open. */
int model_engine_open(const struct cluster *cluster, int rank, uint64_t seed, struct world **world,
                      struct engine *engine);

#endif
