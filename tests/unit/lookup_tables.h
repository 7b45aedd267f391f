/* Makes tables for tests, through the store in a folder of their own; opens, asks and packs them.
 */
#ifndef TABLES_FOR_TESTS_H
#define TABLES_FOR_TESTS_H

#include "folder.h"

#include "cluster.h"
#include "lookup.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static inline bool chance(uint32_t percent)
{
    return draw(100) < percent;
}

/* ---- the environment, and what is said */

static inline void no_environment(void)
{
    static const char *const names[] = { "MOELOOKUP_DB",      "MOELOOKUP_FORCE",
                                         "MOELOOKUP_DISABLE", "MOELOOKUP_LAUNCH",
                                         "MOETUNE_DB",        "XDG_DATA_HOME",
                                         "MOELOOKUP_RECORD",  NULL };

    for (int i = 0; names[i]; i++)
        unsetenv(names[i]);
    setenv("HOME", folder, 1);
    setenv("MOELOOKUP_LOG", "error", 1); /* what a test expects would be noise */
}

static inline size_t read_bytes(const char *path, char *bytes, size_t size)
{
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(bytes, 1, size, file) : 0;

    if (file)
        fclose(file);
    return length;
}

static inline void read_text(const char *path, char *text, size_t size)
{
    text[read_bytes(path, text, size - 1)] = 0;
}

static inline void send_stderr_to(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    fflush(stderr);
    dup2(fd, 2);
    close(fd);
}

static char heard[8192];

/* Fills `heard` with what `act` says on standard error in a process of its own, because some things
 * are said once per process.  Its checks count as this test's. */
static inline void in_child(void (*act)(void))
{
    const char *path = place("stderr");
    int status = -1;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        send_stderr_to(path);
        check_failures = 0;
        act();
        fflush(stdout);
        _exit(check_failures ? 1 : 0);
    }
    waitpid(child, &status, 0);
    read_text(path, heard, sizeof(heard));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
        printf("    %s\n", heard);
}

static int own_stderr = -1;

/* What is said between these two is in `heard`. */
static inline void catch_stderr(void)
{
    own_stderr = dup(2);
    send_stderr_to(place("caught"));
}

static inline void release_stderr(void)
{
    fflush(stderr);
    dup2(own_stderr, 2);
    close(own_stderr);
    read_text(place("caught"), heard, sizeof(heard));
}

static inline int count_of(const char *text, const char *word)
{
    int count = 0;

    for (; (text = strstr(text, word)); text += strlen(word))
        count++;
    return count;
}

/* ---- making tables */

static inline struct cluster machine(const char *device, uint32_t ranks, uint32_t per_node)
{
    struct cluster c = cluster_unknown();

    snprintf(c.backend, sizeof(c.backend), "host");
    snprintf(c.device, sizeof(c.device), "%s", device);
    c.semantics = CLUSTER_SEMANTICS;
    c.ranks = ranks;
    c.ranks_per_node = per_node;
    c.nodes = per_node ? ranks / per_node : 0;
    return c;
}

/* Two nodes with four ranks each; four ranks share an expert. */
static inline struct moe_shape layer(uint32_t hidden)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = 2,
                               .top_k = 2,
                               .tokens = 64,
                               .model_dim = 16,
                               .hidden_dim = hidden,
                               .ranks = 8,
                               .ranks_per_node = 4,
                               .pass = MOE_TRAIN };
}

static inline struct moe_plan plan_of(const char *text)
{
    struct moe_plan plan = MOE_PLAN_INIT;

    CHECK(!moe_plan_parse(text, &plan));
    return plan;
}

static inline struct store *new_store(const char *path)
{
    struct store *store = NULL;

    CHECK(!store_open(path, STORE_RELAXED, &store));
    return store;
}

static inline void publish_and_close(struct store *store)
{
    CHECK(!store_publish(store));
    store_close(store);
}

struct ids {
    int64_t cluster, shape;
};

static inline struct ids add_layer(struct store *store, const struct cluster *cluster,
                                   const struct moe_shape *shape)
{
    struct ids ids = { 0 };

    CHECK(!store_cluster_add(store, cluster, &ids.cluster));
    CHECK(!store_shape_add(store, shape, &ids.shape));
    return ids;
}

static inline struct entry_row entry_of(struct ids ids, uint32_t window, uint32_t bucket,
                                        const char *plan)
{
    struct entry_row e = { .cluster = ids.cluster,
                           .shape = ids.shape,
                           .run = 1,
                           .window = window,
                           .bucket = bucket,
                           .capacity = (uint64_t)bucket * window + window - 1,
                           .plan = plan_of(plan),
                           .time_us = 10.5 + bucket,
                           .default_us = 20.5 + bucket,
                           .gain = { 0.5, 0.25, 0.75 },
                           .decided_s = 1000000 };

    snprintf(e.decision, sizeof(e.decision), "adopted");
    return e;
}

static inline void add_entry(struct store *store, struct ids ids, uint32_t bucket, const char *plan)
{
    struct entry_row e = entry_of(ids, 128, bucket, plan);

    CHECK(!store_entry_put(store, &e, "measured"));
}

static inline void add_one(struct store *store, const struct cluster *cluster,
                           struct moe_shape shape, const char *plan)
{
    add_entry(store, add_layer(store, cluster, &shape), 2, plan);
}

static inline void add_pin(struct store *store, struct ids ids, uint32_t first, uint32_t last,
                           const char *plan)
{
    struct override_row pin = { .cluster = ids.cluster,
                                .shape = ids.shape,
                                .window = 128,
                                .first = first,
                                .last = last,
                                .plan = plan_of(plan) };

    snprintf(pin.why, sizeof(pin.why), "asked");
    CHECK(!store_override_add(store, &pin));
}

/* One layer on one cluster, buckets 2 to 5 of 128 with r=2 d=4 a=linear; bucket 4 is stale. */
static inline void write_small(const char *path, const char *device, uint32_t hidden)
{
    struct store *store = new_store(path);
    struct cluster cluster = machine(device, 8, 4);
    struct moe_shape shape = layer(hidden);
    struct ids ids = add_layer(store, &cluster, &shape);

    for (uint32_t b = 2; b < 6; b++)
        add_entry(store, ids, b, "r=2 d=4 a=linear");
    CHECK(!store_expire(store, ids.cluster, ids.shape, 128, 4, 4, "asked"));
    publish_and_close(store);
}

static inline struct moelookup *open_table(const char *path)
{
    struct moelookup *table = NULL;
    int rc = moelookup_open(path, &table);

    if (rc)
        printf("    %s: %s\n", path ? path : "the search path", moelookup_strerror(rc));
    CHECK(rc == MOE_OK && table);
    return table;
}

static inline bool is_refused(const char *path, int status)
{
    struct moelookup *table = NULL;
    int rc;

    catch_stderr();
    rc = moelookup_open(path, &table);
    release_stderr();
    if (rc != status)
        printf("    %s: %d, not %d\n", path, rc, status);
    return rc == status && !table;
}

static inline struct moelookup_view *bind_layer(const struct moelookup *table,
                                                struct moe_shape shape)
{
    struct moelookup_view *view = NULL;

    CHECK(moelookup_bind(table, &shape, NULL, &view) == MOE_OK && view);
    return view;
}

static inline struct moe_plan ask(const struct moelookup_view *view, uint32_t capacity)
{
    struct moe_plan plan = MOE_PLAN_INIT;

    CHECK(moelookup_get(view, capacity, &plan) == MOE_OK);
    return plan;
}

/* Opens, binds the layer, asks, forgets. */
static inline struct moe_plan ask_file(const char *path, struct moe_shape shape, uint32_t capacity)
{
    struct moelookup *table = open_table(path);
    struct moelookup_view *view = bind_layer(table, shape);
    struct moe_plan plan = ask(view, capacity);

    moelookup_view_free(view);
    moelookup_close(table);
    return plan;
}

static inline bool is_plan(const struct moe_plan *plan, const char *text)
{
    struct moe_plan other = plan_of(text), mine = plan_canonical(*plan, NULL);

    return plan_equal(&mine, &other);
}

static inline bool is_answer(struct moe_plan plan, const char *text, enum moe_source source)
{
    if (is_plan(&plan, text) && plan.source == source)
        return true;
    printf("    r=%u d=%u a=%u source=%u, not %s source=%u\n", plan.r, plan.d, plan.a, plan.source,
           text, source);
    return false;
}

static inline bool same_answer(const struct moe_plan *got, const struct moe_plan *want)
{
    struct moe_plan a = plan_canonical(*got, NULL), b = plan_canonical(*want, NULL);

    if (!plan_equal(&a, &b) || got->source != want->source || got->bucket != want->bucket)
        return false;
    if (got->source == MOE_OVERRIDE || got->source == MOE_DEFAULT)
        return true;
    return got->time_us == want->time_us && got->default_us == want->default_us;
}

static inline void digest_of(const char *path, uint8_t digest[32])
{
    struct moelookup *table = open_table(path);

    CHECK(moelookup_digest(table, digest) == MOE_OK);
    moelookup_close(table);
}

static inline struct moelookup *unpacked(const struct moelookup *table)
{
    struct moelookup *copy = NULL;
    size_t size = 0;
    void *bytes;

    CHECK(moelookup_pack(table, NULL, &size) == MOE_OK);
    bytes = malloc(size);
    CHECK(moelookup_pack(table, bytes, &size) == MOE_OK);
    CHECK(moelookup_unpack(bytes, size, &copy) == MOE_OK);
    free(bytes);
    return copy;
}

/* ---- packed bytes */

struct packed {
    uint8_t *bytes;
    size_t size;
    uint8_t digest[32];
};

static inline struct packed pack(const struct moelookup *table)
{
    struct packed p = { 0 };
    size_t size;

    CHECK(moelookup_pack(table, NULL, &p.size) == MOE_OK && p.size > 0);
    p.bytes = malloc(p.size);
    size = p.size;
    CHECK(moelookup_pack(table, p.bytes, &size) == MOE_OK && size == p.size);
    CHECK(moelookup_digest(table, p.digest) == MOE_OK);
    return p;
}

static inline struct packed pack_file(const char *path)
{
    struct moelookup *table = open_table(path);
    struct packed p = pack(table);

    moelookup_close(table);
    return p;
}

static inline bool same_packed(const struct packed *a, const struct packed *b)
{
    return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size) &&
           !memcmp(a->digest, b->digest, 32);
}

static inline void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "w");

    CHECK(file && fwrite(bytes, 1, size, file) == size);
    if (file)
        fclose(file);
}

static inline void alter(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;

    CHECK(sqlite3_open(path, &db) == SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        printf("    %s: %s\n", sql, why);
    CHECK(!why);
    sqlite3_free(why);
    sqlite3_close(db);
}

/* As a moetune from before there were seals left it. */
static inline void unseal(const char *snapshot)
{
    struct stat is;

    CHECK(!stat(snapshot, &is) && !truncate(snapshot, is.st_size / 512 * 512));
}

/* A fresh small table, altered behind the store's back. */
static inline const char *altered(const char *name, const char *sql)
{
    char snapshot[512];

    write_small(place(name), "abacus", 96);
    snprintf(snapshot, sizeof(snapshot), "%s.published", place(name));
    unseal(snapshot);
    alter(snapshot, sql);
    return place(name);
}

static inline bool legal(const struct moe_plan *plan, const struct moe_shape *shape)
{
    uint32_t s = shape->experts < shape->ranks ? shape->ranks / shape->experts : 1;
    uint32_t m = shape->ranks_per_node;

    if (plan->d != 1 && plan->d != 2 && plan->d != 4 && plan->d != 8)
        return false;
    if (plan->a > MOE_A2A_RAIL || plan->e > MOE_SPARSE || plan->w > MOE_CACHE ||
        plan->proto > MOE_PROTO_SIMPLE)
        return false;
    if (shape->layout == MOE_LAYOUT_HIDDEN)
        return plan->e == MOE_SPARSE &&
               (plan->r == 0 || (plan->r == shape->ranks && !plan->a && !plan->ctas && !plan->w));
    if (plan->r == 0)
        return plan->e == MOE_PADDED || (plan->d == 1 && plan->w == MOE_KEEP);
    if (plan->w == MOE_CACHE || (plan->e == MOE_SPARSE && (plan->a > MOE_A2A_2DH || plan->ctas)))
        return false;
    if (s % plan->r != 0)
        return false;
    if (plan->a == MOE_A2A_LINEAR || plan->a == MOE_A2A_NCCL)
        return true;
    return m > 1 && shape->ranks > m && shape->ranks % m == 0 &&
           (plan->a == MOE_A2A_2DH || m % s == 0);
}

/* Ranks of an expert gather b2 at least, and with r = 0 all ranks gather all weights. */
static inline bool gathers(const struct moe_plan *plan, const struct moe_shape *shape)
{
    if (plan->r == 0 || shape->layout == MOE_LAYOUT_HIDDEN)
        return shape->ranks > 1;
    return shape->experts < shape->ranks;
}

static inline int bind_to(const struct moelookup *table, struct moe_shape shape, const char *device,
                          struct moe_plan *out)
{
    struct moelookup_view *view = NULL;
    int rc = moelookup_bind(table, &shape, device, &view);

    CHECK((rc == MOE_OK) == (view != NULL));
    if (!rc)
        *out = ask(view, 2 * 128);
    moelookup_view_free(view);
    return rc;
}

static inline bool binds_to(const struct moelookup *table, struct moe_shape shape,
                            const char *device, const char *plan)
{
    struct moe_plan got = MOE_PLAN_INIT;

    return bind_to(table, shape, device, &got) == MOE_OK &&
           is_answer(got, plan ? plan : "r=1", plan ? MOE_EXACT : MOE_DEFAULT);
}

static inline void prepare(void)
{
    no_environment();
    draw_from_seed();
}

/* Runs them in a new folder, which is gone afterwards. */
static inline int run_with_folder(const struct test *tests, size_t count)
{
    return check_in_folder(tests, count, prepare);
}

#endif
