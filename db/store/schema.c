/* The SQL of tables and views, the migration from one version to the next, and the messages for
 * SQLite's errors. */
#include "schema.h"

#include "status.h"
#include "store.h"
#include "text.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Four names in SQL are older than the words of this program, and files keep them: `fingerprint` is
 * a cluster, `shape` a layer, `window` the width of the buckets, `override` a pin.
 *
 * Plans, layers and clusters are stored as text; capacities and times as numbers. New columns stand
 * last, because rows are copied by position. */

/* The tables as the first release had them. */
static const char *const version_13[] = {
    "CREATE TABLE meta(k TEXT PRIMARY KEY, v TEXT NOT NULL) STRICT;",
    /* Clusters. here: the program has run on this cluster. */
    "CREATE TABLE fingerprint(id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE,"
    "  text TEXT NOT NULL, created_s INTEGER NOT NULL, here INTEGER NOT NULL DEFAULT 1) STRICT;",
    "CREATE TABLE fingerprint_field(id INTEGER PRIMARY KEY, fingerprint INTEGER NOT NULL,"
    "  name TEXT NOT NULL, class TEXT NOT NULL, value TEXT NOT NULL,"
    "  UNIQUE(fingerprint, name)) STRICT;",
    /* Layers. */
    "CREATE TABLE shape(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;",
    /* Calls of tune, verify, or a live tuner. */
    "CREATE TABLE run(id INTEGER PRIMARY KEY, fingerprint INTEGER NOT NULL, state TEXT NOT NULL,"
    "  started_s INTEGER NOT NULL, updated_s INTEGER NOT NULL, seed INTEGER NOT NULL,"
    "  search TEXT NOT NULL, effort TEXT NOT NULL, command TEXT NOT NULL, version TEXT NOT NULL,"
    "  buckets_planned INTEGER NOT NULL, buckets_done INTEGER NOT NULL,"
    "  samples_search INTEGER NOT NULL, samples_default INTEGER NOT NULL,"
    "  samples_warm INTEGER NOT NULL, now TEXT NOT NULL) STRICT;",
    /* A plan in a bucket: what became of it, and the work in one of its steps. node_rows: the rows
     * for a node with which a=rail was measured. */
    "CREATE TABLE trial(id INTEGER PRIMARY KEY, run INTEGER NOT NULL,"
    "  fingerprint INTEGER NOT NULL, shape INTEGER NOT NULL, window INTEGER NOT NULL,"
    "  bucket INTEGER NOT NULL, plan TEXT NOT NULL, capacity INTEGER NOT NULL,"
    "  state TEXT NOT NULL, attempts INTEGER NOT NULL, memory_bytes INTEGER NOT NULL,"
    "  sent_bytes INTEGER NOT NULL, messages INTEGER NOT NULL, compute_ns INTEGER NOT NULL,"
    "  comm_ns INTEGER NOT NULL, message TEXT NOT NULL, node_rows INTEGER NOT NULL DEFAULT 0,"
    "  UNIQUE(fingerprint, shape, window, bucket, plan)) STRICT;",
    /* The steps of a trial, in the order in which they were taken. clock_mhz, throttled: the state
     * of the GPU, 0 where it is not known. lost_ns: time that other processes took. load: how
     * tokens chose experts, '' for random choices. */
    "CREATE TABLE sample(id INTEGER PRIMARY KEY, trial INTEGER NOT NULL, kind INTEGER NOT NULL,"
    "  round INTEGER NOT NULL, ns INTEGER NOT NULL, clock_mhz INTEGER NOT NULL DEFAULT 0,"
    "  throttled INTEGER NOT NULL DEFAULT 0, lost_ns INTEGER NOT NULL DEFAULT 0,"
    "  run INTEGER NOT NULL DEFAULT 0, load TEXT NOT NULL DEFAULT '') STRICT;",
    "CREATE INDEX sample_trial ON sample(trial);",
    /* The dictionary; struct entry_row explains all columns. search_winner: the plan that the
     * search found fastest, before it was compared with the default. bound: upper bound of the loss
     * against the best plan, as a share. reason: why the search stopped. tier: who measured the
     * entry. throttled: how many samples behind it were disturbed. other: the best plan that moves
     * weights where this plan moves tokens, or the reverse. no_other: no such plan can run here. */
    "CREATE TABLE entry(id INTEGER PRIMARY KEY, fingerprint INTEGER NOT NULL,"
    "  shape INTEGER NOT NULL, run INTEGER NOT NULL, window INTEGER NOT NULL,"
    "  bucket INTEGER NOT NULL, capacity INTEGER NOT NULL, plan TEXT NOT NULL, runner_up TEXT,"
    "  search_winner TEXT, time_us REAL, low_us REAL, high_us REAL, default_us REAL, gain REAL,"
    "  gain_low REAL, gain_high REAL, bound REAL, samples INTEGER NOT NULL,"
    "  inferred INTEGER NOT NULL, stale INTEGER NOT NULL, effort TEXT NOT NULL,"
    "  search TEXT NOT NULL, reason TEXT NOT NULL, decision TEXT NOT NULL,"
    "  decided_s INTEGER NOT NULL, tier TEXT NOT NULL DEFAULT 'local',"
    "  throttled INTEGER NOT NULL DEFAULT 0, load TEXT NOT NULL DEFAULT '', other TEXT,"
    "  other_us REAL NOT NULL DEFAULT 0, no_other INTEGER NOT NULL DEFAULT 0,"
    "  UNIQUE(fingerprint, shape, window, bucket)) STRICT;",
    /* Entries that were replaced, and the pins of persons. */
    "CREATE TABLE history(id INTEGER PRIMARY KEY, fingerprint INTEGER NOT NULL,"
    "  shape INTEGER NOT NULL, run INTEGER NOT NULL, window INTEGER NOT NULL,"
    "  bucket INTEGER NOT NULL, plan TEXT NOT NULL, time_us REAL, default_us REAL, gain REAL,"
    "  bound REAL, inferred INTEGER NOT NULL, decision TEXT NOT NULL, decided_s INTEGER NOT NULL,"
    "  replaced_s INTEGER NOT NULL, why TEXT NOT NULL) STRICT;",
    "CREATE TABLE override(id INTEGER PRIMARY KEY, fingerprint INTEGER NOT NULL,"
    "  shape INTEGER NOT NULL, window INTEGER NOT NULL, first_bucket INTEGER NOT NULL,"
    "  last_bucket INTEGER NOT NULL, plan TEXT NOT NULL, why TEXT NOT NULL,"
    "  since_s INTEGER NOT NULL) STRICT;",
    "CREATE TABLE import_log(id INTEGER PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE,"
    "  file TEXT NOT NULL, imported_s INTEGER NOT NULL, added INTEGER NOT NULL,"
    "  same INTEGER NOT NULL, conflicts INTEGER NOT NULL) STRICT;",
    /* The worth of a layer's whole table, by rounds against the default and static plans. launches:
     * number of launches of the ranks behind it. given_up: the rounds ended the table's plans.
     * kappa: factor by which claims are wider because of what `moetune verify` found. */
    "CREATE TABLE standing(fingerprint INTEGER NOT NULL, shape INTEGER NOT NULL,"
    "  window INTEGER NOT NULL, run INTEGER NOT NULL, gain REAL, gain_low REAL, gain_high REAL,"
    "  static_gain REAL, static_gain_low REAL, static_gain_high REAL, static_plan TEXT,"
    "  rounds INTEGER NOT NULL, first_round INTEGER NOT NULL, rivals TEXT NOT NULL,"
    "  decided_s INTEGER NOT NULL, launches INTEGER NOT NULL DEFAULT 0,"
    "  given_up INTEGER NOT NULL DEFAULT 0, kappa REAL NOT NULL DEFAULT 1,"
    "  PRIMARY KEY(fingerprint, shape, window)) STRICT;",
    /* The counts of a load whose name does not contain them. */
    "CREATE TABLE load(name TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT;",
    /* The parts of a trial's step, where tune was asked to measure them. */
    "CREATE TABLE phase(trial INTEGER NOT NULL, phase TEXT NOT NULL, ns INTEGER NOT NULL,"
    "  low_ns INTEGER NOT NULL, high_ns INTEGER NOT NULL, PRIMARY KEY(trial, phase)) STRICT;",
    /* Declared spaces, which layers and plans name. */
    "CREATE TABLE space(id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;",
    /* What a table claimed of a plan, and what `moetune verify` found. */
    "CREATE TABLE verification(fingerprint INTEGER NOT NULL, shape INTEGER NOT NULL,"
    "  window INTEGER NOT NULL, bucket INTEGER NOT NULL, run INTEGER NOT NULL,"
    "  claim REAL NOT NULL, claim_low REAL NOT NULL, claim_high REAL NOT NULL,"
    "  kappa REAL NOT NULL, found REAL NOT NULL, found_low REAL NOT NULL,"
    "  found_high REAL NOT NULL, decided_s INTEGER NOT NULL,"
    "  PRIMARY KEY(fingerprint, shape, window, bucket)) STRICT;",
    NULL
};

/* Columns that version 14 added. likely: the plan that is probably better, where nothing is proven.
 * goes: how often undecided buckets were continued because somebody asked again. more_s: how many
 * more seconds a decision is expected to take. */
static const char *const version_14[] = {
    "ALTER TABLE entry ADD COLUMN likely TEXT;",
    "ALTER TABLE entry ADD COLUMN likely_gain REAL;",
    "ALTER TABLE entry ADD COLUMN likely_chance REAL;",
    "ALTER TABLE standing ADD COLUMN goes INTEGER NOT NULL DEFAULT 0;",
    "ALTER TABLE standing ADD COLUMN more_s REAL NOT NULL DEFAULT 0;",
    NULL
};

/* launch: its launch values as words. plan: the best plan that it can run in the bucket. sd: of
 * log(time_us). */
static const char make_launch[] =
    "CREATE TABLE IF NOT EXISTS main.launch(fingerprint INTEGER NOT NULL, shape INTEGER NOT NULL,"
    "  window INTEGER NOT NULL, launch TEXT NOT NULL, bucket INTEGER NOT NULL, plan TEXT NOT NULL,"
    "  time_us REAL NOT NULL, sd REAL NOT NULL, samples INTEGER NOT NULL,"
    "  PRIMARY KEY(fingerprint, shape, window, launch, bucket)) STRICT;";

/* Which axes trainers of a table cannot switch, and the measurement behind it: struct fixed_row. */
static const char make_fixed[] =
    "CREATE TABLE IF NOT EXISTS main.fixed(fingerprint INTEGER NOT NULL, shape INTEGER NOT NULL,"
    "  window INTEGER NOT NULL, axes TEXT NOT NULL, asked TEXT NOT NULL, launch TEXT NOT NULL,"
    "  plans TEXT NOT NULL, whole INTEGER NOT NULL, price REAL, price_low REAL, price_high REAL,"
    "  PRIMARY KEY(fingerprint, shape, window)) STRICT;";

/* The view for persons. It stores nothing, so every migration makes it anew. Rows of declared
 * spaces have no capacities, so c_from and c_to are NULL there. */
#define DICTIONARY(plan)                                                                           \
    "DROP VIEW IF EXISTS dictionary;"                                                              \
    "CREATE VIEW dictionary AS SELECT"                                                             \
    "  (SELECT value FROM fingerprint_field f"                                                     \
    "     WHERE f.fingerprint = e.fingerprint AND f.name = 'device') AS device,"                   \
    "  s.text AS layer, e.bucket AS bucket,"                                                       \
    "  iif(s.text LIKE '% space=%', NULL, e.bucket * e.window) AS c_from,"                         \
    "  iif(s.text LIKE '% space=%', NULL, (e.bucket + 1) * e.window - 1) AS c_to, " plan           \
    " AS plan,"                                                                                    \
    "  round(e.time_us, 2) AS time_us, round(e.default_us, 2) AS default_us,"                      \
    "  round(100 * e.gain, 2) AS gain_percent, round(100 * e.bound, 2) AS bound_percent,"          \
    "  iif(e.inferred, 'inferred', 'measured') || iif(e.stale, ', stale', '')"                     \
    "    || iif(e.throttled, ', disturbed', '') || iif(e.reason = 'cut', ', cut off', '')"         \
    "    || iif(e.tier = 'local', '', ', ' || e.tier) AS how,"                                     \
    "  e.decision AS decision, datetime(e.decided_s, 'unixepoch') AS decided,"                     \
    "  iif((SELECT value FROM fingerprint_field f"                                                 \
    "     WHERE f.fingerprint = e.fingerprint AND f.name = 'backend')"                             \
    "     IN ('sim', 'virtual'), 'yes', 'no')"                                                     \
    "     AS simulated"                                                                            \
    "  FROM entry e JOIN shape s ON s.id = e.shape"                                                \
    "  ORDER BY e.fingerprint, e.shape, e.window, e.bucket;"

const char *const *const schema_steps[] = { version_13, version_14, NULL };

const char *const schema_published[] = { "meta",   "fingerprint", "fingerprint_field",
                                         "space",  "shape",       "run",
                                         "entry",  "standing",    "override",
                                         "launch", "fixed",       NULL };

/* Tables that are made with their first row; most databases have none of them. */
static const struct optional_table {
    const char *table, *make;
} optional_tables[] = { { "launch", make_launch }, { "fixed", make_fixed } };

static const struct optional_table *find_optional(const char *table)
{
    for (size_t i = 0; i < sizeof(optional_tables) / sizeof(optional_tables[0]); i++)
        if (!strcmp(table, optional_tables[i].table))
            return &optional_tables[i];
    return NULL;
}

bool schema_has(sqlite3 *db, const char *database, const char *table)
{
    return !find_optional(table) ||
           sqlite3_table_column_metadata(db, database, table, NULL, NULL, NULL, NULL, NULL, NULL) ==
               SQLITE_OK;
}

int schema_make(sqlite3 *db, const char *path, const char *table)
{
    const struct optional_table *optional = find_optional(table);

    return optional ? schema_run(db, path, optional->make) : OK;
}

static bool has_file_beside(const char *path, const char *ending)
{
    char other[PATH_MAX];

    return snprintf(other, sizeof(other), "%s%s", path, ending) < (int)sizeof(other) &&
           !access(other, F_OK);
}

/* SQLite keeps application_id, the most significant byte first, at this byte of a file. */
enum { APPLICATION_ID_OFFSET = 68 };

bool schema_is_ours(const char *path)
{
    static const char moetune_mark[] = { 'm', 'o', 'e', 't' }; /* STORE_APPLICATION as bytes */
    char mark[sizeof(moetune_mark)] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool marked = fd >= 0 &&
                  pread(fd, mark, sizeof(mark), APPLICATION_ID_OFFSET) == (ssize_t)sizeof(mark) &&
                  !memcmp(mark, moetune_mark, sizeof(mark));

    if (fd >= 0)
        close(fd);
    return marked || has_file_beside(path, ".journal") || has_file_beside(path, ".published");
}

int schema_damaged(const char *path, const char *why)
{
    bool journal = has_file_beside(path, ".journal");

    return fail(ERR_CORRUPT,
                "%s is damaged (%s); it is left as it is.  `moetune tune --repair` sets it aside "
                "and rebuilds it from %s%s",
                path, why, journal ? path : "what is left of it", journal ? ".journal" : "");
}

int schema_status(sqlite3 *db, int code, const char *path, const char *what)
{
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
    case SQLITE_ROW: return OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return fail(ERR_BUSY, "%s: another program has locked it", path);
    case SQLITE_CORRUPT: return schema_damaged(path, sqlite3_errmsg(db));
    case SQLITE_NOTADB:
        return schema_is_ours(path)
                   ? schema_damaged(path, sqlite3_errmsg(db))
                   : fail(ERR_CORRUPT, "%s is no database of moetune (%s); it is left as it is",
                          path, sqlite3_errmsg(db));
    case SQLITE_NOMEM: return fail(ERR_NOMEM, "%s: %s", path, what);
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
        if (has_file_beside(path, "-journal"))
            return fail(
                ERR_IO,
                "%s: a program was killed while it wrote, and this process may not write there to "
                "undo that: a user with that right must run moetune show --db %s once",
                path, path);
        return fail(ERR_IO, "%s: %s: %s", path, what, sqlite3_errmsg(db));
    default: return fail(ERR_IO, "%s: %s: %s", path, what, sqlite3_errmsg(db));
    }
}

int schema_run(sqlite3 *db, const char *path, const char *sql)
{
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);

    return code == SQLITE_OK ? OK : schema_status(db, code, path, "cannot be written");
}

int schema_ask(sqlite3 *db, const char *path, const char *sql, char *answer, size_t size)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    text_put(answer, size, "%s",
             code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : "");
    sqlite3_finalize(statement);
    return schema_status(db, code, path, "cannot be read");
}

int schema_check(sqlite3 *db, const char *path, int *version)
{
    char application_id[32], user_version[32], table_count[32];

    TRY(schema_ask(db, path, "PRAGMA application_id", application_id, sizeof(application_id)));
    TRY(schema_ask(db, path, "PRAGMA user_version", user_version, sizeof(user_version)));
    TRY(schema_ask(db, path, "SELECT count(*) FROM sqlite_schema", table_count,
                   sizeof(table_count)));
    *version = atoi(table_count) ? atoi(user_version) : 0;
    if (atoi(application_id) != STORE_APPLICATION && atoi(table_count))
        return fail(ERR_CORRUPT,
                    "%s is a database of some other program; it is left as it is: choose another "
                    "file with --db",
                    path);
    if (atoi(table_count) && !*version)
        return schema_damaged(path, "it has tables, but no version");
    if (*version && *version < STORE_OLDEST)
        return fail(ERR_CORRUPT,
                    "%s is from before moetune's first release (tables of version %d; this moetune "
                    "reads versions from %d on); it is left as it is",
                    path, *version, STORE_OLDEST);
    if (atoi(user_version) > STORE_VERSION)
        return fail(ERR_CORRUPT,
                    "%s is from a newer moetune (tables of version %d; this moetune reads versions "
                    "up to %d); it is left as it is",
                    path, atoi(user_version), STORE_VERSION);
    return OK;
}

int schema_show_plans(sqlite3 *db, const char *path)
{
    char must_change[8];

    /* '!' follows the blank, so the range has every key that begins with "entry ". */
    TRY(schema_ask(db, path,
                   "SELECT EXISTS(SELECT 1 FROM meta WHERE k BETWEEN 'entry ' AND 'entry!')"
                   " AND NOT EXISTS(SELECT 1 FROM sqlite_schema"
                   "                WHERE name = 'dictionary' AND sql LIKE '%FROM meta%')",
                   must_change, sizeof(must_change)));
    return atoi(must_change) ? schema_run(db, path, DICTIONARY(SCHEMA_ENTRY_PLAN("e"))) : OK;
}

int schema_migrate(sqlite3 *db, const char *path, int version, int target,
                   const char *const *const *steps)
{
    int reached = version ? version : STORE_OLDEST - 1; /* the first step makes STORE_OLDEST */
    char sql[128];
    int rc;

    if (version == target)
        return OK;
    TRY(schema_run(db, path, "BEGIN EXCLUSIVE"));
    for (rc = OK; reached < target && !rc; reached++) {
        const char *const *statements = steps[reached + 1 - STORE_OLDEST];

        for (size_t i = 0; statements[i] && !rc; i++)
            rc = schema_run(db, path, statements[i]);
    }
    if (!rc)
        rc = schema_run(db, path, DICTIONARY("e.plan"));
    if (!rc)
        rc = schema_show_plans(db, path);
    snprintf(sql, sizeof(sql), "PRAGMA application_id=%d; PRAGMA user_version=%d",
             STORE_APPLICATION, target);
    if (!rc)
        rc = schema_run(db, path, sql);
    if (!rc)
        rc = schema_run(db, path, "COMMIT");
    if (rc)
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

int schema_attach(sqlite3 *db, const char *path)
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
