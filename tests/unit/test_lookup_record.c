/* Tests the record of what trainers asked for: what is counted, when it is written, and by which
 * process. */
#include "lookup_recording.h"

#include <pthread.h>

enum { R = 128 };

/* ---- a table, its record, and what is in it */

static struct traffic read_back(const char *record)
{
    struct traffic t = { 0 };

    CHECK(traffic_read(record, &t) == OK);
    return t;
}

static uint64_t total_of(const char *record)
{
    struct traffic t = read_back(record);
    uint64_t sum = 0;

    for (size_t i = 0; i < t.count; i++)
        sum += traffic_total(&t.layers[i]);
    traffic_free(&t);
    return sum;
}

static int lines_of(const char *record)
{
    static char text[1 << 16];

    read_text(record, text, sizeof(text));
    return count_of(text, "\n");
}

/* ---- counting */

static void every_bucket_is_counted_under_its_source(void)
{
    static const struct {
        uint32_t capacity, bucket;
        enum moe_source source;
        int times;
    } asked[] = {
        { 0, 0, MOE_CLAMPED, 3 },
        { 255, 1, MOE_CLAMPED, 2 },
        { 256, 2, MOE_EXACT, 5 },
        { 5 * R, 5, MOE_EXACT, 1 },
        { 4 * R + 7, 4, MOE_NEIGHBOUR, 4 },
        { 6 * R, 6, MOE_CLAMPED, 1 },
        { 1000000 * R, 1000000, MOE_CLAMPED, 7 },
        { UINT32_MAX, UINT32_MAX / R, MOE_CLAMPED, 2 },
    };
    const char *record = file_of("sources.jsonl");
    struct moelookup *table = recording(record);
    struct moelookup_view *view = bind_layer(table, layer(96));
    struct traffic t;
    struct moe_shape shape = layer(96);
    uint64_t all = 0;

    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        for (int k = 0; k < asked[i].times; k++, all++)
            CHECK(ask(view, asked[i].capacity).source == asked[i].source);
    moelookup_view_free(view);
    moelookup_close(table);
    t = read_back(record);
    CHECK(t.count == 1 && t.layers[0].window == R && t.layers[0].lost == 0);
    CHECK(t.count == 1 && shape_equal(&t.layers[0].shape, &shape));
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        CHECK(count_at(&t, asked[i].bucket, asked[i].source) == (uint64_t)asked[i].times);
    CHECK(t.count == 1 && traffic_total(&t.layers[0]) == all);
    traffic_free(&t);
}

static void a_layer_without_a_table_is_recorded_too(void)
{
    const char *record = file_of("default.jsonl");
    struct moelookup *table = recording(record);
    struct moe_shape unknown = layer(64);
    struct moelookup_view *view = bind_layer(table, unknown);
    static char text[4096];
    struct traffic t;

    CHECK(ask(view, 300).source == MOE_DEFAULT);
    moelookup_view_free(view);
    moelookup_close(table);
    t = read_back(record);
    CHECK(t.count == 1 && t.layers[0].window == shape_window(&unknown));
    CHECK(count_at(&t, 300 / shape_window(&unknown), MOE_DEFAULT) == 1);
    traffic_free(&t);
    read_text(record, text, sizeof(text));
    CHECK(strstr(text, "\"cluster\":null,\"device\":null"));
}

/* Devices are named by databases, which may come from anywhere. */
static void a_line_is_json_whatever_the_device_is_called(void)
{
    const char *record = file_of("names.jsonl");
    struct moelookup *table;
    struct moelookup_view *view;
    static char text[4096];
    char longest[LOOKUP_DEVICE_BYTES];
    const char *const devices[] = { "aba\xff\"\\cus\xc2\x85", longest };

    memset(longest, 0xff, sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    for (int i = 0; i < 2; i++) {
        write_small(place("names.db"), devices[i], 96);
        unlink(record);
        table = open_table(place("names.db"));
        CHECK(moelookup_record(table, record) == MOE_OK);
        view = bind_layer(table, layer(96));
        CHECK(ask(view, 256).source == MOE_EXACT);
        moelookup_view_free(view);
        moelookup_close(table);
        CHECK(total_of(record) == 1);
        read_text(record, text, sizeof(text));
        CHECK(i || strstr(text, "\"device\":\"aba\\ufffd\\\"\\\\cus\\u0085\""));
        CHECK(!unlink(place("names.db")) && !unlink(place("names.db.published")));
        CHECK(!unlink(place("names.db.journal")));
    }
}

/* The table's T where the trainer does not say; 0 where nobody knows. */
static void the_tokens_are_the_tables_where_the_trainer_gives_none(void)
{
    const char *record = file_of("tokens.jsonl");
    struct moelookup *table = recording(record);
    struct moe_shape any = layer(96), unknown = layer(64);
    struct moelookup_view *views[2];
    struct traffic t;

    any.tokens = unknown.tokens = 0;
    views[0] = bind_layer(table, any);
    views[1] = bind_layer(table, unknown);
    for (int i = 0; i < 2; i++) {
        ask(views[i], 300);
        moelookup_view_free(views[i]);
    }
    moelookup_close(table);
    t = read_back(record);
    CHECK(t.count == 2 && t.layers[0].shape.tokens == 64 && t.layers[1].shape.tokens == 0);
    traffic_free(&t);
}

static void a_short_struct_is_counted_and_an_explanation_is_not(void)
{
    const char *record = file_of("short.jsonl");
    struct moelookup *table = recording(record);
    struct moelookup_view *view = bind_layer(table, layer(96));
    struct moe_plan plan = { .struct_size = 16 };
    char text[256];

    CHECK(moelookup_get(view, 300, &plan) == MOE_OK);
    CHECK(moelookup_explain(view, 300, text, sizeof(text)) > 0);
    moelookup_view_free(view);
    moelookup_close(table);
    CHECK(total_of(record) == 1);
}

/* ---- threads */

enum { THREADS = 80, LOOKS = 20000, NEAR_BUCKETS = 600 };

struct asker {
    struct moelookup_view *view;
    uint64_t key;
    uint32_t near[NEAR_BUCKETS], far; /* what it asked */
};

static void *ask_often(void *self)
{
    struct asker *a = self;
    struct moe_plan plan = MOE_PLAN_INIT;

    for (uint64_t i = 0; i < LOOKS; i++) {
        uint32_t bucket = (uint32_t)random_below(a->key, i, NEAR_BUCKETS + 1);

        moelookup_get(a->view, (bucket < NEAR_BUCKETS ? bucket : 30000000) * R, &plan);
        if (bucket < NEAR_BUCKETS)
            a->near[bucket]++;
        else
            a->far++;
    }
    return NULL;
}

/* More threads than there are shards, asking while the record is written again and again. */
static void threads_lose_no_count(void)
{
    static struct asker askers[THREADS];
    const char *record = file_of("threads.jsonl");
    struct moelookup *table = recording(record);
    struct moelookup_view *view = bind_layer(table, layer(96));
    pthread_t threads[THREADS];
    struct traffic t;

    memset(askers, 0, sizeof(askers));
    for (uint64_t i = 0; i < THREADS; i++) {
        askers[i].view = view;
        askers[i].key = draw_seed + i;
        CHECK(!pthread_create(&threads[i], NULL, ask_often, &askers[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(moelookup_flush(view) == MOE_OK);
        pthread_join(threads[i], NULL);
    }
    moelookup_view_free(view);
    moelookup_close(table);
    t = read_back(record);
    for (uint32_t b = 0; b < NEAR_BUCKETS && t.count == 1; b++) {
        uint64_t want = 0, got = 0;

        for (int i = 0; i < THREADS; i++)
            want += askers[i].near[b];
        for (int s = 0; s < PLAN_SOURCE_COUNT; s++)
            got += count_at(&t, b, (enum moe_source)s);
        CHECK(got == want);
    }
    CHECK(t.count == 1 && traffic_total(&t.layers[0]) == (uint64_t)THREADS * LOOKS);
    CHECK(t.count == 1 && t.layers[0].lost == 0);
    traffic_free(&t);
}

/* No memory is made in the hot call: what finds no room is counted as lost, and nothing else is. */
static void far_buckets_without_room_are_counted_as_lost(void)
{
    const char *record = file_of("far.jsonl");
    struct moelookup *table = recording(record);
    struct moelookup_view *view = bind_layer(table, layer(96));
    struct traffic t;

    for (uint32_t b = 0; b < 20000; b++)
        ask(view, (100000 + b) * R);
    ask(view, 256);
    moelookup_view_free(view);
    moelookup_close(table);
    t = read_back(record);
    CHECK(t.count == 1 && t.layers[0].lost > 0 && t.layers[0].lost < 20000);
    CHECK(t.count == 1 && traffic_total(&t.layers[0]) == 20001);
    CHECK(count_at(&t, 2, MOE_EXACT) == 1);
    traffic_free(&t);
}

/* ---- when it is written */

static void nothing_is_written_twice(void)
{
    const char *record = file_of("twice.jsonl");
    struct moelookup *table = recording(record);
    struct moelookup_view *view = bind_layer(table, layer(96)), *other;

    CHECK(lines_of(record) == 0);
    CHECK(moelookup_flush(view) == MOE_OK);
    CHECK(lines_of(record) == 0); /* nothing was asked */
    ask(view, 300);
    CHECK(moelookup_flush(view) == MOE_OK);
    CHECK(moelookup_flush(view) == MOE_OK);
    CHECK(lines_of(record) == 1 && total_of(record) == 1);
    ask(view, 300);
    ask(view, 400);
    other = bind_layer(table, layer(96));
    ask(other, 300);
    moelookup_close(table); /* writes what its views have, and they live on */
    CHECK(lines_of(record) == 3 && total_of(record) == 4);
    ask(view, 300);
    moelookup_view_free(other);
    moelookup_view_free(view);
    CHECK(lines_of(record) == 4 && total_of(record) == 5);
}

static void a_record_that_cannot_be_written_is_kept(void)
{
    const char *record, *away = file_of("away");
    struct moelookup *table;
    struct moelookup_view *view;
    char path[PATH_MAX];

    CHECK(!mkdir(file_of("there"), 0777));
    record = file_of("there/kept.jsonl");
    table = recording(record);
    view = bind_layer(table, layer(96));
    snprintf(path, sizeof(path), "%s", file_of("there"));
    ask(view, 300);
    CHECK(!rename(path, away));
    CHECK(moelookup_flush(view) == MOE_ERR_IO);
    ask(view, 300);
    CHECK(!rename(away, path));
    CHECK(moelookup_flush(view) == MOE_OK);
    record = file_of("there/kept.jsonl");
    CHECK(lines_of(record) == 1 && total_of(record) == 2);
    moelookup_view_free(view);
    moelookup_close(table);
}

static void a_file_that_cannot_be_appended_to_is_refused_and_said(void)
{
    struct moelookup *table;
    struct moelookup_view *view;
    const char *paths[] = { folder, "/dev/null", "/proc/no/such", "" };

    write_small(place("refused.db"), "abacus", 96);
    table = open_table(place("refused.db"));
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        catch_stderr();
        CHECK(moelookup_record(table, paths[i]) == MOE_ERR_IO);
        release_stderr();
        CHECK(strstr(heard, "not recorded"));
    }
    CHECK(moelookup_record(NULL, place("x")) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_flush(NULL) == MOE_ERR_ARGUMENT);
    view = bind_layer(table, layer(96));
    CHECK(is_answer(ask(view, 300), "r=2 d=4", MOE_EXACT));
    CHECK(moelookup_flush(view) == MOE_OK);
    moelookup_view_free(view);
    moelookup_close(table);
}

/* A relative path is meant where the program was when it was given. */
static void the_folder_may_change(void)
{
    char before[PATH_MAX];
    struct moelookup *table;
    struct moelookup_view *view;

    write_small(place("moved.db"), "abacus", 96);
    CHECK(getcwd(before, sizeof(before)) && !chdir(folder));
    table = open_table(place("moved.db"));
    CHECK(moelookup_record(table, "relative.jsonl") == MOE_OK);
    view = bind_layer(table, layer(96));
    CHECK(!chdir("/"));
    ask(view, 300);
    moelookup_view_free(view);
    moelookup_close(table);
    CHECK(!chdir(before));
    CHECK(total_of(file_of("relative.jsonl")) == 1);
}

/* ---- who writes */

static void who_opens_records_and_who_unpacks_does_not(void)
{
    const char *record = file_of("environment.jsonl");
    struct moelookup *table, *copy;

    write_small(place("environment.db"), "abacus", 96);
    setenv("MOELOOKUP_RECORD", record, 1);
    table = open_table(place("environment.db"));
    copy = unpacked(table);
    CHECK(binds_to(table, layer(96), NULL, "r=2 d=4"));
    CHECK(lines_of(record) == 1);
    CHECK(binds_to(copy, layer(96), NULL, "r=2 d=4"));
    CHECK(lines_of(record) == 1);
    CHECK(moelookup_record(copy, NULL) == MOE_OK); /* as moelookup_mpi.h does on one rank */
    CHECK(binds_to(copy, layer(96), NULL, "r=2 d=4"));
    CHECK(lines_of(record) == 2);
    no_environment();
    moelookup_close(copy);
    moelookup_close(table);
}

static void an_environment_that_cannot_be_hurts_nobody(void)
{
    write_small(place("hurt.db"), "abacus", 96);
    setenv("MOELOOKUP_RECORD", "/proc/no/such", 1);
    catch_stderr();
    CHECK(is_answer(ask_file(place("hurt.db"), layer(96), 256), "r=2 d=4", MOE_EXACT));
    release_stderr();
    CHECK(count_of(heard, "/proc/no/such") == 1);
    no_environment();
}

static struct moelookup_view *of_parent;
static struct moelookup *table_of_parent;

static void ask_in_the_child(void)
{
    for (int i = 0; i < 100; i++)
        CHECK(is_answer(ask(of_parent, 256), "r=2 d=4", MOE_EXACT));
    CHECK(moelookup_flush(of_parent) == MOE_OK);
    moelookup_view_free(of_parent);
    moelookup_close(table_of_parent);
}

static void a_child_records_nothing(void)
{
    const char *record = file_of("child.jsonl");

    table_of_parent = recording(record);
    of_parent = bind_layer(table_of_parent, layer(96));
    ask(of_parent, 256);
    in_child(ask_in_the_child);
    moelookup_view_free(of_parent);
    moelookup_close(table_of_parent);
    CHECK(total_of(record) == 1);
}

enum { WRITERS = 8, FLUSHES = 200 };

static void write_often(const char *record)
{
    struct moelookup *table = open_table(place("recorded.db"));
    struct moelookup_view *view;

    CHECK(moelookup_record(table, record) == MOE_OK);
    view = bind_layer(table, layer(96));
    for (uint32_t i = 0; i < FLUSHES; i++) {
        for (uint32_t b = 0; b < 500; b++)
            ask(view, b * R);
        CHECK(moelookup_flush(view) == MOE_OK);
    }
    moelookup_view_free(view);
    moelookup_close(table);
}

static void processes_append_whole_lines_to_one_file(void)
{
    const char *record = file_of("together.jsonl");
    struct traffic t;
    int status, wrong = 0;

    moelookup_close(recording(record));
    fflush(stdout);
    for (int i = 0; i < WRITERS; i++)
        if (fork() == 0) {
            check_failures = 0;
            write_often(record);
            _exit(check_failures != 0);
        }
    for (int i = 0; i < WRITERS; i++)
        CHECK(wait(&status) > 0 && status == 0);
    t = read_back(record);
    CHECK(t.count == 1 && t.layers[0].bucket_count == 500);
    for (uint32_t b = 0; b < 500 && t.count == 1; b++)
        wrong += traffic_lookups(&t.layers[0].buckets[b]) != WRITERS * FLUSHES;
    CHECK(!wrong);
    traffic_free(&t);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(every_bucket_is_counted_under_its_source),
        TEST(a_layer_without_a_table_is_recorded_too),
        TEST(a_line_is_json_whatever_the_device_is_called),
        TEST(the_tokens_are_the_tables_where_the_trainer_gives_none),
        TEST(a_short_struct_is_counted_and_an_explanation_is_not),
        TEST(threads_lose_no_count),
        TEST(far_buckets_without_room_are_counted_as_lost),
        TEST(nothing_is_written_twice),
        TEST(a_record_that_cannot_be_written_is_kept),
        TEST(a_file_that_cannot_be_appended_to_is_refused_and_said),
        TEST(the_folder_may_change),
        TEST(who_opens_records_and_who_unpacks_does_not),
        TEST(an_environment_that_cannot_be_hurts_nobody),
        TEST(a_child_records_nothing),
        TEST(processes_append_whole_lines_to_one_file),
    };

    return run_with_folder(tests, sizeof(tests) / sizeof(tests[0]));
}
