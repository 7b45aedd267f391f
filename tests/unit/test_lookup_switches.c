/* Tests the environment variables of the look-up library, where it looks for files, and what it
 * prints. */
#include "lookup_tables.h"

/* ---- environment */

static void force_and_disable_travel_and_count(void)
{
    static const struct {
        const char *force, *disable;
    } cases[] = { { NULL, NULL }, { "r=1 d=2", NULL }, { NULL, "1" }, { "r=1 d=2", "1" } };
    const char *path = place("travel.db");
    uint8_t digests[4][32];

    write_small(path, "abacus", 96);
    for (int i = 0; i < 4; i++) {
        if (cases[i].force)
            setenv("MOELOOKUP_FORCE", cases[i].force, 1);
        if (cases[i].disable)
            setenv("MOELOOKUP_DISABLE", cases[i].disable, 1);
        digest_of(path, digests[i]);
        no_environment();
        for (int k = 0; k < i; k++)
            CHECK(memcmp(digests[i], digests[k], 32) != 0);
    }
}

static void an_unpacked_table_ignores_this_ranks_environment(void)
{
    struct moelookup *plain, *copy;
    uint8_t digests[2][32];

    write_small(place("rank.db"), "abacus", 96);
    setenv("MOELOOKUP_FORCE", "r=1 d=2", 1);
    plain = open_table(place("rank.db"));
    setenv("MOELOOKUP_FORCE", "r=4", 1);
    setenv("MOELOOKUP_DISABLE", "1", 1);
    copy = unpacked(plain);
    CHECK(moelookup_digest(plain, digests[0]) == MOE_OK);
    CHECK(moelookup_digest(copy, digests[1]) == MOE_OK);
    CHECK(!memcmp(digests[0], digests[1], 32));
    for (int i = 0; i < 2; i++) {
        struct moelookup_view *view = bind_layer(i ? copy : plain, layer(96));

        CHECK(is_answer(ask(view, 2 * 128), "r=1 d=2", MOE_OVERRIDE));
        moelookup_view_free(view);
    }
    moelookup_close(plain);
    moelookup_close(copy);
    no_environment();
}

static void nccl_cannot_be_forced_on_a_cluster_without_gpus(void)
{
    struct moelookup *table;

    write_small(place("cores.db"), "abacus", 96);
    setenv("MOELOOKUP_FORCE", "r=1 d=2 a=nccl", 1);
    CHECK(is_refused(place("cores.db"), MOE_ERR_ARGUMENT));
    table = open_table(altered("gpus.db", "UPDATE fingerprint_field SET value='cuda' WHERE "
                                          "name='backend'"));
    no_environment();
    CHECK(is_answer(ask_file(place("gpus.db"), layer(96), 256), "r=2 d=4", MOE_EXACT));
    CHECK(table != NULL);
    moelookup_close(table);
}

static void force_answers_only_where_it_is_legal(void)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct store *store = new_store(place("force.db"));
    struct moe_shape flat = layer(96);
    struct moelookup *table;
    struct moe_plan got;

    add_one(store, &cluster, layer(96), "r=2");
    publish_and_close(store);
    setenv("MOELOOKUP_FORCE", "r=4 d=8 a=2dh", 1);
    table = open_table(place("force.db"));
    CHECK(bind_to(table, layer(96), NULL, &got) == MOE_OK);
    CHECK(is_answer(got, "r=4 d=8 a=2dh", MOE_OVERRIDE) && got.bucket == 2);
    flat.ranks_per_node = 8; /* one level: no 2dh */
    CHECK(bind_to(table, flat, NULL, &got) == MOE_OK && is_answer(got, "r=1", MOE_DEFAULT));
    moelookup_close(table);
    setenv("MOELOOKUP_FORCE", "r=3", 1); /* 3 does not divide 4 */
    table = open_table(place("force.db"));
    CHECK(bind_to(table, layer(96), NULL, &got) == MOE_OK && is_answer(got, "r=2", MOE_EXACT));
    moelookup_close(table);
    no_environment();
}

static void ask_with_malformed_force(void)
{
    struct moelookup *table = NULL;

    unsetenv("MOELOOKUP_LOG");
    setenv("MOELOOKUP_FORCE", "as fast as you can", 1);
    CHECK(moelookup_open(place("malformed.db"), &table) == MOE_ERR_ARGUMENT && !table);
}

static void a_malformed_force_is_refused_and_said(void)
{
    write_small(place("malformed.db"), "abacus", 96);
    in_child(ask_with_malformed_force);
    CHECK(strstr(heard, "MOELOOKUP_FORCE") && strstr(heard, "as fast as you can"));
}

static void disable_reads_no_file(void)
{
    struct moelookup *table = NULL;

    setenv("MOELOOKUP_DISABLE", "1", 1);
    CHECK(moelookup_open(place("nowhere.db"), &table) == MOE_OK);
    CHECK(binds_to(table, layer(96), NULL, NULL));
    moelookup_close(table);
    setenv("MOELOOKUP_DISABLE", "0", 1);
    CHECK(is_refused(place("nowhere.db"), MOE_ERR_IO));
    no_environment();
}

static void nothing_found_is_an_empty_set(void)
{
    struct moelookup *table;

    CHECK(!mkdir(place("empty-home"), 0777));
    setenv("HOME", place("empty-home"), 1);
    table = open_table(NULL);
    CHECK(binds_to(table, layer(96), NULL, NULL));
    moelookup_close(table);
    unsetenv("HOME"); /* nor a home at all */
    table = open_table(NULL);
    CHECK(binds_to(table, layer(96), NULL, NULL));
    moelookup_close(table);
    no_environment();
}

static void make_folders(const char *path)
{
    char command[600];

    snprintf(command, sizeof(command), "mkdir -p '%s'", path);
    CHECK(!system(command));
}

static void the_search_path_has_its_order(void)
{
    static const char *const names[] = { "path-1.db", "path-2.db", "xdg/moetune/moetune.db",
                                         ".local/share/moetune/moetune.db" };

    make_folders(place("xdg/moetune"));
    make_folders(place(".local/share/moetune"));
    for (uint32_t i = 0; i < 4; i++) {
        struct store *store = new_store(place(names[i]));
        struct cluster cluster = machine("abacus", 8, 4);
        char plan[16];

        snprintf(plan, sizeof(plan), "r=2 d=%u", 1u << i);
        add_one(store, &cluster, layer(96), plan);
        publish_and_close(store);
    }
    setenv("MOELOOKUP_DB", place("path-1.db"), 1);
    setenv("MOETUNE_DB", place("path-2.db"), 1);
    setenv("XDG_DATA_HOME", place("xdg"), 1);
    CHECK(is_answer(ask_file(NULL, layer(96), 256), "r=2 d=1", MOE_EXACT));
    unsetenv("MOELOOKUP_DB");
    CHECK(is_answer(ask_file(NULL, layer(96), 256), "r=2 d=2", MOE_EXACT));
    unsetenv("MOETUNE_DB");
    CHECK(is_answer(ask_file(NULL, layer(96), 256), "r=2 d=4", MOE_EXACT));
    unsetenv("XDG_DATA_HOME");
    CHECK(is_answer(ask_file(NULL, layer(96), 256), "r=2 d=8", MOE_EXACT));
    setenv("MOELOOKUP_DB", place("not-there.db"), 1);
    CHECK(is_answer(ask_file(NULL, layer(96), 256), "r=2 d=8", MOE_EXACT));
    no_environment();
    unlink(place(".local/share/moetune/moetune.db.published"));
    unlink(place(".local/share/moetune/moetune.db"));
}

/* ---- what is said */

static void miss_twice(void)
{
    struct moelookup *table = open_table(place("said.db"));

    CHECK(binds_to(table, layer(192), NULL, NULL));
    CHECK(binds_to(table, layer(384), NULL, NULL));
    moelookup_close(table);
}

static void miss_with_level(const char *level)
{
    if (level)
        setenv("MOELOOKUP_LOG", level, 1);
    else
        unsetenv("MOELOOKUP_LOG");
    miss_twice();
}

static void miss_by_default(void)
{
    miss_with_level(NULL);
}

static void miss_at_error(void)
{
    miss_with_level("error");
}

static void miss_at_warn(void)
{
    miss_with_level("warn");
}

static void miss_at_info(void)
{
    miss_with_level("info");
}

static void a_miss_is_said_once_and_names_the_command(void)
{
    write_small(place("said.db"), "abacus", 96);
    in_child(miss_by_default);
    CHECK(count_of(heard, "moetune") >= 1 && count_of(heard, "H=192") == 1);
    CHECK(count_of(heard, "H=384") == 0);
    in_child(miss_at_warn);
    CHECK(count_of(heard, "H=192") == 1);
    in_child(miss_at_error);
    CHECK(!*heard);
    in_child(miss_at_info);
    CHECK(count_of(heard, "H=192") == 1 && strstr(heard, "said.db"));
}

static void miss_of_other_ranks(void)
{
    struct moelookup *table;
    struct moe_shape shape = layer(96);

    unsetenv("MOELOOKUP_LOG");
    table = open_table(place("said.db"));
    shape.ranks = 16;
    CHECK(binds_to(table, shape, NULL, NULL));
    moelookup_close(table);
}

static void miss_of_another_device(void)
{
    struct moelookup *table;

    unsetenv("MOELOOKUP_LOG");
    table = open_table(place("said.db"));
    CHECK(binds_to(table, layer(96), "spindle", NULL));
    moelookup_close(table);
}

static void miss_of_everything(void)
{
    struct moelookup *table;

    unsetenv("MOELOOKUP_LOG");
    setenv("HOME", place("nobody"), 1);
    table = open_table(NULL);
    CHECK(binds_to(table, layer(96), NULL, NULL));
    moelookup_close(table);
}

static void a_miss_says_what_comes_nearest(void)
{
    write_small(place("said.db"), "abacus", 96);
    in_child(miss_of_other_ranks);
    CHECK(strstr(heard, "8 ranks") && strstr(heard, "On 16 ranks"));
    in_child(miss_of_another_device);
    CHECK(strstr(heard, "abacus") && strstr(heard, "spindle"));
    in_child(miss_of_everything);
    CHECK(strstr(heard, "moetune") && strstr(heard, "H=96"));
}

static void hit_by_default(void)
{
    unsetenv("MOELOOKUP_LOG");
    CHECK(is_answer(ask_file(place("hit.db"), layer(96), 256), "r=2 d=4", MOE_EXACT));
}

static void a_hit_says_nothing(void)
{
    write_small(place("hit.db"), "abacus", 96);
    in_child(hit_by_default);
    CHECK(!*heard);
}

static void miss_after_unpack(void)
{
    struct moelookup *table = open_table(place("said.db")), *copy = unpacked(table);

    CHECK(binds_to(copy, layer(192), NULL, NULL));
    moelookup_close(copy);
    moelookup_close(table);
}

static void miss_after_unpack_silently(void)
{
    unsetenv("MOELOOKUP_LOG");
    miss_after_unpack();
}

static void miss_after_unpack_aloud(void)
{
    setenv("MOELOOKUP_LOG", "warn", 1);
    miss_after_unpack();
}

static void an_unpacked_table_is_silent_unless_asked(void)
{
    write_small(place("said.db"), "abacus", 96);
    in_child(miss_after_unpack_silently);
    CHECK(!*heard);
    in_child(miss_after_unpack_aloud);
    CHECK(count_of(heard, "H=192") == 1);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(force_and_disable_travel_and_count),
        TEST(an_unpacked_table_ignores_this_ranks_environment),
        TEST(nccl_cannot_be_forced_on_a_cluster_without_gpus),
        TEST(force_answers_only_where_it_is_legal),
        TEST(a_malformed_force_is_refused_and_said),
        TEST(disable_reads_no_file),
        TEST(nothing_found_is_an_empty_set),
        TEST(the_search_path_has_its_order),
        TEST(a_miss_is_said_once_and_names_the_command),
        TEST(a_miss_says_what_comes_nearest),
        TEST(a_hit_says_nothing),
        TEST(an_unpacked_table_is_silent_unless_asked),
    };

    return run_with_folder(tests, sizeof(tests) / sizeof(tests[0]));
}
