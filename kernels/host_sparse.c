/* The kernels of experts without padding (sparse.h) on the host.  They gather rows of one expert in
 * blocks that stay in the cache, multiply them, and add the results to their tokens. */
#include "convert.h"
#include "host.h"
#include "rows.h"

#include <assert.h>
#include <string.h>

void host_pack_choices(const struct pack_choices *p)
{
    for (uint64_t i = 0; i < p->choices; i++)
        p->to[i] = (struct sent_choice){ p->slot[i] < 0 ? -1 : p->expert[i], p->gate[i] };
}

void host_recount(const struct recount *r)
{
    memset(r->needed, 0, r->experts * sizeof(*r->needed));
    for (uint32_t j = 0; j < r->top_k; j++)
        for (uint64_t t = 0; t < r->tokens; t++) {
            uint64_t choice = t * r->top_k + j;
            struct sent_choice sent = sent_choice_at(r, choice);
            int32_t expert = sent.expert;
            uint64_t capacity = r->capacities && expert >= 0 ? r->capacities[expert] : r->capacity;

            r->expert[choice] = expert;
            r->gate[choice] = sent.gate;
            r->slot[choice] = expert < 0 ? -1 : r->needed[expert]++;
            if ((r->capacities || r->capacity) && r->slot[choice] >= (int64_t)capacity)
                r->slot[choice] = -1;
        }
}

void host_reindex(const struct reindex *r)
{
    uint64_t choices = (uint64_t)r->tokens * r->top_k;

    r->first[0] = 0;
    for (uint32_t e = 0; e < r->experts; e++) {
        uint64_t needed = (uint64_t)r->needed[e];
        uint64_t capacity = r->capacities ? r->capacities[e] : r->capacity;

        r->first[e + 1] = r->first[e] + (int64_t)(needed < capacity ? needed : capacity);
    }
    for (uint64_t i = 0; i < choices; i++)
        if (r->slot[i] >= 0)
            r->choice[r->first[r->expert[i]] + r->slot[i]] = (int64_t)i;
}

/* A block: `count` rows of one expert, which are computed together. */
struct sparse_block {
    const struct kept_rows *at;
    uint32_t expert;
    uint64_t row, count;
};

/* Goes to the next block; false: there is none.  An expert's blocks have about equal sizes, because
 * a small last block would read all weights for a few rows. */
static bool block_next(struct sparse_block *b)
{
    const int64_t *starts = b->at->first;
    uint64_t left, blocks;

    b->row += b->count;
    while (b->expert < b->at->experts && b->row == (uint64_t)starts[b->expert + 1])
        b->expert++;
    if (b->expert == b->at->experts)
        return false;
    left = (uint64_t)starts[b->expert + 1] - b->row;
    blocks = (left + KEPT_BLOCK_ROWS - 1) / KEPT_BLOCK_ROWS;
    b->count = (left + blocks - 1) / blocks;
    return true;
}

/* Where the matrix of the block's expert begins, in elements. */
static uint64_t matrix_offset(const struct sparse_block *b)
{
    return b->expert * kept_expert_stride(b->at);
}

static float *rows_of(const struct sparse_block *b, const void *rows)
{
    return rows ? (float *)rows + b->row * b->at->hidden : NULL;
}

/* Scratch memory has tokens (rows, D), then hidden units (rows, H). */
static float *scratch_tokens(const struct sparse_block *b, uint64_t i)
{
    return b->at->room.scratch + i * b->at->width;
}

static float *scratch_hidden(const struct sparse_block *b, uint64_t i)
{
    return scratch_tokens(b, KEPT_BLOCK_ROWS) + i * b->at->hidden;
}

static uint64_t choice_of(const struct sparse_block *b, uint64_t i)
{
    return (uint64_t)b->at->choice[b->row + i];
}

CLONES static void scale_row(float factor, float *row, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        row[i] *= factor;
}

static void gather_tokens(const struct sparse_block *b, const void *tokens)
{
    for (uint64_t i = 0; i < b->count; i++)
        row_load(b->at->token_type, tokens, choice_of(b, i) / b->at->top_k * b->at->width,
                 scratch_tokens(b, i), b->at->width);
}

static void scale_by_gates(const struct sparse_block *b, const float *gate)
{
    for (uint64_t i = 0; i < b->count && gate; i++)
        scale_row(gate[choice_of(b, i)], scratch_tokens(b, i), b->at->width);
}

/* Multiplies the gathered tokens by the transpose of the expert's matrix. */
static void multiply_to_hidden(const struct sparse_block *b, const void *weights, float *to)
{
    host_gemm(&(struct gemm){ .transpose_b = true,
                              .batch = 1,
                              .m = b->count,
                              .n = b->at->hidden,
                              .k = b->at->width,
                              .a = b->at->room.scratch,
                              .b = (const float *)weights + matrix_offset(b),
                              .c = to,
                              .row_b = kept_unit_stride(b->at) });
}

/* Computes pre, and post where the call asks for it. */
static void forward_block(const struct esmm *m, const struct sparse_block *b)
{
    float *pre = rows_of(b, m->pre);

    gather_tokens(b, m->tokens);
    multiply_to_hidden(b, m->weights, pre);
    if (m->post)
        host_activate(
            &(struct activate){ .kind = m->kind,
                                .batch = 1,
                                .rows = b->count,
                                .width = b->at->hidden,
                                .bias = (const float *)m->bias + b->expert * m->bias_stride,
                                .pre = pre,
                                .up = rows_of(b, m->up),
                                .post = rows_of(b, m->post) });
}

CLONES static void add_biased(const float *restrict from, const float *restrict bias, float factor,
                              float *restrict to, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        to[i] += factor * (from[i] + bias[i]);
}

/* Multiplies each row by its expert's matrix, and adds the result to the row's token.  Overwrites
 * the gathered tokens. */
static void add_to_tokens(const struct esmm *m, const struct sparse_block *b)
{
    const float *bias = m->bias ? (const float *)m->bias + b->expert * m->bias_stride : NULL;
    uint64_t width = b->at->width;

    host_gemm(&(struct gemm){ .batch = 1,
                              .m = b->count,
                              .n = width,
                              .k = b->at->hidden,
                              .a = rows_of(b, m->rows),
                              .b = (const float *)m->weights + matrix_offset(b),
                              .c = b->at->room.scratch,
                              .row_b = kept_unit_stride(b->at) });
    for (uint64_t i = 0; i < b->count; i++) {
        uint64_t choice = choice_of(b, i);
        float *to = m->sums + choice / b->at->top_k * width;
        float gate = m->gate ? m->gate[choice] : 1;

        if (bias)
            add_biased(scratch_tokens(b, i), bias, gate, to, width);
        else
            row_add(MOE_F32, scratch_tokens(b, i), 0, gate, to, width);
    }
}

CLONES static float dot(const float *restrict x, const float *restrict y, uint64_t n)
{
    enum { LANES = 16 };
    float lane_sum[LANES] = { 0 }, sum = 0;
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (uint64_t j = 0; j < LANES; j++)
            lane_sum[j] += x[i + j] * y[i + j];
    for (; i < n; i++)
        sum += x[i] * y[i];
    for (int j = 0; j < LANES; j++)
        sum += lane_sum[j];
    return sum;
}

/* Adds the gradients of gates, and writes gate * u to scratch memory. */
static void backward_gates(const struct esmm *m, const struct sparse_block *b)
{
    const float *bias = m->bias ? (const float *)m->bias + b->expert * m->bias_stride : NULL;
    const float *post = rows_of(b, m->post);

    multiply_to_hidden(b, m->weights, scratch_hidden(b, 0));
    for (uint64_t i = 0; i < b->count; i++) {
        uint64_t choice = choice_of(b, i), hidden = b->at->hidden;
        float *u = scratch_hidden(b, i);

        m->grad_gate[choice] += dot(u, post + i * hidden, hidden) +
                                (bias ? dot(scratch_tokens(b, i), bias, b->at->width) : 0);
        if (m->gate)
            scale_row(m->gate[choice], u, hidden);
    }
}

/* Writes the gradients of pre and up from what backward_gates() left in scratch memory. */
static void backward_rows(const struct esmm *m, const struct sparse_block *b)
{
    host_activate_backward(&(struct activate_backward){ .kind = m->kind,
                                                        .batch = 1,
                                                        .rows = b->count,
                                                        .width = b->at->hidden,
                                                        .pre = rows_of(b, m->pre),
                                                        .up = rows_of(b, m->up),
                                                        .grad_post = scratch_hidden(b, 0),
                                                        .grad_pre = rows_of(b, m->grad_pre),
                                                        .grad_up = rows_of(b, m->grad_up) });
}

/* Zeroes the results to which rows are added. */
static void clear_results(const struct esmm *m)
{
    size_t tokens = m->at.tokens;

    if (m->form == ESMM_TOKENS && !m->keep)
        memset(m->sums, 0, tokens * m->at.width * sizeof(*m->sums));
    if (m->form == ESMM_BACKWARD && !m->keep)
        memset(m->grad_gate, 0, tokens * m->at.top_k * sizeof(*m->grad_gate));
}

void host_esmm(const struct esmm *m)
{
    struct sparse_block b = { .at = &m->at };

    assert(m->at.dtype == MOE_F32);
    clear_results(m);
    while (block_next(&b))
        switch (m->form) {
        case ESMM_FORWARD: forward_block(m, &b); break;
        case ESMM_TOKENS: add_to_tokens(m, &b); break;
        case ESMM_BACKWARD:
            gather_tokens(&b, m->tokens);
            backward_gates(m, &b);
            backward_rows(m, &b);
        }
}

/* Zeroes the matrices of experts without rows; add_to_matrix() writes the others. */
static void clear_empty_experts(const struct kept_rows *at, void *grad)
{
    for (uint32_t e = 0; e < at->experts; e++) {
        float *matrix = (float *)grad + e * kept_expert_stride(at);

        if (at->first[e] == at->first[e + 1])
            for (uint64_t h = 0; h < at->hidden; h++)
                memset(matrix + h * kept_unit_stride(at), 0, at->width * sizeof(*matrix));
    }
}

/* Adds a block to the gradient of its expert's matrix; without keep, the first block overwrites. */
static void add_to_matrix(const struct sparse_block *b, const void *rows, bool keep, void *grad)
{
    host_gemm(&(struct gemm){ .transpose_a = true,
                              .keep = keep || b->row > (uint64_t)b->at->first[b->expert],
                              .batch = 1,
                              .m = b->at->hidden,
                              .n = b->at->width,
                              .k = b->count,
                              .a = rows_of(b, rows),
                              .b = b->at->room.scratch,
                              .c = (float *)grad + matrix_offset(b),
                              .row_c = kept_unit_stride(b->at) });
}

/* Adds a block's column sums to the gradient of its expert's bias. */
static void add_to_bias(const struct sparse_block *b, const float *rows, uint64_t width,
                        uint64_t stride, void *grad)
{
    host_sum_rows(&(struct sum_rows){ .keep = true,
                                      .batch = 1,
                                      .rows = b->count,
                                      .width = width,
                                      .to_stride = stride,
                                      .from = rows,
                                      .to = (float *)grad + b->expert * stride });
}

void host_estmm(const struct estmm *m)
{
    struct sparse_block b = { .at = &m->at };

    assert(m->at.dtype == MOE_F32);
    if (!m->keep)
        clear_empty_experts(&m->at, m->grad);
    while (block_next(&b)) {
        gather_tokens(&b, m->tokens);
        scale_by_gates(&b, m->gate);
        add_to_matrix(&b, m->rows, m->keep, m->grad);
    }
}

void host_ess(const struct ess *s)
{
    struct sparse_block b = { .at = &s->at };

    assert(s->at.dtype == MOE_F32);
    if (!s->keep)
        memset(s->grad, 0, s->at.experts * s->stride * sizeof(float));
    while (block_next(&b)) {
        if (s->rows) {
            add_to_bias(&b, rows_of(&b, s->rows), s->at.hidden, s->stride, s->grad);
            continue;
        }
        gather_tokens(&b, s->tokens);
        scale_by_gates(&b, s->gate);
        add_to_bias(&b, s->at.room.scratch, s->at.width, s->stride, s->grad);
    }
}

void host_esfk(const struct esfk *f)
{
    const struct esmm *m = &f->product;
    struct sparse_block b = { .at = &m->at };

    assert(m->at.dtype == MOE_F32 && m->form != ESMM_FORWARD);
    clear_results(m);
    if (!f->keep)
        clear_empty_experts(&m->at, f->grad);
    if (f->grad_bias && !f->keep)
        memset(f->grad_bias, 0, m->at.experts * f->grad_stride * sizeof(float));
    while (block_next(&b)) {
        gather_tokens(&b, m->tokens);
        if (m->form == ESMM_BACKWARD) {
            backward_gates(m, &b);
            scale_by_gates(&b, m->gate);
            add_to_matrix(&b, m->post, f->keep, f->grad);
            if (f->grad_bias)
                add_to_bias(&b, m->at.room.scratch, m->at.width, f->grad_stride, f->grad_bias);
            backward_rows(m, &b); /* may overwrite `post` */
        } else {
            add_to_matrix(&b, m->rows, f->keep, f->grad);
            if (f->grad_bias)
                add_to_bias(&b, rows_of(&b, m->rows), m->at.hidden, f->grad_stride, f->grad_bias);
            add_to_tokens(m, &b); /* overwrites the gathered tokens */
        }
    }
}
