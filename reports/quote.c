/* Quotes text for HTML and gnuplot: one walk over UTF-8, with the characters that each language
 * cannot take as they are. */
#include "quote.h"

#include "text.h"

#include <stddef.h>

struct escape {
    char letter;
    const char *text;
};

static const struct escape html[] = { { '&', "&amp;" },  { '<', "&lt;" },   { '>', "&gt;" },
                                      { '"', "&quot;" }, { '\'', "&#39;" }, { 0 } };
static const struct escape gnuplot[] = { { '\'', "''" }, { 0 } };
static const struct escape plain[] = { { 0 } };

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
        size_t count = utf8_bytes(c);

        if (!count)
            putc('?', to);
        else if (utf8_is_control(c))
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
