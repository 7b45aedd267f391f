/* A table's text out of whatever holds one. */
#include "table_file.h"

#include "export.h"
#include "status.h"
#include "store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 30 };

static int read_bytes(FILE *file, const char *path, char **text, size_t *size)
{
    size_t room = 1 << 16, used = 0, n;
    char *bytes = malloc(room), *more;

    while (bytes && (n = fread(bytes + used, 1, room - used, file)) > 0) {
        used += n;
        if (used < room)
            continue;
        more = room < FILE_BYTES_MAX ? realloc(bytes, room *= 2) : NULL;
        if (!more)
            free(bytes);
        bytes = more;
    }
    if (!bytes)
        return fail(ERR_IO, "%s: has more than %d MiB", path, FILE_BYTES_MAX >> 20);
    if (ferror(file)) {
        free(bytes);
        return fail(ERR_IO, "%s: %s", path, strerror(errno));
    }
    bytes[used] = 0;
    *text = bytes;
    *size = used;
    return OK;
}

/* A foreign database is never attached: it is read as any other, and goes the way of a file. */
static int read_database(const char *path, char **text, size_t *size)
{
    struct export_options all = { 0 };
    struct store *store;
    FILE *memory;
    int rc;

    TRY(store_read(path, &store));
    memory = open_memstream(text, size);
    rc = memory ? export_lines(store, &all, memory) : fail(ERR_NOMEM, "%s", path);
    if (memory)
        fclose(memory);
    store_close(store);
    if (rc)
        free(*text);
    return rc;
}

int table_file_read(const char *path, char **text, size_t *size)
{
    char head[16] = "";
    FILE *file = fopen(path, "re");
    int rc;

    if (!file)
        return fail(ERR_IO, "%s: %s", path, strerror(errno));
    if (fread(head, 1, 15, file) == 15 && !strcmp(head, "SQLite format 3")) {
        fclose(file);
        return read_database(path, text, size);
    }
    rewind(file);
    rc = read_bytes(file, path, text, size);
    fclose(file);
    return rc;
}
