/* Makes a fresh database of what readers need, checks it, and renames it into place. */
#include "publish.h"

#include "output_file.h"
#include "schema.h"
#include "seal.h"
#include "status.h"
#include "store.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

static int copy(sqlite3 *db, const char *path, const char *temporary)
{
    TRY(schema_run(db, temporary, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF"));
    TRY(schema_migrate(db, temporary, 0, STORE_VERSION, schema_steps));
    TRY(schema_attach(db, path));
    TRY(schema_run(db, temporary, "BEGIN"));
    for (int i = 0; schema_published[i]; i++) {
        char sql[160];

        snprintf(sql, sizeof(sql), "INSERT INTO main.%s SELECT * FROM source.%s",
                 schema_published[i], schema_published[i]);
        TRY(schema_run(db, temporary, sql));
    }
    return schema_run(db, temporary, "COMMIT; DETACH source");
}

static int check(sqlite3 *db, const char *path)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, "PRAGMA integrity_check(1)", -1, &statement, NULL);
    bool fine;

    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    fine = code == SQLITE_ROW && !strcmp((const char *)sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    return fine ? OK : fail(ERR_IO, "%s did not come out whole; the old snapshot stays", path);
}

static int make(const char *path, const char *temporary)
{
    sqlite3 *db = NULL;
    int code = sqlite3_open_v2(temporary, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    int rc = code == SQLITE_OK ? OK : schema_status(db, code, temporary, "cannot be made");

    sqlite3_busy_timeout(db, 5000);
    if (!rc)
        rc = copy(db, path, temporary);
    if (!rc)
        rc = check(db, temporary);
    sqlite3_close(db);
    return rc;
}

int publish(const char *path, bool relaxed)
{
    struct output_file file;
    char final[PATH_MAX];
    int rc;

    if (snprintf(final, sizeof(final), "%s.published", path) >= (int)sizeof(final))
        return fail(ERR_ARGUMENT, "%.60s...: the name is too long", path);
    output_remove_leftovers(final);
    TRY(output_begin(final, &file));
    rc = make(path, file.temporary);
    if (!rc && seal_append(fileno(file.to)))
        rc = fail(ERR_IO, "%s cannot be sealed: %s", file.temporary, strerror(errno));
    return output_end(&file, rc, path, !relaxed);
}

int publish_dry_run(const char *path)
{
    bool heard = log_only(false);
    int rc = make(path, ":memory:");

    log_only(heard);
    return rc ? fail(ERR_CORRUPT, "%s is damaged (it could not be published)", path) : OK;
}
