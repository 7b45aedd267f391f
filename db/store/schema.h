/* What is in the database: tables as SQL, and the steps from one version to the next. */
#ifndef SCHEMA_H
#define SCHEMA_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

/* The statements of the first step make the tables of STORE_OLDEST, those of each that follows lead
 * to the next version. */
extern const char *const *const schema_steps[];

/* Brings an open database from `version` (0: empty) to `target` in one transaction. */
int schema_migrate(sqlite3 *db, const char *path, int version, int target,
                   const char *const *const *steps);

/* Libraries that know no rows without padding find such a plan (plan_is_counted()) illegal.  They
 * leave its entry out, and a neighbouring bucket's plan may answer.  So the column `plan` of such
 * an entry or pin holds the layer's default plan, which they answer.  `meta` holds the row's own
 * plan; its key names the row, and says when it was written: the key no longer fits where an older
 * program has replaced the row.
 *
 * SQL for the own plan of a row of entry and of override; `row` is a literal, the row's table. */
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

/* Makes the view `dictionary` read plans from `meta`, where there are any and it does not yet. */
int schema_show_plans(sqlite3 *db, const char *path);

/* Tables that a reader of the dictionary needs: what is published. */
extern const char *const schema_published[];

/* The tables `launch` and `fixed` came without a version: who does not know them never looks for
 * them.  They are made when their first row is written, so every reader asks whether they are
 * there, in "main" or in "source".  True of any other table. */
bool schema_has(sqlite3 *db, const char *database, const char *table);

/* Makes the table if it is one of these and not there. */
int schema_make(sqlite3 *db, const char *path, const char *table);

/* Reads application_id and user_version: OK with *version (0: an empty file), or ERR_CORRUPT, with
 * *version where it can be read, for a file that is damaged, foreign, newer or older than all that
 * are read; ERR_BUSY if somebody else holds it. */
int schema_check(sqlite3 *db, const char *path, int *version);

/* The file has our mark, or our files stand beside it: what has neither is not ours to set aside.
 * (Not while SQLite writes to it: closing a file drops the locks that this process has on it.) */
bool schema_is_ours(const char *path);

/* Says once that the file is damaged and what can be done, and returns ERR_CORRUPT. */
int schema_damaged(const char *path, const char *why);

/* Turns SQLite's code into a status, and says once what is wrong. */
int schema_status(sqlite3 *db, int code, const char *path, const char *what);

/* Gives the first text that a query finds, or "": for statements that are not worth keeping. */
int schema_ask(sqlite3 *db, const char *path, const char *sql, char *answer, size_t size);

/* Runs statements without a result. */
int schema_run(sqlite3 *db, const char *path, const char *sql);

/* Attaches another database, which must be there, as `source`. */
int schema_attach(sqlite3 *db, const char *path);

#endif
