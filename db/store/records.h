/* Writes rows into the database, and each row also as a line into its journal.
 *
 * The journal holds every row that was ever written, as a JSON object of its columns and the name
 * of its table. Deletions are lines, too. Replaying the journal gives the same database. */
#ifndef RECORDS_H
#define RECORDS_H

#include "json.h"
#include "row.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One column of a row, by name; it borrows the name and the text. */
struct record_column {
    const char *name;
    enum {
        COLUMN_INTEGER,
        COLUMN_REAL,
        COLUMN_TEXT
    } kind; /* REAL NAN and TEXT NULL are NULL in
             * SQL */
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

/* An open database with its journal and its prepared statements. store.c opens it; records_close()
 * frees all of it. */
struct records {
    sqlite3 *db;
    const char *path; /* borrowed */
    FILE *journal;    /* NULL: no journal is written */
    bool relaxed;     /* no fsync */
    bool changing;    /* a transaction is open */
    long journal_at;  /* end of the journal when the transaction began; a rollback cuts there */
    struct json_text line;
    struct {
        const char *verb, *key;
        sqlite3_stmt *statement;
    } prepared[STATEMENTS_MAX];
};

/* Writes a row, and replaces the row with the same primary key or unique columns. `table` and the
 * columns' names must be literals, because statements are cached by the address of the table's
 * name. */
int records_put(struct records *records, const char *table, const struct record_column *columns,
                size_t count);

/* SQL: the buckets of one layer, or of all layers. The keys are fingerprint, shape (0: any), window
 * (0: any), first and last bucket. */
#define RECORDS_RANGE                                                                              \
    "fingerprint=?1 AND (?2=0 OR shape=?2) AND (?3=0 OR window=?3) AND bucket BETWEEN ?4 AND ?5"

/* SQL: one bucket of one layer; an index finds it. */
#define RECORDS_BUCKET "fingerprint=?1 AND shape=?2 AND window=?3 AND bucket=?4"

/* SQL: the samples in such a range of buckets; RECORDS_KINDS: of the kinds from ?6 to ?7. */
#define RECORDS_SAMPLES "trial IN (SELECT id FROM trial WHERE " RECORDS_RANGE ")"
#define RECORDS_KINDS "kind BETWEEN ?6 AND ?7 AND " RECORDS_SAMPLES

/* SQL: the pins that overlap a range of buckets of one layer. */
#define RECORDS_OVERLAP                                                                            \
    "fingerprint=?1 AND shape=?2 AND window=?3 AND first_bucket<=?5 AND last_bucket>=?4"

/* SQL: the standing of one layer's table if it was imported, which means that no run here made
 * it. */
#define RECORDS_IMPORTED "fingerprint=?1 AND shape=?2 AND window=?3 AND run=0"

/* SQL: the rows of `meta` with the plan of one bucket's entry, or of a pin of exactly these
 * buckets. */
#define RECORDS_ENTRY "'entry '||?1||' '||?2||' '||?3||' '||?4||"
#define RECORDS_PIN "'override '||?1||' '||?2||' '||?3||' '||?4||' '||?5||"
#define RECORDS_ENTRY_PLAN "k BETWEEN " RECORDS_ENTRY "' ' AND " RECORDS_ENTRY "'!'"
#define RECORDS_PIN_PLAN "k BETWEEN " RECORDS_PIN "' ' AND " RECORDS_PIN "'!'"

/* Deletes rows of a table. `where` is one of the literals above, with ?1, ?2, ... for the integers.
 * records.c lists them, because a replayed journal must not delete anything else. */
int records_delete(struct records *records, const char *table, const char *where,
                   const int64_t *values, int count);

/* Finds the id that the next row of a table will have. The table's name is a literal. */
int records_next_id(struct records *records, const char *table, int64_t *id);

/* Returns a cached statement of literal SQL, reset, with integers bound to ?1, ?2, ... */
int records_query(struct records *records, const char *sql, const int64_t *values, int count,
                  sqlite3_stmt **out);

/* Finds the id that literal SQL selects with a text as ?1. UNSUPPORTED, without a message, where
 * there is no such row. */
int records_find_text(struct records *records, const char *sql, const char *text, int64_t *id);

/* Steps a statement: OK with a row, UNSUPPORTED at the end. */
int records_step(struct records *records, sqlite3_stmt *statement);

/* Makes all rows since the last commit durable. A function here that fails has already taken back
 * everything since the last commit. */
int records_commit(struct records *records);
void records_rollback(struct records *records); /* also removes the rows from the journal */
void records_switch(struct records *records, sqlite3 *to); /* closes the database and continues with
                                                            * `to` */
void records_close(struct records *records);

/* Writes every line of a journal into an empty database. Skips and counts lines that are torn or
 * not understood. */
int records_replay(struct records *records, const char *journal, size_t *lines, size_t *skipped);

/* Writes every row of the database as a line: a journal of its present state. */
int records_write_all(struct records *records, FILE *to);

/* ---- Rows of structs: see row.h. */

/* Writes a row, and replaces the row with the same primary key or unique columns. */
int row_put(struct records *records, const struct row_table *table, const void *row);

/* Writes a row with a new id, and ignores the value of its id, which must be its first field.
 * UNSUPPORTED, with nothing written, if a row with these unique columns exists. */
int row_put_new(struct records *records, const struct row_table *table, const void *row);

/* A query of rows: "SELECT fields FROM table" and then `rest`, a literal with ?1, ?2, ... for the
 * keys. It borrows everything. */
struct row_query {
    const struct row_table *table, *joined; /* joined NULL: only fields of the table */
    const char *rest;
    const int64_t *keys;
    int key_count;
};

/* Returns a statement that records_step() steps and row_read() reads. */
int row_select(struct records *records, const struct row_query *query, sqlite3_stmt **out);

/* Reads the row that a statement stands on; the row's first field is in `column`. An unknown word
 * of an enum becomes the enum's last value, which means that something is wrong. */
void row_read(const struct row_table *table, sqlite3_stmt *statement, int column, void *row);

/* Reads the first row. UNSUPPORTED, without a message, where there is no row. */
int row_find(struct records *records, const struct row_query *query, void *row);

/* Reads all rows; the caller frees out->rows. */
int row_list(struct records *records, const struct row_query *query, struct row_list *out);

#endif
