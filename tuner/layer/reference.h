/* The same layer, computed plainly in double precision by one process: no ranks, no chunks, no
 * padding, no communication.  The judge of every plan. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "capacities.h"
#include "data.h"

/* The whole step's input: who had how many tokens, and where each choice went. */
struct batch_of_tokens {
    int ranks;
    const uint32_t *tokens; /* per rank */
    const int32_t *expert;  /* (T,k) choices of every rank; checked, not trusted */
    const int32_t *live;  /* likewise what they would be now, where they were known before; checked
                           * instead of them; else NULL */
    bool zero;            /* then: gates of changed tokens have no gradient but of balance */
    size_t each;          /* from one rank's choices to the next one's */
    const uint32_t *turn; /* of MOE_ORDER_PRIORITY: the tokens of every rank in their order, also
                           * checked; else NULL */
    size_t each_turn;     /* likewise */
    struct capacities capacities;
};

/* What one rank must end up with. */
struct reference {
    double *y, *grad_x;         /* (T,D), y of MOE_COMBINE_CHOICES (T k,D) */
    double *grad[TENSOR_COUNT]; /* this rank's slices */
    double *grad_gate;          /* as in struct layer, from this rank's own tokens */
    double *grad_cosine[COSINE_COUNT], grad_scale; /* likewise, COSINE_SCALE is the latter */
    /* The same sums with every term positive, for the tensors whose terms may cancel so far that
     * their result says nothing about how large the rounding may be; NULL for the others. */
    double *grad_size[TENSOR_COUNT], *grad_gate_size;
    /* Of dx and of weights, of which few terms may cancel where a layer has few tokens: no less
     * than the largest term. */
    double grad_x_term, grad_term[TENSOR_COUNT];
    double *grad_cosine_size[COSINE_COUNT], grad_scale_size;
    /* How far off a sum may be besides, by units at ReLU's bend; NULL for other activations, and
     * for tensors that do not depend on it. */
    double *grad_x_slack, *grad_slack[TENSOR_COUNT];
    uint64_t dropped; /* choices of this rank */
    double balance;   /* its loss of balance, 0 where data has none */
};

/* ERR_WRONG if a choice is not a top-k choice of the gate (within the rounding of f32). */
int reference_open(const struct data *data, const struct batch_of_tokens *batch, int rank,
                   struct reference **out);
void reference_close(struct reference *reference);

/* Whether somebody who asked for it would wait for the whole reference: half a minute at most. */
bool reference_is_bearable(const struct moe_shape *shape);

/* The layer on which plans of this one are checked: itself, or cut down where the reference would
 * keep a processor busy for seconds, or hold all experts in memory beside it. */
struct moe_shape reference_shape(struct moe_shape shape);

/* At which some tokens are dropped, and no plan can do without padding. */
uint64_t reference_capacity(const struct moe_shape *shape);

/* Bytes of the host's memory that reference_open(), the choices it is told and the comparison with
 * it take at most on a rank. */
size_t reference_bytes(const struct moe_shape *shape);

#endif
