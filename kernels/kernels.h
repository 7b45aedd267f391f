/* The kernels of an MoE layer.  Each struct has the arguments of one kernel, and its comment says
 * what the kernel computes; every back end computes the same.
 *
 * T is the number of tokens, E of experts, k of choices per token, D of columns, C of rows per
 * expert.  Rows are contiguous, dtypes are enum moe_dtype, and all sums are made in f32.  Any size
 * may be 0.  The structs are plain values; their pointers are to the device's memory, and borrowed
 * until the kernel has run. */
#ifndef KERNELS_H
#define KERNELS_H

#include "moelookup.h"
#include "relayed.h"
#include "shape.h"
#include "sparse.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All kernels.  A new kernel needs a row here, a struct below, and a function in each back end. */
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

/* Multiplies each of `batch` matrices: c (m,n) = op(a) op(b) + keep * c, where op(a) is (m,k) and
 * op(b) is (k,n).  Matrices are row-major: a is (m,k), or (k,m) with transpose_a.  Strides count
 * elements. */
struct gemm {
    uint32_t dtype; /* of a, b and c; accumulation is f32 */
    bool c_f32;     /* c is f32, whatever a and b are */
    bool transpose_a, transpose_b, keep;
    uint32_t batch;
    uint64_t m, n, k;
    const void *a, *b;
    void *c;
    uint64_t stride_a, stride_b, stride_c;
    uint64_t row_b, row_c; /* elements from a row of b or c to the next; 0: rows touch */
};

/* The dtype of c. */
static inline uint32_t gemm_result_type(const struct gemm *g)
{
    return g->c_f32 ? (uint32_t)MOE_F32 : g->dtype;
}

/* Products where experts have different numbers of rows: expert i has rows first[i] to first[i + 1]
 * - 1 of a (rows,k).  c (rows,n) = a op(b) + keep * c, with op(b) (k,n) of the row's expert.  With
 * `sums`, each expert has c (k,n) = a' b + keep * c, over its rows of a and of b (rows,n). */
struct gemm_rows {
    uint32_t dtype; /* of a, b and c */
    bool sums, transpose_b, keep;
    uint32_t experts;
    uint64_t n, k;
    /* (experts + 1), in the host's memory; it must not change before the kernel has run */
    const uint64_t *first;
    const void *a, *b;
    void *c;
};

/* Added to the sum by which gates are divided, because all of them may be 0. */
#define ROUTE_LEAST 1e-20f

/* Chooses the k best experts of each token, their gates and their slots.  Ties go to the lowest
 * group, then to the lowest expert.  With k = 1, the gate is the probability; with k > 1, it is
 * divided by the sum over the k chosen experts, before any choice is dropped.
 *
 * Softmax chooses by logits, since probabilities may round to ties.  Sigmoid chooses by the
 * probability plus the bias; the gate does not contain the bias.  With groups, the router chooses
 * only from the best `group_limit` groups.  A group counts by its best expert; with sigmoid, by the
 * sum of its best two.  Bilevel chooses a group and then a place in it, each by a softmax; the gate
 * is the product of both probabilities, and k is 1.  So bilevel has columns = groups + E/groups;
 * other routers have E.
 *
 * A token's importance is the largest probability of its choices.  For softmax this is one over the
 * sum of e^(x - largest x).  All devices add this sum in the same order: column c belongs to part c
 * mod 32, then halves of the parts are added.  So devices with equal instructions find equal
 * orders. */
struct route {
    uint32_t tokens, experts, top_k;
    uint64_t capacity; /* choices whose slot is >= capacity are dropped */
    float *logits;     /* (T,columns): logits in, probabilities out; sigmoid's do not add up to 1 */
    float *gate;       /* (T,k) out */
    int32_t *expert;   /* (T,k) out */
    int64_t *slot;     /* (T,k) out: row within the expert, or -1 if dropped.  First all first
                        * choices get slots, in token order or in the order of `turn`, then all
                        * second choices, and so on */
    int64_t *needed;   /* (E) out: choices of each expert, before any drop */
    uint32_t groups, group_limit; /* 0: none */
    uint32_t router;              /* enum moe_router */
    const float *bias;            /* (E) or NULL; sigmoid only */
    const uint64_t *capacities;   /* (E) capacity of each expert; NULL: `capacity` */
    float *importance;            /* (T) out; NULL: slots go in token order */
    uint32_t *turn;               /* (T) out, together with importance: the tokens, the most
                                   * important first; ties go to the lowest */
    /* (T,k), or NULL.  Known choices: gates belong to these, while `expert` becomes what the token
     * would choose.  slot, needed and turn are then not written. */
    const int32_t *given;
};

/* Gives slots to choices that are known already, in token order: the second half of route. */
struct slots {
    uint32_t tokens, experts, top_k;
    uint64_t capacity;
    const int32_t *expert;      /* (T,k) */
    int64_t *slot;              /* (T,k) out, as in route */
    int64_t *needed;            /* (E) out, as in route */
    const uint64_t *capacities; /* (E) capacity of each expert; NULL: `capacity` */
};

/* Computes d(loss)/d(logits) from d(loss)/d(gate). */
struct route_backward {
    uint32_t tokens, experts, top_k;
    const float *probability; /* (T,columns), from route */
    const float *gate;        /* (T,k), from route */
    const int32_t *expert;    /* (T,k), from route */
    const float *grad_gate;   /* (T,k) */
    float *grad_logits;       /* (T,columns) out */
    uint32_t groups, router;
    /* (T,k), or NULL: a token has no gradient where the set of its `expert` differs from these */
    const int32_t *live;
};

/* Scales each row to length e^x, where x is *exponent, at most UNIT_ROWS_MOST; NULL: to length 1. A
 * row shorter than UNIT_ROWS_LEAST is divided by UNIT_ROWS_LEAST. */
#define UNIT_ROWS_MOST 4.605170186f /* ln 100 */
#define UNIT_ROWS_LEAST 1e-12f
struct unit_rows {
    uint64_t rows, width;
    const float *exponent;
    const float *from; /* (rows,width) */
    float *to;         /* (rows,width) out; may be from */
    float *length;     /* (rows) out: by what each row was divided */
};

/* Computes grad_from from grad_to; both may be the same memory. */
struct unit_rows_backward {
    uint64_t rows, width;
    const float *exponent;
    const float *to, *length; /* from unit_rows */
    const float *grad_to;
    float *grad_from;
    float *grad_exponent; /* (rows) out: what each row adds to the exponent's gradient; or NULL */
};

/* Computes the gradient of sum(gate * loss): grad_gate is the loss of a kept choice, and 0 for a
 * dropped one. */
struct keep_losses {
    uint64_t choices;
    const int64_t *slot;
    const float *loss;
    float *grad_gate; /* out */
};

/* Computes the two factors of a balance loss, for each column: its share f of all choices, and the
 * mean P of its probabilities.  Sigmoid's probabilities are first divided by the token's sum. */
struct balance {
    uint32_t tokens, experts, top_k, groups, router;
    const float *probability; /* (T,columns), from route */
    const int64_t *needed;    /* (E), from route */
    float *share, *mean;      /* (columns) out: f and P */
};

/* Adds d(loss)/d(logits).  loss = weight[0] * sum of f P over the columns of groups (without
 * bilevel: over all columns) + weight[1] * sum of f P over the other columns; f is a constant. */
struct balance_backward {
    uint32_t tokens, experts, groups, router;
    const float *probability; /* (T,columns), from route */
    const float *share;       /* (columns), from balance */
    float weight[2];
    float *grad_logits; /* (T,columns) in and out */
};

/* Where the row of each choice lies: an argument of the next four kernels. */
struct routing {
    uint32_t tokens, experts, top_k, width; /* width = D */
    uint64_t rows;                          /* C, rows per expert in (E,C,D) */
    uint64_t capacity;                      /* rows from here on are never filled */
    const int32_t *expert;
    const int64_t *slot;
    const int64_t *needed;
    /* (E+1) where each expert's rows begin, where experts have different C; `rows` is then the
     * number of rows of all experts.  NULL: every expert has `rows` rows. */
    const uint64_t *first;
    const uint64_t *capacities; /* (E) capacity of each expert; NULL: `capacity` */
};

/* Number of rows of all experts. */
static inline uint64_t routing_rows(const struct routing *r)
{
    return r->first ? r->rows : r->experts * r->rows;
}

/* Copies tokens to experts: to (E,C,D) = the token of each kept choice.  Rows without a choice
 * become zero. */
struct encode {
    struct routing routing;
    uint32_t dtype;
    const void *from; /* (T,D) */
    void *to;         /* (E,C,D) */
};

/* Adds up gradients of tokens: to (T,D) = sum over kept choices of their row of from (E,C,D), plus
 * add (T,D). */
struct encode_backward {
    struct routing routing;
    uint32_t dtype;
    const void *from;
    const float *add; /* NULL: 0 */
    void *to;
};

/* Combines the results of experts: to (T,D) = sum over kept choices of gate * their row of from
 * (E,C,D). */
struct decode {
    struct routing routing;
    uint32_t dtype;
    const float *gate;
    const void *from;
    void *to;
};

/* The gradients of decode: to (E,C,D) = gate * grad (T,D) in each kept choice's row, zero
 * elsewhere. grad_gate (T,k) = grad times the choice's row of result (E,C,D), zero for dropped
 * choices. */
struct decode_backward {
    struct routing routing;
    uint32_t dtype;
    const float *gate;
    const void *grad;
    const void *result;
    void *to;
    float *grad_gate;
};

/* Writes a row for choice number `choice` of each token: to (T,columns) = the choice's scale (NULL:
 * 1) in the column of its expert, or with by_slot of its slot, and zero elsewhere.  The row of a
 * dropped choice is zero.  The baseline `dense` multiplies these matrices. */
struct one_hot {
    uint32_t tokens, top_k, choice;
    uint64_t columns;
    bool by_slot;
    const int32_t *expert; /* (T,k), as slot and scale */
    const int64_t *slot;
    const float *scale;
    float *to;
};

/* The gradient of one_hot's scale: writes grad_scale (T,k), for that choice only, from grad
 * (T,columns).  Columns are experts. */
struct one_hot_backward {
    uint32_t tokens, top_k, choice;
    uint64_t columns;
    const int32_t *expert;
    const int64_t *slot;
    const float *grad;
    float *grad_scale;
};

/* Writes to = 1 where from is not 0, else 0. */
struct nonzero {
    uint64_t count;
    uint32_t dtype; /* of `to` */
    const float *from;
    void *to;
};

/* Copies blocks.  For every index i of dims, the `block` elements at to + i.to_stride become the
 * sum over n < terms of the elements at from + i.from_stride + n * term_stride.  Strides count
 * blocks. This one kernel reorders blocks, repeats them (from_stride 0), adds up partial results,
 * and converts between types.  from and to do not overlap. */
struct move {
    uint32_t from_type, to_type;
    uint64_t block;
    uint64_t dims[3], from_stride[3], to_stride[3];
    uint64_t terms, term_stride; /* terms >= 1 */
    const void *from;
    void *to;
};

/* One block of move_rows: rows that lie together on both sides.  All members count rows. */
struct row_block {
    uint64_t first;    /* number of rows in the blocks before this one */
    uint64_t from, to; /* where the block begins on each side */
    uint64_t step;     /* from a term to the next one */
};

/* Copies blocks with different numbers of rows, by a table: each row at `to` becomes the sum of
 * `terms` rows at `from`.  Like move, it converts between types. */
struct move_rows {
    uint32_t from_type, to_type;
    uint64_t width, rows; /* elements of a row; rows of all blocks */
    uint64_t terms;       /* >= 1 */
    uint64_t count;
    const struct row_block *blocks; /* (count) */
    const void *from;
    void *to;
};

/* Applies an expert's activation to (batch, rows, width): pre += bias (batch,width), post =
 * act(pre); for SwiGLU post = silu(pre) * up.  For ReLU, post may be pre. */
struct activate {
    uint32_t dtype, kind; /* enum moe_act */
    uint64_t batch, rows, width;
    const void *bias;
    void *pre;
    const void *up; /* SwiGLU only */
    void *post;
    /* (batch+1) where the rows of each begin, where their numbers differ; `rows` is then the number
     * of all rows.  NULL: each has `rows` rows. */
    const uint64_t *first;
};

/* The gradients of activate: grad_pre = grad_post * act'(pre), and for SwiGLU grad_up.  grad_pre
 * may be grad_post. */
struct activate_backward {
    uint32_t dtype, kind;
    uint64_t batch, rows, width;
    const void *pre; /* from activate, with the bias added; for ReLU: post */
    const void *up;
    const void *grad_post;
    void *grad_pre;
    void *grad_up;
};

/* Adds a bias: to (batch,rows,width) += the first `width` columns of bias (batch,bias_stride). */
struct add_bias {
    uint32_t dtype;
    uint64_t batch, rows, width, bias_stride;
    const void *bias;
    void *to;
    const uint64_t *first; /* as in activate */
};

/* Adds up columns: to (batch,to_stride) = column sums of from (batch,rows,width), plus keep * to.
 * Padding columns become 0. */
struct sum_rows {
    uint32_t dtype;
    bool keep;
    uint64_t batch, rows, width, to_stride;
    const void *from;
    void *to;
    const uint64_t *first; /* as in activate */
};

/* Number of rows of a whole batch, from the arguments of activate, add_bias or sum_rows. */
static inline uint64_t rows_of_all(const uint64_t *first, uint64_t batch, uint64_t rows)
{
    return first ? rows : batch * rows;
}

/* Writes `bytes` zero bytes. */
struct fill {
    void *to;
    uint64_t bytes;
};

#endif
