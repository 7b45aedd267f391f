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

enum { CHUNK_BYTES = 1 << 16, CHARACTER_BYTES_MAX = 8 };

/* Bytes on their way to the screen.  The first bytes of a character wait until its last one comes.
 */
struct screen {
    char bytes[CHUNK_BYTES + CHARACTER_BYTES_MAX];
    size_t held;
};

static bool write_all(const char *bytes, size_t count)
{
    while (count) {
        ssize_t written = write(STDOUT_FILENO, bytes, count);

        if (written < 0 && errno != EINTR)
            return false;
        bytes += written > 0 ? written : 0;
        count -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

/* The C library takes a result below `count` as an error. */
static ssize_t screen_write(void *self, const char *bytes, size_t count)
{
    struct screen *s = self;

    for (size_t done = 0, part; done < count; done += part) {
        size_t ready;

        part = count - done < CHUNK_BYTES ? count - done : CHUNK_BYTES;
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
static int descriptor_of(FILE *stream)
{
    return stream == stdout ? STDOUT_FILENO : fileno(stream);
}

bool screen_is_terminal(FILE *stream)
{
    const char *kind = getenv("TERM");

    return isatty(descriptor_of(stream)) && kind && *kind && strcmp(kind, "dumb") != 0;
}

enum { COLUMNS_LEAST = 20, COLUMNS_USUAL = 80 };

int screen_columns(FILE *stream)
{
    struct winsize size;

    if (!isatty(descriptor_of(stream)))
        return INT_MAX;
    if (ioctl(descriptor_of(stream), TIOCGWINSZ, &size) || size.ws_col < COLUMNS_LEAST)
        return COLUMNS_USUAL;
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

static void send_past_guard(const char *sequence, FILE *stream)
{
    size_t bytes = strlen(sequence);

    fflush(stream);
    if (write(descriptor_of(stream), sequence, bytes) != (ssize_t)bytes)
        return; /* the reader has gone; the next line reports that */
}

void screen_back(int lines, FILE *stream)
{
    char sequence[32];

    snprintf(sequence, sizeof(sequence), lines > 0 ? "\033[%dA\r\033[J" : "\r\033[J", lines);
    send_past_guard(sequence, stream);
}

/* ---- colours */

const char *const screen_color_words[] = { "auto", "always", "never", NULL };
static enum screen_color color_choice;

void screen_color(enum screen_color when)
{
    color_choice = when;
}

void screen_ink(enum ink ink, FILE *stream)
{
    static const char *const sequences[] = {
        [INK_PLAIN] = "\033[0m", [INK_HEAD] = "\033[1m",  [INK_GOOD] = "\033[32m",
        [INK_OPEN] = "\033[33m", [INK_FAINT] = "\033[2m", [INK_BAD] = "\033[31m",
    };

    const char *no_color = getenv("NO_COLOR");

    if (stream != stdout || color_choice == COLOR_NEVER)
        return;
    if (color_choice == COLOR_ALWAYS || ((!no_color || !*no_color) && screen_is_terminal(stream)))
        send_past_guard(sequences[ink], stream);
}
