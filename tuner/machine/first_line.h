/* One fact out of a file of /proc or /sys. */
#ifndef FIRST_LINE_H
#define FIRST_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* The value in the first line that says "NAME: value", with blanks wherever; without a name ("")
 * that line itself.  False, and an empty text, if there is no such line. */
bool first_line(const char *path, const char *name, char *text, size_t size);

#endif
