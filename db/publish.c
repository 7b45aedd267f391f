/* A fresh database with what readers need, checked, then renamed into place. */
#include "publish.h"

#include "schema.h"
#include "status.h"
#include "store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What an earlier publisher left when it was killed. */
static void remove_leftovers(const char *path)
{
    char folder_of[PATH_MAX], name_of[PATH_MAX], prefix[PATH_MAX];
    const char *folder, *name;
    struct dirent *file;
    DIR *list;

    snprintf(folder_of, sizeof(folder_of), "%s", path);
    snprintf(name_of, sizeof(name_of), "%s", path);
    folder = dirname(folder_of);
    name = basename(name_of);
    if (snprintf(prefix, sizeof(prefix), "%s.publish-", name) >= (int)sizeof(prefix))
        return;
    list = opendir(folder);
    while (list && (file = readdir(list))) {
        char whole[PATH_MAX];
        long owner;

        if (strncmp(file->d_name, prefix, strlen(prefix)) != 0)
            continue;
        owner = atol(file->d_name + strlen(prefix));
        if (owner > 0 && owner != getpid() && !kill((pid_t)owner, 0))
            continue;
        if (snprintf(whole, sizeof(whole), "%s/%s", folder, file->d_name) < (int)sizeof(whole))
            unlink(whole);
    }
    if (list)
        closedir(list);
}

static int attach(sqlite3 *db, const char *path)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, "ATTACH ?1 AS source", -1, &statement, NULL);

    if (code == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, path, -1, SQLITE_TRANSIENT);
        code = sqlite3_step(statement);
    }
    sqlite3_finalize(statement);
    return code == SQLITE_DONE ? OK : schema_status(db, code, path, "cannot be read");
}

static int copy(sqlite3 *db, const char *path, const char *temporary)
{
    TRY(schema_run(db, temporary, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF"));
    TRY(schema_migrate(db, temporary, 0, STORE_VERSION, schema_steps));
    TRY(attach(db, path));
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

/* Bytes of a file, or names of a folder, onto the disk. */
static int sync_path(const char *path, int flags)
{
    int fd = open(path, flags | O_RDONLY | O_CLOEXEC), rc = OK;

    if (fd < 0)
        return fail(ERR_IO, "%s: %s", path, strerror(errno));
    if (fsync(fd) && errno != EINVAL)
        rc = fail(ERR_IO, "%s: %s", path, strerror(errno));
    close(fd);
    return rc;
}

int publish(const char *path, bool relaxed)
{
    char temporary[PATH_MAX], final[PATH_MAX], folder[PATH_MAX];
    int rc;

    if (snprintf(temporary, sizeof(temporary), "%s.publish-%ld.tmp", path, (long)getpid()) >=
            (int)sizeof(temporary) ||
        snprintf(final, sizeof(final), "%s.published", path) >= (int)sizeof(final))
        return fail(ERR_ARGUMENT, "%s: the name is too long", path);
    snprintf(folder, sizeof(folder), "%s", path);
    remove_leftovers(path);
    rc = make(path, temporary);
    if (!rc && !relaxed)
        rc = sync_path(temporary, 0);
    if (!rc && rename(temporary, final))
        rc = fail(ERR_IO, "%s: %s", final, strerror(errno));
    if (rc) {
        unlink(temporary);
        return rc;
    }
    return relaxed ? OK : sync_path(dirname(folder), O_DIRECTORY);
}
