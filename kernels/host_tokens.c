/* Where tokens go and come back on the host: gate, slots, encode, decode and their backwards. */
#include "convert.h"
#include "host.h"
#include "rows.h"
#include "shape.h"

#include <math.h>
#include <string.h>

static void softmax(float *row, uint32_t n)
{
    float most = row[0], sum = 0;

    for (uint32_t i = 1; i < n; i++)
        most = row[i] > most ? row[i] : most;
    for (uint32_t i = 0; i < n; i++) {
        row[i] = expf(row[i] - most);
        sum += row[i];
    }
    for (uint32_t i = 0; i < n; i++)
        row[i] /= sum;
}

/* The k largest, in descending order; on logits, since probabilities may round to ties. */
static void choose(const float *logits, uint32_t n, uint32_t k, int32_t *expert)
{
    for (uint32_t j = 0; j < k; j++) {
        int32_t best = -1;

        for (uint32_t e = 0; e < n; e++) {
            bool taken = false;

            for (uint32_t i = 0; i < j; i++)
                taken |= expert[i] == (int32_t)e;
            if (!taken && (best < 0 || logits[e] > logits[best]))
                best = (int32_t)e;
        }
        expert[j] = best;
    }
}

static void weigh(const float *probability, const int32_t *expert, uint32_t k, float *gate)
{
    float sum = 0;

    for (uint32_t j = 0; j < k; j++)
        sum += probability[expert[j]];
    for (uint32_t j = 0; j < k; j++)
        gate[j] = k > 1 ? probability[expert[j]] / sum : probability[expert[j]];
}

void host_route(const struct route *r)
{
    uint32_t k = r->top_k;

    memset(r->needed, 0, r->experts * sizeof(*r->needed));
    for (uint64_t t = 0; t < r->tokens; t++) {
        choose(r->logits + t * r->experts, r->experts, k, r->expert + t * k);
        softmax(r->logits + t * r->experts, r->experts);
        weigh(r->logits + t * r->experts, r->expert + t * k, k, r->gate + t * k);
    }
    for (uint32_t j = 0; j < k; j++)
        for (uint64_t t = 0; t < r->tokens; t++) {
            int64_t slot = r->needed[r->expert[t * k + j]]++;

            r->slot[t * k + j] = (uint64_t)slot < r->capacity ? slot : -1;
        }
}

static void route_backward_token(const struct route_backward *r, uint64_t t)
{
    const float *gate = r->gate + t * r->top_k, *grad = r->grad_gate + t * r->top_k;
    const int32_t *expert = r->expert + t * r->top_k;
    float *to = r->grad_logits + t * r->experts;
    float dot = 0;

    for (uint32_t j = 0; j < r->top_k; j++)
        dot += gate[j] * grad[j];
    if (r->top_k == 1) {
        for (uint32_t e = 0; e < r->experts; e++)
            to[e] = -r->probability[t * r->experts + e] * dot;
        to[expert[0]] += dot;
        return;
    }
    /* Normalised over the chosen, the gate is a softmax of the chosen logits alone. */
    memset(to, 0, r->experts * sizeof(*to));
    for (uint32_t j = 0; j < r->top_k; j++)
        to[expert[j]] = gate[j] * (grad[j] - dot);
}

void host_route_backward(const struct route_backward *r)
{
    for (uint64_t t = 0; t < r->tokens; t++)
        route_backward_token(r, t);
}

/* The row of choice (t,j) in (E,C,D), in elements; false if it was dropped. */
static inline bool row_of(const struct routing *r, uint64_t choice, uint64_t *row)
{
    int64_t slot = r->slot[choice];

    *row = ((uint64_t)r->expert[choice] * r->rows + (uint64_t)slot) * r->width;
    return slot >= 0;
}

static void clear_unfilled(const struct routing *r, size_t row_bytes, void *to)
{
    for (uint64_t e = 0; e < r->experts; e++) {
        uint64_t needed = (uint64_t)r->needed[e];
        uint64_t filled = needed < r->capacity ? needed : r->capacity;

        if (r->rows > filled)
            memset((char *)to + (e * r->rows + filled) * row_bytes, 0,
                   (r->rows - filled) * row_bytes);
    }
}

void host_encode(const struct encode *e)
{
    const struct routing *r = &e->routing;
    size_t bytes = r->width * dtype_bytes(e->dtype);
    bool bypass = row_bypass((uint64_t)r->tokens * r->top_k * bytes);

    for (uint64_t t = 0; t < r->tokens; t++)
        for (uint32_t j = 0; j < r->top_k; j++) {
            uint64_t row;

            if (row_of(r, t * r->top_k + j, &row))
                row_copy((char *)e->to + row / r->width * bytes, (const char *)e->from + t * bytes,
                         bytes, bypass);
        }
    if (bypass)
        row_fence();
    clear_unfilled(r, bytes, e->to);
}

/* The rows of a token's kept choices among first .. first+ROW_TERMS-1. */
static void keep(const struct routing *r, uint32_t type, const float *gate, const void *from,
                 uint64_t t, uint32_t first, struct row_terms *kept)
{
    kept->count = 0;
    for (uint32_t j = first; t < r->tokens && j < r->top_k && j < first + ROW_TERMS; j++) {
        uint64_t choice = t * r->top_k + j, row;

        if (!row_of(r, choice, &row))
            continue;
        kept->rows[kept->count] = (const char *)from + row * dtype_bytes(type);
        kept->scale[kept->count++] = gate ? gate[choice] : 1.0f;
    }
}

/* More choices than fit one pass: all of them through f32 lines. */
static void combine_many(const struct routing *r, uint32_t type, const float *gate,
                         const void *from, const float *add, void *to, uint64_t t)
{
    float line[ROW_LINE];

    for (uint64_t at = 0; at < r->width; at += ROW_LINE) {
        uint64_t n = r->width - at < ROW_LINE ? r->width - at : ROW_LINE;

        for (uint64_t i = 0; i < n; i++)
            line[i] = add ? add[t * r->width + at + i] : 0;
        for (uint32_t first = 0; first < r->top_k; first += ROW_TERMS) {
            struct row_terms kept;

            keep(r, type, gate, from, t, first, &kept);
            for (uint32_t j = 0; j < kept.count; j++)
                row_add(type, kept.rows[j], at, kept.scale[j], line, n);
        }
        row_store(type, to, t * r->width + at, line, n);
    }
}

/* Each token's row = sum over its kept choices, weighted by gate (NULL: 1), plus add (NULL: 0). */
static void combine(const struct routing *r, uint32_t type, const float *gate, const void *from,
                    const float *add, void *to)
{
    struct row_terms kept[2];
    size_t bytes = r->width * dtype_bytes(type);
    bool bypass = row_bypass(r->tokens * bytes);

    keep(r, type, gate, from, 0, 0, &kept[0]);
    for (uint64_t t = 0; t < r->tokens; t++) {
        const struct row_terms *now = &kept[t % 2];
        struct row_terms *next = &kept[(t + 1) % 2];

        if (r->top_k > ROW_TERMS) {
            combine_many(r, type, gate, from, add, to, t);
            continue;
        }
        keep(r, type, gate, from, t + 1, 0, next);
        row_combine(type, now, next, add ? add + t * r->width : NULL, (char *)to + t * bytes,
                    r->width, bypass);
    }
    if (bypass)
        row_fence();
}

void host_decode(const struct decode *d)
{
    combine(&d->routing, d->dtype, d->gate, d->from, NULL, d->to);
}

void host_encode_backward(const struct encode_backward *e)
{
    combine(&e->routing, e->dtype, NULL, e->from, e->add, e->to);
}

/* to = scale * grad, and returns grad . result: one pass over both. */
CLONES static float scale_and_dot(const float *restrict grad, const float *restrict result,
                                  float scale, float *restrict to, uint64_t n)
{
    float part[16] = { 0 };
    float sum = 0;
    uint64_t i = 0;

    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) {
            part[j] += grad[i + (uint64_t)j] * result[i + (uint64_t)j];
            to[i + (uint64_t)j] = scale * grad[i + (uint64_t)j];
        }
    for (; i < n; i++) {
        sum += grad[i] * result[i];
        to[i] = scale * grad[i];
    }
    for (int j = 0; j < 16; j++)
        sum += part[j];
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
    for (uint64_t at = 0; at < r->width; at += ROW_LINE) {
        uint64_t n = r->width - at < ROW_LINE ? r->width - at : ROW_LINE;

        row_load(d->dtype, d->grad, t * r->width + at, grad, n);
        row_load(d->dtype, d->result, row + at, result, n);
        dot += scale_and_dot(grad, result, scale, scaled, n);
        row_store(d->dtype, d->to, row + at, scaled, n);
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
