/* Tests standings in exported tables: which one stays, and which ones are refused. */
#include "share_tables.h"

#include <unistd.h>

/* ---- standings */

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
    CHECK(is.gain.value == was.gain.value && is.gain.low == was.gain.low &&
          is.gain.high == was.gain.high);
    CHECK(is.static_gain.value == was.static_gain.value &&
          is.static_gain.low == was.static_gain.low);
    CHECK(is.static_gain.high == 0 && plan_equal(&is.static_plan, &was.static_plan));
    CHECK(!*is.rivals); /* those are for samples that stayed at home */
    CHECK(store_cluster_add(store, &other, &id) == OK);
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
    rows[3].gain.value = rows[3].gain.low = rows[3].gain.high = NAN;
    rows[3].static_gain.value = rows[3].static_gain.low = rows[3].static_gain.high = NAN;
    rows[4].static_plan.struct_size = 0;
    rows[5].gain.low = -1e10; /* more digits than are written */
    rows[6].gain.value = 0.75;
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

    more.gain.high = 0.500001;
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
    CHECK(store_entry_put(store, &e, "test") == OK);
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
    log_enable(false);
    CHECK(store_open(path, STORE_RELAXED | STORE_REPAIR, &store) == OK);
    log_enable(true);
    CHECK(only_entry(store).plan.r == 1 && standing_of(store, &row) == 0);
    store_close(store);
    free(t.bytes);
}

/* ---- damage */

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
    CHECK(store_shape_add(store, &shape, &e.shape) == OK &&
          store_entry_put(store, &e, "test") == OK);
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
    CHECK(with_change_of(t, text, other) == ERR_FORMAT &&
          strstr(said, "line 5 comes after standings"));
    free(text);
    free(other);
    free(entry);
    free(standing);
}

int main(void)
{
    static const struct test tests[] = {
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
        TEST(a_standing_that_no_rounds_can_have_said_is_refused),
        TEST(standings_come_once_and_after_all_entries),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), draw_from_seed);
}
