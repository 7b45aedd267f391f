/* Writes rows into SQLite and into the journal, and replays a journal into a database. */
#include "records.h"

#include "array.h"
#include "json.h"
#include "schema.h"
#include "status.h"
#include "text.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Transactions. */

/* Begins a transaction, unless one is open. */
static int begin_transaction(struct records *r)
{
    /* If SQLite has ended the transaction by itself, further rows would become durable one by one.
     */
    assert(!r->changing || !sqlite3_get_autocommit(r->db));
    if (r->changing)
        return OK;
    TRY(schema_run(r->db, r->path, "BEGIN IMMEDIATE"));
    r->changing = true;
    if (r->journal && !fseek(r->journal, 0, SEEK_END))
        r->journal_at = ftell(r->journal);
    return OK;
}

/* Also forgets what was not flushed yet: on a full disk it would be written later. */
void records_rollback(struct records *r)
{
    if (!r->changing)
        return;
    r->changing = false;
    sqlite3_exec(r->db, "ROLLBACK", NULL, NULL, NULL);
    if (!r->journal || r->journal_at < 0)
        return;
    __fpurge(r->journal);
    clearerr(r->journal);
    /* If this fails, the journal only knows more than the database. */
    if (!ftruncate(fileno(r->journal), r->journal_at))
        fseek(r->journal, r->journal_at, SEEK_SET);
}

/* Takes back everything since the last commit if a call failed. On a full disk SQLite may take back
 * one row or all rows by itself, so neither half a batch nor its lines in the journal may stay. */
static int rollback_on_error(struct records *r, int rc)
{
    if (rc < 0)
        records_rollback(r);
    return rc;
}

/* Writes the journal first: it may know more than the database, never less. */
int records_commit(struct records *r)
{
    int rc = OK;

    if (!r->changing)
        return OK;
    if (r->journal && (fflush(r->journal) || (!r->relaxed && fdatasync(fileno(r->journal)))))
        rc = fail(ERR_IO, "%s.journal: %s", r->path, strerror(errno));
    if (!rc)
        rc = schema_run(r->db, r->path, "COMMIT");
    r->changing = rc != OK;
    return rollback_on_error(r, rc);
}

/* ---- Statements. */

/* Returns the cached statement, reset, or NULL. The key of the cache is the addresses of two
 * literals: what the statement does, and to what. */
static sqlite3_stmt *find_statement(struct records *r, const char *verb, const char *key)
{
    for (int i = 0; i < STATEMENTS_MAX && r->prepared[i].key; i++)
        if (r->prepared[i].key == key && r->prepared[i].verb == verb) {
            sqlite3_reset(r->prepared[i].statement);
            return r->prepared[i].statement;
        }
    return NULL;
}

/* Prepares a statement and caches it, unless it is cached already. */
static int prepare_cached(struct records *r, const char *verb, const char *key, const char *sql,
                          sqlite3_stmt **out)
{
    int slot = 0, code;

    *out = find_statement(r, verb, key);
    if (*out)
        return OK;
    while (slot < STATEMENTS_MAX && r->prepared[slot].key)
        slot++;
    if (slot == STATEMENTS_MAX)
        return fail(ERR_NOMEM, "more than %d statements", STATEMENTS_MAX);
    code = sqlite3_prepare_v3(r->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
    if (code != SQLITE_OK)
        return rollback_on_error(r, schema_status(r->db, code, r->path, "cannot be read"));
    r->prepared[slot].verb = verb;
    r->prepared[slot].key = key;
    r->prepared[slot].statement = *out;
    return OK;
}

int records_query(struct records *r, const char *sql, const int64_t *values, int count,
                  sqlite3_stmt **out)
{
    TRY(prepare_cached(r, "query", sql, sql, out));
    for (int i = 0; i < count; i++)
        sqlite3_bind_int64(*out, i + 1, values[i]);
    return OK;
}

int records_step(struct records *r, sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);

    if (code == SQLITE_ROW)
        return OK;
    sqlite3_reset(statement);
    return code == SQLITE_DONE
               ? UNSUPPORTED
               : rollback_on_error(r, schema_status(r->db, code, r->path, "cannot be read"));
}

int records_next_id(struct records *r, const char *table, int64_t *id)
{
    static const char *const verb = "SELECT max";
    sqlite3_stmt *s;
    char sql[96];

    snprintf(sql, sizeof(sql), "SELECT coalesce(max(id), 0) + 1 FROM %s", table);
    TRY(prepare_cached(r, verb, table, sql, &s));
    TRY(records_step(r, s));
    *id = sqlite3_column_int64(s, 0);
    sqlite3_reset(s);
    return OK;
}

int records_find_text(struct records *r, const char *sql, const char *text, int64_t *id)
{
    sqlite3_stmt *s;

    TRY(records_query(r, sql, NULL, 0, &s));
    sqlite3_bind_text(s, 1, text, -1, SQLITE_TRANSIENT);
    TRY(records_step(r, s));
    *id = sqlite3_column_int64(s, 0);
    sqlite3_reset(s);
    return OK;
}

static void forget_statements(struct records *r)
{
    for (int i = 0; i < STATEMENTS_MAX; i++)
        sqlite3_finalize(r->prepared[i].statement);
    memset(r->prepared, 0, sizeof(r->prepared));
}

void records_switch(struct records *r, sqlite3 *to)
{
    forget_statements(r);
    sqlite3_close(r->db);
    r->db = to;
}

void records_close(struct records *r)
{
    forget_statements(r);
    if (r->journal)
        fclose(r->journal);
    free(r->line.bytes);
    sqlite3_close(r->db);
    memset(r, 0, sizeof(*r));
}

/* ---- Rows. */

/* OR IGNORE would also drop a row with NULL in a column that must have a value. */
static const struct insertion {
    const char *verb, *end;
} replace = { "INSERT OR REPLACE", "" }, insert_new = { "INSERT", " ON CONFLICT DO NOTHING" };

static void write_insertion_sql(const struct insertion *how, const char *table,
                                const struct record_column *columns, size_t count, char *sql,
                                size_t size)
{
    size_t used = (size_t)snprintf(sql, size, "%s INTO %s(", how->verb, table);

    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(sql + used, size - used, "%s%s", i ? "," : "", columns[i].name);
    used += (size_t)snprintf(sql + used, size - used, ") VALUES(");
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(sql + used, size - used, i ? ",?" : "?");
    snprintf(sql + used, size - used, ")%s", how->end);
}

/* Does not copy text: it lives until the step that follows. */
static void bind_column(sqlite3_stmt *statement, int parameter, const struct record_column *c)
{
    if (c->kind == COLUMN_INTEGER)
        sqlite3_bind_int64(statement, parameter, c->integer);
    else if (c->kind == COLUMN_REAL && !isnan(c->real))
        sqlite3_bind_double(statement, parameter, c->real);
    else if (c->kind == COLUMN_TEXT && c->text)
        sqlite3_bind_text(statement, parameter, c->text, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(statement, parameter);
}

/* Writes the finished line to the journal, and reports an error at once, while errno is its own. */
static int write_finished_line(struct records *r)
{
    if (r->line.failed)
        return fail(ERR_NOMEM, "a line of %s.journal", r->path);
    if (fwrite(r->line.bytes, 1, r->line.used, r->journal) != r->line.used)
        return fail(ERR_IO, "%s.journal: %s", r->path, strerror(errno));
    return OK;
}

#define ADD(line, literal) json_add(line, literal, sizeof(literal) - 1)

static int write_line(struct records *r, const char *table, const struct record_column *columns,
                      size_t count)
{
    struct json_text *line = &r->line;

    if (!r->journal)
        return OK;
    line->used = 0;
    ADD(line, "{\"table\":\"");
    json_add(line, table, strlen(table));
    ADD(line, "\"");
    for (const struct record_column *c = columns; c < columns + count; c++) {
        ADD(line, ",\"");
        json_add(line, c->name, strlen(c->name));
        ADD(line, "\":");
        if (c->kind == COLUMN_INTEGER)
            json_add_integer(line, c->integer);
        else if (c->kind == COLUMN_REAL)
            json_add_number(line, c->real);
        else if (c->text)
            json_add_quoted(line, c->text);
        else
            ADD(line, "null");
    }
    ADD(line, "}\n");
    return write_finished_line(r);
}

static int insert_row(struct records *r, const struct insertion *how, const char *table,
                      const struct record_column *columns, size_t count)
{
    sqlite3_stmt *statement = find_statement(r, how->verb, table);
    char sql[2048];
    int code;

    if (!statement) {
        write_insertion_sql(how, table, columns, count, sql, sizeof(sql));
        TRY(prepare_cached(r, how->verb, table, sql, &statement));
    }
    for (size_t i = 0; i < count; i++)
        bind_column(statement, (int)i + 1, &columns[i]);
    code = sqlite3_step(statement);
    sqlite3_reset(statement);
    return code == SQLITE_DONE ? OK : schema_status(r->db, code, r->path, "cannot be written");
}

int records_put(struct records *r, const char *table, const struct record_column *columns,
                size_t count)
{
    int rc;

    TRY(begin_transaction(r));
    rc = insert_row(r, &replace, table, columns, count);
    return rollback_on_error(r, rc ? rc : write_line(r, table, columns, count));
}

static int write_deletion(struct records *r, const char *table, const char *where,
                          const int64_t *values, int count)
{
    struct json_text *line = &r->line;
    char name[24];

    if (!r->journal)
        return OK;
    line->used = 0;
    ADD(line, "{\"delete\":");
    json_add_quoted(line, table);
    ADD(line, ",\"where\":");
    json_add_quoted(line, where);
    for (int i = 0; i < count; i++) {
        json_add(line, name, (size_t)snprintf(name, sizeof(name), ",\"%d\":", i + 1));
        json_add_integer(line, values[i]);
    }
    ADD(line, "}\n");
    return write_finished_line(r);
}

int records_delete(struct records *r, const char *table, const char *where, const int64_t *values,
                   int count)
{
    sqlite3_stmt *statement;
    char sql[512];
    int code, rc;

    TRY(begin_transaction(r));
    snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE %s", table, where);
    TRY(prepare_cached(r, table, where, sql, &statement));
    for (int i = 0; i < count; i++)
        sqlite3_bind_int64(statement, i + 1, values[i]);
    code = sqlite3_step(statement);
    sqlite3_reset(statement);
    rc = code == SQLITE_DONE ? write_deletion(r, table, where, values, count)
                             : schema_status(r->db, code, r->path, "cannot be written");
    return rollback_on_error(r, rc);
}

/* ---- Rows of structs. */

enum { PLANS_MAX = 5 };

/* A row as columns, with the texts of its plans. */
struct row_columns {
    struct record_column columns[RECORD_COLUMNS_MAX];
    char plans[PLANS_MAX][PLAN_TEXT_BYTES];
    int plan_count;
};

static void row_to_columns(const struct row_table *table, const void *row, struct row_columns *out)
{
    assert(table->count <= RECORD_COLUMNS_MAX);
    out->plan_count = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct row_field *f = &table->fields[i];
        const struct moe_plan *plan = (const void *)((const char *)row + f->offset);
        char *text = out->plans[out->plan_count];

        switch (f->kind) {
        case ROW_INTEGER:
        case ROW_BOOL:
            out->columns[i] = (struct record_column)INTEGER(f->name, row_integer(f, row));
            break;
        case ROW_REAL:
            out->columns[i] = (struct record_column)REAL(f->name, row_real(f, row));
            break;
        case ROW_PLAN:
            assert(out->plan_count < PLANS_MAX);
            if (plan->struct_size && moe_plan_format(plan, text, PLAN_TEXT_BYTES) > 0) {
                out->columns[i] = (struct record_column)TEXT(f->name, text);
                out->plan_count++;
            } else {
                out->columns[i] = (struct record_column)TEXT(f->name, f->none);
            }
            break;
        default:
            out->columns[i] =
                (struct record_column)TEXT(f->name, row_text(f, row, ROW_EXACT, NULL));
        }
    }
}

int row_put(struct records *records, const struct row_table *table, const void *row)
{
    struct row_columns c;

    row_to_columns(table, row, &c);
    return records_put(records, table->name, c.columns, table->count);
}

int row_put_new(struct records *r, const struct row_table *table, const void *row)
{
    struct row_columns c;
    const char *id = table->fields[0].name;
    int rc;

    row_to_columns(table, row, &c);
    TRY(begin_transaction(r));
    /* A text that is NULL: SQLite chooses the next id. */
    c.columns[0] = (struct record_column){ .name = id, .kind = COLUMN_TEXT };
    rc = insert_row(r, &insert_new, table->name, c.columns, table->count);
    if (!rc && !sqlite3_changes(r->db))
        return UNSUPPORTED;
    c.columns[0] = (struct record_column)INTEGER(id, sqlite3_last_insert_rowid(r->db));
    return rollback_on_error(r, rc ? rc : write_line(r, table->name, c.columns, table->count));
}

/* Appends "entry.id,entry.run": joined tables may have columns of the same name. */
static void add_names(const struct row_table *table, char *sql, size_t size)
{
    for (size_t i = 0; table && i < table->count; i++) {
        const struct row_field *f = &table->fields[i];
        const char *comma = sql[strlen(sql) - 1] == ' ' ? "" : ",";

        if (f->read)
            text_add(sql, size, "%s%s", comma, f->read);
        else
            text_add(sql, size, "%s%s.%s", comma, table->name, f->name);
    }
}

int row_select(struct records *records, const struct row_query *q, sqlite3_stmt **out)
{
    const char *table = q->table->name;
    char sql[2048] = "SELECT ";

    if (!find_statement(records, table, q->rest)) {
        add_names(q->table, sql, sizeof(sql));
        add_names(q->joined, sql, sizeof(sql));
        if (!text_add(sql, sizeof(sql), " FROM %s %s", table, q->rest))
            return fail(ERR_ARGUMENT, "%s", sql);
    }
    TRY(prepare_cached(records, table, q->rest, sql, out));
    for (int i = 0; i < q->key_count; i++)
        sqlite3_bind_int64(*out, i + 1, q->keys[i]);
    return OK;
}

void row_read(const struct row_table *table, sqlite3_stmt *s, int column, void *row)
{
    memset(row, 0, table->row_bytes);
    for (size_t i = 0; i < table->count; i++) {
        const struct row_field *f = &table->fields[i];
        int field_column = column + (int)i, word = 0;
        char *member = (char *)row + f->offset;
        const char *text;

        switch (f->kind) {
        case ROW_INTEGER:
        case ROW_BOOL: row_set_integer(f, row, sqlite3_column_int64(s, field_column)); continue;
        case ROW_REAL:
            *(double *)(void *)member = sqlite3_column_type(s, field_column) == SQLITE_NULL
                                            ? NAN
                                            : sqlite3_column_double(s, field_column);
            continue;
        default: text = (const char *)sqlite3_column_text(s, field_column);
        }
        if (f->kind == ROW_ENUM) {
            while (f->words[word + 1] && strcmp(f->words[word], text ? text : "") != 0)
                word++;
            row_set_integer(f, row, word);
        } else if (f->kind != ROW_PLAN) {
            text_put(member, f->bytes, "%s", text ? text : "");
        } else if (!text || plan_parse(text, (struct moe_plan *)(void *)member)) {
            memset(member, 0, f->bytes);
        }
    }
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

/* ---- Replay. */

enum { NAME_BYTES = 32, DELETION_VALUES_MAX = 8 };

/* One line of the journal: a row of `table`, or a deletion from the table `delete`. */
struct record_line {
    char table[NAME_BYTES], delete[NAME_BYTES], where[192];
    char names[RECORD_COLUMNS_MAX][NAME_BYTES];
    struct record_column columns[RECORD_COLUMNS_MAX];
    int64_t values[DELETION_VALUES_MAX];
    size_t count;
    int value_count;
};

static int read_column(struct record_line *line, const struct json_value *v)
{
    struct record_column *c = &line->columns[line->count];

    if (line->count == RECORD_COLUMNS_MAX || strlen(v->key) >= NAME_BYTES)
        return ERR_FORMAT;
    /* Names become part of a statement, so they have only letters, digits and _. */
    if (strspn(v->key, "abcdefghijklmnopqrstuvwxyz_0123456789") != strlen(v->key))
        return ERR_FORMAT;
    snprintf(line->names[line->count], NAME_BYTES, "%s", v->key);
    *c = (struct record_column){ .name = line->names[line->count], .kind = COLUMN_TEXT };
    if (v->kind == JSON_STRING) {
        c->text = strdup(v->value);
    } else if (v->kind == JSON_NUMBER && !strpbrk(v->value, ".eE")) {
        c->kind = COLUMN_INTEGER;
        c->integer = strtoll(v->value, NULL, 10);
    } else if (v->kind == JSON_NUMBER) {
        c->kind = COLUMN_REAL;
        c->real = json_number(v);
    } else if (v->kind != JSON_NULL) {
        return ERR_FORMAT;
    }
    line->count++;
    return OK;
}

static int read_member(void *self, const struct json_value *v)
{
    struct record_line *line = self;
    const struct {
        const char *key;
        char *text;
        size_t bytes;
    } texts[] = { { "table", line->table, sizeof(line->table) },
                  { "delete", line->delete, sizeof(line->delete) },
                  { "where", line->where, sizeof(line->where) } };

    if (v->depth == 0)
        return v->kind == JSON_OBJECT || v->kind == JSON_END ? OK : ERR_FORMAT;
    if (v->depth > 1 || !v->key)
        return ERR_FORMAT;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strcmp(v->key, texts[i].key) != 0)
            continue;
        if (v->kind != JSON_STRING || v->length >= texts[i].bytes)
            return ERR_FORMAT;
        memcpy(texts[i].text, v->value, v->length + 1);
        return OK;
    }
    if (*line->delete) {
        if (line->value_count == DELETION_VALUES_MAX || v->kind != JSON_NUMBER)
            return ERR_FORMAT;
        line->values[line->value_count++] = strtoll(v->value, NULL, 10);
        return OK;
    }
    return read_column(line, v);
}

/* Only deletions that this program writes are carried out. */
static const char *const known_deletions[] = {
    RECORDS_RANGE,    RECORDS_BUCKET,     RECORDS_SAMPLES,  RECORDS_KINDS, RECORDS_OVERLAP,
    RECORDS_IMPORTED, RECORDS_ENTRY_PLAN, RECORDS_PIN_PLAN, NULL,
};

/* A table stands after the tables that its rows refer to. */
static const char *const journal_tables[] = { "meta",
                                              "fingerprint",
                                              "fingerprint_field",
                                              "space",
                                              "shape",
                                              "run",
                                              "trial",
                                              "sample",
                                              "entry",
                                              "history",
                                              "override",
                                              "import_log",
                                              "standing",
                                              "load",
                                              "phase",
                                              "verification",
                                              "launch",
                                              "fixed",
                                              NULL };

static int apply_line(struct records *r, const struct record_line *line)
{
    int table = word_find(journal_tables, *line->delete ? line->delete : line->table);
    int deletion = word_find(known_deletions, line->where);
    sqlite3_stmt *statement;
    char sql[2048];
    int code;

    if (table < 0 || (*line->delete ? deletion < 0 : !line->count))
        return ERR_FORMAT;
    TRY(schema_make(r->db, r->path, journal_tables[table]));
    if (*line->delete)
        return records_delete(r, journal_tables[table], known_deletions[deletion], line->values,
                              line->value_count);
    write_insertion_sql(&replace, journal_tables[table], line->columns, line->count, sql,
                        sizeof(sql));
    code = sqlite3_prepare_v2(r->db, sql, -1, &statement, NULL);
    if (code != SQLITE_OK)
        return ERR_FORMAT;
    for (size_t i = 0; i < line->count; i++)
        bind_column(statement, (int)i + 1, &line->columns[i]);
    code = sqlite3_step(statement);
    sqlite3_finalize(statement);
    return code == SQLITE_DONE ? OK : ERR_FORMAT;
}

static int replay_line(struct records *r, const char *text, size_t length)
{
    struct record_line *line = calloc(1, sizeof(*line));
    int rc = line ? OK : ERR_NOMEM;

    if (!rc)
        rc = json_read(text, length, "journal", read_member, line);
    if (!rc)
        rc = apply_line(r, line);
    for (size_t i = 0; line && i < line->count; i++)
        free((char *)line->columns[i].text);
    free(line);
    return rc;
}

int records_replay(struct records *r, const char *journal, size_t *lines, size_t *skipped)
{
    FILE *file = fopen(journal, "r");
    char *text = NULL;
    size_t text_bytes = 0;
    ssize_t length;
    bool was_enabled, rolled_back = false;
    int rc;

    *lines = *skipped = 0;
    if (!file)
        return fail(ERR_IO, "%s: %s", journal, strerror(errno));
    rc = begin_transaction(r);
    was_enabled = log_enable(false); /* bad lines are counted, without a message for each */
    while (!rc && !rolled_back && (length = getline(&text, &text_bytes, file)) > 0) {
        *lines += 1;
        if (replay_line(r, text, (size_t)length))
            *skipped += 1;
        /* If SQLite took everything back, later lines would lack the rows before them. */
        rolled_back = sqlite3_get_autocommit(r->db);
    }
    log_enable(was_enabled);
    if (rolled_back)
        rc = fail(ERR_IO, "%s cannot be rebuilt: no room, or the disk fails", r->path);
    free(text);
    fclose(file);
    return rc ? rc : records_commit(r);
}

static int write_rows(struct records *r, const char *table)
{
    struct record_column columns[RECORD_COLUMNS_MAX];
    sqlite3_stmt *row = NULL;
    char sql[64];
    int code, rc = OK;

    snprintf(sql, sizeof(sql), "SELECT * FROM %s ORDER BY rowid", table);
    code = sqlite3_prepare_v2(r->db, sql, -1, &row, NULL);
    while (!rc && code == SQLITE_OK && (code = sqlite3_step(row)) == SQLITE_ROW) {
        int count = sqlite3_column_count(row);

        for (int i = 0; i < count && i < RECORD_COLUMNS_MAX; i++) {
            const char *name = sqlite3_column_name(row, i);
            int type = sqlite3_column_type(row, i);

            if (type == SQLITE_INTEGER)
                columns[i] = (struct record_column)INTEGER(name, sqlite3_column_int64(row, i));
            else if (type == SQLITE_FLOAT)
                columns[i] = (struct record_column)REAL(name, sqlite3_column_double(row, i));
            else
                columns[i] =
                    (struct record_column)TEXT(name, (const char *)sqlite3_column_text(row, i));
        }
        rc = write_line(r, table, columns, (size_t)count);
        code = SQLITE_OK;
    }
    sqlite3_finalize(row);
    return rc ? rc : schema_status(r->db, code, r->path, "cannot be read");
}

int records_write_all(struct records *r, FILE *to)
{
    FILE *journal = r->journal;
    int rc = OK;

    r->journal = to;
    for (int i = 0; journal_tables[i] && !rc; i++)
        if (schema_has(r->db, "main", journal_tables[i]))
            rc = write_rows(r, journal_tables[i]);
    r->journal = journal;
    return rc;
}
