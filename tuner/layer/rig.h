/* A rig is the layers of a step, set up on all ranks with random tokens, so that steps can be
 * measured and checked.
 *
 * Functions are collective and return the same status on every rank, unless they say "local". */
#ifndef RIG_H
#define RIG_H

#include "data.h"
#include "exec.h"
#include "judge.h"
#include "world.h"

/* What the host issues in one step before it waits, and how long issuing takes. */
struct issued {
    int64_t kernels, events, exchanges, host_ns;
};

/* Products in place of attention, which a model computes between its MoE layers and which hides
 * exchanges (--between).  Before each layer of a forward pass, two square matrices are multiplied
 * as often as needed for `operations`; after each layer of a backward pass, twice as often.  `side`
 * 0: there are none. */
struct attention {
    double operations; /* of one forward pass of one layer */
    uint64_t side;
    uint32_t dtype; /* compute type */
    void *a, *b, *c;
};

/* An open rig; rig_close() frees it. */
struct rig {
    struct world *world; /* borrowed, as is the engine */
    struct engine *engine;
    struct data data;
    struct parts parts; /* of all ranks */
    uint64_t capacity;  /* c, agreed by all ranks */
    uint64_t
        *capacities; /* (E) where experts have different ones, of which c is the largest; or NULL */
    struct layer *layer; /* array of all layers */
    void **rows,
        **grads; /* layer i reads rows[i] and writes rows[i + 1]; grads are their gradients */
    struct attention attention;
    void *memory;            /* of all these rows */
    void *x, *y;             /* rows of the first and of the last layer */
    void *grad_y, *grad_x;   /* their gradients */
    size_t memory_bytes;     /* of layers, rows and `cold` */
    float *losses;           /* (T,k) of MOE_COMBINE_CHOICES in training; else NULL */
    void *cold;              /* memory that empties the cache between timed steps; or NULL */
    struct judge *reference; /* made in the first check */
    struct judge *spot;      /* made in the first spot check */
    struct issued issued;    /* in the last step */
    bool late;               /* the device began the last held step before it was queued */
    /* The caller sets the members below after rig_open(). */
    enum routes routes; /* of executors that are opened from now on */
    uint32_t baseline;  /* enum baseline of these executors */
    uint32_t steps_are; /* enum steps_are: how runners launch steps */
};

/* The largest number of tokens of any rank. */
uint64_t rig_most_tokens(const struct rig *rig);

/* Bytes of the inputs and outputs of a rank with so many tokens, and of the products in place of
 * attention in this type. */
size_t rig_bytes(const struct data *data, uint32_t tokens, uint32_t compute_type);

/* Sets up layers and tokens.  tokens: one number per rank, the same array on every rank; NULL: they
 * follow from shape and speeds.  The capacity follows from `factor` by moe_capacity().  For factor
 * <= 0 the rig routes the tokens once, by the first layer, to find what they need; on a modelled
 * device the load determines it. */
int rig_open(struct world *world, struct engine *engine, const struct data *data,
             const uint32_t *tokens, double factor, struct rig **out);
void rig_close(struct rig *rig);

/* Frees the reference, so that the next check makes a new one.  Local. */
void rig_forget_reference(struct rig *rig);

/* Sets the capacity of executors that are opened from now on; the same on every rank.  Local. */
void rig_set_capacity(struct rig *rig, uint64_t capacity);

/* Sets a capacity for each expert, and copies them; equal ones count as one capacity.  Local. */
int rig_set_capacities(struct rig *rig, const uint64_t *rows);

/* The capacities of the rig. */
struct capacities rig_capacities(const struct rig *rig);

/* Chooses the recorded step of the load that the gate makes from now on; at first it is step 0. */
int rig_replay(struct rig *rig, uint32_t step);

/* Opens an executor on every rank, or on none. */
int rig_exec(struct rig *rig, const struct moe_plan *plan, struct exec **out);

/* Makes the choices of the last step of `fresh` the known routes of `known`. */
int rig_set_known_routes(struct rig *rig, struct exec *fresh, struct exec *known);

/* Runs only gate and slots of all layers, as at the beginning of a step of `fresh`, and waits.
 * Local. */
int rig_route(struct rig *rig, struct exec *fresh);

/* Runs one step of all layers (forward, or forward and backward), and waits for it.  Local. */
int rig_step(struct rig *rig, struct exec *exec);

/* Captures such a step as a graph, with streams muted as they are now; the caller closes it. */
int rig_capture(struct rig *rig, struct exec *exec, struct graph **out);

/* Runs a step and compares all results of each layer with the reference, computed from that layer's
 * real inputs.  *worst: the largest error over all ranks and tensors, as a multiple of the allowed
 * rounding.  ERR_WRONG: it is above 1. */
int rig_check(struct rig *rig, struct exec *exec, double *worst);

/* Before a step that rig_check_some() will check: overwrites the results that it will check with
 * NaN, so that a step which does not write them is wrong.  With recorded steps, it also sets step
 * 0. */
int rig_overwrite_results(struct rig *rig);

/* A spot check, for a layer at its real size: compares results of the last step with those of some
 * tokens (judge.h).  *worst is as in rig_check(). */
int rig_check_some(struct rig *rig, struct exec *exec, double *worst);

/* The balance loss of the last step, which each rank has for its own tokens: the mean over ranks
 * and layers; 0: there is none. */
int rig_balance(struct rig *rig, struct exec *exec, double *loss);

/* Number of choices that the last step dropped, over all ranks and layers. */
int rig_dropped(struct rig *rig, struct exec *exec, int64_t *dropped);

#endif
