/* Tests the look-up library with spaces that a program declares: which spaces there are, keys and
 * classes, the ladder against a plain walk, values, and which callers must get no answer. */
#include "lookup_tables.h"

#include "declaration.h"

static const char torch_moe[] = "space torch-moe\n"
                                "axis dispatcher allgather alltoall default allgather restart\n"
                                "axis chunks 1 2 4 default 1 live\n"
                                "axis bias -3 0 7 default 0 live\n"
                                "need dispatcher=alltoall | chunks=1\n"
                                "key tokens edges 64 256 1024\n";
static const char skewed[] = "space skewed\n"
                             "axis sms 8 16 20 default 20 live\n"
                             "key rows edges 10 100 1000 10000 100000\n"
                             "class skew edges 1.1 2.003\n";

static const struct declaration *known(const char *text)
{
    const struct declaration *d = NULL;

    CHECK(!declaration_register(text, &d));
    return d;
}

static struct moe_shape layer_of(const struct declaration *d, uint32_t hidden)
{
    struct moe_shape shape = layer(hidden);

    shape.space = d->id;
    return shape;
}

static struct moe_plan plan_at(const struct declaration *d, size_t i)
{
    struct moe_plan plan = MOE_PLAN_INIT;

    plan.space = d->id;
    plan.choice = d->plan[i % d->plans];
    return plan;
}

static struct entry_row row_of(struct ids ids, const struct declaration *d, uint32_t bucket,
                               size_t plan)
{
    struct entry_row e = entry_of(ids, 1, bucket, "r=1");

    e.plan = plan_at(d, plan);
    e.capacity = declaration_key(d, bucket);
    return e;
}

/* A table in which every bucket of a range has an entry of its own plan. */
static void write_full(const char *path, const struct declaration *d)
{
    struct store *store = new_store(path);
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer_of(d, 96), other = layer_of(d, 192);
    struct ids ids = add_layer(store, &cluster, &shape);
    struct entry_row e;

    for (uint32_t b = 0; b < declaration_buckets(d); b++) {
        e = row_of(ids, d, b, b);
        CHECK(!store_entry_put(store, &e, "measured"));
    }
    ids = add_layer(store, &cluster, &other); /* a second one has the same space */
    e = row_of(ids, d, 0, 1);
    CHECK(!store_entry_put(store, &e, "measured"));
    publish_and_close(store);
}

/* ---- names */

static void a_table_says_its_spaces(void)
{
    const struct declaration *d = known(torch_moe),
                             *later = known("space torch-moe\naxis chunks 1 2 default 1\n"
                                            "key tokens edges 64\n");
    char tag[DECLARATION_TAG_BYTES];
    struct moelookup *table, *same;
    uint32_t id = 7;

    write_full(place("names.db"), d);
    table = open_table(place("names.db"));
    for (int packed = 0; packed < 2; packed++) {
        same = packed ? unpacked(table) : table;
        /* The other version is known to this process, and not to the table. */
        CHECK(moelookup_space(same, "torch-moe", &id) == MOE_OK && id == d->id);
        id = 7;
        CHECK(moelookup_space(same, declaration_tag(d, tag), &id) == MOE_OK && id == d->id);
        catch_stderr();
        id = 7;
        CHECK(moelookup_space(same, declaration_tag(later, tag), &id) == MOE_ERR_ARGUMENT);
        CHECK(moelookup_space(same, "torch", &id) == MOE_ERR_ARGUMENT);
        CHECK(moelookup_space(same, "", &id) == MOE_ERR_ARGUMENT && id == 7);
        CHECK(moelookup_space(NULL, "torch-moe", &id) == MOE_ERR_ARGUMENT);
        CHECK(moelookup_space(same, NULL, &id) == MOE_ERR_ARGUMENT);
        CHECK(moelookup_space(same, "torch-moe", NULL) == MOE_ERR_ARGUMENT);
        release_stderr();
        if (packed)
            moelookup_close(same);
    }
    moelookup_close(table);
}

static void of_several_versions_the_newest_with_entries_is_meant(void)
{
    static const char *const texts[] = {
        "space torch-moe\naxis n 1 2 default 1\nkey t edges 64\n",
        "space torch-moe\naxis n 1 2 3 default 1\nkey t edges 64\n",
        "space torch-moe\naxis n 1 2 4 default 1\nkey t edges 64\n"
    };
    struct cluster cluster = machine("abacus", 8, 4);
    char tag[DECLARATION_TAG_BYTES];

    for (int first = 0; first < 3; first++) { /* so whatever order their numbers have */
        const struct declaration *older = known(texts[first]),
                                 *newer = known(texts[(first + 1) % 3]),
                                 *last = known(texts[(first + 2) % 3]),
                                 *order[3] = { older, newer, last };
        char name[32];
        struct store *store;
        struct moelookup *table;
        uint32_t id = 0;

        snprintf(name, sizeof(name), "versions%d.db", first);
        store = new_store(place(name));
        for (int i = 0; i < 3; i++) {
            struct moe_shape shape = layer_of(order[i], 96);
            struct entry_row e = row_of(add_layer(store, &cluster, &shape), order[i], 0, 0);

            if (order[i] != last) /* it has no entries */
                CHECK(!store_entry_put(store, &e, "measured"));
        }
        publish_and_close(store);
        table = open_table(place(name));
        for (int packed = 0; packed < 2; packed++) {
            struct moelookup *same = packed ? unpacked(table) : table;

            CHECK(moelookup_space(same, "torch-moe", &id) == MOE_OK && id == newer->id);
            CHECK(moelookup_space(same, declaration_tag(older, tag), &id) == MOE_OK &&
                  id == older->id);
            if (packed)
                moelookup_close(same);
        }
        moelookup_close(table);
    }
}

static void a_text_is_answered_without_a_table(void)
{
    const struct declaration *d = known(torch_moe);
    struct moe_shape shape = MOE_SHAPE_INIT;
    struct moelookup *table;
    struct moelookup_view *view;
    struct moe_plan plan = MOE_PLAN_INIT;
    uint32_t id = 0;

    setenv("MOELOOKUP_DISABLE", "1", 1);
    table = open_table(place("nowhere.db"));
    unsetenv("MOELOOKUP_DISABLE");
    catch_stderr();
    CHECK(moelookup_space(table, "torch-moe", &id) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_space(table, "space torch-moe\naxis\n", &id) == MOE_ERR_ARGUMENT && !id);
    release_stderr();
    CHECK(strstr(heard, "line 2"));
    CHECK(moelookup_space(table, torch_moe, &id) == MOE_OK && id == d->id);
    CHECK(moelookup_space_layer(table, id, 0, &shape) == MOE_OK && shape.top_k == 0);
    CHECK(moelookup_space_layer(table, id, 1, &shape) == MOE_ERR_ARGUMENT);
    view = bind_layer(table, shape);
    CHECK(moelookup_get_key(view, 100, 0, &plan) == MOE_OK && plan.source == MOE_DEFAULT);
    CHECK(plan.space == id && plan.choice == d->default_choice);
    moelookup_view_free(view);
    moelookup_close(table);
}

static void layers_of_a_space_are_listed(void)
{
    const struct declaration *d = known(torch_moe);
    struct moe_shape shape = MOE_SHAPE_INIT, wanted = layer_of(d, 96);
    struct moelookup *table;

    write_full(place("layers.db"), d);
    table = open_table(place("layers.db"));
    CHECK(moelookup_space_layer(table, d->id, 0, &shape) == MOE_OK && shape_equal(&shape, &wanted));
    CHECK(moelookup_space_layer(table, d->id, 1, &shape) == MOE_OK && shape.hidden_dim == 192);
    CHECK(moelookup_space_layer(table, d->id, 2, &shape) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_space_layer(table, d->id + 1, 0, &shape) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_space_layer(table, 0, 0, &shape) == MOE_ERR_ARGUMENT);
    shape.struct_size = offsetof(struct moe_shape, space);
    CHECK(moelookup_space_layer(table, d->id, 0, &shape) == MOE_ERR_ARGUMENT);
    moelookup_close(table);
}

/* Its numbers of buckets are no keys. */
static void the_dictionary_says_no_capacities_of_a_space(void)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;

    write_full(place("dictionary.db"), known(torch_moe));
    CHECK(sqlite3_open(place("dictionary.db"), &db) == SQLITE_OK);
    CHECK(sqlite3_prepare_v2(db, "SELECT count(*), count(c_from) + count(c_to) FROM dictionary", -1,
                             &s, NULL) == SQLITE_OK);
    CHECK(sqlite3_step(s) == SQLITE_ROW && sqlite3_column_int(s, 0) == 5);
    CHECK(sqlite3_column_int(s, 1) == 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
}

/* ---- keys */

static uint32_t bucket_asked(const struct moelookup_view *view, uint64_t key, double class)
{
    struct moe_plan plan = MOE_PLAN_INIT;

    CHECK(moelookup_get_key(view, key, class, &plan) == MOE_OK && plan.source == MOE_EXACT);
    return plan.bucket;
}

static void keys_and_classes_follow_the_edges(void)
{
    static const uint64_t keys[] = { 0, 10, 11, 100, 101, 10000, 100000, 100001, UINT64_MAX };
    static const uint32_t buckets[] = { 0, 0, 1, 1, 2, 3, 4, 5, 5 };
    static const double classes[] = { 0, 0, 1.1, 1.1000001, 2.003, 2.0030001, 1e300, HUGE_VAL };
    static const uint32_t class_at[] = { 0, 0, 0, 1, 1, 2, 2, 2 };
    const struct declaration *d = known(skewed);
    struct moelookup *table;
    struct moelookup_view *view;
    struct moe_plan plan = MOE_PLAN_INIT;

    write_full(place("keys.db"), d);
    table = open_table(place("keys.db"));
    view = bind_layer(table, layer_of(d, 96));
    for (int k = 0; k < 9; k++) {
        for (int c = 0; c < 8; c++)
            CHECK(bucket_asked(view, keys[k], classes[c]) == buckets[k] * 3 + class_at[c]);
        if (keys[k] <= UINT32_MAX)
            CHECK(ask(view, (uint32_t)keys[k]).bucket == buckets[k] * 3);
    }
    plan.r = 77;
    CHECK(moelookup_get_key(view, 1, (double)NAN, &plan) == MOE_ERR_ARGUMENT && plan.r == 77);
    CHECK(moelookup_get_key(view, 1, -1, &plan) == MOE_ERR_ARGUMENT && plan.r == 77);
    CHECK(moelookup_get_key(NULL, 1, 1, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_get_key(view, 1, 1, NULL) == MOE_ERR_ARGUMENT);
    moelookup_view_free(view);
    moelookup_close(table);
}

static void a_view_of_our_own_plans_takes_the_key_as_a_capacity(void)
{
    struct moelookup *table;
    struct moelookup_view *view;

    write_small(place("own.db"), "abacus", 96);
    table = open_table(place("own.db"));
    view = bind_layer(table, layer(96));
    for (int i = 0; i < 2000; i++) {
        uint32_t capacity = draw(2000);
        struct moe_plan plan = MOE_PLAN_INIT, want = ask(view, capacity);

        CHECK(moelookup_get_key(view, capacity, (double)NAN, &plan) == MOE_OK);
        CHECK(!memcmp(&plan, &want, sizeof(plan)));
    }
    moelookup_view_free(view);
    moelookup_close(table);
}

/* ---- the ladder */

struct plain {
    const struct declaration *d;
    bool there[32], stale[32], pinned[32];
};

static void write_plain(const char *path, const struct plain *t)
{
    struct store *store = new_store(path);
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer_of(t->d, 96);
    struct ids ids = add_layer(store, &cluster, &shape);

    for (uint32_t b = 0; b < declaration_buckets(t->d); b++) {
        struct entry_row e = row_of(ids, t->d, b, b);
        struct override_row pin = { .cluster = ids.cluster,
                                    .shape = ids.shape,
                                    .window = 1,
                                    .first = b,
                                    .last = b,
                                    .plan = plan_at(t->d, b + 1) };

        if (t->there[b])
            CHECK(!store_entry_put(store, &e, "measured"));
        if (t->there[b] && t->stale[b])
            CHECK(!store_expire(store, ids.cluster, ids.shape, 1, b, b, "asked"));
        snprintf(pin.why, sizeof(pin.why), "asked");
        if (t->pinned[b])
            CHECK(!store_override_add(store, &pin));
    }
    publish_and_close(store);
}

static bool is_right(const struct plain *t, const struct moelookup_view *view, uint32_t bucket)
{
    uint32_t classes = declaration_classes(t->d), class = bucket % classes;
    uint64_t key = declaration_key(t->d, bucket);
    struct moe_plan got = MOE_PLAN_INIT, want = plan_at(t->d, bucket);

    CHECK(moelookup_get_key(view, key, class ? t->d->class_edge[class - 1] / 1000.0 + 0.01 : 0,
                            &got) == MOE_OK);
    if (t->pinned[bucket])
        return got.source == MOE_OVERRIDE && got.choice == plan_at(t->d, bucket + 1).choice;
    if (!t->there[bucket])
        return got.source == MOE_DEFAULT && got.choice == t->d->default_choice &&
               got.space == t->d->id;
    want.source = t->stale[bucket] ? MOE_STALE : MOE_EXACT;
    if (plan_equal(&got, &want) && got.source == want.source && got.bucket == bucket)
        return true;
    printf("    bucket %u: %u of %u, not %u\n", bucket, got.source, got.bucket, want.source);
    return false;
}

static void the_ladder_is_that_of_a_plain_walk(void)
{
    for (int batch = 0; batch < 60; batch++) {
        struct plain t = { .d = known(batch % 2 ? skewed : torch_moe) };
        uint32_t percent = draw(100);
        struct moelookup *table, *same;

        for (uint32_t b = 0; b < declaration_buckets(t.d); b++) {
            t.there[b] = chance(percent);
            t.stale[b] = chance(40);
            t.pinned[b] = chance(5);
        }
        remove(place("plain.db"));
        remove(place("plain.db.published"));
        remove(place("plain.db.journal"));
        write_plain(place("plain.db"), &t);
        table = open_table(place("plain.db"));
        same = unpacked(table);
        for (int packed = 0; packed < 2; packed++) {
            struct moelookup_view *view = bind_layer(packed ? same : table, layer_of(t.d, 96));

            for (uint32_t b = 0; b < declaration_buckets(t.d); b++)
                CHECK(is_right(&t, view, b));
            moelookup_view_free(view);
        }
        moelookup_close(same);
        moelookup_close(table);
    }
}

/* ---- values */

static void values_are_words_or_numbers(void)
{
    const struct declaration *d = known(torch_moe);
    struct moe_plan plan = MOE_PLAN_INIT, again = MOE_PLAN_INIT, own = MOE_PLAN_INIT;
    char text[PLAN_TEXT_BYTES], wanted[PLAN_TEXT_BYTES], tag[DECLARATION_TAG_BYTES];
    int64_t number = 0;

    snprintf(wanted, sizeof(wanted), "dispatcher=alltoall chunks=4 bias=-3 space=%s",
             declaration_tag(d, tag));
    CHECK(moe_plan_parse(wanted, &plan) == MOE_OK && plan.space == d->id);
    CHECK(moe_plan_format(&plan, text, sizeof(text)) == (int)strlen(wanted) &&
          !strcmp(text, wanted));
    CHECK(moe_plan_parse(text, &again) == MOE_OK && plan_equal(&again, &plan));
    CHECK(moelookup_value(&plan, "dispatcher", text, sizeof(text)) == 8 &&
          !strcmp(text, "alltoall"));
    CHECK(moelookup_value(&plan, "dispatcher", text, 4) == 8 && !strcmp(text, "all"));
    CHECK(moelookup_value(&plan, "dispatcher", NULL, 0) == 8);
    CHECK(moelookup_value(&plan, "bias", text, sizeof(text)) == 2 && !strcmp(text, "-3"));
    CHECK(moelookup_number(&plan, "chunks", &number) == MOE_OK && number == 4);
    CHECK(moelookup_number(&plan, "bias", &number) == MOE_OK && number == -3);
    CHECK(moelookup_number(&plan, "dispatcher", &number) == MOE_ERR_ARGUMENT && number == -3);
    CHECK(moelookup_number(&plan, "chunk", &number) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_value(&plan, "chunkss", text, sizeof(text)) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_value(&plan, "", text, sizeof(text)) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_value(&plan, NULL, text, sizeof(text)) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_value(&plan, "chunks", NULL, 3) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_number(&plan, "chunks", NULL) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_value(&own, "r", text, sizeof(text)) == MOE_ERR_ARGUMENT);
    plan.choice = d->combinations;
    CHECK(moelookup_number(&plan, "chunks", &number) == MOE_ERR_ARGUMENT);
}

/* ---- who must not be answered */

static void a_space_answers_nobody_else(void)
{
    const struct declaration *d = known(torch_moe), *other = known(skewed);
    struct moe_shape old = layer_of(d, 96);
    struct moelookup *table;
    struct moelookup_view *view;

    write_full(place("apart.db"), d);
    table = open_table(place("apart.db"));
    CHECK(is_answer(ask_file(place("apart.db"), layer(96), 10), "r=1", MOE_DEFAULT));
    view = bind_layer(table, layer_of(other, 96));
    CHECK(ask(view, 10).source == MOE_DEFAULT && ask(view, 10).choice == other->default_choice);
    moelookup_view_free(view);
    old.struct_size = offsetof(struct moe_shape, space); /* has no such field */
    view = bind_layer(table, old);
    CHECK(is_answer(ask(view, 10), "r=1", MOE_DEFAULT));
    moelookup_view_free(view);
    old = layer_of(d, 96);
    old.space = 12345;
    catch_stderr();
    CHECK(moelookup_bind(table, &old, NULL, &view) == MOE_ERR_ARGUMENT);
    release_stderr();
    CHECK(strstr(heard, "space"));
    moelookup_close(table);
}

static void who_has_no_room_for_a_choice_is_refused(void)
{
    const struct declaration *d = known(torch_moe);
    struct moelookup *table;
    struct moelookup_view *view;

    write_full(place("room.db"), d);
    table = open_table(place("room.db"));
    view = bind_layer(table, layer_of(d, 96));
    for (uint32_t size = 0; size <= offsetof(struct moe_plan, choice); size++) {
        struct moe_plan plan = { .struct_size = size, .r = 77, .source = 77 };

        CHECK(moelookup_get(view, 10, &plan) == MOE_ERR_ARGUMENT);
        CHECK(moelookup_get_key(view, 10, 0, &plan) == MOE_ERR_ARGUMENT);
        CHECK(plan.r == 77 && plan.source == 77 && plan.struct_size == size);
        CHECK(moe_plan_parse("chunks=1 space=torch-moe", &plan) != MOE_OK && plan.r == 77);
    }
    moelookup_view_free(view);
    moelookup_close(table);
}

static void a_plan_of_a_space_can_be_forced(void)
{
    const struct declaration *d = known(torch_moe);
    struct moelookup *table;
    struct moelookup_view *view;
    char tag[DECLARATION_TAG_BYTES], text[PLAN_TEXT_BYTES];

    write_full(place("forced.db"), d);
    snprintf(text, sizeof(text), "dispatcher=alltoall chunks=4 bias=7 space=%s",
             declaration_tag(d, tag));
    setenv("MOELOOKUP_FORCE", text, 1);
    table = open_table(place("forced.db"));
    for (int packed = 0; packed < 2; packed++) {
        struct moelookup *same = packed ? unpacked(table) : table;

        view = bind_layer(same, layer_of(d, 96));
        CHECK(is_answer(ask(view, 10), text, MOE_OVERRIDE));
        moelookup_view_free(view);
        catch_stderr();
        view = bind_layer(same, layer(96)); /* for which it means nothing */
        release_stderr();
        CHECK(ask(view, 10).source == MOE_DEFAULT);
        moelookup_view_free(view);
        if (packed)
            moelookup_close(same);
    }
    moelookup_close(table);
    setenv("MOELOOKUP_FORCE", "chunks=3 space=torch-moe", 1);
    CHECK(is_refused(place("forced.db"), MOE_ERR_ARGUMENT));
    unsetenv("MOELOOKUP_FORCE");
}

/* ---- what is said */

static void an_explanation_speaks_of_keys_and_ranges(void)
{
    const struct declaration *d = known(skewed);
    struct plain t = { .d = d };
    struct moelookup *table;
    struct moelookup_view *view;
    char text[512];

    t.there[7] = true; /* range 2, class 1 */
    write_plain(place("said.db"), &t);
    table = open_table(place("said.db"));
    view = bind_layer(table, layer_of(d, 96));
    CHECK(moelookup_explain_key(view, 600, 1.5, text, sizeof(text)) > 0);
    CHECK(!strncmp(text, "rows=600, bucket 7 (rows 101-1000 skew ", 39));
    CHECK(strstr(text, "; exact: measured in this bucket; "));
    CHECK(moelookup_explain_key(view, 600, 9, text, sizeof(text)) > 0);
    CHECK(strstr(text, "default: nothing is decided for this range; "));
    CHECK(moelookup_explain(view, 5, text, sizeof(text)) > 0 && strstr(text, "default: nothing"));
    CHECK(moelookup_explain_key(view, 5, (double)NAN, text, sizeof(text)) == MOE_ERR_ARGUMENT);
    moelookup_view_free(view);
    moelookup_close(table);
}

static void a_record_says_the_space(void)
{
    const struct declaration *d = known(skewed);
    struct moelookup *table;
    struct moelookup_view *view;
    char tag[DECLARATION_TAG_BYTES], text[4096], wanted[128];

    write_full(place("recorded.db"), d);
    table = open_table(place("recorded.db"));
    CHECK(moelookup_record(table, place("space.jsonl")) == MOE_OK);
    view = bind_layer(table, layer_of(d, 96));
    bucket_asked(view, 600, 1.5);
    bucket_asked(view, 600, 1.5);
    ask(view, 5);
    moelookup_view_free(view);
    moelookup_close(table);
    read_text(place("space.jsonl"), text, sizeof(text));
    snprintf(wanted, sizeof(wanted), " space=%s\",\"window\":1", declaration_tag(d, tag));
    CHECK(strstr(text, wanted) && strstr(text, "\"asked\":[[0,\"exact\",1],[7,\"exact\",2]]"));
}

/* ---- bytes that are not ours */

static bool refused_when(uint8_t *bytes, size_t size)
{
    struct moelookup *table = NULL;
    int rc;

    pack_seal(bytes, size);
    rc = moelookup_unpack(bytes, size, &table);
    moelookup_close(table);
    return rc == MOE_ERR_FORMAT;
}

static void every_damaged_byte_of_a_space_is_refused_or_harmless(void)
{
    struct moelookup *table, *again;
    size_t size = 0, same = 0;
    uint8_t *bytes, *back;

    write_full(place("bytes.db"), known(torch_moe));
    table = open_table(place("bytes.db"));
    CHECK(moelookup_pack(table, NULL, &size) == MOE_OK);
    bytes = malloc(size + 1);
    back = malloc(size + 1);
    CHECK(moelookup_pack(table, bytes, &size) == MOE_OK && bytes[8] == 5);
    again = unpacked(table);
    same = size;
    CHECK(moelookup_pack(again, back, &same) == MOE_OK && same == size &&
          !memcmp(back, bytes, size));
    moelookup_close(again);
    for (size_t at = size - strlen(torch_moe) - 4; at < size; at++) {
        bytes[at] ^= (uint8_t)(1 + draw(255));
        CHECK(refused_when(bytes, size)); /* no byte of it is free: the id follows from all */
        memcpy(bytes, back, size);
    }
    bytes[size] = 0;
    CHECK(refused_when(bytes, size + 1) && refused_when(bytes, size - 1));
    free(bytes);
    free(back);
    moelookup_close(table);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_table_says_its_spaces),
        TEST(the_dictionary_says_no_capacities_of_a_space),
        TEST(a_text_is_answered_without_a_table),
        TEST(of_several_versions_the_newest_with_entries_is_meant),
        TEST(layers_of_a_space_are_listed),
        TEST(keys_and_classes_follow_the_edges),
        TEST(a_view_of_our_own_plans_takes_the_key_as_a_capacity),
        TEST(the_ladder_is_that_of_a_plain_walk),
        TEST(values_are_words_or_numbers),
        TEST(a_space_answers_nobody_else),
        TEST(who_has_no_room_for_a_choice_is_refused),
        TEST(a_plan_of_a_space_can_be_forced),
        TEST(an_explanation_speaks_of_keys_and_ranges),
        TEST(a_record_says_the_space),
        TEST(every_damaged_byte_of_a_space_is_refused_or_harmless),
    };

    return run_with_folder(tests, sizeof(tests) / sizeof(tests[0]));
}
