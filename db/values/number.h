/* Numbers that people write. */
#ifndef NUMBER_H
#define NUMBER_H

#include <stdbool.h>

/* "12", "-.5", "1e-3": digits, at most one point and an exponent.  False for what strtod() takes
 * besides: blanks and a plus before it, hexadecimal digits, nan and infinity, what is too large.
 * `end` NULL: nothing may stand behind it; else it is set to what does. */
bool number_read(const char *text, const char **end, double *value);

#endif
