/* Every kernel of an MoE layer: its arguments are its contract.
 *
 * Rows are contiguous.  Dtypes are enum moe_dtype.  T tokens, E experts, k choices per token, D
 * columns, C rows per expert.  All sums are made in f32.  Any size may be 0. */
#ifndef KERNELS_H
#define KERNELS_H

#include "moelookup.h"
#include "sparse.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A new kernel is a row here, a struct below, and a function in each back end. */
#define KERNELS(row)                                                                               \
    row(gemm) row(route) row(route_backward) row(encode) row(encode_backward) row(decode)          \
        row(decode_backward) row(move) row(activate) row(activate_backward) row(add_bias)          \
            row(sum_rows) row(fill) SPARSE_KERNELS(row)

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
};

static inline uint32_t gemm_result_type(const struct gemm *g)
{
    return g->c_f32 ? (uint32_t)MOE_F32 : g->dtype;
}

/* Softmax gate with top-k and slots.  Ties go to the lowest expert.  k = 1: the gate is the
 * softmax probability; k > 1: probabilities normalised over the k chosen, before any is dropped. */
struct route {
    uint32_t tokens, experts, top_k;
    uint64_t capacity; /* choices whose slot is >= capacity are dropped */
    float *logits;     /* (T,E) in; softmax probabilities out */
    float *gate;       /* (T,k) out */
    int32_t *expert;   /* (T,k) out */
    int64_t *slot;     /* (T,k) out: row within the expert, or -1 if dropped.
                        * Slots are given to all first choices in token order, then
                        * all second choices, and so on */
    int64_t *needed;   /* (E) out: choices of each expert, before any drop */
};

/* d(loss)/d(logits) from d(loss)/d(gate). */
struct route_backward {
    uint32_t tokens, experts, top_k;
    const float *probability; /* (T,E), as route leaves them */
    const float *gate;
    const int32_t *expert;
    const float *grad_gate; /* (T,k) */
    float *grad_logits;     /* (T,E) out */
};

/* Where each choice's row lies; shared by the four kernels below. */
struct routing {
    uint32_t tokens, experts, top_k, width; /* width = D */
    uint64_t rows;                          /* C, rows per expert in (E,C,D) */
    uint64_t capacity;                      /* rows from here on are never filled */
    const int32_t *expert;
    const int64_t *slot;
    const int64_t *needed;
};

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

/* One expert activation over (batch, rows, width): pre += bias (batch,width), post = act(pre); for
 * SwiGLU post = silu(pre) * up.  post may be pre (ReLU). */
struct activate {
    uint32_t dtype, kind; /* enum moe_act */
    uint64_t batch, rows, width;
    const void *bias;
    void *pre;
    const void *up; /* SwiGLU only */
    void *post;
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
};

/* to (batch, stride) = column sums of from (batch,rows,width), plus keep * to; padding columns 0.
 */
struct sum_rows {
    uint32_t dtype;
    bool keep;
    uint64_t batch, rows, width, to_stride;
    const void *from;
    void *to;
};

/* Zero bytes. */
struct fill {
    void *to;
    uint64_t bytes;
};

#endif
