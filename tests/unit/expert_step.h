/* Runs a step of the experts alone, forward and backward, on one rank: by padded kernels, as the
 * executor does at r=0, and by kernels without padding. */
#ifndef EXPERT_STEP_H
#define EXPERT_STEP_H

#include "host.h"

struct expert_matrices {
    float *w1, *w3, *b1, *w2, *b2; /* w3: SwiGLU only */
};

struct expert_step {
    uint32_t T, E, k, D, H, dtype, act;
    bool units_first; /* matrices are (H,E,D), else (E,H,D) */
    uint64_t capacity;
    float *gate;
    int32_t *expert;
    int64_t *slot, *needed;
    void *x, *dy; /* (T,D) in dtype */
    struct expert_matrices weights;
    /* what comes out */
    float *y, *dx, *grad_gate;
    struct expert_matrices grads;
    /* what is between, of the last way that ran */
    int64_t *first, *choice;
    float *scratch, *pre, *up, *post, *hidden_grad, *up_grad;
    float *home, *back; /* padded: (E,C,D) */
};

/* Takes memory for everything, and draws tokens, gates and weights; the caller then fills expert,
 * slot and needed, and says how many rows an expert has for padded kernels. */
void expert_step_open(struct expert_step *s, uint64_t seed, uint64_t padded_rows);
void expert_step_close(struct expert_step *s);

/* The two halves without padding.  Every matrix' gradients by three calls, or by a fused one, which
 * leaves gradients where the forward half left its rows. */
void expert_step_forward(struct expert_step *s);
void expert_step_backward(struct expert_step *s, bool fused);

/* The row of D, in a matrix, of a hidden unit of an expert. */
static inline uint64_t expert_step_row(const struct expert_step *s, uint64_t expert, uint64_t unit)
{
    return s->units_first ? unit * s->E + expert : expert * s->H + unit;
}

/* Only f32 and experts first: elsewhere the trip converts, which is not here. */
void expert_step_padded(struct expert_step *s);

#endif
