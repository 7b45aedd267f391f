/* One character at a time of text that may come from anywhere; it ends with a NUL. */
#ifndef UTF8_H
#define UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character that begins here, or 0: no UTF-8, or one that XML forbids. */
size_t utf8_bytes(const unsigned char *c);

/* Whether a character would move a terminal's cursor, end a line, or turn the order of letters. */
bool utf8_is_control(const unsigned char *c);

/* What a terminal must not get becomes question marks, byte for byte: controls and what is no
 * UTF-8.  Line feeds and tabs stay if `lines`. */
void utf8_clean(char *text, size_t length, bool lines);

/* A copy without any control, for a line of output, which one that ends lines would forge; what
 * does not fit is cut.  Returns `out`. */
const char *utf8_line(const char *text, char *out, size_t size);
/* The same of an array; the result lasts as long as the block around it. */
#define UTF8_LINE(array) utf8_line(array, (char[sizeof(array)]){ 0 }, sizeof(array))

/* How many bytes at the end of a text begin a character that they do not end. */
size_t utf8_unfinished(const char *text, size_t length);

#endif
