/* Divides work among ranks by their speeds, by largest remainders. It computes in integers, so
 * every rank finds the same shares on any processor with any compiler. */
#include "moelookup.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

/* A speed is fraction * 2^exponent; its weight is the speed relative to the fastest rank's.
 * Fractions have 53 bits. GUARD_BITS more keep all bits of ranks down to a 512th of the fastest
 * speed. */
enum { FRACTION_BITS = 52, GUARD_BITS = 9, WEIGHT_BITS = 64 };
static const uint64_t infinity_bits = (uint64_t)0x7ff << FRACTION_BITS;
/* Up to this total the bits that slower ranks lose change no share. */
static const uint64_t largest_total = (uint64_t)1 << 48;

/* One rank's part if work could be divided freely: whole + rest + part / (sum of all weights). */
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
    for (uint32_t rank = 0; rank < ranks; rank++)
        /* False only from the smallest double above 0 to the largest one: 0 - 1 is the largest
         * integer, and infinity, NaN and speeds with a sign have larger bits. */
        if (bits_of(speeds[rank]) - 1 >= infinity_bits - 1)
            return false;
    return ranks > 0;
}

/* Returns the exponent of a speed. The smallest doubles have the exponent field 0, which means 1,
 * and no leading bit. */
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

/* Orders ranks by who gets a grain first. */
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

    if (!speeds || !out || !grain || total > largest_total || !speeds_usable(speeds, ranks))
        return MOE_ERR_ARGUMENT;
    claims = malloc(ranks * sizeof(*claims));
    if (!claims)
        return MOE_ERR_NOMEM;
    for (uint32_t rank = 0; rank < ranks; rank++)
        largest = exponent_of(speeds[rank]) > largest ? exponent_of(speeds[rank]) : largest;
    for (uint32_t rank = 0; rank < ranks; rank++)
        sum += weight_of(speeds[rank], largest);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        wide weight = weight_of(speeds[rank], largest), rows = total * weight / sum;
        uint64_t rest = (uint64_t)rows % grain;

        claims[rank] = (struct grain_claim){
            .whole = (uint64_t)rows - rest, .rest = rest, .part = total * weight % sum, .rank = rank
        };
        left -= claims[rank].whole;
    }
    /* The work left is less than the sum of the remainders, and no remainder is a whole grain. So
     * one piece for each rank is enough. */
    qsort(claims, ranks, sizeof(*claims), by_remainder);
    for (uint32_t i = 0; i < ranks; i++) {
        uint64_t piece = left < grain ? left : grain;

        out[claims[i].rank] = claims[i].whole + piece;
        left -= piece;
    }
    free(claims);
    return MOE_OK;
}
