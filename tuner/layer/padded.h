/* The common part of all ways that begin and end with rows (E,C,D) of padded experts: the trips to
 * the experts and back, and the computation of the experts. */
#ifndef PADDED_H
#define PADDED_H

#include "trip.h"
#include "way.h"

/* The first member of such a way's state.  padded_open() completes it; padded_close() frees it. */
struct padded {
    struct trip forward, backward; /* the way fills `home` of each, and reads `back` */
    struct chunks pre, up, post;   /* (local, rows, hidden); post is pre for ReLU */
    void *grad_post, *grad_up;     /* of one chunk; the gradient of pre overwrites grad_post */
    /* Of the baseline `rigid` (baseline.h), where rows are (peers, local, rows) and each peer's
     * rows need their own product. */
    void *peers_bias[2], *peers_grad[2]; /* (peers, local, ...) of b1 and b2 */
    void *aligned[2];                    /* rows in the order (local, peers, rows), for sums */
};

/* The functions layout, open and close of struct way_ops, for this part of the state. */
void padded_layout(struct exec *x, struct arena *arena);
int padded_open(struct exec *x);
void padded_close(struct exec *x);

/* Enqueues the forward trip: from `home` to the experts, and their results to `back`. */
int padded_trip(struct exec *x, const void *tokens);

/* Enqueues the backward trip, and the exchange of the gradients of weights.  with_router: computes
 * the gate's gradient while rows travel. */
int padded_trip_back(struct exec *x, bool with_router);

#endif
