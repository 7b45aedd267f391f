/* Prints messages: the one place where errors become words. */
#include "status.h"

#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The name before each message: the program, or the library inside another program. */
#ifndef STATUS_SPEAKER
#define STATUS_SPEAKER "moetune"
#endif

static struct {
    log_hook *hook;
    void *self;
    int rank;                      /* -1: messages name no rank */
    int progress_columns;          /* columns of progress in the terminal's last line */
    int (*width_of)(FILE *stream); /* NULL: messages are not wrapped */
    bool enabled, usage_elsewhere;
} log_state = { .rank = -1, .enabled = true };

const char *status_word(int status)
{
    switch (status) {
    case OK: return "ok";
    case UNSUPPORTED: return "does not apply";
    case ERR_ARGUMENT: return "bad argument";
    case ERR_IO: return "input/output error";
    case ERR_FORMAT: return "bad format";
    case ERR_AMBIGUOUS: return "ambiguous";
    case ERR_NOMEM: return "out of memory";
    case ERR_DEVICE: return "device error";
    case ERR_WIRE: return "communication error";
    case ERR_WRONG: return "wrong result";
    case ERR_LAUNCH: return "launch failed";
    case ERR_BUSY: return "database busy";
    case ERR_CORRUPT: return "database unusable";
    case ERR_CUT: return "cut off";
    }
    return "unknown status";
}

int log_progress_columns(int columns)
{
    int before = log_state.progress_columns;

    log_state.progress_columns = columns;
    return before;
}

void log_progress_clear(void)
{
    if (log_state.progress_columns)
        fprintf(stderr, "\r%*s\r", log_state.progress_columns, "");
    log_state.progress_columns = 0;
}

void log_columns(int (*width_of)(FILE *stream))
{
    log_state.width_of = width_of;
}

/* Returns the bytes up to the next blank that may end a line. A blank in quotes may not, nor one in
 * a command, because nothing marks where a command ends. */
static size_t unbreakable_bytes(const char *text)
{
    const char *at = text, *closing_quote;

    if (!strncmp(text, "moetune ", 8) && strstr(text, " -"))
        return strlen(text);
    for (; *at && *at != ' '; at++) {
        bool opens = strchr("\"'`", *at) && (at == text || strchr("(=:", at[-1]));

        closing_quote = opens ? strchr(at + 1, *at) : NULL;
        if (closing_quote)
            at = closing_quote;
    }
    return (size_t)(at - text);
}

static bool is_utf8_continuation(char byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Turns blanks into line feeds where a line would be longer than `columns`. The first line begins
 * in column `column`. */
static void wrap_line(char *line, int column, int columns)
{
    char *blank = NULL; /* the one before the word that `line` points to */

    while (*line) {
        size_t bytes = unbreakable_bytes(line);
        int width = 0;

        for (size_t i = 0; i < bytes; i++)
            width += !is_utf8_continuation(line[i]);
        if (blank && column + 1 + width > columns) {
            *blank = '\n';
            column = width;
        } else {
            column += width + (blank ? 1 : 0);
        }
        line += bytes;
        blank = line;
        if (*line)
            line++;
    }
}

/* Prints a message as one line, whatever the texts in it contain; on a screen it is wrapped. */
static void print_message(const char *format, va_list args)
{
    char line[1024];
    int prefix_bytes = 0;

    if (!log_state.enabled)
        return;
    if (log_state.rank >= 0 && !log_state.hook)
        prefix_bytes = snprintf(line, sizeof(line), "[rank %d] ", log_state.rank);
    text_put_list(line + prefix_bytes, sizeof(line) - (size_t)prefix_bytes, format, args);
    utf8_clean(line, strlen(line), false);
    if (log_state.hook)
        log_state.hook(log_state.self, line);
    else { /* one call, so that lines of several ranks do not mix */
        log_progress_clear();
        if (log_state.width_of)
            wrap_line(line, (int)strlen(STATUS_SPEAKER ": "), log_state.width_of(stderr));
        fprintf(stderr, STATUS_SPEAKER ": %s\n", line);
    }
}

int fail(int status, const char *format, ...)
{
    va_list args;

    if (status == ERR_ARGUMENT && log_state.usage_elsewhere && log_state.rank < 0)
        return status;
    va_start(args, format);
    print_message(format, args);
    va_end(args);
    return status;
}

void note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print_message(format, args);
    va_end(args);
}

void log_mute_usage(void)
{
    log_state.usage_elsewhere = true;
}

void log_to(log_hook *hook, void *self)
{
    log_state.hook = hook;
    log_state.self = self;
}

bool log_enable(bool enabled)
{
    bool was_enabled = log_state.enabled;

    log_state.enabled = enabled;
    return was_enabled;
}

void log_rank(int rank)
{
    log_state.rank = rank;
}
