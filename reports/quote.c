/* Quotes text for other languages: one walk over UTF-8, with the characters that each language
 * cannot take as they are. */
#include "quote.h"

#include "text.h"

struct escape {
    char letter;
    const char *text;
};

static void walk(const char *text, const struct escape *escapes, FILE *to)
{
    const unsigned char *c = (const unsigned char *)text;

    while (*c) {
        size_t count = utf8_bytes(c);
        const struct escape *e = escapes;

        while (e->letter && *c != (unsigned char)e->letter)
            e++;
        if (!count)
            putc('?', to);
        else if (utf8_is_control(c))
            putc(' ', to);
        else if (e->letter)
            fputs(e->text, to);
        else
            fwrite(c, 1, count, to);
        c += count ? count : 1;
    }
}

void quote_plain(const char *text, FILE *to)
{
    static const struct escape none[] = { { 0 } };

    walk(text, none, to);
}

void quote_html(const char *text, FILE *to)
{
    static const struct escape html[] = { { '&', "&amp;" },  { '<', "&lt;" },   { '>', "&gt;" },
                                          { '"', "&quot;" }, { '\'', "&#39;" }, { 0 } };

    walk(text, html, to);
}

void quote_gnuplot(const char *text, FILE *to)
{
    /* U+2019: gnuplot 5.4 takes '' for an apostrophe only behind a letter of the same string. */
    static const struct escape gnuplot[] = { { '\'', "\u2019" }, { 0 } };

    putc('\'', to);
    walk(text, gnuplot, to);
    putc('\'', to);
}
