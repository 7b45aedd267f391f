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
    int rank, progress_columns; /* columns of the line of progress */
    int (*columns)(FILE *to);
    bool silent, usage_elsewhere;
} log_state = { .rank = -1 };

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

int log_line_columns(int columns)
{
    int before = log_state.progress_columns;

    log_state.progress_columns = columns;
    return before;
}

void log_line_clear(void)
{
    if (log_state.progress_columns)
        fprintf(stderr, "\r%*s\r", log_state.progress_columns, "");
    log_state.progress_columns = 0;
}

void log_columns(int (*columns)(FILE *to))
{
    log_state.columns = columns;
}

/* Returns the bytes up to the next blank that may end a line. A blank in quotes may not, nor one in
 * a command, because nothing marks where a command ends. */
static size_t unbroken(const char *text)
{
    const char *at = text, *end;

    if (!strncmp(text, "moetune ", 8) && strstr(text, " -"))
        return strlen(text);
    for (; *at && *at != ' '; at++) {
        bool opens = strchr("\"'`", *at) && (at == text || strchr("(=:", at[-1]));

        end = opens ? strchr(at + 1, *at) : NULL;
        at = end ? end : at;
    }
    return (size_t)(at - text);
}

/* Turns blanks into line feeds where a line would be longer than `columns`. The first line begins
 * in column `at`. */
static void wrap(char *line, int at, int columns)
{
    for (char *blank = NULL; *line; blank = *line ? line++ : NULL) {
        size_t bytes = unbroken(line);
        int width = 0;

        for (size_t i = 0; i < bytes; i++)
            width += (line[i] & 0xc0) != 0x80;
        if (blank && at + 1 + width > columns) {
            *blank = '\n';
            at = width;
        } else {
            at += width + (blank != NULL);
        }
        line += bytes;
    }
}

/* Prints a message as one line, whatever the texts in it contain; on a screen it is wrapped. */
static void print_message(const char *format, va_list args)
{
    char line[1024];
    int n = 0;

    if (log_state.silent)
        return;
    if (log_state.rank >= 0 && !log_state.hook)
        n = snprintf(line, sizeof(line), "[rank %d] ", log_state.rank);
    text_put_list(line + n, sizeof(line) - (size_t)n, format, args);
    utf8_clean(line, strlen(line), false);
    if (log_state.hook)
        log_state.hook(log_state.self, line);
    else { /* one call, so that lines of several ranks do not mix */
        log_line_clear();
        if (log_state.columns)
            wrap(line, (int)strlen(STATUS_SPEAKER ": "), log_state.columns(stderr));
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

bool log_only(bool here)
{
    bool was = !log_state.silent;

    log_state.silent = !here;
    return was;
}

void log_rank(int rank)
{
    log_state.rank = rank;
}
