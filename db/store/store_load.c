/* Rows of loads: what stands behind their names. */
#include "store_inside.h"

#include "status.h"

#include <stdio.h>

int store_load(struct store *store, const char *name, const char *text)
{
    return PUT(store, "load", TEXT("name", name), TEXT("text", text));
}

int store_load_get(struct store *store, const char *name, char *text, size_t size)
{
    sqlite3_stmt *s;

    TRY(records_query(&store->records, "SELECT text FROM load WHERE name=?1", NULL, 0, &s));
    sqlite3_bind_text(s, 1, name, -1, SQLITE_TRANSIENT);
    TRY(records_step(&store->records, s));
    snprintf(text, size, "%s", (const char *)sqlite3_column_text(s, 0));
    sqlite3_reset(s);
    return OK;
}
