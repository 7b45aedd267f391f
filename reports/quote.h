/* Text from a database on its way into other languages: it stays text.  Control characters become
 * blanks, bytes that are no UTF-8 question marks. */
#ifndef QUOTE_H
#define QUOTE_H

#include <stdio.h>

enum quote_language {
    QUOTE_PLAIN,
    QUOTE_HTML, /* in content, and in attributes in double quotes */
    /* In single quotes, which are written, too: gnuplot expands nothing inside them, no commands in
     * backticks. */
    QUOTE_GNUPLOT
};

/* Writes as json_write() does: every %s is quoted as the language wants it, numbers are those of
 * JSON.  In HTML, and nowhere else, ' stands for ": "<td class='n'>%s</td>". */
void quote_write(FILE *to, enum quote_language language, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define quote_plain(text, to) quote_write(to, QUOTE_PLAIN, "%s", text)
#define html_write(to, ...) quote_write(to, QUOTE_HTML, __VA_ARGS__)
#define gnuplot_write(to, ...) quote_write(to, QUOTE_GNUPLOT, __VA_ARGS__)

#endif
