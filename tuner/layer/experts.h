/* The feed-forward experts of one rank, chunk by chunk: product, bias, activation, product. */
#ifndef EXPERTS_H
#define EXPERTS_H

#include "arena.h"
#include "geometry.h"
#include "uneven.h"
#include "weights.h"

struct experts {
    const struct moe_shape *shape;
    const struct geometry *geometry;
    const struct uneven *uneven; /* of experts that differ */
    const struct weights *weights;
    const struct chunks *seen; /* rows of the forward pass, which the weight gradients need again */
    struct stream *stream;
    uint32_t dtype;              /* compute type */
    struct chunks pre, up, post; /* (local, rows, hidden); post is pre for ReLU */
    void *grad_post, *grad_up;   /* one chunk; the gradient of pre overwrites grad_post */
    bool rigid; /* a baseline (baseline.h): rows of experts are (peers, local, rows), too, of which
                 * each peer's have products of their own, and biases of their own to add up */
    void *peers_bias[2], *peers_grad[2]; /* its b1 and b2: (peers, local, ...) */
    void
        *aligned[2]; /* its rows as the sums over them want them, once more: (local, peers, rows) */
};

void experts_layout(struct experts *experts, struct arena *arena);

/* One chunk, in either direction: reads `in`, writes `out`; self is struct experts. */
int experts_forward(void *self, uint32_t chunk, const void *in, void *out);
int experts_backward(void *self, uint32_t chunk, const void *in, void *out);

#endif
