/* SHA-256 (FIPS 180-4), of bytes that come in pieces. */
#ifndef SHA256_H
#define SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_HEX_BYTES = 65 };

/* One hash that is being computed: a plain value. sha256_init() sets it up, sha256_add() takes the
 * bytes, sha256_end() writes the hash. */
struct sha256 {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
    bool plain; /* computes without the processor's own instructions; for tests */
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t bytes);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES]);

/* Returns whether this processor has instructions for SHA-256; sha256_add() then uses them. */
bool sha256_has_fast(void);

/* Writes a hash in hexadecimal. The macro's text lasts as long as the block around it. */
#define SHA256_HEX(hash) sha256_hex(hash, (char[SHA256_HEX_BYTES]){ 0 })
const char *sha256_hex(const uint8_t hash[SHA256_BYTES], char text[SHA256_HEX_BYTES]);
/* Hashes the bytes, and writes the hash in hexadecimal. */
void sha256_text(const void *data, size_t bytes, char text[SHA256_HEX_BYTES]);

#endif
