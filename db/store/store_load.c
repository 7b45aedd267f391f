/* Rows of loads: what stands behind their names. */
#include "store_inside.h"

#include "status.h"
#include "text.h"

#include <stdio.h>

int store_load(struct store *store, const char *name, const char *text)
{
    return PUT(store, "load", TEXT("name", name), TEXT("text", text));
}

int store_load_get(struct store *store, const char *name, char *text, size_t size)
{
    sqlite3_stmt *s;
    int rc = OK;

    TRY(records_query(&store->records, "SELECT text FROM load WHERE name=?1", NULL, 0, &s));
    sqlite3_bind_text(s, 1, name, -1, SQLITE_TRANSIENT);
    TRY(records_step(&store->records, s));
    if (!text_put(text, size, "%s", (const char *)sqlite3_column_text(s, 0)))
        rc = fail(ERR_CORRUPT, "%s: the load %s has more than %zu letters", store->path, name,
                  size - 1);
    sqlite3_reset(s);
    return rc;
}
