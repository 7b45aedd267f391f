/* Tests unsound entries, whose own numbers forbid their plan.  Whatever they say and wherever they
 * lie, the default plan answers, with the reason. */
#include "lookup_tables.h"

#include "claim_faults.h"
#include "declaration.h"

static const char tiles[] = "space tiles\n"
                            "axis width 16 32 64 default 32 live\n"
                            "key rows edges 128 256 512 1024 2048\n";

/* ---- a table with a layer for each case and word */

enum { BUCKET = 4, LATER = 9 };
/* A layer of moetune's own, where the entry is of another plan; of a space; of the default plan; of
 * the other plan in a table that stands. */
enum kind { OWN, SPACE, USUAL, STANDS, KINDS };

static const struct declaration *space;

static struct moe_shape shape_of(const struct claim_case *c, const char *const *word,
                                 enum kind kind)
{
    size_t number = (size_t)(c - claim_cases) * CLAIM_WORDS + (size_t)(word - claim_words);
    struct moe_shape shape = layer((uint32_t)(16 * (number * KINDS + kind + 1)));

    shape.space = kind == SPACE ? space->id : 0;
    return shape;
}

static struct moe_plan usual_of(enum kind kind)
{
    return kind == SPACE ? declared_plan_default(space->id) : plan_default(NULL);
}

static struct moe_plan plan_for(enum kind kind)
{
    return kind == USUAL   ? usual_of(kind)
           : kind == SPACE ? declared_plan(space->id, 0)
                           : plan_of("r=2 d=4 a=linear");
}

static void put(struct store *store, const struct claim_case *c, const char *const *word,
                enum kind kind)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = shape_of(c, word, kind);
    struct ids ids = add_layer(store, &cluster, &shape);
    struct entry_row e = entry_of(ids, kind == SPACE ? 1 : 128, BUCKET, "r=1"), known;
    struct standing_row standing = { .cluster = ids.cluster,
                                     .shape = ids.shape,
                                     .run = 1,
                                     .window = 128,
                                     .gain = { 0.2, 0.1, 0.3 },
                                     .static_gain = { 0, 0, 0 },
                                     .static_plan = plan_for(kind),
                                     .rounds = 8,
                                     .decided_s = 2000000 };
    enum merge_outcome outcome;

    claim_put(c, *word, &e);
    e.plan = plan_for(kind);
    e.capacity = kind == SPACE ? declaration_key(space, BUCKET) : e.capacity;
    e.stale = c->time_us == 1300 && word == claim_words; /* whatever its age */
    CHECK(!store_entry_merge(store, &e, "import", &known, &outcome));
    if (kind == STANDS)
        CHECK(!store_standing(store, &standing));
}

static void write_all(const char *path)
{
    struct store *store = new_store(path);

    EACH_CLAIM(c, word)
    for (enum kind kind = OWN; kind < KINDS; kind++)
        put(store, c, word, kind);
    publish_and_close(store);
}

/* ---- what is told */

static void print_case(const struct claim_case *c, const char *word, enum kind kind)
{
    static const char *const kinds[] = { "own", "space", "default", "stands" };

    claim_print(c, word);
    printf("    (%s)\n", kinds[kind]);
}

static bool tells(const struct moelookup_view *view, uint64_t key, const struct moe_plan *plan,
                  bool unsound)
{
    struct moe_plan got = MOE_PLAN_INIT;
    char text[512];

    CHECK(moelookup_get_key(view, key, 0, &got) == MOE_OK);
    CHECK(moelookup_explain_key(view, key, 0, text, sizeof(text)) > 0);
    if (!plan_equal(&got, plan) || (got.source == MOE_UNSOUND) != unsound ||
        (strstr(text, "unsound: ") != NULL) != unsound)
        printf("    %llu: %s\n", (unsigned long long)key, text);
    return plan_equal(&got, plan) && (got.source == MOE_UNSOUND) == unsound &&
           (strstr(text, "unsound: ") != NULL) == unsound;
}

/* `times_only`: as packed bytes of an older moetune say no more. */
static void check_case(const struct moelookup *table, const struct claim_case *c,
                       const char *const *word, enum kind kind, bool times_only)
{
    bool pooled = kind == STANDS && !strcmp(*word, "static") && c->is_loss;
    bool unsound = c->field && kind != USUAL && !pooled;
    struct moe_plan usual = usual_of(kind), own = plan_for(kind), plan = MOE_PLAN_INIT;
    struct moelookup_view *view = bind_layer(table, shape_of(c, word, kind));
    int failed = check_failures;

    if (times_only)
        unsound = unsound && c->time_us > c->default_us;
    if (kind == SPACE) {
        CHECK(tells(view, declaration_key(space, BUCKET), unsound ? &usual : &own, unsound));
    } else { /* in its bucket, beside it, and beyond the end of the table */
        CHECK(tells(view, BUCKET * 128 + 60, unsound ? &usual : &own, unsound));
        CHECK(tells(view, (BUCKET + 1) * 128, unsound ? &usual : &own, unsound));
        CHECK(tells(view, LATER * 128, unsound ? &usual : &own, unsound));
        CHECK(tells(view, 60, unsound ? &usual : &own, unsound));
        CHECK(!moelookup_get_uneven(view, BUCKET * 128 + 60, 60, &plan));
        CHECK(!unsound || plan_equal(&plan, &usual));
    }
    if (check_failures > failed)
        print_case(c, *word, kind);
    moelookup_view_free(view);
}

static void check_table(const struct moelookup *table, bool times_only)
{
    EACH_CLAIM(c, word)
    for (enum kind kind = OWN; kind < KINDS; kind++)
        check_case(table, c, word, kind, times_only);
}

static void who_does_not_gain_is_told_by_no_file(void)
{
    char snapshot[512];
    struct moelookup *table, *copy;

    CHECK(!declaration_register(tiles, &space));
    write_all(place("unsound.db"));
    table = open_table(place("unsound.db")); /* its snapshot */
    check_table(table, false);
    copy = unpacked(table);
    check_table(copy, false);
    moelookup_close(copy);
    moelookup_close(table);
    snprintf(snapshot, sizeof(snapshot), "%s.published", place("unsound.db"));
    CHECK(!unlink(snapshot));
    table = open_table(place("unsound.db"));
    check_table(table, false);
    moelookup_close(table);
}

/* They have times, and no gains. */
static void packed_bytes_of_an_older_version_open_and_are_judged_by_times(void)
{
    struct packed p;
    struct moelookup *table = NULL;
    uint32_t cleared = 0;

    CHECK(!declaration_register(tiles, &space));
    write_all(place("unsound.db"));
    p = pack_file(place("unsound.db"));
    for (uint32_t i = 0; i < pack_layer_count(p.bytes); i++) {
        uint32_t at;

        memcpy(&at, p.bytes + 64 + 236 * (size_t)i + 4 * 14, sizeof(at)); /* of its only entry */
        CHECK(at + 20 <= p.size && p.bytes[8] == 5);
        cleared += (p.bytes[at + 18] & LOOKUP_UNSOUND) != 0;
        p.bytes[at + 18] &= (uint8_t)~LOOKUP_UNSOUND;
    }
    CHECK(cleared > 0);
    pack_seal(p.bytes, p.size);
    CHECK(moelookup_unpack(p.bytes, p.size, &table) == MOE_OK);
    if (table)
        check_table(table, true);
    moelookup_close(table);
    free(p.bytes);
}

/* Where the default has no time it cannot run. */
static void where_the_default_cannot_run_the_plan_answers(void)
{
    struct store *store = new_store(place("alone.db"));
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct entry_row e = entry_of(add_layer(store, &cluster, &shape), 128, BUCKET, "r=2 d=4");

    claim_put(&claim_alone, "alone", &e);
    CHECK(!store_entry_put(store, &e, "measured"));
    publish_and_close(store);
    CHECK(is_answer(ask_file(place("alone.db"), shape, BUCKET * 128), "r=2 d=4", MOE_EXACT));
}

/* What its column holds is the default; its own plan is the one that the standing names. */
static void a_static_plan_without_padding_counts_by_its_table(void)
{
    static const char *const statics[] = { "r=2 d=4 e=sparse", "r=2 d=2 e=sparse" };
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);

    for (int i = 0; i < 2; i++) {
        const char *path = place(i ? "another.db" : "static.db");
        struct store *store = new_store(path);
        struct ids ids = add_layer(store, &cluster, &shape);
        struct entry_row e = entry_of(ids, 128, BUCKET, statics[0]), known;
        struct standing_row standing = { .cluster = ids.cluster,
                                         .shape = ids.shape,
                                         .run = 1,
                                         .window = 128,
                                         .gain = { 0.2, 0.1, 0.3 },
                                         .static_plan = plan_of(statics[i]),
                                         .rounds = 8,
                                         .decided_s = 2000000 };
        enum merge_outcome outcome;

        e.time_us = e.default_us + 1;
        e.gain = (struct gain){ -0.1, -0.2, 0 };
        snprintf(e.decision, sizeof(e.decision), "static");
        CHECK(!store_entry_merge(store, &e, "import", &known, &outcome));
        CHECK(!store_standing(store, &standing));
        CHECK(!store_entry_get(store, ids.cluster, ids.shape, 128, BUCKET, &known));
        CHECK((known.fault != NULL) == i);
        publish_and_close(store);
        CHECK(is_answer(ask_file(path, shape, BUCKET * 128), i ? "r=1" : statics[0],
                        i ? MOE_UNSOUND : MOE_EXACT));
    }
}

/* A database of another site answers where this one's entry is unsound; stale, too. */
static void of_two_files_the_sound_entry_answers(void)
{
    struct claim_case losing = claim_cases[4];
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    char second[512];

    snprintf(second, sizeof(second), "%s", place("second.db"));
    for (int i = 0; i < 2; i++) {
        struct store *store = new_store(i ? second : place("first.db"));
        struct entry_row e = entry_of(add_layer(store, &cluster, &shape), 128, BUCKET, "r=2 d=4"),
                         known;
        enum merge_outcome outcome;

        if (!i)
            claim_put(&losing, "adopted", &e);
        e.stale = i;
        CHECK(!store_entry_merge(store, &e, "import", &known, &outcome));
        publish_and_close(store);
    }
    setenv("MOELOOKUP_DB", place("first.db"), 1);
    CHECK(is_answer(ask_file(NULL, shape, BUCKET * 128), "r=1", MOE_UNSOUND));
    setenv("MOETUNE_DB", second, 1);
    CHECK(is_answer(ask_file(NULL, shape, BUCKET * 128), "r=2 d=4", MOE_STALE));
    no_environment();
}

/* The best plan of the other kind takes no longer than the default plan, which is of that kind. */
static void an_other_plan_that_is_slower_than_the_default_is_not_told(void)
{
    struct store *store = new_store(place("other.db"));
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct moe_plan plan = MOE_PLAN_INIT;
    struct moelookup_view *view;
    struct moelookup *table;
    struct ids ids;

    shape.experts = 16;
    ids = add_layer(store, &cluster, &shape);
    for (uint32_t b = 1; b <= 2; b++) { /* with r=0 a step takes longer at the smaller capacity */
        struct entry_row e = entry_of(ids, 128, b, "r=0");

        e.time_us = b == 1 ? 3000 : 1000;
        e.default_us = 1.1 * e.time_us;
        e.other = plan_of("r=1 d=8 a=linear");
        e.other_us = 1.3 * e.time_us;
        CHECK(!store_entry_put(store, &e, "measured"));
    }
    publish_and_close(store);
    table = open_table(place("other.db"));
    view = bind_layer(table, shape);
    CHECK(!moelookup_get_uneven(view, 3 * 128 - 1, 2 * 128 - 1, &plan));
    CHECK(is_answer(plan, "r=1 d=1 a=linear", MOE_EXACT) && fabs(plan.time_us / 1100.0 - 1) < 1e-6);
    moelookup_view_free(view);
    moelookup_close(table);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(who_does_not_gain_is_told_by_no_file),
        TEST(packed_bytes_of_an_older_version_open_and_are_judged_by_times),
        TEST(where_the_default_cannot_run_the_plan_answers),
        TEST(a_static_plan_without_padding_counts_by_its_table),
        TEST(of_two_files_the_sound_entry_answers),
        TEST(an_other_plan_that_is_slower_than_the_default_is_not_told),
    };

    return run_with_folder(tests, sizeof(tests) / sizeof(tests[0]));
}
