/* Random inputs and parameters of a layer.  Each number depends only on the seed and on where it
 * stands in the whole layer, so that any rank can make what any other rank holds.  All are exact in
 * the layer's storage type. */
#ifndef DATA_H
#define DATA_H

#include "layer.h"
#include "load.h"

/* What a layer was really given, where another layer made it: (ranks, each, D) of tokens, and of
 * gradients of y. */
struct given_rows {
    float *tokens, *grads;
    uint64_t each;
    int first; /* the rank whose rows come first */
};

struct data {
    struct moe_shape shape;
    uint64_t seed;
    double between; /* GFLOP of products that stand for attention, before each layer */
    const struct given_rows *given; /* borrowed; NULL: rows are random */
    const struct load *load;        /* borrowed; NULL: every expert is as likely as any other */
    uint32_t replayed;              /* which of the load's steps the gate makes */
    const double *speeds;  /* of the ranks, unless MOE_SHARES_EQUAL; borrowed; NULL: alike */
    const double *balance; /* as in struct layer */
};

/* The data of layer i of a step: each has parameters of its own, the first those of `data` itself.
 */
struct data data_of_layer(const struct data *data, uint32_t i);

float data_token(const struct data *data, int rank, uint64_t token, uint64_t column);
float data_grad(const struct data *data, int rank, uint64_t row, uint64_t column); /* of y */
float data_loss(const struct data *data, int rank, uint64_t choice); /* of MOE_COMBINE_CHOICES */
float data_gate(const struct data *data, uint64_t row, uint64_t column);
float data_cosine(const struct data *data, enum cosine i, uint64_t element);
float data_bias(const struct data *data, uint64_t expert); /* of MOE_ROUTER_SIGMOID's choice */

/* A weight of a whole expert: W1, W3, W2 at (hidden, column), b1 at (hidden, 0), b2 at (0, column);
 * b2's padding columns are zero. */
float data_weight(const struct data *data, enum tensor tensor, uint64_t expert, uint64_t hidden,
                  uint64_t column);

/* The same for all columns of D. */
void data_weight_row(const struct data *data, enum tensor tensor, uint64_t expert, uint64_t hidden,
                     float *to);

/* Fills the parameters of all layers of a step, through memory of the host. */
int data_fill_layer(const struct data *data, struct layer *layers);

/* The gate of one layer alone, once data->replayed has changed. */
int data_fill_gate(const struct data *data, const struct layer *layer);

/* (T,D) tokens, or gradients of all rows of y, of this layer's rank, uploaded to `to`. */
int data_fill_rows(const struct data *data, const struct layer *layer,
                   float (*value)(const struct data *, int, uint64_t, uint64_t), void *to);

/* (T,k) losses of its choices. */
int data_fill_losses(const struct data *data, const struct layer *layer, float *to);

#endif
