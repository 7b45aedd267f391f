/* One plan at one capacity, prepared on all ranks, and one timed step of it.
 *
 * Every function but trial_close is collective and gives the same result on every rank. */
#ifndef TRIAL_H
#define TRIAL_H

#include "measure.h"
#include "rig.h"

/* What a step is timed as: both streams, or one of them muted. */
enum step_mode { STEP_BOTH, STEP_COMPUTE, STEP_COMM, STEP_MODES };

struct trial {
    struct rig *rig;
    struct moe_plan plan;
    uint64_t capacity;
    struct exec *exec;
    int64_t memory_bytes;         /* plan, layer and tokens, the most over the ranks */
    int64_t sent_bytes, messages; /* of one step, likewise; known once it is warm */
};

/* Prepares the plan at the rig's capacity. */
int trial_open(struct rig *rig, const struct moe_plan *plan, struct trial *out);
void trial_close(struct trial *trial); /* a zeroed one is fine */

/* One step: a barrier, the step, the largest time over the ranks. */
int trial_step(struct trial *trial, enum step_mode mode, int64_t *ns);

/* One whole step, and what other processes took of it; `watch`: see measure_once(). */
int trial_watch(struct trial *trial, struct disturbance *watch, struct measured *out);

/* `steps` untimed steps (at least one), after which volumes are known. */
int trial_warm(struct trial *trial, uint32_t steps);

#endif
