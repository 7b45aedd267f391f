/* Random numbers that depend only on (key, index), so any rank can make any other rank's data. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

/* Returns 64 random bits, always the same ones for the same key and index. Other indices give
 * independent bits.
 *
 * The last three statements are the finaliser of splitmix64. 0x9e3779b97f4a7c15 is 2^64 divided by
 * the golden ratio, as in splitmix64. 0xd1342543de82ef95 is a multiplier from Steele and Vigna,
 * "Computationally easy, spectrally good multipliers". */
static inline uint64_t random_bits(uint64_t key, uint64_t index)
{
    uint64_t z = key * 0xd1342543de82ef95u + (index + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns one of 2^24 evenly spaced numbers in [-1, 1). A float holds each of them exactly. */
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
