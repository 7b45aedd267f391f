/* One walk over UTF-8, and what each language cannot take as it is. */
#include "quote.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct escape {
    char letter;
    const char *text;
};

static const struct escape html[] = { { '&', "&amp;" },  { '<', "&lt;" },   { '>', "&gt;" },
                                      { '"', "&quot;" }, { '\'', "&#39;" }, { 0 } };
static const struct escape gnuplot[] = { { '\'', "''" }, { 0 } };
static const struct escape plain[] = { { 0 } };

/* Bytes of the character that begins here, or 0: no UTF-8, or one that XML forbids. */
static size_t character(const unsigned char *c)
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

static bool is_control(const unsigned char *c)
{
    return *c < 0x20 || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0);
}

static void put(const unsigned char *c, size_t count, const struct escape *escapes, FILE *to)
{
    for (; escapes->letter; escapes++)
        if (*c == (unsigned char)escapes->letter) {
            fputs(escapes->text, to);
            return;
        }
    fwrite(c, 1, count, to);
}

static void walk(const char *text, const struct escape *escapes, FILE *to)
{
    const unsigned char *c = (const unsigned char *)text;

    while (*c) {
        size_t count = character(c);

        if (!count)
            putc('?', to);
        else if (is_control(c))
            putc(' ', to);
        else
            put(c, count, escapes, to);
        c += count ? count : 1;
    }
}

void quote_plain(const char *text, FILE *to)
{
    walk(text, plain, to);
}

void quote_html(const char *text, FILE *to)
{
    walk(text, html, to);
}

void quote_gnuplot(const char *text, FILE *to)
{
    putc('\'', to);
    walk(text, gnuplot, to);
    putc('\'', to);
}
