/* Tables that travel: the same bytes wherever they come from, and nothing that is not understood.
 */
#include "check.h"

#include "cluster.h"
#include "export.h"
#include "import.h"
#include "plan.h"
#include "random.h"
#include "sha256.h"
#include "shape.h"
#include "status.h"
#include "store.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char folder[64];
static uint64_t seed, drawn;

static uint32_t draw(uint32_t below)
{
    return (uint32_t)random_below(seed, drawn++, below);
}

/* ---- databases */

struct text {
    char *bytes;
    size_t size;
};

static int stores;

/* The one that was made last. */
static void last_path(char *path, size_t size)
{
    snprintf(path, size, "%s/%d.db", folder, stores);
}

static struct store *new_store(void)
{
    struct store *store = NULL;
    char path[128];

    stores++;
    last_path(path, sizeof(path));
    CHECK(store_open(path, STORE_RELAXED, &store) == OK);
    return store;
}

static struct cluster machine(uint32_t number)
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

static struct moe_shape layer(uint32_t number)
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

static struct moe_plan draw_plan(const struct moe_shape *shape)
{
    struct moe_plan plans[64];
    size_t n = plan_list(shape, plans, 64);

    return plans[draw((uint32_t)n)];
}

static double draw_time(void)
{
    return draw(10) ? draw(1000000) * 0.001 : (double)NAN;
}

static struct entry_row draw_entry(const struct moe_shape *shape)
{
    static const char *const efforts[] = { "quick", "normal", "thorough" };
    struct entry_row e = { .window = 128,
                           .bucket = draw(6),
                           .capacity = 127,
                           .plan = draw_plan(shape),
                           .time_us = draw_time(),
                           .low_us = draw_time(),
                           .high_us = draw_time(),
                           .default_us = draw_time(),
                           .gain = draw_time(),
                           .gain_low = -draw_time(),
                           .gain_high = draw_time(),
                           .bound = draw_time(),
                           .samples = draw(3),
                           .inferred = draw(4) == 0,
                           .stale = draw(4) == 0,
                           .decided_s = 1000 + draw(3) };

    if (draw(2))
        e.runner_up = draw_plan(shape);
    snprintf(e.effort, sizeof(e.effort), "%s", efforts[draw(3)]);
    snprintf(e.search, sizeof(e.search), "guided");
    snprintf(e.reason, sizeof(e.reason), "certain");
    snprintf(e.decision, sizeof(e.decision), draw(2) ? "adopted" : "tie");
    return e;
}

static void fill(struct store *store, int entries)
{
    for (int i = 0; i < entries; i++) {
        struct cluster cluster = machine(draw(2));
        struct moe_shape shape = layer(draw(2));
        struct entry_row e = draw_entry(&shape);

        CHECK(store_cluster(store, &cluster, &e.cluster) == OK);
        CHECK(store_shape(store, &shape, &e.shape) == OK);
        CHECK(store_entry(store, &e, "test") == OK);
    }
    CHECK(store_commit(store) == OK);
}

static struct text export_of(struct store *store, bool identify)
{
    struct export_options options = { .identify = identify };
    struct text t = { NULL, 0 };
    FILE *memory = open_memstream(&t.bytes, &t.size);

    CHECK(export_lines(store, &options, memory) == OK);
    fclose(memory);
    return t;
}

static struct text some_table(int entries)
{
    struct store *store = new_store();
    struct text t;

    fill(store, entries);
    t = export_of(store, false);
    store_close(store);
    return t;
}

static int take_in(struct store *store, struct text t, struct import_result *result)
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
static void seal(struct text t)
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
static struct text changed(struct text t, const char *from, const char *to)
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

static bool equal(struct text a, struct text b)
{
    return a.size == b.size && !memcmp(a.bytes, b.bytes, a.size);
}

/* ---- round trips */

static void what_comes_in_goes_out_as_the_same_bytes(void)
{
    for (int i = 0; i < 50; i++) {
        struct text t = some_table(1 + (int)draw(40)), again;
        struct store *store = new_store();
        struct import_result got = { 0 };

        CHECK(take_in(store, t, &got) == OK && got.added == got.entries);
        again = export_of(store, false);
        CHECK(equal(t, again));
        CHECK(take_in(store, t, &got) == OK && got.known);
        store_close(store);
        free(again.bytes);
        free(t.bytes);
    }
}

static void any_order_of_imports_gives_the_same_bytes(void)
{
    enum { TABLES = 5 };
    struct text tables[TABLES], first = { NULL, 0 };
    const char *given = getenv("MOETUNE_TEST_PERMUTATIONS");
    int permutations = given ? atoi(given) : 100;

    for (int i = 0; i < TABLES; i++)
        tables[i] = some_table(30);
    for (int p = 0; p < permutations; p++) {
        struct store *store = new_store();
        int order[TABLES];
        struct text t;

        for (int i = 0; i < TABLES; i++) {
            int j = (int)draw((uint32_t)i + 1);

            order[i] = order[j];
            order[j] = i;
        }
        for (int i = 0; i < TABLES; i++) {
            struct import_result got;

            CHECK(take_in(store, tables[order[i]], &got) == OK);
        }
        t = export_of(store, false);
        store_close(store);
        if (!p)
            first = t;
        CHECK(equal(first, t));
        if (p)
            free(t.bytes);
    }
    free(first.bytes);
    for (int i = 0; i < TABLES; i++)
        free(tables[i].bytes);
}

static void the_same_entries_written_in_another_order_are_the_same_bytes(void)
{
    uint64_t begin = drawn;
    struct text a = some_table(30), b;
    struct store *store = new_store();
    struct cluster other = machine(9);
    struct moe_shape shape = layer(9);
    int64_t id;

    /* Ids differ: something was there before. */
    CHECK(store_cluster(store, &other, &id) == OK && store_shape(store, &shape, &id) == OK);
    drawn = begin;
    fill(store, 30);
    b = export_of(store, false);
    CHECK(equal(a, b));
    store_close(store);
    free(a.bytes);
    free(b.bytes);
}

static void host_names_stay_at_home(void)
{
    struct store *store = new_store();
    struct text t, identified;

    fill(store, 5);
    t = export_of(store, false);
    identified = export_of(store, true);
    CHECK(!memmem(t.bytes, t.size, "secret", 6));
    CHECK(memmem(identified.bytes, identified.size, "secret", 6));
    CHECK(!memmem(t.bytes, t.size, folder, strlen(folder)));
    store_close(store);
    free(t.bytes);
    free(identified.bytes);
}

static void numbers_do_not_follow_the_locale(void)
{
    uint64_t begin = drawn;
    struct text a = some_table(10), b;

    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        printf("  skipped: a comma locale (none is installed)\n");
        free(a.bytes);
        return;
    }
    drawn = begin;
    b = some_table(10);
    setlocale(LC_ALL, "C");
    CHECK(equal(a, b));
    free(a.bytes);
    free(b.bytes);
}

/* ---- what answers, and which one stays */

static struct entry_row only_entry(struct store *store)
{
    struct cluster cluster = machine(0);
    struct moe_shape shape = layer(0);
    struct entry_row e = { 0 };
    int64_t c, s;

    CHECK(store_find(store, &cluster, &shape, &c, &s) == OK);
    CHECK(store_entry_get(store, c, s, 128, 0, &e) == OK);
    return e;
}

static void put_entry(struct store *store, const char *plan, bool stale, const char *effort,
                      int64_t decided_s)
{
    struct cluster cluster = machine(0);
    struct moe_shape shape = layer(0);
    struct entry_row e = { .window = 128,
                           .time_us = 1,
                           .default_us = 2,
                           .stale = stale,
                           .decided_s = decided_s,
                           .decision = "adopted",
                           .search = "guided",
                           .reason = "certain" };

    snprintf(e.effort, sizeof(e.effort), "%s", effort);
    CHECK(moe_plan_parse(plan, &e.plan) == OK);
    CHECK(store_cluster(store, &cluster, &e.cluster) == OK);
    CHECK(store_shape(store, &shape, &e.shape) == OK);
    CHECK(store_entry(store, &e, "test") == OK && store_commit(store) == OK);
}

static struct text table_of(const char *plan, bool stale, const char *effort, int64_t decided_s)
{
    struct store *store = new_store();
    struct text t;

    put_entry(store, plan, stale, effort, decided_s);
    t = export_of(store, false);
    store_close(store);
    return t;
}

static void what_was_measured_here_stays(void)
{
    struct store *store = new_store();
    struct text t = table_of("r=2 d=2", false, "thorough", 9999);
    struct import_result got;

    put_entry(store, "r=1", true, "quick", 1);
    CHECK(take_in(store, t, &got) == OK && got.lost == 1 && got.conflicts == 1);
    CHECK(only_entry(store).plan.r == 1 && only_entry(store).tier == TIER_LOCAL);
    store_close(store);
    free(t.bytes);
}

static void of_two_imports_the_order_is_fixed(void)
{
    struct text tables[] = {
        table_of("r=1 d=1", true, "thorough", 9999),
        table_of("r=1 d=2", false, "quick", 1),
        table_of("r=1 d=4", false, "normal", 1),
        table_of("r=1 d=8", false, "normal", 2),
    };
    struct store *store = new_store();
    struct import_result got;

    for (uint32_t i = 0; i < 4; i++) {
        CHECK(take_in(store, tables[i], &got) == OK);
        CHECK(got.added == (i == 0) && got.replaced == (i > 0));
        CHECK(only_entry(store).plan.d == 1u << i && only_entry(store).tier == TIER_IMPORTED);
    }
    store_close(store);
    for (int i = 0; i < 4; i++)
        free(tables[i].bytes);
}

static struct text merge_of(struct text first, struct text second)
{
    struct store *store = new_store();
    struct import_result got;
    struct text t;

    CHECK(take_in(store, first, &got) == OK && take_in(store, second, &got) == OK);
    t = export_of(store, false);
    store_close(store);
    return t;
}

static void is_the_same_in_either_order(const char *was, const char *is, const char * or)
{
    struct text t = table_of("r=1", false, "normal", 1), a = changed(t, was, is);
    struct text b = changed(t, was, or), ab = merge_of(a, b), ba = merge_of(b, a);

    CHECK(equal(ab, ba));
    free(t.bytes);
    free(a.bytes);
    free(b.bytes);
    free(ab.bytes);
    free(ba.bytes);
}

static void the_least_difference_decides_the_same_in_either_order(void)
{
    is_the_same_in_either_order("\"time_us\":1.000", "\"time_us\":1000.001",
                                "\"time_us\":1000.002");
    is_the_same_in_either_order("\"gain\":0.000000", "\"gain\":-0", "\"gain\":0.1");
    is_the_same_in_either_order("\"effort\":\"normal\"", "\"effort\":\"some\"",
                                "\"effort\":\"any\"");
}

static int count_elsewhere(void *self, const struct cluster *cluster)
{
    (void)cluster;
    ++*(int *)self;
    return OK;
}

static void a_cluster_is_elsewhere_until_it_is_found_to_be_here(void)
{
    struct store *store = new_store();
    struct text t = table_of("r=2", false, "normal", 1);
    struct cluster here = machine(0);
    struct import_result got;
    int count = 0;
    int64_t id;

    CHECK(take_in(store, t, &got) == OK);
    CHECK(store_clusters_elsewhere(store, count_elsewhere, &count) == OK && count == 1);
    CHECK(store_cluster(store, &here, &id) == OK);
    count = 0;
    CHECK(store_clusters_elsewhere(store, count_elsewhere, &count) == OK && count == 0);
    store_close(store);
    free(t.bytes);
}

static void a_rehearsal_says_what_would_happen_and_leaves_no_trace(void)
{
    struct text t = some_table(10), before, after;
    struct store *store = new_store(), *rehearsal;
    struct import_result got, again;
    char path[128];

    put_entry(store, "r=1", false, "quick", 1);
    before = export_of(store, false);
    last_path(path, sizeof(path));
    for (int i = 0; i < 2; i++) {
        CHECK(store_rehearse(path, &rehearsal) == OK);
        CHECK(take_in(rehearsal, t, &got) == OK && !got.known);
        store_close(rehearsal);
    }
    after = export_of(store, false);
    CHECK(equal(before, after));
    CHECK(take_in(store, t, &again) == OK && !memcmp(&got, &again, sizeof(got)));
    store_close(store);
    snprintf(path, sizeof(path), "%s/none.db", folder);
    CHECK(store_rehearse(path, &rehearsal) == OK && take_in(rehearsal, t, &got) == OK);
    store_close(rehearsal);
    CHECK(access(path, F_OK));
    free(before.bytes);
    free(after.bytes);
    free(t.bytes);
}

/* ---- damage */

/* Refused, or as good as what any other site might have sent. */
static void is_refused_or_harmless(struct store *store, struct text t)
{
    struct import_result got = { 0 };
    int rc;

    log_only(false);
    rc = take_in(store, t, &got);
    log_only(true);
    CHECK(rc == OK || rc == ERR_FORMAT);
}

static void every_flipped_byte_is_refused(void)
{
    struct text t = some_table(4);
    struct store *store = new_store();

    for (size_t i = 0; i < t.size; i++) {
        struct import_result got = { 0 };
        char was = t.bytes[i];

        t.bytes[i] = (char)(was ^ (1 << draw(8)));
        log_only(false);
        CHECK(take_in(store, t, &got) != OK);
        log_only(true);
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

        log_only(false);
        CHECK(take_in(store, (struct text){ t.bytes, size }, &got) == ERR_FORMAT);
        log_only(true);
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
    struct text t = table_of("r=2 d=2 a=2dh", false, "normal", 7), c = changed(t, from, to);
    struct store *store = new_store();
    struct import_result got;
    int rc;

    log_only(false);
    rc = take_in(store, c, &got);
    log_only(true);
    store_close(store);
    free(t.bytes);
    free(c.bytes);
    return rc;
}

static void what_is_not_understood_is_refused(void)
{
    static const char *const changes[][2] = {
        { "moetune-table", "moetune-tables" },
        { "\"version\":2", "\"version\":3" },
        { "\"semantics\":1", "\"semantics\":2" },
        { "\"version\":2", "\"version\":0" },
        { "\"version\":2", "\"version\":1.5" },
        { "\"version\":2", "\"version\":\"2\"" },
        { "\"version\":2", "\"version\":1e999" },
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
        { "\"device\":\"abacus 0\"", "\"system\":\"\\u009b2J\",\"device\":\"abacus 0\"" },
        { "\"device\":\"abacus 0\"", "\"system\":\"\xff\",\"device\":\"abacus 0\"" },
        { "\"device\":\"abacus 0\"", "\"system\":\"\xc0\x80\",\"device\":\"abacus 0\"" },
        { "\"stale\":false", "\"stale\":0" },
        { "\"version\":2", "\"version\":1" }, /* whose lines have no throttled */
        { ",\"throttled\":0}", "}" },
        { "\"throttled\":0", "\"throttled\":-1" },
    };

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        if (with_change(changes[i][0], changes[i][1]) != ERR_FORMAT) {
            printf("    taken in: %s\n", changes[i][1]);
            CHECK(!"refused");
        }
    CHECK(with_change("\"device\":\"abacus 0\"",
                      "\"system\":\"d\xc3\xa9j\xc3\xa0 <b>'\",\"device\":\"abacus 0\"") == OK);
    CHECK(with_change("\"stale\":false", "\"stale\":true") == OK);
    CHECK(with_change("\"time_us\":1.000", "\"time_us\":999999999999.9999") == OK);
}

/* The n-th line of those that begin so; what follows its end. */
static char *line_of(struct text t, const char *begin, int n, char **end)
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

/* A table of three lines under a header that says so many. */
static int with_lines(const char *a, const char *b, const char *c, const char *clusters,
                      const char *entries)
{
    static const char header[] =
        "{\"format\":\"moetune-table\",\"version\":2,\"semantics\":1,\"clusters\":%s,\"entries\":%"
        "s,"
        "\"sha256\":\"0000000000000000000000000000000000000000000000000000000000000000\"}\n%s%s%s";
    struct store *store = new_store();
    struct import_result got;
    struct text t = { NULL, 0 };
    int length = asprintf(&t.bytes, header, clusters, entries, a, b, c), rc;

    CHECK(length > 0);
    t.size = (size_t)length;
    seal(t);
    log_only(false);
    rc = take_in(store, t, &got);
    log_only(true);
    store_close(store);
    free(t.bytes);
    return rc;
}

static void lines_are_in_order_once_and_all_used(void)
{
    struct store *store = new_store();
    struct cluster one = machine(0), two = machine(1);
    struct moe_shape shape = layer(0);
    struct entry_row e = { .window = 128, .effort = "quick", .search = "guided" };
    struct text t;
    char *line[5], *end = NULL, *both;

    CHECK(store_shape(store, &shape, &e.shape) == OK && moe_plan_parse("r=1", &e.plan) == OK);
    for (e.bucket = 0; e.bucket < 2; e.bucket++)
        CHECK(store_cluster(store, &one, &e.cluster) == OK && store_entry(store, &e, "") == OK);
    CHECK(store_cluster(store, &two, &e.cluster) == OK && store_entry(store, &e, "") == OK);
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

int main(void)
{
    static const struct test tests[] = {
        TEST(what_comes_in_goes_out_as_the_same_bytes),
        TEST(any_order_of_imports_gives_the_same_bytes),
        TEST(the_same_entries_written_in_another_order_are_the_same_bytes),
        TEST(host_names_stay_at_home),
        TEST(numbers_do_not_follow_the_locale),
        TEST(what_was_measured_here_stays),
        TEST(of_two_imports_the_order_is_fixed),
        TEST(the_least_difference_decides_the_same_in_either_order),
        TEST(a_cluster_is_elsewhere_until_it_is_found_to_be_here),
        TEST(a_rehearsal_says_what_would_happen_and_leaves_no_trace),
        TEST(every_flipped_byte_is_refused),
        TEST(every_cut_is_refused),
        TEST(damage_behind_the_checksum_is_refused_or_harmless),
        TEST(what_is_not_understood_is_refused),
        TEST(lines_are_in_order_once_and_all_used),
    };
    const char *given = getenv("MOETUNE_TEST_SEED");
    char command[100];
    int rc;

    seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    snprintf(folder, sizeof(folder), "/tmp/moetune-share-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    printf("  seed %llu\n", (unsigned long long)seed);
    rc = check_all(tests, sizeof(tests) / sizeof(tests[0]));
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    if (system(command))
        printf("  %s stays behind\n", folder);
    return rc;
}
