/* Tests the database: what is written is read, replaced, made stale and published. */
#include "store_rows.h"

#include "declaration.h"
#include "plan.h"
#include "records.h"
#include "schema.h"
#include "shape.h"
#include "store_inside.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

/* ---- round trips */

static int sum_samples(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    int64_t *seen = self;

    CHECK(trial->state == TRIAL_OK && sample->round < 3);
    seen[sample->kind] += sample->ns;
    return OK;
}

static int sum_all(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    int64_t *seen = self;

    CHECK(trial->id >= seen[2] && trial->id == sample->trial);
    seen[2] = trial->id;
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
    CHECK(!store_cluster_add(store, &cluster, &id) && id == 1);
    CHECK(!store_shape_add(store, &shape, &id) && id == 1);
    shape = some_shape(64);
    CHECK(!store_shape_add(store, &shape, &id) && id == 2);
    CHECK(!store_entry_get(store, 1, 1, 128, 3, &e));
    CHECK(e.time_us == 103.25 && e.bucket == 3 && e.samples == 7 && isnan(e.gain.high));
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

static void an_entry_that_is_replaced_goes_to_history(void)
{
    const char *path = place("history.db");
    struct store *store = fill(path, 2, 0);
    struct entry_row e = some_entry(1, 1, 1, "r=0 d=1 a=linear", 50), got;
    sqlite3 *db;

    CHECK(!store_entry_put(store, &e, "measured again"));
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

static struct moe_plan plan_in(struct store *store, uint32_t bucket)
{
    struct entry_row e = { .time_us = 0 };

    CHECK(!store_entry_get(store, 1, 1, 128, bucket, &e));
    return e.plan;
}

static bool is_stored(struct store *store, uint32_t bucket, const char *text)
{
    struct moe_plan plan = plan_in(store, bucket), wanted = plan_of(text);

    return plan_equal(&plan, &wanted);
}

static int count_in(const char *path, const char *sql)
{
    sqlite3 *db;
    int count;

    sqlite3_open(path, &db);
    count = count_text(db, sql);
    sqlite3_close(db);
    return count;
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;

    sqlite3_open(path, &db);
    CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
}

static const char *const kept_plans = "SELECT count(*) FROM meta";
static const char *const shown_plans =
    "SELECT count(*) FROM dictionary WHERE plan='r=2 d=4 a=linear e=sparse'";
static const char *const default_plans =
    "SELECT count(*) FROM entry WHERE plan='r=1 d=1 a=linear' AND time_us < default_us";

/* Older libraries read the column; see schema.h. */
static void of_a_plan_without_padding_the_column_has_the_default(void)
{
    const char *path = place("counted.db"), *snapshot = "counted.db.published";
    struct store *store = fill(path, 4, 0);
    struct entry_row e = some_entry(1, 1, 1, "r=2 d=4 a=linear e=sparse", 50);

    store_close(store);
    CHECK(!count_in(path, kept_plans));
    CHECK(!count_in(path, "SELECT count(*) FROM sqlite_schema WHERE sql LIKE '%FROM meta%'"));
    CHECK(!store_open(path, 0, &store));
    CHECK(!store_entry_put(store, &e, "measured again"));
    e.bucket = 2;
    CHECK(!store_entry_put(store, &e, NULL) && !store_publish(store));
    CHECK(is_stored(store, 1, "r=2 d=4 e=sparse") && is_stored(store, 0, "r=2 d=4"));
    CHECK(count_in(path, default_plans) == 2 && count_in(path, shown_plans) == 2);
    CHECK(count_in(place(snapshot), default_plans) == 2);
    CHECK(count_in(place(snapshot), shown_plans) == 2);
    /* What makes it stale keeps it; another plan, and the end of the entry, forget it. */
    CHECK(!store_expire(store, 1, 1, 128, 2, 2, "asked") &&
          is_stored(store, 2, "r=2 d=4 e=sparse"));
    e.plan = plan_of("r=1");
    CHECK(!store_entry_put(store, &e, "measured again") && is_stored(store, 2, "r=1"));
    CHECK(!store_commit(store) && count_in(path, kept_plans) == 1);
    CHECK(!store_entry_get(store, 1, 1, 128, 1, &e) && !store_entry_end(store, &e, "pruned"));
    CHECK(!store_commit(store) && count_in(path, kept_plans) == 0);
    CHECK(count_in(path, "SELECT count(*) FROM history WHERE plan='r=2 d=4 a=linear e=sparse'") ==
          3);
    store_close(store);
}

/* Such a program knows nothing of `meta`. */
static void what_an_older_program_put_in_its_place_counts(void)
{
    const char *path = place("replaced.db");
    struct store *store = fill(path, 4, 0);
    struct entry_row e = some_entry(1, 1, 1, "r=2 d=4 a=linear e=sparse", 50);

    for (e.bucket = 0; e.bucket < 4; e.bucket++)
        CHECK(!store_entry_put(store, &e, NULL));
    store_close(store);
    run_sql(path, "UPDATE entry SET stale=1 WHERE bucket=0;"
                  "UPDATE entry SET decided_s=decided_s+1 WHERE bucket=1;"
                  "UPDATE entry SET plan='r=0 d=1 a=linear' WHERE bucket=2");
    CHECK(!store_open(path, 0, &store));
    CHECK(is_stored(store, 0, "r=2 d=4 e=sparse") && is_stored(store, 1, "r=1"));
    CHECK(is_stored(store, 2, "r=0") && is_stored(store, 3, "r=2 d=4 e=sparse"));
    e.bucket = 1;
    e.decided_s += 2;
    CHECK(!store_entry_put(store, &e, NULL) && is_stored(store, 1, "r=2 d=4 e=sparse"));
    CHECK(!store_commit(store) && count_in(path, kept_plans) == 4);
    store_close(store);
}

static void a_plan_without_padding_comes_back_from_journal_and_snapshot(void)
{
    const char *path = place("again.db");
    struct store *store = fill(path, 4, 0);
    struct entry_row e = some_entry(1, 1, 1, "r=2 d=4 a=linear e=sparse", 50);

    CHECK(!store_entry_put(store, &e, NULL));
    e.bucket = 3; /* forgotten in the journal, too */
    CHECK(!store_entry_put(store, &e, NULL));
    e.plan = plan_of("r=1");
    CHECK(!store_entry_put(store, &e, NULL) && !store_publish(store));
    store_close(store);
    for (int lost = 0; lost < 2; lost++) {
        CHECK(!truncate(path, 5000));
        if (lost)
            CHECK(!truncate(place("again.db.journal"), 0));
        CHECK(!store_open(path, STORE_REPAIR, &store));
        CHECK(is_stored(store, 1, "r=2 d=4 e=sparse") && is_stored(store, 2, "r=2 d=4"));
        CHECK(is_stored(store, 3, "r=1"));
        store_close(store);
        CHECK(count_in(path, kept_plans) == 1 && count_in(path, shown_plans) == 1);
    }
}

static void a_plan_without_padding_is_merged_as_any_other(void)
{
    const char *path = place("merged.db");
    struct store *store = fill(path, 2, 0);
    struct entry_row e = some_entry(1, 1, 1, "r=2 d=4 a=linear e=sparse", 50), known;
    enum merge_outcome outcome;

    e.decided_s--; /* lost: the one that is there is later */
    CHECK(!store_entry_merge(store, &e, "imported", &known, &outcome) && outcome == MERGE_LOST);
    CHECK(is_stored(store, 1, "r=2 d=4"));
    e.decided_s += 2;
    CHECK(!store_entry_merge(store, &e, "imported", &known, &outcome) && outcome == MERGE_REPLACED);
    CHECK(is_stored(store, 1, "r=2 d=4 e=sparse"));
    CHECK(!store_entry_merge(store, &e, "imported", &known, &outcome) && outcome == MERGE_SAME);
    e.bucket = 7;
    CHECK(!store_entry_merge(store, &e, "imported", &known, &outcome) && outcome == MERGE_ADDED);
    CHECK(is_stored(store, 7, "r=2 d=4 e=sparse"));
    store_close(store);
    CHECK(count_in(path, kept_plans) == 2 && count_in(path, default_plans) == 2);
}

static void a_pin_without_padding_is_cut_as_any_other(void)
{
    const char *path = place("pinned.db");
    struct store *store = fill(path, 2, 0);
    struct override_row pin = { .cluster = 1, .shape = 1, .window = 128, .last = 9, .since_s = 7 };
    const struct override_row *found;
    struct row_list pins;
    uint32_t count;

    pin.plan = plan_of("r=2 d=4 e=sparse");
    CHECK(!store_override_add(store, &pin) && pin.id == 1);
    CHECK(!store_override_end(store, 1, 1, 128, 3, 4, &count) && count == 1);
    CHECK(!store_overrides(store, &pins) && pins.count == 2);
    for (uint32_t b = 0; b < 11; b++) {
        found = override_of(pins, &(struct bucket_key){ 1, 1, 128, b });
        CHECK((found != NULL) == (b < 10 && b != 3 && b != 4));
        CHECK(!found || plan_equal(&found->plan, &pin.plan));
    }
    free(pins.rows);
    CHECK(!store_commit(store) && count_in(path, kept_plans) == 2);
    CHECK(count_in(path, "SELECT count(*) FROM override WHERE plan='r=1 d=1 a=linear'") == 2);
    CHECK(!store_override_end(store, 1, 1, 128, 0, 20, &count) && count == 2);
    CHECK(!store_commit(store) && count_in(path, kept_plans) == 0);
    store_close(store);
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

/* By its index: of a table of thousands each would look at all else. */
static void an_entry_that_ends_is_found_by_its_index_and_stays_away(void)
{
    const char *path = place("pruned.db");
    struct store *store = fill(path, 40, 0);
    sqlite3_stmt *plan = NULL;
    struct entry_row e;
    char line[512] = "";
    bool told = false;
    sqlite3 *db;
    FILE *journal;

    CHECK(!store_entry_get(store, 1, 1, 128, 7, &e) && !store_entry_end(store, &e, "pruned"));
    store_close(store);
    journal = fopen(place("pruned.db.journal"), "r");
    while (fgets(line, sizeof(line), journal))
        told |= strstr(line, "\"delete\":\"entry\"") && strstr(line, RECORDS_BUCKET);
    fclose(journal);
    CHECK(told);
    CHECK(!sqlite3_open(path, &db));
    CHECK(!sqlite3_prepare_v2(db, "EXPLAIN QUERY PLAN DELETE FROM entry WHERE " RECORDS_BUCKET, -1,
                              &plan, NULL));
    CHECK(sqlite3_step(plan) == SQLITE_ROW &&
          strstr((const char *)sqlite3_column_text(plan, 3),
                 "(fingerprint=? AND shape=? AND window=? AND bucket=?)"));
    sqlite3_finalize(plan);
    sqlite3_close(db);
    CHECK(!truncate(path, 5000));
    CHECK(!store_open(path, STORE_REPAIR, &store));
    CHECK(store_entry_get(store, 1, 1, 128, 7, &e) == UNSUPPORTED);
    CHECK(!store_entry_get(store, 1, 1, 128, 8, &e));
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

    CHECK(!store_sample_add(store, 1, &verified));
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

static int keep_last(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    (void)trial;
    *(struct sample_row *)self = *sample;
    return OK;
}

static void an_entry_and_a_sample_keep_their_load(void)
{
    const char *path = place("loads.db");
    struct store *store = fill(path, 2, 0);
    struct sample_row put = { .kind = SAMPLE_VERIFY, .ns = 1000, .load = "skew 2" }, got;
    struct entry_row entry;
    char text[16] = "?";

    CHECK(!store_sample_add(store, 4, &put));
    CHECK(!store_samples_all(store, keep_last, &got) && !strcmp(got.load, "skew 2"));
    CHECK(!store_load(store, "max/mean 2 12345678", "counts 2 0"));
    CHECK(!store_entry_get(store, 1, 1, 128, 0, &entry) && !*entry.load && !entry.stale);
    snprintf(entry.load, sizeof(entry.load), "skew 2");
    CHECK(!store_entry_put(store, &entry, NULL));
    CHECK(!store_expire_loads(store, 1, 1, 128, 0, 1, "skew 2"));
    CHECK(!store_entry_get(store, 1, 1, 128, 0, &entry) && !entry.stale);
    CHECK(!store_entry_get(store, 1, 1, 128, 1, &entry) && entry.stale);
    store_close(store);
    CHECK(!truncate(path, 5000)); /* the journal knows all of it */
    CHECK(!store_open(path, STORE_REPAIR, &store));
    CHECK(!store_entry_get(store, 1, 1, 128, 0, &entry) && !strcmp(entry.load, "skew 2"));
    CHECK(!store_samples_all(store, keep_last, &got) && !strcmp(got.load, "skew 2"));
    CHECK(store_load_get(store, "skew 2", text, sizeof(text)) == UNSUPPORTED && *text == '?');
    CHECK(!store_load_get(store, "max/mean 2 12345678", text, sizeof(text)));
    CHECK(!strcmp(text, "counts 2 0"));
    store_close(store);
}

/* Of trials 1 and 3, which are of two buckets, the second. */
static bool has_phases_of_the_second_bucket(struct store *store, const struct phase_time *times)
{
    struct row_list list;
    const struct phase_row *rows;
    bool right;

    CHECK(!store_phases_all(store, &list));
    rows = list.rows;
    right = list.count == PHASE_COUNT;
    for (size_t i = 0; right && i < list.count; i++)
        right = rows[i].trial == 3 &&
                !memcmp(&rows[i].time, &times[rows[i].phase], sizeof(rows[i].time));
    free(list.rows);
    return right;
}

static void phases_go_with_their_trial_and_come_back_from_the_journal(void)
{
    const char *path = place("phases.db");
    struct store *store = fill(path, 2, 0);
    struct phase_time old[PHASE_COUNT] = { { 0, 0, 0 } }, new[PHASE_COUNT];

    for (int i = 0; i < PHASE_COUNT; i++)
        new[i] = (struct phase_time){ 100 + i, 90 + i, 110 + i };
    CHECK(!store_phases(store, 1, new) && !store_phases(store, 3, old));
    CHECK(!store_phases(store, 3, new)); /* the later ones count */
    CHECK(!store_expire(store, 1, 0, 128, 0, 0, "asked"));
    CHECK(has_phases_of_the_second_bucket(store, new));
    store_close(store);
    CHECK(!truncate(path, 5000));
    CHECK(!store_open(path, STORE_REPAIR, &store));
    CHECK(has_phases_of_the_second_bucket(store, new));
    store_close(store);
}

static void the_last_verification_of_a_bucket_comes_back_from_the_journal(void)
{
    const char *path = place("verified.db");
    struct store *store = fill(path, 2, 0);
    struct verification_row first = { .cluster = 1,
                                      .shape = 1,
                                      .run = 7,
                                      .window = 128,
                                      .claim = { .2, .1, .3 },
                                      .found = { .15, .05, .25 },
                                      .kappa = 1.25,
                                      .decided_s = 1000 };
    struct verification_row later = first, other = first;
    const struct verification_row *rows;
    struct row_list list;

    later.run = 8;
    other.bucket = 1;
    CHECK(!store_verification(store, &first) && !store_verification(store, &other));
    CHECK(!store_verification(store, &later));
    store_close(store);
    CHECK(!truncate(path, 5000));
    CHECK(!store_open(path, STORE_REPAIR, &store));
    CHECK(!store_verifications(store, 1, &list) && list.count == 2);
    rows = list.rows;
    CHECK(list.count == 2 && !memcmp(&rows[0], &later, sizeof(later)));
    CHECK(list.count == 2 && !memcmp(&rows[1], &other, sizeof(other)));
    free(list.rows);
    CHECK(!store_verifications(store, 2, &list) && !list.count); /* of another cluster */
    store_close(store);
}

/* A layer of a space with two launches of two plans each. */
static const struct declaration *add_space(struct store *store, int64_t *shape_id)
{
    const struct declaration *d = NULL;
    struct moe_shape shape = some_shape(32);

    CHECK(!declaration_register("space restarted\naxis ep 4 8 default 4 restart\n"
                                "axis chunks 1 2 default 1\nkey tokens edges 64 256\n",
                                &d));
    shape.space = d->id;
    CHECK(!store_shape_add(store, &shape, shape_id));
    return d;
}

static struct launch_row some_launch(int64_t shape, const struct declaration *d, uint32_t choice,
                                     uint32_t bucket, double us)
{
    struct launch_row row = { .cluster = 1,
                              .shape = shape,
                              .window = 1,
                              .bucket = bucket,
                              .plan = declared_plan(d->id, choice),
                              .time_us = us,
                              .sd = 0.25,
                              .samples = 3 };

    declaration_launch_words(d, choice, row.launch);
    return row;
}

static bool launches_are(struct store *store, int64_t shape, const struct launch_row *wanted,
                         size_t count)
{
    struct row_list list;
    const struct launch_row *rows;
    bool same;

    CHECK(!store_launches(store, 1, shape, 1, &list));
    rows = list.rows;
    same = list.count == count;
    for (size_t i = 0; i < count && same; i++)
        same = !strcmp(rows[i].launch, wanted[i].launch) && rows[i].bucket == wanted[i].bucket &&
               plan_equal(&rows[i].plan, &wanted[i].plan) && rows[i].time_us == wanted[i].time_us &&
               rows[i].sd == wanted[i].sd && rows[i].samples == wanted[i].samples;
    free(list.rows);
    return same;
}

static void rows_of_launches_come_back_from_journal_and_snapshot(void)
{
    const char *path = place("launches.db");
    struct store *store = fill(path, 1, 0);
    struct launch_row rows[4], replaced, senseless;
    const struct declaration *d;
    int64_t shape;

    d = add_space(store, &shape);
    CHECK(launches_are(store, shape, NULL, 0));
    CHECK(!count_in(path, "SELECT count(*) FROM sqlite_schema WHERE name = 'launch'"));
    CHECK(!store_expire(store, 1, shape, 1, 0, 2, "no row yet"));
    CHECK(!store_launches_end(store, 1, shape, 1));
    rows[0] = some_launch(shape, d, 0, 0, 100.5);
    rows[1] = some_launch(shape, d, 1, 2, 200.25);
    rows[2] = some_launch(shape, d, 3, 0, 90);
    rows[3] = some_launch(shape, d, 2, 1, 1e6);
    replaced = some_launch(shape, d, 1, 0, 7);
    CHECK(!store_launch_put(store, &replaced));
    for (int i = 3; i >= 0; i--)
        CHECK(!store_launch_put(store, &rows[i]));
    CHECK(launches_are(store, shape, rows, 4));
    CHECK(launches_are(store, shape + 1, NULL, 0));
    store_rollback(store);
    CHECK(launches_are(store, shape, NULL, 0)); /* the table has gone with its rows */
    CHECK(add_space(store, &shape) == d);
    for (int i = 0; i < 4; i++)
        CHECK(!store_launch_put(store, &rows[i]));
    senseless = some_launch(shape, d, 0, 1, 5); /* of another launch than its plan */
    snprintf(senseless.launch, sizeof(senseless.launch), "ep=8");
    senseless.bucket = 2;
    CHECK(!store_launch_put(store, &senseless) && !store_publish(store));
    store_close(store);
    CHECK(count_in(path, "SELECT count(*) FROM launch") == 5);
    CHECK(!store_open(path, STORE_REPAIR, &store)); /* which finds the senseless one */
    CHECK(launches_are(store, shape, rows, 4));
    CHECK(!store_publish(store));
    store_close(store);
    CHECK(count_in(place("launches.db.published"), "SELECT count(*) FROM launch") == 4);
    CHECK(!truncate(path, 5000) && !unlink(place("launches.db.journal")));
    CHECK(!store_open(path, STORE_REPAIR, &store)); /* from the snapshot */
    CHECK(launches_are(store, shape, rows, 4));
    CHECK(!store_expire(store, 1, shape, 1, 1, 2, "new libraries"));
    rows[1] = rows[2];
    CHECK(launches_are(store, shape, rows, 2));
    CHECK(!store_launches_end(store, 1, shape, 1));
    CHECK(launches_are(store, shape, NULL, 0));
    CHECK(!store_launch_put(store, &rows[1]));
    store_close(store);
    CHECK(!truncate(path, 5000));
    CHECK(!store_open(path, STORE_REPAIR, &store)); /* deletions are lines, too */
    CHECK(launches_are(store, shape, &rows[1], 1));
    store_close(store);
}

static void a_sample_says_which_run_took_it_and_what_it_lost(void)
{
    struct store *store = fill(place("whose.db"), 1, 0);
    struct sample_row put = { SAMPLE_VERIFY, 5, 1000, { 1755, SAMPLE_SET_ASIDE }, 250, 12 };
    struct sample_row got = { .run = -1 };

    CHECK(!store_samples_all(store, keep_last, &got) && got.run == 0 && got.lost_ns == 0);
    CHECK(!store_sample_add(store, 2, &put));
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

    while ((f = row_view_next(table, &view, name)))
        if (f == wanted)
            return true;
    return false;
}

static void what_a_row_is_made_of_is_stored_and_what_is_exported_is_shown(void)
{
    struct store *store = NULL;
    sqlite3 *db;

    CHECK(!store_open(place("fields.db"), STORE_RELAXED, &store));
    CHECK(!schema_make(store->records.db, store->path, launch_table.name));
    store_close(store);
    CHECK(!sqlite3_open(place("fields.db"), &db));
    has_the_fields_as_columns(db, &entry_table);
    has_the_fields_as_columns(db, &standing_table);
    has_the_fields_as_columns(db, &sample_table);
    has_the_fields_as_columns(db, &verification_table);
    has_the_fields_as_columns(db, &launch_table);
    sqlite3_close(db);
    for (size_t i = 0; i < entry_table.count; i++) {
        const struct row_field *f = &entry_table.fields[i];

        if (f->since && strcmp(f->name, "window") != 0 && strcmp(f->name, "bucket") != 0)
            CHECK(is_in(entry_in_show, &entry_table, f));
    }
}

static void a_database_of_before_the_first_release_is_left_as_it_is(void)
{
    const char *path = place("old.db");
    struct store *store = NULL;
    sqlite3 *db;

    CHECK(!sqlite3_open(path, &db));
    CHECK(sqlite3_exec(db,
                       "CREATE TABLE meta(k TEXT); PRAGMA application_id=0x6d6f6574;"
                       "PRAGMA user_version=12",
                       NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
    CHECK(store_read(path, &store) == ERR_CORRUPT);
    CHECK(strstr(said, "before moetune's first release (tables of version 12") != NULL);
    CHECK(store_open(path, 0, &store) == ERR_CORRUPT);
    CHECK(store_open(path, STORE_REPAIR, &store) == ERR_CORRUPT);
    CHECK(strstr(said, "before moetune's first release (tables of version 12") != NULL);
    CHECK(!sqlite3_open(path, &db) && count_text(db, "PRAGMA user_version") == 12);
    sqlite3_close(db);
}

static struct standing_row some_standing(double gain)
{
    struct standing_row row = { .cluster = 1,
                                .shape = 1,
                                .run = 1,
                                .window = 128,
                                .gain = { gain, gain - 0.01, gain + 0.01 },
                                .static_gain = { NAN, NAN, NAN },
                                .static_plan = plan_of("r=0 d=1 a=linear"),
                                .rounds = 8,
                                .first_round = 24,
                                .decided_s = 1700000000 };

    /* Of three plans that a space of longest words declares nothing is cut. */
    for (int i = 0; i < 3; i++)
        sprintf(row.rivals + strlen(row.rivals), "%s%0*d", i ? ";" : "", PLAN_TEXT_BYTES - 1, i);
    return row;
}

static bool is_that_standing(struct store *store, const struct standing_row *row)
{
    struct standing_row got;

    return store_standing_get(store, 1, 1, 128, &got) == OK && got.gain.value == row->gain.value &&
           got.gain.low == row->gain.low && got.gain.high == row->gain.high &&
           isnan(got.static_gain.value) && plan_equal(&got.static_plan, &row->static_plan) &&
           got.rounds == row->rounds && got.first_round == row->first_round &&
           !strcmp(got.rivals, row->rivals) && got.decided_s == row->decided_s;
}

static void a_standing_is_replaced_published_and_rebuilt(void)
{
    const char *path = place("standing.db");
    struct store *store = fill(path, 2, 0);
    struct standing_row first = some_standing(0.125), second = some_standing(0.25);

    CHECK(store_standing_get(store, 1, 1, 128, &first) == UNSUPPORTED && first.gain.value == 0.125);
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

            CHECK(!store_entry_put(store, &e, "measured"));
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
    static const char *const create[] = { "CREATE TABLE a(x)", "CREATE TABLE meta(k, v)", NULL };
    static const char *const add[] = { "ALTER TABLE a ADD COLUMN y", NULL };
    static const char *const wrong[] = { "CREATE TABLE b(x)", "nonsense", NULL };
    static const char *const *const good[] = { create, add, NULL };
    static const char *const *const bad[] = { create, add, wrong, NULL };
    const int first = STORE_OLDEST;
    sqlite3 *db;

    sqlite3_open(place("steps.db"), &db);
    CHECK(!schema_migrate(db, "steps", 0, first, good));
    CHECK(count_text(db, "SELECT count(*) FROM pragma_table_info('a')") == 1);
    CHECK(!schema_migrate(db, "steps", first, first + 1, good));
    CHECK(count_text(db, "SELECT count(*) FROM pragma_table_info('a')") == 2);
    CHECK(count_text(db, "PRAGMA user_version") == first + 1);
    CHECK(schema_migrate(db, "steps", first + 1, first + 2, bad) != OK);
    CHECK(count_text(db, "PRAGMA user_version") == first + 1);
    CHECK(count_text(db, "SELECT count(*) FROM sqlite_schema WHERE name='b'") == 0);
    sqlite3_close(db);
}

static void paths_come_from_option_variable_and_home(void)
{
    char path[PATH_MAX];

    setenv("MOETUNE_DB", "/x/y.db", 1);
    CHECK(!store_path("given.db", STORE_CONSULT, path, sizeof(path)) && !strcmp(path, "given.db"));
    CHECK(!store_path(NULL, STORE_CONSULT, path, sizeof(path)) && !strcmp(path, "/x/y.db"));
    CHECK(!store_path(NULL, STORE_CONSULT | STORE_MODELLED, path, sizeof(path)) &&
          !strcmp(path, "/x/modelled.db"));
    CHECK(!store_path("given.db", STORE_CONSULT | STORE_MODELLED, path, sizeof(path)) &&
          !strcmp(path, "given.db"));
    /* Beside what cannot be a database there is no other one. */
    setenv("MOETUNE_DB", "/dev/null", 1);
    CHECK(store_path(NULL, STORE_CONSULT | STORE_MODELLED, path, sizeof(path)) == ERR_IO &&
          strstr(said, "/dev/null is no regular file"));
    setenv("MOETUNE_DB", "/", 1);
    CHECK(store_path(NULL, STORE_TO_WRITE | STORE_MODELLED, path, sizeof(path)) == ERR_IO &&
          strstr(said, "/ is a folder"));
    setenv("MOETUNE_DB", "/x/y.db", 1);
    setenv("MOELOOKUP_DB", "/x/trainers.db", 1);
    CHECK(!store_path(NULL, STORE_CONSULT, path, sizeof(path)) && !strcmp(path, "/x/y.db"));
    CHECK(store_path(NULL, STORE_TO_READ, path, sizeof(path)) == ERR_IO &&
          strstr(said, "/x/y.db, which MOETUNE_DB names"));
    unsetenv("MOETUNE_DB");
    CHECK(!store_path(NULL, STORE_CONSULT, path, sizeof(path)) && !strcmp(path, "/x/trainers.db"));
    CHECK(store_path(NULL, STORE_TO_READ, path, sizeof(path)) == ERR_IO &&
          strstr(said, "which MOELOOKUP_DB names"));
    unsetenv("MOELOOKUP_DB");
    setenv("XDG_DATA_HOME", folder, 1);
    CHECK(!store_path(NULL, STORE_TO_WRITE, path, sizeof(path)) &&
          strstr(path, "/moetune/moetune.db"));
    CHECK(!access(place("moetune"), F_OK));
    unsetenv("XDG_DATA_HOME");
    setenv("HOME", "/home/u", 1);
    CHECK(!store_path(NULL, STORE_CONSULT, path, sizeof(path)) &&
          !strcmp(path, "/home/u/.local/share/moetune/moetune.db"));
    unsetenv("HOME");
    CHECK(store_path(NULL, STORE_CONSULT, path, sizeof(path)) == ERR_ARGUMENT &&
          strstr(said, "--db"));
}

static void what_is_left_is_a_share_of_the_step_and_rounded_up(void)
{
    static const struct {
        double bound;
        const char *text;
    } cases[] = {
        { 0, "at most 0.1 % is left" },
        { 0.056, "at most 5.4 % is left" },
        { 0.25, "at most 20 % is left" },
        { 1.1, "at most 53 % is left" },
        { 1.6, "at most 62 % is left" },
        { 8.99, "at most 90 % is left" },
        { 9.5, "what is left is not known" },
        { INFINITY, "what is left is not known" },
        { NAN, "" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct entry_row entry = { .bound = cases[i].bound };

        CHECK(!strcmp(LEFT_TEXT(&entry), cases[i].text));
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(what_is_written_is_read),
        TEST(what_is_measured_of_a_cluster_makes_no_other_one),
        TEST(a_trial_that_was_cut_off_counts_its_attempts),
        TEST(an_entry_that_is_replaced_goes_to_history),
        TEST(of_a_plan_without_padding_the_column_has_the_default),
        TEST(what_an_older_program_put_in_its_place_counts),
        TEST(a_plan_without_padding_comes_back_from_journal_and_snapshot),
        TEST(a_plan_without_padding_is_merged_as_any_other),
        TEST(a_pin_without_padding_is_cut_as_any_other),
        TEST(a_bucket_that_expires_leaves_the_others),
        TEST(what_is_left_is_a_share_of_the_step_and_rounded_up),
        TEST(an_entry_that_ends_and_one_that_expires_are_two_things),
        TEST(an_entry_that_ends_is_found_by_its_index_and_stays_away),
        TEST(forgotten_samples_stay_forgotten_in_the_journal_too),
        TEST(a_standing_is_replaced_published_and_rebuilt),
        TEST(readers_always_see_a_whole_snapshot),
        TEST(a_snapshot_holds_the_dictionary_and_no_samples),
        TEST(an_entry_and_a_sample_keep_their_load),
        TEST(phases_go_with_their_trial_and_come_back_from_the_journal),
        TEST(the_last_verification_of_a_bucket_comes_back_from_the_journal),
        TEST(rows_of_launches_come_back_from_journal_and_snapshot),
        TEST(a_sample_says_which_run_took_it_and_what_it_lost),
        TEST(what_a_row_is_made_of_is_stored_and_what_is_exported_is_shown),
        TEST(a_database_of_before_the_first_release_is_left_as_it_is),
        TEST(versions_follow_each_other_in_one_transaction),
        TEST(paths_come_from_option_variable_and_home),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), listen);
}
