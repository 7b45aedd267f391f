/* What importing a table costs, against putting the same rows into a bare SQLite table. */
#include "cluster.h"
#include "export.h"
#include "import.h"
#include "plan.h"
#include "random.h"
#include "rivals.h"
#include "status.h"
#include "store.h"

#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

enum { ENTRIES = 100000, LAYERS = 100 };

struct table {
    char *text, folder[64];
    size_t size;
    int turn;
};

static void path_of(struct table *t, const char *kind, char *path, size_t size)
{
    snprintf(path, size, "%s/%s%d.db", t->folder, kind, t->turn);
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
                           .gain = .1,
                           .gain_low = .05,
                           .gain_high = .2,
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
    TRY(store_cluster(store, &c, &e.cluster));
    e.plan = plan_default();
    for (uint32_t i = 0; i < ENTRIES; i++) {
        shape.hidden_dim = 64 * (1 + i % LAYERS);
        TRY(store_shape(store, &shape, &e.shape));
        e.bucket = i / LAYERS;
        e.time_us = 100 + (double)random_below(1, i, 1000) / 8;
        e.low_us = e.time_us - 1;
        e.high_us = e.time_us + 1;
        e.default_us = e.time_us * 1.2;
        TRY(store_entry(store, &e, "bench"));
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
    struct import_options options = { .origin = "bench" };
    struct import_result got;
    struct store *store;
    char path[128];
    int64_t begin;

    path_of(t, "in", path, sizeof(path));
    forget(path);
    if (store_open(path, STORE_RELAXED, &store))
        exit(1);
    begin = host_clock_ns();
    if (import_lines(store, t->text, t->size, &options, &got) || got.added != ENTRIES)
        exit(1);
    begin = host_clock_ns() - begin;
    store_close(store);
    return begin;
}

/* The same columns, types and unique key; one transaction, one prepared statement, no reading. */
static int64_t insert_it(void *self)
{
    struct table *t = self;
    sqlite3 *db;
    sqlite3_stmt *s;
    char path[128];
    int64_t begin;

    path_of(t, "bare", path, sizeof(path));
    forget(path);
    sqlite3_open(path, &db);
    sqlite3_exec(
        db,
        "PRAGMA synchronous=OFF; CREATE TABLE entry(id INTEGER PRIMARY KEY, fingerprint,"
        " shape, run, window, bucket, capacity, plan, runner_up, search_winner, time_us,"
        " low_us, high_us, default_us, gain, gain_low, gain_high, bound, samples, inferred,"
        " stale, effort, search, reason, decision, decided_s, tier,"
        " UNIQUE(fingerprint, shape, window, bucket))",
        NULL, NULL, NULL);
    begin = host_clock_ns();
    sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    sqlite3_prepare_v2(db,
                       "INSERT INTO entry VALUES(?1,1,?2,0,128,?3,0,'r=1 d=1 a=linear',NULL,NULL,"
                       "?4,?5,?6,?7,.1,.05,.2,.01,20,0,0,'normal','guided','certain','adopted',1,"
                       "'imported')",
                       -1, &s, NULL);
    for (int i = 0; i < ENTRIES; i++) {
        double time = 100 + (double)random_below(1, (uint64_t)i, 1000) / 8;

        sqlite3_bind_int(s, 1, i + 1);
        sqlite3_bind_int(s, 2, i % LAYERS + 1);
        sqlite3_bind_int(s, 3, i / LAYERS);
        for (int k = 0; k < 4; k++)
            sqlite3_bind_double(s, 4 + k, time + k);
        sqlite3_step(s);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    begin = host_clock_ns() - begin;
    sqlite3_close(db);
    return begin;
}

int main(void)
{
    struct table t = { .folder = "/tmp/bench-share-XXXXXX" };
    struct rivals c;
    char path[128];

    if (!mkdtemp(t.folder) || make_table(&t))
        return 1;
    c = rivals_run(import_it, insert_it, &t);
    printf("import of %d entries (%.1f MB)   %.2f of bare SQLite inserts [%.2f, %.2f]\n", ENTRIES,
           (double)t.size * 1e-6, c.ratio, c.low, c.high);
    path_of(&t, "in", path, sizeof(path));
    forget(path);
    path_of(&t, "bare", path, sizeof(path));
    forget(path);
    rmdir(t.folder);
    free(t.text);
    return 0;
}
