/* SHA-256 (FIPS 180-4). Uses the processor's instructions for it, where there are any. */
#include "sha256.h"

#include <string.h>

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* One step of the compression. The eight words of the state would move by one place at every step;
 * instead n moves their names. t1 is T1 of FIPS 180-4. */
static inline void step(uint32_t s[8], unsigned n, uint32_t word)
{
    uint32_t a = s[-n & 7], b = s[(1 - n) & 7], c = s[(2 - n) & 7];
    uint32_t e = s[(4 - n) & 7], f = s[(5 - n) & 7], g = s[(6 - n) & 7];
    uint32_t t1 =
        s[(7 - n) & 7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + word;

    s[(3 - n) & 7] += t1;
    s[(7 - n) & 7] = t1 + (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
}

static void absorb_one(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64], s[8];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];

        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof(s));
    for (int i = 0; i < 64; i += 8) {
        step(s, 0, constants[i] + w[i]);
        step(s, 1, constants[i + 1] + w[i + 1]);
        step(s, 2, constants[i + 2] + w[i + 2]);
        step(s, 3, constants[i + 3] + w[i + 3]);
        step(s, 4, constants[i + 4] + w[i + 4]);
        step(s, 5, constants[i + 5] + w[i + 5]);
        step(s, 6, constants[i + 6] + w[i + 6]);
        step(s, 7, constants[i + 7] + w[i + 7]);
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

static void absorb_plain(uint32_t state[8], const uint8_t *block, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++)
        absorb_one(state, block + 64 * i);
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

/* Returns four words of the schedule, from the sixteen before them, oldest first. */
__attribute__((target("sha,sse4.1"))) static inline __m128i schedule(__m128i w0, __m128i w1,
                                                                     __m128i w2, __m128i w3)
{
    __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));

    return _mm_sha256msg2_epu32(sum, w3);
}

/* Each instruction does two steps. The processor wants the state in two halves, ABEF and CDGH. */
__attribute__((target("sha,sse4.1"))) static void absorb_fast(uint32_t state[8],
                                                              const uint8_t *block, size_t blocks)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
    __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);

    for (; blocks; blocks--, block += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];

        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(block + 16 * i)), big_endian);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            const __m128i k = _mm_loadu_si128((const __m128i *)(constants + 4 * i));
            const __m128i sum = _mm_add_epi32(w[i % 4], k);

            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
            if (i < 12)
                w[i % 4] = schedule(w[i % 4], w[(i + 1) % 4], w[(i + 2) % 4], w[(i + 3) % 4]);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    low = _mm_shuffle_epi32(abef, 0x1b);
    high = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(low, high, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(high, low, 8));
}

bool sha256_has_fast(void)
{
    unsigned a, b, c, d, b7, c7;

    /* __builtin_cpu_supports() would give the library a constructor. */
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) &&
           __get_cpuid_count(7, 0, &a, &b7, &c7, &d) && (b7 & bit_SHA);
}
#else
static void absorb_fast(uint32_t state[8], const uint8_t *block, size_t blocks)
{
    absorb_plain(state, block, blocks);
}

bool sha256_has_fast(void)
{
    return false;
}
#endif

static void absorb(struct sha256 *s, const uint8_t *block, size_t blocks)
{
    if (s->plain)
        absorb_plain(s->state, block, blocks);
    else
        absorb_fast(s->state, block, blocks);
}

void sha256_init(struct sha256 *s)
{
    *s = (struct sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                     0x9b05688c, 0x1f83d9ab, 0x5be0cd19 },
                          .plain = !sha256_has_fast() };
}

void sha256_add(struct sha256 *s, const void *data, size_t bytes)
{
    const uint8_t *from = data;

    while (bytes) {
        size_t filled = s->length % 64, taken = 64 - filled < bytes ? 64 - filled : bytes;

        if (!filled && bytes >= 64) { /* hashes whole blocks without copying them */
            taken = bytes - bytes % 64;
            absorb(s, from, taken / 64);
        } else {
            memcpy(s->block + filled, from, taken);
            if (filled + taken == 64)
                absorb(s, s->block, 1);
        }
        s->length += taken;
        from += taken;
        bytes -= taken;
    }
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
    static const uint8_t one = 0x80, zero = 0;
    uint64_t bits = s->length * 8;
    uint8_t length[8];

    sha256_add(s, &one, 1);
    while (s->length % 64 != 56)
        sha256_add(s, &zero, 1);
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(s, length, 8);
    for (int i = 0; i < SHA256_BYTES; i++)
        out[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

const char *sha256_hex(const uint8_t hash[SHA256_BYTES], char text[SHA256_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < SHA256_BYTES; i++) {
        text[2 * i] = digits[hash[i] >> 4];
        text[2 * i + 1] = digits[hash[i] & 15];
    }
    text[2 * SHA256_BYTES] = 0;
    return text;
}

void sha256_text(const void *data, size_t bytes, char text[SHA256_HEX_BYTES])
{
    struct sha256 s;
    uint8_t hash[SHA256_BYTES];

    sha256_init(&s);
    sha256_add(&s, data, bytes);
    sha256_end(&s, hash);
    sha256_hex(hash, text);
}
