/* Loops over one row of elements, compiled for each vector level of the processor. */
#include "rows.h"

#include "convert.h"
#include "moelookup.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

CLONES void row_load(uint32_t type, const void *from, uint64_t offset, float *to, uint64_t n)
{
    const float *f32 = (const float *)from + offset;
    const uint16_t *bits16 = (const uint16_t *)from + offset;

    switch (type) {
    case MOE_F32: memcpy(to, f32, n * sizeof(*f32)); break;
    case MOE_BF16:
        for (uint64_t i = 0; i < n; i++)
            to[i] = from_bf16(bits16[i]);
        break;
    default:
        for (uint64_t i = 0; i < n; i++)
            to[i] = from_f16(bits16[i]);
    }
}

CLONES void row_store(uint32_t type, void *to, uint64_t offset, const float *from, uint64_t n)
{
    float *f32 = (float *)to + offset;
    uint16_t *bits16 = (uint16_t *)to + offset;

    switch (type) {
    case MOE_F32: memcpy(f32, from, n * sizeof(*f32)); break;
    case MOE_BF16:
        for (uint64_t i = 0; i < n; i++)
            bits16[i] = to_bf16(from[i]);
        break;
    default:
        for (uint64_t i = 0; i < n; i++)
            bits16[i] = to_f16(from[i]);
    }
}

CLONES void row_add(uint32_t type, const void *from, uint64_t offset, float scale, float *to,
                    uint64_t n)
{
    const float *f32 = (const float *)from + offset;
    const uint16_t *bits16 = (const uint16_t *)from + offset;

    switch (type) {
    case MOE_F32:
        for (uint64_t i = 0; i < n; i++)
            to[i] += scale * f32[i];
        break;
    case MOE_BF16:
        for (uint64_t i = 0; i < n; i++)
            to[i] += scale * from_bf16(bits16[i]);
        break;
    default:
        for (uint64_t i = 0; i < n; i++)
            to[i] += scale * from_f16(bits16[i]);
    }
}

void row_copy(void *to, const void *from, size_t bytes, bool bypass)
{
#ifdef __SSE2__
    if (bypass && bytes % 64 == 0 && (uintptr_t)to % 16 == 0) {
        const __m128i *source = from;
        __m128i *target = to;

        for (size_t i = 0; i < bytes / 16; i += 4) {
            __m128i a = _mm_loadu_si128(source + i), b = _mm_loadu_si128(source + i + 1);
            __m128i c = _mm_loadu_si128(source + i + 2), d = _mm_loadu_si128(source + i + 3);

            _mm_stream_si128(target + i, a);
            _mm_stream_si128(target + i + 1, b);
            _mm_stream_si128(target + i + 2, c);
            _mm_stream_si128(target + i + 3, d);
        }
        return;
    }
#else
    (void)bypass;
#endif
    memcpy(to, from, bytes);
}

void row_fence(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

#define ROW_f32(h) (h)
#define F32_ROW(f) (f)

/* Sums of one and of two terms in one pass, since most layers send a token to two experts. */
#define COMBINE(type, element, load, store)                                                        \
    CLONES static void one_##type(const element *restrict a, float scale,                          \
                                  const float *restrict add, element *restrict to, uint64_t n)     \
    {                                                                                              \
        if (add)                                                                                   \
            for (uint64_t i = 0; i < n; i++)                                                       \
                to[i] = store(add[i] + scale * load(a[i]));                                        \
        else                                                                                       \
            for (uint64_t i = 0; i < n; i++)                                                       \
                to[i] = store(scale * load(a[i]));                                                 \
    }                                                                                              \
    CLONES static void two_##type(const element *restrict a, const element *restrict b,            \
                                  const float *scale, const float *restrict add,                   \
                                  element *restrict to, uint64_t n)                                \
    {                                                                                              \
        float s = scale[0], t = scale[1];                                                          \
                                                                                                   \
        if (add)                                                                                   \
            for (uint64_t i = 0; i < n; i++)                                                       \
                to[i] = store(add[i] + s * load(a[i]) + t * load(b[i]));                           \
        else                                                                                       \
            for (uint64_t i = 0; i < n; i++)                                                       \
                to[i] = store(s * load(a[i]) + t * load(b[i]));                                    \
    }                                                                                              \
    static void combine_##type(const void *const *rows, const float *scale, uint32_t terms,        \
                               const float *add, void *to, uint64_t at, uint64_t n)                \
    {                                                                                              \
        const element *a = (const element *)rows[0] + at;                                          \
                                                                                                   \
        if (terms == 1)                                                                            \
            one_##type(a, scale[0], add, to, n);                                                   \
        else                                                                                       \
            two_##type(a, (const element *)rows[1] + at, scale, add, to, n);                       \
    }
COMBINE(f32, float, ROW_f32, F32_ROW)
COMBINE(bf16_single, uint16_t, from_bf16, to_bf16)
COMBINE(f16, uint16_t, from_f16, to_f16)
#undef COMBINE

/* bf16 elements two at a time: as halves of 32-bit words they need no shuffles between vector
 * lanes. */
typedef uint32_t __attribute__((may_alias)) bf16_pair;

static inline float low_bf16(uint32_t pair)
{
    return bits_float(pair << 16);
}

static inline float high_bf16(uint32_t pair)
{
    return bits_float(pair & 0xffff0000);
}

static inline uint32_t round_bf16(float f) /* the result is the upper half */
{
    uint32_t u = float_bits(f), rounded = u + 0x7fff + ((u >> 16) & 1), quiet = u | 0x400000;

    return (u & 0x7fffffff) > 0x7f800000 ? quiet : rounded;
}

static inline uint32_t pair_bf16(float low, float high)
{
    return round_bf16(low) >> 16 | (round_bf16(high) & 0xffff0000);
}

CLONES static void pairs_one(const bf16_pair *restrict a, float s, const float *restrict add,
                             bf16_pair *restrict to, uint64_t n)
{
    if (add)
        for (uint64_t i = 0; i < n; i++)
            to[i] =
                pair_bf16(add[2 * i] + s * low_bf16(a[i]), add[2 * i + 1] + s * high_bf16(a[i]));
    else
        for (uint64_t i = 0; i < n; i++)
            to[i] = pair_bf16(s * low_bf16(a[i]), s * high_bf16(a[i]));
}

CLONES static void pairs_two(const bf16_pair *restrict a, const bf16_pair *restrict b,
                             const float *scale, const float *restrict add, bf16_pair *restrict to,
                             uint64_t n)
{
    float s = scale[0], t = scale[1];

    if (add)
        for (uint64_t i = 0; i < n; i++)
            to[i] = pair_bf16(add[2 * i] + s * low_bf16(a[i]) + t * low_bf16(b[i]),
                              add[2 * i + 1] + s * high_bf16(a[i]) + t * high_bf16(b[i]));
    else
        for (uint64_t i = 0; i < n; i++)
            to[i] = pair_bf16(s * low_bf16(a[i]) + t * low_bf16(b[i]),
                              s * high_bf16(a[i]) + t * high_bf16(b[i]));
}

static bool is_pair_aligned(const void *address)
{
    return (uintptr_t)address % sizeof(bf16_pair) == 0;
}

static void combine_bf16(const void *const *rows, const float *scale, uint32_t terms,
                         const float *add, void *to, uint64_t column, uint64_t n)
{
    const uint16_t *a = (const uint16_t *)rows[0] + column;
    const uint16_t *b = (const uint16_t *)rows[terms - 1] + column;
    bool aligned = is_pair_aligned(a) && is_pair_aligned(b) && is_pair_aligned(to);

    if (n % 2 || !aligned || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
        combine_bf16_single(rows, scale, terms, add, to, column, n);
    else if (terms == 1)
        pairs_one((const bf16_pair *)a, scale[0], add, to, n / 2);
    else
        pairs_two((const bf16_pair *)a, (const bf16_pair *)b, scale, add, to, n / 2);
}

static void combine_any(uint32_t type, const void *const *rows, const float *scale, uint32_t terms,
                        const float *add, void *to, uint64_t column, uint64_t n)
{
    float line[ROW_LINE];

    for (uint64_t i = 0; i < n; i++)
        line[i] = add ? add[i] : 0;
    for (uint32_t j = 0; j < terms; j++)
        row_add(type, rows[j], column, scale[j], line, n);
    row_store(type, to, 0, line, n);
}

/* Asks the cache for these bytes of each row. */
static void prefetch_rows(const void *const *rows, uint32_t terms, size_t from_bytes,
                          size_t to_bytes)
{
    for (uint32_t j = 0; j < terms; j++)
        for (size_t offset = from_bytes; offset < to_bytes; offset += 64)
            __builtin_prefetch((const char *)rows[j] + offset);
}

/* Sums columns column .. column+n-1 of the terms into `to`. */
static void combine_block(uint32_t type, const struct row_terms *terms, const float *add, void *to,
                          uint64_t column, uint64_t n)
{
    const void *const *rows = terms->rows;
    const float *scale = terms->scale;

    if (terms->count == 0 || terms->count > 2)
        combine_any(type, rows, scale, terms->count, add, to, column, n);
    else if (type == MOE_F32)
        combine_f32(rows, scale, terms->count, add, to, column, n);
    else if (type == MOE_BF16)
        combine_bf16(rows, scale, terms->count, add, to, column, n);
    else
        combine_f16(rows, scale, terms->count, add, to, column, n);
}

void row_combine(uint32_t type, const struct row_terms *now, const struct row_terms *next,
                 const float *add, void *to, uint64_t width, bool bypass)
{
    enum { BLOCK = 256 };
    size_t element_bytes = type == MOE_F32 ? 4 : 2;
    _Alignas(64) float block[BLOCK];

    for (uint64_t column = 0; column < width; column += BLOCK) {
        uint64_t n = width - column < BLOCK ? width - column : BLOCK;
        const float *add_block = add ? add + column : NULL;

        prefetch_rows(next->rows, next->count, column * element_bytes,
                      (column + n) * element_bytes);
        if (!bypass) {
            combine_block(type, now, add_block, (char *)to + column * element_bytes, column, n);
            continue;
        }
        combine_block(type, now, add_block, block, column, n);
        row_copy((char *)to + column * element_bytes, block, n * element_bytes, true);
    }
}
