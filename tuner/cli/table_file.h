/* An exported table as text, wherever it lies. */
#ifndef TABLE_FILE_H
#define TABLE_FILE_H

#include <stddef.h>

/* The file's bytes, or what exporting the database would write; ends with a zero that is not
 * counted.  The caller frees *text.  Not checked: see import.h. */
int table_file_read(const char *path, char **text, size_t *size);

#endif
