/* The file of --space. */
#ifndef SPACE_FILE_H
#define SPACE_FILE_H

#include "declaration.h"

/* Reads what it declares, which this process knows from here on.  ERR_ARGUMENT, ERR_IO after a
 * message with the line. */
int space_file_read(const char *path, const struct declaration **out);

#endif
