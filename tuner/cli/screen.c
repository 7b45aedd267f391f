/* Puts a stream in the place of stdout that lets no control character reach a terminal.  The
 * sequences that moetune itself sends go past this stream. */
#include "screen.h"

#include "text.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { ROOM = 1 << 16 };

/* Bytes on their way to the screen.  The first bytes of a character wait until its last one comes.
 */
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

/* The C library takes a result below `count` as an error. */
static ssize_t screen_write(void *self, const char *bytes, size_t count)
{
    struct screen *s = self;

    for (size_t done = 0, part; done < count; done += part) {
        size_t ready;

        part = count - done < ROOM ? count - done : ROOM;
        memcpy(s->bytes + s->held, bytes + done, part);
        ready = s->held + part;
        s->bytes[ready] = 0;
        s->held = utf8_unfinished(s->bytes, ready);
        ready -= s->held;
        utf8_clean(s->bytes, ready, true);
        if (!write_all(s->bytes, ready))
            return 0;
        memmove(s->bytes, s->bytes + ready, s->held);
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

/* ---- what a terminal can do */

/* The stream in stdout's place has no descriptor of its own. */
static int descriptor(FILE *to)
{
    return to == stdout ? STDOUT_FILENO : fileno(to);
}

bool screen_is_terminal(FILE *to)
{
    const char *kind = getenv("TERM");

    return isatty(descriptor(to)) && kind && *kind && strcmp(kind, "dumb") != 0;
}

enum { COLUMNS_LEAST = 20 };

int screen_columns(FILE *to)
{
    struct winsize size;

    if (!isatty(descriptor(to)))
        return INT_MAX;
    if (ioctl(descriptor(to), TIOCGWINSZ, &size) || size.ws_col < COLUMNS_LEAST)
        return 80;
    return size.ws_col;
}

void screen_cut(char *line, int columns)
{
    int end = columns;

    if ((int)strlen(line) <= columns)
        return;
    while (end && line[end] != ' ')
        end--;
    line[end ? end : columns] = 0;
    /* Drop half a sentence if a whole one stands before it. */
    if (strrchr(line, ';'))
        *strrchr(line, ';') = 0;
}

static void send_past_guard(const char *sequence, FILE *to)
{
    size_t bytes = strlen(sequence);

    fflush(to);
    if (write(descriptor(to), sequence, bytes) != (ssize_t)bytes)
        return; /* the reader has gone; the next line reports that */
}

void screen_back(int lines, FILE *to)
{
    char sequence[32];

    snprintf(sequence, sizeof(sequence), lines > 0 ? "\033[%dA\r\033[J" : "\r\033[J", lines);
    send_past_guard(sequence, to);
}

/* ---- colours */

const char *const screen_color_words[] = { "auto", "always", "never", NULL };
static enum screen_color wanted;

void screen_color(enum screen_color when)
{
    wanted = when;
}

void screen_ink(enum ink ink, FILE *to)
{
    static const char *const sequences[] = {
        [INK_PLAIN] = "\033[0m", [INK_HEAD] = "\033[1m",  [INK_GOOD] = "\033[32m",
        [INK_OPEN] = "\033[33m", [INK_FAINT] = "\033[2m", [INK_BAD] = "\033[31m",
    };

    const char *no = getenv("NO_COLOR");

    if (to != stdout || wanted == COLOR_NEVER)
        return;
    if (wanted == COLOR_ALWAYS || ((!no || !*no) && screen_is_terminal(to)))
        send_past_guard(sequences[ink], to);
}
