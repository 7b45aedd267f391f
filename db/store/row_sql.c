/* Makes the SQL of a table from the list of its fields, and carries rows both ways. */
#include "row_sql.h"

#include "array.h"
#include "status.h"
#include "text.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS_MAX = 4 };

/* A row as columns; the plans among them are texts of their own. */
struct row_columns {
    struct column columns[RECORD_COLUMNS_MAX];
    char plans[PLANS_MAX][PLAN_TEXT_BYTES];
    int plan_count;
};

static const char *plan_column(const struct row_field *f, const void *row, struct row_columns *to)
{
    const struct moe_plan *plan = (const void *)((const char *)row + f->offset);
    char *text = to->plans[to->plan_count];

    assert(to->plan_count < PLANS_MAX);
    if (!plan->struct_size || moe_plan_format(plan, text, PLAN_TEXT_BYTES) <= 0)
        return f->none;
    to->plan_count++;
    return text;
}

static struct column column_of(const struct row_field *f, const void *row, struct row_columns *to)
{
    switch (f->kind) {
    case ROW_INTEGER:
    case ROW_BOOL: return (struct column)INTEGER(f->name, row_integer(f, row));
    case ROW_REAL: return (struct column)REAL(f->name, row_real(f, row));
    case ROW_PLAN: return (struct column)TEXT(f->name, plan_column(f, row, to));
    default: return (struct column)TEXT(f->name, row_text(f, row, ROW_EXACT, NULL));
    }
}

static void columns_of(const struct row_table *table, const void *row, struct row_columns *to)
{
    assert(table->count <= RECORD_COLUMNS_MAX);
    to->plan_count = 0;
    for (size_t i = 0; i < table->count; i++)
        to->columns[i] = column_of(&table->fields[i], row, to);
}

int row_put(struct records *records, const struct row_table *table, const void *row)
{
    struct row_columns c;

    columns_of(table, row, &c);
    return records_put(records, table->name, c.columns, table->count);
}

int row_put_new(struct records *records, const struct row_table *table, const void *row)
{
    struct row_columns c;

    columns_of(table, row, &c);
    return records_add(records, table->name, c.columns, table->count);
}

/* ---- reading */

/* "entry.id,entry.run": tables that are joined may have columns of the same name. */
static void add_names(const struct row_table *table, char *sql, size_t size)
{
    for (size_t i = 0; table && i < table->count; i++)
        text_add(sql, size, "%s%s.%s", sql[strlen(sql) - 1] == ' ' ? "" : ",", table->name,
                 table->fields[i].name);
}

int row_select(struct records *records, const struct row_query *q, sqlite3_stmt **out)
{
    const char *table = q->table->name;
    char sql[2048] = "SELECT ";

    if (!records_prepared(records, table, q->rest)) {
        add_names(q->table, sql, sizeof(sql));
        add_names(q->joined, sql, sizeof(sql));
        if (!text_add(sql, sizeof(sql), " FROM %s %s", table, q->rest))
            return fail(ERR_ARGUMENT, "%s", sql);
    }
    TRY(records_prepare(records, table, q->rest, sql, out));
    for (int i = 0; i < q->key_count; i++)
        sqlite3_bind_int64(*out, i + 1, q->keys[i]);
    return OK;
}

static int64_t word_column(const char *text, const char *const *words)
{
    int i = 0;

    while (words[i + 1] && strcmp(words[i], text ? text : "") != 0)
        i++;
    return i;
}

static void read_field(const struct row_field *f, sqlite3_stmt *s, int at, void *row)
{
    const char *text;
    char *to = (char *)row + f->offset;

    switch (f->kind) {
    case ROW_INTEGER:
    case ROW_BOOL: row_set_integer(f, row, sqlite3_column_int64(s, at)); return;
    case ROW_REAL:
        *(double *)(void *)to =
            sqlite3_column_type(s, at) == SQLITE_NULL ? NAN : sqlite3_column_double(s, at);
        return;
    default: break;
    }
    text = (const char *)sqlite3_column_text(s, at);
    if (f->kind == ROW_ENUM)
        row_set_integer(f, row, word_column(text, f->words));
    else if (f->kind != ROW_PLAN)
        text_put(to, f->bytes, "%s", text ? text : "");
    else if (!text || plan_parse(text, (struct moe_plan *)(void *)to))
        memset(to, 0, f->bytes);
}

void row_read(const struct row_table *table, sqlite3_stmt *statement, int column, void *row)
{
    memset(row, 0, table->row_bytes);
    for (size_t i = 0; i < table->count; i++)
        read_field(&table->fields[i], statement, column + (int)i, row);
}

int row_find(struct records *records, const struct row_query *query, void *row)
{
    sqlite3_stmt *s;

    TRY(row_select(records, query, &s));
    TRY(records_step(records, s));
    row_read(query->table, s, 0, row);
    sqlite3_reset(s);
    return OK;
}

int row_list(struct records *records, const struct row_query *query, struct row_list *out)
{
    size_t bytes = query->table->row_bytes;
    struct row_list list = { NULL, 0 };
    sqlite3_stmt *s;
    int rc;

    TRY(row_select(records, query, &s));
    while (!(rc = records_step(records, s))) {
        void *more = array_more(list.rows, list.count, bytes);

        if (!more) {
            sqlite3_reset(s);
            rc = ERR_NOMEM;
            break;
        }
        list.rows = more;
        row_read(query->table, s, 0, (char *)list.rows + list.count++ * bytes);
    }
    if (rc != UNSUPPORTED) {
        free(list.rows);
        return rc;
    }
    *out = list;
    return OK;
}
