/* Words, names and numbers of the lines of a declaration. */
#include "declaration_read.h"

#include "status.h"
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int declaration_wrong(struct declaration_reader *in, const char *format, ...)
{
    va_list args;
    size_t used;

    if (text_put(in->why, in->why_size, "line %u: ", in->line + !in->line)) {
        used = strlen(in->why);
        va_start(args, format);
        text_put_list(in->why + used, in->why_size - used, format, args);
        va_end(args);
    }
    return ERR_ARGUMENT;
}

void declaration_write(struct declaration_reader *in, const char *format, ...)
{
    size_t used = in->written < DECLARATION_TEXT_BYTES ? in->written : DECLARATION_TEXT_BYTES;
    va_list args;

    va_start(args, format);
    in->written +=
        (size_t)vsnprintf(in->d->text + used, DECLARATION_TEXT_BYTES + 1 - used, format, args);
    va_end(args);
}

/* ---- words */

const char *span_shown(struct span s, char room[SPAN_SHOWN_BYTES])
{
    int most = SPAN_SHOWN_BYTES - 6;

    if (!s.length)
        return "the end of the line";
    if (s.length <= (size_t)most)
        snprintf(room, SPAN_SHOWN_BYTES, "\"%.*s\"", (int)s.length, s.at);
    else
        snprintf(room, SPAN_SHOWN_BYTES, "\"%.*s...\"", most, s.at);
    return room;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool declaration_is_letter(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("_.+-", c));
}

bool span_is_number(struct span s)
{
    size_t i = s.length && *s.at == '-', digits = s.length - i;

    while (i < s.length && is_digit(s.at[i]))
        i++;
    return digits && i == s.length;
}

bool span_number(struct span s, int64_t least, int64_t most, int64_t *out)
{
    bool negative = s.length && *s.at == '-';
    int64_t value = 0;

    if (!span_is_number(s))
        return false;
    for (size_t i = negative; i < s.length; i++) {
        int digit = s.at[i] - '0';

        if (value > (INT64_MAX - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    value = negative ? -value : value;
    if (value < least || value > most)
        return false;
    *out = value;
    return true;
}

struct span declaration_word(struct declaration_reader *in)
{
    struct span s;

    while (in->at < in->end && strchr(" \t\r,", *in->at))
        in->at++;
    s.at = in->at;
    while (in->at < in->end && !strchr(" \t\r,", *in->at))
        in->at++;
    s.length = (size_t)(in->at - s.at);
    return s;
}

struct span declaration_peek(struct declaration_reader *in)
{
    const char *at = in->at;
    struct span s = declaration_word(in);

    in->at = at;
    return s;
}

int declaration_end(struct declaration_reader *in)
{
    struct span s = declaration_word(in);

    return s.length ? declaration_wrong(in, "%s follows, where the line should end", SPAN_SHOWN(s))
                    : OK;
}

bool span_is_one_of(struct span s, const char *const *words)
{
    while (*words && !span_is(s, *words))
        words++;
    return *words;
}

/* ---- names */

static bool is_name(struct span s, bool minus)
{
    for (size_t i = 0; i < s.length; i++) {
        bool letter = s.at[i] >= 'a' && s.at[i] <= 'z';

        if (!letter && (!i || !(is_digit(s.at[i]) || s.at[i] == '_' || (minus && s.at[i] == '-'))))
            return false;
    }
    return s.length && s.length < DECLARATION_NAME_BYTES;
}

int declaration_name(struct declaration_reader *in, const char *of_what, bool minus,
                     char name[DECLARATION_NAME_BYTES])
{
    struct span s = declaration_word(in);

    if (!is_name(s, minus))
        return declaration_wrong(
            in,
            "%s stands where the name of %s should: 1 to 31 letters a-z, digits "
            "and _%s, the first a letter",
            SPAN_SHOWN(s), of_what, minus ? " or -" : "");
    memcpy(name, s.at, s.length);
    name[s.length] = 0;
    return OK;
}

int declaration_column(struct declaration_reader *in, const char *of_what,
                       char name[DECLARATION_NAME_BYTES])
{
    const struct declaration *d = in->d;
    char read[DECLARATION_NAME_BYTES];

    TRY(declaration_name(in, of_what, false, read));
    if (declaration_axis(d, read, strlen(read)) < d->axes || !strcmp(read, d->key) ||
        !strcmp(read, d->class_name))
        return declaration_wrong(in, "\"%s\" is declared twice", read);
    memcpy(name, read, sizeof(read));
    return OK;
}
