/* Asks a modelled worker how long one step takes. */
#include "replay.h"

#include "status.h"
#include "worker.h"

#include <math.h>
#include <stdio.h>

static bool can_be_modelled(const struct cluster *c)
{
    int rc;

    log_only(false);
    rc = cluster_check_model(c, "");
    log_only(true);
    return rc == OK;
}

double replay_ns(const struct cluster *cluster, const struct moe_shape *shape,
                 const struct moe_plan *plan, uint64_t capacity)
{
    struct cluster c = *cluster;
    struct order layer = { .kind = ORDER_LAYER, .shape = *shape, .memory_limit_bytes = INT64_MAX };
    struct order step = { .kind = ORDER_STEP, .plan = *plan, .capacity = capacity };
    struct reply reply = { .state = TRIAL_FAILED };
    struct worker *worker = NULL;

    snprintf(c.backend, sizeof(c.backend), "sim");
    cluster_silence(&c);
    if (!can_be_modelled(&c) || worker_open_model(&c, 0, NULL, 0, &worker))
        return NAN;
    worker_do(worker, &layer, &reply);
    if (reply.state == TRIAL_OK)
        worker_do(worker, &step, &reply);
    worker_close(worker);
    return reply.state == TRIAL_OK ? (double)reply.ns : NAN;
}
