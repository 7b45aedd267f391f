/* Reads a file into a buffer that grows, with a limit on its size and on the time to wait. */
#include "input_file.h"

#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long a pipe may have no writer, and how long a writer may say nothing. */
enum { WRITER_MS = 2000, SILENCE_MS = 60000 };

static int too_large(const char *path, size_t most)
{
    return fail(ERR_FORMAT, "%s: longer than the %zu bytes that are read", path, most);
}

/* Without O_NONBLOCK opening a pipe would wait for a writer. */
static int open_input(const char *path, size_t most, int *fd)
{
    struct stat is;
    int rc = OK;

    *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0)
        return fail(ERR_IO, "%s: %s", path, strerror(errno));
    if (fstat(*fd, &is))
        rc = fail(ERR_IO, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(is.st_mode))
        rc = fail(ERR_IO, "%s: %s", path, strerror(EISDIR));
    else if (S_ISREG(is.st_mode) && (uint64_t)is.st_size > most)
        rc = too_large(path, most);
    if (rc)
        close(*fd);
    return rc;
}

static bool is_pipe(int fd)
{
    struct stat is;

    return !fstat(fd, &is) && S_ISFIFO(is.st_mode);
}

/* *got 0: the end.  The end of a pipe before its first byte may be that nobody has opened it yet.
 */
static int read_some(int fd, const char *path, char *to, size_t room, bool begun, size_t *got)
{
    bool waits = !begun && is_pipe(fd);

    for (;;) {
        struct pollfd input = { .fd = fd, .events = POLLIN };
        ssize_t n = read(fd, to, room);
        int ready;

        if (n > 0 || (n == 0 && !waits)) {
            *got = (size_t)n;
            return OK;
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return fail(ERR_IO, "%s: %s", path, strerror(errno));
        ready = poll(&input, 1, n == 0 ? WRITER_MS : SILENCE_MS);
        if (ready == 0)
            return fail(ERR_IO, "%s: nobody writes into this pipe", path);
        waits = waits && !(input.revents & POLLHUP);
    }
}

static int read_all(int fd, const char *path, size_t most, char **text, size_t *length)
{
    size_t room = 0, used = 0, got = 1;
    int rc = OK;

    *text = NULL;
    while (!rc && got) {
        if (used + 1 >= room) {
            char *more = realloc(*text, room = room ? 2 * room : 1 << 14);

            if (!more)
                return fail(ERR_NOMEM, "%s: %zu bytes", path, room);
            *text = more;
        }
        rc = read_some(fd, path, *text + used, room - used - 1, used > 0, &got);
        used += rc ? 0 : got;
        if (!rc && used > most)
            rc = too_large(path, most);
    }
    if (!rc)
        (*text)[used] = 0;
    *length = used;
    return rc;
}

int input_read(const char *path, size_t most, char **text, size_t *length)
{
    char *bytes = NULL;
    size_t count = 0;
    int fd, rc;

    TRY(open_input(path, most, &fd));
    rc = read_all(fd, path, most, &bytes, &count);
    close(fd);
    if (rc) {
        free(bytes);
        return rc;
    }
    *text = bytes;
    *length = count;
    return OK;
}
