/* One MoE layer under one plan, prepared: forward and backward on two streams. */
#ifndef EXEC_H
#define EXEC_H

#include "engine.h"
#include "experts.h"
#include "geometry.h"
#include "layer.h"
#include "router.h"
#include "sparse_experts.h"
#include "trip.h"
#include "weights.h"

struct exec {
    struct engine *engine;
    struct layer *layer;
    struct moe_plan plan;
    struct geometry geometry;
    struct router router;
    struct weights weights;
    struct trip forward, backward;
    struct experts experts;       /* of e=padded, as the trips are */
    struct sparse_experts sparse; /* of e=sparse */
    struct graph *graph; /* what a step launches instead of issuing all; NULL: borrowed, or none */
    void *memory;
    size_t memory_bytes;
};

/* The most that exec_open will ask for on this rank, in bytes, for `tokens` of its own; SIZE_MAX:
 * more than any machine has. */
size_t exec_bytes(const struct moe_shape *shape, const struct moe_plan *plan,
                  const struct topology *topology, uint32_t tokens, uint64_t capacity,
                  uint32_t compute_type);

/* Everything is allocated and prepared here; a step allocates nothing.  The plan must be legal and
 * apply.  Local: ranks must agree on the outcome before any of them runs a step. */
int exec_open(struct engine *engine, struct layer *layer, const struct moe_plan *plan,
              uint64_t capacity, struct exec **out);
void exec_close(struct exec *x);

/* Enqueues y = layer(tokens), both (T,D) in the storage type.  The tokens must live until the
 * backward pass. */
int exec_forward(struct exec *x, const void *tokens, void *y);

/* Enqueues the gradients of the same step: of the tokens from that of y, and of the layer's
 * parameters. */
int exec_backward(struct exec *x, const void *grad_y, void *grad_x);

#endif
