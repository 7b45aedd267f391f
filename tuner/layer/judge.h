/* The expected results of a step, by which every plan is judged.  One process computes them from
 * the same data by plain loops in double precision, without ranks, chunks, padding or
 * communication.  A judge covers all tokens and the gradients of parameters (the reference), or
 * only some tokens where the reference would take hours (a spot check).
 *
 * The judge stores the output of each expert for each token, so that the next plan and the next
 * capacity cost almost nothing. */
#ifndef JUDGE_H
#define JUDGE_H

#include "capacities.h"
#include "plain.h"

enum { SPOT_MOST = 16 };

/* How a step routed the tokens of one rank; the judge checks it.  A value that borrows its arrays.
 */
struct routed_tokens {
    int rank;
    uint32_t tokens;
    const int32_t *expert; /* (T,k) choices */
    const int32_t *live;   /* (T,k) with known routes: what the tokens would choose now, which is
                            * checked instead of `expert`; else NULL */
    const int64_t *slot;   /* (T,k), < 0 for a dropped choice; NULL: not checked */
    const uint32_t *turn;  /* (T) with MOE_ORDER_PRIORITY: the tokens in the order in which they got
                            * slots; else NULL */
};

/* A judge of one rank's tokens.  Whole after an open function; judge_close() frees it. */
struct judge {
    struct plain p;
    int rank;
    uint32_t tokens;    /* of this rank */
    uint32_t count;     /* number of judged tokens */
    uint32_t *token;    /* (count) their numbers */
    int32_t *expert;    /* (count,k) their choices */
    uint32_t rows;      /* rows of y for each token */
    uint32_t *row;      /* (count,rows) numbers of these rows of y */
    double *x, *grad_y; /* (count,D) tokens; (count,rows,D) gradients of y */
    double *out;        /* (count,k,D) output of each choice's expert */
    double *back;       /* (count,k,D) its gradient of the token for gate 1; NULL: no MOE_TRAIN */
    /* (count,k,D) how much `back` may be off because of hidden units near ReLU's kink; NULL: no
     * MOE_TRAIN, or no MOE_RELU. */
    double *kink_error;

    /* Expected results, set by judge_expect(). */
    double *y, *grad_x;   /* (count,rows,D), (count,D) */
    double *grad_x_slack; /* (count,D) how much grad_x may be off in addition */
    double grad_x_term;   /* at least its largest term; terms may cancel, their rounding does not */
    uint64_t dropped;     /* dropped choices of this rank */
    double balance;       /* balance loss, 0 where data has none; for all tokens only */

    /* Expected gradients of parameters, of the reference only.  judge_parameters() sets those of
     * this rank's slices, judge_expect() those of the gate; a cosine router's are in p.cosine. */
    bool parameters;
    double *grad[TENSOR_COUNT], *grad_gate;
    /* The same sums with all terms positive, for tensors whose terms may cancel: then the result
     * does not show how large the rounding may be.  NULL for other tensors. */
    double *grad_size[TENSOR_COUNT], *grad_gate_size;
    double grad_term[TENSOR_COUNT];   /* as grad_x_term */
    double *grad_slack[TENSOR_COUNT]; /* as grad_x_slack; NULL: 0 */
};

/* Makes a judge of all tokens of this rank and of its parameters (reference_open), or of some
 * tokens only (spot_open).  Some tokens are always the same for the same choices: a dropped one if
 * there is any, some of each part of the batch, and some for as many experts as possible.  They
 * cost about 1e9 products, or those of two tokens, and half as many random weights: seconds of a
 * core for a large layer, which `threads` threads share.  expert: the (T,k) choices of this rank's
 * tokens.  The data must outlive the calls of judge_expect() and judge_parameters(). */
int reference_open(const struct data *data, int rank, uint32_t tokens, const int32_t *expert,
                   int threads, struct judge **out);
int spot_open(const struct data *data, int rank, uint32_t tokens, const int32_t *expert,
              int threads, struct judge **out);
void judge_close(struct judge *j); /* NULL is fine */

/* True where the judged tokens still have these choices. */
bool judge_fits(const struct judge *j, const int32_t *expert);

/* Sets the expected results of this rank's tokens; with parameters, it may be called once only.
 * ERR_WRONG, after a message: a choice is not the best within the rounding of f32, the order of
 * tokens is not explained by that rounding, or a slot of any token breaks the rule.
 * known_without_gradient: the gate has no gradient, except of the balance loss, for tokens whose
 * known choices changed. */
int judge_expect(struct judge *j, const struct routed_tokens *routed,
                 const struct capacities *capacities, bool known_without_gradient);

/* Sets the expected gradients of this rank's weights, from the tokens of all W ranks. */
int judge_parameters(struct judge *j, const struct routed_tokens *ranks,
                     const struct capacities *capacities);

/* True where the whole reference takes at most half a minute. */
bool reference_is_affordable(const struct moe_shape *shape);

/* The layer on which plans of this one are checked: the same, or a smaller one where the reference
 * would take seconds, or would need memory for all experts. */
struct moe_shape reference_shape(struct moe_shape shape);

/* A capacity at which some tokens are dropped, and every plan has padding. */
uint64_t reference_capacity(const struct moe_shape *shape);

/* The most bytes of the host's memory that the whole reference needs on a rank, with the choices of
 * all ranks and the comparison. */
size_t reference_bytes(const struct moe_shape *shape);

/* The most bytes that a spot check needs. */
size_t spot_bytes(const struct moe_shape *shape);

#endif
