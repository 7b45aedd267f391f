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

/* Tables that a reader of the dictionary needs: what is published. */
extern const char *const schema_published[];

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
