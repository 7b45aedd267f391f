/* Random inputs and parameters of a layer.  Each number depends only on the seed and on where it
 * stands in the whole layer, so that any rank can make what any other rank holds.  All are exact in
 * the layer's storage type. */
#ifndef DATA_H
#define DATA_H

#include "layer.h"
#include "load.h"

struct data {
    struct moe_shape shape;
    uint64_t seed;
    const struct load *load; /* borrowed; NULL: every expert is as likely as any other */
};

float data_token(const struct data *data, int rank, uint64_t token, uint64_t column);
float data_grad(const struct data *data, int rank, uint64_t token, uint64_t column); /* of y */
float data_gate(const struct data *data, uint64_t expert, uint64_t column);

/* A weight of a whole expert: W1, W3, W2 at (hidden, column), b1 at (hidden, 0), b2 at (0, column);
 * b2's padding columns are zero. */
float data_weight(const struct data *data, enum tensor tensor, uint64_t expert, uint64_t hidden,
                  uint64_t column);

/* The same for all columns of D. */
void data_weight_row(const struct data *data, enum tensor tensor, uint64_t expert, uint64_t hidden,
                     float *to);

/* Fills a layer's parameters, through memory of the host. */
int data_fill_layer(const struct data *data, struct layer *layer);

/* (T,D) tokens or gradients of y of this layer's rank, uploaded to `to`. */
int data_fill_rows(const struct data *data, const struct layer *layer,
                   float (*value)(const struct data *, int, uint64_t, uint64_t), void *to);

#endif
