/* Tests which table of a file, and of several files, a layer is bound to. */
#include "lookup_tables.h"

/* ---- finding the dictionary */

/* True if it is refused and each of the words, separated by '|', is said. */
static bool is_ambiguous(const struct moelookup *table, struct moe_shape shape, const char *device,
                         const char *words)
{
    char list[256], *word, *rest = list;
    struct moe_plan got;
    int rc;

    catch_stderr();
    rc = bind_to(table, shape, device, &got);
    release_stderr();
    snprintf(list, sizeof(list), "%s", words);
    while ((word = strsep(&rest, "|")))
        if (!strstr(heard, word)) {
            printf("    no \"%s\" in: %s\n", word, heard);
            return false;
        }
    if (rc != MOE_ERR_AMBIGUOUS)
        printf("    %d is not ambiguous\n", rc);
    return rc == MOE_ERR_AMBIGUOUS;
}

static struct moe_shape with_tokens(struct moe_shape shape, uint32_t tokens)
{
    shape.tokens = tokens;
    return shape;
}

static struct moe_shape with_layers(struct moe_shape shape, uint32_t layers)
{
    shape.layers = layers;
    return shape;
}

/* 1 is what a table without the word is of. */
static void layers_are_preferred_equal_and_0_fits_any(void)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct store *store = new_store(place("layers.db"));
    struct moelookup *table;

    add_one(store, &cluster, with_layers(layer(96), 4), "r=2");
    add_one(store, &cluster, layer(192), "r=0");
    add_one(store, &cluster, with_layers(layer(192), 4), "r=2");
    add_one(store, &cluster, with_layers(layer(192), 8), "r=4");
    publish_and_close(store);
    table = open_table(place("layers.db"));
    for (uint32_t layers = 0; layers < 6; layers++)
        CHECK(binds_to(table, with_layers(layer(96), layers), NULL, "r=2"));
    CHECK(binds_to(table, layer(192), NULL, "r=0"));
    CHECK(binds_to(table, with_layers(layer(192), 1), NULL, "r=0"));
    CHECK(binds_to(table, with_layers(layer(192), 4), NULL, "r=2"));
    CHECK(binds_to(table, with_layers(layer(192), 8), NULL, "r=4"));
    CHECK(is_ambiguous(table, with_layers(layer(192), 2), NULL, "layers=4|layers=8"));
    moelookup_close(table);
}

/* A rank that holds whole experts and one that holds a part of each run other plans. */
static void a_layout_and_shares_are_parts_of_the_layer(void)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape cut = layer(96), fast = layer(96);
    struct store *store = new_store(place("cut.db"));
    struct moelookup *table;

    cut.layout = MOE_LAYOUT_HIDDEN;
    fast.shares = MOE_SHARES_SPEED;
    add_one(store, &cluster, layer(96), "r=2");
    add_one(store, &cluster, cut, "r=8 d=2 e=sparse");
    publish_and_close(store);
    table = open_table(place("cut.db"));
    CHECK(binds_to(table, layer(96), NULL, "r=2"));
    CHECK(binds_to(table, cut, NULL, "r=8 d=2 e=sparse"));
    CHECK(binds_to(table, fast, NULL, NULL));
    cut.layout = 2;
    catch_stderr();
    CHECK(moelookup_bind(table, &cut, NULL, &(struct moelookup_view *){ NULL }) ==
          MOE_ERR_ARGUMENT);
    release_stderr();
    moelookup_close(table);
}

static void tokens_are_preferred_equal_and_0_fits_any(void)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct store *store = new_store(place("tokens.db"));
    struct moelookup *table;

    add_one(store, &cluster, with_tokens(layer(96), 64), "r=2");
    add_one(store, &cluster, with_tokens(layer(192), 64), "r=2");
    add_one(store, &cluster, with_tokens(layer(192), 128), "r=4");
    publish_and_close(store);
    table = open_table(place("tokens.db"));
    CHECK(binds_to(table, with_tokens(layer(96), 64), NULL, "r=2"));
    CHECK(binds_to(table, with_tokens(layer(96), 0), NULL, "r=2"));
    CHECK(binds_to(table, with_tokens(layer(96), 100), NULL, "r=2"));
    CHECK(binds_to(table, with_tokens(layer(192), 64), NULL, "r=2"));
    CHECK(binds_to(table, with_tokens(layer(192), 128), NULL, "r=4"));
    CHECK(is_ambiguous(table, with_tokens(layer(192), 0), NULL, "64|128"));
    CHECK(is_ambiguous(table, with_tokens(layer(192), 100), NULL, "64|128"));
    moelookup_close(table);
}

static void every_other_field_of_the_shape_must_be_equal(void)
{
    struct moelookup *table;
    struct moe_shape others[9];

    write_small(place("fields.db"), "abacus", 96);
    table = open_table(place("fields.db"));
    CHECK(binds_to(table, layer(96), NULL, "r=2 d=4"));
    for (int i = 0; i < 9; i++)
        others[i] = layer(96);
    others[0].experts = 4;
    others[1].top_k = 1;
    others[2].model_dim = 32;
    others[3].hidden_dim = 192;
    others[4].ranks = 4;
    others[5].ranks_per_node = 2;
    others[6].dtype = MOE_BF16;
    others[7].pass = MOE_FORWARD;
    others[8].activation = MOE_GELU;
    for (int i = 0; i < 9; i++)
        CHECK(binds_to(table, others[i], NULL, NULL));
    moelookup_close(table);
}

static void illegal_shapes_are_refused_and_leave_the_view_alone(void)
{
    struct moelookup *table;
    struct moe_shape bad[6];
    struct moelookup_view *view = (struct moelookup_view *)&table;

    write_small(place("illegal.db"), "abacus", 96);
    table = open_table(place("illegal.db"));
    for (int i = 0; i < 6; i++)
        bad[i] = layer(96);
    bad[0].experts = 0;
    bad[1].experts = 3; /* does not divide 8 */
    bad[2].top_k = 3;
    bad[3].hidden_dim = 97; /* four ranks share it */
    bad[4].dtype = 3;
    bad[5].ranks = 0;
    for (int i = 0; i < 6; i++) {
        catch_stderr();
        CHECK(moelookup_bind(table, &bad[i], NULL, &view) == MOE_ERR_ARGUMENT);
        release_stderr();
        CHECK(*heard);
    }
    CHECK(view == (struct moelookup_view *)&table);
    moelookup_close(table);
}

static void hash_text(const struct cluster *cluster, char hex[SHA256_HEX_BYTES])
{
    uint8_t hash[HASH_BYTES];

    cluster_hash(cluster, hash);
    sha256_hex(hash, hex);
}

static void a_device_is_a_name_or_the_beginning_of_a_hash(void)
{
    struct cluster abacus = machine("abacus 3000", 8, 4), loom = machine("loom", 8, 4);
    struct store *store = new_store(place("device.db"));
    struct moelookup *table;
    char hex[SHA256_HEX_BYTES];

    add_one(store, &abacus, layer(96), "r=2");
    add_one(store, &loom, layer(96), "r=4");
    publish_and_close(store);
    table = open_table(place("device.db"));
    CHECK(binds_to(table, layer(96), "abacus 3000", "r=2"));
    CHECK(binds_to(table, layer(96), "loom", "r=4"));
    CHECK(binds_to(table, layer(96), "abacus", NULL));
    CHECK(binds_to(table, layer(96), "spindle", NULL));
    CHECK(binds_to(table, layer(96), "", NULL));
    CHECK(is_ambiguous(table, layer(96), NULL, "abacus 3000|loom"));
    for (int digits = 8; digits <= 64; digits += 28) {
        hash_text(&loom, hex);
        hex[digits] = 0;
        CHECK(binds_to(table, layer(96), hex, "r=4"));
    }
    hash_text(&loom, hex);
    hex[7] = 0;
    CHECK(binds_to(table, layer(96), hex, NULL));
    hash_text(&loom, hex);
    hex[20] = hex[20] == '0' ? '1' : '0';
    CHECK(binds_to(table, layer(96), hex, NULL));
    moelookup_close(table);
}

static void clusters_of_one_device_in_one_file_are_ambiguous(void)
{
    struct cluster one = machine("abacus", 8, 4), two = one;
    struct store *store = new_store(place("twins.db"));
    struct moelookup *table;
    char hex[2][SHA256_HEX_BYTES], words[2 * SHA256_HEX_BYTES];

    snprintf(two.link_between, sizeof(two.link_between), "rope");
    add_one(store, &one, layer(96), "r=2");
    add_one(store, &two, layer(96), "r=4");
    add_one(store, &two, layer(192), "r=4");
    publish_and_close(store);
    table = open_table(place("twins.db"));
    hash_text(&one, hex[0]);
    hash_text(&two, hex[1]);
    snprintf(words, sizeof(words), "%.8s|%.8s", hex[0], hex[1]);
    CHECK(is_ambiguous(table, layer(96), NULL, words));
    CHECK(is_ambiguous(table, layer(96), "abacus", words));
    CHECK(binds_to(table, layer(96), hex[0], "r=2"));
    CHECK(binds_to(table, layer(96), hex[1], "r=4"));
    CHECK(binds_to(table, layer(192), NULL, "r=4"));
    moelookup_close(table);
}

/* ---- several widths of one layer */

struct known_width {
    uint32_t window, entries;
    int64_t decided_s;
    const char *plan;
    enum { MEASURED, INFERRED, STALE } how;
};

static void add_width(struct store *store, struct ids ids, struct known_width w)
{
    for (uint32_t i = 0; i < w.entries; i++) {
        struct entry_row e = entry_of(ids, w.window, 512 / w.window + i, w.plan);

        e.decided_s = w.decided_s;
        e.inferred = w.how == INFERRED;
        e.stale = w.how == STALE;
        CHECK(!store_entry_put(store, &e, "measured"));
    }
}

static struct moelookup *table_of_widths(const char *name, struct known_width a,
                                         struct known_width b)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct store *store = new_store(place(name));
    struct ids ids = add_layer(store, &cluster, &shape);

    add_width(store, ids, a);
    add_width(store, ids, b);
    publish_and_close(store);
    return open_table(place(name));
}

static bool answers_512(const struct moelookup *table, const char *plan)
{
    struct moelookup_view *view = bind_layer(table, layer(96));
    struct moe_plan got = ask(view, 512), wanted = plan_of(plan);

    moelookup_view_free(view);
    return plan_equal(&got, &wanted);
}

/* Where it was written, packed, and packed once more. */
static bool answers_everywhere(const struct moelookup *table, const char *plan)
{
    struct packed first = pack(table), second;
    struct moelookup *copy, *again;
    bool all = answers_512(table, plan);

    CHECK(moelookup_unpack(first.bytes, first.size, &copy) == MOE_OK);
    second = pack(copy);
    CHECK(second.size == first.size && !memcmp(first.digest, second.digest, 32));
    CHECK(moelookup_unpack(second.bytes, second.size, &again) == MOE_OK);
    all = all && answers_512(copy, plan) && answers_512(again, plan);
    moelookup_close(copy);
    moelookup_close(again);
    free(first.bytes);
    free(second.bytes);
    return all;
}

static void of_several_widths_that_reach_far_enough_the_one_measured_last_answers(void)
{
    static const struct {
        struct known_width a, b; /* a answers */
    } cases[] = {
        { { 16, 1, 2000, "r=2", MEASURED }, { 128, 3, 1000, "r=4", MEASURED } },
        { { 128, 1, 2000, "r=2", MEASURED }, { 16, 3, 1000, "r=4", MEASURED } },
        { { 64, 1, 1000, "r=2", MEASURED }, { 1, 3, 2000, "r=4", INFERRED } },
        { { 64, 1, 1000, "r=2", MEASURED }, { 1, 3, 2000, "r=4", STALE } },
        { { 64, 3, 1000, "r=2", MEASURED }, { 1, 2, 1000, "r=4", MEASURED } },
        { { 16, 2, 1000, "r=2", MEASURED }, { 32, 2, 1000, "r=4", MEASURED } },
        /* Up to 528 and up to 1056, then 1088. */
        { { 16, 1, 2000, "r=2", MEASURED }, { 32, 17, 1000, "r=4", MEASURED } },
        { { 32, 18, 1000, "r=2", MEASURED }, { 16, 1, 2000, "r=4", MEASURED } },
        { { 1, 700, 1000, "r=2", INFERRED }, { 64, 1, 2000, "r=4", MEASURED } },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int turned = 0; turned < 2; turned++) {
            char name[32];
            struct moelookup *table;

            snprintf(name, sizeof(name), "widths-%zu-%d.db", i, turned);
            table = turned ? table_of_widths(name, cases[i].b, cases[i].a)
                           : table_of_widths(name, cases[i].a, cases[i].b);
            if (!answers_everywhere(table, "r=2")) {
                printf("    case %zu, turned %d\n", i, turned);
                CHECK(false);
            }
            moelookup_close(table);
        }
}

static void of_two_files_the_first_says_which_width(void)
{
    struct known_width old = { 128, 1, 1000, "r=2", MEASURED };
    struct known_width young = { 16, 3, 2000, "r=4", MEASURED };
    struct moelookup *table;

    moelookup_close(table_of_widths("user-width.db", old, old));
    moelookup_close(table_of_widths("site-width.db", young, young));
    setenv("MOELOOKUP_DB", place("user-width.db"), 1);
    setenv("MOETUNE_DB", place("site-width.db"), 1);
    table = open_table(NULL);
    no_environment();
    CHECK(answers_everywhere(table, "r=2"));
    moelookup_close(table);
}

static void bind_widths_twice(void)
{
    struct known_width old = { 128, 3, 1000, "r=4", MEASURED };
    struct known_width young = { 16, 1, 2000, "r=2", MEASURED };
    struct moelookup *table;

    unsetenv("MOELOOKUP_LOG");
    table = table_of_widths("hidden.db", old, young);
    CHECK(answers_512(table, "r=2") && answers_512(table, "r=2"));
    moelookup_close(table);
}

static void bind_one_width(void)
{
    struct known_width only = { 16, 1, 2000, "r=2", MEASURED };
    struct moelookup *table;

    unsetenv("MOELOOKUP_LOG");
    table = table_of_widths("shown.db", only, only);
    CHECK(answers_512(table, "r=2"));
    moelookup_close(table);
}

static void a_hidden_width_is_said_once(void)
{
    in_child(bind_widths_twice);
    CHECK(count_of(heard, "answers, R=16; hidden: R=128") == 1);
    in_child(bind_one_width);
    CHECK(!*heard);
}

static struct moelookup *table_with_pin(const char *name, uint32_t width, uint32_t last_tuned)
{
    struct known_width old = { width, 1, 1000, "r=4", MEASURED };
    struct known_width young = { last_tuned, 1, 2000, "r=2", MEASURED };
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct store *store;
    struct ids ids;
    struct override_row pin = {
        .window = width, .first = 3, .last = 4, .plan = plan_of("r=1 d=8")
    };
    struct override_row own = { .window = last_tuned,
                                .first = 300 / last_tuned,
                                .last = 300 / last_tuned,
                                .plan = plan_of("r=1 d=2") };

    moelookup_close(table_of_widths(name, old, young));
    CHECK(!store_open(place(name), STORE_RELAXED, &store));
    ids = add_layer(store, &cluster, &shape);
    pin.cluster = own.cluster = ids.cluster;
    pin.shape = own.shape = ids.shape;
    CHECK(!store_override_add(store, &pin) && !store_override_add(store, &own));
    publish_and_close(store);
    return open_table(place(name));
}

static bool is_pinned(const struct moelookup_view *view, uint32_t capacity, const char *plan)
{
    return is_answer(ask(view, capacity), plan, MOE_OVERRIDE);
}

/* 3 * 96 to 5 * 96 - 1 are 288 to 479: of buckets of 16 whole ones; of 128 those of 256 to 511. */
static void a_pin_holds_for_its_capacities_whatever_width_is_tuned_later(void)
{
    struct moelookup *table = table_with_pin("pin-finer.db", 96, 16);
    struct moelookup_view *view = bind_layer(table, layer(96));

    CHECK(is_pinned(view, 288, "r=1 d=2") && is_pinned(view, 303, "r=1 d=2")); /* its own pin */
    CHECK(is_pinned(view, 304, "r=1 d=8") && is_pinned(view, 479, "r=1 d=8"));
    CHECK(ask(view, 287).source != MOE_OVERRIDE && ask(view, 480).source != MOE_OVERRIDE);
    moelookup_view_free(view);
    moelookup_close(table);
    table = table_with_pin("pin-wider.db", 96, 128);
    view = bind_layer(table, layer(96));
    CHECK(is_pinned(view, 383, "r=1 d=2") && is_pinned(view, 384, "r=1 d=8"));
    CHECK(is_pinned(view, 511, "r=1 d=8") && ask(view, 512).source == MOE_EXACT);
    CHECK(ask(view, 255).source != MOE_OVERRIDE);
    moelookup_view_free(view);
    moelookup_close(table);
}

static void clusters_of_one_device_are_told_apart_by_the_first_file(void)
{
    struct cluster one = machine("abacus", 8, 4), two = one;
    struct store *store;
    struct moelookup *table;

    snprintf(two.link_between, sizeof(two.link_between), "rope");
    store = new_store(place("first.db"));
    add_one(store, &two, layer(96), "r=4");
    publish_and_close(store);
    store = new_store(place("second.db"));
    add_one(store, &one, layer(96), "r=2");
    add_one(store, &one, layer(192), "r=2");
    publish_and_close(store);
    setenv("MOELOOKUP_DB", place("first.db"), 1);
    setenv("MOETUNE_DB", place("second.db"), 1);
    table = open_table(NULL);
    CHECK(binds_to(table, layer(96), NULL, "r=4"));
    CHECK(binds_to(table, layer(192), NULL, "r=2"));
    moelookup_close(table);
    setenv("MOELOOKUP_DB", place("second.db"), 1);
    setenv("MOETUNE_DB", place("first.db"), 1);
    table = open_table(NULL);
    CHECK(binds_to(table, layer(96), NULL, "r=2"));
    moelookup_close(table);
    no_environment();
}

static void devices_in_two_files_are_ambiguous(void)
{
    struct moelookup *table;

    write_small(place("near.db"), "abacus", 96);
    write_small(place("far.db"), "loom", 96);
    setenv("MOELOOKUP_DB", place("near.db"), 1);
    setenv("MOETUNE_DB", place("far.db"), 1);
    table = open_table(NULL);
    no_environment();
    CHECK(is_ambiguous(table, layer(96), NULL, "abacus|loom"));
    CHECK(binds_to(table, layer(96), "loom", "r=2 d=4"));
    moelookup_close(table);
}

static void the_first_file_that_is_not_stale_answers_per_bucket(void)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct moelookup *table;
    struct moelookup_view *view;
    struct store *store = new_store(place("user.db"));
    struct ids ids = add_layer(store, &cluster, &shape);

    add_entry(store, ids, 2, "r=2");
    add_entry(store, ids, 3, "r=2 d=2");
    add_entry(store, ids, 4, "r=2 d=4");
    CHECK(!store_expire(store, ids.cluster, ids.shape, 128, 3, 4, "asked"));
    publish_and_close(store);
    store = new_store(place("site.db"));
    ids = add_layer(store, &cluster, &shape);
    add_entry(store, ids, 2, "r=4");
    add_entry(store, ids, 3, "r=4 d=2");
    add_entry(store, ids, 9, "r=4 d=8");
    publish_and_close(store);
    setenv("MOELOOKUP_DB", place("user.db"), 1);
    setenv("MOETUNE_DB", place("site.db"), 1);
    table = open_table(NULL);
    no_environment();
    view = bind_layer(table, shape);
    CHECK(is_answer(ask(view, 2 * 128), "r=2", MOE_EXACT));
    CHECK(is_answer(ask(view, 3 * 128), "r=4 d=2", MOE_EXACT));
    CHECK(is_answer(ask(view, 4 * 128), "r=4 d=2", MOE_NEIGHBOUR));
    CHECK(is_answer(ask(view, 5 * 128), "r=2 d=4", MOE_STALE));
    CHECK(is_answer(ask(view, 9 * 128), "r=4 d=8", MOE_EXACT));
    CHECK(is_answer(ask(view, 0), "r=2", MOE_CLAMPED));
    CHECK(is_answer(ask(view, UINT32_MAX), "r=4 d=8", MOE_CLAMPED));
    moelookup_view_free(view);
    moelookup_close(table);
}

static void a_refuted_entry_gives_its_default_plan_and_not_its_neighbours(void)
{
    const char *path = place("refuted.db");
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct store *store = new_store(path);
    struct ids ids = add_layer(store, &cluster, &shape);
    struct entry_row e = entry_of(ids, 128, 4, "r=1");
    struct moelookup *table;
    struct moelookup_view *view;

    add_entry(store, ids, 3, "r=2 d=4");
    e.stale = true;
    snprintf(e.decision, sizeof(e.decision), "refuted");
    CHECK(!store_entry_put(store, &e, "verify"));
    publish_and_close(store);
    table = open_table(path);
    view = bind_layer(table, shape);
    CHECK(is_answer(ask(view, 3 * 128), "r=2 d=4", MOE_EXACT));
    CHECK(is_answer(ask(view, 4 * 128), "r=1", MOE_EXACT));
    moelookup_view_free(view);
    moelookup_close(table);
}

static void a_view_outlives_its_table(void)
{
    struct moelookup *table;
    struct moelookup_view *view;

    write_small(place("outlives.db"), "abacus", 96);
    table = open_table(place("outlives.db"));
    view = bind_layer(table, layer(96));
    moelookup_close(table);
    CHECK(is_answer(ask(view, 2 * 128), "r=2 d=4", MOE_EXACT));
    CHECK(is_answer(ask(view, 4 * 128), "r=2 d=4", MOE_NEIGHBOUR));
    CHECK(moelookup_explain(view, 300, NULL, 0) > 0);
    moelookup_view_free(view);
    moelookup_view_free(NULL);
    moelookup_close(NULL);
}

static void a_modelled_cluster_never_answers(void)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct store *store = new_store(place("sim.db"));
    struct moelookup *table;
    char hex[SHA256_HEX_BYTES];

    snprintf(cluster.backend, sizeof(cluster.backend), "sim");
    add_one(store, &cluster, layer(96), "r=2");
    publish_and_close(store);
    hash_text(&cluster, hex);
    table = open_table(place("sim.db"));
    CHECK(binds_to(table, layer(96), NULL, NULL));
    CHECK(binds_to(table, layer(96), "abacus", NULL));
    CHECK(binds_to(table, layer(96), hex, NULL));
    moelookup_close(table);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(tokens_are_preferred_equal_and_0_fits_any),
        TEST(layers_are_preferred_equal_and_0_fits_any),
        TEST(a_layout_and_shares_are_parts_of_the_layer),
        TEST(every_other_field_of_the_shape_must_be_equal),
        TEST(illegal_shapes_are_refused_and_leave_the_view_alone),
        TEST(a_device_is_a_name_or_the_beginning_of_a_hash),
        TEST(clusters_of_one_device_in_one_file_are_ambiguous),
        TEST(clusters_of_one_device_are_told_apart_by_the_first_file),
        TEST(devices_in_two_files_are_ambiguous),
        TEST(of_several_widths_that_reach_far_enough_the_one_measured_last_answers),
        TEST(of_two_files_the_first_says_which_width),
        TEST(a_hidden_width_is_said_once),
        TEST(a_pin_holds_for_its_capacities_whatever_width_is_tuned_later),
        TEST(the_first_file_that_is_not_stale_answers_per_bucket),
        TEST(a_refuted_entry_gives_its_default_plan_and_not_its_neighbours),
        TEST(a_view_outlives_its_table),
        TEST(a_modelled_cluster_never_answers),
    };

    return run_with_folder(tests, sizeof(tests) / sizeof(tests[0]));
}
