/* What a step must give, computed plainly in double precision from the very data by one process: no
 * ranks, no chunks, no padding, no communication.  The judge of every plan, of all tokens and the
 * gradients of parameters (the reference), or, where that would take hours, of some tokens.
 *
 * What an expert makes of a token is kept, so that the next plan and the next capacity cost next to
 * nothing. */
#ifndef JUDGE_H
#define JUDGE_H

#include "capacities.h"
#include "plain.h"

enum { SPOT_MOST = 16 };

/* What a step did to the tokens of one rank: checked, not trusted. */
struct routed_tokens {
    int rank;
    uint32_t tokens;
    const int32_t *expert; /* (T,k) choices */
    const int32_t *live;   /* (T,k) what they would be now, where they were known before; checked
                            * instead of them; else NULL */
    const int64_t *slot;   /* (T,k), < 0 for a choice that is dropped; NULL: not seen */
    const uint32_t *turn;  /* (T) of MOE_ORDER_PRIORITY: the tokens in the order in which they got
                            * slots; else NULL */
};

struct judge {
    struct plain p;
    int rank;
    uint32_t tokens;    /* of this rank */
    uint32_t count;     /* of those that are looked at */
    uint32_t *token;    /* (count) which */
    int32_t *expert;    /* (count,k) */
    uint32_t rows;      /* of y for each token */
    uint32_t *row;      /* (count,rows): which rows of y those are */
    double *x, *grad_y; /* (count,D) a token's row; (count,rows,D) gradients of its y */
    double *out, *back; /* (count,k,D): of an expert, forward, and backward for a gate of 1 */
    double *bent; /* (count,k,D): sums of the sizes of what units at ReLU's bend add to `back` */
    /* `back` is NULL but of MOE_TRAIN, and `bent` but of MOE_RELU besides. */

    /* What must come out, set by judge_expect(). */
    double *y, *grad_x;   /* (count,rows,D), (count,D) */
    double *grad_x_slack; /* (count,D): by how much more grad_x may be off */
    double grad_x_term;   /* no less than the largest of its terms, of which few may cancel */
    uint64_t dropped;     /* choices of this rank */
    double balance;       /* its loss of balance, 0 where data has none; of all tokens only */

    /* With parameters: those of this rank's slices, set by judge_parameters(), and what its own
     * tokens give the gate, set by judge_expect(); a cosine router's are in p.cosine. */
    bool parameters;
    double *grad[TENSOR_COUNT], *grad_gate;
    /* The same sums with every term positive, for the tensors whose terms may cancel so far that
     * their result says nothing about how large the rounding may be; NULL for the others. */
    double *grad_size[TENSOR_COUNT], *grad_gate_size;
    double grad_term[TENSOR_COUNT];   /* as grad_x_term */
    double *grad_slack[TENSOR_COUNT]; /* as grad_x_slack; NULL where it does not depend on it */
};

/* Of all tokens of this rank and of its parameters; or of some tokens alone, the same for the same
 * choices: one that is dropped if any is, some of each part of the batch and for as many experts as
 * can be.  expert: the (T,k) choices of this rank's tokens.  Of some tokens it costs some 1e9
 * products, or what two tokens need, and half as many weights that are drawn: seconds of a core for
 * a large layer, which experts share among `threads`.  The data must outlive the calls of
 * judge_expect() and judge_parameters(). */
int reference_open(const struct data *data, int rank, uint32_t tokens, const int32_t *expert,
                   int threads, struct judge **out);
int spot_open(const struct data *data, int rank, uint32_t tokens, const int32_t *expert,
              int threads, struct judge **out);
void judge_close(struct judge *j); /* NULL is fine */

/* Whether these are still the choices of the tokens that are looked at. */
bool judge_fits(const struct judge *j, const int32_t *expert);

/* Sets what must come out of this rank's tokens; with parameters once only.  ERR_WRONG for choices
 * that are not the best within the rounding of f32, for an order of turns that it does not explain,
 * and for any slot, of all tokens, that is not the rule's.  zero: gates of tokens whose known
 * choices changed have no gradient but of balance. */
int judge_expect(struct judge *j, const struct routed_tokens *own,
                 const struct capacities *capacities, bool zero);

/* Sets what this rank's weights must get from the tokens of all W ranks. */
int judge_parameters(struct judge *j, const struct routed_tokens *ranks,
                     const struct capacities *capacities);

/* Whether somebody who asked for it would wait for the whole reference: half a minute at most. */
bool reference_is_bearable(const struct moe_shape *shape);

/* The layer on which plans of this one are checked: itself, or cut down where the reference would
 * keep a processor busy for seconds, or hold all experts in memory beside it. */
struct moe_shape reference_shape(struct moe_shape shape);

/* A capacity at which some tokens are dropped, and no plan can do without padding. */
uint64_t reference_capacity(const struct moe_shape *shape);

/* Bytes of the host's memory that the whole reference, the choices it is told and the comparison
 * with it take at most on a rank; and what some tokens do. */
size_t reference_bytes(const struct moe_shape *shape);
size_t spot_bytes(const struct moe_shape *shape);

#endif
