/* Measures what a look-up costs a trainer, against what the trainer would do without it.
 *
 *     bench_lookup            every comparison
 *     bench_lookup table FILE writes the database that bench_lookup.py asks */
#include "cluster.h"
#include "moelookup.h"
#include "random.h"
#include "rivals.h"
#include "status.h"
#include "store.h"

#include <pthread.h>
#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS = 20, BUCKETS = 256, WINDOW = 128, ASKED = 1 << 16 };

/* Every allocation of this process is counted. */
static uint64_t allocations;
void *__libc_malloc(size_t bytes);
void *malloc(size_t bytes)
{
    allocations++;
    return __libc_malloc(bytes);
}

/* ---- a table of twenty layers */

static struct moe_shape shape_of(int layer)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = 8,
                               .top_k = 2,
                               .model_dim = 1024,
                               .hidden_dim = 512 * (uint32_t)(layer + 1),
                               .ranks = 32,
                               .ranks_per_node = 8,
                               .dtype = MOE_BF16,
                               .pass = MOE_TRAIN,
                               .tokens = 4096 };
}

static int fill_layer(struct store *store, int64_t cluster, int layer)
{
    struct moe_shape shape = shape_of(layer);
    struct entry_row e = {
        .cluster = cluster, .window = WINDOW, .gain = { 0.2, 0.1, 0.3 }, .effort = "normal"
    };

    TRY(store_shape_add(store, &shape, &e.shape));
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
        e.bucket = bucket;
        e.capacity = (uint64_t)(bucket + 1) * WINDOW - 1;
        e.plan = (struct moe_plan)MOE_PLAN_INIT;
        e.plan.r = 1u << random_below(1, (uint64_t)layer * BUCKETS + bucket, 3);
        e.plan.d = 1u << random_below(2, (uint64_t)layer * BUCKETS + bucket, 4);
        e.time_us = 100 + bucket;
        e.default_us = 120 + bucket;
        TRY(store_entry_put(store, &e, "bench"));
    }
    return OK;
}

static int write_table(const char *path)
{
    struct cluster machine = cluster_unknown();
    struct store *store;
    int64_t cluster;
    int rc;

    snprintf(machine.backend, sizeof(machine.backend), "host");
    snprintf(machine.device, sizeof(machine.device), "bench");
    machine.semantics = CLUSTER_SEMANTICS;
    machine.ranks = 32;
    machine.ranks_per_node = 8;
    machine.nodes = 4;
    TRY(store_open(path, STORE_RELAXED, &store));
    TRY_OUT(store_cluster_add(store, &machine, &cluster));
    for (int i = 0; i < LAYERS; i++)
        TRY_OUT(fill_layer(store, cluster, i));
    TRY_OUT(store_publish(store));
out:
    store_close(store);
    return rc;
}

/* ---- asking */

struct asking {
    const char *path; /* of the snapshot */
    struct moelookup_view *view, *recording;
    struct moe_plan plans[BUCKETS];
    uint32_t capacities[ASKED];
    sqlite3_stmt *select;
    int (*get)(const struct moelookup_view *view, uint32_t capacity, struct moe_plan *out);
    int (*plain)(const struct asking *a, uint32_t capacity, struct moe_plan *out);
    uint64_t sum; /* keeps the compiler from leaving anything out */
    void *packed;
    size_t packed_bytes;
    const char *record;
    struct rivals elsewhere;
};

static int read_plain(const struct asking *a, uint32_t capacity, struct moe_plan *out)
{
    *out = a->plans[capacity / WINDOW % BUCKETS];
    return 0;
}

static int64_t ask_library(void *self)
{
    struct asking *a = self;
    struct moe_plan plan = MOE_PLAN_INIT;
    int64_t begin = host_clock_ns();

    for (int i = 0; i < ASKED; i++) {
        a->get(a->view, a->capacities[i], &plan);
        a->sum += plan.r + plan.d;
    }
    return host_clock_ns() - begin;
}

static int64_t ask_recording(void *self)
{
    struct asking *a = self;
    struct moelookup_view *plain = a->view;
    int64_t ns;

    a->view = a->recording;
    ns = ask_library(a);
    a->view = plain;
    return ns;
}

/* The recorder's first shard is the main thread's: another thread asks through its own. */
static void *ask_elsewhere(void *self)
{
    struct asking *a = self;

    a->elsewhere = rivals_run(ask_recording, ask_library, a);
    return NULL;
}

static int64_t ask_array(void *self)
{
    struct asking *a = self;
    struct moe_plan plan = MOE_PLAN_INIT;
    int64_t begin = host_clock_ns();

    for (int i = 0; i < ASKED; i++) {
        a->plain(a, a->capacities[i], &plan);
        a->sum += plan.r + plan.d;
    }
    return host_clock_ns() - begin;
}

/* A sixteenth of the questions: it is that much slower. */
static int64_t ask_sqlite(void *self)
{
    struct asking *a = self;
    int64_t begin = host_clock_ns();

    for (int i = 0; i < ASKED / 16; i++) {
        uint32_t bucket = a->capacities[i] / WINDOW;

        sqlite3_bind_int64(a->select, 1, bucket < BUCKETS ? bucket : BUCKETS - 1);
        if (sqlite3_step(a->select) == SQLITE_ROW)
            a->sum += (uint64_t)sqlite3_column_bytes(a->select, 0);
        sqlite3_reset(a->select);
    }
    return 16 * (host_clock_ns() - begin);
}

static void bench_get(struct asking *a, const char *name, uint32_t range)
{
    struct rivals array, sqlite, recording;
    uint64_t before;
    pthread_t thread;

    for (uint32_t i = 0; i < ASKED; i++)
        a->capacities[i] = (uint32_t)random_below(3, i, range);
    before = allocations;
    ask_library(a);
    ask_recording(a);
    before = allocations - before;
    array = rivals_run(ask_library, ask_array, a);
    sqlite = rivals_run(ask_library, ask_sqlite, a);
    recording = rivals_run(ask_recording, ask_library, a);
    if (pthread_create(&thread, NULL, ask_elsewhere, a) || pthread_join(thread, NULL))
        exit(1);
    printf("get, capacities over %-18s %.2f of a bare array read [%.2f, %.2f] (%.1f ns), %.4f of a "
           "prepared SQLite select; %llu allocations in %d calls\n",
           name, array.ratio, array.low, array.high, array.ours_ns / ASKED, sqlite.ratio,
           (unsigned long long)before, 2 * ASKED);
    printf(
        "get, recording, over %-18s %.2f of the same without [%.2f, %.2f] (%.1f ns), in a second "
        "thread %.2f\n",
        name, recording.ratio, recording.low, recording.high, recording.ours_ns / ASKED,
        a->elsewhere.ratio);
}

/* ---- capacities that follow the experts */

enum { EXPERTS = 64, FOLLOWED = 20000, TURNS = 1000 };

struct following {
    struct moe_capacities *c;
    uint64_t step, replans;
    uint32_t counts[TURNS][EXPERTS], peak[EXPERTS];
    uint64_t sum;
};

/* Experts drift, so that it re-plans as often as it may. */
static int64_t follow(void *self)
{
    struct following *f = self;
    struct moe_capacities_state state = MOE_CAPACITIES_STATE_INIT;
    const uint32_t *rows;
    int64_t begin = host_clock_ns();

    for (int i = 0; i < FOLLOWED; i++, f->step++) {
        moe_capacities_feed(f->c, f->step, f->counts[f->step % TURNS], EXPERTS);
        moe_capacities_at(f->c, f->step + 1, &rows, &state);
        f->sum += rows[i % EXPERTS] + state.key;
    }
    f->replans = state.replans;
    return host_clock_ns() - begin;
}

/* The least that anybody would do with counts: the largest of each, and their sum. */
static int64_t find_peaks(void *self)
{
    struct following *f = self;
    int64_t begin = host_clock_ns();

    for (int i = 0; i < FOLLOWED; i++)
        for (int e = 0; e < EXPERTS; e++) {
            uint32_t n = f->counts[i % TURNS][e];

            f->peak[e] = n > f->peak[e] ? n : f->peak[e];
            f->sum += n;
        }
    return host_clock_ns() - begin;
}

static void bench_following(void)
{
    static struct following f;
    struct moe_capacities_options o = MOE_CAPACITIES_OPTIONS_INIT;
    struct rivals least;
    uint64_t before;

    o.experts = EXPERTS;
    o.ranks = 8;
    o.most = 4096;
    if (moe_capacities_open(&o, &f.c))
        exit(1);
    for (uint32_t i = 0; i < TURNS; i++)
        for (uint32_t e = 0; e < EXPERTS; e++)
            f.counts[i][e] = 100 + random_below(e, i, 60) + random_below(e, i / 300, 90);
    before = allocations;
    follow(&f);
    before = allocations - before;
    least = rivals_run(follow, find_peaks, &f);
    printf("feed and at, %d experts: %.0f ns (2,000 are allowed), %.1f of a loop that finds peaks "
           "[%.1f, %.1f]; %.1f re-plans in 1,000 steps; %llu allocations\n",
           EXPERTS, least.ours_ns / FOLLOWED, least.ratio, least.low, least.high,
           1e3 * (double)f.replans / (double)f.step, (unsigned long long)before);
    moe_capacities_close(f.c);
    if (f.sum == 42)
        exit(1); /* it is not */
}

/* ---- counts that are recorded */

struct noting {
    struct moe_counts *c;
    uint32_t counts[TURNS][EXPERTS], steps;
    uint64_t step, sum;
    int file;
};

static int64_t record_steps(void *self)
{
    struct noting *n = self;
    int64_t begin = host_clock_ns();

    for (uint32_t i = 0; i < n->steps; i++, n->step++)
        moe_counts_step(n->c, n->step, 600, n->counts[n->step % TURNS], EXPERTS);
    return host_clock_ns() - begin;
}

/* A line for each step, as anybody would write it. */
static int64_t print_steps(void *self)
{
    struct noting *n = self;
    char line[EXPERTS * 11 + 100];
    int64_t begin = host_clock_ns();

    for (uint32_t i = 0; i < n->steps; i++, n->step++) {
        int used = snprintf(line, sizeof(line), "{\"step\":%llu,\"counts\":[",
                            (unsigned long long)n->step);

        for (int e = 0; e < EXPERTS; e++)
            used += snprintf(line + used, sizeof(line) - (size_t)used, "%s%u", e ? "," : "",
                             n->counts[n->step % TURNS][e]);
        used += snprintf(line + used, sizeof(line) - (size_t)used, "]}\n");
        n->sum += (uint64_t)write(n->file, line, (size_t)used);
    }
    return host_clock_ns() - begin;
}

/* Of each step a line, and few of a run that is long. */
static void bench_recording(void)
{
    static struct noting n = { .steps = 1000 };
    struct moe_counts_options o = MOE_COUNTS_OPTIONS_INIT;
    char path[] = "/tmp/bench-counts-XXXXXX", lines[] = "/tmp/bench-lines-XXXXXX";
    struct rivals line;
    uint64_t before;
    double ns;

    o.experts = EXPERTS;
    o.room = 1 << 20;
    for (uint32_t i = 0; i < TURNS; i++)
        for (uint32_t e = 0; e < EXPERTS; e++)
            n.counts[i][e] = 100 + random_below(e, i, 60);
    close(mkstemp(path));
    n.file = mkstemp(lines);
    if (n.file < 0 || moe_counts_open(&o, path, &n.c))
        exit(1);
    line = rivals_run(record_steps, print_steps, &n);
    moe_counts_close(n.c);
    o.room = 64;
    if (moe_counts_open(&o, path, &n.c))
        exit(1);
    n.steps = 1 << 22;
    before = allocations;
    record_steps(&n);
    before = allocations - before;
    ns = (double)record_steps(&n) / n.steps;
    printf("moe_counts_step, %d experts, a line of each step: %.0f ns, %.2f of snprintf and write "
           "[%.2f, %.2f]; 64 lines of 8,388,608 steps: %.2f ns a step, %llu allocations\n",
           EXPERTS, line.ours_ns / 1000, line.ratio, line.low, line.high, ns,
           (unsigned long long)before);
    moe_counts_close(n.c);
    close(n.file);
    unlink(path);
    unlink(lines);
    if (n.sum == 42)
        exit(1); /* it is not */
}

/* ---- opening */

static int64_t open_and_bind(void *self)
{
    struct asking *a = self;
    struct moelookup *table;
    struct moelookup_view *view;
    int64_t begin = host_clock_ns();

    if (moelookup_open(a->path, &table))
        exit(1);
    for (int i = 0; i < LAYERS; i++) {
        struct moe_shape shape = shape_of(i);

        if (moelookup_bind(table, &shape, NULL, &view))
            exit(1);
        moelookup_view_free(view);
    }
    moelookup_close(table);
    return host_clock_ns() - begin;
}

static int64_t unpack(void *self)
{
    struct asking *a = self;
    struct moelookup *table;
    int64_t begin = host_clock_ns();

    if (moelookup_unpack(a->packed, a->packed_bytes, &table))
        exit(1);
    moelookup_close(table);
    return host_clock_ns() - begin;
}

/* The same entries by one query, from opening the file to closing it. */
static int64_t bare_query(void *self)
{
    struct asking *a = self;
    sqlite3 *db;
    sqlite3_stmt *s;
    int64_t begin = host_clock_ns();

    if (sqlite3_open_v2(a->path, &db, SQLITE_OPEN_READONLY, NULL) ||
        sqlite3_prepare_v2(db,
                           "SELECT fingerprint, shape, window, bucket, plan, time_us, default_us,"
                           " inferred, stale FROM entry",
                           -1, &s, NULL))
        exit(1);
    while (sqlite3_step(s) == SQLITE_ROW)
        a->sum += (uint64_t)sqlite3_column_int64(s, 3) + *sqlite3_column_text(s, 4);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return host_clock_ns() - begin;
}

static void bench_open(struct asking *a)
{
    struct rivals open = rivals_run(open_and_bind, bare_query, a);
    struct rivals unpacked = rivals_run(unpack, bare_query, a);

    printf("open and bind %d layers x %d buckets   %.2f of one bare SQLite query [%.2f, %.2f]\n",
           LAYERS, BUCKETS, open.ratio, open.low, open.high);
    printf("unpack the same                     %.2f of it [%.2f, %.2f]; %.1f bytes per entry in "
           "all\n",
           unpacked.ratio, unpacked.low, unpacked.high,
           (double)a->packed_bytes / (LAYERS * BUCKETS));
}

/* ---- */

static int set_up(struct asking *a, struct moelookup **table, sqlite3 **db)
{
    struct moe_shape shape = shape_of(0);

    TRY(moelookup_open(a->path, table));
    TRY(moelookup_bind(*table, &shape, NULL, &a->view));
    TRY(moelookup_record(*table, a->record));
    TRY(moelookup_bind(*table, &shape, NULL, &a->recording));
    TRY(moelookup_pack(*table, NULL, &a->packed_bytes));
    a->packed = malloc(a->packed_bytes);
    TRY(moelookup_pack(*table, a->packed, &a->packed_bytes));
    for (uint32_t i = 0; i < BUCKETS; i++) {
        a->plans[i] = (struct moe_plan)MOE_PLAN_INIT;
        moelookup_get(a->view, i * WINDOW, &a->plans[i]);
    }
    a->get = moelookup_get;
    a->plain = read_plain;
    if (sqlite3_open_v2(a->path, db, SQLITE_OPEN_READONLY, NULL) ||
        sqlite3_prepare_v2(*db,
                           "SELECT plan FROM entry WHERE fingerprint = 1 AND shape = 1 AND "
                           "window = 128 AND bucket = ?1",
                           -1, &a->select, NULL))
        return ERR_IO;
    return OK;
}

int main(int argc, char **argv)
{
    static struct asking a;
    struct moelookup *table;
    sqlite3 *db;
    char folder[] = "/tmp/bench-lookup-XXXXXX", path[64], snapshot[80], record[80];

    if (argc == 3)
        return write_table(argv[2]) ? 1 : 0;
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof(path), "%s/b.db", folder);
    snprintf(snapshot, sizeof(snapshot), "%s.published", path);
    snprintf(record, sizeof(record), "%s.traffic", path);
    a.path = snapshot;
    a.record = record;
    if (write_table(path) || set_up(&a, &table, &db))
        return 1;
    bench_get(&a, "one bucket", WINDOW);
    bench_get(&a, "256 buckets", WINDOW * BUCKETS);
    bench_get(&a, "1,000,000 buckets", 1000000u * WINDOW);
    bench_following();
    bench_recording();
    bench_open(&a);
    sqlite3_finalize(a.select);
    sqlite3_close(db);
    moelookup_view_free(a.view);
    moelookup_view_free(a.recording);
    moelookup_close(table);
    free(a.packed);
    for (const char *const *end =
             (const char *const[]){ "", ".published", ".journal", ".traffic", NULL };
         *end; end++) {
        snprintf(snapshot, sizeof(snapshot), "%s%s", path, *end);
        unlink(snapshot);
    }
    snprintf(snapshot, sizeof(snapshot), "%s.owner", path);
    unlink(snapshot);
    rmdir(folder);
    return a.sum == 42; /* it is not */
}
