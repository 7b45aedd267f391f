/* Text from a database on its way into other languages: it stays text.  Control characters become
 * blanks, bytes that are no UTF-8 question marks. */
#ifndef QUOTE_H
#define QUOTE_H

#include <stdio.h>

void quote_plain(const char *text, FILE *to);
void quote_html(const char *text, FILE *to); /* for content and for attributes in double quotes */
/* Writes the quotes as well.  They are single ones: gnuplot expands nothing inside them, no
 * commands in backticks. */
void quote_gnuplot(const char *text, FILE *to);

#endif
