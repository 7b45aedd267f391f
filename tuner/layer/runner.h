/* One plan at one capacity, prepared on all ranks, and one timed step of it.
 *
 * Every function is collective and gives the same result on every rank; runner_close, of one that
 * was never captured, need not be. */
#ifndef RUNNER_H
#define RUNNER_H

#include "device.h"
#include "measure.h"
#include "phase.h"
#include "rig.h"
#include "stats.h"

/* Where a step's time goes: each kernel and exchange belongs to a phase, whose time is what its
 * work takes while the other stream is muted. */

/* Samples of which the least and the most enclose the median with 95 %. */
enum { PHASE_SAMPLES_LEAST = 6 };

struct phase_times {
    int64_t ns[PHASE_COUNT];
};

struct phase_spreads {
    struct spread of[PHASE_COUNT];
    struct spread exchanges_ppm; /* the all-to-all share: both kinds of exchanges, of the total */
};

/* The phase of a kernel or exchange: what its stream's purpose says, else what is usual for it. */
enum phase phase_of(const struct mark *mark);

/* What a step is timed as: both streams, or one of them muted; and both, launch by launch, where
 * the others are graphs, or queued before the GPU begins. */
enum step_mode { STEP_BOTH, STEP_COMPUTE, STEP_COMM, STEP_MODES, STEP_EAGER = STEP_MODES };

struct runner {
    struct rig *rig;
    struct moe_plan plan;
    uint64_t capacity;
    struct exec *exec;
    bool captured;                    /* on all ranks: a graph was made, or tried */
    struct graph *graphs[STEP_MODES]; /* made at the first step of a kind, if wanted */
    bool warm;                        /* its steps may be captured */
    int64_t memory_bytes;             /* plan, layer and tokens, the most over the ranks */
    int64_t sent_bytes, messages;     /* of one step, likewise; known once it is warm */
    struct issued issued;             /* likewise, launch by launch */
    struct marks marks;               /* of its steps by phases */
    int64_t replay_host_ns;           /* that the host takes for a step as a graph; 0: it is none */
};

/* Prepares the plan at the rig's capacity, and agrees on memory that is left (wire_survey()). */
int runner_open(struct rig *rig, const struct moe_plan *plan, struct runner *out);
void runner_close(struct runner *runner); /* a zeroed one is fine */

/* One step: a barrier, the step, the largest time over the ranks.  Of a load of several recorded
 * steps one round through those that the plan's capacity is measured under, and their mean. */
int runner_step(struct runner *runner, enum step_mode mode, int64_t *ns);

/* The same of a whole step, and what other processes took of it; `watch`: see measure_once(). */
int runner_watch(struct runner *runner, struct disturbance *watch, struct measured *out);

/* Two steps, launch by launch, each with one stream muted and the other marked: how long each phase
 * takes, the largest over the ranks.  The total is the sum of these. */
int runner_phases(struct runner *runner, struct phase_times *out);

/* Agreed times of `count` steps, count > 0.  ERR_NOMEM. */
int phases_spread(const struct phase_times *samples, size_t count, struct phase_spreads *out);

/* `steps` untimed steps (at least one) of what the gate makes now, after which volumes are known.
 */
int runner_warm(struct runner *runner, uint32_t steps);

#endif
