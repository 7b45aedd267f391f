/* Reads numbers. */
#include "number.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

bool number_read(const char *text, const char **end, double *value)
{
    const char *digits = text + (*text == '-');
    double read;
    char *rest;

    digits += *digits == '.';
    if (!isdigit((unsigned char)*digits) || (digits[0] == '0' && (digits[1] | 0x20) == 'x'))
        return false;
    read = strtod(text, &rest);
    if (!isfinite(read) || (!end && *rest))
        return false;
    if (end)
        *end = rest;
    *value = read;
    return true;
}
