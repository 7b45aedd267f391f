/* The baseline `dense`, as in GShard and figure 20a of the Tutel paper: tokens go to their rows,
 * and back, by products with matrices (T,E,C) that have a gate, or 1, where a choice's row lies,
 * and else zero.  Each operation has a result of its own, as where a framework runs one after the
 * other. */
#ifndef DENSE_H
#define DENSE_H

#include "arena.h"
#include "router.h"

struct dense {
    const struct router *router;
    uint32_t dtype;     /* of tokens and rows */
    uint64_t rows;      /* C */
    float *gates;       /* (k,T,E): gates of first choices, of second ones, ... by expert */
    float *locations;   /* (k,T,C): 1 at their slots */
    float *choices;     /* (k,T,E,C): the products of these two */
    float *sum;         /* (T,E,C): over choices */
    void *combine;      /* the same as dtype */
    void *dispatch;     /* (T,E,C): 1 where that is not zero */
    void *grad_combine; /* as combine, of training */
    float *grad_sum;    /* the same in f32 */
    float *grad_gates;  /* (T,E), of one choice */
};

void dense_layout(struct dense *dense, uint64_t rows, struct arena *arena);

/* In the place of the kernels encode, decode and their backwards. */
int dense_encode(const struct dense *dense, struct engine *engine, const void *tokens, void *rows);
int dense_decode(const struct dense *dense, struct engine *engine, const void *rows, void *y);
int dense_decode_backward(const struct dense *dense, struct engine *engine, const void *grad_y,
                          const void *rows, void *grad_rows);
int dense_encode_backward(const struct dense *dense, struct engine *engine, const void *grad_rows,
                          void *grad_x);

#endif
