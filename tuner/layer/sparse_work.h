/* Experts without padding: what kernels are launched for some tokens and some hidden units, and
 * where their numbers lie.  A step is one such work or several, which add up. */
#ifndef SPARSE_WORK_H
#define SPARSE_WORK_H

#include "arena.h"
#include "capacities.h"
#include "layer.h"
#include "sparse.h"
#include "weights.h"

struct sparse_work {
    const struct layer *layer;
    struct stream *stream;
    struct kept_rows at;
    const int64_t *needed;      /* as route leaves it, and expert and slot of `at` */
    const uint64_t *capacities; /* of experts that differ, in the device's memory; else NULL */
    int64_t *first, *choice;
    const float *gate;
    float *grad_gate;                  /* (T,k) */
    const void *weights[TENSOR_COUNT]; /* of compute type; no b2: another work adds it */
    void *grads[TENSOR_COUNT];
    void *pre, *up, *post; /* (N,H) for the most rows that there can be; post is pre for ReLU */
    bool later;            /* adds to what an earlier one left: sums and gates' gradients */
    bool later_tokens;     /* likewise gradients of weights */
};

/* Sets `at` for so many tokens and hidden units; its pointers are the caller's to fill. */
void sparse_work_shape(struct sparse_work *work, const struct layer *layer, uint32_t dtype,
                       uint32_t tokens, uint32_t hidden, uint64_t capacity);

/* The rows that a modelled device, which sees no tokens, computes of so many under the layer's
 * load, where each rank keeps at most an expert's capacity; 0: nobody says, and experts are alike.
 */
uint64_t sparse_work_rows(const struct layer *layer, uint32_t tokens,
                          const struct capacities *capacities);

/* Takes the rows of `at`, but neither first and choice nor the room. */
void sparse_work_layout(struct sparse_work *work, struct arena *arena);

/* The room for works of one stream, of which the largest is this. */
struct kept_room sparse_work_room(const struct kept_rows *largest, struct arena *arena);

/* A piece of the weights; b2 if the work is to add it. */
void sparse_work_weights(struct sparse_work *work, const struct weights *weights, uint32_t piece,
                         bool bias2);

/* Sorts the choices; then y in f32. */
int sparse_work_sort(const struct sparse_work *work);
int sparse_work_forward(const struct sparse_work *work, const void *tokens, float *sums);

/* The gates' gradients, W2's and b2's, and hidden gradients in the place of hidden rows.  Then the
 * others, and the tokens' in `sums`, to which it adds if it is to keep them. */
int sparse_work_backward_out(const struct sparse_work *work, const void *grad_y);
int sparse_work_backward_in(const struct sparse_work *work, const void *tokens, bool keep,
                            float *sums);

#endif
