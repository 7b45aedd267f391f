/* Reads a table from an exported file or from a database. */
#ifndef TABLE_FILE_H
#define TABLE_FILE_H

#include "import.h"

/* Reads the entries of an exported file or of a database, and checks them as an import does.  The
 * file is closed then.  `origin` is its name in messages and in the rows of imports, for
 * instance "table.jsonl" for the path "/home/a/table.jsonl".  UNSUPPORTED: it holds no entries. */
int table_file_read(const char *path, const char *origin, struct import_table **out);

#endif
