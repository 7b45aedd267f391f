/* Tests look-ups where experts' capacities differ, on tables whose true times are known.  The
 * faster one of both kinds of plans answers, or the default plan where the table cannot tell. */
#include "lookup_tables.h"

enum { WINDOW = 64, FIRST = 8, LAST = 40, PER_TEST = 4000 };

/* Two experts on each of four ranks. */
static struct moe_shape two_each(uint32_t hidden)
{
    struct moe_shape shape = layer(hidden);

    shape.experts = 16;
    shape.tokens = 4096;
    return shape;
}

/* What the best plan of either kind takes at an equal capacity: r = 0 from c = 1000 on. */
static double tokens_us(double capacity)
{
    return 10 + 0.15 * capacity;
}

static double weights_us(double capacity)
{
    return 60 + 0.1 * capacity;
}

static double edge_of(uint32_t bucket)
{
    return (bucket + 1) * (double)WINDOW - 1;
}

/* An entry that knows both kinds. */
static struct entry_row known_entry(struct ids ids, uint32_t bucket)
{
    double tokens = tokens_us(edge_of(bucket)), weights = weights_us(edge_of(bucket));
    bool r0 = weights < tokens;
    struct entry_row e = entry_of(ids, WINDOW, bucket, r0 ? "r=0" : "r=1 d=4 a=linear");

    e.time_us = r0 ? weights : tokens;
    e.other = plan_of(r0 ? "r=1 d=4 a=linear" : "r=0");
    e.other_us = r0 ? tokens : weights;
    e.default_us = 1.25 * tokens;
    return e;
}

static void write_layer(const char *path, struct moe_shape shape,
                        void (*change)(struct entry_row *e))
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct store *store = new_store(path);
    struct ids ids = add_layer(store, &cluster, &shape);

    for (uint32_t b = FIRST; b <= LAST; b++) {
        struct entry_row e = known_entry(ids, b);

        if (change)
            change(&e);
        if (e.bucket == b)
            CHECK(!store_entry_put(store, &e, "measured"));
    }
    publish_and_close(store);
}

struct asked {
    struct moelookup *table;
    struct moelookup_view *view;
};

static struct asked open_layer(const char *path, struct moe_shape shape)
{
    struct asked a = { .table = open_table(path) };

    a.view = bind_layer(a.table, shape);
    return a;
}

static struct asked open_changed(void (*change)(struct entry_row *e))
{
    static int number;
    char name[32];

    snprintf(name, sizeof(name), "changed-%d.db", number++);
    write_layer(place(name), two_each(32), change);
    return open_layer(place(name), two_each(32));
}

static void close_layer(struct asked a)
{
    moelookup_view_free(a.view);
    moelookup_close(a.table);
}

static struct moe_plan ask_uneven(const struct moelookup_view *view, uint32_t key, uint32_t key_r0)
{
    struct moe_plan plan = MOE_PLAN_INIT;

    CHECK(moelookup_get_uneven(view, key, key_r0, &plan) == MOE_OK);
    return plan;
}

static bool near(double got, double want)
{
    if (fabs(got - want) <= 1e-5 * fabs(want))
        return true;
    printf("    %.9g, not %.9g\n", got, want);
    return false;
}

/* In the range of the table, and below it, where times are those of the line above. */
static void check_answers(const struct moelookup_view *view)
{
    int of_kind[2] = { 0 };

    for (int i = 0; i < PER_TEST; i++) {
        uint32_t key = 1 + draw((LAST + 1) * WINDOW - 1), key_r0 = 1 + draw(key);
        double tokens = tokens_us(key), weights = weights_us(key_r0);
        struct moe_plan plan = ask_uneven(view, key, key_r0);

        if (key / WINDOW == key_r0 / WINDOW || fabs(tokens / weights - 1) < 1e-4)
            continue;
        of_kind[plan.r == 0]++;
        CHECK(is_plan(&plan, tokens < weights ? "r=1 d=4 a=linear" : "r=0"));
        CHECK(near((double)plan.time_us, fmin(tokens, weights)));
        if (key / WINDOW > FIRST)
            CHECK(near((double)plan.default_us, 1.25 * tokens_us(edge_of(key / WINDOW)) * tokens /
                                                    tokens_us(edge_of(key / WINDOW))));
        CHECK(plan.source == ((plan.r ? key : key_r0) / WINDOW < FIRST ? MOE_CLAMPED : MOE_EXACT));
        CHECK(
            plan.bucket ==
            ((plan.r ? key : key_r0) / WINDOW < FIRST ? FIRST : (plan.r ? key : key_r0) / WINDOW));
    }
    CHECK(of_kind[0] > PER_TEST / 10 && of_kind[1] > PER_TEST / 10);
}

static void the_faster_kind_answers_at_its_own_capacity(void)
{
    struct asked a = open_changed(NULL);

    check_answers(a.view);
    close_layer(a);
}

static void packed_bytes_answer_the_same(void)
{
    struct asked a = open_changed(NULL), b;
    size_t size = 0, again = 0;
    char *bytes, *twice;

    CHECK(!moelookup_pack(a.table, NULL, &size));
    bytes = malloc(size);
    CHECK(!moelookup_pack(a.table, bytes, &size));
    CHECK(bytes[8] == 6 && size == 64 + 236 + 32 * (LAST - FIRST + 1));
    CHECK(!moelookup_unpack(bytes, size, &b.table));
    b.view = bind_layer(b.table, two_each(32));
    check_answers(b.view);
    CHECK(!moelookup_pack(b.table, NULL, &again) && again == size);
    twice = malloc(again);
    CHECK(!moelookup_pack(b.table, twice, &again) && !memcmp(twice, bytes, size));
    free(twice);
    free(bytes);
    close_layer(a);
    close_layer(b);
}

/* ---- what is not known */

static struct moe_plan default_at(const struct moelookup_view *view, uint32_t key, uint32_t key_r0)
{
    struct moe_plan plan = ask_uneven(view, key, key_r0);

    CHECK(is_answer(plan, "r=1 d=1 a=linear", MOE_UNCOMPARED));
    CHECK(plan.bucket == key / WINDOW);
    return plan;
}

static void forget_other(struct entry_row *e)
{
    e->other = (struct moe_plan){ 0 };
    e->other_us = 0;
}

/* As a database of an older moetune has it; in packed bytes of the version of then. */
static void without_the_other_kind_the_default_answers(void)
{
    struct asked a = open_changed(forget_other);
    struct moe_plan plan = default_at(a.view, 900, 400);
    size_t size = 0;
    char *bytes;

    CHECK(near((double)plan.default_us, 1.25 * tokens_us(edge_of(900 / WINDOW))));
    CHECK(plan.time_us == plan.default_us);
    /* Both kinds are published: r = 1 at 900, and r = 0 at 2000, which is not asked for. */
    default_at(a.view, 2000, 900);
    /* Each is published in its own bucket. */
    CHECK(is_answer(ask_uneven(a.view, 2200, 1100), "r=1 d=1 a=linear", MOE_UNCOMPARED));
    CHECK(!moelookup_pack(a.table, NULL, &size));
    bytes = malloc(size);
    CHECK(!moelookup_pack(a.table, bytes, &size) && bytes[8] == 1);
    free(bytes);
    close_layer(a);
}

static void stale_at_ten(struct entry_row *e)
{
    e->stale = e->bucket == 10;
}

static void gap_at_ten(struct entry_row *e)
{
    e->bucket += e->bucket == 10 ? 1000 : 0;
}

static void no_time_at_ten(struct entry_row *e)
{
    if (e->bucket == 10)
        e->time_us = NAN;
}

static void what_is_stale_or_missing_is_not_compared(void)
{
    void (*const changes[])(struct entry_row * e) = { stale_at_ten, gap_at_ten, no_time_at_ten };

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct asked a = open_changed(changes[i]);

        default_at(a.view, 10 * WINDOW + 5, 9 * WINDOW);
        CHECK(ask_uneven(a.view, 11 * WINDOW + 5, 9 * WINDOW).source == MOE_EXACT);
        close_layer(a);
    }
}

/* It takes longer there than in the last bucket: that is enough to lose, and not to win. */
static void behind_the_last_bucket_a_plan_can_only_lose(void)
{
    struct asked a = open_changed(NULL);
    uint32_t last = (LAST + 1) * WINDOW - 1;
    struct moe_plan plan = ask_uneven(a.view, 3 * last, 1500);

    CHECK(is_answer(plan, "r=0", MOE_EXACT) && near((double)plan.time_us, weights_us(1500)));
    default_at(a.view, 3 * last, 2 * last);
    close_layer(a);
}

static void hopeless_r0(struct entry_row *e)
{
    if (e->other.r == 0 && e->other.struct_size)
        e->other_us = 1e6;
    if (e->plan.r == 0) {
        e->plan = plan_of("r=1 d=4 a=linear");
        e->time_us = e->other_us;
        e->other = plan_of("r=0");
        e->other_us = 1e6;
    }
}

static void behind_the_last_bucket_nothing_wins(void)
{
    struct asked a = open_changed(hopeless_r0);
    uint32_t last = (LAST + 1) * WINDOW - 1;

    default_at(a.view, 2 * last, 1500);
    CHECK(is_answer(ask_uneven(a.view, last, 1500), "r=1 d=4 a=linear", MOE_EXACT));
    close_layer(a);
}

/* ---- one kind alone */

static void only_tokens(struct entry_row *e)
{
    e->plan = plan_of("r=1 d=4 a=linear");
    forget_other(e);
    e->no_other = true;
}

static void where_one_kind_cannot_run_the_other_one_answers_as_ever(void)
{
    struct asked a = open_changed(only_tokens);
    size_t size = 0;
    char *bytes;

    for (uint32_t key = 1; key < 60 * WINDOW; key += 37) {
        struct moe_plan uneven = ask_uneven(a.view, key, key / 3), equal = ask(a.view, key);

        CHECK(same_answer(&uneven, &equal) && uneven.r == 1);
    }
    CHECK(!moelookup_pack(a.table, NULL, &size));
    bytes = malloc(size);
    CHECK(!moelookup_pack(a.table, bytes, &size) && bytes[8] == 6);
    free(bytes);
    close_layer(a);
}

/* ---- e=sparse */

static void sparse(struct entry_row *e)
{
    struct moe_plan *plan = e->plan.r == 0 ? &e->plan : &e->other;

    plan->e = MOE_SPARSE;
    *(e->plan.r == 0 ? &e->time_us : &e->other_us) = 100; /* of all tokens, at any capacity */
}

/* Its time at smaller capacities lies between that and its part. */
static void sparse_plans_say_little_below_the_first_bucket(void)
{
    struct asked a = open_changed(sparse);

    CHECK(is_answer(ask_uneven(a.view, 1500, 64), "r=0 e=sparse", MOE_CLAMPED));
    default_at(a.view, 9 * WINDOW, 64); /* 97 us, of r = 0 from 11 to 100 */
    CHECK(is_answer(ask_uneven(a.view, 9 * WINDOW, 8 * WINDOW), "r=1 d=4 a=linear", MOE_EXACT));
    close_layer(a);
}

/* ---- r >= 1 without padding */

enum { MEAN = 512 }; /* k T/E of two_each() */

/* Rows of the fullest rank when the table was measured, of each expert at most the capacity: of
 * some loads more than the mean, which the table does not know. */
static double load_rows;

static double counted_us(double rows)
{
    return 6 + 0.12 * rows;
}

static void count_rows(struct entry_row *e)
{
    struct moe_plan *plan = e->plan.r ? &e->plan : &e->other;

    *plan = plan_of("r=1 d=4 a=linear e=sparse");
    *(e->plan.r ? &e->time_us : &e->other_us) = counted_us(fmin(edge_of(e->bucket), load_rows));
    if (load_rows > MEAN)
        snprintf(e->load, sizeof(e->load), "skew 4");
}

/* A trainer that sends the rows there are is never told a plan that takes it longer than the
 * default, nor than the other kind's best, whatever load the table was measured under.  Where
 * tokens chose at random the time is reckoned, and may be off by a little. */
static void a_counted_plan_answers_where_no_load_makes_it_slower(void)
{
    for (int load = 0; load < 4; load++) {
        double most = load ? 1.0001 : 1.03;
        struct asked a;
        int counted = 0, uncompared = 0;

        load_rows = MEAN * (double[]){ 1, 1.1, 1.6, 3 }[load];
        a = open_changed(count_rows);
        for (int i = 0; i < PER_TEST; i++) {
            uint32_t key_r0 = i % 2 ? MEAN + draw(MEAN / 4) : 1 + draw(4 * MEAN);
            uint32_t key = key_r0 + draw(4 * MEAN);
            double us = counted_us(key), rival = weights_us(fmax(key_r0, FIRST * WINDOW));
            struct moe_plan plan = ask_uneven(a.view, key, key_r0);

            if (key / WINDOW == key_r0 / WINDOW)
                continue;
            counted += is_plan(&plan, "r=1 d=4 a=linear e=sparse");
            uncompared += plan.source == MOE_UNCOMPARED;
            if (is_plan(&plan, "r=1 d=4 a=linear e=sparse"))
                CHECK(us <= 1.25 * tokens_us(key) && us <= (double)plan.time_us * most &&
                      us <= rival * most);
        }
        CHECK(counted > PER_TEST / 100 && uncompared < PER_TEST * (load ? 0.9 : 0.2));
        close_layer(a);
    }
}

/* ---- what else decides */

static void equal_capacities_are_any_other_look_up(void)
{
    struct asked a = open_changed(NULL);

    for (uint32_t key = 1; key < 60 * WINDOW; key += 23) {
        struct moe_plan uneven = ask_uneven(a.view, key, key / WINDOW * WINDOW),
                        equal = ask(a.view, key);

        CHECK(same_answer(&uneven, &equal));
    }
    close_layer(a);
}

/* Every plan computes the rows of all experts. */
static void hidden_layers_are_asked_for_the_mean_of_all(void)
{
    struct moe_shape shape = two_each(64);
    struct cluster cluster = machine("abacus", 8, 4);
    struct store *store = new_store(place("hidden.db"));
    struct asked a;
    struct ids ids;

    shape.layout = MOE_LAYOUT_HIDDEN;
    ids = add_layer(store, &cluster, &shape);
    for (uint32_t b = FIRST; b <= LAST; b++) {
        struct entry_row e = entry_of(ids, WINDOW, b, b < 20 ? "r=8 e=sparse" : "r=0 d=2 e=sparse");

        CHECK(!store_entry_put(store, &e, "measured"));
    }
    publish_and_close(store);
    a = open_layer(place("hidden.db"), shape);
    CHECK(is_answer(ask_uneven(a.view, 30 * WINDOW, 10 * WINDOW), "r=8 e=sparse", MOE_EXACT));
    CHECK(ask_uneven(a.view, 30 * WINDOW, 10 * WINDOW).bucket == 10);
    CHECK(is_answer(ask_uneven(a.view, 35 * WINDOW, 30 * WINDOW), "r=0 d=2 e=sparse", MOE_EXACT));
    close_layer(a);
}

static void pin(uint32_t bucket, const char *plan)
{
    struct override_row row = {
        .window = WINDOW, .first = bucket, .last = bucket, .plan = plan_of(plan), .why = "asked"
    };
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = two_each(32);
    struct store *store = new_store(place("pinned.db"));

    CHECK(!store_find(store, &cluster, &shape, &row.cluster, &row.shape));
    CHECK(!store_override_add(store, &row));
    publish_and_close(store);
}

static void pins_count_for_the_plans_that_they_name(void)
{
    struct asked a;

    write_layer(place("pinned.db"), two_each(32), NULL);
    pin(10, "r=2 d=2 a=linear"); /* illegal: ranks do not share experts here */
    pin(11, "r=1 d=8 a=linear");
    pin(12, "r=0");
    a = open_layer(place("pinned.db"), two_each(32));
    CHECK(is_answer(ask_uneven(a.view, 11 * WINDOW, 9 * WINDOW), "r=1 d=8 a=linear", MOE_OVERRIDE));
    CHECK(is_answer(ask_uneven(a.view, 12 * WINDOW, 9 * WINDOW), "r=0", MOE_OVERRIDE));
    CHECK(is_answer(ask_uneven(a.view, 20 * WINDOW, 12 * WINDOW), "r=0", MOE_OVERRIDE));
    CHECK(is_answer(ask_uneven(a.view, 13 * WINDOW, 11 * WINDOW), "r=0", MOE_EXACT));
    CHECK(ask_uneven(a.view, 20 * WINDOW, 10 * WINDOW).source == MOE_EXACT);
    close_layer(a);
}

static void forced_and_disabled_tables_say_so(void)
{
    struct asked a;

    write_layer(place("forced.db"), two_each(32), NULL);
    setenv("MOELOOKUP_FORCE", "r=1 d=2 a=linear", 1);
    a = open_layer(place("forced.db"), two_each(32));
    CHECK(is_answer(ask_uneven(a.view, 2000, 700), "r=1 d=2 a=linear", MOE_OVERRIDE));
    close_layer(a);
    unsetenv("MOELOOKUP_FORCE");
    setenv("MOELOOKUP_DISABLE", "1", 1);
    a = open_layer(place("forced.db"), two_each(32));
    CHECK(is_answer(ask_uneven(a.view, 2000, 700), "r=1 d=1 a=linear", MOE_DEFAULT));
    close_layer(a);
    unsetenv("MOELOOKUP_DISABLE");
}

static void wrong_calls_change_nothing(void)
{
    struct asked a = open_changed(NULL);
    struct moe_plan plan = { .struct_size = sizeof(plan), .d = 77 };
    char text[8];

    CHECK(moelookup_get_uneven(NULL, 5, 5, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_get_uneven(a.view, 5, 5, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_get_uneven(a.view, 1000, 1001, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_explain_uneven(a.view, 1000, 1001, text, 8) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_explain_uneven(a.view, 1000, 900, NULL, 8) == MOE_ERR_ARGUMENT);
    CHECK(plan.d == 77);
    close_layer(a);
}

/* The plain way: all rows are dealt to ranks, or to experts where these are fewer, and to sources.
 */
static void plain_keys(const uint32_t *counts, uint32_t sources, uint32_t experts, uint32_t ranks,
                       double *key, double *key_r0)
{
    uint32_t each = (experts + ranks - 1) / ranks;
    double received[64] = { 0 }, sent[64] = { 0 };

    *key = *key_r0 = 0;
    for (uint32_t q = 0; q < sources; q++)
        for (uint32_t e = 0; e < experts; e++) {
            received[e / each] += (double)counts[q * experts + e] / each / sources;
            sent[q] += (double)counts[q * experts + e] / experts;
        }
    for (int i = 0; i < 64; i++) {
        *key = fmax(*key, fmax(received[i], sent[i]));
        *key_r0 = fmax(*key_r0, sent[i]);
    }
}

static void counts_are_two_capacities(void)
{
    static const uint32_t layers[][2] = { { 16, 4 }, { 8, 8 }, { 4, 16 }, { 64, 8 },
                                          { 1, 1 },  { 5, 1 }, { 7, 3 },  { 32, 64 } };
    uint32_t counts[64 * 32 + 64], key, key_r0;

    for (int i = 0; i < PER_TEST; i++) {
        const uint32_t *layer = layers[draw(sizeof(layers) / sizeof(layers[0]))];
        uint32_t experts = layer[0], ranks = layer[1], sources = draw(2) ? ranks : 1;
        uint32_t most = 1 + draw(5000), hot = draw(experts);
        double want, want_r0;

        for (uint32_t n = 0; n < sources * experts; n++)
            counts[n] = draw(3) ? draw(most) : n % experts == hot ? 8 * most : 0;
        plain_keys(counts, sources, experts, ranks, &want, &want_r0);
        CHECK(!moe_keys(counts, sources * experts, experts, ranks, &key, &key_r0));
        CHECK(key >= want - 1e-6 && key < want + 1 + 1e-6);
        CHECK(key_r0 >= want_r0 - 1e-6 && key_r0 < want_r0 + 1 + 1e-6 && key_r0 <= key);
        /* What most say of each expert is an upper limit, and so are the largest own keys. */
        if (sources > 1) {
            uint32_t own, own_r0, largest = 0, largest_r0 = 0, top[64] = { 0 };

            for (uint32_t q = 0; q < sources; q++) {
                CHECK(!moe_keys(counts + q * experts, experts, experts, ranks, &own, &own_r0));
                largest = own > largest ? own : largest;
                largest_r0 = own_r0 > largest_r0 ? own_r0 : largest_r0;
                for (uint32_t e = 0; e < experts; e++)
                    top[e] = top[e] > counts[q * experts + e] ? top[e] : counts[q * experts + e];
            }
            CHECK(largest >= key && largest_r0 == key_r0);
            CHECK(!moe_keys(top, experts, experts, ranks, &own, &own_r0));
            CHECK(own >= largest && own_r0 >= largest_r0);
        }
    }
}

static void counts_are_answered_as_their_capacities(void)
{
    struct asked a = open_changed(NULL);
    struct moe_plan plan = MOE_PLAN_INIT, same;
    uint32_t counts[8 * 16], key, key_r0, of_kind[2] = { 0 };

    for (int i = 0; i < PER_TEST; i++) {
        uint32_t n = draw(2) ? 16 : 8 * 16, most = 1 + draw(2600), cold = 1 + draw(8);

        for (uint32_t e = 0; e < n; e++)
            counts[e] = e % 16 < 2 ? most : most / cold;
        CHECK(!moelookup_get_counts(a.view, counts, n, &plan));
        CHECK(!moe_keys(counts, n, 16, 8, &key, &key_r0));
        same = ask_uneven(a.view, key, key_r0);
        CHECK(!memcmp(&plan, &same, sizeof(plan)));
        of_kind[plan.r == 0]++;
    }
    CHECK(of_kind[0] > PER_TEST / 20 && of_kind[1] > PER_TEST / 20);
    close_layer(a);
}

static void counts_that_are_none_change_nothing(void)
{
    struct asked a = open_changed(NULL);
    struct moe_plan plan = { .struct_size = sizeof(plan), .d = 77 };
    uint32_t counts[8 * 16] = { 0 }, key = 5, key_r0 = 6;

    CHECK(moelookup_get_counts(NULL, counts, 16, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_get_counts(a.view, NULL, 16, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_get_counts(a.view, counts, 16, NULL) == MOE_ERR_ARGUMENT);
    for (size_t n = 0; n < 8 * 16; n++)
        if (n != 16)
            CHECK(moelookup_get_counts(a.view, counts, n, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moe_keys(counts, 0, 0, 4, &key, &key_r0) == MOE_ERR_ARGUMENT);
    CHECK(moe_keys(counts, 16, 16, 0, &key, &key_r0) == MOE_ERR_ARGUMENT);
    CHECK(moe_keys(counts, 16, 16, 8, NULL, &key_r0) == MOE_ERR_ARGUMENT);
    CHECK(moe_keys(counts, 16, 16, 8, &key, NULL) == MOE_ERR_ARGUMENT);
    counts[15] = (uint32_t)-1;
    CHECK(moelookup_get_counts(a.view, counts, 16, &plan) == MOE_ERR_ARGUMENT);
    CHECK(plan.d == 77 && key == 5 && key_r0 == 6);
    counts[15]--; /* more than any table has: no sum runs over */
    for (uint32_t i = 0; i < 15; i++)
        counts[i] = UINT32_MAX - 1;
    CHECK(!moe_keys(counts, 16, 16, 8, &key, &key_r0));
    CHECK(key == UINT32_MAX - 1 && key_r0 == UINT32_MAX - 1);
    close_layer(a);
}

/* One that was compiled when e was not there is told the default plan instead of e=sparse. */
static void callers_with_short_structs_are_told_what_they_can_run(void)
{
    struct asked a = open_changed(NULL), b = open_changed(sparse);
    struct moe_plan plan = { .struct_size = offsetof(struct moe_plan, e), .e = 99 };

    CHECK(!moelookup_get_uneven(a.view, 2000, 700, &plan) && plan.r == 0 && plan.e == 99);
    plan = (struct moe_plan){ .struct_size = offsetof(struct moe_plan, e), .e = 99 };
    CHECK(!moelookup_get_uneven(b.view, 2000, 700, &plan) && plan.r == 1 && plan.e == 99 &&
          plan.source == MOE_DEFAULT);
    close_layer(a);
    close_layer(b);
}

static bool explains(const struct moelookup_view *view, uint32_t key, uint32_t key_r0,
                     const char *words)
{
    char text[512];
    int length = moelookup_explain_uneven(view, key, key_r0, text, sizeof(text));

    if (length == (int)strlen(text) && strstr(text, words))
        return true;
    printf("    %s\n", text);
    return false;
}

static void the_reason_is_said(void)
{
    struct asked a = open_changed(NULL), b = open_changed(forget_other);

    CHECK(explains(a.view, 2047, 703,
                   "c=2047, with r=0 703, buckets 31 and 10 of width 64: r=0 d=1 a=linear; exact: "
                   "measured in bucket 10; 0.1303 ms against 0.317 ms of r=1 d=4 a=linear, and the "
                   "default plan's 0.3963 ms; abacus ("));
    CHECK(explains(b.view, 2047, 703, "r=1 d=1 a=linear; uncompared: capacities differ"));
    CHECK(explains(a.view, 700, 690, "c=700, bucket 10 of width 64: "));
    close_layer(a);
    close_layer(b);
}

/* ---- files that came from elsewhere */

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;

    CHECK(!sqlite3_open(path, &db) && !sqlite3_exec(db, sql, NULL, NULL, NULL));
    sqlite3_close(db);
}

static void remove_snapshot(const char *name)
{
    char snapshot[64];

    snprintf(snapshot, sizeof(snapshot), "%s.published", name);
    unlink(place(snapshot));
}

static void other_plans_that_make_no_sense_are_not_known(void)
{
    static const char *const changes[] = {
        "UPDATE entry SET other = plan",  "UPDATE entry SET other = 'r=1 d=4 a=2dh d=3'",
        "UPDATE entry SET other_us = -1", "UPDATE entry SET other_us = 9e999",
        "UPDATE entry SET other = 'r=3'", "UPDATE entry SET other_us = 0",
        "UPDATE entry SET other = NULL"
    };

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        char name[32];
        struct asked a;

        snprintf(name, sizeof(name), "senseless-%zu.db", i);
        write_layer(place(name), two_each(32), NULL);
        run_sql(place(name), changes[i]);
        remove_snapshot(name);
        a = open_layer(place(name), two_each(32));
        default_at(a.view, 900, 600);
        close_layer(a);
    }
}

/* Each byte of the first entry's other plan, and its flags, under a checksum that is right. */
static void packed_bytes_that_pack_does_not_write_are_refused(void)
{
    struct asked a = open_changed(NULL), b;
    size_t size = 0, row = 64 + 236;
    uint8_t *bytes;
    int refused = 0;

    CHECK(!moelookup_pack(a.table, NULL, &size));
    bytes = malloc(size);
    for (size_t at = row + 18; at < row + 32; at += at == row + 18 ? 6 : 1)
        for (int bit = 0; bit < 8; bit++) {
            CHECK(!moelookup_pack(a.table, bytes, &size));
            bytes[at] ^= (uint8_t)(1 << bit);
            pack_seal(bytes, size);
            if (moelookup_unpack(bytes, size, &b.table)) {
                refused++;
                continue;
            }
            b.view = bind_layer(b.table, two_each(32));
            (void)ask_uneven(b.view, 900, 600);
            close_layer(b);
        }
    CHECK(refused > 40);
    free(bytes);
    close_layer(a);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_faster_kind_answers_at_its_own_capacity),
        TEST(packed_bytes_answer_the_same),
        TEST(without_the_other_kind_the_default_answers),
        TEST(what_is_stale_or_missing_is_not_compared),
        TEST(behind_the_last_bucket_a_plan_can_only_lose),
        TEST(behind_the_last_bucket_nothing_wins),
        TEST(where_one_kind_cannot_run_the_other_one_answers_as_ever),
        TEST(sparse_plans_say_little_below_the_first_bucket),
        TEST(a_counted_plan_answers_where_no_load_makes_it_slower),
        TEST(equal_capacities_are_any_other_look_up),
        TEST(hidden_layers_are_asked_for_the_mean_of_all),
        TEST(pins_count_for_the_plans_that_they_name),
        TEST(forced_and_disabled_tables_say_so),
        TEST(counts_are_two_capacities),
        TEST(counts_are_answered_as_their_capacities),
        TEST(counts_that_are_none_change_nothing),
        TEST(wrong_calls_change_nothing),
        TEST(callers_with_short_structs_are_told_what_they_can_run),
        TEST(the_reason_is_said),
        TEST(other_plans_that_make_no_sense_are_not_known),
        TEST(packed_bytes_that_pack_does_not_write_are_refused),
    };

    return run_with_folder(tests, sizeof(tests) / sizeof(tests[0]));
}
