/* Reads a database or its snapshot: takes SQL rows (form 1), and gives a lookup_set (form 2).
 * lookup.h explains the forms. No other file knows SQLite; with MOELOOKUP_NO_SQLITE the library
 * reads packed tables only. */
#include "lookup.h"

#include "status.h"

#ifdef MOELOOKUP_NO_SQLITE

#include <fcntl.h>
#include <unistd.h>

int lookup_read_sqlite(const char *path, enum lookup_kind kind, uint32_t file,
                       struct lookup_set *set)
{
    (void)path, (void)kind, (void)file, (void)set;
    return ERR_FORMAT;
}

/* This process has no locks on the file. */
int lookup_read_head(const char *path, uint8_t head[LOOKUP_HEAD])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : pread(fd, head, LOOKUP_HEAD, 0);

    if (fd >= 0)
        close(fd);
    return got < 0 ? ERR_IO : got == LOOKUP_HEAD ? OK : ERR_FORMAT;
}

#else

#include "claim.h"
#include "cluster.h"
#include "declaration.h"
#include "plan.h"
#include "schema.h"
#include "shape.h"
#include "store.h"
#include "text.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row of ours is far shorter, and persons make pins by hand. So a file that holds more is none of
 * ours. */
enum { VALUE_BYTES_MAX = 1 << 20, PINS_MAX = 4096, WAIT_MS = 2000 };

static int status_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE: return OK;
    case SQLITE_NOMEM: return ERR_NOMEM;
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_READONLY: return ERR_IO;
    }
    return ERR_FORMAT;
}

/* Returns the URI that SQLite opens, as "file:///a%20b.db?mode=rw" (`end`), because a name may hold
 * letters with a meaning in a URI. Without the "//" a path that begins with them would name a host;
 * without the "./" ":memory:" would name no file. NULL: out of memory. The caller frees it. */
static char *uri_of(const char *path, const char *end)
{
    const char *begin = *path == '/' ? "file://" : "file:./";
    const char *hex = "0123456789ABCDEF";
    char *uri = malloc(strlen(begin) + 3 * strlen(path) + strlen(end) + 1), *uri_end = uri;

    if (!uri)
        return NULL;
    uri_end = stpcpy(uri_end, begin);
    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;

        if (strchr("?#%", c) || c < 0x21) {
            *uri_end++ = '%';
            *uri_end++ = hex[c >> 4];
            *uri_end++ = hex[c & 15];
        } else {
            *uri_end++ = (char)c;
        }
    }
    strcpy(uri_end, end);
    return uri;
}

/* Opens the database for reading. Only SQLite writes: it takes back what a killed writer had begun.
 * Where it may not write, it can still read a database that needs no such repair. */
static int open_database(const char *path, enum lookup_kind kind, sqlite3 **db)
{
    int flags = kind == LOOKUP_DATABASE ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    char *uri = uri_of(path, kind == LOOKUP_DATABASE ? "?mode=rw" : "?mode=ro&immutable=1");
    int code = uri ? sqlite3_open_v2(uri, db, flags | SQLITE_OPEN_URI, NULL) : SQLITE_NOMEM;

    free(uri);
    TRY(status_of(code));
    TRY(status_of(sqlite3_exec(*db, "PRAGMA query_only=ON", NULL, NULL, NULL)));
    /* The file may come from anywhere: its values are limited and its schema is not trusted. */
    sqlite3_limit(*db, SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX);
    sqlite3_db_config(*db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_busy_timeout(*db, WAIT_MS);
    return OK;
}

int lookup_read_head(const char *path, uint8_t head[LOOKUP_HEAD])
{
    char *uri = uri_of(path, "?mode=ro");
    sqlite3_file *file = NULL;
    sqlite3 *db = NULL;
    int code = SQLITE_NOMEM;

    if (uri)
        code = sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    if (!code)
        code = sqlite3_file_control(db, NULL, SQLITE_FCNTL_FILE_POINTER, &file);
    if (!code)
        code = file->pMethods->xRead(file, head, LOOKUP_HEAD, 0);
    free(uri);
    sqlite3_close(db);
    return code == SQLITE_IOERR_SHORT_READ ? ERR_FORMAT : status_of(code);
}

static int prepare_statement(sqlite3 *db, const char *sql, sqlite3_stmt **statement)
{
    return status_of(sqlite3_prepare_v2(db, sql, -1, statement, NULL));
}

/* Reads the one number that a query returns. */
static int query_number(sqlite3 *db, const char *sql, int64_t *value)
{
    sqlite3_stmt *statement = NULL;
    int code, rc = prepare_statement(db, sql, &statement);

    if (!rc) {
        code = sqlite3_step(statement);
        rc = code == SQLITE_ROW ? OK : code == SQLITE_DONE ? ERR_FORMAT : status_of(code);
    }
    if (!rc)
        *value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return rc;
}

static int check_database(sqlite3 *db, enum lookup_kind kind, struct lookup_skipped *skipped)
{
    int64_t application_id, version, table_count, sound = 1;

    TRY(query_number(db, "PRAGMA application_id", &application_id));
    TRY(query_number(db, "PRAGMA user_version", &version));
    if (application_id == STORE_APPLICATION && (version < STORE_OLDEST || version > STORE_VERSION))
        skipped->version = version;
    if (application_id != STORE_APPLICATION || version < STORE_OLDEST || version > STORE_VERSION)
        return ERR_FORMAT;
    /* A view of one of these names could run for ever. */
    TRY(query_number(
        db,
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name IN"
        " ('entry', 'override', 'shape', 'space', 'fingerprint', 'fingerprint_field')",
        &table_count));
    /* A snapshot is small enough for a check; a work database with every sample is not. */
    if (kind == LOOKUP_SNAPSHOT)
        TRY(query_number(
            db, "SELECT count(*) = 0 FROM pragma_quick_check WHERE quick_check <> 'ok'", &sound));
    return table_count == 6 && sound ? OK : ERR_FORMAT;
}

/* ---- Rows. */

/* The file that is being read, and the set that it fills. */
struct table_reader {
    sqlite3 *db;
    sqlite3_stmt *cluster, *shape;
    uint32_t file;
    struct lookup_set *set;
    int64_t layer_key[3]; /* cluster, shape and window of the present rows */
    bool rows_skipped;    /* those rows cannot answer here */
};

/* Returns a column's text. Rejects a text with an embedded zero byte, and returns "". */
static const char *column_text(sqlite3_stmt *s, int column)
{
    const char *value = (const char *)sqlite3_column_text(s, column);

    return value && strlen(value) == (size_t)sqlite3_column_bytes(s, column) ? value : "";
}

static bool read_hash(const char *hex, uint8_t hash[SHA256_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    if (strlen(hex) != 2 * SHA256_BYTES)
        return false;
    for (int i = 0; i < 2 * SHA256_BYTES; i++) {
        const char *digit = strchr(digits, hex[i]);

        if (!digit)
            return false;
        hash[i / 2] = (uint8_t)(hash[i / 2] << 4 | (digit - digits));
    }
    return true;
}

/* Reads a cluster. *usable is false for one that must not answer here: a modelled one, one with
 * another meaning of r, d, a, or one of another site; in the last case *elsewhere is true. */
static int read_cluster(struct table_reader *r, int64_t id, struct lookup_layer *layer,
                        bool *usable, bool *elsewhere)
{
    const char *device, *backend;
    bool real, here;
    int code;

    sqlite3_reset(r->cluster);
    sqlite3_bind_int64(r->cluster, 1, id);
    code = sqlite3_step(r->cluster);
    *usable = *elsewhere = false;
    if (code != SQLITE_ROW)
        return status_of(code);
    device = column_text(r->cluster, 1);
    backend = column_text(r->cluster, 2);
    real = backend_is_real(backend);
    here = sqlite3_column_int(r->cluster, 4);
    *elsewhere = real && !here;
    *usable = real && here && read_hash(column_text(r->cluster, 0), layer->cluster) &&
              strlen(device) < sizeof(layer->device) &&
              sqlite3_column_int64(r->cluster, 3) == CLUSTER_SEMANTICS;
    if (!*usable) {
        r->set->skipped.modelled |= !real;
        r->set->skipped.elsewhere |= *elsewhere;
        return OK;
    }
    if (strcmp(backend, "live"))
        strcpy(layer->device, device);
    else
        snprintf(layer->device, sizeof(layer->device), "%s" LOOKUP_LIVE "%s", device,
                 column_text(r->cluster, 5));
    if (strcmp(backend, "host"))
        r->set->on_others = true;
    else
        r->set->on_cores = true;
    return OK;
}

static int read_shape(struct table_reader *r, int64_t id, struct lookup_layer *layer, bool *usable)
{
    int code;

    sqlite3_reset(r->shape);
    sqlite3_bind_int64(r->shape, 1, id);
    code = sqlite3_step(r->shape);
    layer->shape.struct_size = sizeof(layer->shape);
    /* A word that this version does not know may make it another layer than it seems. */
    *usable = code == SQLITE_ROW && !shape_scan(column_text(r->shape, 0), &layer->shape);
    return status_of(code);
}

/* The columns that are read of an entry. Pins and rows of launches have the first ones. */
enum {
    FINGERPRINT,
    SHAPE,
    WINDOW,
    BUCKET,
    PLAN_COLUMN,
    TIME,
    DEFAULT,
    INFERRED,
    STALE,
    IMPORTED,
    DECIDED,
    OTHER,
    OTHER_US,
    NO_OTHER,
    DECISION,
    GAIN,
    GAIN_LOW,
    GAIN_HIGH,
    LOW,
    HIGH,
    BOUND,
    POOLED,
    LOADED,
    ENTRY_COLUMNS
};

/* Rows come sorted by layer, so it looks up the layer only when it changes. */
static int layer_of(struct table_reader *r, sqlite3_stmt *row, struct lookup_layer **layer)
{
    int64_t key[3] = { sqlite3_column_int64(row, FINGERPRINT), sqlite3_column_int64(row, SHAPE),
                       sqlite3_column_int64(row, WINDOW) };
    struct lookup_layer next = { .file = r->file, .declared = key[1] };
    bool cluster_usable, elsewhere, shape_usable;

    if (memcmp(key, r->layer_key, sizeof(key)) != 0) {
        memcpy(r->layer_key, key, sizeof(key));
        r->rows_skipped = true;
        if (key[2] >= 1 && key[2] <= UINT32_MAX) {
            next.window = (uint32_t)key[2];
            TRY(read_cluster(r, key[0], &next, &cluster_usable, &elsewhere));
            TRY(read_shape(r, key[1], &next, &shape_usable));
            if (elsewhere && shape_usable)
                lookup_skip_space(&r->set->skipped, next.shape.space);
            r->rows_skipped = !cluster_usable || !shape_usable;
        }
        if (!r->rows_skipped && !lookup_set_layer(r->set, &next))
            return ERR_NOMEM;
    }
    *layer = r->rows_skipped ? NULL : &r->set->layers[r->set->count - 1];
    return OK;
}

static bool is_u32(int64_t value)
{
    return value >= 0 && value <= UINT32_MAX;
}

/* How each column is read. Copies made by hand may lack some columns: where a table's column is
 * named here and missing, NULL is read. */
static const struct {
    const char *value, *table, *column;
} entry_columns[ENTRY_COLUMNS] = {
    [FINGERPRINT] = { "fingerprint" },
    [SHAPE] = { "shape" },
    [WINDOW] = { "window" },
    [BUCKET] = { "bucket" },
    [PLAN_COLUMN] = { "own_plan" },
    [TIME] = { "time_us" },
    [DEFAULT] = { "default_us" },
    [INFERRED] = { "inferred" },
    /* A refuted entry is stale only for tune. The default plan that it holds has just been
     * measured, and a neighbouring bucket may still hold the refuted plan. */
    [STALE] = { "stale AND decision <> 'refuted'" },
    [IMPORTED] = { "tier = 'imported'" },
    [DECIDED] = { "decided_s" },
    [OTHER] = { "other" },
    [OTHER_US] = { "other_us" },
    [NO_OTHER] = { "no_other" },
    [DECISION] = { "decision" },
    [GAIN] = { "gain", "entry", "gain" },
    [GAIN_LOW] = { "gain_low", "entry", "gain_low" },
    [GAIN_HIGH] = { "gain_high", "entry", "gain_high" },
    [LOW] = { "low_us", "entry", "low_us" },
    [HIGH] = { "high_us", "entry", "high_us" },
    [BOUND] = { "bound", "entry", "bound" },
    [POOLED] = { "CASE decision WHEN 'static' THEN (SELECT s.gain FROM standing s WHERE "
                 "s.fingerprint = e.fingerprint AND s.shape = e.shape AND s.window = e.window AND "
                 "s.static_plan = e.own_plan AND s.rounds > 0) END",
                 "standing", "static_plan" },
    [LOADED] = { "load <> ''", "entry", "load" },
};

static double column_number(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL ? (double)NAN
                                                           : sqlite3_column_double(row, column);
}

static struct claim claim_of(sqlite3_stmt *row)
{
    const char *decision = column_text(row, DECISION);

    return (struct claim){
        .time_us = column_number(row, TIME),
        .low_us = column_number(row, LOW),
        .high_us = column_number(row, HIGH),
        .default_us = column_number(row, DEFAULT),
        .gain = { column_number(row, GAIN), column_number(row, GAIN_LOW),
                  column_number(row, GAIN_HIGH) },
        .bound = column_number(row, BOUND),
        .faster = !strcmp(decision, "adopted") || !strcmp(decision, "likely"),
        .pooled = column_number(row, POOLED),
    };
}

static int add_entry(sqlite3_stmt *row, struct lookup_layer *layer)
{
    int64_t bucket = sqlite3_column_int64(row, BUCKET);
    struct claim claim = claim_of(row);
    double time_us = claim.time_us, default_us = claim.default_us;
    double other_us = sqlite3_column_double(row, OTHER_US);
    struct moe_plan plan, canonical, other = { 0 };
    bool is_measured = !sqlite3_column_int(row, INFERRED) && !sqlite3_column_int(row, STALE),
         unsound;

    if (!is_u32(bucket) || plan_parse(column_text(row, PLAN_COLUMN), &plan))
        return OK;
    canonical = plan_canonical(plan, &layer->shape);
    unsound = !plan_is_default(&canonical, &layer->shape) && claim_fault(&claim);
    /* A static plan is judged by the gain of its whole table. */
    if (!unsound && claim.pooled > 0 && time_us > default_us)
        time_us = default_us * (1 - claim.pooled);
    plan.bucket = (uint32_t)bucket;
    /* A time that no float can hold counts as unknown. */
    plan.time_us = time_us > 0 && time_us < 1e30 ? (float)time_us : 0;
    plan.default_us = default_us > 0 && default_us < 1e30 ? (float)default_us : 0;
    if (*column_text(row, OTHER) && !plan_parse(column_text(row, OTHER), &other) && other_us > 0 &&
        other_us < 1e30)
        other.time_us = (float)other_us;
    if (is_measured && !unsound && sqlite3_column_int64(row, DECIDED) > layer->decided_s)
        layer->decided_s = sqlite3_column_int64(row, DECIDED);
    return lookup_layer_add(
        layer, &(struct lookup_entry){
                   .plan = plan,
                   .file = layer->file,
                   .flags = (uint8_t)((sqlite3_column_int(row, INFERRED) ? LOOKUP_INFERRED : 0) |
                                      (sqlite3_column_int(row, STALE) ? LOOKUP_STALE : 0) |
                                      (sqlite3_column_int(row, IMPORTED) ? LOOKUP_IMPORTED : 0) |
                                      (sqlite3_column_int(row, LOADED) ? LOOKUP_LOADED : 0) |
                                      (unsound ? LOOKUP_UNSOUND : 0)),
                   .other = other,
                   .no_other = sqlite3_column_int(row, NO_OTHER),
               });
}

/* A pin has its last bucket behind its plan. */
enum { LAST_BUCKET = PLAN_COLUMN + 1 };

static int add_pin(sqlite3_stmt *row, struct lookup_layer *layer)
{
    int64_t first = sqlite3_column_int64(row, BUCKET),
            last = sqlite3_column_int64(row, LAST_BUCKET);
    struct moe_plan plan;

    if (layer->pin_count == PINS_MAX)
        return ERR_FORMAT;
    if (!is_u32(first) || !is_u32(last) || plan_parse(column_text(row, PLAN_COLUMN), &plan))
        return OK;
    return lookup_layer_pin(layer, &(struct lookup_pin){ (uint32_t)first, (uint32_t)last, plan });
}

/* LAUNCH: the launch that the row names. */
enum { LAUNCH = TIME + 1 };

static int add_launch(sqlite3_stmt *row, struct lookup_layer *layer)
{
    const struct declaration *d = declaration_find(layer->shape.space);
    int64_t bucket = sqlite3_column_int64(row, BUCKET);
    double time_us = sqlite3_column_double(row, TIME);
    struct lookup_launch launch = { .file = layer->file };
    char words[DECLARATION_PLAN_BYTES];

    if (!d || !is_u32(bucket) || plan_parse(column_text(row, PLAN_COLUMN), &launch.plan) ||
        launch.plan.space != d->id || !(time_us > 0 && time_us < 1e30) ||
        strcmp(declaration_launch_words(d, launch.plan.choice, words), column_text(row, LAUNCH)) !=
            0)
        return OK;
    launch.plan.bucket = (uint32_t)bucket;
    launch.plan.time_us = (float)time_us;
    return lookup_layer_launch(layer, &launch);
}

static int read_rows(struct table_reader *r, const char *sql,
                     int (*add)(sqlite3_stmt *row, struct lookup_layer *layer))
{
    sqlite3_stmt *row = NULL;
    struct lookup_layer *layer;
    int code = SQLITE_DONE, rc = prepare_statement(r->db, sql, &row);

    memset(r->layer_key, 0xff, sizeof(r->layer_key));
    while (!rc && (code = sqlite3_step(row)) == SQLITE_ROW) {
        rc = layer_of(r, row, &layer);
        if (!rc && layer)
            rc = add(row, layer);
    }
    sqlite3_finalize(row);
    return rc ? rc : status_of(code);
}

#define FIELD "SELECT value FROM fingerprint_field WHERE fingerprint = ?1 AND name = "

static int has_column(struct table_reader *r, const char *table, const char *column, int64_t *has)
{
    char ask[256];

    text_put(ask, sizeof(ask),
             "SELECT count(*) FROM sqlite_schema t, pragma_table_info(t.name) c WHERE "
             "t.type = 'table' AND t.rootpage > 0 AND t.name = '%s' AND c.name = '%s'",
             table, column);
    return query_number(r->db, ask, has);
}

static int read_entries(struct table_reader *r)
{
    char sql[2048];
    int64_t has, has_meta;

    text_put(sql, sizeof(sql), "SELECT ");
    for (size_t i = 0; i < ENTRY_COLUMNS; i++) {
        has = true;
        if (entry_columns[i].table)
            TRY(has_column(r, entry_columns[i].table, entry_columns[i].column, &has));
        text_add(sql, sizeof(sql), "%s%s", i ? ", " : "", has ? entry_columns[i].value : "NULL");
    }
    TRY(has_column(r, "meta", "v", &has_meta));
    text_add(
        sql, sizeof(sql),
        " FROM (SELECT *, %s AS own_plan FROM entry) e ORDER BY fingerprint, shape, window, id",
        has_meta ? SCHEMA_ENTRY_PLAN("entry") : "plan");
    return read_rows(r, sql, add_entry);
}

static int read_pins(struct table_reader *r)
{
    char sql[1024];
    int64_t has_meta, has_date;

    TRY(has_column(r, "meta", "v", &has_meta));
    TRY(has_column(r, "override", "since_s", &has_date));
    text_put(sql, sizeof(sql),
             "SELECT fingerprint, shape, window, first_bucket, %s, last_bucket FROM override"
             " ORDER BY fingerprint, shape, window, id",
             has_meta && has_date ? SCHEMA_PIN_PLAN("override") : "plan");
    return read_rows(r, sql, add_pin);
}

/* Few databases have rows of launches. */
static int read_launches(struct table_reader *r)
{
    static const char *const columns[] = { "fingerprint", "shape",   "window", "bucket",
                                           "plan",        "time_us", "launch" };
    int64_t has;

    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        TRY(has_column(r, "launch", columns[i], &has));
        if (!has)
            return OK;
    }
    return read_rows(r,
                     "SELECT fingerprint, shape, window, bucket, plan, time_us, launch FROM launch"
                     " ORDER BY fingerprint, shape, window",
                     add_launch);
}

/* Registers the spaces in this process. A space that cannot be read belongs to a layer that cannot
 * answer here. */
static int read_spaces(struct table_reader *r)
{
    const struct declaration *d;
    sqlite3_stmt *row = NULL;
    int code = SQLITE_DONE,
        rc = prepare_statement(r->db, "SELECT text FROM space ORDER BY id", &row);

    while (!rc && (code = sqlite3_step(row)) == SQLITE_ROW)
        declaration_register_silently(column_text(row, 0), &d);
    sqlite3_finalize(row);
    return rc ? rc : status_of(code);
}

static int read_all(struct table_reader *r)
{
    TRY(prepare_statement(r->db,
                          "SELECT hash, (" FIELD "'device'), (" FIELD "'backend'), (" FIELD
                          "'semantics'), here, (" FIELD
                          "'compute_library') FROM fingerprint WHERE id = ?1",
                          &r->cluster));
    TRY(prepare_statement(r->db, "SELECT text FROM shape WHERE id = ?1", &r->shape));
    TRY(read_spaces(r));
    TRY(read_entries(r));
    TRY(read_pins(r));
    return read_launches(r);
}

int lookup_read_sqlite(const char *path, enum lookup_kind kind, uint32_t file,
                       struct lookup_set *set)
{
    struct table_reader r = { .file = file, .set = set };
    int rc;

    TRY_OUT(open_database(path, kind, &r.db));
    /* Reads one state of the database, whoever writes meanwhile. Closing the connection ends the
     * transaction. */
    TRY_OUT(status_of(sqlite3_exec(r.db, "BEGIN", NULL, NULL, NULL)));
    TRY_OUT(check_database(r.db, kind, &set->skipped));
    TRY_OUT(read_all(&r));
    lookup_set_number_versions(set);
out:
    sqlite3_finalize(r.cluster);
    sqlite3_finalize(r.shape);
    sqlite3_close(r.db);
    return rc;
}

#endif
