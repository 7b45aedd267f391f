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
    return draw(10) ? (1 + draw(1000000)) * 0.001 : (double)NAN;
}

static struct entry_row draw_entry(const struct moe_shape *shape)
{
    static const char *const efforts[] = { "quick", "normal", "thorough" };
    static const char *const decisions[] = { "adopted", "likely", "default",  "incumbent", "alone",
                                             "static",  "tie",    "inferred", "refuted" };
    struct entry_row e = { .window = 128,
                           .bucket = draw(6),
                           .plan = draw_plan(shape),
                           .time_us = draw_time(),
                           .low_us = draw_time(),
                           .high_us = draw_time(),
                           .default_us = draw_time(),
                           .gain = 1 - draw_time(),
                           .gain_low = -draw_time(),
                           .gain_high = 1 - draw_time(),
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
    return e;
}

/* As rounds here decided it, now and then before one of its entries, or not yet. */
static struct standing_row draw_standing(const struct moe_shape *shape)
{
    double gain = draw(1000000) * 1e-7, width = draw(100) * 1e-5;
    struct standing_row row = { .run = 1,
                                .window = 128,
                                .gain = gain,
                                .gain_low = gain - width,
                                .gain_high = gain + width / 3,
                                .static_gain = NAN,
                                .static_gain_low = NAN,
                                .static_gain_high = NAN,
                                .rounds = draw(8),
                                .first_round = 1000,
                                .rivals = "r=1 d=1 a=linear",
                                .decided_s = draw(4) ? 1000 + draw(6) : 0 };

    if (draw(2)) {
        row.static_gain = row.static_gain_low = -gain;
        row.static_gain_high = 0;
        row.static_plan = draw_plan(shape);
    }
    return row;
}

static void fill_standings(struct store *store)
{
    for (uint32_t i = 0; i < 4; i++) {
        struct cluster cluster = machine(i & 1);
        struct moe_shape shape = layer(i >> 1);
        struct standing_row row = draw_standing(&shape);

        CHECK(store_cluster(store, &cluster, &row.cluster) == OK);
        CHECK(store_shape(store, &shape, &row.shape) == OK);
        CHECK(store_standing(store, &row) == OK);
    }
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
    fill_standings(store);
    CHECK(store_commit(store) == OK);
}

static struct text export_with(struct store *store, struct export_options options)
{
    struct text t = { NULL, 0 };
    FILE *memory = open_memstream(&t.bytes, &t.size);

    CHECK(export_lines(store, &options, memory) == OK);
    fclose(memory);
    return t;
}

static struct text export_of(struct store *store, bool identify)
{
    return export_with(store, (struct export_options){ .identify = identify });
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

/* Else what a table says of itself would be another table. */
static void more_digits_than_are_written_make_no_difference(void)
{
    static const char *const finer[][2] = {
        { "\"time_us\":1.000", "\"time_us\":1.0004" },
        { "\"gain\":0.000000", "\"gain\":0.0000007" },
        { "\"gain\":0.000000", "\"gain\":123456789012.123456" },
        { "\"bound\":0.000000", "\"bound\":-0.0000001" },
        { "\"time_us\":1.000", "\"time_us\":999999999999.9999" },
    };

    for (size_t i = 0; i < sizeof(finer) / sizeof(finer[0]); i++) {
        struct text t = table_of("r=2", false, "normal", 7);
        struct text fine = changed(t, finer[i][0], finer[i][1]), own;
        struct store *store = new_store();
        struct import_result got;

        CHECK(take_in(store, fine, &got) == OK && got.added == 1);
        own = export_of(store, false);
        CHECK(take_in(store, own, &got) == OK && got.same == 1);
        store_close(store);
        free(t.bytes);
        free(fine.bytes);
        free(own.bytes);
    }
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
        CHECK(store_dry_run(path, &rehearsal) == OK);
        CHECK(take_in(rehearsal, t, &got) == OK && !got.known);
        store_close(rehearsal);
    }
    after = export_of(store, false);
    CHECK(equal(before, after));
    CHECK(take_in(store, t, &again) == OK && !memcmp(&got, &again, sizeof(got)));
    store_close(store);
    snprintf(path, sizeof(path), "%s/none.db", folder);
    CHECK(store_dry_run(path, &rehearsal) == OK && take_in(rehearsal, t, &got) == OK);
    store_close(rehearsal);
    CHECK(access(path, F_OK));
    free(before.bytes);
    free(after.bytes);
    free(t.bytes);
}

/* ---- standings */

static struct standing_row a_standing(int64_t decided_s)
{
    struct standing_row row = { .run = 9,
                                .window = 128,
                                .gain = 0.25,
                                .gain_low = 0.125,
                                .gain_high = 0.5,
                                .static_gain = -0.01,
                                .static_gain_low = -0.02,
                                .static_gain_high = 0,
                                .rounds = 8,
                                .first_round = 24,
                                .rivals = "r=0 d=1 a=linear",
                                .decided_s = decided_s };

    CHECK(moe_plan_parse("r=0 d=1 a=linear", &row.static_plan) == OK);
    return row;
}

static void put_standing(struct store *store, struct standing_row row)
{
    struct cluster cluster = machine(0);
    struct moe_shape shape = layer(0);

    CHECK(store_cluster(store, &cluster, &row.cluster) == OK);
    CHECK(store_shape(store, &shape, &row.shape) == OK);
    CHECK(store_standing(store, &row) == OK && store_commit(store) == OK);
}

/* Its date; 0: there is none. */
static int64_t standing_of(struct store *store, struct standing_row *row)
{
    struct cluster cluster = machine(0);
    struct moe_shape shape = layer(0);
    int64_t c, s;

    *row = (struct standing_row){ .decided_s = 0 };
    CHECK(store_find(store, &cluster, &shape, &c, &s) == OK);
    CHECK(store_standing_get(store, c, s, 128, row) >= 0);
    return row->decided_s;
}

static struct text table_with(const char *plan, const char *effort, struct standing_row row)
{
    struct store *store = new_store();
    struct text t;

    put_entry(store, plan, false, effort, 7);
    put_standing(store, row);
    t = export_of(store, false);
    store_close(store);
    return t;
}

static bool has(struct text t, const char *words)
{
    return memmem(t.bytes, t.size, words, strlen(words)) != NULL;
}

static void a_standing_travels_with_its_table(void)
{
    struct text t = table_with("r=2", "normal", a_standing(10)), again;
    struct standing_row was = a_standing(10), is;
    struct store *store = new_store();
    struct cluster other = machine(1);
    struct import_result got;
    int64_t id;

    CHECK(has(t, "{\"standing_of\":") && has(t, "\"standings\":1,"));
    CHECK(take_in(store, t, &got) == OK && got.standings == 1 && got.added == 1);
    CHECK(standing_of(store, &is) == 10 && is.run == 0 && is.rounds == 8 && !is.first_round);
    CHECK(is.gain == was.gain && is.gain_low == was.gain_low && is.gain_high == was.gain_high);
    CHECK(is.static_gain == was.static_gain && is.static_gain_low == was.static_gain_low);
    CHECK(is.static_gain_high == 0 && plan_equal(&is.static_plan, &was.static_plan));
    CHECK(!*is.rivals); /* those are for samples that stayed at home */
    CHECK(store_cluster(store, &other, &id) == OK);
    CHECK(store_standing_get(store, id, is.shape, 128, &is) == UNSUPPORTED);
    again = export_of(store, false);
    CHECK(equal(t, again));
    store_close(store);
    free(t.bytes);
    free(again.bytes);
}

static void a_standing_that_cannot_be_true_stays_at_home(void)
{
    struct standing_row rows[7];

    for (int i = 0; i < 7; i++)
        rows[i] = a_standing(10);
    rows[0].decided_s = 0;
    rows[1].decided_s = 6; /* its entry is of 7 */
    rows[2].rounds = 0;    /* the table is the default plan: nothing was measured */
    rows[3].gain = rows[3].gain_low = rows[3].gain_high = NAN;
    rows[3].static_gain = rows[3].static_gain_low = rows[3].static_gain_high = NAN;
    rows[4].static_plan.struct_size = 0;
    rows[5].gain_low = -1e10; /* more digits than are written */
    rows[6].gain = 0.75;
    for (int i = 0; i < 7; i++) {
        struct text t = table_with("r=2", "normal", rows[i]);

        CHECK(!has(t, "standing_of") && has(t, "\"standings\":0,"));
        free(t.bytes);
    }
}

static void the_later_standing_stays_whichever_comes_first(void)
{
    struct text early = table_with("r=2", "normal", a_standing(10));
    struct text late = table_with("r=2", "normal", a_standing(11));
    struct text el = merge_of(early, late), le = merge_of(late, early);

    CHECK(equal(el, late) && equal(le, late));
    free(early.bytes);
    free(late.bytes);
    free(el.bytes);
    free(le.bytes);
}

static void of_two_standings_of_one_date_the_same_one_stays(void)
{
    struct standing_row more = a_standing(10);
    struct text a = table_with("r=2", "normal", more), b, ab, ba;

    more.gain_high = 0.500001;
    b = table_with("r=2", "normal", more);
    ab = merge_of(a, b);
    ba = merge_of(b, a);
    CHECK(!equal(a, b) && equal(ab, ba));
    free(a.bytes);
    free(b.bytes);
    free(ab.bytes);
    free(ba.bytes);
}

/* Of tables that differ, in every order of imports. */
static void a_standing_stays_beside_its_own_table_only(void)
{
    enum { TABLES = 4, ORDERS = 24 };
    struct text tables[TABLES] = {
        table_with("r=1", "normal", a_standing(30)),
        table_of("r=2", false, "thorough", 7), /* the best entry, without a standing */
        table_with("r=2", "thorough", a_standing(20)),
        table_with("r=4", "quick", a_standing(40)),
    };

    for (int order = 0; order < ORDERS; order++) {
        int left[TABLES] = { 0, 1, 2, 3 }, code = order;
        struct store *store = new_store();
        struct text t;

        for (int n = TABLES; n > 0; n--) {
            struct import_result got;
            int at = code % n;

            CHECK(take_in(store, tables[left[at]], &got) == OK);
            code /= n;
            memmove(&left[at], &left[at + 1], (size_t)(n - at - 1) * sizeof(*left));
        }
        t = export_of(store, false);
        CHECK(equal(t, tables[2]));
        store_close(store);
        free(t.bytes);
    }
    for (int i = 0; i < TABLES; i++)
        free(tables[i].bytes);
}

/* One table with a bucket more than the other, which has a standing. */
static void a_standing_of_fewer_buckets_says_nothing_of_more(void)
{
    struct text few = table_with("r=2", "normal", a_standing(10)), more, fm, mf;
    struct store *store = new_store();
    struct entry_row e;

    put_entry(store, "r=2", false, "normal", 7);
    e = only_entry(store);
    e.bucket = 1;
    e.capacity = 255;
    CHECK(store_entry(store, &e, "test") == OK);
    more = export_of(store, false);
    store_close(store);
    fm = merge_of(few, more);
    mf = merge_of(more, few);
    CHECK(equal(fm, more) && equal(mf, more));
    free(few.bytes);
    free(more.bytes);
    free(fm.bytes);
    free(mf.bytes);
}

static void a_standing_measured_here_stays(void)
{
    struct text t = table_with("r=2", "normal", a_standing(1000));
    struct standing_row row = a_standing(0);
    struct store *store = new_store();
    struct import_result got;

    put_entry(store, "r=1", false, "quick", 7);
    put_standing(store, a_standing(8));
    CHECK(take_in(store, t, &got) == OK && got.standings == 0);
    CHECK(standing_of(store, &row) == 8 && row.run == 9 && row.first_round == 24);
    store_close(store);
    free(t.bytes);
}

/* Even where all entries came in, and while its rounds are not complete. */
static void rounds_that_began_here_stay(void)
{
    struct text t = table_with("r=2", "normal", a_standing(1000));
    struct text first = table_of("r=2", false, "normal", 7);
    struct standing_row row = a_standing(0);
    struct store *store = new_store();
    struct import_result got;

    CHECK(take_in(store, first, &got) == OK);
    put_standing(store, row);
    CHECK(take_in(store, t, &got) == OK && got.same == 1 && got.standings == 0);
    CHECK(standing_of(store, &row) == 0 && row.run == 9 && row.first_round == 24);
    store_close(store);
    free(first.bytes);
    free(t.bytes);
}

static void beside_an_entry_of_our_own_an_imported_standing_says_nothing(void)
{
    struct text t = table_with("r=2", "normal", a_standing(10));
    struct standing_row row;
    struct import_result got;

    for (int before = 0; before < 2; before++) {
        struct store *store = new_store();

        if (before)
            put_entry(store, "r=1", false, "quick", 1);
        CHECK(take_in(store, t, &got) == OK && got.standings == (uint32_t)!before);
        if (!before)
            put_entry(store, "r=1", false, "quick", 1);
        CHECK(standing_of(store, &row) == 0);
        store_close(store);
    }
    free(t.bytes);
}

static void an_imported_standing_ends_with_its_table_and_our_own_does_not(void)
{
    struct text t = table_with("r=2", "normal", a_standing(10));
    struct standing_row row;
    struct import_result got;

    for (int own = 0; own < 2; own++) {
        struct store *store = new_store();
        struct entry_row e;

        CHECK(take_in(store, t, &got) == OK && standing_of(store, &row) == 10);
        if (own)
            put_standing(store, a_standing(12));
        e = only_entry(store);
        CHECK(store_expire(store, e.cluster, e.shape, 64, 0, UINT32_MAX, "test") == OK);
        CHECK(standing_of(store, &row) == (own ? 12 : 10)); /* of another width */
        CHECK(store_entry_end(store, &e, "test") == OK);
        CHECK(standing_of(store, &row) == (own ? 12 : 0));
        store_close(store);
    }
    free(t.bytes);
}

/* The journal knows of the end, too. */
static void a_standing_that_ended_does_not_come_back_from_the_journal(void)
{
    struct text t = table_with("r=2", "normal", a_standing(10));
    struct store *store = new_store();
    struct standing_row row;
    struct import_result got;
    char path[128];

    last_path(path, sizeof(path));
    CHECK(take_in(store, t, &got) == OK);
    put_entry(store, "r=1", false, "quick", 1);
    store_close(store);
    CHECK(truncate(path, 5000) == 0);
    log_only(false);
    CHECK(store_open(path, STORE_RELAXED | STORE_REPAIR, &store) == OK);
    log_only(true);
    CHECK(only_entry(store).plan.r == 1 && standing_of(store, &row) == 0);
    store_close(store);
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

static char said[1024]; /* why the last table was refused */

static void keep_words(void *self, const char *format, va_list args)
{
    (void)self;
    vsnprintf(said, sizeof(said), format, args);
}

/* Of a table that is freed. */
static int with_change_of(struct text t, const char *from, const char *to)
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

static int with_change(const char *from, const char *to)
{
    return with_change_of(table_of("r=2 d=2 a=2dh", false, "normal", 7), from, to);
}

static void what_is_not_understood_is_refused(void)
{
    static const char *const changes[][2] = {
        { "moetune-table", "moetune-tables" },
        { "\"version\":3", "\"version\":4" },
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
        { "\"default_us\":2.000", "\"default_us\":0.000" },
        { "\"gain\":0.0", "\"gain\":1.5" },
        { "\"gain_low\":0.0", "\"gain_low\":1.5" },
        { "\"gain_high\":0.0", "\"gain_high\":1.5" },
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
    struct entry_row e = { .window = 128,
                           .capacity = 1000,
                           .time_us = 1,
                           .default_us = 1,
                           .effort = "quick",
                           .search = "guided",
                           .decision = "default" };
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

#define GAINS "\"gain\":0.250000,\"gain_low\":0.125000,\"gain_high\":0.500000"
#define OVER_STATIC                                                                                \
    "\"static_gain\":-0.010000,\"static_gain_low\":-0.020000,\"static_gain_high\":0.000000"
#define NO_GAINS "\"gain\":null,\"gain_low\":null,\"gain_high\":null"
#define NOT_OVER_STATIC "\"static_gain\":null,\"static_gain_low\":null,\"static_gain_high\":null"
#define STATIC_PLAN "\"static_plan\":\"r=0 d=1 a=linear\""

static int with_standing_change(const char *from, const char *to)
{
    return with_change_of(table_with("r=2 d=2 a=2dh", "normal", a_standing(10)), from, to);
}

static void a_standing_that_no_rounds_can_have_said_is_refused(void)
{
    static const char *const changes[][2] = {
        { "\"gain\":0.250000", "\"gain\":0.500001" },
        { "\"gain\":0.250000", "\"gain\":0.124999" },
        { "\"gain\":0.250000", "\"gain\":null" },
        { "\"gain\":0.250000", "\"gain\":NaN" },
        { "\"gain\":0.250000", "\"gain\":\"0.25\"" },
        { "\"gain\":0.250000", "\"gain\":0.25,\"gain\":0.25" },
        { "\"gain_low\":0.125000", "\"gain_low\":null" },
        { "\"gain_low\":0.125000", "\"gain_low\":-1e7" },
        { "\"gain_low\":0.125000", "\"gain_low\":-1e999" },
        { "\"gain_high\":0.500000", "\"gain_high\":1.000001" },
        { "\"gain_high\":0.500000", "\"gain_high\":null" },
        { GAINS, "\"gain\":2,\"gain_low\":2,\"gain_high\":2" },
        { "\"static_gain\":-0.010000", "\"static_gain\":null" },
        { "\"static_gain\":-0.010000", "\"static_gain\":0.1" },
        { "\"static_gain_high\":0.000000", "\"static_gain_high\":1.1" },
        { GAINS "," OVER_STATIC "," STATIC_PLAN,
          NO_GAINS "," NOT_OVER_STATIC ",\"static_plan\":null" },
        { OVER_STATIC, NOT_OVER_STATIC },
        { STATIC_PLAN, "\"static_plan\":null" },
        { STATIC_PLAN, "\"static_plan\":\"r=0 d=2 a=linear\"" },
        { STATIC_PLAN, "\"static_plan\":\"r=3 d=1 a=linear\"" },
        { STATIC_PLAN, "\"static_plan\":\"fast\"" },
        { "\"rounds\":8", "\"rounds\":0" },
        { "\"rounds\":8", "\"rounds\":-8" },
        { "\"rounds\":8", "\"rounds\":0.5" },
        { "\"rounds\":8", "\"rounds\":4294967296" },
        { "\"rounds\":8,", "" },
        { "\"rounds\":8", "\"rounds\":8,\"rivals\":\"r=1\"" },
        { "\"rounds\":8,\"decided_s\":10", "\"rounds\":8,\"decided_s\":0" },
        { "\"rounds\":8,\"decided_s\":10", "\"rounds\":8,\"decided_s\":1e13" },
        { "128,\"gain\":0.25", "64,\"gain\":0.25" }, /* no such table */
        { "{\"standing_of\":\"", "{\"standing_of\":\"0" },
        { "{\"standing_of\":", "{\"standing\":" },
        { "\"standings\":1", "\"standings\":2" },
        { "\"version\":3,\"semantics\":1,\"clusters\":1,\"entries\":1,\"standings\":1,",
          "\"version\":2,\"semantics\":1,\"clusters\":1,\"entries\":1," },
    };

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        if (with_standing_change(changes[i][0], changes[i][1]) != ERR_FORMAT) {
            printf("    taken in: %s\n", changes[i][1]);
            CHECK(!"refused");
        }
    CHECK(with_standing_change("\"gain_high\":0.500000", "\"gain_high\":1") == OK);
    CHECK(with_standing_change("\"gain\":0.250000", "\"gain\":0.500000") == OK);
    CHECK(with_standing_change(GAINS, NO_GAINS) == OK);
    CHECK(with_standing_change(OVER_STATIC "," STATIC_PLAN,
                               NOT_OVER_STATIC ",\"static_plan\":null") == OK);
    CHECK(with_standing_change("\"rounds\":8", "\"rounds\":0") == ERR_FORMAT);
    CHECK(!strcmp(said, "test, line 4: \"rounds\" is 0"));
}

/* Of two layers the first one alone has a standing: the last line. */
static void standings_come_once_and_after_all_entries(void)
{
    static const char count[] = "\"standings\":1";
    struct store *store = new_store();
    struct text t, two;
    struct entry_row e;
    struct moe_shape shape = layer(1);
    char *end = NULL, *second, *entry, *standing, *text, *other;

    put_entry(store, "r=2", false, "normal", 7);
    put_standing(store, a_standing(10));
    e = only_entry(store);
    CHECK(store_shape(store, &shape, &e.shape) == OK && store_entry(store, &e, "test") == OK);
    t = export_of(store, false);
    store_close(store);
    second = line_of(t, "{\"cluster\"", 1, &end);
    entry = strndup(second, (size_t)(end - second));
    standing = strndup(end, (size_t)(t.bytes + t.size - end));
    two = changed(t, count, "\"standings\":2");

    CHECK(asprintf(&text, "%s%s", standing, standing) > 0);
    CHECK(with_change_of(two, standing, text) == ERR_FORMAT && strstr(said, "line 6: "));
    CHECK(strstr(said, "comes twice") != NULL);
    free(text);
    CHECK(asprintf(&text, "%s%s", entry, standing) > 0);
    CHECK(asprintf(&other, "%s%s", standing, entry) > 0);
    CHECK(with_change_of(t, text, other) == ERR_FORMAT && strstr(said, "line 5: "));
    CHECK(strstr(said, "comes after standings") != NULL);
    free(text);
    free(other);
    free(entry);
    free(standing);
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

/* ---- samples, and what older versions said */

static struct text table_with_sample(enum sample_kind kind)
{
    struct sample_row sample = { .kind = kind, .round = 24, .ns = 1000, .lost_ns = 77, .run = 9 };
    struct store *store = new_store();
    struct trial_row trial = { .capacity = 127, .state = TRIAL_OK };
    struct entry_row e;
    struct text t;

    put_entry(store, "r=2", false, "normal", 7);
    put_standing(store, a_standing(10));
    e = only_entry(store);
    trial.key = (struct trial_key){ e.cluster, e.shape, e.window, e.bucket, e.plan };
    CHECK(store_trial_begin(store, &trial) == OK);
    CHECK(store_sample(store, trial.id, &sample) == OK);
    t = export_with(store, (struct export_options){ .full = true });
    store_close(store);
    return t;
}

static void samples_say_what_others_took_and_of_which_rounds_they_are(void)
{
    struct text t = table_with_sample(SAMPLE_ROUNDS);

    CHECK(has(t, "\"kind\":3,\"round\":24,\"ns\":1000,") && has(t, ",\"lost_ns\":77}\n"));
    free(t.bytes);
    t = table_with_sample(SAMPLE_ROUNDS);
    CHECK(with_change_of(t, "\"lost_ns\":77", "\"lost_ns\":78") == OK);
    t = table_with_sample(SAMPLE_ROUNDS);
    CHECK(with_change_of(t, "\"lost_ns\":77", "\"lost_ns\":-1") == ERR_FORMAT);
    t = table_with_sample(SAMPLE_ROUNDS);
    CHECK(with_change_of(t, ",\"lost_ns\":77", "") == ERR_FORMAT);
    t = table_with_sample(SAMPLE_ROUNDS);
    CHECK(with_change_of(t, "\"kind\":3", "\"kind\":4") == ERR_FORMAT);
}

static struct text read_frozen(int version, const char *part)
{
    struct text t = { malloc(1 << 20), 0 };
    char path[80];
    FILE *file;

    snprintf(path, sizeof(path), "tests/data/corpus/import/version-%d%s.jsonl", version, part);
    file = fopen(path, "r");
    CHECK(file != NULL);
    if (file) {
        t.size = fread(t.bytes, 1, 1 << 20, file);
        fclose(file);
    }
    return t;
}

static struct text body_of(struct text t)
{
    char *body = (char *)memchr(t.bytes, '\n', t.size) + 1;

    return (struct text){ body, t.size - (size_t)(body - t.bytes) };
}

/* The tables of version 1 are those of version 2 before any step was held back. */
static struct text without_throttled(struct text t)
{
    static const char held_back[] = "\"throttled\":7}";
    char *at;

    while ((at = memmem(t.bytes, t.size, held_back, strlen(held_back))))
        at[strlen(held_back) - 2] = '0';
    return t;
}

/* And says the same in the words of today, whether it came in with samples or without. */
static void what_was_once_exported_comes_in(void)
{
    for (int version = 1; version <= EXPORT_VERSION; version++) {
        struct text t = read_frozen(version, ""), full = read_frozen(version, "-full"), a, b;
        struct text now = version == 1 ? without_throttled(read_frozen(2, "")) : t;
        struct store *store = new_store(), *other = new_store();
        struct import_result got = { 0 };

        CHECK(take_in(store, t, &got) == OK && got.added == got.entries && got.entries > 15);
        CHECK((got.standings > 1) == (version == 3));
        CHECK(take_in(other, full, &got) == OK && got.added == got.entries);
        a = export_of(store, true);
        b = export_of(other, true);
        CHECK(equal(a, b) && equal(body_of(a), body_of(now)));
        store_close(store);
        store_close(other);
        if (version == 1)
            free(now.bytes);
        free(t.bytes);
        free(full.bytes);
        free(a.bytes);
        free(b.bytes);
    }
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
        TEST(more_digits_than_are_written_make_no_difference),
        TEST(a_cluster_is_elsewhere_until_it_is_found_to_be_here),
        TEST(a_rehearsal_says_what_would_happen_and_leaves_no_trace),
        TEST(a_standing_travels_with_its_table),
        TEST(a_standing_that_cannot_be_true_stays_at_home),
        TEST(the_later_standing_stays_whichever_comes_first),
        TEST(of_two_standings_of_one_date_the_same_one_stays),
        TEST(a_standing_stays_beside_its_own_table_only),
        TEST(a_standing_of_fewer_buckets_says_nothing_of_more),
        TEST(a_standing_measured_here_stays),
        TEST(rounds_that_began_here_stay),
        TEST(beside_an_entry_of_our_own_an_imported_standing_says_nothing),
        TEST(an_imported_standing_ends_with_its_table_and_our_own_does_not),
        TEST(a_standing_that_ended_does_not_come_back_from_the_journal),
        TEST(every_flipped_byte_is_refused),
        TEST(every_cut_is_refused),
        TEST(damage_behind_the_checksum_is_refused_or_harmless),
        TEST(what_is_not_understood_is_refused),
        TEST(lines_are_in_order_once_and_all_used),
        TEST(a_standing_that_no_rounds_can_have_said_is_refused),
        TEST(standings_come_once_and_after_all_entries),
        TEST(decisions_are_known_words),
        TEST(samples_say_what_others_took_and_of_which_rounds_they_are),
        TEST(what_was_once_exported_comes_in),
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
