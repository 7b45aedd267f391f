/* Conversions between storage types (f16, bf16) and f32.  They have no branches, so that compilers
 * can vectorise loops over them. */
#ifndef CONVERT_H
#define CONVERT_H

#include <stdint.h>
#include <string.h>

/* Compiles a function three times, for plain x86-64, AVX2 and AVX-512; the loader chooses one.  Not
 * with sanitizers, whose runtime is not ready when the loader chooses. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) &&                            \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

static inline uint32_t float_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

static inline float bits_float(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof(f));
    return f;
}

static inline float from_bf16(uint16_t h)
{
    return bits_float((uint32_t)h << 16);
}

static inline uint16_t to_bf16(float f)
{
    uint32_t u = float_bits(f);
    uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16; /* to nearest, ties to even */
    uint32_t quiet = (u >> 16) | 0x40;

    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

static inline float from_f16(uint16_t h)
{
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
    /* After the shift the exponent is 112 too small.  The multiplication corrects it and also
     * normalises subnormal numbers. */
    uint32_t finite = float_bits(bits_float(magnitude) * 0x1p112f);
    uint32_t special = magnitude | 0x7f800000;
    uint32_t u = (h & 0x7c00) == 0x7c00 ? special : finite;

    return bits_float(u | (uint32_t)(h & 0x8000) << 16);
}

static inline uint16_t to_f16(float f)
{
    uint32_t u = float_bits(f), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
    uint32_t normal = (a + 0xc8000fff + ((a >> 13) & 1)) >> 13;
    /* Adding 0.5 makes the adder round a subnormal f16 at the right bit. */
    uint32_t subnormal = float_bits(bits_float(a) + 0.5f) - 0x3f000000;
    uint32_t special = a > 0x7f800000 ? 0x7e00 : 0x7c00;
    uint32_t h = a < 0x38800000 ? subnormal : normal;

    return (uint16_t)(sign | (a >= 0x47800000 ? special : h));
}

#endif
