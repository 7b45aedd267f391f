/* Rows of padded experts (E,C,D) on their trips to the ranks of their experts and back, and what
 * experts make of them: what the ways have in common that begin and end with such rows. */
#ifndef PADDED_H
#define PADDED_H

#include "trip.h"
#include "way.h"

/* The first member of such a way's state. */
struct padded {
    struct trip forward, backward; /* the caller fills `home` of each, and reads `back` */
    struct chunks pre, up, post;   /* (local, rows, hidden); post is pre for ReLU */
    void *grad_post, *grad_up;     /* one chunk; the gradient of pre overwrites grad_post */
    /* Of the baseline `rigid` (baseline.h), where rows of experts are (peers, local, rows): those
     * of each peer have products of their own. */
    void *peers_bias[2], *peers_grad[2]; /* (peers, local, ...) of b1 and b2 */
    void *aligned[2]; /* rows as the sums over them want them, once more: (local, peers, rows) */
};

/* Layout of `state`, open and close, as in struct way_ops. */
void padded_layout(struct exec *x, struct arena *arena);
int padded_open(struct exec *x);
void padded_close(struct exec *x);

/* Both begin when `home` has been filled and end when `back` has been.  Backward: weights'
 * gradients are on their way as well; `meanwhile`: the gate's own gradient is made while rows
 * travel. */
int padded_trip(struct exec *x, const void *tokens);
int padded_trip_back(struct exec *x, bool meanwhile);

#endif
