/* Rows on their way into the tables and out of them. */
#ifndef ROW_SQL_H
#define ROW_SQL_H

#include "records.h"
#include "row.h"

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
