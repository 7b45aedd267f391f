/* MoE layers under one plan, prepared: forward and backward on two streams. */
#ifndef EXEC_H
#define EXEC_H

#include "engine.h"
#include "geometry.h"
#include "layer.h"
#include "router.h"
#include "uneven.h"
#include "weights.h"

/* One layer of a step; all lie in an array, as the layers do. */
struct exec {
    struct engine *engine; /* NULL: only sizes are wanted */
    const struct topology *topology;
    const struct layer *layer;
    struct moe_plan plan; /* canonical */
    uint32_t baseline;    /* as the layer said when it was opened */
    uint32_t compute_type;
    uint32_t
        algorithm; /* enum moe_a2a, among the geometry's peers: inside a node a=rail is linear */
    struct geometry geometry;
    struct uneven uneven; /* of experts that differ; what was agreed the first has, and the others
                           * borrow */
    struct router router;
    struct weights weights;
    const struct way_ops *way; /* from tokens to results, and back */
    void *state;               /* of the way, of this layer */
    struct exec *first;        /* of the array */
    struct graph *graph; /* what a step launches instead of issuing all; NULL: borrowed, or none */
    void *memory;        /* of all, in the first, as are its bytes and the graph */
    size_t memory_bytes;
};

/* The most that exec_open will ask for on this rank, in bytes; SIZE_MAX: more than any machine has.
 * baseline: enum baseline, or 0. */
size_t exec_bytes(const struct moe_shape *shape, const struct parts *parts,
                  const struct moe_plan *plan, const struct topology *topology,
                  const struct capacities *capacities, uint32_t compute_type, uint32_t baseline);

/* Whether a layer under this plan can use known routes: OK, or ERR_ARGUMENT after a message. */
int exec_check_known(const struct moe_shape *shape, const struct moe_plan *plan);
bool exec_can_know(const struct moe_shape *shape, const struct moe_plan *plan); /* silent */

/* Everything is allocated and prepared here; a step allocates nothing.  The plan must be legal and
 * apply.  Capacities are copied.  Local: ranks must agree on the outcome before any of them runs a
 * step. */
int exec_open(struct engine *engine, const struct layer *layer, const struct moe_plan *plan,
              const struct capacities *capacities, struct exec **out);
void exec_close(struct exec *x);

/* Enqueues the gathering of a layer's weights, before its forward pass: as early as the order of
 * exchanges allows, since it waits for nothing. */
int exec_fetch(struct exec *x);

/* Enqueues y = layer(tokens), both (T,D) in the storage type.  The tokens must live until the
 * backward pass. */
int exec_forward(struct exec *x, const void *tokens, void *y);

/* Enqueues the gradients of the same step: of the tokens from that of y, and of the layer's
 * parameters.  Those of the weights are complete after exec_finish(): what is enqueued between the
 * two hides their way to their owners. */
int exec_backward(struct exec *x, const void *grad_y, void *grad_x);
int exec_finish(struct exec *x);

#endif
