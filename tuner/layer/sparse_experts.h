/* The experts of a plan with e=sparse: as many rows as there are, read and summed up where the
 * tokens lie.  There is no (E,C,D), no output per choice and no input gradient per choice. */
#ifndef SPARSE_EXPERTS_H
#define SPARSE_EXPERTS_H

#include "geometry.h"
#include "router.h"
#include "sparse.h"
#include "weights.h"

struct sparse_experts {
    const struct layer *layer;
    const struct geometry *geometry;
    const struct weights *weights;
    const struct router *router;
    struct stream *stream;
    uint32_t dtype; /* compute type */
    int64_t *first, *choice;
    float *scratch;
    void *pre, *up, *post; /* (N,H) for the most rows that there can be; post is pre for ReLU */
    float *sums;           /* (T,D) of a layer whose tokens have 16 bits */
    const void *tokens;    /* of the step */
};

void sparse_experts_layout(struct sparse_experts *experts, struct arena *arena);

/* After the router and, but for the sorting, the weights: begin sorts the choices, forward gives
 * y. */
int sparse_experts_begin(struct sparse_experts *experts);
int sparse_experts_forward(struct sparse_experts *experts, const void *tokens, void *y);

/* The gates' gradients, W2's and b2's, and hidden gradients in the place of hidden rows.  Then,
 * once the router has begun the tokens' gradients with its own share: the others, and grad_x. */
int sparse_experts_backward_out(struct sparse_experts *experts, const void *grad_y);
int sparse_experts_backward_in(struct sparse_experts *experts, void *grad_x);

#endif
