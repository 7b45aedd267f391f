/* Reads a table's text from a file, or exports it from a database. */
#include "table_file.h"

#include "export.h"
#include "input_file.h"
#include "status.h"
#include "store.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Larger files are refused.  1,024 bytes for each of the ENTRIES_MAX entries of an import
 * (db/exchange/import.c); most entries have 600. */
static const size_t FILE_BYTES_MAX = 4294967296; /* 4 GiB */

/* Exports a database to text in memory.  A foreign database is never attached, so it goes through
 * the same checks as an exported file. */
static int read_database(const char *path, char **text, size_t *size)
{
    struct export_options everything = { 0 }; /* no filter */
    struct store *store;
    FILE *memory;
    int rc;

    *text = NULL;
    TRY(store_read(path, &store));
    memory = open_memstream(text, size);
    rc = memory ? export_lines(store, &everything, memory) : fail(ERR_NOMEM, "%s", path);
    if (memory && fclose(memory) && !rc)
        rc = fail(ERR_NOMEM, "%s", path);
    store_close(store);
    if (rc)
        free(*text);
    return rc;
}

static bool is_database(const char *path)
{
    static const char mark[] = "SQLite format 3"; /* ends with a NUL byte, also in the file */
    char head[sizeof(mark)] = "";
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool has_mark;

    if (fd < 0)
        return false;
    has_mark = pread(fd, head, sizeof(head), 0) == sizeof(head) && !strcmp(head, mark);
    close(fd);
    return has_mark;
}

int table_file_read(const char *path, const char *origin, struct import_table **out)
{
    size_t size = 0;
    char *text = NULL;
    int rc;

    if (is_database(path))
        TRY(read_database(path, &text, &size));
    else
        TRY(input_read_if(path, FILE_BYTES_MAX, IMPORT_HEAD, import_is_begun, &text, &size));
    rc = import_read(text, size, origin, out);
    free(text);
    return rc;
}
