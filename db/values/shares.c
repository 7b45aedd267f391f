/* Divides work among ranks by their speeds: the largest remainder, in integers, so that every rank
 * finds the same shares whatever its processor and compiler. */
#include "moelookup.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

/* A speed is fraction * 2^exponent, and its weight that beside the fastest one's: fractions have 53
 * bits, GUARD_BITS more keep those of ranks that are up to a 512th as fast. */
enum { FRACTION_BITS = 52, GUARD_BITS = 9, WEIGHT_BITS = 64 };
static const uint64_t infinite = (uint64_t)0x7ff << FRACTION_BITS;
/* Below this total no share feels the bits that slower ranks lose. */
static const uint64_t total_most = (uint64_t)1 << 48;

/* What a rank would get if work were divisible at will is whole + rest, and part / sum of all
 * weights. */
struct grain_claim {
    uint64_t whole; /* in whole grains */
    uint64_t rest;  /* less than a grain */
    wide part;
    uint32_t rank;
};

static uint64_t bits_of(double speed)
{
    uint64_t bits;

    memcpy(&bits, &speed, sizeof(bits));
    return bits;
}

static bool speeds_usable(const double *speeds, uint32_t ranks)
{
    for (uint32_t q = 0; q < ranks; q++)
        if (bits_of(speeds[q]) - 1 >= infinite - 1) /* those of what has a sign are larger */
            return false;
    return ranks > 0;
}

/* The smallest numbers have the exponent 0, which means 1, and no leading bit. */
static unsigned exponent_of(double speed)
{
    unsigned exponent = (unsigned)(bits_of(speed) >> FRACTION_BITS);

    return exponent ? exponent : 1;
}

static uint64_t weight_of(double speed, unsigned largest)
{
    uint64_t leading = (uint64_t)1 << FRACTION_BITS, bits = bits_of(speed);
    uint64_t fraction = (bits & (leading - 1)) | (bits >= leading ? leading : 0);
    unsigned shift = largest - exponent_of(speed);

    return shift < WEIGHT_BITS ? fraction << GUARD_BITS >> shift : 0;
}

/* Puts those first who get a grain first. */
static int by_remainder(const void *a, const void *b)
{
    const struct grain_claim *x = a, *y = b;

    if (x->rest != y->rest)
        return x->rest > y->rest ? -1 : 1;
    if (x->part != y->part)
        return x->part > y->part ? -1 : 1;
    return x->rank < y->rank ? -1 : 1;
}

int moe_shares(const double *speeds, uint32_t ranks, uint64_t total, uint64_t grain, uint64_t *out)
{
    struct grain_claim *claims;
    uint64_t left = total;
    wide sum = 0;
    unsigned largest = 0;

    if (!speeds || !out || !grain || total > total_most || !speeds_usable(speeds, ranks))
        return MOE_ERR_ARGUMENT;
    claims = malloc(ranks * sizeof(*claims));
    if (!claims)
        return MOE_ERR_NOMEM;
    for (uint32_t q = 0; q < ranks; q++)
        largest = exponent_of(speeds[q]) > largest ? exponent_of(speeds[q]) : largest;
    for (uint32_t q = 0; q < ranks; q++)
        sum += weight_of(speeds[q], largest);
    for (uint32_t q = 0; q < ranks; q++) {
        wide weight = weight_of(speeds[q], largest), rows = total * weight / sum;
        uint64_t rest = (uint64_t)rows % grain;

        claims[q] = (struct grain_claim){
            .whole = (uint64_t)rows - rest, .rest = rest, .part = total * weight % sum, .rank = q
        };
        left -= claims[q].whole;
    }
    /* All that is left is less than the remainders' sum, and none of these is a whole grain: a
     * piece each is enough. */
    qsort(claims, ranks, sizeof(*claims), by_remainder);
    for (uint32_t i = 0; i < ranks; i++) {
        uint64_t piece = left < grain ? left : grain;

        out[claims[i].rank] = claims[i].whole + piece;
        left -= piece;
    }
    free(claims);
    return MOE_OK;
}
