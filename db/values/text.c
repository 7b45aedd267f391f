/* Writes text into rooms of a fixed size, and points of time; reads numbers. */
#include "text.h"

#include "utf8.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char dots[] = "...";

/* What is there up to the room's end was not all. */
static void mark_cut(char *room, size_t size)
{
    size_t length = size < sizeof(dots) ? 0 : size - sizeof(dots);

    if (!size)
        return;
    length -= utf8_unfinished(room, length);
    snprintf(room + length, size - length, "%s", dots);
}

/* A cut text may end some bytes before its room does, for the last character went whole. */
static bool was_cut(const char *room, size_t size, size_t length)
{
    return length + sizeof(dots) >= size && length >= sizeof(dots) - 1 &&
           !strcmp(room + length - (sizeof(dots) - 1), dots);
}

static bool write_at(char *room, size_t size, size_t used, const char *format, va_list args)
{
    int length = vsnprintf(room + used, size - used, format, args);

    if (length >= 0 && (size_t)length < size - used)
        return true;
    mark_cut(room, size);
    return false;
}

bool text_put_list(char *room, size_t size, const char *format, va_list args)
{
    return write_at(room, size, 0, format, args);
}

bool text_put(char *room, size_t size, const char *format, ...)
{
    va_list args;
    bool whole;

    va_start(args, format);
    whole = write_at(room, size, 0, format, args);
    va_end(args);
    return whole;
}

bool text_add(char *room, size_t size, const char *format, ...)
{
    size_t used = strlen(room);
    va_list args;
    bool whole;

    if (was_cut(room, size, used))
        return false;
    va_start(args, format);
    whole = write_at(room, size, used, format, args);
    va_end(args);
    return whole;
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
    time_t at = (time_t)at_s;
    struct tm tm;

    if (!gmtime_r(&at, &tm) || !strftime(room, DATE_BYTES, formats[unit], &tm))
        strcpy(room, "?");
    return room;
}

const char *interval_text(const char *format, double low, double high, bool bare,
                          char room[INTERVAL_BYTES])
{
    char ends[2][INTERVAL_BYTES / 2 - 4];

    text_put(ends[0], sizeof(ends[0]), format, low);
    text_put(ends[1], sizeof(ends[1]), format, high);
    *room = 0;
    if (isfinite(low) && isfinite(high) && strcmp(ends[0], ends[1]) != 0)
        snprintf(room, INTERVAL_BYTES, bare ? "%s to %s" : " (%s to %s)", ends[0], ends[1]);
    return room;
}

bool number_read(const char *text, const char **end, double *value)
{
    const char *digits = text + (*text == '-');
    double read;
    char *rest;

    digits += *digits == '.';
    if (!isdigit((unsigned char)*digits) || (digits[0] == '0' && (digits[1] | 0x20) == 'x'))
        return false;
    read = strtod(text, &rest);
    if (!isfinite(read) || (!end && *rest))
        return false;
    if (end)
        *end = rest;
    *value = read;
    return true;
}
