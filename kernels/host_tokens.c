/* The kernels that move tokens to rows of experts and back, on the host: encode, decode, their
 * gradients, and the matrices of the baseline `dense`. */
#include "convert.h"
#include "host.h"
#include "rows.h"
#include "shape.h"

#include <string.h>

/* Where the rows of an expert begin. */
static inline uint64_t first_row_of(const struct routing *r, uint64_t expert)
{
    return r->first ? r->first[expert] : expert * r->rows;
}

/* Finds the row of a choice in (E,C,D), in elements; false if the choice was dropped. */
static inline bool row_of(const struct routing *r, uint64_t choice, uint64_t *row)
{
    int64_t slot = r->slot[choice];

    if (slot >= 0)
        *row = (first_row_of(r, (uint64_t)r->expert[choice]) + (uint64_t)slot) * r->width;
    return slot >= 0;
}

/* Zeroes the rows without a choice. */
static void clear_unfilled(const struct routing *r, size_t row_bytes, void *to)
{
    for (uint64_t e = 0; e < r->experts; e++) {
        uint64_t needed = (uint64_t)r->needed[e], row0 = first_row_of(r, e);
        uint64_t rows = first_row_of(r, e + 1) - row0;
        uint64_t capacity = r->capacities ? r->capacities[e] : r->capacity;
        uint64_t filled = needed < capacity ? needed : capacity;

        if (rows > filled)
            memset((char *)to + (row0 + filled) * row_bytes, 0, (rows - filled) * row_bytes);
    }
}

void host_encode(const struct encode *e)
{
    const struct routing *r = &e->routing;
    size_t row_bytes = r->width * dtype_bytes(e->dtype);
    bool bypass = row_bypass((uint64_t)r->tokens * r->top_k * row_bytes);

    for (uint64_t t = 0; t < r->tokens; t++)
        for (uint32_t j = 0; j < r->top_k; j++) {
            uint64_t row;

            if (row_of(r, t * r->top_k + j, &row))
                row_copy((char *)e->to + row / r->width * row_bytes,
                         (const char *)e->from + t * row_bytes, row_bytes, bypass);
        }
    if (bypass)
        row_fence();
    clear_unfilled(r, row_bytes, e->to);
}

/* Finds the rows of token t's kept choices, among choices choice0 to choice0 + ROW_TERMS - 1. */
static void find_kept_rows(const struct routing *r, uint32_t type, const float *gate,
                           const void *from, uint64_t t, uint32_t choice0, struct row_terms *kept)
{
    kept->count = 0;
    for (uint32_t j = choice0; t < r->tokens && j < r->top_k && j < choice0 + ROW_TERMS; j++) {
        uint64_t choice = t * r->top_k + j, row;

        if (!row_of(r, choice, &row))
            continue;
        kept->rows[kept->count] = (const char *)from + row * dtype_bytes(type);
        kept->scale[kept->count++] = gate ? gate[choice] : 1.0f;
    }
}

/* Combines more choices than fit into one pass, through lines in f32. */
static void combine_many(const struct routing *r, uint32_t type, const float *gate,
                         const void *from, const float *add, void *to, uint64_t t)
{
    float line[ROW_LINE];

    for (uint64_t column = 0; column < r->width; column += ROW_LINE) {
        uint64_t n = r->width - column < ROW_LINE ? r->width - column : ROW_LINE;

        for (uint64_t i = 0; i < n; i++)
            line[i] = add ? add[t * r->width + column + i] : 0;
        for (uint32_t choice0 = 0; choice0 < r->top_k; choice0 += ROW_TERMS) {
            struct row_terms kept;

            find_kept_rows(r, type, gate, from, t, choice0, &kept);
            for (uint32_t j = 0; j < kept.count; j++)
                row_add(type, kept.rows[j], column, kept.scale[j], line, n);
        }
        row_store(type, to, t * r->width + column, line, n);
    }
}

/* Writes each token's row: the sum over its kept choices, weighted by gate (NULL: 1), plus add
 * (NULL: 0). */
static void combine_tokens(const struct routing *r, uint32_t type, const float *gate,
                           const void *from, const float *add, void *to)
{
    struct row_terms kept[2];
    size_t row_bytes = r->width * dtype_bytes(type);
    bool bypass = row_bypass(r->tokens * row_bytes);

    find_kept_rows(r, type, gate, from, 0, 0, &kept[0]);
    for (uint64_t t = 0; t < r->tokens; t++) {
        const struct row_terms *now = &kept[t % 2];
        struct row_terms *next = &kept[(t + 1) % 2];

        if (r->top_k > ROW_TERMS) {
            combine_many(r, type, gate, from, add, to, t);
            continue;
        }
        find_kept_rows(r, type, gate, from, t + 1, 0, next);
        row_combine(type, now, next, add ? add + t * r->width : NULL, (char *)to + t * row_bytes,
                    r->width, bypass);
    }
    if (bypass)
        row_fence();
}

void host_decode(const struct decode *d)
{
    combine_tokens(&d->routing, d->dtype, d->gate, d->from, NULL, d->to);
}

void host_encode_backward(const struct encode_backward *e)
{
    combine_tokens(&e->routing, e->dtype, NULL, e->from, e->add, e->to);
}

/* Writes to = scale * grad, and returns the dot product of grad and result, in one pass. */
CLONES static float scale_and_dot(const float *restrict grad, const float *restrict result,
                                  float scale, float *restrict to, uint64_t n)
{
    enum { LANES = 16 };
    float lane_sum[LANES] = { 0 };
    float sum = 0;
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            lane_sum[j] += grad[i + (uint64_t)j] * result[i + (uint64_t)j];
            to[i + (uint64_t)j] = scale * grad[i + (uint64_t)j];
        }
    for (; i < n; i++) {
        sum += grad[i] * result[i];
        to[i] = scale * grad[i];
    }
    for (int j = 0; j < LANES; j++)
        sum += lane_sum[j];
    return sum;
}

static float decode_backward_row(const struct decode_backward *d, uint64_t t, uint64_t row,
                                 float scale)
{
    const struct routing *r = &d->routing;
    float grad[ROW_LINE], result[ROW_LINE], scaled[ROW_LINE], dot = 0;

    if (d->dtype == MOE_F32)
        return scale_and_dot((const float *)d->grad + t * r->width, (const float *)d->result + row,
                             scale, (float *)d->to + row, r->width);
    for (uint64_t column = 0; column < r->width; column += ROW_LINE) {
        uint64_t n = r->width - column < ROW_LINE ? r->width - column : ROW_LINE;

        row_load(d->dtype, d->grad, t * r->width + column, grad, n);
        row_load(d->dtype, d->result, row + column, result, n);
        dot += scale_and_dot(grad, result, scale, scaled, n);
        row_store(d->dtype, d->to, row + column, scaled, n);
    }
    return dot;
}

void host_decode_backward(const struct decode_backward *d)
{
    const struct routing *r = &d->routing;

    for (uint64_t t = 0; t < r->tokens; t++)
        for (uint32_t j = 0; j < r->top_k; j++) {
            uint64_t choice = t * r->top_k + j, row;

            d->grad_gate[choice] =
                row_of(r, choice, &row) ? decode_backward_row(d, t, row, d->gate[choice]) : 0;
        }
    clear_unfilled(r, r->width * dtype_bytes(d->dtype), d->to);
}

void host_one_hot(const struct one_hot *o)
{
    memset(o->to, 0, o->tokens * o->columns * sizeof(*o->to));
    for (uint64_t t = 0; t < o->tokens; t++) {
        uint64_t choice = t * o->top_k + o->choice;
        int64_t slot = o->slot[choice];

        if (slot >= 0)
            o->to[t * o->columns + (uint64_t)(o->by_slot ? slot : o->expert[choice])] =
                o->scale ? o->scale[choice] : 1;
    }
}

void host_one_hot_backward(const struct one_hot_backward *o)
{
    for (uint64_t t = 0; t < o->tokens; t++) {
        uint64_t choice = t * o->top_k + o->choice;

        o->grad_scale[choice] =
            o->slot[choice] < 0 ? 0 : o->grad[t * o->columns + (uint64_t)o->expert[choice]];
    }
}

void host_nonzero(const struct nonzero *z)
{
    for (uint64_t offset = 0; offset < z->count; offset += ROW_LINE) {
        uint64_t n = z->count - offset < ROW_LINE ? z->count - offset : ROW_LINE;
        float line[ROW_LINE];

        for (uint64_t i = 0; i < n; i++)
            line[i] = z->from[offset + i] != 0;
        row_store(z->dtype, z->to, offset, line, n);
    }
}
