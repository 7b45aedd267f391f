/* The database: what is written is read, survives damage and rivals, and is published whole. */
#include "check.h"

#include "heat.h"
#include "json.h"
#include "plan.h"
#include "random.h"
#include "schema.h"
#include "sha256.h"
#include "shape.h"
#include "status.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[PATH_MAX];
static char said[1024]; /* the last failure or remark */

static void hear(void *self, const char *format, va_list args)
{
    (void)self;
    vsnprintf(said, sizeof(said), format, args);
}

static const char *place(const char *name)
{
    static char path[4][PATH_MAX + 64];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
    return path[turn];
}

static struct cluster some_cluster(const char *device)
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

static struct moe_shape some_shape(uint32_t hidden)
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

static struct moe_plan plan_of(const char *text)
{
    struct moe_plan plan = { 0 };

    CHECK(!moe_plan_parse(text, &plan));
    return plan;
}

static struct trial_row some_trial(int64_t cluster, int64_t shape, uint32_t bucket,
                                   const char *plan)
{
    return (struct trial_row){ .run = 1,
                               .key = { cluster, shape, 128, bucket, plan_of(plan) },
                               .capacity = bucket * 128 + 127 };
}

static struct entry_row some_entry(int64_t cluster, int64_t shape, uint32_t bucket,
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
                           .gain = 0.5,
                           .gain_low = 0.4,
                           .gain_high = NAN,
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
static struct store *fill(const char *path, uint32_t buckets, unsigned flags)
{
    struct cluster cluster = some_cluster("abacus");
    struct moe_shape shape = some_shape(32);
    struct store *store = NULL;
    int64_t c, s;

    CHECK(!store_open(path, flags, &store));
    CHECK(!store_cluster(store, &cluster, &c) && !store_shape(store, &shape, &s));
    for (uint32_t b = 0; b < buckets; b++) {
        struct trial_row fast = some_trial(c, s, b, "r=2 d=4 a=linear");
        struct trial_row slow = some_trial(c, s, b, "r=1 d=1 a=linear");
        struct entry_row entry = some_entry(c, s, b, "r=2 d=4 a=linear", 100.25 + b);

        CHECK(!store_trial_begin(store, &fast) && !store_trial_begin(store, &slow));
        fast.state = slow.state = TRIAL_OK;
        fast.memory_bytes = 1 << 20;
        CHECK(!store_trial_update(store, &fast) && !store_trial_update(store, &slow));
        for (int i = 0; i < 3; i++) {
            CHECK(!store_sample(store, fast.id, &some_sample(SAMPLE_SEARCH, i, 100000 + i)));
            CHECK(!store_sample(store, slow.id, &some_sample(SAMPLE_CONTEST, i, 200000 + i)));
        }
        CHECK(!store_entry(store, &entry, "measured"));
    }
    CHECK(!store_commit(store));
    return store;
}

/* Every table as text, to compare databases; NULL if that cannot be read. */
static char *dump(const char *path)
{
    static const char *const tables[] = {
        "fingerprint", "fingerprint_field", "shape", "run", "trial", "sample",
        "entry",       "history",           NULL
    };
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    sqlite3 *db = NULL;

    sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL);
    for (int i = 0; tables[i]; i++) {
        sqlite3_stmt *s = NULL;
        char sql[100];

        snprintf(sql, sizeof(sql), "SELECT * FROM %s ORDER BY 1", tables[i]);
        sqlite3_prepare_v2(db, sql, -1, &s, NULL);
        while (sqlite3_step(s) == SQLITE_ROW)
            for (int k = 0; k < sqlite3_column_count(s); k++)
                fprintf(to, "%s|", (const char *)sqlite3_column_text(s, k));
        fprintf(to, "\n");
        sqlite3_finalize(s);
    }
    sqlite3_close(db);
    fclose(to);
    return text;
}

static char *contents(const char *path, size_t *length)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 22);

    *length = file ? fread(text, 1, 1 << 22, file) : 0;
    if (file)
        fclose(file);
    return text;
}

static void write_bytes(const char *path, long at, const char *bytes, size_t count)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0666);

    CHECK(fd >= 0 && pwrite(fd, bytes, count, at) == (ssize_t)count);
    close(fd);
}

/* ---- round trips */

static int count_rows(void *self, const struct entry_row *entry)
{
    (void)entry;
    ++*(int *)self;
    return OK;
}

static int sum_samples(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    int64_t *seen = self;

    CHECK(trial->state == TRIAL_OK && sample->round < 3);
    seen[sample->kind] += sample->ns;
    return OK;
}

static int sum_all(void *self, int64_t trial, const struct sample_row *sample)
{
    int64_t *seen = self;

    CHECK(trial >= seen[2]);
    seen[2] = trial;
    seen[sample->kind] += sample->ns;
    return OK;
}

static void what_is_written_is_read(void)
{
    const char *path = place("trip.db");
    struct store *store = fill(path, 5, 0);
    struct cluster cluster;
    struct moe_shape shape = some_shape(32), got;
    struct entry_row e;
    int64_t sums[2] = { 0 }, all[3] = { 0 }, id;
    int rows = 0;

    CHECK(!store_cluster_get(store, 1, &cluster) && !strcmp(cluster.device, "abacus"));
    CHECK(!store_shape_get(store, 1, &got) && shape_equal(&shape, &got));
    cluster = some_cluster("abacus");
    CHECK(!store_cluster(store, &cluster, &id) && id == 1);
    CHECK(!store_shape(store, &shape, &id) && id == 1);
    shape = some_shape(64);
    CHECK(!store_shape(store, &shape, &id) && id == 2);
    CHECK(!store_entry_get(store, 1, 1, 128, 3, &e));
    CHECK(e.time_us == 103.25 && e.bucket == 3 && e.samples == 7 && isnan(e.gain_high));
    CHECK(e.plan.r == 2 && e.plan.d == 4 && e.runner_up.struct_size == 0);
    CHECK(store_entry_get(store, 1, 1, 128, 9, &e) == UNSUPPORTED);
    CHECK(!store_samples(store, 1, 1, 128, 2, sum_samples, sums));
    CHECK(sums[0] == 300003 && sums[1] == 600003);
    CHECK(!store_samples_all(store, sum_all, all) && all[0] == 300003 * 5 && all[1] == 600003 * 5);
    CHECK(!store_entries(store, 0, 0, count_rows, &rows) && rows == 5);
    store_close(store);
    CHECK(!store_read(path, &store));
    rows = 0;
    CHECK(!store_entries(store, 1, 1, count_rows, &rows) && rows == 5);
    store_close(store);
}

static int take_attempts(void *self, const struct trial_row *trial)
{
    *(struct trial_row *)self = *trial;
    return OK;
}

static const char *field_value(struct store *store, int64_t id, const char *name)
{
    static char value[1100];
    struct cluster c;

    CHECK(!store_cluster_get(store, id, &c));
    for (size_t i = 0; i < cluster_field_count; i++)
        if (!strcmp(cluster_fields[i].name, name))
            cluster_value(&c, &cluster_fields[i], value, sizeof(value));
    return value;
}

static void what_is_measured_of_a_cluster_makes_no_other_one(void)
{
    struct store *store = fill(place("model.db"), 2, STORE_RELAXED);
    struct cluster c = some_cluster("abacus"), other = some_cluster("quipu");
    int64_t first, id = 0;

    CHECK(!store_cluster_find(store, &c, &first));
    c.gemm_gflops = 55.5;
    snprintf(c.versions, sizeof(c.versions), "another");
    CHECK(!store_cluster_model(store, &c, &id) && id == first);
    CHECK(!strcmp(field_value(store, id, "gemm_gflops"), "55.5"));
    CHECK(!strcmp(field_value(store, id, "launch_us"), "unknown"));
    CHECK(!strcmp(field_value(store, id, "versions"), "unknown")); /* tune has to see the change */
    c.gemm_gflops = NAN;
    c.launch_us = 3;
    CHECK(!store_cluster_model(store, &c, &id) && id == first);
    CHECK(!strcmp(field_value(store, id, "gemm_gflops"), "unknown"));
    CHECK(!strcmp(field_value(store, id, "launch_us"), "3"));

    CHECK(store_cluster_find(store, &other, &id) == UNSUPPORTED);
    other.memory_gbs = 7;
    snprintf(other.versions, sizeof(other.versions), "its own");
    CHECK(!store_cluster_model(store, &other, &id) && id != first);
    CHECK(!strcmp(field_value(store, id, "memory_gbs"), "7"));
    CHECK(!strcmp(field_value(store, id, "versions"), "its own"));
    snprintf(other.backend, sizeof(other.backend), "sim");
    CHECK(store_cluster_model(store, &other, &id) == ERR_ARGUMENT);
    store_close(store);
}

static void a_trial_that_was_cut_off_counts_its_attempts(void)
{
    const char *path = place("attempts.db");
    struct store *store = fill(path, 0, 0);
    struct trial_row trial = some_trial(1, 1, 7, "r=1 d=2 a=linear"), got = { 0 };

    CHECK(!store_trial_begin(store, &trial));
    store_close(store);
    CHECK(!store_open(path, 0, &store));
    CHECK(!store_trials(store, 1, 1, 128, 7, take_attempts, &got));
    CHECK(got.state == TRIAL_RUNNING && got.attempts == 1 && got.id == trial.id);
    CHECK(!store_trial_begin(store, &got) && got.id == trial.id && got.attempts == 2);
    store_close(store);
}

static int count_text(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    int value = -1;

    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        value = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    return value;
}

static void an_entry_that_is_replaced_goes_to_history(void)
{
    const char *path = place("history.db");
    struct store *store = fill(path, 2, 0);
    struct entry_row e = some_entry(1, 1, 1, "r=0 d=1 a=linear", 50), got;
    sqlite3 *db;

    CHECK(!store_entry(store, &e, "measured again"));
    CHECK(!store_entry_get(store, 1, 1, 128, 1, &got) && got.plan.r == 0);
    store_close(store);
    sqlite3_open(path, &db);
    CHECK(count_text(db, "SELECT count(*) FROM entry") == 2);
    CHECK(count_text(db, "SELECT count(*) FROM history WHERE plan='r=2 d=4 a=linear' AND "
                         "why='measured again'") == 1);
    CHECK(count_text(db, "SELECT count(*) FROM dictionary WHERE plan='r=0 d=1 a=linear' AND "
                         "bucket=1 AND c_from=128 AND c_to=255 AND simulated='no'") == 1);
    sqlite3_close(db);
}

static void a_bucket_that_expires_leaves_the_others(void)
{
    const char *path = place("forget.db");
    struct store *store = fill(path, 3, 0);
    int64_t sums[2] = { 0 };
    struct entry_row e;

    CHECK(!store_expire(store, 1, 0, 128, 1, 1, "asked"));
    CHECK(!store_entry_get(store, 1, 1, 128, 1, &e) && e.stale);
    CHECK(!store_entry_get(store, 1, 1, 128, 2, &e) && !e.stale);
    CHECK(!store_samples(store, 1, 1, 128, 1, sum_samples, sums) && !sums[0]);
    CHECK(!store_samples(store, 1, 1, 128, 2, sum_samples, sums) && sums[0] == 300003);
    store_close(store);
}

static int count_trial(void *self, const struct trial_row *trial)
{
    (void)trial;
    ++*(int *)self;
    return OK;
}

static void an_entry_that_ends_and_one_that_expires_are_two_things(void)
{
    struct store *store = fill(place("ends.db"), 3, 0);
    struct entry_row e;
    int trials = 0;

    CHECK(!store_entry_get(store, 1, 1, 128, 1, &e) && !store_entry_end(store, &e, "asked"));
    CHECK(!store_expire(store, 1, 0, 128, 2, 2, "asked"));
    CHECK(store_entry_get(store, 1, 1, 128, 1, &e) == UNSUPPORTED);
    CHECK(!store_entry_get(store, 1, 1, 128, 2, &e) && e.stale);
    CHECK(!store_trials(store, 1, 1, 128, 1, count_trial, &trials) && trials > 0);
    trials = 0;
    CHECK(!store_trials(store, 1, 1, 128, 2, count_trial, &trials) && !trials);
    store_close(store);
}

static int count_kinds(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    int *count = self;

    (void)trial;
    count[sample->kind]++;
    return OK;
}

static void forgotten_samples_stay_forgotten_in_the_journal_too(void)
{
    const char *path = place("kinds.db");
    int before[3] = { 0 }, after[3] = { 0 }, rebuilt[3] = { 0 }, other[3] = { 0 };
    struct store *store = fill(path, 2, 0);
    struct sample_row verified = { SAMPLE_VERIFY, 0, 1000, { 1755, SAMPLE_DISTURBED }, 77, 12 };
    sqlite3 *db;

    CHECK(!store_sample(store, 1, &verified));
    CHECK(!store_samples(store, 1, 1, 128, 0, count_kinds, before));
    CHECK(before[SAMPLE_SEARCH] + before[SAMPLE_CONTEST] && before[SAMPLE_VERIFY] == 1);
    CHECK(!store_forget(store, 1, 1, 128, 0, SAMPLE_SEARCH, SAMPLE_CONTEST));
    CHECK(!store_samples(store, 1, 1, 128, 0, count_kinds, after));
    CHECK(!after[SAMPLE_SEARCH] && !after[SAMPLE_CONTEST] && after[SAMPLE_VERIFY] == 1);
    CHECK(!store_samples(store, 1, 1, 128, 1, count_kinds, other) && other[SAMPLE_SEARCH]);
    store_close(store);
    CHECK(!truncate(path, 5000));
    CHECK(!store_open(path, STORE_REPAIR, &store));
    CHECK(!store_samples(store, 1, 1, 128, 0, count_kinds, rebuilt));
    CHECK(!memcmp(rebuilt, after, sizeof(after)));
    store_close(store);
    sqlite3_open(path, &db); /* what the machine was like comes back with the sample */
    CHECK(count_text(db, "SELECT count(*) FROM sample WHERE clock_mhz=1755 AND throttled=1 AND"
                         " lost_ns=77 AND run=12") == 1);
    CHECK(count_text(db, "SELECT count(*) FROM sample WHERE clock_mhz=0 AND throttled=0 AND"
                         " lost_ns=0 AND run=0") > 1);
    sqlite3_close(db);
}

static int keep_last(void *self, int64_t trial, const struct sample_row *sample)
{
    (void)trial;
    *(struct sample_row *)self = *sample;
    return OK;
}

static void a_sample_says_which_run_took_it_and_what_it_lost(void)
{
    struct store *store = fill(place("whose.db"), 1, 0);
    struct sample_row put = { SAMPLE_VERIFY, 5, 1000, { 1755, SAMPLE_SET_ASIDE }, 250, 12 };
    struct sample_row got = { .run = -1 };

    CHECK(!store_samples_all(store, keep_last, &got) && got.run == 0 && got.lost_ns == 0);
    CHECK(!store_sample(store, 2, &put));
    CHECK(!store_samples_all(store, keep_last, &got));
    CHECK(got.kind == put.kind && got.round == 5 && got.ns == 1000 && got.run == 12);
    CHECK(got.gpu.clock_mhz == 1755 && got.gpu.throttled == SAMPLE_SET_ASIDE);
    CHECK(got.lost_ns == 250);
    store_close(store);
}

/* And nothing else, whatever the order in which versions added them. */
static void has_the_fields_as_columns(sqlite3 *db, const struct row_table *table)
{
    char sql[160];

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM pragma_table_info('%s')", table->name);
    CHECK(count_text(db, sql) == (int)table->count);
    for (size_t i = 0; i < table->count; i++) {
        snprintf(sql, sizeof(sql), "SELECT count(*) FROM pragma_table_info('%s') WHERE name='%s'",
                 table->name, table->fields[i].name);
        CHECK(count_text(db, sql) == 1);
    }
}

static bool is_in(const char *view, const struct row_table *table, const struct row_field *wanted)
{
    const struct row_field *f;
    char name[ROW_NAME_BYTES];

    while ((f = row_next(table, &view, name)))
        if (f == wanted)
            return true;
    return false;
}

static void what_a_row_is_made_of_is_stored_and_what_is_exported_is_shown(void)
{
    struct store *store = NULL;
    sqlite3 *db;

    CHECK(!store_open(place("fields.db"), STORE_RELAXED, &store));
    store_close(store);
    CHECK(!sqlite3_open(place("fields.db"), &db));
    has_the_fields_as_columns(db, &entry_table);
    has_the_fields_as_columns(db, &standing_table);
    has_the_fields_as_columns(db, &sample_table);
    sqlite3_close(db);
    for (size_t i = 0; i < entry_table.count; i++) {
        const struct row_field *f = &entry_table.fields[i];

        if (f->since && strcmp(f->name, "window") != 0 && strcmp(f->name, "bucket") != 0)
            CHECK(is_in(entry_in_show, &entry_table, f));
    }
}

/* What version 5 wrote: 3 plans, 10 samples, one of them set aside. */
static void is_what_version_5_wrote(struct store *store, const char *path)
{
    sqlite3 *db;

    CHECK(!store_commit(store));
    CHECK(!sqlite3_open(path, &db));
    CHECK(count_text(db, "PRAGMA user_version") == STORE_VERSION);
    CHECK(count_text(db, "SELECT count(*) FROM trial") == 3);
    CHECK(count_text(db, "SELECT count(*) FROM sample WHERE lost_ns=0 AND run=0") == 10);
    CHECK(count_text(db, "SELECT count(*) FROM sample WHERE throttled=2") == 1);
    CHECK(count_text(db, "SELECT count(*) FROM dictionary") == 1);
    sqlite3_close(db);
}

static void a_database_of_version_5_is_read_and_migrated(void)
{
    const char *path = place("five.db");
    size_t length;
    char *sql = contents("tests/data/corpus/database/version-5.sql", &length);
    struct sample_row got = { .run = -1 };
    struct store *store = NULL;
    sqlite3 *db;

    CHECK(length > 0 && !sqlite3_open(path, &db));
    CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
    CHECK(count_text(db, "PRAGMA user_version") == 5);
    sqlite3_close(db);
    free(sql);
    CHECK(!store_read(path, &store));
    CHECK(!store_samples_all(store, keep_last, &got) && got.run == 0 && got.ns > 0);
    store_close(store);
    CHECK(!store_open(path, 0, &store));
    is_what_version_5_wrote(store, path);
    CHECK(!store_sample(store, 1, &some_sample(SAMPLE_SEARCH, 0, 1)));
    store_close(store);
}

static void a_journal_of_version_5_is_replayed(void)
{
    char path[300], journal[320];
    struct store *store = NULL;
    size_t length;
    char *text = contents("tests/data/corpus/database/version-5.journal", &length);

    snprintf(path, sizeof(path), "%s", place("torn-five.db"));
    snprintf(journal, sizeof(journal), "%s.journal", path);
    CHECK(length > 0);
    write_bytes(path, 0, "no database", 11);
    write_bytes(journal, 0, text, length);
    free(text);
    CHECK(!store_open(path, STORE_REPAIR, &store));
    is_what_version_5_wrote(store, path);
    CHECK(strstr(said, "; 0 could not be used") != NULL);
    store_close(store);
}

static struct standing_row some_standing(double gain)
{
    struct standing_row row = { .cluster = 1,
                                .shape = 1,
                                .run = 1,
                                .window = 128,
                                .gain = gain,
                                .gain_low = gain - 0.01,
                                .gain_high = gain + 0.01,
                                .static_gain = NAN,
                                .static_gain_low = NAN,
                                .static_gain_high = NAN,
                                .static_plan = plan_of("r=0 d=1 a=linear"),
                                .rounds = 8,
                                .first_round = 24,
                                .rivals = "r=0 d=1 a=linear;r=2 d=4 a=2dh",
                                .decided_s = 1700000000 };

    return row;
}

static bool is_that_standing(struct store *store, const struct standing_row *row)
{
    struct standing_row got;

    return store_standing_get(store, 1, 1, 128, &got) == OK && got.gain == row->gain &&
           got.gain_low == row->gain_low && got.gain_high == row->gain_high &&
           isnan(got.static_gain) && plan_equal(&got.static_plan, &row->static_plan) &&
           got.rounds == row->rounds && got.first_round == row->first_round &&
           !strcmp(got.rivals, row->rivals) && got.decided_s == row->decided_s;
}

static void a_standing_is_replaced_published_and_rebuilt(void)
{
    const char *path = place("standing.db");
    struct store *store = fill(path, 2, 0);
    struct standing_row first = some_standing(0.125), second = some_standing(0.25);

    CHECK(store_standing_get(store, 1, 1, 128, &first) == UNSUPPORTED && first.gain == 0.125);
    CHECK(!store_standing(store, &first) && is_that_standing(store, &first));
    CHECK(!store_standing(store, &second) && is_that_standing(store, &second));
    CHECK(store_standing_get(store, 1, 1, 64, &first) == UNSUPPORTED);
    CHECK(!store_publish(store));
    store_close(store);
    CHECK(!store_read(place("standing.db.published"), &store) && is_that_standing(store, &second));
    store_close(store);
    CHECK(!truncate(path, 5000));
    CHECK(!store_open(path, STORE_REPAIR, &store) && is_that_standing(store, &second));
    store_close(store);
}

/* ---- heat */

static bool heat_says(const struct heat *heat, const char *text)
{
    char said_of_it[HEAT_TEXT_BYTES];

    heat_text(heat, said_of_it);
    return !strcmp(said_of_it, text);
}

static void heat_is_counted_and_said_as_far_as_it_is_known(void)
{
    static const struct sample_row samples[] = {
        { .ns = 100 },
        { .ns = 100, .gpu = { 1755, SAMPLE_FREE } },
        { .ns = 100, .gpu = { 1410, SAMPLE_DISTURBED } },
        { .ns = 100, .gpu = { 1500, SAMPLE_SET_ASIDE } },
    };
    struct heat heat = { 0 }, both = { 0 }, cool = { .steps = 200 };

    CHECK(heat_says(&heat, "") && !heat_is_worrying(&heat));
    for (int i = 0; i < 4; i++) {
        heat_add(&heat, &samples[i]);
        if (i == 0)
            CHECK(heat_says(&heat, ""));
        if (i == 1)
            CHECK(heat_says(&heat, "SM clock 1755 to 1755 MHz") && !heat_is_worrying(&heat));
    }
    CHECK(heat_says(&heat, "2 of 4 steps throttled, 1 of them taken again; SM clock 1410 to 1755 "
                           "MHz"));
    CHECK(heat_is_worrying(&heat));
    heat_join(&both, &heat);
    heat_join(&both, &cool);
    CHECK(both.steps == 204 && both.throttled.steps == 2 && both.clock_low_mhz == 1410);
    CHECK(!heat_is_worrying(&both)); /* one in a hundred */
    CHECK(heat_counted(&both) == 1);
}

static bool others_say(const struct heat *heat, const char *text)
{
    char said_of_it[HEAT_TEXT_BYTES];

    heat_others_text(heat, said_of_it);
    return !strcmp(said_of_it, text);
}

static void a_twentieth_of_a_step_is_not_much_and_more_is(void)
{
    struct sample_row lost = { .ns = 1000, .lost_ns = 51 };

    CHECK(!heat_lost_much(1000, 0) && !heat_lost_much(1000, 50) && heat_lost_much(1000, 51));
    CHECK(!heat_lost_much(0, 0));
    CHECK(heat_cause(&lost) == CAUSE_NONE); /* nobody has judged it */
    lost.gpu.throttled = SAMPLE_SET_ASIDE;
    CHECK(heat_cause(&lost) == CAUSE_OTHERS);
    lost.lost_ns = 50;
    CHECK(heat_cause(&lost) == CAUSE_HEAT);
}

static void other_processes_are_told_apart_from_heat(void)
{
    struct sample_row free_step = { .ns = 100, .lost_ns = 5 };
    struct sample_row aside = { .ns = 100, .gpu = { 0, SAMPLE_SET_ASIDE }, .lost_ns = 50 };
    struct sample_row counts = { .ns = 100, .gpu = { 0, SAMPLE_DISTURBED }, .lost_ns = 50 };
    struct heat heat = { 0 };

    heat_add(&heat, &free_step);
    CHECK(others_say(&heat, "") && heat_says(&heat, ""));
    heat_add(&heat, &aside);
    CHECK(others_say(&heat, "1 of 2 steps set aside because other processes ran, and taken again"));
    heat_add(&heat, &counts);
    CHECK(others_say(&heat, "1 of 3 steps set aside because other processes ran; 1 more counts all "
                            "the same"));
    CHECK(heat_says(&heat, "") && !heat_is_worrying(&heat) && heat_counted(&heat) == 1);
    heat = (struct heat){ 0 };
    heat_add(&heat, &aside);
    heat_add(&heat, &counts);
    CHECK(others_say(&heat, "every step was disturbed by other processes: 1 were taken again, 1 "
                            "counts, for this is how the machine runs"));
}

/* ---- rivals and damage */

static void a_second_writer_is_refused_with_the_owners_name(void)
{
    const char *path = place("owned.db");
    struct store *store = fill(path, 1, 0), *second = NULL;
    char pid[32];

    snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
    CHECK(store_open(path, 0, &second) == ERR_BUSY && !second);
    CHECK(strstr(said, pid) != NULL);
    CHECK(!store_read(path, &second)); /* readers are welcome */
    store_close(second);
    store_close(store);
    CHECK(!store_open(path, 0, &store));
    store_close(store);
}

static void a_killed_owner_leaves_no_lock(void)
{
    const char *path = place("orphan.db");
    int ready[2];
    pid_t child;
    char byte;
    struct store *store = NULL;

    CHECK(!pipe(ready));
    child = fork();
    if (child == 0) {
        fill(path, 2, 0);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    CHECK(store_open(path, 0, &store) == ERR_BUSY);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK(!store_open(path, 0, &store));
    store_close(store);
    close(ready[0]);
    close(ready[1]);
}

static void an_owner_on_another_host_is_believed_while_it_is_alive(void)
{
    const char *path = place("afar.db"), *owner = place("afar.db.owner");
    static const char text[] = "host far-away process 1 since long ago\n";
    struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
    struct store *store = NULL;

    write_bytes(owner, 0, text, sizeof(text) - 1);
    CHECK(store_open(path, 0, &store) == ERR_BUSY && strstr(said, "far-away"));
    CHECK(!store_open(path, STORE_STEAL, &store));
    store_close(store);
    write_bytes(owner, 0, text, sizeof(text) - 1);
    CHECK(!utimensat(AT_FDCWD, owner, old, 0));
    CHECK(!store_open(path, 0, &store));
    store_close(store);
}

static void refused_untouched(const char *path, int status)
{
    size_t before_length, after_length;
    char *before = contents(path, &before_length), *after;
    struct store *store = NULL;

    CHECK(store_open(path, 0, &store) == status && !store);
    after = contents(path, &after_length);
    CHECK(before_length == after_length && !memcmp(before, after, before_length));
    free(before);
    free(after);
}

static void what_is_not_ours_is_refused_and_left_alone(void)
{
    sqlite3 *db;
    char noise[4096];

    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (char)(i * 37 + 11);
    write_bytes(place("noise.db"), 0, noise, sizeof(noise));
    refused_untouched(place("noise.db"), ERR_CORRUPT);
    CHECK(strstr(said, "no database of moetune") && !strstr(said, "--repair"));

    sqlite3_open(place("foreign.db"), &db);
    sqlite3_exec(db, "CREATE TABLE t(x)", NULL, NULL, NULL);
    sqlite3_close(db);
    refused_untouched(place("foreign.db"), ERR_CORRUPT);
    CHECK(strstr(said, "some other program") != NULL);

    store_close(fill(place("newer.db"), 1, 0));
    sqlite3_open(place("newer.db"), &db);
    sqlite3_exec(db, "PRAGMA user_version=99", NULL, NULL, NULL);
    sqlite3_close(db);
    refused_untouched(place("newer.db"), ERR_CORRUPT);
    CHECK(strstr(said, "newer moetune") != NULL);

    store_close(fill(place("cut.db"), 50, 0));
    CHECK(!truncate(place("cut.db"), 3 * 4096 + 100));
    refused_untouched(place("cut.db"), ERR_CORRUPT);
    CHECK(strstr(said, "rebuilds it from") && strstr(said, "cut.db.journal"));
    CHECK(!unlink(place("cut.db.journal")));
    refused_untouched(place("cut.db"), ERR_CORRUPT);
    CHECK(strstr(said, "rebuilds it from what is left of it"));
}

static void a_locked_database_is_busy(void)
{
    const char *path = place("locked.db");
    struct store *store = NULL;
    sqlite3 *db;

    store_close(fill(path, 1, 0));
    sqlite3_open(path, &db);
    CHECK(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL) == SQLITE_OK);
    CHECK(store_open(path, 0, &store) == ERR_BUSY);
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(db);
    CHECK(!store_open(path, 0, &store));
    store_close(store);
}

static void a_damaged_database_is_rebuilt_from_its_journal(void)
{
    const char *path = place("broken.db");
    struct store *store = fill(path, 20, 0);
    char *before, *after;
    static const char torn[] = "{\"table\":\"sample\",\"id\":99999,\"tri";

    CHECK(!store_expire(store, 1, 1, 128, 4, 4, "asked"));
    store_close(store);
    before = dump(path);
    CHECK(!truncate(path, 9000));
    CHECK(store_open(path, 0, &store) == ERR_CORRUPT && strstr(said, "--repair"));
    {
        FILE *journal = fopen(place("broken.db.journal"), "a");

        CHECK(fwrite(torn, 1, sizeof(torn) - 1, journal) == sizeof(torn) - 1);
        fclose(journal);
    }
    CHECK(!store_open(path, STORE_REPAIR, &store));
    store_close(store);
    after = dump(path);
    CHECK(!strcmp(before, after));
    CHECK(!access(place("broken.db.damaged-1"), F_OK));
    free(before);
    free(after);
}

/* Writes over what stands in the file instead of `text`, everywhere. */
static int replace_text(const char *path, const char *text, const char *with)
{
    char bytes[1 << 18];
    FILE *file = fopen(path, "r+");
    size_t size = file ? fread(bytes, 1, sizeof(bytes), file) : 0;
    int count = 0;

    CHECK(size > 0 && size < sizeof(bytes) && strlen(text) == strlen(with));
    for (char *at = bytes; (at = memmem(at, size - (size_t)(at - bytes), text, strlen(text)));
         count++)
        memcpy(at, with, strlen(with));
    rewind(file);
    CHECK(fwrite(bytes, 1, size, file) == size);
    fclose(file);
    return count;
}

static bool is_repaired_as(const char *path, const char *before)
{
    struct store *store = NULL;
    char *after;
    bool same;

    CHECK(!store_open(path, STORE_REPAIR, &store));
    CHECK(store && !store_publish(store));
    store_close(store);
    after = dump(path);
    same = !strcmp(before, after);
    if (!same)
        printf("    %s: %s\n", path, said);
    free(after);
    return same;
}

/* Damage that SQLite's quick check does not see: a cluster's text, an index, a table's name. */
static void what_makes_no_sense_is_damage_too(void)
{
    const char *path = place("sense.db");
    struct store *store = fill(path, 20, 0);
    char *before;

    CHECK(!store_publish(store));
    store_close(store);
    before = dump(path);
    CHECK(replace_text(path, "bandwidth_between_gbs", "bandw?dth_between_gbs"));
    CHECK(is_repaired_as(path, before) && !access(place("sense.db.damaged-1"), F_OK));
    CHECK(replace_text(path, "TABLE history", "TABLE hist?ry"));
    CHECK(is_repaired_as(path, before) && !access(place("sense.db.damaged-2"), F_OK));
    CHECK(replace_text(path, "semantics =", "semant?cs =") +
              replace_text(path, "r=2 d=4", "r=2?d=4") >
          1);
    CHECK(is_repaired_as(path, before) && !access(place("sense.db.damaged-3"), F_OK));
    /* Sound: it stays the file it is. */
    CHECK(is_repaired_as(path, before) && access(place("sense.db.damaged-4"), F_OK));
    free(before);
}

static void what_is_lost_is_rebuilt_from_what_is_sound(void)
{
    const char *path = place("lost.db"), *journal = place("lost.db.journal");
    struct store *store = fill(path, 20, 0);
    int rows = 0;
    char *before;

    CHECK(!store_publish(store));
    store_close(store);
    before = dump(path);
    CHECK(!truncate(path, 0)); /* an empty file, then none, beside a journal */
    CHECK(is_repaired_as(path, before));
    CHECK(!unlink(path));
    CHECK(is_repaired_as(path, before));
    CHECK(!unlink(journal)); /* written anew, and good for the next time */
    CHECK(is_repaired_as(path, before) && !unlink(path));
    CHECK(is_repaired_as(path, before));
    /* The journal's cluster makes no sense: the snapshot has it. */
    CHECK(replace_text(journal, "semantics =", "semant?cs =") && !unlink(path));
    CHECK(is_repaired_as(path, before));
    /* Only the snapshot is left. */
    CHECK(!unlink(journal) && !unlink(path));
    CHECK(!store_open(path, STORE_REPAIR, &store));
    CHECK(!store_entries(store, 0, 0, count_rows, &rows) && rows == 20);
    store_close(store);
    free(before);
}

static void a_foreign_database_is_not_repaired(void)
{
    const char *path = place("foreign-too.db");
    struct store *store = NULL;
    sqlite3 *db;

    sqlite3_open(path, &db);
    CHECK(sqlite3_exec(db, "CREATE TABLE t(x)", NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
    CHECK(store_open(path, STORE_REPAIR, &store) == ERR_CORRUPT && strstr(said, "other program"));
    CHECK(access(place("foreign-too.db.damaged-1"), F_OK));
}

static void a_full_disk_is_an_error_and_no_damage(void)
{
    const char *path = place("full.db");
    struct store *store = NULL;
    struct rlimit limit;
    pid_t child;
    int status;

    store_close(fill(path, 3, 0));
    child = fork();
    if (child == 0) {
        struct trial_row trial = some_trial(1, 1, 9, "r=1 d=1 a=linear");
        int rc;

        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &limit);
        limit.rlim_cur = 150000;
        rc = store_open(path, 0, &store);
        setrlimit(RLIMIT_FSIZE, &limit);
        if (!rc)
            rc = store_trial_begin(store, &trial);
        for (int i = 0; i < 100000 && !rc; i++) {
            rc = store_sample(store, trial.id, &some_sample(SAMPLE_SEARCH, 0, i));
            if (!rc && i % 100 == 0)
                rc = store_commit(store);
        }
        _exit(rc == ERR_IO ? 0 : 1);
    }
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(!store_open(path, 0, &store));
    CHECK(!store_publish(store));
    store_close(store);
}

/* ---- publishing */

static void readers_always_see_a_whole_snapshot(void)
{
    enum { READERS = 6, TURNS = 60 };
    const char *path = place("public.db");
    struct store *store = fill(path, 10, STORE_RELAXED);
    pid_t readers[READERS];
    int status, stop[2];

    CHECK(!store_publish(store) && !pipe(stop));
    for (int i = 0; i < READERS; i++) {
        readers[i] = fork();
        if (readers[i] == 0) {
            char byte;
            int bad = 0;

            fcntl(stop[0], F_SETFL, O_NONBLOCK);
            close(stop[1]);
            while (read(stop[0], &byte, 1) < 0) {
                struct store *reader = NULL;
                int rows = 0;

                bad += store_read(place("public.db.published"), &reader) != OK;
                bad += reader && (store_entries(reader, 0, 0, count_rows, &rows) || rows % 10);
                store_close(reader);
            }
            _exit(bad ? 1 : 0);
        }
    }
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        for (uint32_t b = 0; b < 10; b++) {
            struct entry_row e =
                some_entry(1, 1, 10 * turn + b + 100, "r=1 d=2 a=linear", 10 + turn);

            CHECK(!store_entry(store, &e, "measured"));
        }
        CHECK(!store_publish(store));
    }
    close(stop[1]);
    close(stop[0]);
    for (int i = 0; i < READERS; i++) {
        waitpid(readers[i], &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    store_close(store);
}

static void a_snapshot_holds_the_dictionary_and_no_samples(void)
{
    const char *path = place("snap.db");
    struct store *store = fill(path, 4, 0), *reader;
    sqlite3 *db;
    int rows = 0;

    write_bytes(place("snap.db.published.999999999-0123456789abcdef.tmp"), 0, "left", 4);
    CHECK(!store_publish(store));
    store_close(store);
    CHECK(access(place("snap.db.published.999999999-0123456789abcdef.tmp"), F_OK) != 0);
    CHECK(!unlink(path));
    CHECK(!store_read(path, &reader)); /* the snapshot answers for it */
    CHECK(!store_entries(reader, 0, 0, count_rows, &rows) && rows == 4);
    store_close(reader);
    sqlite3_open(place("snap.db.published"), &db);
    CHECK(count_text(db, "SELECT count(*) FROM sample") == 0);
    CHECK(count_text(db, "SELECT count(*) FROM dictionary") == 4);
    sqlite3_close(db);
}

static void versions_follow_each_other_in_one_transaction(void)
{
    static const char *const good[] = { "CREATE TABLE a(x)", "ALTER TABLE a ADD COLUMN y", NULL };
    static const char *const bad[] = { "", "", "CREATE TABLE b(x); nonsense", NULL };
    sqlite3 *db;

    sqlite3_open(place("steps.db"), &db);
    CHECK(!schema_migrate(db, "steps", 0, 1, good));
    CHECK(!schema_migrate(db, "steps", 1, 2, good));
    CHECK(count_text(db, "SELECT count(*) FROM pragma_table_info('a')") == 2);
    CHECK(count_text(db, "PRAGMA user_version") == 2);
    CHECK(schema_migrate(db, "steps", 2, 3, bad) != OK);
    CHECK(count_text(db, "PRAGMA user_version") == 2);
    CHECK(count_text(db, "SELECT count(*) FROM sqlite_schema WHERE name='b'") == 0);
    sqlite3_close(db);
}

static void paths_come_from_option_variable_and_home(void)
{
    char path[PATH_MAX];

    setenv("MOETUNE_DB", "/x/y.db", 1);
    CHECK(!store_path("given.db", false, path, sizeof(path)) && !strcmp(path, "given.db"));
    CHECK(!store_path(NULL, false, path, sizeof(path)) && !strcmp(path, "/x/y.db"));
    unsetenv("MOETUNE_DB");
    setenv("XDG_DATA_HOME", folder, 1);
    CHECK(!store_path(NULL, true, path, sizeof(path)) && strstr(path, "/moetune/moetune.db"));
    CHECK(!access(place("moetune"), F_OK));
    unsetenv("XDG_DATA_HOME");
    setenv("HOME", "/home/u", 1);
    CHECK(!store_path(NULL, false, path, sizeof(path)) &&
          !strcmp(path, "/home/u/.local/share/moetune/moetune.db"));
    unsetenv("HOME");
    CHECK(store_path(NULL, false, path, sizeof(path)) == ERR_ARGUMENT && strstr(said, "--db"));
}

/* ---- SHA-256 and JSON */

static void sha256_gives_the_standards_answers(void)
{
    static const struct {
        const char *text, *hex;
        int times;
    } cases[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 1 },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", 1 },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1", 1 },
        { "a", "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", 1000000 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sha256 sha;
        uint8_t hash[SHA256_BYTES];
        char hex[SHA256_HEX_BYTES];

        sha256_init(&sha);
        for (int k = 0; k < cases[i].times; k++)
            sha256_add(&sha, cases[i].text, strlen(cases[i].text));
        sha256_end(&sha, hash);
        sha256_hex(hash, hex);
        CHECK(!strcmp(hex, cases[i].hex));
    }
}

/* The data whole, or cut in two at `cut`. */
static void hash_bytes(const uint8_t *data, size_t bytes, size_t cut, bool plain,
                       uint8_t hash[SHA256_BYTES])
{
    struct sha256 sha;

    sha256_init(&sha);
    sha.plain = sha.plain || plain;
    sha256_add(&sha, data, cut);
    sha256_add(&sha, data + cut, bytes - cut);
    sha256_end(&sha, hash);
}

static void sha256_is_the_same_with_and_without_instructions_and_wherever_it_is_cut(void)
{
    uint8_t data[300], plain[SHA256_BYTES], fast[SHA256_BYTES];

    if (!sha256_has_fast())
        printf("  skipped: the processor's own SHA-256 (it has none)\n");
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * i * 7 + i);
    for (size_t bytes = 0; bytes <= sizeof(data); bytes++) {
        hash_bytes(data, bytes, 0, true, plain);
        for (size_t cut = 0; cut <= bytes; cut += 13) {
            hash_bytes(data, bytes, cut, false, fast);
            CHECK(!memcmp(plain, fast, sizeof(fast)));
        }
    }
}

static int count_value(void *self, const struct json_value *value)
{
    (void)value;
    ++*(int *)self;
    return OK;
}

static void json_is_read_strictly(void)
{
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {
        { "{}", true },
        { " [1, -2.5e3, \"a\\u00e9\\n\", null, true] ", true },
        { "{\"a\":{\"b\":[]}}", true },
        { "\"\\ud83d\\ude00\"", true },
        { "", false },
        { "{", false },
        { "{\"a\":1,}", false },
        { "[1 2]", false },
        { "01", false },
        { "1.", false },
        { "nul", false },
        { "\"\\x\"", false },
        { "\"\\ud800\"", false },
        { "{} {}", false },
        { "{a:1}", false },
        { "+1", false },
        { "\"a\nb\"", false },
        { "NaN", false },
    };
    char deep[200];
    int seen = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool valid =
            json_read(cases[i].text, strlen(cases[i].text), "case", count_value, &seen) == OK;

        if (valid != cases[i].valid)
            printf("    %s\n", cases[i].text);
        CHECK(valid == cases[i].valid);
    }
    memset(deep, '[', sizeof(deep));
    CHECK(json_read(deep, sizeof(deep), "deep", count_value, &seen) == ERR_FORMAT);
}

static int take_number(void *self, const struct json_value *v)
{
    *(double *)self = json_number(v);
    return OK;
}

static void reads_back(double value)
{
    char text[64] = "";
    double again = 0, by_libc;
    FILE *memory = fmemopen(text, sizeof(text), "w");

    json_print(value, memory);
    fclose(memory);
    CHECK(!json_read(text, strlen(text), "number", take_number, &again));
    by_libc = strtod(text, NULL);
    CHECK(!memcmp(&value, &again, sizeof(value)) && !memcmp(&value, &by_libc, sizeof(value)));
}

static void numbers_read_back_as_they_were(void)
{
    static const double odd[] = { 0,
                                  -0.0,
                                  1e-4,
                                  9.9e-5,
                                  1. / 3,
                                  1e9,
                                  999999999.999999,
                                  1e15,
                                  0.1,
                                  -0.5,
                                  5e-324,
                                  1.7976931348623e308,
                                  1e-7,
                                  123456.7890625 };

    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        reads_back(odd[i]);
    for (uint64_t i = 0; i < 20000; i++) {
        double n = (double)random_below(7, i, UINT32_MAX);

        reads_back(n / 1000);
        reads_back(-n / 1e6);
        reads_back(n / 7);
    }
}

static void no_bytes_make_the_json_reader_fall(void)
{
    static const char good[] = "{\"a\":[1,2.5e-3,\"x\\u00e9\\\"\"],\"b\":{\"c\":null,\"d\":true}}";
    char bytes[sizeof(good)];
    int seen = 0;

    for (size_t i = 0; i < sizeof(good) - 1; i++) {
        CHECK(json_read(good, i, "cut", count_value, &seen) != OK);
        for (int flip = 1; flip < 256; flip++) {
            memcpy(bytes, good, sizeof(good));
            bytes[i] = (char)(bytes[i] ^ flip);
            json_read(bytes, sizeof(good) - 1, "flip", count_value, &seen);
        }
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(what_is_written_is_read),
        TEST(what_is_measured_of_a_cluster_makes_no_other_one),
        TEST(a_trial_that_was_cut_off_counts_its_attempts),
        TEST(an_entry_that_is_replaced_goes_to_history),
        TEST(a_bucket_that_expires_leaves_the_others),
        TEST(an_entry_that_ends_and_one_that_expires_are_two_things),
        TEST(forgotten_samples_stay_forgotten_in_the_journal_too),
        TEST(a_standing_is_replaced_published_and_rebuilt),
        TEST(a_second_writer_is_refused_with_the_owners_name),
        TEST(a_killed_owner_leaves_no_lock),
        TEST(an_owner_on_another_host_is_believed_while_it_is_alive),
        TEST(what_is_not_ours_is_refused_and_left_alone),
        TEST(a_locked_database_is_busy),
        TEST(a_damaged_database_is_rebuilt_from_its_journal),
        TEST(what_makes_no_sense_is_damage_too),
        TEST(what_is_lost_is_rebuilt_from_what_is_sound),
        TEST(a_foreign_database_is_not_repaired),
        TEST(a_full_disk_is_an_error_and_no_damage),
        TEST(readers_always_see_a_whole_snapshot),
        TEST(a_snapshot_holds_the_dictionary_and_no_samples),
        TEST(a_sample_says_which_run_took_it_and_what_it_lost),
        TEST(what_a_row_is_made_of_is_stored_and_what_is_exported_is_shown),
        TEST(a_database_of_version_5_is_read_and_migrated),
        TEST(a_journal_of_version_5_is_replayed),
        TEST(heat_is_counted_and_said_as_far_as_it_is_known),
        TEST(a_twentieth_of_a_step_is_not_much_and_more_is),
        TEST(other_processes_are_told_apart_from_heat),
        TEST(versions_follow_each_other_in_one_transaction),
        TEST(paths_come_from_option_variable_and_home),
        TEST(sha256_gives_the_standards_answers),
        TEST(sha256_is_the_same_with_and_without_instructions_and_wherever_it_is_cut),
        TEST(json_is_read_strictly),
        TEST(numbers_read_back_as_they_were),
        TEST(no_bytes_make_the_json_reader_fall),
    };
    char command[PATH_MAX + 16];
    int rc;

    snprintf(folder, sizeof(folder), "/tmp/moetune-store-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    log_to(hear, NULL);
    rc = check_all(tests, sizeof(tests) / sizeof(tests[0]));
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    if (system(command))
        printf("  %s stays behind\n", folder);
    return rc;
}
