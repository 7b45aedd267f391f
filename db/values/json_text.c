/* Writes JSON; libmoelookup has this file, too, without libm and whatever the locale. */
#include "json.h"

#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool make_room(struct json_text *t, size_t length)
{
    size_t room = 2 * (t->room + length) + 256;
    char *more;

    if (t->failed || t->room - t->used >= length)
        return !t->failed;
    more = realloc(t->bytes, room);
    if (!more) {
        t->failed = true;
        return false;
    }
    t->bytes = more;
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
    size_t at = sizeof(digits);
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do
        digits[--at] = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        digits[--at] = '-';
    json_add(t, digits + at, sizeof(digits) - at);
}

/* Six decimals, where they are all there is: division rounds once, so what is read back from them
 * is this very double. */
static bool add_short_number(struct json_text *t, double value)
{
    double magnitude = fabs(value);
    int64_t millionths;
    char decimals[7] = ".";
    size_t n = 7;

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
    while (n > 1 && decimals[n - 1] == '0')
        n--;
    json_add(t, decimals, n > 1 ? n : 0);
    return true;
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
    for (char *c = text; *c; c++)
        if (*c == ',')
            *c = '.';
    add_text(t, text);
}

/* How many bytes stand for themselves.  A zero byte ends the text. */
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

/* The number of a character below U+10000, as all are that come here. */
static uint32_t code_of(const unsigned char *c, size_t bytes)
{
    return bytes == 1   ? *c
           : bytes == 2 ? (*c & 31u) << 6 | (c[1] & 63u)
                        : (*c & 15u) << 12 | (c[1] & 63u) << 6 | (c[2] & 63u);
}

void json_add_quoted(struct json_text *t, const char *value)
{
    json_add(t, "\"", 1);
    for (;;) {
        size_t bytes = plain_letters(value);
        char escape[8];

        json_add(t, value, bytes);
        value += bytes;
        if (!*value)
            break;
        bytes = utf8_bytes((const unsigned char *)value);
        if (*value == '"' || *value == '\\')
            snprintf(escape, sizeof(escape), "\\%c", *value);
        else
            snprintf(escape, sizeof(escape), "\\u%04x",
                     bytes ? code_of((const unsigned char *)value, bytes) & 0xffff : 0xfffd);
        add_text(t, escape);
        value += bytes ? bytes : 1;
    }
    json_add(t, "\"", 1);
}

static void write_out(struct json_text *t, FILE *to)
{
    fwrite(t->bytes, 1, t->used, to);
    free(t->bytes);
}

void json_quote(const char *text, FILE *to)
{
    struct json_text t = { 0 };

    json_add_quoted(&t, text);
    write_out(&t, to);
}

void json_print(double value, FILE *to)
{
    struct json_text t = { 0 };

    json_add_number(&t, value);
    write_out(&t, to);
}

void json_member_number(const char *name, double value, FILE *to)
{
    fprintf(to, ", \"%s\": ", name);
    json_print(value, to);
}
