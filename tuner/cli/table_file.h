/* An exported table, wherever it lies. */
#ifndef TABLE_FILE_H
#define TABLE_FILE_H

#include "import.h"

/* The file's entries, or those of the database; checked as if they were to come in, and free of the
 * file.  `origin` is what messages and the imports' rows call it.  UNSUPPORTED: it holds none. */
int table_file_read(const char *path, const char *origin, struct import_table **out);

#endif
