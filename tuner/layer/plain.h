/* The layer by its definition, in double precision, for one token at a time.  The judge of plans
 * (judge.h) uses it. */
#ifndef PLAIN_H
#define PLAIN_H

#include "data.h"

#include <stdbool.h>

/* One choice of a token. */
struct token_choice {
    uint32_t expert;
    double gate;
};

/* The gate of a layer, and the state of the current token.  Whole after plain_open(); plain_close()
 * frees it. */
struct plain {
    const struct data *data; /* borrowed */
    uint32_t E, k, D, H;
    uint32_t columns;             /* number of logits of a token */
    uint32_t rows;                /* of the gate's matrix: columns; for a cosine router P */
    uint32_t router;              /* enum moe_router */
    uint32_t group_size;          /* experts in a group; E without groups */
    uint32_t first_columns;       /* columns of the first softmax; a second one has the rest */
    double slack;                 /* rounding of a score; sums of 16-bit products are truncated */
    float *gate;                  /* (rows,D) */
    double *x, *grad;             /* the token's row, and the gradient of its rows of y */
    double *loss;                 /* (k) of MOE_COMBINE_CHOICES */
    double *logits, *probability; /* (columns) */
    double *score;                /* (columns) by which it chooses */
    struct token_choice *choices; /* (k) */
    bool changed;                 /* its known choices are not the best ones now */
    double *row_grad, *row_size;  /* (rows) results of plain_route_back() */
    struct plain_cosine {
        double factor;         /* of cosines */
        bool trained;          /* the factor is below its limit */
        double *experts;       /* (E,P) rows of length 1 */
        double *expert_length; /* (E) their lengths before */
        double *token;         /* (P) of length 1 */
        double length;         /* its length before */
        /* Gradients over all tokens so far, and the same sums with all terms positive. */
        double *grad_experts, *grad_experts_size; /* (E,P) */
        double *grad_bias, *grad_bias_size;       /* (P) */
        double grad_scale, grad_scale_size;
    } cosine;
    double *share;   /* (columns) share of all choices; 0 until plain_count() */
    uint64_t tokens; /* number of tokens in plain_count() */
};

/* Computes the gate's matrix from `data`. */
int plain_open(const struct data *data, struct plain *out);
void plain_close(struct plain *p); /* a zeroed one is fine */

/* Makes this token the current one. */
void plain_load(struct plain *p, int rank, uint64_t token);

/* Computes the token's gates for the k experts that the step chose.  `live` are the choices to
 * check: the same, or with known routes what the token would choose now.  ERR_WRONG, after a
 * message that names rank and token: they are not the best within rounding, or not experts. */
int plain_route(struct plain *p, int rank, uint64_t token, const int32_t *expert,
                const int32_t *live);

/* The gradient of the row of y that belongs to choice j. */
const double *plain_grad_row(const struct plain *p, uint32_t j);

/* The token's importance, after plain_route(). */
double plain_importance(const struct plain *p);

/* How much more important a token may be than one before it, because of rounding. */
double plain_importance_slack(const struct plain *p);

/* Computes row_grad and row_size: the gradients of the token's products with the gate's rows, from
 * those of its k gates and of the balance loss.  `size` is the sum of the gates' gradients with all
 * terms positive.  Adds to the gradients of a cosine router. */
void plain_route_back(struct plain *p, const double *gate_grad, double size);

/* Counts the choices (tokens,k) of a rank, each a legal expert; needed where data has a balance
 * loss. */
void plain_count(struct plain *p, const int32_t *expert, uint64_t tokens);

/* The current token's part of the balance loss. */
double plain_balance(const struct plain *p);

/* An activation, and its derivative. */
double plain_act(uint32_t activation, double x);
double plain_act_slope(uint32_t activation, double x);

/* True where rounding decides on which side of ReLU's kink a hidden unit lies, whose sum with its
 * bias is x.  (Products are stored, in 16 bits, before the bias is added.)  Such a unit's part of a
 * gradient may also be 0. */
bool plain_is_at_kink(const struct plain *p, double bias, double x);

double plain_dot(const float *a, const double *b, uint32_t n);

/* to += scale * from. */
void plain_axpy(double scale, const float *from, double *to, uint32_t n);

/* to += scale * |from|. */
void plain_add_sizes(double scale, const float *from, double *to, uint32_t n);

#endif
