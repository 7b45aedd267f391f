/* The layer as it is defined, in double precision, for one token at a time: what all judges of a
 * plan share. */
#ifndef PLAIN_H
#define PLAIN_H

#include "data.h"

#include <stdbool.h>

/* Where a token goes. */
struct token_choice {
    uint32_t expert;
    double gate;
};

struct plain {
    const struct data *data; /* borrowed */
    uint32_t E, k, D, H;
    uint32_t columns;       /* of what it chooses by */
    uint32_t rows;          /* of the gate's matrix: the columns, of a cosine router P */
    uint32_t router;        /* enum moe_router */
    uint32_t each;          /* experts of a group; all where there are no groups */
    uint32_t first_columns; /* of its first softmax; those of a second one, if any, follow */
    double slack;     /* what f32 cannot tell of a score: units that multiply 16-bit numbers cut off
                       * what they add */
    float *gate;      /* (rows,D) */
    double *x, *grad; /* the token's row and the gradient of its rows of y */
    double *loss;     /* (k) of MOE_COMBINE_CHOICES */
    double *logits, *probability; /* (columns) */
    double *score;                /* (columns) what choices are made by */
    struct token_choice *choices; /* (k) */
    bool changed;                 /* its known choices are not the best ones */
    double *row_grad, *row_size;  /* (rows) of plain_route_back() */
    struct plain_cosine {
        double factor;         /* of cosines */
        bool trained;          /* the factor is below its limit */
        double *experts;       /* (E,P) of length 1 */
        double *expert_length; /* (E) */
        double *token;         /* (P) of length 1 */
        double length;
        double *grad_experts, *grad_experts_size; /* (E,P) of all tokens so far */
        double *grad_bias, *grad_bias_size;       /* (P) */
        double grad_scale, grad_scale_size;
    } cosine;
    double *share;   /* (columns) of all choices; 0 until plain_count() */
    uint64_t tokens; /* whose choices were counted */
};

int plain_open(const struct data *data, struct plain *out);
void plain_close(struct plain *p); /* a zeroed one is fine */

/* The token at hand from here on. */
void plain_load(struct plain *p, int rank, uint64_t token);

/* Its gates, for the k experts that the step chose; rank and token are only said.  ERR_WRONG if
 * `live`, the same or, of choices that were known before, what they would be now, are not the best
 * ones (within the rounding of what multiplied), or not experts at all. */
int plain_route(struct plain *p, int rank, uint64_t token, const int32_t *expert,
                const int32_t *live);

/* Where its choice j's row of y has its gradient. */
const double *plain_grad_row(const struct plain *p, uint32_t j);

/* How important it is, if it was routed. */
double plain_importance(const struct plain *p);

/* By how much a token may be more important than one that took its turn before it: rounding
 * explains it. */
double plain_importance_slack(const struct plain *p);

/* The gradients of what it gave the rows of the gate's matrix, from those of its k gates and from
 * the loss of balance, where data has one; `size`: those of the gates with every term positive.
 * Adds to what a cosine router has besides. */
void plain_route_back(struct plain *p, const double *gate_grad, double size);

/* Where data has a loss of balance: counts the choices (tokens,k) of a rank, each a legal expert.
 */
void plain_count(struct plain *p, const int32_t *expert, uint64_t tokens);

/* What the token at hand adds to that loss. */
double plain_balance(const struct plain *p);

double plain_act(uint32_t activation, double x);
double plain_act_slope(uint32_t activation, double x);

/* Rounding decides on which side of ReLU's bend a unit lies that adds up to x with its bias: where
 * products are stored in 16 bits, they are before the bias is added.  What such a unit adds to a
 * gradient may as well be 0. */
bool plain_is_at_bend(const struct plain *p, double bias, double x);
double plain_dot(const float *a, const double *b, uint32_t n);
void plain_axpy(double scale, const float *from, double *to, uint32_t n); /* to += scale * from */
void plain_add_sizes(double scale, const float *from, double *to, uint32_t n); /* |from| */

#endif
