/* The tables of the database as SQL, and the steps from one version to the next. */
#ifndef SCHEMA_H
#define SCHEMA_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

/* Lists of SQL statements. The first list makes the tables of STORE_OLDEST, and each further list
 * leads to the next version. */
extern const char *const *const schema_steps[];

/* Migrates an open database from `version` (0: empty) to `target` in one transaction. */
int schema_migrate(sqlite3 *db, const char *path, int version, int target,
                   const char *const *const *steps);

/* A stand-in for plans that older libraries do not know.
 *
 * Older libraries take a plan without padding (plan_is_counted()) for illegal. They would leave its
 * entry out, and a neighbouring bucket's plan might answer. So the column `plan` of such an entry
 * or pin holds the layer's default plan, which older libraries answer. `meta` holds the row's own
 * plan. Its key names the row and its date, so it no longer fits when an older program has replaced
 * the row.
 *
 * The macros are SQL for the own plan of a row of entry and of override. `row` is a literal, the
 * name of the row's table. */
#define SCHEMA_STAND_IN "r=1 d=1 a=linear"
#define SCHEMA_OWN_PLAN(row, key)                                                                  \
    "CASE WHEN " row ".plan = '" SCHEMA_STAND_IN "' AND EXISTS(SELECT 1 FROM meta) THEN"           \
    " coalesce((SELECT v FROM meta WHERE k = " key "), " row ".plan) ELSE " row ".plan END"
#define SCHEMA_ENTRY_PLAN(row)                                                                     \
    SCHEMA_OWN_PLAN(row, "'entry ' || " row ".fingerprint || ' ' || " row ".shape || ' ' || " row  \
                         ".window || ' ' || " row ".bucket || ' ' || " row ".decided_s")
#define SCHEMA_PIN_PLAN(row)                                                                       \
    SCHEMA_OWN_PLAN(row, "'override ' || " row ".fingerprint || ' ' || " row                       \
                         ".shape || ' ' || " row ".window || ' ' || " row                          \
                         ".first_bucket || ' ' || " row ".last_bucket || ' ' || " row ".since_s")

/* Makes the view `dictionary` read plans from `meta`, where `meta` has plans and the view does not
 * read them yet. */
int schema_show_plans(sqlite3 *db, const char *path);

/* The tables of a snapshot: what a reader of the dictionary needs. */
extern const char *const schema_published[];

/* Returns whether a table exists in the database "main" or "source". Only `launch` and `fixed` may
 * be missing, because they were added without a new version: they are made with their first row,
 * and older programs never look for them. True for any other table. */
bool schema_has(sqlite3 *db, const char *database, const char *table);

/* Makes the table if it is one of these two and does not exist. */
int schema_make(sqlite3 *db, const char *path, const char *table);

/* Reads application_id and user_version. OK with *version; 0: an empty file. ERR_CORRUPT for a file
 * that is damaged, foreign, or of a version that is not read, with *version where it is known.
 * ERR_BUSY if another program has locked it. */
int schema_check(sqlite3 *db, const char *path, int *version);

/* Returns whether the file has moetune's mark, or moetune's other files stand beside it. A file
 * with neither must not be set aside. (Do not call it while SQLite writes: closing a file drops the
 * process's locks on it.) */
bool schema_is_ours(const char *path);

/* Prints that the file is damaged and what to do. Returns ERR_CORRUPT. */
int schema_damaged(const char *path, const char *why);

/* Turns SQLite's code into a status, and prints one message for an error. */
int schema_status(sqlite3 *db, int code, const char *path, const char *what);

/* Reads the first text that a query finds, or "". For statements that are not worth caching. */
int schema_ask(sqlite3 *db, const char *path, const char *sql, char *answer, size_t size);

/* Runs statements without a result. */
int schema_run(sqlite3 *db, const char *path, const char *sql);

/* Attaches another database, which must exist, as `source`. */
int schema_attach(sqlite3 *db, const char *path);

#endif
