/* Makes rows to fill databases with, and reads databases as bytes and as SQL. */
#ifndef STORE_ROWS_H
#define STORE_ROWS_H

#include "folder.h"

#include "status.h"
#include "store.h"

#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

static char said[1024]; /* the last failure or remark */

static inline void hear(void *self, const char *line)
{
    (void)self;
    snprintf(said, sizeof(said), "%s", line);
}

static inline void listen(void)
{
    log_to(hear, NULL);
}

static inline struct cluster some_cluster(const char *device)
{
    struct cluster c = cluster_unknown();

    snprintf(c.backend, sizeof(c.backend), "host");
    snprintf(c.device, sizeof(c.device), "%s", device);
    c.semantics = 1;
    c.ranks = 4;
    c.nodes = 1;
    c.ranks_per_node = 4;
    return c;
}

static inline struct moe_shape some_shape(uint32_t hidden)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = 2,
                               .top_k = 2,
                               .tokens = 64,
                               .model_dim = 16,
                               .hidden_dim = hidden,
                               .ranks = 4,
                               .ranks_per_node = 4,
                               .pass = MOE_TRAIN };
}

static inline struct moe_plan plan_of(const char *text)
{
    struct moe_plan plan = MOE_PLAN_INIT;

    CHECK(!moe_plan_parse(text, &plan));
    return plan;
}

static inline struct trial_row some_trial(int64_t cluster, int64_t shape, uint32_t bucket,
                                          const char *plan)
{
    return (struct trial_row){ .run = 1,
                               .key = { cluster, shape, 128, bucket, plan_of(plan) },
                               .capacity = bucket * 128 + 127 };
}

static inline struct entry_row some_entry(int64_t cluster, int64_t shape, uint32_t bucket,
                                          const char *plan, double us)
{
    struct entry_row e = { .cluster = cluster,
                           .shape = shape,
                           .run = 1,
                           .window = 128,
                           .bucket = bucket,
                           .capacity = bucket * 128 + 127,
                           .plan = plan_of(plan),
                           .search_winner = plan_of(plan),
                           .time_us = us,
                           .low_us = us - 1,
                           .high_us = us + 1,
                           .default_us = 2 * us,
                           .gain = { 0.5, NAN, NAN },
                           .bound = 0.01,
                           .samples = 7,
                           .decided_s = 1000000 };

    snprintf(e.effort, sizeof(e.effort), "normal");
    snprintf(e.search, sizeof(e.search), "guided");
    snprintf(e.reason, sizeof(e.reason), "certain");
    snprintf(e.decision, sizeof(e.decision), "adopted");
    return e;
}

#define some_sample(of_kind, of_round, of_ns)                                                      \
    (struct sample_row)                                                                            \
    {                                                                                              \
        .kind = (of_kind), .round = (uint32_t)(of_round), .ns = (of_ns)                            \
    }

/* A database with something of everything in it; stays open. */
static inline struct store *fill(const char *path, uint32_t buckets, unsigned flags)
{
    struct cluster cluster = some_cluster("abacus");
    struct moe_shape shape = some_shape(32);
    struct store *store = NULL;
    int64_t c, s;

    CHECK(!store_open(path, flags, &store));
    CHECK(!store_cluster_add(store, &cluster, &c) && !store_shape_add(store, &shape, &s));
    for (uint32_t b = 0; b < buckets; b++) {
        struct trial_row fast = some_trial(c, s, b, "r=2 d=4 a=linear");
        struct trial_row slow = some_trial(c, s, b, "r=1 d=1 a=linear");
        struct entry_row entry = some_entry(c, s, b, "r=2 d=4 a=linear", 100.25 + b);

        CHECK(!store_trial_begin(store, &fast) && !store_trial_begin(store, &slow));
        fast.state = slow.state = TRIAL_OK;
        fast.memory_bytes = 1 << 20;
        CHECK(!store_trial_update(store, &fast) && !store_trial_update(store, &slow));
        for (int i = 0; i < 3; i++) {
            CHECK(!store_sample_add(store, fast.id, &some_sample(SAMPLE_SEARCH, i, 100000 + i)));
            CHECK(!store_sample_add(store, slow.id, &some_sample(SAMPLE_CONTEST, i, 200000 + i)));
        }
        CHECK(!store_entry_put(store, &entry, "measured"));
    }
    CHECK(!store_commit(store));
    return store;
}

static inline char *contents(const char *path, size_t *length)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 22);

    *length = file ? fread(text, 1, 1 << 22, file) : 0;
    if (file)
        fclose(file);
    return text;
}

static inline void write_bytes(const char *path, long at, const char *bytes, size_t count)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0666);

    CHECK(fd >= 0 && pwrite(fd, bytes, count, at) == (ssize_t)count);
    close(fd);
}

/* The number that a query finds. */
static inline int count_text(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    int value = -1;

    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        value = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    return value;
}

/* ---- round trips */

static inline int count_rows(void *self, const struct entry_row *entry)
{
    (void)entry;
    ++*(int *)self;
    return OK;
}

#endif
