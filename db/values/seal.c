/* Writes the SHA-256 of a file behind its last page, and checks it. */
#include "seal.h"

#include "sha256.h"
#include "status.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A page has at least PAGE_LEAST bytes, and a multiple of it. A checksum has SEAL bytes, and begins
 * with a mark. */
enum { PAGE_LEAST = 512, MARK = 8, SEAL = MARK + SHA256_BYTES };
static const char mark[MARK] = "moeseal1";

static int checksum_of(int fd, size_t size, uint8_t seal[SEAL])
{
    struct sha256 sum;
    char block[1 << 14];

    sha256_init(&sum);
    for (size_t at = 0; at < size;) {
        size_t want = size - at < sizeof(block) ? size - at : sizeof(block);
        ssize_t got = pread(fd, block, want, (off_t)at);

        if (got <= 0)
            return ERR_IO;
        sha256_add(&sum, block, (size_t)got);
        at += (size_t)got;
    }
    memcpy(seal, mark, MARK);
    sha256_end(&sum, seal + MARK);
    return OK;
}

int seal_append(int fd)
{
    uint8_t seal[SEAL];
    struct stat is;

    if (fstat(fd, &is))
        return ERR_IO;
    TRY(checksum_of(fd, (size_t)is.st_size, seal));
    return pwrite(fd, seal, SEAL, is.st_size) == SEAL ? OK : ERR_IO;
}

int seal_check(int fd, size_t size, bool *sealed)
{
    uint8_t found[SEAL], wanted[SEAL];

    *sealed = size % PAGE_LEAST != 0;
    if (!*sealed)
        return OK;
    if (size < SEAL)
        return ERR_FORMAT;
    TRY(checksum_of(fd, size - SEAL, wanted));
    if (pread(fd, found, SEAL, (off_t)(size - SEAL)) != SEAL)
        return ERR_IO;
    return memcmp(found, wanted, SEAL) ? ERR_FORMAT : OK;
}
