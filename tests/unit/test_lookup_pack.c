/* Tests packed bytes that are cut and flipped at every place: the result is an error or an
 * identical table. */
#include "lookup_tables.h"

#include <sys/resource.h>

static void too_small_a_buffer_is_an_argument_error(void)
{
    struct moelookup *table;
    uint8_t bytes[4096];
    size_t whole = 0;

    write_small(place("room.db"), "abacus", 96);
    table = open_table(place("room.db"));
    CHECK(moelookup_pack(table, NULL, &whole) == MOE_OK && whole < sizeof(bytes));
    for (size_t room = 0; room < sizeof(bytes); room++) {
        size_t size = room;

        memset(bytes, 0xa5, sizeof(bytes));
        CHECK(moelookup_pack(table, bytes, &size) == (room < whole ? MOE_ERR_ARGUMENT : MOE_OK));
        CHECK(size == (room < whole ? room : whole));
        for (size_t i = room < whole ? 0 : whole; i < sizeof(bytes); i++)
            CHECK(bytes[i] == 0xa5);
    }
    moelookup_close(table);
}

static bool every_answer_is_legal(const struct moelookup_view *view, const struct moe_shape *shape)
{
    static const uint32_t capacities[] = { 0, 1, 127, 256, 383, 511, 700, 5000, 1u << 31 };
    char text[256];
    bool all = true;

    for (size_t i = 0; i <= sizeof(capacities) / sizeof(capacities[0]); i++) {
        uint32_t c = i ? capacities[i - 1] : UINT32_MAX;
        struct moe_plan plan = ask(view, c);

        all &= legal(&plan, shape) && moelookup_explain(view, c, text, sizeof(text)) > 0;
    }
    return all;
}

/* Every layer that the bytes say they hold, and ours. */
static bool answers_are_legal(const struct moelookup *table, const uint8_t *bytes)
{
    struct lookup_switches switches = pack_switches(bytes);
    uint32_t count = pack_layer_count(bytes);
    bool all = !switches.forced || moe_plan_format(&switches.force, NULL, 0) > 0;

    for (uint32_t i = 0; i <= count && all; i++) {
        struct moe_shape shape = i < count ? pack_layer(bytes, i).shape : layer(96);
        struct moelookup_view *view = NULL;

        if (moelookup_bind(table, &shape, NULL, &view) == MOE_OK)
            all = every_answer_is_legal(view, &shape);
        all &= i == count || pack_layer(bytes, i).window;
        moelookup_view_free(view);
    }
    return all;
}

/* Bytes that anybody may have made: refused, or a table like any other. */
static bool is_harmless(const uint8_t *bytes, size_t size)
{
    struct moelookup *table = NULL;
    struct packed again;
    bool fine;
    int rc;

    unsetenv("MOELOOKUP_LOG"); /* then an unpacked table is silent */
    rc = moelookup_unpack(bytes, size, &table);
    no_environment();
    if (rc)
        return rc == MOE_ERR_FORMAT && !table;
    again = pack(table);
    fine = again.size == size && !memcmp(again.bytes, bytes, size) &&
           answers_are_legal(table, again.bytes);
    free(again.bytes);
    moelookup_close(table);
    return fine;
}

/* Two layers, entries of every kind, pins, a switch. */
static struct packed some_packed(void)
{
    struct cluster abacus = machine("abacus", 8, 4), loom = machine("loom", 8, 4);
    struct moe_shape shapes[] = { layer(96), layer(192) };
    struct store *store;
    struct packed p;
    struct ids ids;

    unlink(place("some.db"));
    store = new_store(place("some.db"));
    ids = add_layer(store, &abacus, &shapes[0]);
    for (uint32_t b = 2; b < 6; b++)
        add_entry(store, ids, b, "r=2 d=4 a=linear");
    add_pin(store, ids, 3, 3, "r=4 d=2 a=2dh");
    add_pin(store, ids, 8, 4000, "r=0");
    CHECK(!store_expire(store, ids.cluster, ids.shape, 128, 4, 4, "asked"));
    ids = add_layer(store, &loom, &shapes[1]);
    add_entry(store, ids, 1, "r=4 d=1 a=2dh");
    publish_and_close(store);
    setenv("MOELOOKUP_FORCE", "r=2 d=2", 1);
    p = pack_file(place("some.db"));
    no_environment();
    return p;
}

static void a_cut_table_is_refused(void)
{
    struct packed p = some_packed();

    for (size_t size = 0; size <= p.size; size++) {
        uint8_t *cut = malloc(size ? size : 1); /* so that a read past the end is seen */
        struct moelookup *table = NULL;

        memcpy(cut, p.bytes, size);
        CHECK((moelookup_unpack(cut, size, &table) == MOE_OK) == (size == p.size));
        CHECK((table != NULL) == (size == p.size));
        moelookup_close(table);
        free(cut);
    }
    free(p.bytes);
}

static void a_longer_table_is_refused(void)
{
    struct packed p = some_packed();
    uint8_t *bytes = calloc(1, p.size + 64);
    struct moelookup *table = NULL;

    memcpy(bytes, p.bytes, p.size);
    for (size_t more = 1; more <= 64; more++) {
        CHECK(moelookup_unpack(bytes, p.size + more, &table) == MOE_ERR_FORMAT && !table);
        pack_seal(bytes, p.size + more);
        CHECK(is_harmless(bytes, p.size + more));
        memcpy(bytes, p.bytes, p.size);
    }
    free(bytes);
    free(p.bytes);
}

static uint8_t nth_flip(int n)
{
    return (uint8_t)(n < 8 ? 1 << n : 0xff);
}

static void a_flipped_byte_is_refused(void)
{
    struct packed p = some_packed();

    for (size_t i = 0; i < p.size; i++)
        for (int n = 0; n < 9; n++) {
            struct moelookup *table = NULL;

            p.bytes[i] ^= nth_flip(n);
            CHECK(moelookup_unpack(p.bytes, p.size, &table) == MOE_ERR_FORMAT && !table);
            p.bytes[i] ^= nth_flip(n);
        }
    free(p.bytes);
}

static void a_flipped_byte_behind_the_checksum_is_no_harm(void)
{
    struct packed p = some_packed();
    uint8_t *bytes = malloc(p.size);

    for (size_t i = 0; i < p.size; i++)
        for (int n = 0; n < 9; n++) {
            memcpy(bytes, p.bytes, p.size);
            bytes[i] ^= nth_flip(n);
            pack_seal(bytes, p.size);
            CHECK(is_harmless(bytes, p.size));
        }
    free(bytes);
    free(p.bytes);
}

static void a_cut_behind_the_checksum_is_no_harm(void)
{
    struct packed p = some_packed();

    for (size_t size = 64; size < p.size; size++) {
        uint8_t *cut = malloc(size);

        memcpy(cut, p.bytes, size);
        pack_seal(cut, size);
        CHECK(is_harmless(cut, size));
        free(cut);
    }
    free(p.bytes);
}

static void damage_of_many_bytes_behind_the_checksum_is_no_harm(void)
{
    struct packed p = some_packed();
    uint8_t *bytes = malloc(p.size);

    for (int round = 0; round < 20000; round++) {
        memcpy(bytes, p.bytes, p.size);
        for (uint32_t k = 1 + draw(4); k > 0; k--) {
            uint32_t at = draw((uint32_t)p.size);

            if (chance(50))
                bytes[at] = (uint8_t)(chance(50) ? draw(4) : 255 - draw(4));
            else
                bytes[at] = bytes[draw((uint32_t)p.size)];
        }
        pack_seal(bytes, p.size);
        if (!is_harmless(bytes, p.size)) {
            CHECK(!"harmless");
            break;
        }
    }
    free(bytes);
    free(p.bytes);
}

static void put_number(uint8_t *at, size_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

enum { CLAIMERS = 400, CLAIMED = 25000, RECORD = 192, ROW = 20 };

static void unpack_layers_that_all_claim_the_same_rows(void)
{
    size_t rows_at = 64 + CLAIMERS * RECORD, size = rows_at + CLAIMED * ROW;
    uint8_t *bytes = calloc(1, size);
    struct packed p = some_packed();
    struct rusage before, after;

    memcpy(bytes, p.bytes, 64);
    put_number(bytes + 12, size);
    put_number(bytes + 16, CLAIMERS);
    for (size_t i = 0; i < CLAIMERS; i++) {
        uint8_t *record = bytes + 64 + i * RECORD;

        memcpy(record, p.bytes + 64, RECORD);
        put_number(record + 48, CLAIMED);
        put_number(record + 52, 0);
        put_number(record + 56, rows_at);
        put_number(record + 60, size);
    }
    pack_seal(bytes, size);
    getrusage(RUSAGE_SELF, &before);
    CHECK(is_harmless(bytes, size));
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < 100 * 1024); /* KiB; all rows are 280 MB */
    free(bytes);
    free(p.bytes);
}

static void a_table_never_grows_beyond_its_bytes(void)
{
    in_child(unpack_layers_that_all_claim_the_same_rows);
}

/* A reader that knows nothing of e writes a zero where it stands, finds other bytes, and refuses:
 * it must not take r=0 e=sparse for r=0. */
static void only_the_free_byte_of_an_entry_tells_sparse_from_padded(void)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct packed of[2];
    size_t differ = 0, at = 0;

    for (int sparse = 0; sparse < 2; sparse++) {
        const char *path = place(sparse ? "sparse.db" : "padded.db");
        struct store *store = new_store(path);

        add_one(store, &cluster, layer(96), sparse ? "r=0 e=sparse" : "r=0");
        publish_and_close(store);
        of[sparse] = pack_file(path);
    }
    CHECK(of[0].size == of[1].size);
    for (size_t i = 64; i < of[0].size; i++)
        if (of[0].bytes[i] != of[1].bytes[i]) {
            differ++;
            at = i;
        }
    CHECK(differ == 1 && at == 64 + 192 + 7 && !of[0].bytes[at]);
    free(of[0].bytes);
    free(of[1].bytes);
}

static uint32_t version_of(const struct packed *p)
{
    return p->bytes[8];
}

/* A table with rail, 3dh or a protocol is of a version of its own; another is what it was before.
 */
static void what_older_readers_would_misread_is_of_a_later_version(void)
{
    static const struct {
        const char *entry, *pin, *force;
        uint32_t version;
    } cases[] = {
        { "r=2 d=4 a=2dh", "r=1 a=2dh", "r=1 a=2dh", 1 },
        { "r=2 d=4 a=rail", NULL, NULL, 3 },
        { "r=2 d=4", "r=1 a=rail", NULL, 3 },
        { "r=2 d=4", NULL, "a=rail", 3 },
        { "r=0 e=sparse", NULL, NULL, 1 },
        { "r=0 proto=ll", NULL, NULL, 5 },
        { "r=2 d=4", "r=1 a=rail proto=ll128", NULL, 5 },
        { "r=2 d=4 a=rail", NULL, "proto=simple", 5 },
        { "r=2 d=4 proto=auto", NULL, NULL, 1 },
        { "r=2 d=4 a=2dh e=sparse", NULL, NULL, 7 },
        { "r=2 d=4 proto=ll e=sparse", NULL, NULL, 7 },
        { "r=2 d=4", "r=1 e=sparse", NULL, 7 },
        { "r=2 d=4", NULL, "r=1 e=sparse", 7 },
        { "r=2 d=4", NULL, "r=0 e=sparse", 1 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cluster cluster = machine("abacus", 8, 4);
        struct moe_shape shape = layer(96);
        struct store *store;
        struct packed p;
        struct ids ids;

        unlink(place("rail.db"));
        store = new_store(place("rail.db"));
        ids = add_layer(store, &cluster, &shape);
        add_entry(store, ids, 2, cases[i].entry);
        if (cases[i].pin)
            add_pin(store, ids, 5, 6, cases[i].pin);
        publish_and_close(store);
        if (cases[i].force)
            setenv("MOELOOKUP_FORCE", cases[i].force, 1);
        p = pack_file(place("rail.db"));
        CHECK(version_of(&p) == cases[i].version);
        CHECK(is_harmless(p.bytes, p.size));
        if (cases[i].version > 1) { /* as an older version's it is none */
            p.bytes[8]--;
            pack_seal(p.bytes, p.size);
            CHECK(moelookup_unpack(p.bytes, p.size, &(struct moelookup *){ NULL }) ==
                  MOE_ERR_FORMAT);
        }
        free(p.bytes);
        no_environment();
    }
}

/* One that an older library drops leaves what it says of the other kind: the bucket compares. */
static void another_plan_without_padding_is_of_the_seventh_version(void)
{
    static const struct {
        const char *other;
        uint32_t version;
    } cases[] = { { "r=2 d=4 e=sparse", 7 }, { "r=2 d=4", 6 } };

    for (int i = 0; i < 2; i++) {
        struct cluster cluster = machine("abacus", 8, 4);
        struct moe_shape shape = layer(96);
        struct moelookup *table = NULL;
        struct moelookup_view *view;
        struct moe_plan plan = MOE_PLAN_INIT;
        struct store *store;
        struct entry_row e;
        struct packed p;

        unlink(place("other.db"));
        store = new_store(place("other.db"));
        e = entry_of(add_layer(store, &cluster, &shape), 128, 2, "r=0");
        e.other = plan_of(cases[i].other);
        e.other_us = 1;
        CHECK(!store_entry_put(store, &e, "measured"));
        publish_and_close(store);
        p = pack_file(place("other.db"));
        CHECK(version_of(&p) == cases[i].version && is_harmless(p.bytes, p.size));
        CHECK(!moelookup_unpack(p.bytes, p.size, &table));
        view = bind_layer(table, shape);
        CHECK(!moelookup_get_uneven(view, 300, 200, &plan) && is_plan(&plan, cases[i].other));
        moelookup_view_free(view);
        moelookup_close(table);
        free(p.bytes);
    }
}

/* With layout=hidden older readers know them, and with r=0. */
static void only_rows_of_whole_experts_are_of_the_seventh_version(void)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct store *store;
    struct packed p;

    shape.layout = MOE_LAYOUT_HIDDEN;
    unlink(place("hidden.db"));
    store = new_store(place("hidden.db"));
    add_one(store, &cluster, shape, "r=8 d=1 e=sparse");
    publish_and_close(store);
    setenv("MOELOOKUP_FORCE", "r=8 d=2 e=sparse", 1);
    p = pack_file(place("hidden.db"));
    CHECK(version_of(&p) == 2 && is_harmless(p.bytes, p.size));
    free(p.bytes);
    no_environment();
}

/* As it was written once, with a layer(96) of one choice per token. */
static void frozen_answers(const char *path, const char *plan, uint32_t version)
{
    FILE *file = fopen(path, "rb");
    struct moe_shape shape = layer(96);
    struct packed p = { .bytes = calloc(1, 4096) }, again;
    struct moelookup *table = NULL;
    struct moelookup_view *view;

    CHECK(file && (p.size = fread(p.bytes, 1, 4096, file)) > 64);
    if (file)
        fclose(file);
    shape.top_k = 1;
    shape.pass = MOE_FORWARD;
    CHECK(!moelookup_unpack(p.bytes, p.size, &table));
    view = bind_layer(table, shape);
    CHECK(is_answer(ask(view, 15 * 128), plan, MOE_STALE));
    again = pack(table);
    CHECK(again.size == p.size && !memcmp(again.bytes, p.bytes, p.size));
    CHECK(version_of(&p) == version);
    moelookup_view_free(view);
    moelookup_close(table);
    free(p.bytes);
    free(again.bytes);
}

static void a_frozen_table_answers_as_it_did(void)
{
    frozen_answers("tests/data/corpus/lookup/packed-rail", "r=4 d=2 a=rail", 3);
    frozen_answers("tests/data/corpus/lookup/packed-proto", "r=4 d=2 a=2dh proto=ll128", 5);
    frozen_answers("tests/data/corpus/lookup/packed-counted", "r=4 d=2 a=2dh e=sparse", 7);
}

/* Order, projection, combine and racks are of a version of their own, and of the digest. */
static void only_what_has_the_latest_words_is_of_the_fourth_version(void)
{
    struct moe_shape plain = layer(96), shapes[] = { plain, plain, plain, plain, plain };
    static const uint32_t versions[] = { 4, 4, 4, 4, 1 };

    shapes[0].order = MOE_ORDER_PRIORITY;
    shapes[1].router = MOE_ROUTER_COSINE;
    shapes[1].projection = 1;
    shapes[2].combine = MOE_COMBINE_CHOICES;
    shapes[3].ranks_per_node = 2;
    shapes[3].ranks_per_rack = 4;
    for (int i = 0; i < 5; i++) {
        struct cluster cluster = machine("abacus", 8, shapes[i].ranks_per_node);
        struct moelookup *table = NULL;
        struct moelookup_view *view;
        struct store *store;
        struct packed p, again;

        unlink(place("latest.db"));
        store = new_store(place("latest.db"));
        add_one(store, &cluster, shapes[i], "r=2 d=4");
        publish_and_close(store);
        p = pack_file(place("latest.db"));
        CHECK(version_of(&p) == versions[i] && is_harmless(p.bytes, p.size));
        CHECK(!moelookup_unpack(p.bytes, p.size, &table));
        view = bind_layer(table, shapes[i]);
        CHECK(is_answer(ask(view, 128), "r=2 d=4 a=linear", MOE_CLAMPED));
        moelookup_view_free(view);
        catch_stderr();
        view = bind_layer(table, i == 4 ? shapes[0] : plain); /* is another layer */
        release_stderr();
        CHECK(is_answer(ask(view, 128), "r=1 d=1 a=linear", MOE_DEFAULT));
        again = pack(table);
        CHECK(again.size == p.size && !memcmp(again.bytes, p.bytes, p.size));
        p.bytes[8] = 3; /* as an older version's it is none */
        pack_seal(p.bytes, p.size);
        CHECK(moelookup_unpack(p.bytes, p.size, &(struct moelookup *){ NULL }) == MOE_ERR_FORMAT);
        moelookup_view_free(view);
        moelookup_close(table);
        free(p.bytes);
        free(again.bytes);
    }
}

/* Older readers know one word of shares. */
static void only_the_later_words_of_shares_are_of_the_sixth_version(void)
{
    static const uint32_t versions[] = { 2, 2, 6, 6 };

    for (uint32_t shares = MOE_SHARES_EQUAL; shares <= MOE_SHARES_HIDDEN; shares++) {
        struct cluster cluster = machine("abacus", 8, 4);
        struct moe_shape shape = layer(128);
        struct store *store;
        struct packed p;

        shape.layout = MOE_LAYOUT_HIDDEN;
        shape.shares = shares;
        unlink(place("shares.db"));
        unlink(place("shares.db.published"));
        store = new_store(place("shares.db"));
        add_one(store, &cluster, shape, "r=0 d=2 e=sparse");
        publish_and_close(store);
        p = pack_file(place("shares.db"));
        CHECK(version_of(&p) == versions[shares] && is_harmless(p.bytes, p.size));
        CHECK(
            is_answer(ask_file(place("shares.db"), shape, 128 * 2), "r=0 d=2 e=sparse", MOE_EXACT));
        free(p.bytes);
    }
}

static void an_empty_set_is_packed_too(void)
{
    struct moelookup *table, *copy;
    struct packed p, again;

    setenv("HOME", place("nobody"), 1);
    table = open_table(NULL);
    copy = unpacked(table);
    p = pack(table);
    again = pack(copy);
    CHECK(same_packed(&p, &again) && p.size <= 64);
    CHECK(binds_to(copy, layer(96), NULL, NULL));
    moelookup_close(table);
    moelookup_close(copy);
    free(p.bytes);
    free(again.bytes);
    no_environment();
}

int main(void)
{
    static const struct test tests[] = {
        TEST(too_small_a_buffer_is_an_argument_error),
        TEST(a_cut_table_is_refused),
        TEST(a_longer_table_is_refused),
        TEST(a_flipped_byte_is_refused),
        TEST(a_flipped_byte_behind_the_checksum_is_no_harm),
        TEST(a_cut_behind_the_checksum_is_no_harm),
        TEST(damage_of_many_bytes_behind_the_checksum_is_no_harm),
        TEST(a_table_never_grows_beyond_its_bytes),
        TEST(only_the_free_byte_of_an_entry_tells_sparse_from_padded),
        TEST(what_older_readers_would_misread_is_of_a_later_version),
        TEST(another_plan_without_padding_is_of_the_seventh_version),
        TEST(only_rows_of_whole_experts_are_of_the_seventh_version),
        TEST(a_frozen_table_answers_as_it_did),
        TEST(only_what_has_the_latest_words_is_of_the_fourth_version),
        TEST(only_the_later_words_of_shares_are_of_the_sixth_version),
        TEST(an_empty_set_is_packed_too),
    };

    return run_with_folder(tests, sizeof(tests) / sizeof(tests[0]));
}
