/* The kernels of experts without padding: they compute the rows that there are, not C of every
 * expert.  Names are those of HEXA-MoE: es, expert-specific, mm and tmm, products, s, sums, fk,
 * fused.
 *
 * A row is a kept choice, and rows are sorted by expert: row i is choice[i] = t k + j, and expert e
 * has rows first[e] to first[e+1]-1, N = first[E] in all.  Only the device knows these numbers: the
 * host enqueues without waiting for them.  Matrices of rows are (N,H); who allocates them takes
 * kept_most().  Tokens are read, and summed up, where they lie, in (T,D).  Every sum is taken in
 * a fixed order, so results do not differ between runs. */
#ifndef SPARSE_H
#define SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPARSE_KERNELS(row)                                                                        \
    row(pack_choices) row(recount) row(reindex) row(esmm) row(estmm) row(ess) row(esfk)

/* A choice as it travels to ranks that do not know its capacity; expert -1: it is dropped. */
struct sent_choice {
    int32_t expert;
    float gate;
};

struct pack_choices {
    uint64_t choices;
    const int32_t *expert; /* as route leaves them */
    const int64_t *slot;
    const float *gate;
    struct sent_choice *to;
};

/* Tokens in groups whose choices lie apart: the first `filled` of `each` have some.  each 0: all
 * lie together. */
struct sent_groups {
    uint64_t each, filled, pitch; /* in bytes, from a group to the next one */
};

/* Choices of tokens from several ranks, taken apart; slots are given anew to all that are kept, in
 * the order of route, whose capacity they have met already. */
struct recount {
    uint32_t tokens, experts, top_k;
    const struct sent_choice *from; /* (T,k) */
    int32_t *expert;                /* (T,k) out; of a dropped one -1, as is its slot */
    float *gate;                    /* (T,k) out */
    int64_t *slot;                  /* (T,k) out */
    int64_t *needed;                /* (E) out */
    struct sent_groups groups;
    uint64_t capacity;          /* who would get a later slot gets none; 0: there is room for all */
    const uint64_t *capacities; /* (E) each expert's own; NULL: `capacity` */
};

#ifdef __CUDACC__
#define BOTH_SIDES __host__ __device__
#else
#define BOTH_SIDES
#endif

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

/* The kept choices sorted by expert, within an expert by slot. */
struct reindex {
    uint32_t tokens, experts, top_k;
    uint64_t capacity;
    const int32_t *expert; /* (T,k), slot and needed: as route leaves them */
    const int64_t *slot;
    const int64_t *needed;
    int64_t *first;             /* (E+1) out */
    int64_t *choice;            /* (N) out */
    const uint64_t *capacities; /* (E) each expert's own; NULL: `capacity` */
};

/* What holds nothing from one kernel to the next, so that all works and layers of a stream share
 * it. */
struct kept_room {
    float *scratch; /* kept_scratch_bytes(); the host's only */
    void *results;  /* kept_results_bytes(); NULL: the scratch memory of a GPU's stream is enough */
};

struct kept_rows {
    uint32_t tokens, experts, top_k;
    uint32_t token_type;    /* of (T,D) where it is read; a GPU's is dtype */
    uint32_t dtype;         /* of weights, biases and rows: the device's compute type */
    uint32_t hidden, width; /* H and D */
    uint64_t capacity;
    const int32_t *expert; /* (T,k), as slot: what reindex sorted */
    const int64_t *slot;
    const int64_t *first, *choice; /* what it made of them */
    struct kept_room room;
    uint64_t expected; /* rows, for a device that only models its work; 0: kept_most() */
    /* Of the matrices and their gradients, from a hidden unit's row of D to the next one's and from
     * an expert's to the next one's.  0: they are (E,H,D). */
    uint64_t unit_stride, expert_stride;
};

static inline uint64_t kept_unit_stride(const struct kept_rows *at)
{
    return at->unit_stride ? at->unit_stride : at->width;
}

static inline uint64_t kept_expert_stride(const struct kept_rows *at)
{
    return at->unit_stride ? at->expert_stride : (uint64_t)at->hidden * at->width;
}

/* As many rows as there can be. */
static inline uint64_t kept_most(const struct kept_rows *at)
{
    uint64_t choices = (uint64_t)at->tokens * at->top_k;
    uint64_t each = at->capacity < at->tokens ? at->capacity : at->tokens;

    return each * at->experts < choices ? each * at->experts : choices;
}

/* The host gathers so many rows of one expert, and multiplies them while they are in its cache. */
enum { KEPT_BLOCK_ROWS = 256 };

static inline size_t kept_scratch_bytes(uint32_t hidden, uint32_t width)
{
    return KEPT_BLOCK_ROWS * ((size_t)hidden + width) * sizeof(float);
}

/* A GPU writes the results of ESMM_TOKENS' rows once, in their type, and then adds up those of each
 * token: of as many columns at a time, whole tiles, as fit into the scratch memory of its stream.
 * Hidden rows are read again for each part, so where rows are so many (more than 65,536, in 16
 * bits) that a part would be narrower than this, they want a room of this width. */
enum { KEPT_TILE_COLUMNS = 128, KEPT_PART_COLUMNS = 256, KEPT_RESULTS_SCRATCH = 32 << 20 };

static inline uint32_t kept_part_columns(const struct kept_rows *at, size_t element_bytes,
                                         size_t scratch_bytes)
{
    uint64_t tile = kept_most(at) * element_bytes * KEPT_TILE_COLUMNS;
    uint64_t columns = tile ? scratch_bytes / tile * KEPT_TILE_COLUMNS : at->width;

    return columns < at->width ? (uint32_t)columns : at->width;
}

static inline bool kept_part_is_narrow(const struct kept_rows *at, uint32_t columns)
{
    return columns < at->width && columns < KEPT_PART_COLUMNS;
}

static inline uint64_t kept_results_bytes(const struct kept_rows *at, size_t element_bytes)
{
    uint32_t columns = kept_part_columns(at, element_bytes, KEPT_RESULTS_SCRATCH);

    return kept_part_is_narrow(at, columns) ? kept_most(at) * element_bytes * KEPT_PART_COLUMNS : 0;
}

enum esmm_form {
    /* pre = x W^T of each row's token x.  If post is given: pre += bias, post = act(pre) as
     * `activate` makes it, up included. */
    ESMM_FORWARD,
    /* sums = sum over a token's rows of gate * (row W + bias), plus keep * sums.  On a GPU row W +
     * bias is rounded to dtype, as an output of padded experts is. */
    ESMM_TOKENS,
    /* With u = dy W^T of each row's token dy: grad_gate = <u, post> + <dy, bias>, 0 of a dropped
     * choice, plus keep * grad_gate; grad_pre = gate * u * act'(pre), and grad_up likewise. */
    ESMM_BACKWARD,
};

/* Each row times the matrix W (H,D) of its expert, or its transpose. */
struct esmm {
    struct kept_rows at;
    enum esmm_form form;
    uint32_t kind;       /* enum moe_act */
    bool keep;           /* ESMM_TOKENS and ESMM_BACKWARD */
    const void *weights; /* (E,H,D), or as `at` says */
    const void *bias;    /* (E,H), else (E,bias_stride) of which D count, or NULL: 0 */
    uint64_t bias_stride;
    const void *tokens; /* (T,D): x or dy.  ESMM_TOKENS: of esfk only */
    const float *gate;  /* (T,k), or NULL: 1 */
    const void *rows;   /* ESMM_TOKENS reads these (N,H) */
    float *sums;        /* ESMM_TOKENS: (T,D) */
    void *pre, *up, *post;
    float *grad_gate;         /* (T,k) */
    void *grad_pre, *grad_up; /* grad_pre may be pre or post, grad_up may be post */
};

/* grad (E,H,D) = sum over an expert's rows of row times gate * token, plus keep * grad: the
 * gradient of W. */
struct estmm {
    struct kept_rows at;
    const void *tokens; /* (T,D) */
    const float *gate;  /* (T,k), or NULL: 1 */
    const void *rows;   /* (N,H) */
    void *grad;
    bool keep;
};

/* grad (E,stride) = sum over an expert's rows, plus keep * grad; padding columns are 0 then. */
struct ess {
    struct kept_rows at;
    const void *rows; /* (N,H), or NULL: gate * tokens (T,D) */
    const void *tokens;
    const float *gate; /* (T,k), or NULL: 1 */
    void *grad;
    uint64_t stride;
    bool keep;
};

/* The backward pass of one matrix: the esmm, its matrix' gradient and its bias' gradient.
 * ESMM_BACKWARD: estmm of post and gate * dy, ess of gate * dy; post is read before grad_pre and
 * grad_up are written, so that the gradients of rows need no memory of their own.
 * ESMM_TOKENS: estmm of rows and tokens, ess of rows; gate and bias are NULL. */
struct esfk {
    struct esmm product;
    void *grad;      /* (E,H,D) */
    void *grad_bias; /* (E,grad_stride), or NULL */
    uint64_t grad_stride;
    bool keep; /* what is in grad and grad_bias */
};

#endif
