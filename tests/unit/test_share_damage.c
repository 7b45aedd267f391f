/* Tests that exported tables that are damaged, or contradict themselves, are refused. */
#include "share_tables.h"

/* Refused, or as good as what any other site might have sent. */
static void is_refused_or_harmless(struct store *store, struct text t)
{
    struct import_result got = { 0 };
    int rc;

    log_enable(false);
    rc = take_in(store, t, &got);
    log_enable(true);
    CHECK(rc == OK || rc == ERR_FORMAT);
}

/* Versions 4 to 8 read the same rows: one that names another of them is as good. */
static bool names_twin_version(const char *at)
{
    static const char member[] = "\"version\":";

    return !memcmp(at - strlen(member), member, strlen(member)) && *at >= '4' && *at <= '8';
}

static void every_flipped_byte_is_refused(void)
{
    struct text t = some_table(4);
    struct store *store = new_store();

    for (size_t i = 0; i < t.size; i++) {
        struct import_result got = { 0 };
        char was = t.bytes[i];

        t.bytes[i] = (char)(was ^ (1 << draw(8)));
        log_enable(false);
        CHECK(take_in(store, t, &got) != OK || (i > 16 && names_twin_version(t.bytes + i)));
        log_enable(true);
        t.bytes[i] = was;
    }
    store_close(store);
    free(t.bytes);
}

static void every_cut_is_refused(void)
{
    struct text t = some_table(4);
    struct store *store = new_store();

    for (size_t size = 0; size < t.size; size++) {
        struct import_result got = { 0 };

        log_enable(false);
        CHECK(take_in(store, (struct text){ t.bytes, size }, &got) == ERR_FORMAT);
        log_enable(true);
    }
    store_close(store);
    free(t.bytes);
}

static void damage_behind_the_checksum_is_refused_or_harmless(void)
{
    const char *given = getenv("MOETUNE_TEST_DAMAGES");
    int damages = given ? atoi(given) : 3000;
    struct text t = some_table(4), d = { malloc(t.size + 64), 0 };
    struct store *store = new_store();
    char *body = memchr(t.bytes, '\n', t.size);
    size_t from = (size_t)(body - t.bytes);

    for (int i = 0; i < damages; i++) {
        memcpy(d.bytes, t.bytes, t.size);
        d.size = t.size;
        for (uint32_t k = 1 + draw(3); k > 0; k--) {
            size_t at = from + draw((uint32_t)(d.size - from));

            switch (draw(3)) {
            case 0: d.bytes[at] = (char)draw(256); break;
            case 1: d.bytes[at] = "0123456789-.e\"{}[],:n"[draw(21)]; break;
            case 2: memmove(d.bytes + at, d.bytes + at + 1, d.size-- - at - 1); break;
            }
            if (d.size <= from + 8)
                break;
        }
        seal(d);
        is_refused_or_harmless(store, d);
    }
    store_close(store);
    free(t.bytes);
    free(d.bytes);
}

static int with_change(const char *from, const char *to)
{
    return with_change_of(table_of("r=2 d=2 a=2dh", false, "normal", 7), from, to);
}

static const char *const not_understood[][2] = {
    { "moetune-table", "moetune-tables" },
    { "\"version\":3", "\"version\":10" },
    { "\"semantics\":1", "\"semantics\":2" },
    { "\"version\":3", "\"version\":0" },
    { "\"version\":3", "\"version\":1.5" },
    { "\"version\":3", "\"version\":\"2\"" },
    { "\"version\":3", "\"version\":1e999" },
    { "\"entries\":1", "\"entries\":0" },
    { "\"entries\":1", "\"entries\":2" },
    { "\"clusters\":1", "\"clusters\":3" },
    { "\"window\":128", "\"window\":0" },
    { "\"window\":128", "\"window\":-1" },
    { "\"window\":128", "\"window\":1.5" },
    { "\"window\":128", "\"window\":4294967296" },
    { "\"window\":128", "\"window\":128,\"window\":128" },
    { "\"window\":128,", "" },
    { "\"window\":128", "\"window\":128,\"weather\":\"fair\"" },
    { "\"plan\":\"r=2", "\"plan\":\"r=3" },
    { "\"plan\":\"r=2 d=2 a=2dh\"", "\"plan\":\"r=0 d=2 a=2dh\"" },
    { "\"plan\":\"r=2 d=2 a=2dh\"", "\"plan\":null" },
    { "\"plan\":\"r=2 d=2 a=2dh\"", "\"plan\":\"r=2 d=2 a=2dh z=1\"" },
    { "\"time_us\":1.000", "\"time_us\":-1" },
    { "\"time_us\":1.000", "\"time_us\":1e300" },
    { "\"time_us\":1.000", "\"time_us\":\"1\"" },
    { "\"time_us\":1.000", "\"time_us\":0.0001" },
    { "\"default_us\":2000.000", "\"default_us\":0.000" },
    { "\"gain\":0.5", "\"gain\":1.5" },
    { "\"gain_low\":null", "\"gain_low\":1.5" },
    { "\"gain_high\":null", "\"gain_high\":1.5" },
    { "\"bucket\":0", "\"bucket\":1" }, /* where no capacity is 0 */
    { "\"decision\":\"adopted\"", "\"decision\":\"'); DROP TABLE entry; --\"" },
    { "\"decision\":\"adopted\"", "\"decision\":\"<script>\"" },
    { "\"decision\":\"adopted\"", "\"decision\":\"\\u001b[2J\"" },
    { "\"decision\":\"adopted\"", "\"decision\":\"longer than any decision\"" },
    { "E=2 k=2", "k=2 E=2" },
    { "E=2 k=2", "E=2 k=3" },
    { "W=8 m=4", "W=4 m=4" },
    { "abacus 0", "abacus 1" },
    { "\"device\":\"abacus 0\"", "\"device\":\"abacus 0\\nranks = 9\"" },
    { "\"device\":\"abacus 0\"", "\"device\":\"abacus 0 # x\"" },
    { "\"device\":\"abacus 0\"", "\"system\":\"\\u202e\",\"device\":\"abacus 0\"" },
    { "\"device\":\"abacus 0\"", "\"system\":\"\xe2\x81\xa6\",\"device\":\"abacus 0\"" },
    { "\"device\":\"abacus 0\"", "\"system\":\"\\u009b2J\",\"device\":\"abacus 0\"" },
    { "\"device\":\"abacus 0\"", "\"system\":\"\xff\",\"device\":\"abacus 0\"" },
    { "\"device\":\"abacus 0\"", "\"system\":\"\xc0\x80\",\"device\":\"abacus 0\"" },
    { "\"stale\":false", "\"stale\":0" },
    { "\"version\":3", "\"version\":1" }, /* whose lines have no throttled */
    { "\"version\":3", "\"version\":2" }, /* whose first line has no standings */
    { "\"standings\":0,", "" },
    { "\"standings\":0", "\"standings\":1" },
    { ",\"throttled\":0}", "}" },
    { "\"throttled\":0", "\"throttled\":-1" },
};

static void what_is_not_understood_is_refused(void)
{
    for (size_t i = 0; i < sizeof(not_understood) / sizeof(not_understood[0]); i++)
        if (with_change(not_understood[i][0], not_understood[i][1]) != ERR_FORMAT) {
            printf("    taken in: %s\n", not_understood[i][1]);
            CHECK(!"refused");
        }
}

static void what_is_understood_comes_in(void)
{
    CHECK(with_change("\"device\":\"abacus 0\"",
                      "\"system\":\"d\xc3\xa9j\xc3\xa0 <b>'\",\"device\":\"abacus 0\"") == OK);
    CHECK(with_change("\"stale\":false", "\"stale\":true") == OK);
    CHECK(with_change("\"time_us\":1.000", "\"time_us\":999999999999.9999") == OK);
}

/* A table of three lines under a header that says so many. */
static int with_lines(const char *a, const char *b, const char *c, const char *clusters,
                      const char *entries)
{
    static const char header[] =
        "{\"format\":\"moetune-table\",\"version\":3,\"semantics\":1,\"clusters\":%s,\"entries\":%"
        "s,\"standings\":0,"
        "\"sha256\":\"0000000000000000000000000000000000000000000000000000000000000000\"}\n%s%s%s";
    struct store *store = new_store();
    struct import_result got;
    struct text t = { NULL, 0 };
    int length = asprintf(&t.bytes, header, clusters, entries, a, b, c), rc;

    CHECK(length > 0);
    t.size = (size_t)length;
    seal(t);
    log_enable(false);
    rc = take_in(store, t, &got);
    log_enable(true);
    store_close(store);
    free(t.bytes);
    return rc;
}

static void lines_are_in_order_once_and_all_used(void)
{
    struct store *store = new_store();
    struct cluster one = machine(0), two = machine(1);
    struct moe_shape shape = layer(0);
    struct entry_row e = { .window = 128,
                           .capacity = 1000,
                           .time_us = 1,
                           .default_us = 1,
                           .effort = "quick",
                           .search = "guided",
                           .decision = "default" };
    struct text t;
    char *line[5], *end = NULL, *both;

    CHECK(store_shape_add(store, &shape, &e.shape) == OK && moe_plan_parse("r=1", &e.plan) == OK);
    for (e.bucket = 0; e.bucket < 2; e.bucket++)
        CHECK(store_cluster_add(store, &one, &e.cluster) == OK &&
              store_entry_put(store, &e, "") == OK);
    CHECK(store_cluster_add(store, &two, &e.cluster) == OK && store_entry_put(store, &e, "") == OK);
    t = export_of(store, false);
    for (int i = 0; i < 5; i++) {
        char *at = line_of(t, i < 2 ? "{\"fingerprint\"" : "{\"cluster\"", i < 2 ? i : i - 2, &end);

        line[i] = strndup(at, (size_t)(end - at));
    }
    /* Which of the two clusters comes first is up to their hashes: the first has one or two. */
    if (!strncmp(line[2] + 12, line[3] + 12, 64)) {
        CHECK(with_lines(line[0], line[2], line[3], "1", "2") == OK);
        CHECK(with_lines(line[0], line[3], line[2], "1", "2") == ERR_FORMAT);
        CHECK(with_lines(line[0], line[2], line[2], "1", "2") == ERR_FORMAT);
    } else {
        CHECK(with_lines(line[1], line[3], line[4], "1", "2") == OK);
        CHECK(with_lines(line[1], line[4], line[3], "1", "2") == ERR_FORMAT);
        CHECK(with_lines(line[1], line[3], line[3], "1", "2") == ERR_FORMAT);
    }
    CHECK(with_lines(line[0], line[1], line[2], "2", "1") == ERR_FORMAT); /* nobody's cluster */
    CHECK(with_lines(line[1], line[0], line[2], "2", "1") == ERR_FORMAT);
    CHECK(asprintf(&both, "%s%s", line[0], line[1]) > 0);
    CHECK(with_lines(both, line[2], line[4], "2", "2") == OK);
    CHECK(with_lines(both, line[4], line[2], "2", "2") == ERR_FORMAT);
    end = line[4]; /* of the second cluster, of the first again */
    CHECK(asprintf(&line[4], "%s%s", end, line[3]) > 0);
    if (!strncmp(line[2] + 12, line[3] + 12, 64))
        CHECK(with_lines(both, line[2], line[4], "2", "3") == ERR_FORMAT);
    free(end);
    free(both);
    CHECK(with_lines(line[0], line[2], "", "1", "1") == OK);
    CHECK(with_lines(line[0], line[2], "", "1", "2") == ERR_FORMAT);
    for (int i = 0; i < 5; i++)
        free(line[i]);
    free(t.bytes);
    store_close(store);
}

static void decisions_are_known_words(void)
{
    static const char *const known[] = { "likely", "default",  "incumbent", "alone",
                                         "static", "inferred", "refuted",   "tie" };
    static const char *const others[] = { "", "Adopted", "adopted ", "none", "search", "adopte" };
    char to[64];

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        snprintf(to, sizeof(to), "\"decision\":\"%s\"", known[i]);
        CHECK(with_change("\"decision\":\"adopted\"", to) == OK);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        snprintf(to, sizeof(to), "\"decision\":\"%s\"", others[i]);
        CHECK(with_change("\"decision\":\"adopted\"", to) == ERR_FORMAT);
        CHECK(!strcmp(said, "test, line 3: \"decision\" is no decision"));
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(every_flipped_byte_is_refused),
        TEST(every_cut_is_refused),
        TEST(damage_behind_the_checksum_is_refused_or_harmless),
        TEST(what_is_not_understood_is_refused),
        TEST(what_is_understood_comes_in),
        TEST(lines_are_in_order_once_and_all_used),
        TEST(decisions_are_known_words),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), draw_from_seed);
}
