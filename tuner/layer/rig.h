/* A layer set up on real ranks with random tokens: what is measured and what is checked.
 *
 * Every function but rig_step is collective and returns the same status on every rank. */
#ifndef RIG_H
#define RIG_H

#include "data.h"
#include "exec.h"
#include "judge.h"
#include "world.h"

/* What the host issues in one step, and how long that takes it: all before it waits. */
struct issued {
    int64_t kernels, events, exchanges, host_ns;
};

/* Products that stand for attention: what a model computes between its MoE layers, and what hides
 * their exchanges.  A square matrix times another, again and again: before each layer of a forward
 * pass as many operations as asked for, after it in a backward pass twice as many.  `side` 0:
 * nothing is asked for. */
struct attention {
    double operations; /* of one forward pass of one layer */
    uint64_t side;
    uint32_t dtype; /* compute type */
    void *a, *b, *c;
};

struct rig {
    struct world *world; /* borrowed, as is the engine */
    struct engine *engine;
    struct data data;
    struct parts parts;   /* of every rank */
    uint64_t capacity;    /* c, agreed */
    uint64_t *capacities; /* (E) where experts differ, of which c is the largest; else NULL */
    struct layer *layer;  /* the first, after which the others lie */
    void **rows, **grads; /* rows[i] is what layer i reads, rows[i + 1] what it gives; gradients */
    struct attention attention;
    void *memory, *x, *y, *grad_y, *grad_x; /* the first and the last of these rows */
    size_t memory_bytes;                    /* of layer, these and `cold` */
    float *losses; /* (T,k) of MOE_COMBINE_CHOICES in training; else NULL */
    void *cold;    /* written between timed steps so that none finds its rows in a cache; or NULL */
    struct judge *reference; /* made at the first check */
    struct judge *spot;      /* made at the first check of some tokens */
    struct issued issued;    /* in the last step */
    bool late;          /* the last step was held, and the device went on before it was queued */
    enum routes routes; /* of executors from now on: set by who opened it */
    uint32_t baseline;  /* enum baseline, likewise */
    uint32_t steps_are; /* enum steps_are, of runners: likewise */
};

uint64_t rig_most_tokens(const struct rig *rig); /* of any rank */

/* Bytes of the inputs and outputs of a rank with so many tokens, and of what attention stands for,
 * computed in this type. */
size_t rig_bytes(const struct data *data, uint32_t tokens, uint32_t compute_type);

/* tokens: one number per rank, the same array on every rank; NULL: what follows from shape and
 * speeds.  The capacity follows from `factor` by moe_capacity(); for factor <= 0 the tokens are
 * routed once to see what they need, of several layers by the first; on a modelled device the load
 * says it. */
int rig_open(struct world *world, struct engine *engine, const struct data *data,
             const uint32_t *tokens, double factor, struct rig **out);
void rig_close(struct rig *rig);

/* What results are compared with is made anew: it was another layer's, or another step's. */
void rig_forget_reference(struct rig *rig);

/* The capacity from here on; the same on every rank.  Executors that are open keep theirs. */
void rig_set_capacity(struct rig *rig, uint64_t capacity);

/* The same with a capacity for each expert, which are copied; equal ones are one capacity.  Local.
 */
int rig_set_capacities(struct rig *rig, const uint64_t *rows);
struct capacities rig_capacities(const struct rig *rig);

/* The step, of a load of several, that the gate makes from here on; it begins with the first. */
int rig_replay(struct rig *rig, uint32_t step);

/* A prepared executor on every rank, or on none. */
int rig_exec(struct rig *rig, const struct moe_plan *plan, struct exec **out);

/* What the last step of `fresh` chose is known to `known` from here on, which knew none before. */
int rig_know(struct rig *rig, struct exec *fresh, struct exec *known);

/* Gate and slots of all layers alone, as a fresh step begins with them.  Local. */
int rig_route(struct rig *rig, struct exec *fresh);

/* One whole step (forward, or forward and backward) of all layers and the wait for it.  Local. */
int rig_step(struct rig *rig, struct exec *exec);

/* The graph of such a step, for streams muted as they are now; the caller's to close. */
int rig_capture(struct rig *rig, struct exec *exec, struct graph **out);

/* Runs a step and compares every result with the reference: each layer's with what the reference
 * makes of what that layer was given.  worst: the largest error over all ranks and tensors as a
 * share of what rounding may explain; ERR_WRONG above 1. */
int rig_check(struct rig *rig, struct exec *exec, double *worst);

/* For a layer at its real size: compares what the last step gave with what some of its tokens must
 * become (see judge.h), `worst` as above.  Before that step rig_spoil() makes nonsense of the
 * results that will be looked at: a step that leaves them as they are is wrong.  Of recorded steps
 * it is the first. */
int rig_spoil(struct rig *rig);
int rig_check_some(struct rig *rig, struct exec *exec, double *worst);

/* The loss of balance in the last step, which each rank has for its own tokens: the mean over ranks
 * and layers; 0 where there is none. */
int rig_balance(struct rig *rig, struct exec *exec, double *loss);

/* Choices dropped over all ranks and layers in the last step. */
int rig_dropped(struct rig *rig, struct exec *exec, int64_t *dropped);

#endif
