/* Makes databases and exported tables for tests. */
#ifndef SHARE_TABLES_H
#define SHARE_TABLES_H

#include "folder.h"

#include "cluster.h"
#include "export.h"
#include "import.h"
#include "plan.h"
#include "sha256.h"
#include "status.h"
#include "store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- databases */

struct text {
    char *bytes;
    size_t size;
};

static int stores;

/* The one that was made last. */
static inline void last_path(char *path, size_t size)
{
    snprintf(path, size, "%s/%d.db", folder, stores);
}

static inline struct store *new_store(void)
{
    struct store *store = NULL;
    char path[128];

    stores++;
    last_path(path, sizeof(path));
    CHECK(store_open(path, STORE_RELAXED, &store) == OK);
    return store;
}

static inline struct cluster machine(uint32_t number)
{
    struct cluster c = cluster_unknown();

    c.semantics = CLUSTER_SEMANTICS;
    snprintf(c.backend, sizeof(c.backend), "host");
    snprintf(c.device, sizeof(c.device), "abacus %u", number);
    c.nodes = 2;
    c.ranks = 8;
    c.ranks_per_node = 4;
    snprintf(c.hosts, sizeof(c.hosts), "secret-host");
    return c;
}

static inline struct moe_shape layer(uint32_t number)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = 2,
                               .top_k = 2,
                               .model_dim = 16,
                               .hidden_dim = 32 * (number + 1),
                               .ranks = 8,
                               .ranks_per_node = 4,
                               .tokens = 64 };
}

static inline struct moe_plan draw_plan(const struct moe_shape *shape)
{
    struct moe_plan plans[64];
    size_t n = plan_list(shape, plans, 64);

    return plans[draw((uint32_t)n)];
}

static inline double draw_time(void)
{
    return draw(10) ? (1 + draw(1000000)) * 0.001 : (double)NAN;
}

static inline struct entry_row draw_entry(const struct moe_shape *shape)
{
    static const char *const efforts[] = { "quick", "normal", "thorough" };
    static const char *const decisions[] = { "adopted", "likely", "default",  "incumbent", "alone",
                                             "static",  "tie",    "inferred", "refuted" };
    struct entry_row e = { .window = 128,
                           .bucket = draw(6),
                           .plan = draw_plan(shape),
                           .time_us = draw_time(),
                           .low_us = draw_time(),
                           .default_us = draw_time(),
                           .gain = { 1 - draw_time(), NAN, NAN },
                           .bound = draw_time(),
                           .samples = draw(3),
                           .inferred = draw(4) == 0,
                           .stale = draw(4) == 0,
                           .decided_s = 1000 + draw(3) };

    e.capacity = 128 * e.bucket + 127;
    if (draw(2))
        e.runner_up = draw_plan(shape);
    snprintf(e.effort, sizeof(e.effort), "%s", efforts[draw(3)]);
    snprintf(e.search, sizeof(e.search), "guided");
    snprintf(e.reason, sizeof(e.reason), "certain");
    snprintf(e.decision, sizeof(e.decision), decisions[draw(9)]);
    e.high_us = draw(10) ? e.low_us + draw(1000) : (double)NAN;
    if (entry_fault(&e, shape, NULL)) { /* what answers gains something */
        e.gain.value = (1 + draw(999999)) * 1e-6;
        e.time_us = e.default_us * (1 - e.gain.value);
    }
    if (draw(2) && e.gain.value > 0) {
        e.gain.low = e.gain.value - draw(1000) * 1e-3;
        e.gain.high = fmin(1, e.gain.value + draw(1000) * 1e-3);
    }
    return e;
}

/* As rounds here decided it, now and then before one of its entries, or not yet. */
static inline struct standing_row draw_standing(const struct moe_shape *shape)
{
    double gain = draw(1000000) * 1e-7, width = draw(100) * 1e-5;
    struct standing_row row = { .run = 1,
                                .window = 128,
                                .gain = { gain, gain - width, gain + width / 3 },
                                .static_gain = { NAN, NAN, NAN },
                                .rounds = draw(8),
                                .first_round = 1000,
                                .rivals = "r=1 d=1 a=linear",
                                .decided_s = draw(4) ? 1000 + draw(6) : 0 };

    if (draw(2)) {
        row.static_gain.value = row.static_gain.low = -gain;
        row.static_gain.high = 0;
        row.static_plan = draw_plan(shape);
    }
    return row;
}

static inline void fill_standings(struct store *store)
{
    for (uint32_t i = 0; i < 4; i++) {
        struct cluster cluster = machine(i & 1);
        struct moe_shape shape = layer(i >> 1);
        struct standing_row row = draw_standing(&shape);

        CHECK(store_cluster_add(store, &cluster, &row.cluster) == OK);
        CHECK(store_shape_add(store, &shape, &row.shape) == OK);
        CHECK(store_standing(store, &row) == OK);
    }
}

static inline void fill(struct store *store, int entries)
{
    for (int i = 0; i < entries; i++) {
        struct cluster cluster = machine(draw(2));
        struct moe_shape shape = layer(draw(2));
        struct entry_row e = draw_entry(&shape);

        CHECK(store_cluster_add(store, &cluster, &e.cluster) == OK);
        CHECK(store_shape_add(store, &shape, &e.shape) == OK);
        CHECK(store_entry_put(store, &e, "test") == OK);
    }
    fill_standings(store);
    CHECK(store_commit(store) == OK);
}

static inline struct text export_with(struct store *store, struct export_options options)
{
    struct text t = { NULL, 0 };
    FILE *memory = open_memstream(&t.bytes, &t.size);

    CHECK(export_lines(store, &options, memory) == OK);
    fclose(memory);
    return t;
}

static inline struct text export_of(struct store *store, bool identify)
{
    return export_with(store, (struct export_options){ .identify = identify });
}

static inline struct text some_table(int entries)
{
    struct store *store = new_store();
    struct text t;

    fill(store, entries);
    t = export_of(store, false);
    store_close(store);
    return t;
}

static inline int take_in(struct store *store, struct text t, struct import_result *result)
{
    const struct import_options silent = { 0 };
    struct import_table *table = NULL;
    int rc = import_read(t.bytes, t.size, "test", &table);

    if (!rc)
        rc = import_place(table, store, &silent, result);
    import_free(table);
    return rc;
}

/* The first line vouches for what it is given here. */
static inline void seal(struct text t)
{
    char *body = memchr(t.bytes, '\n', t.size), hex[SHA256_HEX_BYTES];
    char *at = body ? memmem(t.bytes, (size_t)(body - t.bytes), "\"sha256\":\"", 10) : NULL;
    struct sha256 sum;
    uint8_t hash[SHA256_BYTES];

    if (!at || (size_t)(body - at) < 10 + 64)
        return;
    sha256_init(&sum);
    sha256_add(&sum, body + 1, t.size - (size_t)(body + 1 - t.bytes));
    sha256_end(&sum, hash);
    sha256_hex(hash, hex);
    memcpy(at + 10, hex, 64);
}

/* One table, changed by hand and sealed again. */
static inline struct text changed(struct text t, const char *from, const char *to)
{
    char *at = memmem(t.bytes, t.size, from, strlen(from));
    size_t before = at ? (size_t)(at - t.bytes) : 0;
    struct text changed = { .size = t.size - strlen(from) + strlen(to) };

    CHECK(at != NULL);
    changed.bytes = malloc(changed.size + 1);
    memcpy(changed.bytes, t.bytes, before);
    memcpy(changed.bytes + before, to, strlen(to));
    memcpy(changed.bytes + before + strlen(to), t.bytes + before + strlen(from),
           t.size - before - strlen(from));
    seal(changed);
    return changed;
}

static inline bool equal(struct text a, struct text b)
{
    return a.size == b.size && !memcmp(a.bytes, b.bytes, a.size);
}

/* ---- what answers, and which one stays */

static inline struct entry_row only_entry(struct store *store)
{
    struct cluster cluster = machine(0);
    struct moe_shape shape = layer(0);
    struct entry_row e = { 0 };
    int64_t c, s;

    CHECK(store_find(store, &cluster, &shape, &c, &s) == OK);
    CHECK(store_entry_get(store, c, s, 128, 0, &e) == OK);
    return e;
}

static inline void put_entry(struct store *store, const char *plan, bool stale, const char *effort,
                             int64_t decided_s)
{
    struct cluster cluster = machine(0);
    struct moe_shape shape = layer(0);
    struct entry_row e = { .window = 128,
                           .time_us = 1,
                           .default_us = 2000,
                           .gain = { 0.5, NAN, NAN },
                           .stale = stale,
                           .decided_s = decided_s,
                           .decision = "adopted",
                           .search = "guided",
                           .reason = "certain" };

    snprintf(e.effort, sizeof(e.effort), "%s", effort);
    CHECK(moe_plan_parse(plan, &e.plan) == OK);
    CHECK(store_cluster_add(store, &cluster, &e.cluster) == OK);
    CHECK(store_shape_add(store, &shape, &e.shape) == OK);
    CHECK(store_entry_put(store, &e, "test") == OK && store_commit(store) == OK);
}

static inline struct text table_of(const char *plan, bool stale, const char *effort,
                                   int64_t decided_s)
{
    struct store *store = new_store();
    struct text t;

    put_entry(store, plan, stale, effort, decided_s);
    t = export_of(store, false);
    store_close(store);
    return t;
}

static inline struct text merge_of(struct text first, struct text second)
{
    struct store *store = new_store();
    struct import_result got;
    struct text t;

    CHECK(take_in(store, first, &got) == OK && take_in(store, second, &got) == OK);
    t = export_of(store, false);
    store_close(store);
    return t;
}

/* ---- standings */

static inline struct standing_row a_standing(int64_t decided_s)
{
    struct standing_row row = { .run = 9,
                                .window = 128,
                                .gain = { 0.25, 0.125, 0.5 },
                                .static_gain = { -0.01, -0.02, 0 },
                                .rounds = 8,
                                .first_round = 24,
                                .rivals = "r=0 d=1 a=linear",
                                .decided_s = decided_s };

    CHECK(moe_plan_parse("r=0 d=1 a=linear", &row.static_plan) == OK);
    return row;
}

static inline void put_standing(struct store *store, struct standing_row row)
{
    struct cluster cluster = machine(0);
    struct moe_shape shape = layer(0);

    CHECK(store_cluster_add(store, &cluster, &row.cluster) == OK);
    CHECK(store_shape_add(store, &shape, &row.shape) == OK);
    CHECK(store_standing(store, &row) == OK && store_commit(store) == OK);
}

static inline bool has(struct text t, const char *words)
{
    return memmem(t.bytes, t.size, words, strlen(words)) != NULL;
}

/* ---- damage */

static char said[1024]; /* why the last table was refused */

static inline void keep_words(void *self, const char *line)
{
    (void)self;
    snprintf(said, sizeof(said), "%s", line);
}

/* Of a table that is freed. */
static inline int with_change_of(struct text t, const char *from, const char *to)
{
    struct text c = changed(t, from, to);
    struct store *store = new_store();
    struct import_result got;
    int rc;

    log_to(keep_words, NULL);
    rc = take_in(store, c, &got);
    log_to(NULL, NULL);
    store_close(store);
    free(t.bytes);
    free(c.bytes);
    return rc;
}

/* The n-th line of those that begin so; what follows its end. */
static inline char *line_of(struct text t, const char *begin, int n, char **end)
{
    char *at = t.bytes;

    for (; at < t.bytes + t.size; at = *end) {
        *end = (char *)memchr(at, '\n', t.size - (size_t)(at - t.bytes)) + 1;
        if (!strncmp(at, begin, strlen(begin)) && !n--)
            return at;
    }
    CHECK(!"a line");
    return t.bytes;
}

#endif
