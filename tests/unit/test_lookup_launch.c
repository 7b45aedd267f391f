/* Tests answers inside a launch against a plain walk over random tables, packed and not; messages
 * and refusals; and foreign bytes. */
#include "lookup_tables.h"

#include "declaration.h"

enum { RANGES = 4, LAUNCHES = 4 };

/* Four launches of six plans, of which way=b with ep=8 cannot run chunks=1; ep is of three values,
 * and ep=3 divides no eight ranks. */
static const char launched[] = "space launched\n"
                               "axis way a b default a restart\n"
                               "axis chunks 1 2 4 default 1\n"
                               "axis ep 3 4 8 default 4 restart\n"
                               "axis sms 8 16 default 16\n"
                               "need ep divides ranks\n"
                               "need way=a | ep=4 | chunks>1\n"
                               "key tokens edges 64 256 1024\n";
static const char *const launches[LAUNCHES] = { "way=a ep=4", "way=a ep=8", "way=b ep=4",
                                                "way=b ep=8" };

static const struct declaration *known(const char *text)
{
    const struct declaration *d = NULL;

    CHECK(!declaration_register(text, &d));
    return d;
}

static struct moe_shape layer_of(const struct declaration *d)
{
    struct moe_shape shape = layer(96);

    shape.space = d->id;
    return shape;
}

static struct moe_plan words_plan(const struct declaration *d, const char *words)
{
    struct moe_plan plan = declared_plan(d->id, 0);

    CHECK(declaration_scan(d, words, &plan.choice));
    return plan;
}

/* One of the plans that are legal on eight ranks. */
static struct moe_plan drawn_plan(const struct declaration *d)
{
    for (;;) {
        uint32_t choice = d->plan[draw(d->plans)];

        if (declaration_legal_on(d, choice, 8))
            return declared_plan(d->id, choice);
    }
}

static void add_entry_of(struct store *store, struct ids ids, uint32_t bucket, struct moe_plan plan,
                         bool stale)
{
    struct entry_row e = entry_of(ids, 1, bucket, "r=1");

    e.plan = plan;
    e.stale = stale;
    CHECK(!store_entry_put(store, &e, "measured"));
}

static void add_launch(struct store *store, struct ids ids, uint32_t bucket, struct moe_plan plan,
                       double us)
{
    struct launch_row row = { .cluster = ids.cluster,
                              .shape = ids.shape,
                              .window = 1,
                              .bucket = bucket,
                              .plan = plan,
                              .time_us = us,
                              .sd = 0.02,
                              .samples = 4 };

    declaration_launch_words(declaration_find(plan.space), plan.choice, row.launch);
    CHECK(!store_launch_put(store, &row));
}

static void pin_plan(struct store *store, struct ids ids, uint32_t bucket, struct moe_plan plan)
{
    struct override_row pin = { .cluster = ids.cluster,
                                .shape = ids.shape,
                                .window = 1,
                                .first = bucket,
                                .last = bucket,
                                .plan = plan };

    snprintf(pin.why, sizeof(pin.why), "asked");
    CHECK(!store_override_add(store, &pin));
}

/* Removes what a test wrote there before. */
static void fresh_database(const char *name)
{
    static const char *const endings[] = { "", ".published", ".journal", ".owner" };
    char path[128];

    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", name, endings[i]);
        remove(place(path));
    }
}

static struct moelookup_view *bind_inside(const struct moelookup *table,
                                          const struct declaration *d, const char *words)
{
    struct moe_shape shape = layer_of(d);
    struct moelookup_view *view = NULL;

    CHECK(moelookup_bind_launch(table, &shape, NULL, words, &view) == MOE_OK && view);
    return view;
}

static struct moe_plan ask_bucket(const struct moelookup_view *view, const struct declaration *d,
                                  uint32_t bucket)
{
    struct moe_plan plan = MOE_PLAN_INIT;

    CHECK(moelookup_get_key(view, declaration_key(d, bucket), 0, &plan) == MOE_OK);
    CHECK(plan.bucket == bucket && plan.space == d->id);
    return plan;
}

static bool is_told(struct moe_plan plan, const struct declaration *d, const char *words,
                    enum moe_source source, float us)
{
    struct moe_plan wanted = words_plan(d, words);

    if (plan.choice == wanted.choice && plan.source == source && plan.time_us == us)
        return true;
    printf("    %s, source %u, %g us; not %s, source %d, %g us\n", PLAN_TEXT(&plan), plan.source,
           (double)plan.time_us, words, source, (double)us);
    return false;
}

/* ---- the ladder */

struct plain {
    bool entry[RANGES], stale[RANGES], pinned[RANGES], row[RANGES][LAUNCHES];
    struct moe_plan entries[RANGES], pins[RANGES], rows[RANGES][LAUNCHES];
};

static uint32_t launch_of(const struct declaration *d, const struct moe_plan *plan)
{
    char words[DECLARATION_PLAN_BYTES];
    uint32_t l = 0;

    declaration_launch_words(d, plan->choice, words);
    while (strcmp(launches[l], words) != 0)
        l++;
    return l;
}

static struct plain draw_table(const struct declaration *d)
{
    uint32_t entries = draw(100), pins = draw(40), rows = draw(100);
    struct plain t;

    memset(&t, 0, sizeof(t));
    for (uint32_t b = 0; b < RANGES; b++) {
        t.entry[b] = chance(entries);
        t.stale[b] = chance(30);
        t.entries[b] = drawn_plan(d);
        t.pinned[b] = chance(pins);
        t.pins[b] = drawn_plan(d);
        for (uint32_t n = 0; n < 3; n++) {
            struct moe_plan plan = drawn_plan(d);

            t.row[b][launch_of(d, &plan)] = chance(rows);
            t.rows[b][launch_of(d, &plan)] = plan;
        }
    }
    return t;
}

static void write_table(const char *name, const struct declaration *d, const struct plain *t)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer_of(d);
    struct store *store;
    struct ids ids;

    fresh_database(name);
    store = new_store(place(name));
    ids = add_layer(store, &cluster, &shape);
    for (uint32_t b = 0; b < RANGES; b++) {
        if (t->entry[b])
            add_entry_of(store, ids, b, t->entries[b], t->stale[b]);
        if (t->pinned[b])
            pin_plan(store, ids, b, t->pins[b]);
        for (uint32_t l = 0; l < LAUNCHES; l++)
            if (t->row[b][l])
                add_launch(store, ids, b, t->rows[b][l], 100 * l + b + 0.5);
    }
    publish_and_close(store);
}

/* By the rules as moelookup.h says them. */
static struct moe_plan plain_answer(const struct declaration *d, const struct plain *t, uint32_t b,
                                    uint32_t l)
{
    static const char *const nearest[LAUNCHES] = { "", "ep=8", "way=b", "way=b ep=8 chunks=2" };
    bool any = false, rows = false;
    struct moe_plan plan;

    for (uint32_t i = 0; i < RANGES; i++) {
        any |= (t->entry[i] && launch_of(d, &t->entries[i]) == l) || t->row[i][l];
        rows |= t->entry[i];
        for (uint32_t k = 0; k < LAUNCHES; k++)
            rows |= t->row[i][k];
    }
    if (t->pinned[b] && launch_of(d, &t->pins[b]) == l) {
        plan = t->pins[b];
        plan.source = MOE_OVERRIDE;
    } else if (t->entry[b] && launch_of(d, &t->entries[b]) == l) {
        plan = t->entries[b];
        plan.source = t->stale[b] ? MOE_STALE : MOE_EXACT;
        plan.time_us = 10.5f + (float)b;
        plan.default_us = 20.5f + (float)b;
    } else if (t->row[b][l]) {
        plan = t->rows[b][l];
        plan.source = MOE_EXACT;
        plan.time_us = 100 * (float)l + (float)b + 0.5f;
    } else {
        plan = words_plan(d, nearest[l]);
        plan.source = rows && !any ? MOE_UNKNOWN_LAUNCH : MOE_DEFAULT;
    }
    plan.bucket = b;
    return plan;
}

static void the_ladder_inside_a_launch_is_that_of_a_plain_walk(void)
{
    const struct declaration *d = known(launched);
    uint32_t sources[PLAN_SOURCE_COUNT] = { 0 };

    setenv("MOELOOKUP_LOG", "error", 1);
    for (int batch = 0; batch < 60; batch++) {
        struct plain t = draw_table(d);
        struct moelookup *table, *same;

        write_table("walk.db", d, &t);
        table = open_table(place("walk.db"));
        same = unpacked(table);
        for (uint32_t l = 0; l < LAUNCHES; l++) {
            struct moelookup_view *views[2] = { bind_inside(table, d, launches[l]),
                                                bind_inside(same, d, launches[l]) };

            for (uint32_t b = 0; b < RANGES; b++) {
                struct moe_plan want = plain_answer(d, &t, b, l);

                for (int packed = 0; packed < 2; packed++) {
                    struct moe_plan got = ask_bucket(views[packed], d, b);

                    CHECK(got.choice == want.choice && got.source == want.source &&
                          got.time_us == want.time_us && got.default_us == want.default_us);
                    CHECK(launch_of(d, &got) == l);
                }
                sources[want.source]++;
            }
            moelookup_view_free(views[0]);
            moelookup_view_free(views[1]);
        }
        moelookup_close(same);
        moelookup_close(table);
    }
    CHECK(sources[MOE_EXACT] && sources[MOE_STALE] && sources[MOE_OVERRIDE] &&
          sources[MOE_DEFAULT] && sources[MOE_UNKNOWN_LAUNCH]);
}

static struct plain one_of_each(const struct declaration *d)
{
    struct plain t = { .entry = { true }, .row = { [1] = { true, false, true } } };

    t.entries[0] = words_plan(d, "way=b chunks=4");
    t.rows[1][0] = words_plan(d, "chunks=2");
    t.rows[1][2] = words_plan(d, "way=b chunks=2 sms=8");
    return t;
}

/* Whoever names no launch is told the entries; where these are all of one launch, and a range has
 * none, what that launch runs best there, and not the default of another one. */
static void who_says_no_launch_is_told_the_entries_and_their_launch(void)
{
    const struct declaration *d = known(launched);
    struct plain t = one_of_each(d);
    struct moelookup *table;
    struct moelookup_view *view;
    struct moe_shape shape;
    char text[512];

    write_table("none.db", d, &t);
    table = open_table(place("none.db"));
    for (int i = 0; i < 3; i++) {
        shape = layer_of(d);

        view = NULL;
        CHECK(!(i ? moelookup_bind_launch(table, &shape, NULL, i == 1 ? NULL : " ", &view)
                  : moelookup_bind(table, &shape, NULL, &view)));
        CHECK(is_told(ask_bucket(view, d, 0), d, "way=b chunks=4", MOE_EXACT, 10.5f));
        CHECK(is_told(ask_bucket(view, d, 1), d, "way=b chunks=2 sms=8", MOE_EXACT, 201.5f));
        CHECK(moelookup_explain_key(view, 100, 0, text, sizeof(text)) > 0);
        CHECK(strstr(text, "inside way=b ep=4: "));
        moelookup_view_free(view);
    }
    moelookup_close(table);
    /* As an older moetune wrote it: each range has a launch of its own. */
    t.entry[1] = true;
    t.entries[1] = words_plan(d, "chunks=4");
    write_table("several.db", d, &t);
    table = open_table(place("several.db"));
    shape = layer_of(d);
    CHECK(!moelookup_bind(table, &shape, NULL, &view));
    CHECK(is_told(ask_bucket(view, d, 1), d, "chunks=4", MOE_EXACT, 11.5f));
    CHECK(is_told(ask_bucket(view, d, 2), d, "", MOE_DEFAULT, 0));
    moelookup_view_free(view);
    moelookup_close(table);
}

static void words_come_in_any_order_and_the_others_have_their_defaults(void)
{
    static const struct {
        const char *words, *told;
        enum moe_source source;
        float us;
    } cases[] = {
        { "way=b ep=4", "way=b chunks=2 sms=8", MOE_EXACT, 201.5f },
        { "  ep=4   way=b ", "way=b chunks=2 sms=8", MOE_EXACT, 201.5f },
        { "way=b", "way=b chunks=2 sms=8", MOE_EXACT, 201.5f },
        { "ep=4", "chunks=2", MOE_EXACT, 1.5f },
        { "way=a", "chunks=2", MOE_EXACT, 1.5f },
        { "ep=8", "ep=8", MOE_UNKNOWN_LAUNCH, 0 },
        { "ep=8 way=b", "ep=8 way=b chunks=2", MOE_UNKNOWN_LAUNCH, 0 },
    };
    const struct declaration *d = known(launched);
    struct plain t = one_of_each(d);
    struct moelookup *table;

    write_table("words.db", d, &t);
    table = open_table(place("words.db"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int by = 0; by < 2; by++) { /* as words, and by the environment */
            struct moelookup_view *view;

            if (by)
                setenv("MOELOOKUP_LAUNCH", cases[i].words, 1);
            view = by ? bind_layer(table, layer_of(d)) : bind_inside(table, d, cases[i].words);
            unsetenv("MOELOOKUP_LAUNCH");
            CHECK(is_told(ask_bucket(view, d, 1), d, cases[i].told, cases[i].source, cases[i].us));
            moelookup_view_free(view);
        }
    /* What is given counts, and not the environment. */
    setenv("MOELOOKUP_LAUNCH", "ep=8", 1);
    for (int i = 0; i < 2; i++) {
        struct moelookup_view *view = bind_inside(table, d, i ? "way=b" : "");

        CHECK(is_told(ask_bucket(view, d, 1), d, i ? "way=b chunks=2 sms=8" : "ep=8",
                      i ? MOE_EXACT : MOE_UNKNOWN_LAUNCH, i ? 201.5f : 0));
        moelookup_view_free(view);
    }
    unsetenv("MOELOOKUP_LAUNCH");
    moelookup_close(table);
}

static bool is_wrong(const struct moelookup *table, struct moe_shape shape, const char *words,
                     const char *sentence)
{
    struct moelookup_view *view = NULL;
    int rc;

    catch_stderr();
    rc = moelookup_bind_launch(table, &shape, NULL, words, &view);
    release_stderr();
    if (rc == MOE_ERR_ARGUMENT && !view && strstr(heard, sentence) && count_of(heard, "\n") == 1)
        return true;
    printf("    %s: %d, %s", words ? words : "the environment", rc, heard);
    return false;
}

static void wrong_words_are_one_sentence_and_no_view(void)
{
    static const struct {
        const char *words, *sentence;
    } cases[] = {
        { "epp=8", "bind: \"epp=8\" is no AXIS=VALUE of a launch: launched has no such axis "
                   "(restart axes: way, ep)" },
        { "way=b ep=9", "bind: \"ep=9\": the axis has no such value" },
        { "chunks=2", "launched changes that axis while it runs" },
        { "ep=8 way=b ep=8", "the axis is named twice" },
        { "ep", "\"ep\" is no AXIS=VALUE of a launch: launched needs a value" },
        { "ep=", "the axis has no such value" },
        { "ep=8,way=b", "the axis has no such value" },
        { "ep=3", "no plan of launched with way=a ep=3 is legal on 8 ranks" },
    };
    const struct declaration *d = known(launched);
    const struct declaration *live = known("space alive\naxis n 1 2 default 1\nkey t edges 64\n");
    struct plain t = one_of_each(d);
    struct moelookup *table;
    struct moelookup_view *view;
    char line[128];

    write_table("wrong.db", d, &t);
    table = open_table(place("wrong.db"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK(is_wrong(table, layer_of(d), cases[i].words, cases[i].sentence));
        setenv("MOELOOKUP_LAUNCH", cases[i].words, 1);
        CHECK(is_wrong(table, layer_of(d), NULL, "MOELOOKUP_LAUNCH: "));
        unsetenv("MOELOOKUP_LAUNCH");
    }
    snprintf(line, sizeof(line), "bind: \"%s\" is a launch, and the layer is of no declared space",
             "ep=8");
    CHECK(is_wrong(table, layer(96), "ep=8", line));
    CHECK(is_wrong(table, layer_of(live), "n=2", "(restart axes: none)"));
    /* One job may have layers of several kinds. */
    setenv("MOELOOKUP_LAUNCH", "ep=8", 1);
    catch_stderr();
    view = bind_layer(table, layer(96));
    CHECK(is_answer(ask(view, 300), "r=1", MOE_DEFAULT));
    moelookup_view_free(view);
    view = bind_layer(table, layer_of(live));
    CHECK(ask(view, 300).source == MOE_DEFAULT && ask(view, 300).choice == live->default_choice);
    moelookup_view_free(view);
    release_stderr();
    unsetenv("MOELOOKUP_LAUNCH");
    moelookup_close(table);
}

/* ---- what of another launch is passed over */

static void pins_of_another_launch_are_said_and_passed_over(void)
{
    const struct declaration *d = known(launched);
    struct plain t = one_of_each(d);
    struct moelookup *table;
    struct moelookup_view *view;

    t.pinned[1] = t.pinned[2] = true;
    t.pins[1] = words_plan(d, "way=b ep=8 chunks=4");
    t.pins[2] = words_plan(d, "way=b chunks=4 sms=8");
    write_table("pins.db", d, &t);
    setenv("MOELOOKUP_LOG", "warn", 1);
    table = open_table(place("pins.db"));
    for (int i = 0; i < 2; i++) {
        view = bind_inside(table, d, "way=b");
        CHECK(is_told(ask_bucket(view, d, 1), d, "way=b chunks=2 sms=8", MOE_EXACT, 201.5f));
        CHECK(is_told(ask_bucket(view, d, 2), d, "way=b chunks=4 sms=8", MOE_OVERRIDE, 0));
        moelookup_view_free(view);
    }
    moelookup_close(table);
}

static void other_pins_are_said_once(void)
{
    in_child(pins_of_another_launch_are_said_and_passed_over);
    CHECK(count_of(heard, "the pinned plan way=b chunks=4 ep=8 sms=16 space=launched@") == 1);
    CHECK(strstr(heard, " is of another launch than way=b ep=4: ignored\n"));
}

static void what_is_forced_answers_in_its_own_launch_alone(void)
{
    const struct declaration *d = known(launched);
    struct plain t = one_of_each(d);
    struct moelookup *table;
    struct moelookup_view *view;

    write_table("forced.db", d, &t);
    setenv("MOELOOKUP_FORCE", "way=b chunks=4 sms=8 space=launched", 1);
    setenv("MOELOOKUP_LOG", "warn", 1);
    table = open_table(place("forced.db"));
    unsetenv("MOELOOKUP_FORCE");
    view = bind_inside(table, d, "way=b");
    CHECK(is_told(ask_bucket(view, d, 0), d, "way=b chunks=4 sms=8", MOE_OVERRIDE, 0));
    moelookup_view_free(view);
    catch_stderr();
    view = bind_inside(table, d, "way=a");
    release_stderr();
    CHECK(strstr(heard, "MOELOOKUP_FORCE is of another launch: ignored"));
    CHECK(is_told(ask_bucket(view, d, 1), d, "chunks=2", MOE_EXACT, 1.5f));
    moelookup_view_free(view);
    moelookup_close(table);
    setenv("MOELOOKUP_DISABLE", "1", 1);
    table = open_table(place("forced.db"));
    view = bind_inside(table, d, "way=b ep=8");
    CHECK(is_told(ask_bucket(view, d, 1), d, "way=b ep=8 chunks=2", MOE_DEFAULT, 0));
    moelookup_view_free(view);
    moelookup_close(table);
    no_environment();
}

/* The default that answers for an unsound plan may be of another launch: then the row does. */
static void in_the_place_of_an_unsound_plan_no_other_launch_answers(void)
{
    const struct declaration *d = known(launched);
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer_of(d);
    struct store *store;
    struct moelookup *table;
    struct moelookup_view *view;
    struct ids ids;

    fresh_database("unsound.db");
    store = new_store(place("unsound.db"));
    ids = add_layer(store, &cluster, &shape);
    add_entry_of(store, ids, 0, words_plan(d, "way=b chunks=4"), false);
    add_entry_of(store, ids, 1, words_plan(d, "chunks=4"), false);
    add_launch(store, ids, 0, words_plan(d, "way=b chunks=2"), 50);
    add_launch(store, ids, 1, words_plan(d, "chunks=2"), 60);
    store_close(store);
    alter(place("unsound.db"), "UPDATE entry SET time_us = 99, default_us = 20");
    table = open_table(place("unsound.db"));
    view = bind_inside(table, d, "way=b");
    CHECK(is_told(ask_bucket(view, d, 0), d, "way=b chunks=2", MOE_EXACT, 50));
    moelookup_view_free(view);
    view = bind_inside(table, d, "way=a");
    CHECK(ask_bucket(view, d, 1).source == MOE_UNSOUND);
    CHECK(ask_bucket(view, d, 1).choice == d->default_choice);
    moelookup_view_free(view);
    moelookup_close(table);
}

/* ---- what is said and counted */

static void an_explanation_names_the_launch_and_where_the_answer_comes_from(void)
{
    static const struct {
        const char *words, *said[3];
        uint64_t key;
    } cases[] = {
        { "way=b",
          { ", inside way=b ep=4: way=b chunks=4", "; exact: measured in this bucket; ",
            "0.0105 ms against" },
          10 },
        { "way=b",
          { "way=b chunks=2",
            "; exact: the best that launches with these values ran in "
            "this range; ",
            "; 0.2015 ms; abacus (" },
          100 },
        { "way=b",
          { "way=b chunks=1",
            "; default: launches with these values ran nothing in this "
            "range; ",
            "abacus (" },
          500 },
        { "ep=8",
          { ", inside way=a ep=8: way=a chunks=1 ep=8",
            "; unknown launch: no launch with "
            "these values was sampled; ",
            "abacus (" },
          500 },
    };
    const struct declaration *d = known(launched);
    struct plain t = one_of_each(d);
    struct moelookup *table;
    char text[512];

    write_table("said.db", d, &t);
    table = open_table(place("said.db"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct moelookup_view *view = bind_inside(table, d, cases[i].words);

        CHECK(moelookup_explain_key(view, cases[i].key, 0, text, sizeof(text)) > 0);
        for (int k = 0; k < 3; k++)
            if (!strstr(text, cases[i].said[k])) {
                CHECK(false);
                printf("    %s: no %s\n", text, cases[i].said[k]);
            }
        moelookup_view_free(view);
    }
    moelookup_close(table);
}

static void a_record_says_that_the_launch_is_unknown(void)
{
    const struct declaration *d = known(launched);
    struct plain t = one_of_each(d);
    struct moelookup *table;
    struct moelookup_view *view;
    char text[4096];

    write_table("recorded.db", d, &t);
    table = open_table(place("recorded.db"));
    CHECK(moelookup_record(table, place("launch.jsonl")) == MOE_OK);
    view = bind_inside(table, d, "ep=8");
    ask_bucket(view, d, 2);
    moelookup_view_free(view);
    moelookup_close(table);
    read_text(place("launch.jsonl"), text, sizeof(text));
    CHECK(strstr(text, "\"asked\":[[2,\"unknown launch\",1]]"));
}

/* ---- rows and bytes that are not ours */

static void rows_without_sense_are_left_out(void)
{
    static const char *const damages[] = {
        "UPDATE launch SET launch = 'way=b ep=8'",
        "UPDATE launch SET launch = 'ep=4 way=b'",
        "UPDATE launch SET plan = 'r=1'",
        "UPDATE launch SET plan = 'nonsense'",
        "UPDATE launch SET time_us = 0",
        "UPDATE launch SET time_us = 1e300",
        "UPDATE launch SET bucket = 4",
        "UPDATE launch SET bucket = -1",
        "UPDATE launch SET shape = 77",
        "ALTER TABLE launch DROP COLUMN time_us",
        "DROP TABLE launch",
        "ALTER TABLE launch RENAME TO x; CREATE VIEW launch AS SELECT * FROM x",
    };
    const struct declaration *d = known(launched);

    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct plain t = one_of_each(d);
        struct moelookup *table;
        struct moelookup_view *view;
        struct packed p;

        t.row[1][0] = false;
        write_table("senseless.db", d, &t);
        remove(place("senseless.db.published"));
        alter(place("senseless.db"), damages[i]);
        table = open_table(place("senseless.db"));
        view = bind_inside(table, d, "way=b");
        CHECK(is_told(ask_bucket(view, d, 0), d, "way=b chunks=4", MOE_EXACT, 10.5f));
        CHECK(is_told(ask_bucket(view, d, 1), d, "way=b", MOE_DEFAULT, 0));
        p = pack(table);
        CHECK(p.bytes[8] == 5); /* as if there had been no row */
        free(p.bytes);
        moelookup_view_free(view);
        moelookup_close(table);
    }
}

/* A table of launches alone answers, too; of two files the first one that has a row. */
static void rows_alone_are_a_table_and_the_first_file_comes_first(void)
{
    const struct declaration *d = known(launched);
    struct plain t = { .entry = { false } };
    struct moelookup *table, *same;
    struct moelookup_view *view;

    t.row[1][0] = true;
    t.rows[1][0] = words_plan(d, "chunks=2");
    write_table("second.db", d, &t);
    t.row[2][0] = true;
    t.rows[1][0] = words_plan(d, "chunks=4");
    t.rows[2][0] = words_plan(d, "chunks=4");
    write_table("first.db", d, &t);
    setenv("MOELOOKUP_DB", place("second.db"), 1);
    setenv("MOETUNE_DB", place("first.db"), 1);
    table = open_table(NULL);
    no_environment();
    same = unpacked(table);
    for (int packed = 0; packed < 2; packed++) {
        view = bind_inside(packed ? same : table, d, "ep=4");
        CHECK(is_told(ask_bucket(view, d, 1), d, "chunks=2", MOE_EXACT, 1.5f));
        CHECK(is_told(ask_bucket(view, d, 2), d, "chunks=4", MOE_EXACT, 2.5f));
        CHECK(is_told(ask_bucket(view, d, 3), d, "", MOE_DEFAULT, 0));
        moelookup_view_free(view);
    }
    moelookup_close(same);
    moelookup_close(table);
}

/* Every answer is of the view's launch, whatever the bytes are. */
static bool is_harmless(const uint8_t *bytes, size_t size, const struct declaration *d)
{
    struct moelookup *table = NULL;
    struct packed again;
    bool fine = true;
    int rc = moelookup_unpack(bytes, size, &table);

    if (rc)
        return rc == MOE_ERR_FORMAT && !table;
    again = pack(table);
    fine = again.size == size && !memcmp(again.bytes, bytes, size);
    free(again.bytes);
    for (uint32_t l = 0; l < LAUNCHES; l++) {
        struct moe_shape shape = layer_of(d);
        struct moelookup_view *view = NULL;

        if (moelookup_bind_launch(table, &shape, NULL, launches[l], &view))
            continue;
        for (uint32_t b = 0; b < RANGES; b++) {
            struct moe_plan plan = ask_bucket(view, d, b);

            fine = fine && launch_of(d, &plan) == l && plan_legal(&plan, &shape);
        }
        moelookup_view_free(view);
    }
    moelookup_close(table);
    return fine;
}

static void every_damaged_byte_is_refused_or_harmless(void)
{
    const struct declaration *d = known(launched);
    struct plain t = one_of_each(d);
    struct packed p, back;
    uint32_t accepted = 0;

    write_table("bytes.db", d, &t);
    p = pack_file(place("bytes.db"));
    CHECK(p.bytes[8] == 8 && is_harmless(p.bytes, p.size, d));
    back = pack_file(place("bytes.db"));
    catch_stderr(); /* what is bound and does not fit */
    for (size_t at = 8; at < p.size; at++)
        for (int i = 0; i < 4; i++) {
            struct moelookup *table = NULL;

            p.bytes[at] = i ? p.bytes[at] ^ (uint8_t)(1 + draw(255)) : p.bytes[at] + 1;
            pack_seal(p.bytes, p.size);
            CHECK(is_harmless(p.bytes, p.size, d));
            accepted += !moelookup_unpack(p.bytes, p.size, &table);
            moelookup_close(table);
            memcpy(p.bytes, back.bytes, p.size);
        }
    for (size_t size = 0; size < p.size; size++)
        CHECK(moelookup_unpack(p.bytes, size, &(struct moelookup *){ NULL }) == MOE_ERR_FORMAT);
    release_stderr();
    CHECK(accepted > 0); /* a time, say */
    free(p.bytes);
    free(back.bytes);
}

/* As it was written once by tests/fuzz/fuzz_lookup.c. */
static void a_frozen_table_answers_as_it_did(void)
{
    FILE *file = fopen("tests/data/corpus/lookup/packed-launch", "rb");
    struct packed p = { .bytes = calloc(1, 4096) }, again;
    struct moe_shape shape = layer(96);
    struct moelookup *table = NULL;
    struct moelookup_view *view = NULL;
    const struct declaration *d;
    uint32_t id = 0;

    CHECK(file && (p.size = fread(p.bytes, 1, 4096, file)) > 64);
    if (file)
        fclose(file);
    CHECK(!moelookup_unpack(p.bytes, p.size, &table) && p.bytes[8] == 8);
    CHECK(!moelookup_space(table, "l", &id));
    CHECK(!moelookup_space_layer(table, id, 0, &shape));
    d = declaration_find(id);
    CHECK(!moelookup_bind_launch(table, &shape, NULL, "w=y", &view));
    CHECK(is_told(ask_bucket(view, d, 0), d, "w=y a=3", MOE_EXACT, 4.5f));
    CHECK(is_told(ask_bucket(view, d, 2), d, "w=y", MOE_DEFAULT, 0));
    again = pack(table);
    CHECK(again.size == p.size && !memcmp(again.bytes, p.bytes, p.size));
    moelookup_view_free(view);
    moelookup_close(table);
    free(p.bytes);
    free(again.bytes);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_ladder_inside_a_launch_is_that_of_a_plain_walk),
        TEST(who_says_no_launch_is_told_the_entries_and_their_launch),
        TEST(words_come_in_any_order_and_the_others_have_their_defaults),
        TEST(wrong_words_are_one_sentence_and_no_view),
        TEST(other_pins_are_said_once),
        TEST(what_is_forced_answers_in_its_own_launch_alone),
        TEST(in_the_place_of_an_unsound_plan_no_other_launch_answers),
        TEST(an_explanation_names_the_launch_and_where_the_answer_comes_from),
        TEST(a_record_says_that_the_launch_is_unknown),
        TEST(rows_without_sense_are_left_out),
        TEST(rows_alone_are_a_table_and_the_first_file_comes_first),
        TEST(every_damaged_byte_is_refused_or_harmless),
        TEST(a_frozen_table_answers_as_it_did),
    };

    return run_with_folder(tests, sizeof(tests) / sizeof(tests[0]));
}
