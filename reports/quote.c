/* Quotes text for other languages: goes over the UTF-8 characters once, and replaces those that the
 * language would interpret. */
#include "quote.h"

#include "json.h"
#include "text.h"

#include <stdlib.h>

struct escape {
    char letter;
    const char *text;
};

static const struct escape escapes[][6] = {
    [QUOTE_PLAIN] = { { 0 } },
    [QUOTE_HTML] = { { '&', "&amp;" },
                     { '<', "&lt;" },
                     { '>', "&gt;" },
                     { '"', "&quot;" },
                     { '\'', "&#39;" },
                     { 0 } },
    /* U+2019, because gnuplot 5.4 reads '' as an apostrophe only behind a letter of the string. */
    [QUOTE_GNUPLOT] = { { '\'', "\u2019" }, { 0 } },
};

static void quote_text(const char *text, enum quote_language language, FILE *to)
{
    const unsigned char *c = (const unsigned char *)text;

    while (*c) {
        size_t count = utf8_bytes(c);
        const struct escape *e = escapes[language];

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

void quote_write(FILE *to, enum quote_language language, const char *format, ...)
{
    const char *string_mark = language == QUOTE_GNUPLOT ? "'" : "";
    struct json_text number = { 0 };
    va_list args;

    va_start(args, format);
    for (; *format; format++) {
        if (*format == '\'' && language == QUOTE_HTML) {
            putc('"', to);
        } else if (*format != '%' || *++format == '%') {
            putc(*format, to);
        } else if (*format == 's') {
            fputs(string_mark, to);
            quote_text(va_arg(args, const char *), language, to);
            fputs(string_mark, to);
        } else {
            number.used = 0;
            format = json_add_argument(&number, format - 1, &args) - 1;
            fwrite(number.bytes, 1, number.used, to);
        }
    }
    va_end(args);
    free(number.bytes);
}
