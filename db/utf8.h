/* One character at a time of text that may come from anywhere; it ends with a NUL. */
#ifndef UTF8_H
#define UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character that begins here, or 0: no UTF-8, or one that XML forbids. */
size_t utf8_bytes(const unsigned char *c);

/* Of one that is: it would move a terminal's cursor, or end a line. */
bool utf8_is_control(const unsigned char *c);

#endif
