/* Random numbers that depend only on (key, index), so any rank can make any other rank's data. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

static inline uint64_t random_bits(uint64_t key, uint64_t index)
{
    /* splitmix64's finaliser over a Weyl sequence: every index is independent of the others. */
    uint64_t z = key * 0xd1342543de82ef95u + (index + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns a number that is uniform in [-1, 1), exact in 24 bits. */
static inline float random_unit(uint64_t key, uint64_t index)
{
    return (float)(int32_t)(random_bits(key, index) >> 40) * 0x1p-23f - 1.0f;
}

/* Returns a number that is uniform in [0, n). */
static inline uint32_t random_below(uint64_t key, uint64_t index, uint32_t n)
{
    return (uint32_t)(((random_bits(key, index) >> 32) * n) >> 32);
}

#endif
