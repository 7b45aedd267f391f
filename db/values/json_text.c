/* Writes JSON the same way in every locale. libmoelookup uses this file, too, so it needs no
 * libm. */
#include "json.h"

#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static bool make_room(struct json_text *t, size_t length)
{
    size_t room = 2 * (t->room + length) + 256;
    char *grown;

    if (t->failed || t->room - t->used >= length)
        return !t->failed;
    grown = realloc(t->bytes, room);
    if (!grown) {
        t->failed = true;
        return false;
    }
    t->bytes = grown;
    t->room = room;
    return true;
}

void json_add(struct json_text *t, const char *bytes, size_t length)
{
    if (!length || !make_room(t, length))
        return;
    memcpy(t->bytes + t->used, bytes, length);
    t->used += length;
}

static void add_text(struct json_text *t, const char *text)
{
    json_add(t, text, strlen(text));
}

void json_add_integer(struct json_text *t, int64_t value)
{
    char digits[24];
    size_t begin = sizeof(digits);
    uint64_t remaining = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do
        digits[--begin] = (char)('0' + remaining % 10);
    while (remaining /= 10);
    if (value < 0)
        digits[--begin] = '-';
    json_add(t, digits + begin, sizeof(digits) - begin);
}

/* Adds a number with six decimals, if these are all of it. The division that reads them back rounds
 * once, so it returns this very double. */
static bool add_short_number(struct json_text *t, double value)
{
    double magnitude = fabs(value);
    int64_t millionths;
    char decimals[7] = ".";
    size_t length = 7;

    if (!(magnitude < 1e9) || (magnitude < 1e-4 && (magnitude != 0 || signbit(value))))
        return false;
    millionths = (int64_t)(magnitude * 1e6 + 0.5);
    if ((double)millionths / 1e6 != magnitude)
        return false;
    if (value < 0)
        json_add(t, "-", 1);
    json_add_integer(t, millionths / 1000000);
    for (int64_t left = millionths % 1000000, i = 6; i > 0; i--, left /= 10)
        decimals[i] = (char)('0' + left % 10);
    while (length > 1 && decimals[length - 1] == '0')
        length--;
    json_add(t, decimals, length > 1 ? length : 0);
    return true;
}

/* Adds a number that printf() wrote, with a point even where the locale has a comma. */
static void add_printed(struct json_text *t, char *number)
{
    for (char *c = number; *c; c++)
        if (*c == ',')
            *c = '.';
    add_text(t, number);
}

void json_add_number(struct json_text *t, double value)
{
    char text[40];

    if (!isfinite(value)) {
        add_text(t, "null");
        return;
    }
    if (add_short_number(t, value))
        return;
    for (int precision = 6; precision <= 17; precision++) {
        snprintf(text, sizeof(text), "%.*g", precision, value);
        if (strtod(text, NULL) == value)
            break;
    }
    add_printed(t, text);
}

/* Returns how many bytes need no escape. A zero byte ends the text. */
static size_t plain_letters(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;

    for (;;) {
        size_t bytes = *c < 0x80 ? 1 : utf8_bytes(c);

        if (!bytes || *c == '"' || *c == '\\' || utf8_is_control(c))
            return (size_t)(c - (const unsigned char *)text);
        c += bytes;
    }
}

/* Returns the code of a character below U+10000; no other character needs an escape. */
static uint32_t code_of(const unsigned char *c, size_t bytes)
{
    return bytes == 1   ? *c
           : bytes == 2 ? (*c & 31u) << 6 | (c[1] & 63u)
                        : (*c & 15u) << 12 | (c[1] & 63u) << 6 | (c[2] & 63u);
}

static void add_escaped(struct json_text *t, const char *value)
{
    for (;;) {
        size_t bytes = plain_letters(value);
        char escape[8];

        json_add(t, value, bytes);
        value += bytes;
        if (!*value)
            return;
        bytes = utf8_bytes((const unsigned char *)value);
        if (*value == '"' || *value == '\\')
            snprintf(escape, sizeof(escape), "\\%c", *value);
        else
            snprintf(escape, sizeof(escape), "\\u%04x",
                     bytes ? code_of((const unsigned char *)value, bytes) & 0xffff : 0xfffd);
        add_text(t, escape);
        value += bytes ? bytes : 1;
    }
}

void json_add_quoted(struct json_text *t, const char *value)
{
    json_add(t, "\"", 1);
    add_escaped(t, value);
    json_add(t, "\"", 1);
}

const char *json_add_argument(struct json_text *t, const char *format, va_list *args)
{
    enum { DIGITS = 320 }; /* room for the largest double with %.0f */
    size_t length = strcspn(format, "diuxfg") + 1;
    char conversion[16], number[DIGITS], kind = format[length - 1];
    double real;

    text_put(conversion, sizeof(conversion), "%.*s", (int)length, format);
    if (kind == 'f' || kind == 'g') {
        real = va_arg(*args, double);
        if (length == 2 || !isfinite(real)) {
            json_add_number(t, real);
        } else {
            snprintf(number, sizeof(number), conversion, real);
            add_printed(t, number);
        }
    } else {
        if (strstr(conversion, "ll"))
            snprintf(number, sizeof(number), conversion, va_arg(*args, long long));
        else if (strchr(conversion, 'l'))
            snprintf(number, sizeof(number), conversion, va_arg(*args, long));
        else if (strchr(conversion, 'z'))
            snprintf(number, sizeof(number), conversion, va_arg(*args, size_t));
        else
            snprintf(number, sizeof(number), conversion, va_arg(*args, int));
        add_text(t, number);
    }
    return format + length;
}

void json_write(FILE *to, const char *format, ...)
{
    struct json_text t = { 0 };
    bool quoted = false;
    va_list args;

    va_start(args, format);
    while (*format) {
        size_t plain = strcspn(format, "'%");

        json_add(&t, format, plain);
        format += plain;
        if (!strncmp(format, "%s", 2)) {
            if (quoted)
                add_escaped(&t, va_arg(args, const char *));
            else
                add_text(&t, va_arg(args, const char *));
            format += 2;
        } else if (*format == '%') {
            format = json_add_argument(&t, format, &args);
        } else if (*format) {
            json_add(&t, "\"", 1);
            quoted = !quoted;
            format++;
        }
    }
    va_end(args);
    if (t.used)
        fwrite(t.bytes, 1, t.used, to);
    free(t.bytes);
}

void json_quote(const char *text, FILE *to)
{
    json_write(to, "'%s'", text);
}
