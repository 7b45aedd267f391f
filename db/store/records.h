/* Rows on their way into the database, each also a line of its journal.
 *
 * The journal holds every row that was ever written, as a JSON object of its columns and the name
 * of its table; deletions are lines too.  Replaying it gives the same database. */
#ifndef RECORDS_H
#define RECORDS_H

#include "json.h"
#include "row.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct record_column {
    const char *name;
    enum { COLUMN_INTEGER, COLUMN_REAL, COLUMN_TEXT } kind; /* REAL NAN and TEXT NULL are NULL */
    int64_t integer;
    double real;
    const char *text;
};

#define INTEGER(name, value)                                                                       \
    {                                                                                              \
        name, COLUMN_INTEGER, (int64_t)(value), 0, NULL                                            \
    }
#define REAL(name, value)                                                                          \
    {                                                                                              \
        name, COLUMN_REAL, 0, (value), NULL                                                        \
    }
#define TEXT(name, value)                                                                          \
    {                                                                                              \
        name, COLUMN_TEXT, 0, 0, (value)                                                           \
    }

enum { RECORD_COLUMNS_MAX = 40, STATEMENTS_MAX = 64 };

/* A database, its journal, and what is prepared. */
struct records {
    sqlite3 *db;
    const char *path; /* borrowed */
    FILE *journal;    /* NULL: none is kept */
    bool relaxed;     /* no fsync */
    bool changing;    /* a transaction is open */
    long journal_at;  /* where its lines begin */
    struct json_text line;
    struct {
        const char *verb, *key;
        sqlite3_stmt *statement;
    } prepared[STATEMENTS_MAX];
};

/* Writes a row; the one with the same primary key or unique columns is replaced.  `table` and the
 * columns' names must be literals: statements are kept by the table's name. */
int records_put(struct records *records, const char *table, const struct record_column *columns,
                size_t count);

/* The buckets of one layer, or of all: fingerprint, shape, window (0: any), first and last bucket.
 */
#define RECORDS_RANGE                                                                              \
    "fingerprint=?1 AND (?2=0 OR shape=?2) AND (?3=0 OR window=?3) AND bucket BETWEEN ?4 AND ?5"

/* One bucket of one layer, which the index finds. */
#define RECORDS_BUCKET "fingerprint=?1 AND shape=?2 AND window=?3 AND bucket=?4"

/* The samples of those buckets, and of these samples the kinds from ?6 to ?7. */
#define RECORDS_SAMPLES "trial IN (SELECT id FROM trial WHERE " RECORDS_RANGE ")"
#define RECORDS_KINDS "kind BETWEEN ?6 AND ?7 AND " RECORDS_SAMPLES

/* The pins that overlap a range of buckets of one layer. */
#define RECORDS_OVERLAP                                                                            \
    "fingerprint=?1 AND shape=?2 AND window=?3 AND first_bucket<=?5 AND last_bucket>=?4"

/* The standing of one layer's table, if it was imported: no run here made it. */
#define RECORDS_IMPORTED "fingerprint=?1 AND shape=?2 AND window=?3 AND run=0"

/* What `meta` has of the plan of one bucket's entry, and of a pin of exactly these buckets. */
#define RECORDS_ENTRY "'entry '||?1||' '||?2||' '||?3||' '||?4||"
#define RECORDS_PIN "'override '||?1||' '||?2||' '||?3||' '||?4||' '||?5||"
#define RECORDS_ENTRY_PLAN "k BETWEEN " RECORDS_ENTRY "' ' AND " RECORDS_ENTRY "'!'"
#define RECORDS_PIN_PLAN "k BETWEEN " RECORDS_PIN "' ' AND " RECORDS_PIN "'!'"

/* Deletes rows of a table; `where` is a literal with ?1, ?2, ... for the integers.  Whatever is
 * used here must be known to records.c: a journal may not delete as it likes. */
int records_delete(struct records *records, const char *table, const char *where,
                   const int64_t *values, int count);

/* The id that the next row of a table will have; the name is a literal. */
int records_next_id(struct records *records, const char *table, int64_t *id);

/* A prepared statement of literal SQL, reset, with integers bound to ?1, ?2, ... */
int records_query(struct records *records, const char *sql, const int64_t *values, int count,
                  sqlite3_stmt **out);

/* The id that literal SQL finds with a text as ?1; UNSUPPORTED, silently, if there is none. */
int records_find_text(struct records *records, const char *sql, const char *text, int64_t *id);

/* Steps a statement: OK with a row, UNSUPPORTED at the end. */
int records_step(struct records *records, sqlite3_stmt *statement);

/* A call here that fails has taken back everything since the last commit, as a rollback does. */
int records_commit(struct records *records);
void records_rollback(struct records *records);          /* the journal forgets it too */
void records_move(struct records *records, sqlite3 *to); /* closes its database, takes that one */
void records_close(struct records *records);

/* Writes every line of a journal into an empty database; lines that are torn or not understood are
 * left out and counted. */
int records_replay(struct records *records, const char *journal, size_t *lines, size_t *skipped);

/* Every row there is as a line: a journal of the database as it is. */
int records_write_all(struct records *records, FILE *to);

/* ---- rows of structs: see row.h */

/* Writes it; what has the same primary key or unique columns is replaced. */
int row_put(struct records *records, const struct row_table *table, const void *row);

/* Writes it with an id of its own, unless its unique columns are there already: UNSUPPORTED then,
 * and nothing is written.  Its first field must be the id, whose value does not count. */
int row_put_new(struct records *records, const struct row_table *table, const void *row);

/* What follows "SELECT fields FROM table", with ?1, ?2, ... for the keys; a literal. */
struct row_query {
    const struct row_table *table, *joined; /* joined NULL: fields of the table alone */
    const char *rest;
    const int64_t *keys;
    int key_count;
};

/* Gives a statement to step and to read rows of. */
int row_select(struct records *records, const struct row_query *query, sqlite3_stmt **out);

/* The row that a statement stands on; its first field is in that column.  Unknown words of an enum
 * count as the last one: something is wrong with that row. */
void row_read(const struct row_table *table, sqlite3_stmt *statement, int column, void *row);

/* Reads the first one; UNSUPPORTED, silently, if there is none. */
int row_find(struct records *records, const struct row_query *query, void *row);

/* All of them. */
int row_list(struct records *records, const struct row_query *query, struct row_list *out);

#endif
