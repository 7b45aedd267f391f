/* Reads files and pipes into a buffer that grows, with limits on the size and on the time to
 * wait. */
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

/* How long a pipe may have no writer, how long a writer may be silent, and the longest line. */
enum { WRITER_MS = 2000, SILENCE_MS = 60000, LINE_MOST = 4 << 20 };

static int refuse_too_large(const char *path, size_t most_bytes)
{
    return fail(ERR_FORMAT, "%s is longer than the limit of %zu bytes", path, most_bytes);
}

/* Opens a file or pipe. Without O_NONBLOCK open() would wait until somebody writes into the
 * pipe. */
static int open_input(const char *path, size_t most_bytes, int *fd)
{
    struct stat info;
    int rc = OK;

    *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0)
        return fail(ERR_IO, "%s: %s", path, strerror(errno));
    if (fstat(*fd, &info))
        rc = fail(ERR_IO, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(info.st_mode))
        rc = fail(ERR_IO, "%s: %s", path, strerror(EISDIR));
    else if (S_ISREG(info.st_mode) && (uint64_t)info.st_size > most_bytes)
        rc = refuse_too_large(path, most_bytes);
    if (rc)
        close(*fd);
    return rc;
}

/* Reads what is there, and waits if that is nothing; *got 0: the end. A pipe that ends before its
 * first byte may have no writer yet, so read_available() waits for one. */
static int read_available(int fd, const char *path, char *buffer, size_t room, bool begun,
                          size_t *got)
{
    struct stat info;
    bool waits = !begun && !fstat(fd, &info) && S_ISFIFO(info.st_mode);

    for (;;) {
        struct pollfd input = { .fd = fd, .events = POLLIN };
        ssize_t bytes = read(fd, buffer, room);
        int ready;

        if (bytes > 0 || (bytes == 0 && !waits)) {
            *got = (size_t)bytes;
            return OK;
        }
        if (bytes < 0 && errno != EAGAIN && errno != EINTR)
            return fail(ERR_IO, "%s: %s", path, strerror(errno));
        ready = poll(&input, 1, bytes == 0 ? WRITER_MS : SILENCE_MS);
        if (ready == 0)
            return fail(ERR_IO, "%s: nobody writes into this pipe", path);
        waits = waits && !(input.revents & POLLHUP);
    }
}

int input_read(const char *path, size_t most_bytes, char **text, size_t *length)
{
    return input_read_if(path, most_bytes, SIZE_MAX, NULL, text, length);
}

int input_read_if(const char *path, size_t most_bytes, size_t head_bytes,
                  bool (*worth_reading)(const char *text, size_t length), char **text,
                  size_t *length)
{
    size_t room = 0, used = 0, got = 1;
    char *bytes = NULL;
    int fd, rc = OK;

    TRY(open_input(path, most_bytes, &fd));
    while (!rc && got) {
        if (used + 1 >= room) {
            char *grown;

            room = room ? 2 * room : 1 << 14;
            grown = realloc(bytes, room);
            if (!grown) {
                rc = fail(ERR_NOMEM, "%s: %zu bytes", path, room);
                break;
            }
            bytes = grown;
        }
        rc = read_available(fd, path, bytes + used, room - used - 1, used > 0, &got);
        used += rc ? 0 : got;
        if (!rc && used > most_bytes)
            rc = refuse_too_large(path, most_bytes);
        if (!rc && used >= head_bytes && !worth_reading(bytes, used))
            break;
        head_bytes = used >= head_bytes ? SIZE_MAX : head_bytes;
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

/* ---- Files that are read line by line. */

/* The state of input_lines(), which frees `bytes`. */
struct input_lines {
    const char *path;
    int (*on_line)(void *self, const char *line, size_t length, uint32_t number);
    void *self;
    char *bytes; /* text from `begin` to `end` that on_line() has not seen */
    size_t begin, end, room;
    uint32_t number;
};

/* Passes the lines that are complete to on_line(). At the end of the file it also passes a last
 * line without a line feed. */
static int report_lines(struct input_lines *l, bool at_end)
{
    while (l->begin < l->end) {
        char *line = l->bytes + l->begin, *line_feed = memchr(line, '\n', l->end - l->begin);
        size_t length = line_feed ? (size_t)(line_feed - line) : l->end - l->begin;

        if (!line_feed && !at_end)
            return OK;
        l->number++;
        if (memchr(line, 0, length))
            return fail(ERR_FORMAT, "%s is no text: line %u has a zero byte", l->path, l->number);
        line[length] = 0;
        TRY(l->on_line(l->self, line, length, l->number));
        l->begin += length + (line_feed != NULL);
    }
    return OK;
}

/* Makes room for more of the current line and for a zero byte behind it. */
static int make_room(struct input_lines *l)
{
    char *grown;

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
    grown = realloc(l->bytes, l->room);
    if (!grown)
        return fail(ERR_NOMEM, "%s: %zu bytes", l->path, l->room);
    l->bytes = grown;
    return OK;
}

int input_lines(const char *path,
                int (*on_line)(void *self, const char *line, size_t length, uint32_t number),
                void *self)
{
    struct input_lines l = { .path = path, .on_line = on_line, .self = self };
    size_t got = 1;
    bool begun = false;
    int fd, rc = OK;

    TRY(open_input(path, SIZE_MAX, &fd));
    while (!rc && got) {
        rc = make_room(&l);
        if (!rc)
            rc = read_available(fd, path, l.bytes + l.end, l.room - l.end - 1, begun, &got);
        begun |= !rc && got;
        l.end += rc ? 0 : got;
        if (!rc)
            rc = report_lines(&l, !got);
    }
    close(fd);
    free(l.bytes);
    return rc;
}
