/* An exported table, wherever it lies. */
#ifndef TABLE_FILE_H
#define TABLE_FILE_H

#include "import.h"

/* Reads the entries of an exported file or of a database.  They are checked as if they were to be
 * imported, and need the file no more.  `origin` is what messages and the imports' rows call it.
 * UNSUPPORTED: it holds none. */
int table_file_read(const char *path, const char *origin, struct import_table **out);

#endif
