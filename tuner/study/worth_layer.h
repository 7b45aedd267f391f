/* What tuning one layer is expected to save (search/worth.h): every plan on modelled ranks, a
 * handful of steps on real ones. */
#ifndef WORTH_LAYER_H
#define WORTH_LAYER_H

#include "crew.h"
#include "progress.h"
#include "tune_options.h"
#include "worth.h"

struct worth_layer {
    struct worth worth;
    size_t buckets, plans;       /* that are modelled */
    uint32_t steps, timed_plans; /* on real ranks, warm-ups aside; each of a plan at a bucket */
    double default_s;            /* a step of each bucket that tune measures, by the default plan */
    double launch_s;             /* of the ranks; 0: they are modelled */
};

/* On the modelled cluster `model`, without its noise.  `real` NULL: no steps are taken; else
 * `progress` tells which ones, and knows until when.  Where the budget ends or a plan fails the
 * steps that there are count.  UNSUPPORTED after a message where the default plan cannot run. */
int worth_layer(const struct cluster *model, struct crew *real, struct progress *progress,
                const struct tune_request *request, const struct layer_plans *space,
                struct worth_layer *out);

#endif
