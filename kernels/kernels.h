/* Every kernel of an MoE layer: its arguments are its contract.
 *
 * Rows are contiguous.  Dtypes are enum moe_dtype.  T tokens, E experts, k choices per token, D
 * columns, C rows per expert.  All sums are made in f32.  Any size may be 0. */
#ifndef KERNELS_H
#define KERNELS_H

#include "moelookup.h"
#include "relayed.h"
#include "shape.h"
#include "sparse.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A new kernel is a row here, a struct below, and a function in each back end. */
#define KERNELS(row)                                                                               \
    row(gemm) row(gemm_rows) row(route) row(route_backward) row(slots) row(unit_rows)              \
        row(unit_rows_backward) row(keep_losses) row(balance) row(balance_backward) row(encode)    \
            row(encode_backward) row(decode) row(decode_backward) row(one_hot)                     \
                row(one_hot_backward) row(nonzero) row(move) row(move_rows) row(activate)          \
                    row(activate_backward) row(add_bias) row(sum_rows) row(fill)                   \
                        SPARSE_KERNELS(row) RELAYED_KERNELS(row)

#define KERNEL_NUMBER(name) KERNEL_##name,
enum kernel { KERNELS(KERNEL_NUMBER) KERNEL_COUNT };
#undef KERNEL_NUMBER

/* For each of `batch` matrices, strides in elements: c (m,n) = op(a) op(b) + keep * c, where op(a)
 * is (m,k) and op(b) is (k,n).  Row-major and dense: a is (m,k), or (k,m) with transpose_a. */
struct gemm {
    uint32_t dtype; /* of a, b and c; accumulation is f32 */
    bool c_f32;     /* c is f32, whatever a and b are */
    bool transpose_a, transpose_b, keep;
    uint32_t batch;
    uint64_t m, n, k;
    const void *a, *b;
    void *c;
    uint64_t stride_a, stride_b, stride_c;
    uint64_t row_b, row_c; /* from a row of b or c to the next; 0: they touch */
};

static inline uint32_t gemm_result_type(const struct gemm *g)
{
    return g->c_f32 ? (uint32_t)MOE_F32 : g->dtype;
}

/* The same where each expert has rows of its own: those of expert i are first[i] to first[i + 1] -
 * 1 of a (rows,k).  c (rows,n) = a op(b) + keep * c with the expert's op(b) (k,n); or, for `sums`,
 * the expert's c (k,n) = a' b + keep * c over its rows of a and of b (rows,n). */
struct gemm_rows {
    uint32_t dtype; /* of a, b and c */
    bool sums, transpose_b, keep;
    uint32_t experts;
    uint64_t n, k;
    const uint64_t
        *first; /* (experts + 1), in the host's memory: not to change before it has run */
    const void *a, *b;
    void *c;
};

/* Added to what gates are divided by: all of them may be 0. */
#define ROUTE_LEAST 1e-20f

/* Gate with top-k and slots.  Ties go to the lowest group, then to the lowest expert.  k = 1: the
 * gate is the probability; k > 1: probabilities normalised over the k chosen, before any is
 * dropped.
 *
 * Softmax chooses by logits, since probabilities may round to ties; sigmoid by probabilities with
 * the bias added, which the gate has not.  With groups only experts of the best `group_limit` of
 * them are chosen: a group is as good as its best expert, with sigmoid as the sum of its best two.
 * Bilevel chooses a group and then a place in it, each by a softmax; the gate is the product of
 * both probabilities, and k is 1.  So it has columns = groups + E/groups, others E.
 *
 * A token is as important as the largest probability of its choices.  For softmax that is one over
 * the sum of e^(x - largest x), which all devices add up alike: column c belongs to part c mod 32,
 * then parts are added by halves.  With equal instructions they find equal orders. */
struct route {
    uint32_t tokens, experts, top_k;
    uint64_t capacity; /* choices whose slot is >= capacity are dropped */
    float *logits;     /* (T,columns) in; probabilities, of sigmoid each by itself, out */
    float *gate;       /* (T,k) out */
    int32_t *expert;   /* (T,k) out */
    int64_t *slot;     /* (T,k) out: row within the expert, or -1 if dropped.
                        * Slots are given to all first choices in token order, or that of
                        * `turn`, then all second choices, and so on */
    int64_t *needed;   /* (E) out: choices of each expert, before any drop */
    uint32_t groups, group_limit; /* 0: none */
    uint32_t router;              /* enum moe_router */
    const float *bias;            /* (E) or NULL; sigmoid only */
    const uint64_t *capacities;   /* (E) each expert's own; NULL: `capacity` */
    float *importance;            /* (T) out, or NULL: slots are given in token order */
    uint32_t *turn;               /* (T) out, with it: the tokens, the most important first, of
                                   * equally important ones the lowest */
    const int32_t *given; /* (T,k), or NULL: gates are of these choices, while `expert` becomes what
                           * the token would choose; slot, needed and turn are nobody's then */
};

/* The second half of route: slots of choices that are known before, in token order. */
struct slots {
    uint32_t tokens, experts, top_k;
    uint64_t capacity;
    const int32_t *expert;      /* (T,k) */
    int64_t *slot;              /* (T,k) out, needed too: as route makes them */
    int64_t *needed;            /* (E) out */
    const uint64_t *capacities; /* as of route */
};

/* d(loss)/d(logits) from d(loss)/d(gate). */
struct route_backward {
    uint32_t tokens, experts, top_k;
    const float *probability; /* (T,columns), as route leaves them */
    const float *gate;
    const int32_t *expert;
    const float *grad_gate; /* (T,k) */
    float *grad_logits;     /* (T,columns) out */
    uint32_t groups, router;
    const int32_t *live; /* (T,k), or NULL: tokens whose `expert` are not all of these have no
                          * gradient */
};

/* Rows of length e^x, x = *exponent but at most UNIT_ROWS_MOST; NULL: of length 1.  One that is
 * shorter than UNIT_ROWS_LEAST is divided by that. */
#define UNIT_ROWS_MOST 4.605170186f /* ln 100 */
#define UNIT_ROWS_LEAST 1e-12f
struct unit_rows {
    uint64_t rows, width;
    const float *exponent;
    const float *from; /* (rows,width) */
    float *to;         /* may be from */
    float *length;     /* (rows) out: what each was divided by */
};

/* grad_from from grad_to, which may be the same.  grad_exponent (rows): what each row adds to the
 * gradient of the exponent; or NULL. */
struct unit_rows_backward {
    uint64_t rows, width;
    const float *exponent;
    const float *to, *length; /* as unit_rows leaves them */
    const float *grad_to;
    float *grad_from;
    float *grad_exponent;
};

/* grad_gate = the loss of a kept choice, 0 of a dropped one: of sum(gate * loss). */
struct keep_losses {
    uint64_t choices;
    const int64_t *slot;
    const float *loss;
    float *grad_gate; /* out */
};

/* What a loss of balance is made of.  For each column how many of all choices are of it, as a share
 * f; and the mean of its probabilities P, of sigmoid after they were divided by a token's sum. */
struct balance {
    uint32_t tokens, experts, top_k, groups, router;
    const float *probability; /* (T,columns), as route leaves them */
    const int64_t *needed;    /* (E), likewise */
    float *share, *mean;      /* (columns) out */
};

/* Adds d(loss)/d(logits), where loss = weight[0] * sum of f P over the first columns (bilevel:
 * those of groups, else all) + weight[1] * the same over the others; f is a constant. */
struct balance_backward {
    uint32_t tokens, experts, groups, router;
    const float *probability; /* (T,columns), as route leaves them */
    const float *share;       /* (columns), as balance gives them */
    float weight[2];
    float *grad_logits; /* (T,columns) in and out */
};

/* Where each choice's row lies; shared by the four kernels below. */
struct routing {
    uint32_t tokens, experts, top_k, width; /* width = D */
    uint64_t rows;                          /* C, rows per expert in (E,C,D) */
    uint64_t capacity;                      /* rows from here on are never filled */
    const int32_t *expert;
    const int64_t *slot;
    const int64_t *needed;
    const uint64_t *first; /* (E+1) where each expert's rows begin, if C differs: then `rows` are
                            * those of all experts; NULL: it does not */
    const uint64_t *capacities; /* (E) likewise */
};

/* Rows of all experts. */
static inline uint64_t routing_rows(const struct routing *r)
{
    return r->first ? r->rows : r->experts * r->rows;
}

/* to (E,C,D) = the token of each kept choice; rows that no choice fills are zero. */
struct encode {
    struct routing routing;
    uint32_t dtype;
    const void *from; /* (T,D) */
    void *to;         /* (E,C,D) */
};

/* to (T,D) = sum over kept choices of their row of from (E,C,D), plus add (T,D) f32 or NULL. */
struct encode_backward {
    struct routing routing;
    uint32_t dtype;
    const void *from;
    const float *add;
    void *to;
};

/* to (T,D) = sum over kept choices of gate * their row of from (E,C,D). */
struct decode {
    struct routing routing;
    uint32_t dtype;
    const float *gate;
    const void *from;
    void *to;
};

/* to (E,C,D) = gate * grad (T,D) in each kept choice's row, zero elsewhere; grad_gate (T,k) = grad
 * times the choice's row of result (E,C,D), zero for dropped ones. */
struct decode_backward {
    struct routing routing;
    uint32_t dtype;
    const float *gate;
    const void *grad;
    const void *result;
    void *to;
    float *grad_gate;
};

/* Of one choice of each token a row: to (T,columns) = the choice's scale (NULL: 1) in the column of
 * its expert, or of its slot, else zero; all zero if it was dropped.  Who encodes by products of
 * matrices wants it. */
struct one_hot {
    uint32_t tokens, top_k, choice;
    uint64_t columns;
    bool by_slot;
    const int32_t *expert; /* (T,k), as slot and scale */
    const int64_t *slot;
    const float *scale;
    float *to;
};

/* grad_scale (T,k), of that choice alone, from grad (T,columns) of `to`; columns are experts. */
struct one_hot_backward {
    uint32_t tokens, top_k, choice;
    uint64_t columns;
    const int32_t *expert;
    const int64_t *slot;
    const float *grad;
    float *grad_scale;
};

/* to = 1 where from is not 0, else 0. */
struct nonzero {
    uint64_t count;
    uint32_t dtype; /* of `to` */
    const float *from;
    void *to;
};

/* The one copy: for every index (i,j) of dims, the `block` elements at to + (i,j).to_stride become
 * the sum over n < terms of those at from + (i,j).from_stride + n * term_stride.  Strides are in
 * blocks.  It is the stride copy, the repeat (from_stride 0), the sum of partial results, and the
 * conversion between types.  from and to do not overlap. */
struct move {
    uint32_t from_type, to_type;
    uint64_t block;
    uint64_t dims[3], from_stride[3], to_stride[3];
    uint64_t terms, term_stride; /* terms >= 1 */
    const void *from;
    void *to;
};

/* Rows of a table that lie together on both sides; all of it is counted in rows. */
struct row_block {
    uint64_t first;    /* how many rows the blocks before it have */
    uint64_t from, to; /* where they begin */
    uint64_t step;     /* from a term to the next one */
};

/* The copy by a table, where blocks differ in their rows: a row at `to` becomes the sum of `terms`
 * rows at `from`.  Else like move. */
struct move_rows {
    uint32_t from_type, to_type;
    uint64_t width, rows; /* elements of a row; rows of all blocks */
    uint64_t terms;       /* >= 1 */
    uint64_t count;
    const struct row_block *blocks; /* (count) */
    const void *from;
    void *to;
};

/* One expert activation over (batch, rows, width): pre += bias (batch,width), post = act(pre); for
 * SwiGLU post = silu(pre) * up.  post may be pre (ReLU). */
struct activate {
    uint32_t dtype, kind; /* enum moe_act */
    uint64_t batch, rows, width;
    const void *bias;
    void *pre;
    const void *up; /* SwiGLU only */
    void *post;
    const uint64_t *first; /* (batch+1) where each one's rows begin, if they differ: then `rows` are
                            * those of all; NULL: they do not */
};

/* grad_pre = grad_post * act'(pre), grad_up likewise.  grad_pre may be grad_post. */
struct activate_backward {
    uint32_t dtype, kind;
    uint64_t batch, rows, width;
    const void *pre; /* with its bias, as activate leaves it; for ReLU, post */
    const void *up;
    const void *grad_post;
    void *grad_pre;
    void *grad_up;
};

/* to (batch,rows,width) += bias (batch, stride), of which `width` columns count. */
struct add_bias {
    uint32_t dtype;
    uint64_t batch, rows, width, bias_stride;
    const void *bias;
    void *to;
    const uint64_t *first; /* as activate has it */
};

/* to (batch, stride) = column sums of from (batch,rows,width), plus keep * to; padding columns 0.
 */
struct sum_rows {
    uint32_t dtype;
    bool keep;
    uint64_t batch, rows, width, to_stride;
    const void *from;
    void *to;
    const uint64_t *first; /* as activate has it */
};

/* Rows of all of a batch, as activate, add_bias and sum_rows have them. */
static inline uint64_t rows_of_all(const uint64_t *first, uint64_t batch, uint64_t rows)
{
    return first ? rows : batch * rows;
}

/* Zero bytes. */
struct fill {
    void *to;
    uint64_t bytes;
};

#endif
