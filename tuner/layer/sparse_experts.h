/* The experts of a plan with r=0 e=sparse: as many rows as there are, read and summed up where the
 * tokens lie.  There is no (E,C,D), no output per choice and no input gradient per choice.  Each
 * piece of the weights is used when it has come: what it gives is added up in f32. */
#ifndef SPARSE_EXPERTS_H
#define SPARSE_EXPERTS_H

#include "cache.h"
#include "geometry.h"
#include "router.h"
#include "sparse_work.h"
#include "uneven.h"

struct sparse_experts {
    const struct layer *layer;
    const struct geometry *geometry;
    const struct uneven *uneven; /* of experts that differ */
    struct weights *weights;
    const struct router *router;
    struct stream *stream;
    uint32_t dtype; /* compute type */
    float *sums;    /* (T,D) of a layer whose tokens have 16 bits */
    struct sparse_work works[PLAN_MAX_D];
    const void *tokens;  /* of the step */
    struct cache *cache; /* of weights; NULL: they stay where they came */
    uint32_t number;     /* of the layer */
};

void sparse_experts_layout(struct sparse_experts *experts, struct arena *arena);

/* After the router; gives y. */
int sparse_experts_forward(struct sparse_experts *experts, struct engine *engine,
                           const void *tokens, void *y);

/* The gates' gradients, W2's and b2's, and hidden gradients in the place of hidden rows.  Then,
 * once the router has begun the tokens' gradients with its own share: the others, and grad_x. */
int sparse_experts_backward_out(struct sparse_experts *experts, const void *grad_y);
int sparse_experts_backward_in(struct sparse_experts *experts, void *grad_x);

/* Where there is a cache, which holds a piece but once: all of it, and the router comes last. */
int sparse_experts_backward_cached(struct sparse_experts *experts, struct engine *engine,
                                   struct router *router, const void *grad_y, void *grad_x);

#endif
