/* An executor runs the MoE layers of a step under one plan: forward and backward, on two streams.
 */
#ifndef EXEC_H
#define EXEC_H

#include "engine.h"
#include "geometry.h"
#include "layer.h"
#include "router.h"
#include "uneven.h"
#include "weights.h"

/* The executor of one layer.  exec_open() makes an array of them, one for each layer of the step;
 * exec_close() frees it. */
struct exec {
    struct engine *engine; /* NULL: only sizes are wanted */
    const struct topology *topology;
    const struct layer *layer;
    struct moe_plan plan; /* canonical */
    uint32_t baseline;    /* enum baseline, from the layer */
    uint32_t compute_type;
    uint32_t algorithm; /* enum moe_a2a among the geometry's peers; with a=rail: linear */
    struct geometry geometry;
    /* Rows of experts with different capacities.  Agreed ones belong to the first layer, and the
     * other layers borrow them. */
    struct uneven uneven;
    struct router router;
    struct weights weights;
    const struct way_ops *way; /* how it computes, see way.h */
    void *state;               /* the way's state of this layer */
    struct exec *first;        /* of the array */
    /* The members below are set in the first layer only. */
    struct graph *graph; /* borrowed: a step launches it instead of single kernels; NULL: none */
    void *memory;        /* of all layers */
    size_t memory_bytes;
};

/* The most bytes that exec_open() allocates on this rank; SIZE_MAX: more than any machine has.
 * baseline: enum baseline, or 0. */
size_t exec_bytes(const struct moe_shape *shape, const struct parts *parts,
                  const struct moe_plan *plan, const struct topology *topology,
                  const struct capacities *capacities, uint32_t compute_type, uint32_t baseline);

/* OK where a layer can use known routes under this plan; else ERR_ARGUMENT, after a message. */
int exec_check_known_routes(const struct moe_shape *shape, const struct moe_plan *plan);

/* True where it can; prints nothing. */
bool exec_supports_known_routes(const struct moe_shape *shape, const struct moe_plan *plan);

/* Allocates and prepares everything, so that a step allocates nothing.  The plan must be legal and
 * must apply here.  Capacities are copied.  Local: ranks must agree on the status before any of
 * them runs a step. */
int exec_open(struct engine *engine, const struct layer *layer, const struct moe_plan *plan,
              const struct capacities *capacities, struct exec **out);
void exec_close(struct exec *x);

/* Enqueues the gather of a layer's weights.  It waits for nothing, so the caller enqueues it as
 * early as the order of exchanges allows, before the forward pass. */
int exec_fetch(struct exec *x);

/* Enqueues y = layer(tokens), both (T,D) in the storage type.  The tokens must live until the
 * backward pass. */
int exec_forward(struct exec *x, const void *tokens, void *y);

/* Enqueues the gradients of the same step: grad_x from grad_y, and those of the parameters.  The
 * gradients of weights are complete only after exec_finish(). */
int exec_backward(struct exec *x, const void *grad_y, void *grad_x);

/* Enqueues the rest of the gradients of weights.  Work that the caller enqueues before it hides
 * their exchange. */
int exec_finish(struct exec *x);

#endif
