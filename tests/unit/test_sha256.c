/* Tests SHA-256 against the standard's test values, and against itself. */
#include "check.h"

#include "sha256.h"

#include <stdbool.h>
#include <string.h>

static void sha256_gives_the_standards_answers(void)
{
    static const struct {
        const char *text, *hex;
        int times;
    } cases[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 1 },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", 1 },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1", 1 },
        { "a", "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", 1000000 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sha256 sha;
        uint8_t hash[SHA256_BYTES];
        char hex[SHA256_HEX_BYTES];

        sha256_init(&sha);
        for (int k = 0; k < cases[i].times; k++)
            sha256_add(&sha, cases[i].text, strlen(cases[i].text));
        sha256_end(&sha, hash);
        sha256_hex(hash, hex);
        CHECK(!strcmp(hex, cases[i].hex));
    }
}

/* The data whole, or cut in two at `cut`. */
static void hash_bytes(const uint8_t *data, size_t bytes, size_t cut, bool plain,
                       uint8_t hash[SHA256_BYTES])
{
    struct sha256 sha;

    sha256_init(&sha);
    sha.plain = sha.plain || plain;
    sha256_add(&sha, data, cut);
    sha256_add(&sha, data + cut, bytes - cut);
    sha256_end(&sha, hash);
}

static void sha256_is_the_same_with_and_without_instructions_and_wherever_it_is_cut(void)
{
    uint8_t data[300], plain[SHA256_BYTES], fast[SHA256_BYTES];

    if (!sha256_has_fast())
        printf("  skipped: the processor's own SHA-256 (it has none)\n");
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * i * 7 + i);
    for (size_t bytes = 0; bytes <= sizeof(data); bytes++) {
        hash_bytes(data, bytes, 0, true, plain);
        for (size_t cut = 0; cut <= bytes; cut += 13) {
            hash_bytes(data, bytes, cut, false, fast);
            CHECK(!memcmp(plain, fast, sizeof(fast)));
        }
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(sha256_gives_the_standards_answers),
        TEST(sha256_is_the_same_with_and_without_instructions_and_wherever_it_is_cut),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
