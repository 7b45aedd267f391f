/* The kernels of experts without padding: they compute only the rows that exist, not C rows of
 * every expert.  Their names come from the paper HEXA-MoE: es is expert-specific, mm and tmm are
 * products, s is a sum, fk is the fused kernel.
 *
 * A row is a kept choice, that is, one that was not dropped.  Rows are sorted by expert: row i is
 * choice[i] = t k + j, expert e has rows first[e] to first[e+1]-1, and N = first[E].  Only the
 * device knows these numbers; the host enqueues kernels without waiting for them.  Matrices of rows
 * are (N,H), and kept_rows_limit() is the largest N.  Kernels read tokens from (T,D) and add
 * results to (T,D) directly.  Every sum has a fixed order, so results do not differ between runs.
 */
#ifndef SPARSE_H
#define SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPARSE_KERNELS(row)                                                                        \
    row(pack_choices) row(recount) row(reindex) row(esmm) row(estmm) row(ess) row(esfk)

/* A choice as one rank sends it to another; expert -1: the choice is dropped. */
struct sent_choice {
    int32_t expert;
    float gate;
};

/* Packs the choices of a rank for sending. */
struct pack_choices {
    uint64_t choices;
    const int32_t *expert; /* from route, as slot and gate */
    const int64_t *slot;
    const float *gate;
    struct sent_choice *to;
};

/* Received tokens in groups, one per source, of `each` tokens; only the first `filled` of a group
 * have choices.  each 0: all tokens lie together, without groups. */
struct sent_groups {
    uint64_t each, filled;
    uint64_t pitch; /* bytes from a group to the next one */
};

/* Unpacks the choices of tokens from several ranks, and gives new slots to the kept choices, in the
 * order of route.  The sources have applied their capacity already. */
struct recount {
    uint32_t tokens, experts, top_k;
    const struct sent_choice *from; /* (T,k) */
    int32_t *expert;                /* (T,k) out; -1 for a dropped choice */
    float *gate;                    /* (T,k) out */
    int64_t *slot;                  /* (T,k) out; -1 for a dropped choice */
    int64_t *needed;                /* (E) out */
    struct sent_groups groups;
    uint64_t capacity;          /* a choice whose slot would be later is dropped; 0: no limit */
    const uint64_t *capacities; /* (E) capacity of each expert; NULL: `capacity` */
};

#ifdef __CUDACC__
#define BOTH_SIDES __host__ __device__
#else
#define BOTH_SIDES
#endif

/* Received choice number `choice`; expert -1 where its token is not filled. */
BOTH_SIDES static inline struct sent_choice sent_choice_at(const struct recount *r, uint64_t choice)
{
    const struct sent_choice none = { -1, 0 };
    uint64_t token = choice / r->top_k, row;

    if (!r->groups.each)
        return r->from[choice];
    row = token % r->groups.each;
    if (row >= r->groups.filled)
        return none;
    return ((const struct sent_choice *)((const char *)r->from +
                                         token / r->groups.each *
                                             r->groups.pitch))[row * r->top_k + choice % r->top_k];
}

/* Sorts the kept choices by expert, and within an expert by slot. */
struct reindex {
    uint32_t tokens, experts, top_k;
    uint64_t capacity;
    const int32_t *expert; /* (T,k), from route, as slot and needed */
    const int64_t *slot;
    const int64_t *needed;
    int64_t *first;             /* (E+1) out */
    int64_t *choice;            /* (N) out */
    const uint64_t *capacities; /* (E) capacity of each expert; NULL: `capacity` */
};

/* Work memory of one kernel.  Its contents do not outlive a kernel, so all layers of a stream share
 * it. */
struct kept_room {
    float *scratch; /* kept_scratch_bytes(); used by the host only */
    void *results; /* kept_results_bytes(); NULL: the scratch memory of the GPU's stream suffices */
};

/* The rows that the kernels below compute, and the layout of their matrices: their common
 * argument. */
struct kept_rows {
    uint32_t tokens, experts, top_k;
    uint32_t token_type;    /* dtype of the tokens (T,D) that are read; on a GPU equal to dtype */
    uint32_t dtype;         /* of weights, biases and rows: the device's compute type */
    uint32_t hidden, width; /* H and D */
    uint64_t capacity;
    const int32_t *expert; /* (T,k), as slot: the input of reindex */
    const int64_t *slot;
    const int64_t *first, *choice; /* the output of reindex */
    struct kept_room room;
    uint64_t expected; /* number of rows for a modelled device; 0: kept_rows_limit() */
    /* Elements from a hidden unit to the next, and from an expert to the next, in the matrices and
     * their gradients.  0: the matrices are (E,H,D). */
    uint64_t unit_stride, expert_stride;
};

/* unit_stride, or its default D. */
static inline uint64_t kept_unit_stride(const struct kept_rows *at)
{
    return at->unit_stride ? at->unit_stride : at->width;
}

/* expert_stride, or its default H * D. */
static inline uint64_t kept_expert_stride(const struct kept_rows *at)
{
    return at->unit_stride ? at->expert_stride : (uint64_t)at->hidden * at->width;
}

/* The largest possible number of rows N. */
static inline uint64_t kept_rows_limit(const struct kept_rows *at)
{
    uint64_t choices = (uint64_t)at->tokens * at->top_k;
    uint64_t each = at->capacity < at->tokens ? at->capacity : at->tokens;

    return each * at->experts < choices ? each * at->experts : choices;
}

/* The host gathers at most this many rows of one expert, and multiplies them while they are in its
 * cache. */
enum { KEPT_BLOCK_ROWS = 256 };

/* Bytes of kept_room.scratch. */
static inline size_t kept_scratch_bytes(uint32_t hidden, uint32_t width)
{
    return KEPT_BLOCK_ROWS * ((size_t)hidden + width) * sizeof(float);
}

/* In ESMM_TOKENS a GPU writes the results of all rows once, in their type, and then adds up those
 * of each token.  It does this for a part of the columns at a time: as many whole tiles as fit into
 * the scratch memory of its stream.  Each part reads the hidden rows again.  With very many rows
 * (more than 65,536 in 16 bits) a part would be narrower than KEPT_PART_COLUMNS; then
 * kept_room.results gives room for that width. */
enum { KEPT_TILE_COLUMNS = 128, KEPT_PART_COLUMNS = 256, KEPT_RESULTS_SCRATCH = 32 << 20 };

/* Columns of a part whose results fit into scratch_bytes; at most D. */
static inline uint32_t kept_part_columns(const struct kept_rows *at, size_t element_bytes,
                                         size_t scratch_bytes)
{
    uint64_t tile = kept_rows_limit(at) * element_bytes * KEPT_TILE_COLUMNS;
    uint64_t columns = tile ? scratch_bytes / tile * KEPT_TILE_COLUMNS : at->width;

    return columns < at->width ? (uint32_t)columns : at->width;
}

/* True where such a part is too narrow, and kept_room.results is needed. */
static inline bool kept_part_is_narrow(const struct kept_rows *at, uint32_t columns)
{
    return columns < at->width && columns < KEPT_PART_COLUMNS;
}

/* Bytes of kept_room.results; 0: it is not needed. */
static inline uint64_t kept_results_bytes(const struct kept_rows *at, size_t element_bytes)
{
    uint32_t columns = kept_part_columns(at, element_bytes, KEPT_RESULTS_SCRATCH);

    return kept_part_is_narrow(at, columns)
               ? kept_rows_limit(at) * element_bytes * KEPT_PART_COLUMNS
               : 0;
}

/* The three products of an esmm. */
enum esmm_form {
    /* pre = x W^T, where x is the row's token.  If post is given: pre += bias, and post = act(pre)
     * as in `activate`, which may use up. */
    ESMM_FORWARD,
    /* sums = sum over a token's rows of gate * (row W + bias), plus keep * sums.  A GPU rounds row
     * W
     * + bias to dtype, as padded experts round their output. */
    ESMM_TOKENS,
    /* u = dy W^T, where dy is the row's token.  grad_gate = <u, post> + <dy, bias>, plus keep *
     * grad_gate; without keep, 0 for a dropped choice.  grad_pre = gate * u * act'(pre), and for
     * SwiGLU grad_up. */
    ESMM_BACKWARD,
};

/* Multiplies each row by the matrix W (H,D) of its expert, or by its transpose. */
struct esmm {
    struct kept_rows at;
    enum esmm_form form;
    uint32_t kind;       /* enum moe_act */
    bool keep;           /* add to the results; for ESMM_TOKENS and ESMM_BACKWARD */
    const void *weights; /* (E,H,D), or with the strides of `at` */
    const void *bias;    /* FORWARD: (E,H); else (E,bias_stride) with D columns; NULL: 0 */
    uint64_t bias_stride;
    const void *tokens; /* (T,D): x or dy.  With ESMM_TOKENS, only esfk uses it */
    const float *gate;  /* (T,k), or NULL: 1 */
    const void *rows;   /* ESMM_TOKENS reads these (N,H) */
    float *sums;        /* ESMM_TOKENS: (T,D) */
    void *pre, *up, *post;
    float *grad_gate;         /* (T,k) */
    void *grad_pre, *grad_up; /* grad_pre may be pre or post, grad_up may be post */
};

/* Computes the gradient of W: grad (E,H,D) = sum over an expert's rows of row times gate * token,
 * plus keep * grad. */
struct estmm {
    struct kept_rows at;
    const void *tokens; /* (T,D) */
    const float *gate;  /* (T,k), or NULL: 1 */
    const void *rows;   /* (N,H) */
    void *grad;
    bool keep;
};

/* Computes the gradient of a bias: grad (E,stride) = sum over an expert's rows, plus keep * grad.
 * Padding columns become 0. */
struct ess {
    struct kept_rows at;
    const void *rows; /* (N,H), or NULL: gate * tokens (T,D) */
    const void *tokens;
    const float *gate; /* (T,k), or NULL: 1 */
    void *grad;
    uint64_t stride;
    bool keep;
};

/* The whole backward pass of one matrix: an esmm, the matrix's gradient and the bias's gradient.
 * With ESMM_BACKWARD, it is estmm of post and gate * dy, and ess of gate * dy.  It reads post
 * before it writes grad_pre and grad_up, so these may use the same memory.  With ESMM_TOKENS, it is
 * estmm of rows and tokens, and ess of rows; gate and bias are NULL. */
struct esfk {
    struct esmm product;
    void *grad;      /* (E,H,D) */
    void *grad_bias; /* (E,grad_stride), or NULL */
    uint64_t grad_stride;
    bool keep; /* add to grad and grad_bias */
};

#endif
