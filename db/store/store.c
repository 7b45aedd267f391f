/* Opens and closes the database, commits, and publishes snapshots. */
#include "store_inside.h"

#include "declaration.h"
#include "output_file.h"
#include "schema.h"
#include "seal.h"
#include "status.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int store_beside(const char *path, const char *ending, char out[PATH_MAX])
{
    return text_put(out, PATH_MAX, "%s%s", path, ending)
               ? OK
               : fail(ERR_ARGUMENT, "%.60s...%s: the name is too long", path, ending);
}

/* Makes the file before SQLite does, which would give it another mode than all other files here. */
static int make_missing_file(const char *path)
{
    int fd;

    if (!access(path, F_OK))
        return OK;
    TRY(output_open(path, O_RDWR, NULL, &fd));
    close(fd);
    return OK;
}

enum { BUSY_MS = 5000 }; /* how long SQLite waits for another program */

static int open_file(struct store *store, const char *path, int flags)
{
    int code = sqlite3_open_v2(path, &store->records.db, flags, NULL);

    if (code != SQLITE_OK && (code & 0xff) == SQLITE_CANTOPEN)
        return fail(ERR_IO, "%s cannot be opened: %s", path,
                    errno ? strerror(errno) : sqlite3_errmsg(store->records.db));
    if (code != SQLITE_OK)
        return schema_status(store->records.db, code, path, "cannot be opened");
    sqlite3_busy_timeout(store->records.db, BUSY_MS);
    sqlite3_extended_result_codes(store->records.db, 1);
    store->records.path = store->path;
    return OK;
}

/* Opens the database to read. The connection changes nothing, but SQLite first takes back what a
 * killed writer had begun, and for that it wants to write. Where it may not write and need not,
 * reading works all the same. */
static int open_to_read(struct store *store)
{
    TRY(open_file(store, store->path, SQLITE_OPEN_READWRITE));
    return schema_run(store->records.db, store->path, "PRAGMA query_only=ON");
}

static int migrate_file(struct store *store, int version)
{
    const char *settings = store->records.relaxed
                               ? "PRAGMA journal_mode=DELETE; PRAGMA synchronous=OFF"
                               : "PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL";

    TRY(schema_run(store->records.db, store->path, settings));
    return schema_migrate(store->records.db, store->path, version, STORE_VERSION, schema_steps);
}

static int read_spaces(struct store *store)
{
    const struct declaration *d;
    sqlite3_stmt *s;
    int rc;

    TRY(records_query(&store->records, "SELECT text FROM space ORDER BY id", NULL, 0, &s));
    while (!(rc = records_step(&store->records, s)))
        if (declaration_register((const char *)sqlite3_column_text(s, 0), &d)) {
            sqlite3_reset(s);
            return schema_damaged(store->path, "a space that cannot be read");
        }
    return rc == UNSUPPORTED ? OK : rc;
}

/* ---- The snapshot for readers. */

static int copy_published(sqlite3 *db, const char *path, const char *temporary)
{
    TRY(schema_run(db, temporary, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF"));
    TRY(schema_migrate(db, temporary, 0, STORE_VERSION, schema_steps));
    TRY(schema_attach(db, path));
    TRY(schema_run(db, temporary, "BEGIN"));
    for (int i = 0; schema_published[i]; i++) {
        const char *table = schema_published[i];
        char sql[160];

        if (!schema_has(db, "source", table))
            continue;
        TRY(schema_make(db, temporary, table));
        snprintf(sql, sizeof(sql), "INSERT INTO main.%s SELECT * FROM source.%s", table, table);
        TRY(schema_run(db, temporary, sql));
    }
    TRY(schema_run(db, temporary, "COMMIT; DETACH source"));
    return schema_show_plans(db, temporary);
}

/* Makes a new database of what readers need, and checks it. */
static int make_snapshot(const char *path, const char *temporary)
{
    sqlite3 *db = NULL;
    int code = sqlite3_open_v2(temporary, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    int rc = code == SQLITE_OK ? OK : schema_status(db, code, temporary, "cannot be made");
    char answer[8] = "";
    bool was_enabled;

    sqlite3_busy_timeout(db, BUSY_MS);
    if (!rc)
        rc = copy_published(db, path, temporary);
    if (!rc) {
        was_enabled = log_enable(false);
        rc = schema_ask(db, temporary, "PRAGMA integrity_check(1)", answer, sizeof(answer));
        log_enable(was_enabled);
        if (rc || strcmp(answer, "ok") != 0)
            rc = fail(ERR_IO, "%s is damaged right after it was written; the old snapshot stays",
                      temporary);
    }
    sqlite3_close(db);
    return rc;
}

int store_publish(struct store *store)
{
    struct output_file file;
    char final[PATH_MAX];
    int rc;

    TRY(store_commit(store));
    TRY(store_beside(store->path, ".published", final));
    output_remove_leftovers(final);
    TRY(output_begin(final, &file));
    rc = make_snapshot(store->path, file.temporary);
    if (!rc && seal_append(fileno(file.to)))
        rc = fail(ERR_IO, "%s cannot be sealed: %s", file.temporary, strerror(errno));
    return output_end(&file, rc, store->path, !store->records.relaxed);
}

/* ---- Opening. */

/* Checks the file as far as that is possible without changing it. */
static int check_file(struct store *store, int *version)
{
    char answer[512];

    TRY(schema_check(store->records.db, store->path, version));
    if (!*version)
        return OK;
    TRY(schema_ask(store->records.db, store->path, "PRAGMA quick_check(1)", answer,
                   sizeof(answer)));
    return strcmp(answer, "ok") ? schema_damaged(store->path, answer) : OK;
}

/* Checks that every table can be read and published. *version 0: the file is empty. */
static int check_every_table(struct store *store, int *version)
{
    bool was_enabled = log_enable(false);
    int rc = open_file(store, store->path, SQLITE_OPEN_READWRITE);

    if (!rc)
        rc = check_file(store, version);
    if (!rc && *version)
        rc = migrate_file(store, *version);
    log_enable(was_enabled);
    if (rc || !*version)
        return rc;
    TRY(repair_check(&store->records));
    log_enable(false);
    rc = make_snapshot(store->path, ":memory:");
    log_enable(was_enabled);
    return rc && rc != ERR_NOMEM
               ? fail(ERR_CORRUPT, "%s is damaged (it could not be published)", store->path)
               : rc;
}

static int fill_new_database(struct store *store, const char *aside, size_t *skipped)
{
    TRY(make_missing_file(store->path));
    TRY(open_file(store, store->path, SQLITE_OPEN_READWRITE));
    TRY(migrate_file(store, 0));
    return repair_fill(&store->records, aside, skipped);
}

static int rebuild_database(struct store *store)
{
    char aside[PATH_MAX] = "", journal[PATH_MAX], old_journal[PATH_MAX];
    size_t skipped;
    int rc;

    TRY(store_beside(store->path, ".journal", journal));
    if (!access(store->path, F_OK))
        TRY(repair_set_aside(store->path, aside, sizeof(aside)));
    rc = fill_new_database(store, aside, &skipped);
    if (rc) {
        /* Half a database would pass for a sound one, and no later repair would fill it. */
        records_close(&store->records);
        repair_put_back(store->path, aside);
        return rc;
    }
    if (skipped)
        TRY(repair_set_aside(journal, old_journal, sizeof(old_journal)));
    return repair_journal(&store->records);
}

static bool has_journal(const struct store *store)
{
    char path[PATH_MAX];

    return !store_beside(store->path, ".journal", path) && !access(path, F_OK);
}

/* Returns whether the database is sound but of a version that is not read. No repair can change
 * that. */
static bool is_of_another_version(struct store *store, int version)
{
    char answer[512] = "";
    bool was_enabled = log_enable(false);

    if (version && (version < STORE_OLDEST || version > STORE_VERSION))
        (void)schema_ask(store->records.db, store->path, "PRAGMA quick_check(1)", answer,
                         sizeof(answer));
    log_enable(was_enabled);
    return !strcmp(answer, "ok");
}

/* Rebuilds a damaged database. One that is missing or empty beside a journal counts as damaged. */
static int repair_if_damaged(struct store *store)
{
    bool relaxed = store->records.relaxed;
    int version = 0, rc;

    if (!schema_is_ours(store->path))
        return OK;
    rc = check_every_table(store, &version);
    if (is_of_another_version(store, version))
        rc = OK; /* opening it prints the reason */
    else if (rc != ERR_BUSY && rc != ERR_NOMEM && (rc || (!version && has_journal(store)))) {
        records_close(&store->records);
        store->records.relaxed = relaxed;
        rc = rebuild_database(store);
    }
    records_close(&store->records);
    store->records.relaxed = relaxed;
    return rc;
}

static int open_for_writing(struct store *store, unsigned flags)
{
    char journal[PATH_MAX];
    int version = 0, fd;

    store->records.relaxed = (flags & STORE_RELAXED) != 0;
    if (flags & STORE_REPAIR)
        TRY(repair_if_damaged(store));
    TRY(make_missing_file(store->path));
    TRY(open_file(store, store->path, SQLITE_OPEN_READWRITE));
    TRY(check_file(store, &version));
    TRY(migrate_file(store, version));
    /* The database was copied without its journal. New lines alone would refer to rows that the
     * journal lacks. */
    if (version && !has_journal(store))
        TRY(repair_journal(&store->records));
    TRY(read_spaces(store));
    TRY(store_beside(store->path, ".journal", journal));
    TRY(output_open(journal, O_WRONLY | O_APPEND, store->path, &fd));
    store->records.journal = fdopen(fd, "a");
    if (store->records.journal)
        return OK;
    close(fd);
    return fail(ERR_NOMEM, "%s", journal);
}

/* Checks that the path can be a database, so that no file is made beside anything else. */
static int check_is_regular_file(const char *path)
{
    struct stat info;
    bool exists = !stat(path, &info);

    if (exists && S_ISDIR(info.st_mode))
        return fail(ERR_IO, "%s is a folder: name a file in it", path);
    if (exists && !S_ISREG(info.st_mode))
        return fail(ERR_IO, "%s is no regular file: it is left as it is", path);
    return OK;
}

static int new_store(const char *path, struct store **out)
{
    struct store *store;
    const char *prefix;

    TRY(check_is_regular_file(path));
    store = calloc(1, sizeof(*store));
    if (!store)
        return fail(ERR_NOMEM, "a store");
    store->lease.fd = -1;
    /* SQLite does not take ":memory:" and "file:x" for names of files. */
    prefix = *path == ':' || !strncmp(path, "file:", 5) ? "./" : "";
    if (snprintf(store->path, sizeof(store->path), "%s%s", prefix, path) >=
        (int)sizeof(store->path)) {
        free(store);
        return fail(ERR_ARGUMENT, "%.60s...: the name is too long", path);
    }
    *out = store;
    return OK;
}

int store_open(const char *path, unsigned flags, struct store **out)
{
    size_t name_bytes_max = NAME_MAX - strlen(".damaged-9999");
    struct store *store = NULL;
    char owner[PATH_MAX], other_file[PATH_MAX];
    const char *slash, *name;
    int rc;

    TRY(new_store(path, &store));
    slash = strrchr(store->path, '/');
    name = slash ? slash + 1 : store->path;
    /* The files beside the database have longer names. Better no run than one whose table has
     * no place. */
    if (strlen(name) > name_bytes_max) {
        rc = fail(ERR_ARGUMENT, "%.60s...: a database's name has at most %zu letters", name,
                  name_bytes_max);
        goto out;
    }
    /* Report now that a file has no place, and not after everything is measured. */
    TRY_OUT(store_beside(store->path, ".journal", other_file));
    TRY_OUT(output_check(other_file));
    TRY_OUT(store_beside(store->path, ".published", other_file));
    TRY_OUT(output_check(other_file));
    TRY_OUT(store_beside(store->path, ".owner", owner));
    TRY_OUT(lease_acquire(owner, store->path, (flags & STORE_STEAL) != 0, &store->lease));
    TRY_OUT(open_for_writing(store, flags));
    *out = store;
    return OK;
out:
    store_close(store);
    return rc;
}

/* Copies the database into memory and migrates the copy, because a reader must not change an older
 * file. */
static int migrate_in_memory(struct store *store, int version)
{
    sqlite3_backup *backup;
    sqlite3 *memory;
    int code = sqlite3_open(":memory:", &memory);

    backup =
        code == SQLITE_OK ? sqlite3_backup_init(memory, "main", store->records.db, "main") : NULL;
    if (backup) {
        sqlite3_backup_step(backup, -1);
        code = sqlite3_backup_finish(backup);
    }
    if (!backup || code != SQLITE_OK) {
        sqlite3_close(memory);
        return fail(ERR_IO, "%s cannot be read", store->path);
    }
    records_switch(&store->records, memory);
    return schema_migrate(memory, store->path, version, STORE_VERSION, schema_steps);
}

static int finish_reading(struct store *store, int rc, struct store **out)
{
    if (!rc)
        rc = read_spaces(store);
    if (rc)
        store_close(store);
    else
        *out = store;
    return rc;
}

static int read_database(const char *path, struct store **out)
{
    struct store *store = NULL;
    int version = 0, rc;

    TRY(new_store(path, &store));
    rc = open_to_read(store);
    if (!rc)
        rc = check_file(store, &version);
    if (!rc && version && version < STORE_VERSION)
        rc = migrate_in_memory(store, version);
    if (!rc && !version) {
        note("%s is empty", path);
        rc = UNSUPPORTED;
    }
    return finish_reading(store, rc, out);
}

int store_dry_run(const char *path, struct store **out)
{
    struct store *store = NULL;
    int version = 0, rc;

    TRY(new_store(path, &store));
    if (access(path, F_OK))
        rc = open_file(store, ":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    else if (!(rc = open_to_read(store)))
        rc = check_file(store, &version);
    if (!rc)
        rc = migrate_in_memory(store, version);
    return finish_reading(store, rc, out);
}

/* Returns whether the database cannot be read at this moment: a writer is in a commit, or was
 * killed there and left what this process may not take back. */
static bool cannot_be_read_now(const char *path)
{
    struct store *store = NULL;
    bool was_enabled = log_enable(false);
    int rc = read_database(path, &store);

    log_enable(was_enabled);
    store_close(store);
    return rc == ERR_IO || rc == ERR_BUSY;
}

int store_read(const char *path, struct store **out)
{
    char snapshot[PATH_MAX];
    bool has_snapshot;

    TRY(store_beside(path, ".published", snapshot));
    has_snapshot = !access(snapshot, F_OK);
    if (access(path, F_OK) && !has_snapshot) {
        if (errno != ENOENT)
            return fail(ERR_IO, "%s: %s", path, strerror(errno));
        note("there is no %s: moetune tune writes it", path);
        return UNSUPPORTED;
    }
    if (has_snapshot && (access(path, F_OK) || cannot_be_read_now(path)))
        return read_database(snapshot, out);
    return read_database(path, out);
}

void store_close(struct store *store)
{
    if (!store)
        return;
    records_commit(&store->records);
    records_close(&store->records);
    lease_release(&store->lease);
    free(store);
}

static int make_folders(const char *file)
{
    char path[PATH_MAX];
    bool any_new = false;

    snprintf(path, sizeof(path), "%s", file);
    for (char *c = path + 1; *c; c++) {
        if (*c != '/')
            continue;
        *c = 0;
        if (!mkdir(path, 0777))
            any_new = true;
        else if (errno != EEXIST)
            return fail(ERR_IO, "no folder for the database: %s: %s", path, strerror(errno));
        *c = '/';
    }
    if (any_new)
        note("%.*s: this folder is new", (int)(strrchr(path, '/') - path), path);
    return OK;
}

int store_check_named(const char *path, const char *by)
{
    char snapshot[PATH_MAX];

    TRY(store_beside(path, ".published", snapshot));
    if (!access(path, F_OK) || errno != ENOENT || !access(snapshot, F_OK))
        return OK; /* opening it reports anything else that is wrong */
    return fail(ERR_IO, "there is no %s, which %s names: moetune tune writes it", path, by);
}

/* Returns the database that --db or a variable names, and in *source which of them; NULL: none
 * does. */
static const char *named_database(const char *given, const char **source)
{
    const struct {
        const char *name, *value;
    } names[] = { { "--db", given },
                  { "MOETUNE_DB", getenv("MOETUNE_DB") },
                  { "MOELOOKUP_DB", getenv("MOELOOKUP_DB") } };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].value && *names[i].value) {
            *source = names[i].name;
            return names[i].value;
        }
    return NULL;
}

/* Writes the path of the default database. Returns its length as snprintf does; below 0: there is
 * no such place. */
static int default_database(char *path, size_t size)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

    if (data && *data == '/')
        return snprintf(path, size, "%s/moetune/moetune.db", data);
    if (home && *home)
        return snprintf(path, size, "%s/.local/share/moetune/moetune.db", home);
    return -1;
}

/* Replaces the file's name by that of the database for models. */
static int modelled_database(char *path, size_t size)
{
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash + 1 - path) : 0;

    return (int)folder + snprintf(path + folder, size - folder, "modelled.db");
}

int store_path(const char *given, unsigned use, char *path, size_t size)
{
    const char *source = NULL, *named = named_database(given, &source);
    bool modelled = (use & STORE_MODELLED) && !given;
    int length = named ? snprintf(path, size, "%s", named) : default_database(path, size);

    if (length < 0)
        return fail(ERR_ARGUMENT, "no place for the database: HOME is not set; give --db FILE");
    if (modelled && length < (int)size) {
        TRY(check_is_regular_file(path));
        length = modelled_database(path, size);
    }
    if (length >= (int)size)
        return fail(ERR_ARGUMENT, "%.60s...: the name is too long", path);
    switch (use & ~(unsigned)STORE_MODELLED) {
    case STORE_TO_READ: return named && !modelled ? store_check_named(path, source) : OK;
    case STORE_TO_WRITE: return make_folders(path);
    default: return OK;
    }
}

int store_commit(struct store *store)
{
    return records_commit(&store->records);
}

void store_rollback(struct store *store)
{
    records_rollback(&store->records);
}

int store_heartbeat(struct store *store)
{
    lease_refresh(&store->lease);
    return OK;
}
