/* Reads a file into a buffer that grows, with a limit on its size and on the time to wait. */
#include "input_file.h"

#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long a pipe may have no writer, and how long a writer may say nothing. */
enum { WRITER_MS = 2000, SILENCE_MS = 60000, LINE_MOST = 4 << 20 };

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

/* *got 0: the end.  The end of a pipe before its first byte may be that nobody has opened it yet.
 */
static int read_some(int fd, const char *path, char *to, size_t room, bool begun, size_t *got)
{
    struct stat is;
    bool waits = !begun && !fstat(fd, &is) && S_ISFIFO(is.st_mode);

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

int input_read(const char *path, size_t most, char **text, size_t *length)
{
    return input_read_if(path, most, SIZE_MAX, NULL, text, length);
}

int input_read_if(const char *path, size_t most, size_t head,
                  bool (*worth)(const char *text, size_t length), char **text, size_t *length)
{
    size_t room = 0, used = 0, got = 1;
    char *bytes = NULL;
    int fd, rc = OK;

    TRY(open_input(path, most, &fd));
    while (!rc && got) {
        if (used + 1 >= room) {
            char *more = realloc(bytes, room = room ? 2 * room : 1 << 14);

            if (!more) {
                rc = fail(ERR_NOMEM, "%s: %zu bytes", path, room);
                break;
            }
            bytes = more;
        }
        rc = read_some(fd, path, bytes + used, room - used - 1, used > 0, &got);
        used += rc ? 0 : got;
        if (!rc && used > most)
            rc = too_large(path, most);
        if (!rc && used >= head && !worth(bytes, used))
            break;
        head = used >= head ? SIZE_MAX : head;
    }
    close(fd);
    if (rc) {
        free(bytes);
        return rc;
    }
    bytes[used] = 0;
    *text = bytes;
    *length = used;
    return OK;
}

/* ---- line by line */

struct input_lines {
    const char *path;
    int (*on)(void *self, const char *line, size_t length, uint32_t number);
    void *self;
    char *bytes; /* what is read and not told, from `begin` to `end` */
    size_t begin, end, room;
    uint32_t number;
};

/* Hands on the lines that are whole, and at the end of the file also a last one without a line
 * feed. */
static int tell_lines(struct input_lines *l, bool at_end)
{
    while (l->begin < l->end) {
        char *line = l->bytes + l->begin, *end = memchr(line, '\n', l->end - l->begin);
        size_t length = end ? (size_t)(end - line) : l->end - l->begin;

        if (!end && !at_end)
            return OK;
        l->number++;
        if (memchr(line, 0, length))
            return fail(ERR_FORMAT, "%s is no text: line %u has a zero byte", l->path, l->number);
        line[length] = 0;
        TRY(l->on(l->self, line, length, l->number));
        l->begin += length + (end != NULL);
    }
    return OK;
}

/* Makes room for more of the line at hand and a zero byte behind it. */
static int make_room(struct input_lines *l)
{
    char *more;

    if (l->begin)
        memmove(l->bytes, l->bytes + l->begin, l->end - l->begin);
    l->end -= l->begin;
    l->begin = 0;
    if (l->end > LINE_MOST)
        return fail(ERR_FORMAT, "%s:%u is longer than the %d bytes that a line may have", l->path,
                    l->number + 1, LINE_MOST);
    if (l->end + 1 < l->room)
        return OK;
    l->room = l->room ? 2 * l->room : 1 << 16;
    more = realloc(l->bytes, l->room);
    if (!more)
        return fail(ERR_NOMEM, "%s: %zu bytes", l->path, l->room);
    l->bytes = more;
    return OK;
}

int input_lines(const char *path,
                int (*on)(void *self, const char *line, size_t length, uint32_t number), void *self)
{
    struct input_lines l = { .path = path, .on = on, .self = self };
    size_t got = 1;
    bool begun = false;
    int fd, rc = OK;

    TRY(open_input(path, SIZE_MAX, &fd));
    while (!rc && got) {
        rc = make_room(&l);
        if (!rc)
            rc = read_some(fd, path, l.bytes + l.end, l.room - l.end - 1, begun, &got);
        begun |= !rc && got;
        l.end += rc ? 0 : got;
        if (!rc)
            rc = tell_lines(&l, !got);
    }
    close(fd);
    free(l.bytes);
    return rc;
}
