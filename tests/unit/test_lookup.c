/* Tests the look-up library: its structs and arguments, threads and processes that ask, and the
 * capacity rule. */
#include "lookup_tables.h"

#include <pthread.h>
#include <sys/mman.h>

/* ---- sizes of structs */

static void only_what_lies_inside_struct_size_is_written(void)
{
    struct moelookup *table;
    struct moelookup_view *view;
    struct moe_plan whole;

    write_small(place("sizes.db"), "abacus", 96);
    table = open_table(place("sizes.db"));
    view = bind_layer(table, layer(96));
    whole = ask(view, 2 * 128);
    for (uint32_t size = 0; size <= 2 * sizeof(whole); size++) {
        union {
            struct moe_plan plan;
            unsigned char bytes[2 * sizeof(struct moe_plan)];
        } out;
        size_t first = offsetof(struct moe_plan, ctas); /* all that the first version had */
        size_t inside = !size ? first : (size < sizeof(whole) ? size : sizeof(whole));

        memset(&out, 0xa5, sizeof(out));
        out.plan.struct_size = size;
        CHECK(moelookup_get(view, 2 * 128, &out.plan) == MOE_OK && out.plan.struct_size == size);
        /* Whole fields; what is inside only in part is left alone. */
        inside = inside < 8 ? 4 : inside - inside % 4;
        CHECK(!memcmp(out.bytes + 4, (char *)&whole + 4, inside - 4));
        for (size_t i = inside; i < sizeof(out); i++)
            CHECK(out.bytes[i] == 0xa5);
    }
    moelookup_view_free(view);
    moelookup_close(table);
}

static bool answers(const struct moelookup *table, struct moe_shape shape, const char *plan)
{
    struct moelookup_view *view = bind_layer(table, shape);
    bool right = is_answer(ask(view, 2 * 128), plan, MOE_EXACT);

    moelookup_view_free(view);
    return right;
}

/* Also for callers that do not know the words: their structs end before them. */
static void groups_and_router_are_parts_of_the_layer(void)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape limited = layer(96), sigmoid, old = layer(96);
    struct store *store = new_store(place("groups.db"));
    struct moelookup *table;

    limited.groups = limited.group_limit = 1;
    sigmoid = limited;
    sigmoid.router = MOE_ROUTER_SIGMOID;
    add_one(store, &cluster, layer(96), "r=2");
    add_one(store, &cluster, limited, "r=0");
    add_one(store, &cluster, sigmoid, "r=4");
    publish_and_close(store);
    table = open_table(place("groups.db"));
    for (int packed = 0; packed < 2; packed++) {
        struct moelookup *same = packed ? unpacked(table) : table;

        CHECK(answers(same, layer(96), "r=2"));
        CHECK(answers(same, limited, "r=0"));
        CHECK(answers(same, sigmoid, "r=4"));
        old = sigmoid;
        old.struct_size = offsetof(struct moe_shape, groups);
        CHECK(answers(same, old, "r=2"));
        if (packed)
            moelookup_close(same);
    }
    sigmoid.router = MOE_ROUTER_COSINE + 1;
    catch_stderr();
    CHECK(moelookup_bind(table, &sigmoid, NULL, &(struct moelookup_view *){ NULL }) ==
          MOE_ERR_ARGUMENT);
    release_stderr();
    moelookup_close(table);
}

/* Run padded, r=0 is another plan, which nobody measured. */
static void who_has_no_room_for_sparse_is_told_the_default(void)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct store *store = new_store(place("sparse.db"));
    struct moelookup *table;
    struct moelookup_view *view;
    struct moe_shape cut = layer(96);

    cut.layout = MOE_LAYOUT_HIDDEN;
    cut.layers = 3;
    add_one(store, &cluster, layer(96), "r=0 e=sparse");
    add_one(store, &cluster, cut, "r=0 d=2 e=sparse w=cache");
    publish_and_close(store);
    table = open_table(place("sparse.db"));
    for (int packed = 0; packed < 2; packed++) {
        struct moelookup *same = packed ? unpacked(table) : table;

        view = bind_layer(same, layer(96));
        CHECK(is_answer(ask(view, 2 * 128), "r=0 e=sparse", MOE_EXACT));
        for (uint32_t size = 0; size < sizeof(struct moe_plan); size++) {
            struct moe_plan old = { .struct_size = size, .r = 7, .source = 77 };

            CHECK(moelookup_get(view, 2 * 128, &old) == MOE_OK);
            if (size >= offsetof(struct moe_plan, w)) {
                CHECK(is_answer(old, "r=0 e=sparse", MOE_EXACT));
                continue;
            }
            CHECK(old.r == (size == 0 || size >= 8 ? 1u : 7u));
            CHECK(old.source == (size == 0 || size >= 20 ? (uint32_t)MOE_DEFAULT : 77u));
        }
        moelookup_view_free(view);
        view = bind_layer(same, cut);
        CHECK(is_answer(ask(view, 2 * 128), "r=0 d=2 e=sparse w=cache", MOE_EXACT));
        for (uint32_t size = 0; size < offsetof(struct moe_plan, space); size++) {
            struct moe_plan old = { .struct_size = size, .r = 7, .d = 7, .source = 77 };

            CHECK(moelookup_get(view, 2 * 128, &old) == MOE_OK);
            if (size >= offsetof(struct moe_plan, proto)) {
                CHECK(is_answer(old, "r=0 d=2 e=sparse w=cache", MOE_EXACT));
                continue;
            }
            CHECK(old.r == (size == 0 || size >= 8 ? 0u : 7u));
            CHECK(old.d == (size == 0 || size >= 12 ? 1u : 7u));
            CHECK(old.source == (size == 0 || size >= 20 ? (uint32_t)MOE_DEFAULT : 77u));
        }
        moelookup_view_free(view);
        if (packed)
            moelookup_close(same);
    }
    moelookup_close(table);
}

static int bind_status(const struct moelookup *table, const struct moe_shape *shape,
                       enum moe_source *source)
{
    struct moelookup_view *view = NULL;
    int rc = moelookup_bind(table, shape, NULL, &view);

    if (rc == MOE_OK)
        *source = (enum moe_source)ask(view, 2 * 128).source;
    else
        CHECK(view == NULL);
    moelookup_view_free(view);
    return rc;
}

static void only_what_lies_inside_struct_size_is_read(void)
{
    union {
        struct moe_shape shape;
        unsigned char bytes[2 * sizeof(struct moe_shape)];
    } in;
    struct moelookup *table;
    enum moe_source source = MOE_DEFAULT;

    write_small(place("inside.db"), "abacus", 96);
    table = open_table(place("inside.db"));
    memset(&in, 0xa5, sizeof(in));
    in.shape = layer(96);
    in.shape.struct_size = sizeof(in); /* of a newer header: the rest is not ours */
    CHECK(bind_status(table, &in.shape, &source) == MOE_OK && source == MOE_EXACT);
    in.shape.struct_size = 0; /* of the first version, which has no layout */
    in.shape.layout = in.shape.layers = UINT32_MAX;
    CHECK(bind_status(table, &in.shape, &source) == MOE_OK && source == MOE_EXACT);
    in.shape.struct_size = offsetof(struct moe_shape, tokens); /* then tokens are 0: any */
    in.shape.tokens = UINT32_MAX;
    CHECK(bind_status(table, &in.shape, &source) == MOE_OK && source == MOE_EXACT);
    in.shape.struct_size = offsetof(struct moe_shape, model_dim); /* no dimension: no layer */
    catch_stderr();
    CHECK(bind_status(table, &in.shape, &source) == MOE_ERR_ARGUMENT);
    release_stderr();
    CHECK(*heard);
    moelookup_close(table);
}

/* ---- several widths of one layer */

static void null_is_an_argument_error(void)
{
    struct moelookup *table;
    struct moelookup_view *view;
    struct moe_shape shape = layer(96);
    struct moe_plan plan = MOE_PLAN_INIT;
    uint8_t digest[32];
    size_t size = 0;
    char text[8];

    write_small(place("null.db"), "abacus", 96);
    table = open_table(place("null.db"));
    view = bind_layer(table, shape);
    CHECK(moelookup_open(NULL, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_bind(NULL, &shape, NULL, &view) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_bind(table, NULL, NULL, &view) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_bind(table, &shape, NULL, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_get(NULL, 1, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_get(view, 1, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_digest(NULL, digest) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_digest(table, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_pack(NULL, NULL, &size) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_pack(table, NULL, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_unpack(NULL, 10, &table) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_unpack(text, sizeof(text), NULL) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_explain(NULL, 1, text, sizeof(text)) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_explain(view, 1, NULL, 8) == MOE_ERR_ARGUMENT);
    CHECK(moe_plan_parse(NULL, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moe_plan_parse("r=1", NULL) == MOE_ERR_ARGUMENT);
    CHECK(moe_plan_format(NULL, text, sizeof(text)) == MOE_ERR_ARGUMENT);
    moelookup_view_free(view);
    moelookup_close(table);
}

static void every_status_has_words_and_the_version_is_this_one(void)
{
    for (int status = -20; status < 20; status++)
        CHECK(moelookup_strerror(status) && *moelookup_strerror(status));
    CHECK(strcmp(moelookup_strerror(MOE_OK), moelookup_strerror(MOE_ERR_IO)) != 0);
    CHECK(!strcmp(moelookup_version(), MOETUNE_VERSION));
}

/* ---- threads and processes */

enum { THREADS = 8, STEPS = 100000, CAPACITIES = 1024 };

struct asker {
    const struct moelookup_view *view;
    const struct moe_plan *want;
    uint64_t key;
    int wrong;
};

static void *ask_often(void *self)
{
    struct asker *a = self;

    for (uint64_t i = 0; i < STEPS; i++) {
        uint32_t c = random_below(a->key, i, CAPACITIES);
        struct moe_plan got = MOE_PLAN_INIT;

        a->wrong += moelookup_get(a->view, c, &got) != MOE_OK || !same_answer(&got, &a->want[c]);
    }
    return NULL;
}

static void threads_share_a_view(void)
{
    static struct moe_plan want[CAPACITIES];
    struct asker askers[THREADS];
    pthread_t threads[THREADS];
    struct moelookup *table;
    struct moelookup_view *view;

    write_small(place("threads.db"), "abacus", 96);
    table = open_table(place("threads.db"));
    view = bind_layer(table, layer(96));
    for (uint32_t c = 0; c < CAPACITIES; c++)
        want[c] = ask(view, c);
    for (uint64_t i = 0; i < THREADS; i++) {
        askers[i] = (struct asker){ view, want, draw_seed + i, 0 };
        CHECK(!pthread_create(&threads[i], NULL, ask_often, &askers[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(!askers[i].wrong);
    }
    moelookup_view_free(view);
    moelookup_close(table);
}

static struct moelookup *of_parent;

static void use_the_parents_table(void)
{
    struct moelookup_view *view = bind_layer(of_parent, layer(96));

    CHECK(is_answer(ask(view, 2 * 128), "r=2 d=4", MOE_EXACT));
    CHECK(is_answer(ask_file(place("fork.db"), layer(96), 256), "r=2 d=4", MOE_EXACT));
    moelookup_view_free(view);
    moelookup_close(of_parent);
}

static void a_child_goes_on_with_the_parents_table(void)
{
    write_small(place("fork.db"), "abacus", 96);
    of_parent = open_table(place("fork.db"));
    in_child(use_the_parents_table);
    CHECK(binds_to(of_parent, layer(96), NULL, "r=2 d=4"));
    moelookup_close(of_parent);
}

/* What every reader saw, in memory that processes share. */
struct sights {
    volatile int stop;
    struct {
        volatile uint32_t looks, failures, strange, count;
        uint8_t digests[2048][32];
    } of[64];
};

/* Remembers a digest that differs from the last one; a table that was there stays there. */
static void look_once(const char *path, struct sights *sights, int self)
{
    struct moelookup *table = NULL;
    struct moelookup_view *view = NULL;
    struct moe_shape shape = layer(96);
    uint32_t n = sights->of[self].count;
    uint8_t digest[32];

    sights->of[self].looks++;
    if (moelookup_open(path, &table) || moelookup_bind(table, &shape, NULL, &view) ||
        moelookup_digest(table, digest)) {
        sights->of[self].failures++;
    } else {
        if (ask(view, 2 * 128).source != MOE_EXACT)
            sights->of[self].strange++;
        if (n < 2048 && (!n || memcmp(sights->of[self].digests[n - 1], digest, 32))) {
            memcpy(sights->of[self].digests[n], digest, 32);
            sights->of[self].count = n + 1;
        }
    }
    moelookup_view_free(view);
    moelookup_close(table);
}

static pid_t start_reader(const char *path, struct sights *sights, int self, int readers)
{
    uint32_t pause_us = 10000 * (uint32_t)readers; /* so that the writer gets a turn */
    pid_t child = fork();

    if (child == 0) {
        for (uint64_t look = 0; (!look || !sights->stop) && getppid() != 1; look++) {
            look_once(path, sights, self);
            usleep(random_below(draw_seed + (uint64_t)self, look, pause_us));
        }
        _exit(0);
    }
    return child;
}

static bool is_among(uint8_t (*digests)[32], int count, const uint8_t digest[32])
{
    for (int i = 0; i < count; i++)
        if (!memcmp(digests[i], digest, 32))
            return true;
    return false;
}

static void check_sights(const struct sights *sights, int readers, uint8_t (*published)[32],
                         int count)
{
    for (int i = 0; i < readers; i++) {
        CHECK(sights->of[i].looks && !sights->of[i].failures && !sights->of[i].strange);
        for (uint32_t k = 0; k < sights->of[i].count; k++)
            CHECK(is_among(published, count, sights->of[i].digests[k]));
    }
}

/* Another table each time: the bucket's time is the number of the turn. */
static void publish_turn(struct store *store, struct ids ids, int turn, uint8_t digest[32])
{
    struct entry_row e = entry_of(ids, 128, 2, turn % 2 ? "r=2 d=4" : "r=4 d=1");

    e.time_us = 1 + turn;
    e.default_us = 2 * e.time_us;
    CHECK(!store_entry_put(store, &e, "measured") && !store_publish(store));
    digest_of(place("turns.db"), digest);
}

static void republish(int readers, int turns)
{
    struct sights *sights =
        mmap(NULL, sizeof(*sights), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint8_t(*published)[32] = calloc((size_t)turns, 32);
    struct store *store = new_store(place("turns.db"));
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct ids ids = add_layer(store, &cluster, &shape);
    pid_t children[64];
    int status;

    publish_turn(store, ids, 0, published[0]);
    for (int i = 0; i < readers; i++)
        children[i] = start_reader(place("turns.db"), sights, i, readers);
    for (int turn = 1; turn < turns; turn++)
        publish_turn(store, ids, turn, published[turn]);
    sights->stop = 1;
    for (int i = 0; i < readers; i++) {
        waitpid(children[i], &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    check_sights(sights, readers, published, turns);
    store_close(store);
    free(published);
    munmap(sights, sizeof(*sights));
}

static void readers_see_one_of_the_published_tables(void)
{
    republish(4, 40);
}

static void sixty_four_readers_see_one_of_a_thousand_published_tables(void)
{
    republish(64, 1000);
}

/* ---- capacity */

static void the_capacity_rule_is_what_frameworks_do(void)
{
    CHECK(moe_capacity(1.0, 2, 8, 4096, 0) == 1024);
    CHECK(moe_capacity(1.25, 2, 8, 4096, 0) == 1280);
    CHECK(moe_capacity(1.1, 2, 3, 10, 99) == 8); /* 2 * trunc(1.1 * 4) */
    CHECK(moe_capacity(0.1, 2, 8, 16, 0) == 0);
    CHECK(moe_capacity(1.0, 1, 8, 0, 99) == 0);
    CHECK(moe_capacity(0.0, 2, 8, 4096, 777) == 777);
    CHECK(moe_capacity(-0.0, 2, 8, 4096, 777) == 777);
    CHECK(moe_capacity(-1.0, 2, 8, 4096, 777) == 777);
    CHECK(moe_capacity(-1.0, 2, 8, 4096, 2000) == 1024);
    for (int i = 0; i < 1000; i++) {
        uint32_t k = 1 + draw(8), e = 1 + draw(256), t = draw(100000), needed = draw(100000);
        double f = draw(1000) / 64.0;
        uint64_t bound = k * (uint64_t)(f * ((t + e - 1) / e));

        CHECK(moe_capacity(f, k, e, t, needed) == (f > 0 ? bound : needed));
        CHECK(moe_capacity(-f, k, e, t, needed) ==
              (f > 0 && bound < needed ? bound : (uint64_t)needed));
    }
}

static void the_capacity_rule_survives_any_number(void)
{
    CHECK(moe_capacity((double)NAN, 2, 8, 4096, 777) == 0);
    CHECK(moe_capacity(-(double)NAN, 2, 8, 4096, 777) == 0);
    CHECK(moe_capacity(1.0, 2, 0, 4096, 777) == 0);
    CHECK(moe_capacity(0.0, 2, 0, 4096, 777) == 0);
    CHECK(moe_capacity(-1.0, 2, 0, 4096, 777) == 0);
    CHECK(moe_capacity(1e300, 2, 8, 4096, 777) >= UINT64_C(1) << 63);
    CHECK(moe_capacity(-1e300, 2, 8, 4096, 777) == 777);
    CHECK(moe_capacity(1.0, 1, 2, UINT64_MAX, 0) == UINT64_C(1) << 63);
    CHECK(moe_capacity(1.0, UINT32_MAX, 1, UINT64_MAX, 0) >= UINT64_C(1) << 63);
    CHECK(moe_capacity((double)INFINITY, 2, 8, 4096, 777) >= UINT64_C(1) << 63);
    CHECK(moe_capacity(-(double)INFINITY, 2, 8, 4096, 777) == 777);
    CHECK(moe_capacity((double)INFINITY, 1, 8, 0, 777) == 0); /* of nothing */
    CHECK(moe_capacity(-(double)INFINITY, 1, 8, 0, 777) == 0);
}

int main(int argc, char **argv)
{
    static const struct test many[] = {
        TEST(sixty_four_readers_see_one_of_a_thousand_published_tables),
    };
    static const struct test tests[] = {
        TEST(only_what_lies_inside_struct_size_is_written),
        TEST(who_has_no_room_for_sparse_is_told_the_default),
        TEST(groups_and_router_are_parts_of_the_layer),
        TEST(only_what_lies_inside_struct_size_is_read),
        TEST(null_is_an_argument_error),
        TEST(every_status_has_words_and_the_version_is_this_one),
        TEST(threads_share_a_view),
        TEST(a_child_goes_on_with_the_parents_table),
        TEST(readers_see_one_of_the_published_tables),
        TEST(the_capacity_rule_is_what_frameworks_do),
        TEST(the_capacity_rule_survives_any_number),
    };

    if (argc > 1 && !strcmp(argv[1], "--readers"))
        return run_with_folder(many, 1);
    return run_with_folder(tests, sizeof(tests) / sizeof(tests[0]));
}
