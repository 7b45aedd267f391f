/* Times the import of a table against inserting the same rows into the same tables of SQLite. */
#include "cluster.h"
#include "export.h"
#include "import.h"
#include "plan.h"
#include "random.h"
#include "rivals.h"
#include "schema.h"
#include "status.h"
#include "store.h"

#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

enum { ENTRIES = 100000, LAYERS = 100, COLUMNS = 27 };

struct row;

struct table {
    char *text, folder[64];
    size_t size;
    bool relaxed;
    struct row *rows;
};

static void path_of(struct table *t, const char *kind, char *path, size_t size)
{
    snprintf(path, size, "%s/%s.db", t->folder, kind);
}

static void forget(const char *path)
{
    static const char *const ends[] = { "", ".journal", ".owner", ".published" };
    char name[160];

    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "%s%s", path, ends[i]);
        unlink(name);
    }
}

static int fill(struct store *store)
{
    struct cluster c = cluster_unknown();
    struct moe_shape shape = { .struct_size = sizeof(shape),
                               .experts = 8,
                               .top_k = 2,
                               .model_dim = 64,
                               .ranks = 8,
                               .ranks_per_node = 8,
                               .tokens = 64 };
    struct entry_row e = { .window = 128,
                           .gain = { .1, .05, .2 },
                           .bound = .01,
                           .samples = 20,
                           .effort = "normal",
                           .search = "guided",
                           .reason = "certain",
                           .decision = "adopted",
                           .decided_s = 1 };

    c.semantics = CLUSTER_SEMANTICS;
    c.ranks = c.ranks_per_node = 8;
    c.nodes = 1;
    snprintf(c.backend, sizeof(c.backend), "host");
    TRY(store_cluster_add(store, &c, &e.cluster));
    e.plan = plan_default(NULL);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        shape.hidden_dim = 64 * (1 + i % LAYERS);
        TRY(store_shape_add(store, &shape, &e.shape));
        e.bucket = i / LAYERS;
        e.time_us = 100 + (double)random_below(1, i, 1000) / 8;
        e.low_us = e.time_us - 1;
        e.high_us = e.time_us + 1;
        e.default_us = e.time_us * 1.2;
        TRY(store_entry_put(store, &e, "bench"));
    }
    return store_commit(store);
}

static int make_table(struct table *t)
{
    struct export_options all = { 0 };
    struct store *store;
    char path[128];
    FILE *memory;
    int rc;

    path_of(t, "made", path, sizeof(path));
    TRY(store_open(path, STORE_RELAXED, &store));
    rc = fill(store);
    memory = open_memstream(&t->text, &t->size);
    if (!rc)
        rc = export_lines(store, &all, memory);
    fclose(memory);
    store_close(store);
    forget(path);
    return rc;
}

/* Reading, checking, merging, journal and commit included. */
static int64_t import_it(void *self)
{
    struct table *t = self;
    const struct import_options silent = { 0 };
    struct import_table *table;
    struct import_result got;
    struct store *store;
    char path[128];
    int64_t begin;

    path_of(t, "in", path, sizeof(path));
    forget(path);
    if (store_open(path, t->relaxed ? STORE_RELAXED : 0, &store))
        exit(1);
    begin = host_clock_ns();
    if (import_read(t->text, t->size, "bench", &table) ||
        import_place(table, store, &silent, &got) || got.added != ENTRIES)
        exit(1);
    import_free(table);
    begin = host_clock_ns() - begin;
    store_close(store);
    return begin;
}

/* What the import wrote, taken out of its own database: the rival inserts these very rows. */
struct row {
    sqlite3_value *values[COLUMNS];
};

static void read_rows(struct table *t)
{
    char path[128];
    sqlite3 *db;
    sqlite3_stmt *s;

    import_it(t);
    path_of(t, "in", path, sizeof(path));
    t->rows = calloc(ENTRIES, sizeof(*t->rows));
    if (!t->rows || sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "SELECT * FROM entry ORDER BY id", -1, &s, NULL) != SQLITE_OK ||
        sqlite3_column_count(s) != COLUMNS)
        exit(1);
    for (int i = 0; i < ENTRIES && sqlite3_step(s) == SQLITE_ROW; i++)
        for (int k = 0; k < COLUMNS; k++)
            t->rows[i].values[k] = sqlite3_value_dup(sqlite3_column_value(s, k));
    sqlite3_finalize(s);
    sqlite3_close(db);
}

static void must(sqlite3 *db, int code, int wanted)
{
    if (code == wanted)
        return;
    fprintf(stderr, "bare inserts: %s\n", sqlite3_errmsg(db));
    exit(1);
}

static void bind_row(sqlite3_stmt *s, const struct row *row)
{
    for (int k = 0; k < COLUMNS; k++)
        sqlite3_bind_value(s, k + 1, row->values[k]);
}

/* The same rows in the same order into the same tables, with the same settings: one transaction,
 * one prepared statement, no reading, no checks, no journal of ours. */
static int64_t insert_it(void *self)
{
    struct table *t = self;
    sqlite3 *db;
    sqlite3_stmt *s;
    char path[128], sql[256] = "INSERT INTO entry VALUES(?";
    int64_t begin;

    path_of(t, "bare", path, sizeof(path));
    forget(path);
    must(NULL, sqlite3_open(path, &db), SQLITE_OK);
    must(db, sqlite3_exec(db, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL), SQLITE_OK);
    must(db,
         sqlite3_exec(db, t->relaxed ? "PRAGMA synchronous=OFF" : "PRAGMA synchronous=FULL", NULL,
                      NULL, NULL),
         SQLITE_OK);
    must(db, schema_migrate(db, path, 0, STORE_VERSION, schema_steps), SQLITE_OK);
    for (int k = 1; k < COLUMNS; k++)
        strcat(sql, ",?");
    strcat(sql, ")");
    begin = host_clock_ns();
    must(db, sqlite3_exec(db, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
    must(db, sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    for (int i = 0; i < ENTRIES; i++) {
        bind_row(s, &t->rows[i]);
        must(db, sqlite3_step(s), SQLITE_DONE);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    must(db, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    begin = host_clock_ns() - begin;
    sqlite3_close(db);
    return begin;
}

static void compare(struct table *t, bool relaxed)
{
    struct rivals c;

    t->relaxed = relaxed;
    c = rivals_run(import_it, insert_it, t);
    printf("import of %d entries (%.1f MB), %-16s %.2f of bare SQLite inserts [%.2f, %.2f], "
           "%.2f s\n",
           ENTRIES, (double)t->size * 1e-6, relaxed ? "synchronous=OFF" : "synchronous=FULL",
           c.ratio, c.low, c.high, c.ours_ns * 1e-9);
}

static void clean_up(struct table *t)
{
    char path[128];

    path_of(t, "in", path, sizeof(path));
    forget(path);
    path_of(t, "bare", path, sizeof(path));
    forget(path);
    rmdir(t->folder);
    for (int i = 0; i < ENTRIES; i++)
        for (int k = 0; k < COLUMNS; k++)
            sqlite3_value_free(t->rows[i].values[k]);
    free(t->rows);
    free(t->text);
}

int main(void)
{
    struct table t = { .folder = "/tmp/bench-share-XXXXXX", .relaxed = true };

    if (!mkdtemp(t.folder) || make_table(&t))
        return 1;
    read_rows(&t);
    compare(&t, true);
    compare(&t, false);
    clean_up(&t);
    return 0;
}
