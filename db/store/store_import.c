/* Rows that say which exported tables came in. */
#include "store_inside.h"

#include "status.h"

#include <time.h>

int store_import(struct store *store, const struct import_row *row)
{
    int64_t id;

    TRY(records_next_id(&store->records, "import_log", &id));
    return PUT(store, "import_log", INTEGER("id", id), TEXT("sha256", row->sha256),
               TEXT("file", row->file), INTEGER("imported_s", time(NULL)),
               INTEGER("added", row->added), INTEGER("same", row->same),
               INTEGER("conflicts", row->conflicts));
}

int store_import_known(struct store *store, const char *sha256, bool *known)
{
    int64_t id;
    int rc = records_find_text(&store->records, "SELECT id FROM import_log WHERE sha256=?1", sha256,
                               &id);

    *known = rc == OK;
    return rc < 0 ? rc : OK;
}
