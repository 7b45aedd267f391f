/* Opens a device and a wire of a modelled cluster, and a layer on them. */
#ifndef SIM_STAGE_H
#define SIM_STAGE_H

#include "small_cluster.h"

#include "exec.h"

struct stage {
    struct engine engine;
    struct parts parts;
    struct layer *layer;
    struct exec *exec;
};

static inline struct stage stage_on(const struct cluster *cluster, uint64_t seed)
{
    struct stage s = { 0 };
    struct device *device = NULL;
    struct wire *wire = NULL;

    CHECK(!wire_sim_model_open(cluster, 0, &wire));
    CHECK(!sim_model_open(cluster, seed, &device));
    CHECK(!engine_open_on(device, wire, &s.engine));
    return s;
}

static inline void stage_close(struct stage *s)
{
    exec_close(s->exec);
    layer_close(s->layer);
    parts_close(&s->parts);
    engine_close(&s->engine);
}

#endif
