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
    struct sha256 sha;
    char block[1 << 14];

    sha256_init(&sha);
    for (size_t offset = 0; offset < size;) {
        size_t wanted = size - offset < sizeof(block) ? size - offset : sizeof(block);
        ssize_t got = pread(fd, block, wanted, (off_t)offset);

        if (got <= 0)
            return ERR_IO;
        sha256_add(&sha, block, (size_t)got);
        offset += (size_t)got;
    }
    memcpy(seal, mark, MARK);
    sha256_end(&sha, seal + MARK);
    return OK;
}

int seal_append(int fd)
{
    uint8_t seal[SEAL];
    struct stat info;

    if (fstat(fd, &info))
        return ERR_IO;
    TRY(checksum_of(fd, (size_t)info.st_size, seal));
    return pwrite(fd, seal, SEAL, info.st_size) == SEAL ? OK : ERR_IO;
}

int seal_check(int fd, size_t size, bool *sealed)
{
    uint8_t stored[SEAL], computed[SEAL];

    *sealed = size % PAGE_LEAST != 0;
    if (!*sealed)
        return OK;
    if (size < SEAL)
        return ERR_FORMAT;
    TRY(checksum_of(fd, size - SEAL, computed));
    if (pread(fd, stored, SEAL, (off_t)(size - SEAL)) != SEAL)
        return ERR_IO;
    return memcmp(stored, computed, SEAL) ? ERR_FORMAT : OK;
}
