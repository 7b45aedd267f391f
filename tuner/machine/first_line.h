/* One fact out of a file of /proc or /sys. */
#ifndef FIRST_LINE_H
#define FIRST_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* What follows `begin` and blanks in the first line that begins so; false, and an empty text, if
 * there is no such line. */
bool first_line(const char *path, const char *begin, char *text, size_t size);

#endif
