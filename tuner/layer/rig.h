/* A layer set up on real ranks with random tokens: what is measured and what is checked.
 *
 * Every function but rig_step is collective and returns the same status on every rank. */
#ifndef RIG_H
#define RIG_H

#include "data.h"
#include "exec.h"
#include "reference.h"
#include "spot.h"
#include "world.h"

/* What the host issues in one step, and how long that takes it: all before it waits. */
struct issued {
    int64_t kernels, events, exchanges, host_ns;
};

struct rig {
    struct world *world; /* borrowed, as is the engine */
    struct engine *engine;
    struct data data;
    uint32_t *tokens;  /* of every rank */
    uint64_t capacity; /* c, agreed */
    struct layer *layer;
    void *memory, *x, *y, *grad_y, *grad_x;
    size_t memory_bytes; /* of layer, these and `cold` */
    void *cold; /* written between timed steps so that none finds its rows in a cache; or NULL */
    struct reference *reference; /* made at the first check */
    struct spot *spot;           /* made at the first check of some tokens */
    struct issued issued;        /* in the last step */
    bool graphs;                 /* runners launch steps as graphs: set by who opened it */
};

uint64_t rig_most_tokens(const struct rig *rig); /* of any rank */

/* Bytes of the inputs and outputs of a rank with so many tokens. */
size_t rig_bytes(const struct moe_shape *shape, uint32_t tokens);

/* tokens: one number per rank, the same array on every rank; NULL: every rank has the shape's.  The
 * capacity follows from `factor` by moe_capacity(); for factor <= 0 the tokens are routed once to
 * see what they need. */
int rig_open(struct world *world, struct engine *engine, const struct data *data,
             const uint32_t *tokens, double factor, struct rig **out);
void rig_close(struct rig *rig);

/* From here on; the same on every rank.  Executors that are open keep theirs. */
void rig_set_capacity(struct rig *rig, uint64_t capacity);

/* A prepared executor on every rank, or on none. */
int rig_exec(struct rig *rig, const struct moe_plan *plan, struct exec **out);

/* One whole step (forward, or forward and backward) and the wait for it.  Local. */
int rig_step(struct rig *rig, struct exec *exec);

/* The graph of such a step, for streams muted as they are now; the caller's to close. */
int rig_capture(struct rig *rig, struct exec *exec, struct graph **out);

/* Runs a step and compares every result with the reference.  worst: the largest error over all
 * ranks and tensors as a share of what rounding may explain; ERR_WRONG above 1. */
int rig_check(struct rig *rig, struct exec *exec, double *worst);

/* For a layer at its real size: compares what the last step gave with what some of its tokens must
 * become (see spot.h), `worst` as above.  Before that step rig_spoil() makes nonsense of the
 * results that will be looked at: a step that leaves them as they are is wrong. */
int rig_spoil(struct rig *rig);
int rig_check_some(struct rig *rig, struct exec *exec, double *worst);

/* Choices dropped over all ranks in the last step. */
int rig_dropped(struct rig *rig, struct exec *exec, int64_t *dropped);

#endif
