/* The values of options, by their kind. */
#ifndef OPTION_VALUES_H
#define OPTION_VALUES_H

#include "options.h"

/* Puts it where the flat row says.  ERR_ARGUMENT after what is wanted; then nothing is changed. */
int option_take(const struct option_row *row, const char *text, void *target);

/* "512MiB", "2GiB", "1234"; false: it is no size above 0, and *bytes is untouched. */
bool bytes_read(const char *text, int64_t *bytes);

/* It says something else than the defaults do. */
bool option_is_given(const struct option_row *row, const void *options, const void *defaults);

/* What a flat row says of its option, with the default in brackets (NULL: there are none). */
void option_describe(const struct option_row *row, const void *defaults, char *text, size_t size);

#endif
