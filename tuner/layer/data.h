/* Random inputs and parameters of a layer.  Each number depends only on the seed and on its place
 * in the whole layer, so any rank can compute the numbers of any other rank.  All numbers are exact
 * in the layer's storage type. */
#ifndef DATA_H
#define DATA_H

#include "layer.h"
#include "load.h"

/* The real inputs of a layer that another layer feeds: (ranks, each, D) tokens, and gradients of
 * y.  The code that fills it also frees it. */
struct given_rows {
    float *tokens, *grads;
    uint64_t each;
    int first; /* the rank whose rows come first */
};

/* All that determines the numbers of a layer.  A value that borrows what it points to. */
struct data {
    struct moe_shape shape;
    uint64_t seed;
    double between;                 /* GFLOP of products before each layer, in place of attention */
    const struct given_rows *given; /* borrowed; NULL: rows are random */
    const struct load *load;        /* borrowed; NULL: all experts are equally likely */
    uint32_t replayed;              /* number of the load's step that the gate makes */
    const double *speeds;           /* of the ranks, borrowed; NULL: equal (MOE_SHARES_EQUAL) */
    const double *balance;          /* as in struct layer */
};

/* The data of layer i of a step.  Each layer has other parameters; layer 0 has those of `data`. */
struct data data_of_layer(const struct data *data, uint32_t i);

/* Each gives one number: of a token, of a gradient of y, of a choice's loss (MOE_COMBINE_CHOICES),
 * of the gate's matrix, of a cosine router's tensor, and of the bias by which a sigmoid router
 * chooses. */
float data_token(const struct data *data, int rank, uint64_t token, uint64_t column);
float data_grad(const struct data *data, int rank, uint64_t row, uint64_t column);
float data_loss(const struct data *data, int rank, uint64_t choice);
float data_gate(const struct data *data, uint64_t row, uint64_t column);
float data_cosine(const struct data *data, enum cosine i, uint64_t element);
float data_bias(const struct data *data, uint64_t expert);

/* One weight of a whole expert: W1, W3, W2 at (hidden, column), b1 at (hidden, 0), b2 at (0,
 * column).  b2's padding columns are zero. */
float data_weight(const struct data *data, enum tensor tensor, uint64_t expert, uint64_t hidden,
                  uint64_t column);

/* Writes the weights of all D columns of a hidden unit. */
void data_weight_row(const struct data *data, enum tensor tensor, uint64_t expert, uint64_t hidden,
                     float *to);

/* Fills the parameters of all layers of a step. */
int data_fill_layer(const struct data *data, struct layer *layers);

/* Fills the gate of one layer; must be called after data->replayed has changed. */
int data_fill_gate(const struct data *data, const struct layer *layer);

/* Fills `to` on the device with this rank's tokens (value: data_token), or with gradients of all
 * rows of y (value: data_grad). */
int data_fill_rows(const struct data *data, const struct layer *layer,
                   float (*value)(const struct data *, int, uint64_t, uint64_t), void *to);

/* Fills `to` with the losses (T,k) of this rank's choices. */
int data_fill_losses(const struct data *data, const struct layer *layer, float *to);

#endif
