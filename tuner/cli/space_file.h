/* Reads the file that --space names, and the values of --key and --class. */
#ifndef SPACE_FILE_H
#define SPACE_FILE_H

#include "declaration.h"

/* Reads the space that the file declares, and registers it for this process; *out lives as long.
 * ERR_ARGUMENT or ERR_IO after a message with the line. */
int space_file_read(const char *path, const struct declaration **out);

/* Replaces a file name by the name of the space that the file declares, with its number:
 * "knobs@1234abcd", in `buffer`.  A word with a dot or a slash is a file; no space has such a name.
 * Errors as above. */
enum { SPACE_NAME_BYTES = DECLARATION_NAME_BYTES + 9 };
int space_name_of(const char **name, char buffer[SPACE_NAME_BYTES]);

/* Read the value of --key, which the verb may call `option`, and of --class.  ERR_ARGUMENT after a
 * message. */
int space_key_read(const char *option, const char *text, uint64_t *key);
int space_class_read(const char *text, double *class_value);

#endif
