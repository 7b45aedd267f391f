/* A runner times steps of one plan at one capacity, on all ranks.
 *
 * Every function is collective and gives the same result on every rank.  Only runner_close() is
 * local, if no graph was captured. */
#ifndef RUNNER_H
#define RUNNER_H

#include "device.h"
#include "measure.h"
#include "phase.h"
#include "rig.h"
#include "stats.h"

/* The smallest number of samples whose minimum and maximum enclose the median with 95 %. */
enum { PHASE_SAMPLES_LEAST = 6 };

/* The time of each phase in a step.  Each kernel and exchange belongs to a phase (phase.h), and is
 * timed while the other stream is muted. */
struct phase_times {
    int64_t ns[PHASE_COUNT];
};

/* The spread of these times over several steps. */
struct phase_spreads {
    struct spread of[PHASE_COUNT];
    struct spread exchanges_ppm; /* the all-to-all share: both kinds of exchanges, of the total */
};

/* The phase of a kernel or exchange: its stream's purpose, else the usual phase of its kind. */
enum phase phase_of(const struct mark *mark);

/* How a step is timed: with both streams, or with one of them muted.  STEP_EAGER has both streams,
 * and launches one by one even where the other modes use graphs or queue the step first. */
enum step_mode { STEP_BOTH, STEP_COMPUTE, STEP_COMM, STEP_MODES, STEP_EAGER = STEP_MODES };

/* An open runner.  runner_close() frees what it owns: exec, graphs and marks. */
struct runner {
    struct rig *rig; /* borrowed */
    struct moe_plan plan;
    uint64_t capacity;
    struct exec *exec;
    bool captured;                    /* all ranks have made, or tried to make, a graph */
    struct graph *graphs[STEP_MODES]; /* each is made in the first step of its mode */
    bool warm;                        /* runner_warm() has run; steps may be captured */
    int64_t memory_bytes;             /* of plan, layer and tokens, the most over the ranks */
    int64_t sent_bytes, messages; /* of one step, the most over the ranks; set once it is warm */
    struct issued issued;         /* of one step launched one by one, the most over the ranks */
    struct marks marks;           /* for runner_phases() */
    int64_t replay_host_ns;       /* host time to launch a step as a graph; 0: there is no graph */
};

/* Prepares the plan at the rig's capacity, and agrees on free memory (wire_survey()).  UNSUPPORTED:
 * the plan does not apply, or cannot be launched in the rig's way. */
int runner_open(struct rig *rig, const struct moe_plan *plan, struct runner *out);
void runner_close(struct runner *runner); /* a zeroed one is fine */

/* Times one step: a barrier, the step, the largest time over the ranks.  With recorded steps, it
 * runs all those of this capacity once, and gives the mean. */
int runner_step(struct runner *runner, enum step_mode mode, int64_t *ns);

/* Times one step with both streams, and the time that other processes took from it.  For `watch`
 * see measure_once(). */
int runner_step_watched(struct runner *runner, struct disturbance *watch, struct measured *out);

/* Runs two steps, launched one by one, each with one stream muted and the other marked.  Gives the
 * time of each phase, the largest over the ranks; the total is their sum. */
int runner_phases(struct runner *runner, struct phase_times *out);

/* Computes the spread of `count` samples, count > 0.  ERR_NOMEM: memory is short. */
int phases_spread(const struct phase_times *samples, size_t count, struct phase_spreads *out);

/* Runs `steps` untimed steps (at least one) of the current recorded step, and sets the volumes of a
 * step. */
int runner_warm(struct runner *runner, uint32_t steps);

#endif
