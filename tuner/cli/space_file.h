/* The file of --space, and what --key and --class ask it. */
#ifndef SPACE_FILE_H
#define SPACE_FILE_H

#include "declaration.h"

/* Reads the space that the file declares; from here on this process knows it.  ERR_ARGUMENT, ERR_IO
 * after a message with the line. */
int space_file_read(const char *path, const struct declaration **out);

/* A word with a dot or a slash, which no name of a space has, is a file: it becomes the name of the
 * space that the file declares, with its signature, in `room`.  Errors as above. */
enum { SPACE_NAME_BYTES = DECLARATION_NAME_BYTES + 9 };
int space_name_of(const char **name, char room[SPACE_NAME_BYTES]);

/* Read the values of --key, as `option` names it, and --class.  ERR_ARGUMENT after a message. */
int space_key_read(const char *option, const char *text, uint64_t *key);
int space_class_read(const char *text, double *class_value);

#endif
