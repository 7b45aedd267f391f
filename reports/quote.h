/* Quotes text from a database for HTML, for gnuplot and for a terminal, so that it has no effect
 * there.  Control characters become blanks; bytes that are no UTF-8 become question marks. */
#ifndef QUOTE_H
#define QUOTE_H

#include <stdio.h>

enum quote_language {
    QUOTE_PLAIN,
    QUOTE_HTML, /* in content, and in attributes in double quotes */
    /* As a string in single quotes, which are written, too.  gnuplot expands nothing inside single
     * quotes, not even commands in backticks. */
    QUOTE_GNUPLOT
};

/* Writes a format as json_write() does, with every %s quoted for the language.  In a format for
 * HTML alone, ' stands for ": "<td class='n'>%s</td>". */
void quote_write(FILE *to, enum quote_language language, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define quote_plain(text, to) quote_write(to, QUOTE_PLAIN, "%s", text)
#define html_write(to, ...) quote_write(to, QUOTE_HTML, __VA_ARGS__)
#define gnuplot_write(to, ...) quote_write(to, QUOTE_GNUPLOT, __VA_ARGS__)

#endif
