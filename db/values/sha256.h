/* SHA-256 (FIPS 180-4). */
#ifndef SHA256_H
#define SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_HEX_BYTES = 65 };

struct sha256 {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
    bool plain; /* without the processor's own instructions; for tests */
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t bytes);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES]);

/* The processor has instructions for it, and they are used. */
bool sha256_has_fast(void);

/* The result of the macro lasts as long as the block around it. */
#define SHA256_HEX(hash) sha256_hex(hash, (char[SHA256_HEX_BYTES]){ 0 })
const char *sha256_hex(const uint8_t hash[SHA256_BYTES], char text[SHA256_HEX_BYTES]);
void sha256_text(const void *data, size_t bytes, char text[SHA256_HEX_BYTES]); /* of this */

#endif
