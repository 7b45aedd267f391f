/* Opening, the nouns, runs, trials, samples and entries; what a row looks like is said once each.
 */
#include "store.h"

#include "lease.h"
#include "output_file.h"
#include "plan.h"
#include "publish.h"
#include "records.h"
#include "repair.h"
#include "schema.h"
#include "sha256.h"
#include "shape.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *const entry_tier_words[] = { "local", "verified", "imported", NULL };
const char *const run_state_words[] = { "running", "complete", "interrupted",
                                        "failed",  "killed",   NULL };
const char *const effort_words[] = { "quick", "normal", "thorough", NULL };
const char *const trial_state_words[] = { "running", "ok",     "no memory", "timeout", "crashed",
                                          "wrong",   "failed", "ruled out", NULL };

struct store {
    char path[PATH_MAX];
    struct lease lease;
    struct records records;
};

/* ---- opening */

static int beside(const char *path, const char *ending, char *out, size_t size)
{
    return snprintf(out, size, "%s%s", path, ending) < (int)size
               ? OK
               : fail(ERR_ARGUMENT, "%s%s: the name is too long", path, ending);
}

/* Nothing is made beside what cannot be a database. */
static int check_place(const char *path)
{
    struct stat info;

    if (stat(path, &info) || S_ISREG(info.st_mode))
        return OK;
    return S_ISDIR(info.st_mode) ? fail(ERR_IO, "%s is a folder: a database is a file in one", path)
                                 : fail(ERR_IO, "%s is no regular file: it is left as it is", path);
}

/* The files beside it have longer names: better no run than one whose table has no place. */
static int check_length(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t most = NAME_MAX - strlen(".damaged-9999");

    return strlen(name) <= most
               ? OK
               : fail(ERR_ARGUMENT, "%.60s...: a database's name has at most %zu letters", name,
                      most);
}

/* SQLite would make the file with another mode than that of all our other files. */
static int make_file(const char *path)
{
    int fd;

    if (!access(path, F_OK))
        return OK;
    TRY(output_open(path, O_RDWR, NULL, &fd));
    close(fd);
    return OK;
}

enum { BUSY_MS = 5000 };

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

/* "ok" or the first complaint. */
static int check_whole(struct store *store)
{
    sqlite3_stmt *statement;
    int rc;

    TRY(records_query(&store->records, "PRAGMA quick_check(1)", NULL, 0, &statement));
    rc = records_step(&store->records, statement);
    if (!rc && strcmp((const char *)sqlite3_column_text(statement, 0), "ok") != 0)
        rc = schema_damaged(store->path, (const char *)sqlite3_column_text(statement, 0));
    sqlite3_reset(statement);
    return rc < 0 ? rc : OK;
}

static int migrate(struct store *store, int version)
{
    const char *settings = store->records.relaxed
                               ? "PRAGMA journal_mode=DELETE; PRAGMA synchronous=OFF"
                               : "PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL";

    TRY(schema_run(store->records.db, store->path, settings));
    return schema_migrate(store->records.db, store->path, version, STORE_VERSION, schema_steps);
}

static int open_journal(struct store *store)
{
    char path[PATH_MAX];
    int fd;

    TRY(beside(store->path, ".journal", path, sizeof(path)));
    TRY(output_open(path, O_WRONLY | O_APPEND, store->path, &fd));
    store->records.journal = fdopen(fd, "a");
    if (store->records.journal)
        return OK;
    close(fd);
    return fail(ERR_NOMEM, "%s", path);
}

/* Whatever is at the path, as far as it can be looked at without changing it. */
static int inspect(struct store *store, int flags, int *version)
{
    TRY(open_file(store, store->path, flags));
    TRY(schema_check(store->records.db, store->path, version));
    return *version ? check_whole(store) : OK;
}

/* OK with *version (0: nothing in it) for what makes sense from one end to the other. */
static int check_sound(struct store *store, int *version)
{
    bool heard = log_only(false);
    int rc = inspect(store, SQLITE_OPEN_READWRITE, version);

    if (!rc && *version)
        rc = migrate(store, *version);
    log_only(heard);
    return !rc && *version ? repair_check(&store->records) : rc;
}

static int rebuild(struct store *store)
{
    char aside[PATH_MAX] = "";

    if (!access(store->path, F_OK))
        TRY(repair_set_aside(store->path, aside, sizeof(aside)));
    TRY(make_file(store->path));
    TRY(open_file(store, store->path, SQLITE_OPEN_READWRITE));
    TRY(migrate(store, 0));
    return repair_fill(&store->records, aside);
}

static bool has_journal(const struct store *store)
{
    char path[PATH_MAX];

    return !beside(store->path, ".journal", path, sizeof(path)) && !access(path, F_OK);
}

/* A database that is missing or empty beside a journal counts as damaged. */
static int repair(struct store *store)
{
    bool relaxed = store->records.relaxed;
    int version = 0, rc;

    if (!schema_is_ours(store->path))
        return OK;
    rc = check_sound(store, &version);
    if (rc != ERR_BUSY && (rc || (!version && has_journal(store)))) {
        records_close(&store->records);
        store->records.relaxed = relaxed;
        rc = rebuild(store);
    }
    records_close(&store->records);
    store->records.relaxed = relaxed;
    return rc;
}

static int open_for_writing(struct store *store, unsigned flags)
{
    int version = 0;

    store->records.relaxed = (flags & STORE_RELAXED) != 0;
    if (flags & STORE_REPAIR)
        TRY(repair(store));
    TRY(make_file(store->path));
    TRY(inspect(store, SQLITE_OPEN_READWRITE, &version));
    TRY(migrate(store, version));
    /* One that was copied alone: lines that refer to rows which no line holds would say nothing. */
    if (version && !has_journal(store))
        TRY(repair_journal(&store->records));
    return open_journal(store);
}

static int new_store(const char *path, struct store **out)
{
    struct store *store;
    const char *here;

    TRY(check_place(path));
    store = calloc(1, sizeof(*store));
    if (!store)
        return fail(ERR_NOMEM, "a store");
    store->lease.fd = -1;
    /* SQLite takes ":memory:" and "file:x" for no names of files. */
    here = *path == ':' || !strncmp(path, "file:", 5) ? "./" : "";
    if (snprintf(store->path, sizeof(store->path), "%s%s", here, path) >=
        (int)sizeof(store->path)) {
        free(store);
        return fail(ERR_ARGUMENT, "%.60s...: the name is too long", path);
    }
    *out = store;
    return OK;
}

int store_open(const char *path, unsigned flags, struct store **out)
{
    struct store *store = NULL;
    char owner[PATH_MAX], other[PATH_MAX];
    int rc;

    TRY(new_store(path, &store));
    TRY_OUT(check_length(store->path));
    /* Now, and not when all is measured. */
    TRY_OUT(beside(store->path, ".journal", other, sizeof(other)));
    TRY_OUT(output_check(other));
    TRY_OUT(beside(store->path, ".published", other, sizeof(other)));
    TRY_OUT(output_check(other));
    TRY_OUT(beside(store->path, ".owner", owner, sizeof(owner)));
    TRY_OUT(lease_take(owner, store->path, (flags & STORE_STEAL) != 0, &store->lease));
    TRY_OUT(open_for_writing(store, flags));
    *out = store;
    return OK;
out:
    store_close(store);
    return rc;
}

/* Brought up to date, too: a reader may not touch an older file. */
static int migrate_in_memory(struct store *store, int version)
{
    sqlite3_backup *copy;
    sqlite3 *memory;
    int code = sqlite3_open(":memory:", &memory);

    copy =
        code == SQLITE_OK ? sqlite3_backup_init(memory, "main", store->records.db, "main") : NULL;
    if (copy) {
        sqlite3_backup_step(copy, -1);
        code = sqlite3_backup_finish(copy);
    }
    if (!copy || code != SQLITE_OK) {
        sqlite3_close(memory);
        return fail(ERR_IO, "%s cannot be read", store->path);
    }
    records_move(&store->records, memory);
    return schema_migrate(memory, store->path, version, STORE_VERSION, schema_steps);
}

static int read_one(const char *path, struct store **out)
{
    struct store *store = NULL;
    int version = 0, rc;

    TRY(new_store(path, &store));
    rc = inspect(store, SQLITE_OPEN_READONLY, &version);
    if (!rc && version && version < STORE_VERSION)
        rc = migrate_in_memory(store, version);
    if (!rc && !version) {
        note("%s is empty", path);
        rc = UNSUPPORTED;
    }
    if (rc) {
        store_close(store);
        return rc;
    }
    *out = store;
    return OK;
}

int store_dry_run(const char *path, struct store **out)
{
    struct store *store = NULL;
    int version = 0, rc;

    TRY(new_store(path, &store));
    if (access(path, F_OK))
        rc = open_file(store, ":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    else
        rc = inspect(store, SQLITE_OPEN_READONLY, &version);
    if (!rc)
        rc = migrate_in_memory(store, version);
    if (rc) {
        store_close(store);
        return rc;
    }
    *out = store;
    return OK;
}

/* A writer that was killed in the middle of a commit left something to roll back, which only the
 * next writer can do. */
static bool cannot_be_read_now(const char *path)
{
    struct store *store = NULL;
    int rc;

    log_only(false);
    rc = read_one(path, &store);
    log_only(true);
    store_close(store);
    return rc == ERR_IO || rc == ERR_BUSY;
}

int store_read(const char *path, struct store **out)
{
    char snapshot[PATH_MAX];
    bool has_snapshot;

    TRY(beside(path, ".published", snapshot, sizeof(snapshot)));
    has_snapshot = !access(snapshot, F_OK);
    if (access(path, F_OK) && !has_snapshot) {
        if (errno != ENOENT)
            return fail(ERR_IO, "%s: %s", path, strerror(errno));
        note("there is no %s: moetune tune writes it", path);
        return UNSUPPORTED;
    }
    if (has_snapshot && (access(path, F_OK) || cannot_be_read_now(path)))
        return read_one(snapshot, out);
    return read_one(path, out);
}

void store_close(struct store *store)
{
    if (!store)
        return;
    records_commit(&store->records);
    records_close(&store->records);
    lease_drop(&store->lease);
    free(store);
}

static int make_folders(const char *file)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s", file);
    for (char *c = path + 1; *c; c++) {
        if (*c != '/')
            continue;
        *c = 0;
        if (!mkdir(path, 0777))
            note("%s: this folder is new", path);
        else if (errno != EEXIST)
            return fail(ERR_IO, "no folder for the database: %s: %s", path, strerror(errno));
        *c = '/';
    }
    return OK;
}

int store_path(const char *given, bool make, char *path, size_t size)
{
    const char *named = given ? given : getenv("MOETUNE_DB"), *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    int length;

    if (named && *named)
        length = snprintf(path, size, "%s", named);
    else if (data && *data == '/')
        length = snprintf(path, size, "%s/moetune/moetune.db", data);
    else if (home && *home)
        length = snprintf(path, size, "%s/.local/share/moetune/moetune.db", home);
    else
        return fail(ERR_ARGUMENT, "no place for the database: HOME is not set; say --db FILE");
    if (length >= (int)size)
        return fail(ERR_ARGUMENT, "%.60s...: the name is too long", path);
    return make ? make_folders(path) : OK;
}

int store_commit(struct store *store)
{
    return records_commit(&store->records);
}

int store_publish(struct store *store)
{
    TRY(store_commit(store));
    return publish(store->path, store->records.relaxed);
}

void store_rollback(struct store *store)
{
    records_rollback(&store->records);
}

int store_heartbeat(struct store *store)
{
    lease_touch(&store->lease);
    return OK;
}

/* ---- nouns */

static int next_id(struct store *store, const char *sql, int64_t *id)
{
    sqlite3_stmt *statement;

    TRY(records_query(&store->records, sql, NULL, 0, &statement));
    TRY(records_step(&store->records, statement));
    *id = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return OK;
}
#define NEXT_ID(store, table, id) next_id(store, "SELECT coalesce(max(id), 0) + 1 FROM " table, id)

#define PUT(store, table, ...)                                                                     \
    records_put(&(store)->records, table, (struct column[]){ __VA_ARGS__ },                        \
                sizeof((struct column[]){ __VA_ARGS__ }) / sizeof(struct column))

/* UNSUPPORTED if there is none. */
static int find_by_text(struct store *store, const char *sql, const char *text, int64_t *id)
{
    sqlite3_stmt *statement;

    TRY(records_query(&store->records, sql, NULL, 0, &statement));
    sqlite3_bind_text(statement, 1, text, -1, SQLITE_TRANSIENT);
    TRY(records_step(&store->records, statement));
    *id = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return OK;
}

static int find_cluster(struct store *store, const struct cluster *cluster,
                        char hex[SHA256_HEX_BYTES], int64_t *id)
{
    uint8_t hash[HASH_BYTES];

    cluster_hash(cluster, hash);
    sha256_hex(hash, hex);
    return find_by_text(store, "SELECT id FROM fingerprint WHERE hash=?1", hex, id);
}

static int put_fields(struct store *store, const struct cluster *cluster, int64_t id)
{
    for (size_t i = 0; i < cluster_field_count; i++) {
        char value[1100];

        cluster_value(cluster, &cluster_fields[i], value, sizeof(value));
        TRY(PUT(store, "fingerprint_field", INTEGER("id", id * 64 + (int64_t)i),
                INTEGER("fingerprint", id), TEXT("name", cluster_fields[i].name),
                TEXT("class", cluster_class_words[cluster_fields[i].class]), TEXT("value", value)));
    }
    return OK;
}

static int put_cluster(struct store *store, const struct cluster *cluster, const char *hex,
                       int64_t id, bool here)
{
    char text[CLUSTER_TEXT_BYTES];

    cluster_format(cluster, text, sizeof(text));
    TRY(PUT(store, "fingerprint", INTEGER("id", id), TEXT("hash", hex), TEXT("text", text),
            INTEGER("created_s", time(NULL)), INTEGER("here", here)));
    return put_fields(store, cluster, id);
}

int store_cluster_is_here(struct store *store, int64_t id, bool *here)
{
    sqlite3_stmt *s;

    TRY(records_query(&store->records, "SELECT here FROM fingerprint WHERE id=?1", &id, 1, &s));
    TRY(records_step(&store->records, s));
    *here = sqlite3_column_int(s, 0) != 0;
    sqlite3_reset(s);
    return OK;
}

int store_cluster_find(struct store *store, const struct cluster *cluster, int64_t *id)
{
    char hex[SHA256_HEX_BYTES];

    return find_cluster(store, cluster, hex, id);
}

int store_cluster(struct store *store, const struct cluster *cluster, int64_t *id)
{
    char hex[SHA256_HEX_BYTES];
    int rc = find_cluster(store, cluster, hex, id);

    bool here = true;

    if (rc == OK)
        TRY(store_cluster_is_here(store, *id, &here));
    if (rc < 0 || (rc == OK && here))
        return rc;
    if (rc == UNSUPPORTED)
        TRY(NEXT_ID(store, "fingerprint", id));
    return put_cluster(store, cluster, hex, *id, true);
}

int store_cluster_elsewhere(struct store *store, const struct cluster *cluster, int64_t *id)
{
    char hex[SHA256_HEX_BYTES], was[CLUSTER_TEXT_BYTES], is[CLUSTER_TEXT_BYTES];
    int rc = find_cluster(store, cluster, hex, id);
    struct cluster known;
    bool here;

    if (rc < 0)
        return rc;
    if (rc == OK) {
        TRY(store_cluster_is_here(store, *id, &here));
        TRY(store_cluster_get(store, *id, &known));
        cluster_format(&known, was, sizeof(was));
        cluster_format(cluster, is, sizeof(is));
        /* Whichever came first, the same one stays. */
        if (here || strcmp(is, was) <= 0)
            return OK;
    } else {
        TRY(NEXT_ID(store, "fingerprint", id));
    }
    return put_cluster(store, cluster, hex, *id, false);
}

int store_cluster_renew(struct store *store, int64_t id, const struct cluster *cluster)
{
    char hex[SHA256_HEX_BYTES];
    uint8_t hash[HASH_BYTES];

    cluster_hash(cluster, hash);
    sha256_hex(hash, hex);
    return put_cluster(store, cluster, hex, id, true);
}

int store_cluster_model(struct store *store, const struct cluster *cluster, int64_t *id)
{
    struct cluster known;
    int rc;

    if (!backend_is_real(cluster->backend))
        return fail(ERR_ARGUMENT, "%s: a %s cluster is not measured", cluster->name,
                    cluster->backend);
    rc = store_cluster_find(store, cluster, id);
    if (rc == UNSUPPORTED)
        return store_cluster(store, cluster, id);
    TRY(rc);
    TRY(store_cluster_get(store, *id, &known));
    cluster_take_model(&known, cluster);
    return store_cluster_renew(store, *id, &known);
}

int store_shape(struct store *store, const struct moe_shape *shape, int64_t *id)
{
    char text[SHAPE_TEXT_BYTES];
    int rc;

    shape_format(shape, text, sizeof(text));
    rc = find_by_text(store, "SELECT id FROM shape WHERE text=?1", text, id);
    if (rc != UNSUPPORTED)
        return rc;
    TRY(NEXT_ID(store, "shape", id));
    return PUT(store, "shape", INTEGER("id", *id), TEXT("text", text));
}

int store_find(struct store *store, const struct cluster *cluster, const struct moe_shape *shape,
               int64_t *cluster_id, int64_t *shape_id)
{
    char hex[SHA256_HEX_BYTES], text[SHAPE_TEXT_BYTES];

    TRY(find_cluster(store, cluster, hex, cluster_id));
    shape_format(shape, text, sizeof(text));
    return find_by_text(store, "SELECT id FROM shape WHERE text=?1", text, shape_id);
}

static int get_text(struct store *store, const char *sql, int64_t id, char *text, size_t size)
{
    sqlite3_stmt *statement;
    int rc;

    TRY(records_query(&store->records, sql, &id, 1, &statement));
    rc = records_step(&store->records, statement);
    if (rc)
        return rc == UNSUPPORTED ? fail(ERR_FORMAT, "%s: a row without its noun", store->path) : rc;
    snprintf(text, size, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_reset(statement);
    return OK;
}

int store_cluster_get(struct store *store, int64_t id, struct cluster *out)
{
    char text[CLUSTER_TEXT_BYTES];

    TRY(get_text(store, "SELECT text FROM fingerprint WHERE id=?1", id, text, sizeof(text)));
    return cluster_parse(text, store->path, out);
}

int store_shape_get(struct store *store, int64_t id, struct moe_shape *out)
{
    struct moe_shape shape = { .struct_size = sizeof(shape) };
    char text[SHAPE_TEXT_BYTES];

    TRY(get_text(store, "SELECT text FROM shape WHERE id=?1", id, text, sizeof(text)));
    TRY(shape_parse(text, &shape));
    *out = shape;
    return OK;
}

/* ---- reading columns */

static void text_column(sqlite3_stmt *statement, int at, char *to, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(statement, at);

    snprintf(to, size, "%s", text ? text : "");
}
#define TEXT_COLUMN(statement, at, to) text_column(statement, at, to, sizeof(to))

static double real_column(sqlite3_stmt *statement, int at)
{
    return sqlite3_column_type(statement, at) == SQLITE_NULL ? NAN
                                                             : sqlite3_column_double(statement, at);
}

/* A plan that is not there has struct_size 0. */
static struct moe_plan plan_column(sqlite3_stmt *statement, int at)
{
    const char *text = (const char *)sqlite3_column_text(statement, at);
    struct moe_plan plan;

    if (!text || plan_parse(text, &plan))
        plan = (struct moe_plan){ 0 };
    return plan;
}

/* Unknown words count as the last one: something is wrong with that row. */
static int word_column(sqlite3_stmt *statement, int at, const char *const *words)
{
    const char *text = (const char *)sqlite3_column_text(statement, at);
    int i = 0;

    while (words[i + 1] && strcmp(words[i], text ? text : "") != 0)
        i++;
    return i;
}

/* NULL for a plan that is not there. */
static const char *plan_text(const struct moe_plan *plan, char text[PLAN_TEXT_BYTES])
{
    return plan->struct_size && moe_plan_format(plan, text, PLAN_TEXT_BYTES) > 0 ? text : NULL;
}

/* ---- runs */

static int put_run(struct store *store, const struct run_row *r)
{
    return PUT(store, "run", INTEGER("id", r->id), INTEGER("fingerprint", r->cluster),
               TEXT("state", run_state_words[r->state]), INTEGER("started_s", r->started_s),
               INTEGER("updated_s", time(NULL)), INTEGER("seed", r->seed),
               TEXT("search", r->search), TEXT("effort", r->effort), TEXT("command", r->command),
               TEXT("version", r->version), INTEGER("buckets_planned", r->buckets_planned),
               INTEGER("buckets_done", r->buckets_done),
               INTEGER("samples_search", r->samples_search),
               INTEGER("samples_default", r->samples_default),
               INTEGER("samples_warm", r->samples_warm), TEXT("now", r->now));
}

int store_run_begin(struct store *store, struct run_row *run)
{
    TRY(NEXT_ID(store, "run", &run->id));
    return put_run(store, run);
}

int store_run_update(struct store *store, const struct run_row *run)
{
    return put_run(store, run);
}

/* Whoever writes to it, or to the database that it is a snapshot of. */
static bool has_writer(const struct store *store)
{
    char owner[PATH_MAX];
    size_t length = strlen(store->path), ending = strlen(".published");

    if (length > ending && !strcmp(store->path + length - ending, ".published"))
        length -= ending;
    return snprintf(owner, sizeof(owner), "%.*s.owner", (int)length, store->path) <
               (int)sizeof(owner) &&
           lease_is_held(owner);
}

int store_runs(struct store *store, int (*each)(void *self, const struct run_row *run), void *self)
{
    bool running = has_writer(store); /* the newest one alone can be */
    sqlite3_stmt *s;
    int rc;

    TRY(records_query(&store->records,
                      "SELECT id, fingerprint, state, started_s, updated_s, seed, search, effort,"
                      " command, version, buckets_planned, buckets_done, samples_search,"
                      " samples_default, samples_warm, now FROM run ORDER BY id DESC",
                      NULL, 0, &s));
    while (!(rc = records_step(&store->records, s))) {
        struct run_row r = { .id = sqlite3_column_int64(s, 0),
                             .cluster = sqlite3_column_int64(s, 1),
                             .state = (enum run_state)word_column(s, 2, run_state_words),
                             .started_s = sqlite3_column_int64(s, 3),
                             .updated_s = sqlite3_column_int64(s, 4),
                             .seed = (uint64_t)sqlite3_column_int64(s, 5),
                             .buckets_planned = (uint32_t)sqlite3_column_int64(s, 10),
                             .buckets_done = (uint32_t)sqlite3_column_int64(s, 11),
                             .samples_search = (uint64_t)sqlite3_column_int64(s, 12),
                             .samples_default = (uint64_t)sqlite3_column_int64(s, 13),
                             .samples_warm = (uint64_t)sqlite3_column_int64(s, 14) };

        r.state = r.state == RUN_RUNNING && !running ? RUN_KILLED : r.state;
        running = false;
        TEXT_COLUMN(s, 6, r.search);
        TEXT_COLUMN(s, 7, r.effort);
        TEXT_COLUMN(s, 8, r.command);
        TEXT_COLUMN(s, 9, r.version);
        TEXT_COLUMN(s, 15, r.now);
        rc = each(self, &r);
        if (rc) {
            sqlite3_reset(s);
            return rc;
        }
    }
    return rc == UNSUPPORTED ? OK : rc;
}

/* ---- trials */

static int put_trial(struct store *store, const struct trial_row *t)
{
    char plan[PLAN_TEXT_BYTES];

    return PUT(store, "trial", INTEGER("id", t->id), INTEGER("run", t->run),
               INTEGER("fingerprint", t->key.cluster), INTEGER("shape", t->key.shape),
               INTEGER("window", t->key.window), INTEGER("bucket", t->key.bucket),
               TEXT("plan", plan_text(&t->key.plan, plan)), INTEGER("capacity", t->capacity),
               TEXT("state", trial_state_words[t->state]), INTEGER("attempts", t->attempts),
               INTEGER("memory_bytes", t->memory_bytes), INTEGER("sent_bytes", t->sent_bytes),
               INTEGER("messages", t->messages), INTEGER("compute_ns", t->compute_ns),
               INTEGER("comm_ns", t->comm_ns), TEXT("message", t->message));
}

int store_trial_begin(struct store *store, struct trial_row *trial)
{
    if (!trial->id)
        TRY(NEXT_ID(store, "trial", &trial->id));
    trial->attempts++;
    return put_trial(store, trial);
}

int store_trial_update(struct store *store, const struct trial_row *trial)
{
    return put_trial(store, trial);
}

#define TRIAL_COLUMNS                                                                              \
    "t.id, t.run, t.fingerprint, t.shape, t.window, t.bucket, t.plan, t.capacity, t.state,"        \
    " t.attempts, t.memory_bytes, t.sent_bytes, t.messages, t.compute_ns, t.comm_ns, t.message"

static struct trial_row trial_columns(sqlite3_stmt *s)
{
    struct trial_row t = { .id = sqlite3_column_int64(s, 0),
                           .run = sqlite3_column_int64(s, 1),
                           .key = { .cluster = sqlite3_column_int64(s, 2),
                                    .shape = sqlite3_column_int64(s, 3),
                                    .window = (uint32_t)sqlite3_column_int64(s, 4),
                                    .bucket = (uint32_t)sqlite3_column_int64(s, 5),
                                    .plan = plan_column(s, 6) },
                           .capacity = (uint64_t)sqlite3_column_int64(s, 7),
                           .state = (enum trial_state)word_column(s, 8, trial_state_words),
                           .attempts = (uint32_t)sqlite3_column_int64(s, 9),
                           .memory_bytes = sqlite3_column_int64(s, 10),
                           .sent_bytes = sqlite3_column_int64(s, 11),
                           .messages = sqlite3_column_int64(s, 12),
                           .compute_ns = sqlite3_column_int64(s, 13),
                           .comm_ns = sqlite3_column_int64(s, 14) };

    TEXT_COLUMN(s, 15, t.message);
    return t;
}

#define ONE_BUCKET                                                                                 \
    "(t.fingerprint=?1 OR ?1=0) AND (t.shape=?2 OR ?2=0) AND (t.window=?3 OR ?3=0)"                \
    " AND (t.bucket=?4 OR ?4=4294967295)"

int store_trials(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 uint32_t bucket, int (*each)(void *self, const struct trial_row *trial),
                 void *self)
{
    const int64_t key[] = { cluster, shape, window, bucket };
    struct trial_row *rows = NULL;
    size_t count = 0, room = 0;
    sqlite3_stmt *s;
    int rc;

    TRY(records_query(&store->records,
                      bucket == UINT32_MAX
                          ? "SELECT " TRIAL_COLUMNS " FROM trial t WHERE " ONE_BUCKET
                            " ORDER BY t.id"
                          : "SELECT " TRIAL_COLUMNS
                            " FROM trial t WHERE t.fingerprint=?1 AND t.shape=?2 AND t.window=?3"
                            " AND t.bucket=?4 ORDER BY t.id",
                      key, 4, &s));
    /* Collected first: whoever is called may write trials. */
    while (!(rc = records_step(&store->records, s))) {
        if (count == room) {
            struct trial_row *more = realloc(rows, (room = 2 * room + 64) * sizeof(*rows));

            if (!more) {
                sqlite3_reset(s);
                rc = fail(ERR_NOMEM, "%zu trials", room);
                break;
            }
            rows = more;
        }
        rows[count++] = trial_columns(s);
    }
    rc = rc == UNSUPPORTED ? OK : rc;
    for (size_t i = 0; i < count && !rc; i++)
        rc = each(self, &rows[i]);
    free(rows);
    return rc;
}

/* ---- samples */

int store_sample(struct store *store, int64_t trial, const struct sample_row *s)
{
    int64_t id;

    TRY(NEXT_ID(store, "sample", &id));
    return PUT(store, "sample", INTEGER("id", id), INTEGER("trial", trial),
               INTEGER("kind", s->kind), INTEGER("round", s->round), INTEGER("ns", s->ns),
               INTEGER("clock_mhz", s->gpu.clock_mhz), INTEGER("throttled", s->gpu.throttled),
               INTEGER("lost_ns", s->lost_ns), INTEGER("run", s->run));
}

int store_next_sample(struct store *store, int64_t *number)
{
    return NEXT_ID(store, "sample", number);
}

int store_forget(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 uint32_t bucket, enum sample_kind first, enum sample_kind last)
{
    const int64_t range[] = { cluster, shape, window, bucket, bucket, first, last };

    return records_delete(&store->records, "sample", RECORDS_KINDS, range, 7);
}

/* From column `at` on: SAMPLE_COLUMNS. */
static struct sample_row sample_columns(sqlite3_stmt *s, int at)
{
    return (struct sample_row){ .kind = (enum sample_kind)sqlite3_column_int(s, at),
                                .round = (uint32_t)sqlite3_column_int64(s, at + 1),
                                .ns = sqlite3_column_int64(s, at + 2),
                                .gpu = { (uint32_t)sqlite3_column_int64(s, at + 3),
                                         (uint32_t)sqlite3_column_int64(s, at + 4) },
                                .lost_ns = sqlite3_column_int64(s, at + 5),
                                .run = sqlite3_column_int64(s, at + 6) };
}

#define SAMPLE_COLUMNS "s.kind, s.round, s.ns, s.clock_mhz, s.throttled, s.lost_ns, s.run"

int store_samples(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                  uint32_t bucket,
                  int (*each)(void *self, const struct trial_row *trial,
                              const struct sample_row *sample),
                  void *self)
{
    const int64_t key[] = { cluster, shape, window, bucket };
    sqlite3_stmt *s;
    int rc;

    TRY(records_query(&store->records,
                      "SELECT " TRIAL_COLUMNS ", " SAMPLE_COLUMNS " FROM trial t"
                      " JOIN sample s ON s.trial=t.id WHERE t.fingerprint=?1 AND t.shape=?2"
                      " AND t.window=?3 AND t.bucket=?4 ORDER BY s.id",
                      key, 4, &s));
    while (!(rc = records_step(&store->records, s))) {
        struct trial_row trial = trial_columns(s);
        struct sample_row sample = sample_columns(s, 16);

        rc = each(self, &trial, &sample);
        if (rc) {
            sqlite3_reset(s);
            return rc;
        }
    }
    return rc == UNSUPPORTED ? OK : rc;
}

int store_samples_all(struct store *store,
                      int (*each)(void *self, int64_t trial, const struct sample_row *sample),
                      void *self)
{
    sqlite3_stmt *s;
    int rc;

    TRY(records_query(&store->records,
                      "SELECT s.trial, " SAMPLE_COLUMNS " FROM sample s ORDER BY s.trial, s.id",
                      NULL, 0, &s));
    while (!(rc = records_step(&store->records, s))) {
        struct sample_row sample = sample_columns(s, 1);

        rc = each(self, sqlite3_column_int64(s, 0), &sample);
        if (rc) {
            sqlite3_reset(s);
            return rc;
        }
    }
    return rc == UNSUPPORTED ? OK : rc;
}

/* ---- entries */

#define ENTRY_COLUMNS                                                                              \
    "id, fingerprint, shape, run, window, bucket, capacity, plan, runner_up, search_winner,"       \
    " time_us, low_us, high_us, default_us, gain, gain_low, gain_high, bound, samples, inferred,"  \
    " stale, effort, search, reason, decision, decided_s, tier, throttled"

static struct entry_row entry_columns(sqlite3_stmt *s)
{
    struct entry_row e = { .cluster = sqlite3_column_int64(s, 1),
                           .shape = sqlite3_column_int64(s, 2),
                           .run = sqlite3_column_int64(s, 3),
                           .window = (uint32_t)sqlite3_column_int64(s, 4),
                           .bucket = (uint32_t)sqlite3_column_int64(s, 5),
                           .capacity = (uint64_t)sqlite3_column_int64(s, 6),
                           .plan = plan_column(s, 7),
                           .runner_up = plan_column(s, 8),
                           .search_winner = plan_column(s, 9),
                           .time_us = real_column(s, 10),
                           .low_us = real_column(s, 11),
                           .high_us = real_column(s, 12),
                           .default_us = real_column(s, 13),
                           .gain = real_column(s, 14),
                           .gain_low = real_column(s, 15),
                           .gain_high = real_column(s, 16),
                           .bound = real_column(s, 17),
                           .samples = (uint32_t)sqlite3_column_int64(s, 18),
                           .inferred = sqlite3_column_int(s, 19) != 0,
                           .stale = sqlite3_column_int(s, 20) != 0,
                           .decided_s = sqlite3_column_int64(s, 25),
                           .tier = (enum entry_tier)word_column(s, 26, entry_tier_words),
                           .throttled = (uint32_t)sqlite3_column_int64(s, 27) };

    TEXT_COLUMN(s, 21, e.effort);
    TEXT_COLUMN(s, 22, e.search);
    TEXT_COLUMN(s, 23, e.reason);
    TEXT_COLUMN(s, 24, e.decision);
    return e;
}

/* OK with the row's id, or UNSUPPORTED. */
static int find_entry(struct store *store, const int64_t key[4], int64_t *id, struct entry_row *out)
{
    sqlite3_stmt *s;

    TRY(records_query(&store->records,
                      "SELECT " ENTRY_COLUMNS " FROM entry WHERE fingerprint=?1 AND shape=?2 AND"
                      " window=?3 AND bucket=?4",
                      key, 4, &s));
    TRY(records_step(&store->records, s));
    *id = sqlite3_column_int64(s, 0);
    *out = entry_columns(s);
    sqlite3_reset(s);
    return OK;
}

static int put_history(struct store *store, const struct entry_row *old, const char *why)
{
    char text[PLAN_TEXT_BYTES];
    const char *plan = plan_text(&old->plan, text);
    int64_t id;

    TRY(NEXT_ID(store, "history", &id));
    return PUT(store, "history", INTEGER("id", id), INTEGER("fingerprint", old->cluster),
               INTEGER("shape", old->shape), INTEGER("run", old->run),
               INTEGER("window", old->window), INTEGER("bucket", old->bucket),
               TEXT("plan", plan ? plan : "?"), REAL("time_us", old->time_us),
               REAL("default_us", old->default_us), REAL("gain", old->gain),
               REAL("bound", old->bound), INTEGER("inferred", old->inferred),
               TEXT("decision", old->decision), INTEGER("decided_s", old->decided_s),
               INTEGER("replaced_s", time(NULL)), TEXT("why", why));
}

enum { ENTRY_COLUMN_COUNT = 28 };

/* Each of them once, the id first; `text` holds the plans' text. */
static void entry_row_columns(const struct entry_row *e, int64_t id, char text[3][PLAN_TEXT_BYTES],
                              struct column columns[ENTRY_COLUMN_COUNT])
{
    const struct column row[ENTRY_COLUMN_COUNT] = {
        INTEGER("id", id),
        INTEGER("fingerprint", e->cluster),
        INTEGER("shape", e->shape),
        INTEGER("run", e->run),
        INTEGER("window", e->window),
        INTEGER("bucket", e->bucket),
        INTEGER("capacity", e->capacity),
        TEXT("plan", plan_text(&e->plan, text[0])),
        TEXT("runner_up", plan_text(&e->runner_up, text[1])),
        TEXT("search_winner", plan_text(&e->search_winner, text[2])),
        REAL("time_us", e->time_us),
        REAL("low_us", e->low_us),
        REAL("high_us", e->high_us),
        REAL("default_us", e->default_us),
        REAL("gain", e->gain),
        REAL("gain_low", e->gain_low),
        REAL("gain_high", e->gain_high),
        REAL("bound", e->bound),
        INTEGER("samples", e->samples),
        INTEGER("inferred", e->inferred),
        INTEGER("stale", e->stale),
        TEXT("effort", e->effort),
        TEXT("search", e->search),
        TEXT("reason", e->reason),
        TEXT("decision", e->decision),
        INTEGER("decided_s", e->decided_s),
        TEXT("tier", entry_tier_words[e->tier]),
        INTEGER("throttled", e->throttled),
    };

    memcpy(columns, row, sizeof(row));
}

static int put_entry(struct store *store, const struct entry_row *e, int64_t id)
{
    struct column columns[ENTRY_COLUMN_COUNT];
    char text[3][PLAN_TEXT_BYTES];

    entry_row_columns(e, id, text, columns);
    return records_put(&store->records, "entry", columns, ENTRY_COLUMN_COUNT);
}

/* UNSUPPORTED if its bucket has one. */
static int add_entry(struct store *store, const struct entry_row *e)
{
    struct column columns[ENTRY_COLUMN_COUNT];
    char text[3][PLAN_TEXT_BYTES];

    entry_row_columns(e, 0, text, columns);
    return records_add(&store->records, "entry", columns, ENTRY_COLUMN_COUNT);
}

bool entry_is_refuted(const struct entry_row *entry)
{
    return !strcmp(entry->decision, "refuted");
}

bool entry_is_decided(const struct entry_row *entry)
{
    return !entry_is_refuted(entry) && strcmp(entry->decision, "tie") != 0;
}

int store_entry(struct store *store, const struct entry_row *entry, const char *why)
{
    const int64_t key[] = { entry->cluster, entry->shape, entry->window, entry->bucket };
    struct entry_row old;
    int64_t id;
    int rc;

    TRY(store_standing_end(store, entry->cluster, entry->shape, entry->window));
    rc = add_entry(store, entry);
    if (rc != UNSUPPORTED)
        return rc;
    TRY(find_entry(store, key, &id, &old));
    if (why)
        TRY(put_history(store, &old, why));
    return put_entry(store, entry, id);
}

int store_entry_end(struct store *store, const struct entry_row *entry, const char *why)
{
    const int64_t range[] = { entry->cluster, entry->shape, entry->window, entry->bucket,
                              entry->bucket };

    TRY(store_standing_end(store, entry->cluster, entry->shape, entry->window));
    TRY(put_history(store, entry, why));
    return records_delete(&store->records, "entry", RECORDS_RANGE, range, 5);
}

static struct history_row history_columns(sqlite3_stmt *s)
{
    struct history_row h = { .cluster = sqlite3_column_int64(s, 0),
                             .shape = sqlite3_column_int64(s, 1),
                             .window = (uint32_t)sqlite3_column_int64(s, 2),
                             .bucket = (uint32_t)sqlite3_column_int64(s, 3),
                             .plan = plan_column(s, 4),
                             .time_us = real_column(s, 5),
                             .default_us = real_column(s, 6),
                             .inferred = sqlite3_column_int(s, 7) != 0,
                             .decided_s = sqlite3_column_int64(s, 9),
                             .replaced_s = sqlite3_column_int64(s, 10) };

    TEXT_COLUMN(s, 8, h.decision);
    TEXT_COLUMN(s, 11, h.why);
    return h;
}

int store_history(struct store *store, int (*each)(void *self, const struct history_row *row),
                  void *self)
{
    sqlite3_stmt *s;
    int rc;

    TRY(records_query(
        &store->records,
        "SELECT fingerprint, shape, window, bucket, plan, time_us, default_us,"
        " inferred, decision, decided_s, replaced_s, why FROM history ORDER BY id DESC",
        NULL, 0, &s));
    while (!(rc = records_step(&store->records, s))) {
        struct history_row row = history_columns(s);

        rc = each(self, &row);
        if (rc) {
            sqlite3_reset(s);
            return rc;
        }
    }
    return rc == UNSUPPORTED ? OK : rc;
}

/* ---- merging */

int effort_rank(const char *effort)
{
    int rank = 0;

    for (int i = 0; effort_words[i]; i++)
        if (!strcmp(effort, effort_words[i]))
            rank = i + 1;
    return rank;
}

static int order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* What decides when everything that counts is equal: any fixed order will do, if it tells apart
 * whatever is exported. */
static void tie_text(const struct entry_row *e, char *text, size_t size)
{
    char plan[PLAN_TEXT_BYTES] = "", runner_up[PLAN_TEXT_BYTES] = "", winner[PLAN_TEXT_BYTES] = "";

    plan_text(&e->plan, plan);
    plan_text(&e->runner_up, runner_up);
    plan_text(&e->search_winner, winner);
    snprintf(text, size,
             "%s|%s|%s|%.17g|%.17g|%.17g|%.17g|%.17g|%.17g|%.17g|%.17g|%d|%s|%s|%s|%s|%llu|%u",
             plan, runner_up, winner, e->time_us, e->low_us, e->high_us, e->default_us, e->gain,
             e->gain_low, e->gain_high, e->bound, e->inferred, e->effort, e->search, e->reason,
             e->decision, (unsigned long long)e->capacity, e->throttled);
}

/* Above 0: a is the better one. */
static int better(const struct entry_row *a, const struct entry_row *b)
{
    char x[1024], y[1024];
    int by = order(b->tier, a->tier);

    by = by ? by : order(b->stale, a->stale);
    by = by ? by : order(effort_rank(a->effort), effort_rank(b->effort));
    by = by ? by : order(a->decided_s, b->decided_s);
    by = by ? by : order(a->samples, b->samples);
    if (by)
        return by;
    tie_text(a, x, sizeof(x));
    tie_text(b, y, sizeof(y));
    return strcmp(x, y);
}

int store_entry_merge(struct store *store, const struct entry_row *entry, const char *why,
                      struct entry_row *known, enum merge_outcome *outcome)
{
    const int64_t key[] = { entry->cluster, entry->shape, entry->window, entry->bucket };
    int64_t id;
    int rc = add_entry(store, entry), by;

    *outcome = MERGE_ADDED;
    if (rc != UNSUPPORTED)
        return rc;
    TRY(find_entry(store, key, &id, known));
    by = better(entry, known);
    *outcome = by > 0 ? MERGE_REPLACED : (by < 0 ? MERGE_LOST : MERGE_SAME);
    if (by == 0)
        return OK;
    TRY(put_history(store, by > 0 ? known : entry, why));
    return by > 0 ? put_entry(store, entry, id) : OK;
}

/* ---- standings */

int store_standing(struct store *store, const struct standing_row *row)
{
    char plan[PLAN_TEXT_BYTES];

    return PUT(store, "standing", INTEGER("fingerprint", row->cluster),
               INTEGER("shape", row->shape), INTEGER("window", row->window),
               INTEGER("run", row->run), REAL("gain", row->gain), REAL("gain_low", row->gain_low),
               REAL("gain_high", row->gain_high), REAL("static_gain", row->static_gain),
               REAL("static_gain_low", row->static_gain_low),
               REAL("static_gain_high", row->static_gain_high),
               TEXT("static_plan", plan_text(&row->static_plan, plan)),
               INTEGER("rounds", row->rounds), INTEGER("first_round", row->first_round),
               TEXT("rivals", row->rivals), INTEGER("decided_s", row->decided_s));
}

int store_standing_get(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                       struct standing_row *out)
{
    const int64_t key[] = { cluster, shape, window };
    sqlite3_stmt *s;
    int rc;

    TRY(records_query(&store->records,
                      "SELECT run, gain, gain_low, gain_high, static_gain, static_gain_low,"
                      " static_gain_high, static_plan, rounds, first_round, rivals, decided_s"
                      " FROM standing WHERE fingerprint=?1 AND shape=?2 AND window=?3",
                      key, 3, &s));
    rc = records_step(&store->records, s);
    if (rc)
        return rc;
    *out = (struct standing_row){ .cluster = cluster,
                                  .shape = shape,
                                  .window = window,
                                  .run = sqlite3_column_int64(s, 0),
                                  .gain = real_column(s, 1),
                                  .gain_low = real_column(s, 2),
                                  .gain_high = real_column(s, 3),
                                  .static_gain = real_column(s, 4),
                                  .static_gain_low = real_column(s, 5),
                                  .static_gain_high = real_column(s, 6),
                                  .static_plan = plan_column(s, 7),
                                  .rounds = (uint32_t)sqlite3_column_int64(s, 8),
                                  .first_round = (uint32_t)sqlite3_column_int64(s, 9),
                                  .decided_s = sqlite3_column_int64(s, 11) };
    TEXT_COLUMN(s, 10, out->rivals);
    sqlite3_reset(s);
    return OK;
}

static void standing_tie_text(const struct standing_row *row, char *text, size_t size)
{
    char plan[PLAN_TEXT_BYTES] = "";

    plan_text(&row->static_plan, plan);
    snprintf(text, size, "%u|%s|%.17g|%.17g|%.17g|%.17g|%.17g|%.17g", row->rounds, plan, row->gain,
             row->gain_low, row->gain_high, row->static_gain, row->static_gain_low,
             row->static_gain_high);
}

/* Looked for first: a deletion is a line of the journal even where it deletes nothing. */
int store_standing_end(struct store *store, int64_t cluster, int64_t shape, uint32_t window)
{
    const int64_t key[] = { cluster, shape, window };
    struct standing_row known;
    int rc = store_standing_get(store, cluster, shape, window, &known);

    if (rc || known.run)
        return rc < 0 ? rc : OK;
    return records_delete(&store->records, "standing", RECORDS_IMPORTED, key, 3);
}

/* As of entries: what decides between two of one date tells apart whatever is exported. */
static int newer(const struct standing_row *a, const struct standing_row *b)
{
    char x[512], y[512];

    if (a->decided_s != b->decided_s)
        return order(a->decided_s, b->decided_s);
    standing_tie_text(a, x, sizeof(x));
    standing_tie_text(b, y, sizeof(y));
    return strcmp(x, y);
}

int store_standing_merge(struct store *store, const struct standing_row *row, bool *placed)
{
    struct standing_row known;
    int rc = store_standing_get(store, row->cluster, row->shape, row->window, &known);

    if (rc < 0)
        return rc;
    *placed = rc == UNSUPPORTED || (!known.run && newer(row, &known) > 0);
    return *placed ? store_standing(store, row) : OK;
}

/* ---- imports */

int store_import(struct store *store, const struct import_row *row)
{
    int64_t id;

    TRY(NEXT_ID(store, "import_log", &id));
    return PUT(store, "import_log", INTEGER("id", id), TEXT("sha256", row->sha256),
               TEXT("file", row->file), INTEGER("imported_s", time(NULL)),
               INTEGER("added", row->added), INTEGER("same", row->same),
               INTEGER("conflicts", row->conflicts));
}

int store_import_known(struct store *store, const char *sha256, bool *known)
{
    int64_t id;
    int rc = find_by_text(store, "SELECT id FROM import_log WHERE sha256=?1", sha256, &id);

    *known = rc == OK;
    return rc < 0 ? rc : OK;
}

enum { ELSEWHERE_MAX = 4096 };

int store_clusters_elsewhere(struct store *store,
                             int (*each)(void *self, const struct cluster *cluster), void *self)
{
    int64_t *ids = malloc(ELSEWHERE_MAX * sizeof(*ids));
    struct cluster cluster;
    sqlite3_stmt *s;
    int count = 0, rc = ids ? OK : fail(ERR_NOMEM, "%d clusters", ELSEWHERE_MAX);

    if (!rc)
        rc = records_query(&store->records,
                           "SELECT id FROM fingerprint WHERE here = 0 ORDER BY id LIMIT 4096", NULL,
                           0, &s);
    while (!rc && !(rc = records_step(&store->records, s)))
        ids[count++] = sqlite3_column_int64(s, 0);
    rc = rc == UNSUPPORTED ? OK : rc;
    for (int i = 0; i < count && !rc; i++) {
        rc = store_cluster_get(store, ids[i], &cluster);
        if (!rc)
            rc = each(self, &cluster);
    }
    free(ids);
    return rc;
}

/* ---- expiring */

struct expiry {
    struct store *store;
    uint32_t window, first, last;
    const char *why;
};

static int make_stale(void *self, const struct entry_row *entry)
{
    const struct expiry *x = self;
    struct entry_row stale = *entry;

    if (entry->stale || (x->window && entry->window != x->window) || entry->bucket < x->first ||
        entry->bucket > x->last)
        return OK;
    stale.stale = true;
    return store_entry(x->store, &stale, x->why);
}

int store_expire(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 uint32_t first, uint32_t last, const char *why)
{
    const int64_t range[] = { cluster, shape, window, first, last };
    struct expiry expiry = { store, window, first, last, why };

    TRY(store_entries(store, cluster, shape, make_stale, &expiry));
    TRY(records_delete(&store->records, "sample", RECORDS_SAMPLES, range, 5));
    return records_delete(&store->records, "trial", RECORDS_RANGE, range, 5);
}

int store_entry_get(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                    uint32_t bucket, struct entry_row *out)
{
    const int64_t key[] = { cluster, shape, window, bucket };
    int64_t id;

    return find_entry(store, key, &id, out);
}

int store_entries(struct store *store, int64_t cluster, int64_t shape,
                  int (*each)(void *self, const struct entry_row *entry), void *self)
{
    const int64_t key[] = { cluster, shape };
    struct entry_row *rows = NULL;
    size_t count = 0, room = 0;
    sqlite3_stmt *s;
    int rc;

    TRY(records_query(&store->records,
                      "SELECT " ENTRY_COLUMNS " FROM entry WHERE (fingerprint=?1 OR ?1=0) AND"
                      " (shape=?2 OR ?2=0) ORDER BY fingerprint, shape, window, bucket",
                      key, 2, &s));
    while (!(rc = records_step(&store->records, s))) {
        if (count == room) {
            struct entry_row *more = realloc(rows, (room = 2 * room + 64) * sizeof(*rows));

            if (!more) {
                sqlite3_reset(s);
                rc = fail(ERR_NOMEM, "%zu entries", room);
                break;
            }
            rows = more;
        }
        rows[count++] = entry_columns(s);
    }
    rc = rc == UNSUPPORTED ? OK : rc;
    for (size_t i = 0; i < count && !rc; i++)
        rc = each(self, &rows[i]);
    free(rows);
    return rc;
}

/* ---- overrides */

/* Pins that overlap a range. */
struct overlap {
    struct override_row range, *rows;
    uint32_t count;
};

static int add_overlap(void *self, const struct override_row *row)
{
    struct overlap *o = self;
    struct override_row *more;

    if (row->cluster != o->range.cluster || row->shape != o->range.shape ||
        row->window != o->range.window || row->last < o->range.first || row->first > o->range.last)
        return OK;
    more = realloc(o->rows, (o->count + 1) * sizeof(*more));
    if (!more)
        return fail(ERR_NOMEM, "%u pins", o->count + 1);
    o->rows = more;
    o->rows[o->count++] = *row;
    return OK;
}

static int put_override(struct store *store, struct override_row *row)
{
    char plan[PLAN_TEXT_BYTES];

    TRY(NEXT_ID(store, "override", &row->id));
    return PUT(store, "override", INTEGER("id", row->id), INTEGER("fingerprint", row->cluster),
               INTEGER("shape", row->shape), INTEGER("window", row->window),
               INTEGER("first_bucket", row->first), INTEGER("last_bucket", row->last),
               TEXT("plan", plan_text(&row->plan, plan)), TEXT("why", row->why),
               INTEGER("since_s", row->since_s));
}

/* What of a pin lies outside of a range stays pinned. */
static int put_rest(struct store *store, const struct override_row *row, uint32_t first,
                    uint32_t last)
{
    struct override_row below = *row, above = *row;

    below.last = first - 1;
    above.first = last + 1;
    if (row->first < first)
        TRY(put_override(store, &below));
    return row->last > last ? put_override(store, &above) : OK;
}

int store_override_end(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                       uint32_t first, uint32_t last, uint32_t *count)
{
    const int64_t range[] = { cluster, shape, window, first, last };
    struct overlap o = { .range = { .cluster = cluster,
                                    .shape = shape,
                                    .window = window,
                                    .first = first,
                                    .last = last } };
    int rc = store_overrides(store, add_overlap, &o);

    if (!rc && o.count)
        rc = records_delete(&store->records, "override", RECORDS_OVERLAP, range, 5);
    for (uint32_t i = 0; i < o.count && !rc; i++)
        rc = put_rest(store, &o.rows[i], first, last);
    free(o.rows);
    if (!rc)
        *count = o.count;
    return rc;
}

int store_override(struct store *store, struct override_row *row)
{
    uint32_t replaced;

    TRY(store_override_end(store, row->cluster, row->shape, row->window, row->first, row->last,
                           &replaced));
    return put_override(store, row);
}

int store_overrides(struct store *store, int (*each)(void *self, const struct override_row *row),
                    void *self)
{
    sqlite3_stmt *s;
    int rc;

    TRY(records_query(&store->records,
                      "SELECT id, fingerprint, shape, window, first_bucket, last_bucket, plan, why,"
                      " since_s FROM override ORDER BY fingerprint, shape, window, first_bucket",
                      NULL, 0, &s));
    while (!(rc = records_step(&store->records, s))) {
        struct override_row row = { .id = sqlite3_column_int64(s, 0),
                                    .cluster = sqlite3_column_int64(s, 1),
                                    .shape = sqlite3_column_int64(s, 2),
                                    .window = (uint32_t)sqlite3_column_int64(s, 3),
                                    .first = (uint32_t)sqlite3_column_int64(s, 4),
                                    .last = (uint32_t)sqlite3_column_int64(s, 5),
                                    .plan = plan_column(s, 6),
                                    .since_s = sqlite3_column_int64(s, 8) };

        TEXT_COLUMN(s, 7, row.why);
        rc = each(self, &row);
        if (rc) {
            sqlite3_reset(s);
            return rc;
        }
    }
    return rc == UNSUPPORTED ? OK : rc;
}
