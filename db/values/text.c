/* Writes text into buffers of a fixed size, and dates, intervals and words for a shell. Reads
 * numbers. Finds where characters begin and end in untrusted text. */
#include "text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char dots[] = "...";

static bool write_behind(char *room, size_t size, size_t used, const char *format, va_list args)
{
    size_t kept = size < sizeof(dots) ? 0 : size - sizeof(dots);
    int length = vsnprintf(room + used, size - used, format, args);

    if (length >= 0 && (size_t)length < size - used)
        return true;
    if (size) { /* cuts behind a whole character */
        kept -= utf8_unfinished(room, kept);
        snprintf(room + kept, size - kept, "%s", dots);
    }
    return false;
}

bool text_put_list(char *room, size_t size, const char *format, va_list args)
{
    return write_behind(room, size, 0, format, args);
}

bool text_put(char *room, size_t size, const char *format, ...)
{
    va_list args;
    bool fits;

    va_start(args, format);
    fits = write_behind(room, size, 0, format, args);
    va_end(args);
    return fits;
}

bool text_add(char *room, size_t size, const char *format, ...)
{
    size_t used = strlen(room);
    va_list args;
    bool fits;

    /* A cut text ends with dots. They may end some bytes before the buffer does, because characters
     * stay whole. */
    if (used + sizeof(dots) >= size && used >= sizeof(dots) - 1 &&
        !strcmp(room + used - (sizeof(dots) - 1), dots))
        return false;
    va_start(args, format);
    fits = write_behind(room, size, used, format, args);
    va_end(args);
    return fits;
}

const char *text_short(const char *text, char *room, size_t size)
{
    text_put(room, size, "%s", text);
    return room;
}

const char *date_text(int64_t at_s, enum date_unit unit, char room[DATE_BYTES])
{
    static const char *const formats[] = { [DATE_DAY] = "%Y-%m-%d",
                                           [DATE_MINUTE] = "%Y-%m-%d %H:%M",
                                           [DATE_SECOND] = "%Y-%m-%d %H:%M:%S" };
    time_t time_s = (time_t)at_s;
    struct tm tm;

    if (!gmtime_r(&time_s, &tm) || !strftime(room, DATE_BYTES, formats[unit], &tm))
        strcpy(room, "?");
    return room;
}

const char *interval_text(const char *format, double low, double high, bool bare,
                          char room[INTERVAL_BYTES])
{
    char ends_line[2][INTERVAL_BYTES / 2 - 4];

    text_put(ends_line[0], sizeof(ends_line[0]), format, low);
    text_put(ends_line[1], sizeof(ends_line[1]), format, high);
    *room = 0;
    if (isfinite(low) && isfinite(high) && strcmp(ends_line[0], ends_line[1]) != 0)
        snprintf(room, INTERVAL_BYTES, bare ? "%s to %s" : " (%s to %s)", ends_line[0],
                 ends_line[1]);
    return room;
}

bool number_read(const char *text, const char **end, double *value)
{
    const char *digits = text + (*text == '-');
    double number;
    char *rest;

    digits += *digits == '.';
    if (!isdigit((unsigned char)*digits) || (digits[0] == '0' && (digits[1] | 0x20) == 'x'))
        return false;
    number = strtod(text, &rest);
    if (!isfinite(number) || (!end && *rest))
        return false;
    if (end)
        *end = rest;
    *value = number;
    return true;
}

const char *text_duration(double seconds, char room[DURATION_BYTES])
{
    const size_t size = DURATION_BYTES;

    if (!isfinite(seconds) || seconds > 1e9)
        snprintf(room, size, "?");
    else if (seconds < 99.5)
        text_put(room, size, "%.0f s", seconds);
    else if (seconds < 5940)
        snprintf(room, size, "%d m %02d s", (int)seconds / 60, (int)seconds % 60);
    else if (seconds < 360000)
        snprintf(room, size, "%d h %02d m", (int)seconds / 3600, (int)seconds / 60 % 60);
    else
        snprintf(room, size, "%d days", (int)(seconds / 86400));
    return room;
}

/* ---- Characters. */

size_t utf8_bytes(const unsigned char *c)
{
    size_t count = *c < 0x80                 ? 1
                   : *c >= 0xc2 && *c < 0xe0 ? 2
                   : *c >= 0xe0 && *c < 0xf0 ? 3
                   : *c >= 0xf0 && *c < 0xf5 ? 4
                                             : 0;

    for (size_t i = 1; i < count; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    if (count == 3 && ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] >= 0xa0) ||
                       (c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe)))
        return 0;
    if (count == 4 && ((c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] >= 0x90)))
        return 0;
    return count;
}

/* Returns whether a character turns the order of letters: U+061C, 200E, 200F, 202A to 202E, 2066 to
 * 2069. */
static bool turns_letters(const unsigned char *c)
{
    if (c[0] == 0xd8)
        return c[1] == 0x9c;
    if (c[0] != 0xe2)
        return false;
    return c[1] == 0x80 ? c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xaa && c[2] <= 0xae)
                        : c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9;
}

bool utf8_is_control(const unsigned char *c)
{
    return *c < 0x20 || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0) || turns_letters(c);
}

bool utf8_is_plain(const char *text, size_t length)
{
    const unsigned char *c = (const unsigned char *)text, *end = c + length;

    while (c < end) {
        size_t bytes = utf8_bytes(c);

        if (!bytes || utf8_is_control(c))
            return false;
        c += bytes;
    }
    return true;
}

void utf8_clean(char *text, size_t length, bool lines)
{
    unsigned char *c = (unsigned char *)text, *end = c + length;

    while (c < end) {
        size_t bytes = utf8_bytes(c);

        if (bytes && (!utf8_is_control(c) || (lines && (*c == '\n' || *c == '\t')))) {
            c += bytes;
            continue;
        }
        for (bytes = bytes ? bytes : 1; bytes; bytes--)
            *c++ = '?';
    }
}

const char *utf8_line(const char *text, char *out, size_t size)
{
    snprintf(out, size, "%s", text);
    utf8_clean(out, strlen(out), false);
    return out;
}

size_t utf8_unfinished(const char *text, size_t length)
{
    for (size_t i = 1; i <= 3 && i <= length; i++) {
        unsigned char c = (unsigned char)text[length - i];

        if (c >= 0xc0)
            return i < (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) ? i : 0;
        if (c < 0x80)
            return 0;
    }
    return 0;
}

/* ---- Words for a shell. */

void shell_word(const char *word, FILE *to)
{
    static const char harmless[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "-_=./:,+%@";
    bool has_control = false, ends_line;

    for (const char *c = word; *c; c++)
        has_control = has_control || (unsigned char)*c < ' ' || (unsigned char)*c >= 0x7f;
    if (*word && strspn(word, harmless) == strlen(word)) {
        fputs(word, to);
        return;
    }
    if (!has_control) {
        putc('\'', to);
        for (const char *c = word; *c; c++)
            fputs(*c == '\'' ? "'\\''" : (char[]){ *c, 0 }, to);
        putc('\'', to);
        return;
    }
    /* $(...) would remove line feeds at the end, so such a word uses $'...', which dash does not
     * know. */
    ends_line = word[strlen(word) - 1] == '\n';
    fputs(ends_line ? "$'" : "\"$(printf '", to);
    for (const char *c = word; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c >= 0x7f || strchr("'\\\"%!-", *c))
            fprintf(to, "\\%03o", (unsigned char)*c);
        else
            putc(*c, to);
    fputs(ends_line ? "'" : "')\"", to);
}
