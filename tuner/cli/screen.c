/* Puts a stream in the place of stdout that lets no control character reach a terminal. */
#include "screen.h"

#include "utf8.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 1 << 16 };

/* What is on its way: the beginning of a character waits here for its end. */
struct screen {
    char bytes[ROOM + 8];
    size_t held;
};

static bool write_all(const char *bytes, size_t count)
{
    while (count) {
        ssize_t n = write(STDOUT_FILENO, bytes, count);

        if (n < 0 && errno != EINTR)
            return false;
        bytes += n > 0 ? n : 0;
        count -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool pass_on(struct screen *s, const char *bytes, size_t count)
{
    size_t ready = s->held + count;

    memcpy(s->bytes + s->held, bytes, count);
    s->bytes[ready] = 0;
    s->held = utf8_unfinished(s->bytes, ready);
    ready -= s->held;
    utf8_clean(s->bytes, ready, true);
    if (!write_all(s->bytes, ready))
        return false;
    memmove(s->bytes, s->bytes + ready, s->held);
    return true;
}

/* To the C library less than `count` is an error. */
static ssize_t screen_write(void *self, const char *bytes, size_t count)
{
    for (size_t done = 0, part; done < count; done += part) {
        part = count - done < ROOM ? count - done : ROOM;
        if (!pass_on(self, bytes + done, part))
            return 0;
    }
    return (ssize_t)count;
}

void screen_guard(void)
{
    static struct screen screen;
    FILE *guarded = fopencookie(&screen, "w", (cookie_io_functions_t){ .write = screen_write });

    if (!guarded)
        return;
    setvbuf(guarded, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = guarded;
}
