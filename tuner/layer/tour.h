/* The experts of a plan with r=W in MOE_LAYOUT_HIDDEN: weights stay, and every rank's tokens go to
 * all.  Each rank computes its hidden units for all tokens without padding; partial results go back
 * to the tokens' owners, who sum them up.  Tokens are cut in d chunks: those of each rank in d
 * parts, and the i-th parts travel and are computed together. */
#ifndef TOUR_H
#define TOUR_H

#include "geometry.h"
#include "router.h"
#include "sparse_work.h"
#include "uneven.h"

struct tour_chunk {
    uint32_t all, own;           /* tokens of all ranks, and this rank's */
    uint64_t before, from;       /* where its own lie among them, and begin on this rank */
    char *x, *grad;              /* (all,D) storage type; grad: of y */
    struct sent_choice *choices; /* (all,k) */
    int32_t *expert;             /* (all,k), as are slot and gate; taken apart from choices */
    int64_t *slot, *needed;
    float *gate;
    char *partial;       /* (all,D) storage type: of this rank's units; of y, then of x */
    char *parts;         /* (W,own,D): the partial results of all ranks */
    float *partial_gate; /* (all,k) gradients */
    float *parts_gate;   /* (W,own,k) */
    struct sparse_work work;
    struct batch go, come, go_back, come_back;
    struct event *arrived, *done, *returned;
};

struct tour {
    const struct layer *layer;
    const struct geometry *geometry;
    const struct uneven *uneven; /* of experts that differ */
    struct weights *weights;
    struct router *router;
    struct stream *stream;
    uint32_t dtype; /* compute type */
    float *sums;    /* of a chunk, where tokens have 16 bits */
    struct event *packed;
    struct tour_chunk chunks[PLAN_MAX_D];
};

void tour_layout(struct tour *tour, struct arena *arena);

/* After the layout with real memory: exchanges and events. */
int tour_open(struct tour *tour, struct engine *engine);
void tour_close(struct tour *tour); /* a zeroed one is fine */

/* After the router and the gathering of b2.  All chunks are sent before any result returns: the
 * communication stream is in order, and a chunk behind a return would wait for its experts. */
int tour_forward(struct tour *tour, struct engine *engine, const void *tokens, void *y);

/* The gradients of everything, the router's included. */
int tour_backward(struct tour *tour, struct engine *engine, const void *grad_y, void *grad_x);

#endif
