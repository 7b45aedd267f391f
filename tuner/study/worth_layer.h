/* Estimates what tuning one layer will save (search/worth.h), for `plan --worth`: it times every
 * plan on modelled ranks, and a few plans on real ones. */
#ifndef WORTH_LAYER_H
#define WORTH_LAYER_H

#include "crew.h"
#include "progress.h"
#include "tune_options.h"
#include "worth.h"

/* The estimate, and what it rests on: a plain value. */
struct worth_layer {
    struct worth worth;
    size_t buckets, plans; /* that were modelled */
    uint32_t steps;        /* on real ranks, without warm-up steps */
    uint32_t timed_plans;  /* pairs of a plan and a bucket that these steps timed */
    double default_s;      /* sum over tune's measured buckets of one step of the default plan */
    double launch_s;       /* one launch of the real ranks; 0: there are none */
};

/* Makes the estimate.  `model` is the modelled cluster; its noise does not count.  `real` NULL: no
 * steps are taken.  `progress` shows the real steps and has their deadline.  If the time is up or a
 * plan fails, the steps so far count.  UNSUPPORTED after a message if the default plan cannot run.
 */
int worth_layer(const struct cluster *model, struct crew *real, struct progress *progress,
                const struct tune_request *request, const struct layer_plans *space,
                struct worth_layer *out);

#endif
