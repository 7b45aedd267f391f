/* Experts without padding: launches the kernels of kernels/sparse.h for some tokens and some hidden
 * units.  A step consists of one such work, or of several whose results add up. */
#ifndef SPARSE_WORK_H
#define SPARSE_WORK_H

#include "arena.h"
#include "capacities.h"
#include "layer.h"
#include "sparse.h"
#include "weights.h"

/* One work.  A value that borrows all memory; the caller fills it by the functions below. */
struct sparse_work {
    const struct layer *layer;
    struct stream *stream;
    struct kept_rows at;
    const int64_t *needed;      /* from route, as expert and slot of `at` */
    const uint64_t *capacities; /* (E) where experts have different ones; else NULL */
    int64_t *first, *choice;    /* results of sparse_work_sort() */
    const float *gate;
    float *grad_gate;                  /* (T,k) */
    const void *weights[TENSOR_COUNT]; /* in the compute type; b2 NULL: another work adds it */
    void *grads[TENSOR_COUNT];
    void *pre, *up, *post; /* (N,H) for the largest N; post is pre for ReLU */
    bool later;            /* add to the sums and the gates' gradients of an earlier work */
    bool later_tokens;     /* add to the gradients of weights of an earlier work */
};

/* Sets `at` for so many tokens and hidden units; the caller sets its pointers. */
void sparse_work_shape(struct sparse_work *work, const struct layer *layer, uint32_t dtype,
                       uint32_t tokens, uint32_t hidden, uint64_t capacity);

/* Number of rows that a modelled device computes for so many tokens, under the layer's load and the
 * capacities; 0: unknown, the device assumes a balanced load. */
uint64_t sparse_work_rows(const struct layer *layer, uint32_t tokens,
                          const struct capacities *capacities);

/* Places pre, up and post. */
void sparse_work_layout(struct sparse_work *work, struct arena *arena);

/* Places the work memory of all works of one stream; `largest` needs most. */
struct kept_room sparse_work_room(const struct kept_rows *largest, struct arena *arena);

/* Sets the weights to a piece; bias2: this work adds b2. */
void sparse_work_weights(struct sparse_work *work, const struct weights *weights, uint32_t piece,
                         bool bias2);

/* Enqueues the sort of the choices by expert. */
int sparse_work_sort(const struct sparse_work *work);

/* Enqueues the forward pass; sums becomes y in f32. */
int sparse_work_forward(const struct sparse_work *work, const void *tokens, float *sums);

/* Enqueues the first half of the backward pass: the gradients of gates, W2, b2 and hidden rows,
 * which overwrite the hidden rows. */
int sparse_work_backward_out(const struct sparse_work *work, const void *grad_y);

/* Enqueues the second half: the gradients of W1, W3 and b1, and of the tokens, in `sums`.  With
 * `keep` it adds to sums. */
int sparse_work_backward_in(const struct sparse_work *work, const void *tokens, bool keep,
                            float *sums);

#endif
