/* Loops over one row, compiled for each vector level. */
#include "rows.h"

#include "convert.h"
#include "moelookup.h"

CLONES void row_load(uint32_t type, const void *from, uint64_t at, float *to, uint64_t n)
{
    const float *f = (const float *)from + at;
    const uint16_t *h = (const uint16_t *)from + at;

    switch (type) {
    case MOE_F32: memcpy(to, f, n * sizeof(*f)); break;
    case MOE_BF16:
        for (uint64_t i = 0; i < n; i++)
            to[i] = from_bf16(h[i]);
        break;
    default:
        for (uint64_t i = 0; i < n; i++)
            to[i] = from_f16(h[i]);
    }
}

CLONES void row_store(uint32_t type, void *to, uint64_t at, const float *from, uint64_t n)
{
    float *f = (float *)to + at;
    uint16_t *h = (uint16_t *)to + at;

    switch (type) {
    case MOE_F32: memcpy(f, from, n * sizeof(*f)); break;
    case MOE_BF16:
        for (uint64_t i = 0; i < n; i++)
            h[i] = to_bf16(from[i]);
        break;
    default:
        for (uint64_t i = 0; i < n; i++)
            h[i] = to_f16(from[i]);
    }
}

CLONES void row_add(uint32_t type, const void *from, uint64_t at, float scale, float *to,
                    uint64_t n)
{
    const float *f = (const float *)from + at;
    const uint16_t *h = (const uint16_t *)from + at;

    switch (type) {
    case MOE_F32:
        for (uint64_t i = 0; i < n; i++)
            to[i] += scale * f[i];
        break;
    case MOE_BF16:
        for (uint64_t i = 0; i < n; i++)
            to[i] += scale * from_bf16(h[i]);
        break;
    default:
        for (uint64_t i = 0; i < n; i++)
            to[i] += scale * from_f16(h[i]);
    }
}
