/* Tests plans and buckets of declared spaces against random spaces that are judged in a plain way,
 * and tests the list of spaces that a process knows. */
#include "buckets.h"
#include "check.h"
#include "declared.h"
#include "plan.h"
#include "shape.h"
#include "some_spaces.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed;

/* ---- spaces drawn at random */

/* Compares with the plain way; true: legal. */
static bool compare_choice(const struct some_space *s, const struct declaration *d,
                           const uint32_t *at, uint32_t choice)
{
    bool legal = plain_legal(s, at);
    size_t length = 0;
    const char *need = declaration_broken_need(d, choice, 0, &length);

    for (size_t i = 0; i < s->axes; i++)
        CHECK(declaration_value(d, choice, i) == at[i]);
    CHECK(declaration_legal(d, choice) == legal && !need == legal);
    CHECK(!need || (need[length] == '\n' && !memcmp(need - 5, "need ", 5)));
    return legal;
}

/* The next combination, the last axis first; false: it was the last one. */
static bool next_combination(const struct some_space *s, uint32_t *at)
{
    size_t i = s->axes;

    while (i-- > 0) {
        if (++at[i] < s->axis[i].values)
            return true;
        at[i] = 0;
    }
    return false;
}

static uint32_t count_legal(const struct some_space *s, bool *usual)
{
    uint32_t at[SOME_AXES] = { 0 }, count = 0;

    do
        count += plain_legal(s, at);
    while (next_combination(s, at));
    for (size_t i = 0; i < s->axes; i++)
        at[i] = s->axis[i].fallback;
    *usual = plain_legal(s, at);
    return count;
}

static void compare_space(const struct some_space *s, const struct declaration *d)
{
    uint32_t at[SOME_AXES] = { 0 }, choice = 0, listed = 0;

    CHECK(d->axes == s->axes && d->needs == s->needs);
    do {
        if (compare_choice(s, d, at, choice))
            CHECK(listed < d->plans && d->plan[listed++] == choice);
        choice++;
    } while (next_combination(s, at));
    CHECK(choice == d->combinations && listed == d->plans);
    CHECK(!declaration_legal(d, choice) && !declaration_legal(d, UINT32_MAX));
    for (size_t i = 0; i < s->axes; i++) {
        const struct declared_axis *axis = &d->axis[i];

        CHECK(axis->words == s->axis[i].words && axis->restart == s->axis[i].restart);
        CHECK(axis->fallback == s->axis[i].fallback && axis->values == s->axis[i].values);
        CHECK(declaration_value(d, d->default_choice, i) == axis->fallback);
        for (uint32_t v = 0; v < axis->values; v++)
            CHECK(!strcmp(axis->text[v], s->axis[i].text[v]));
    }
}

static void compare_again(const struct declaration *d)
{
    struct declaration *again = read_space(d->text);

    CHECK(!strcmp(d->text, again->text) && d->id == again->id);
    CHECK(d->plans == again->plans && !memcmp(d->plan, again->plan, d->plans * sizeof(*d->plan)));
    declaration_free(again);
}

static void legal_is_what_every_need_is_true_of(void)
{
    static struct some_space s;
    int accepted = 0, many = 0;

    for (uint32_t round = 0; round < 3000; round++) {
        struct declaration *d = NULL;
        char why[DECLARATION_FAULT_BYTES] = "";
        uint32_t legal;
        bool usual;
        int before = check_failures;

        some_space(random_bits(seed, round), &s);
        legal = count_legal(&s, &usual);
        CHECK(!declaration_read(s.text, &d, why, sizeof(why)) ==
              (usual && legal <= DECLARATION_PLANS_MAX));
        CHECK(d || strstr(why, usual ? "at least 2001" : "the need excludes the default plan"));
        if (d) {
            compare_space(&s, d);
            compare_again(d);
            accepted++;
        }
        many += legal > DECLARATION_PLANS_MAX;
        if (check_failures > before) {
            printf("%s\n    %s\n", s.text, why);
            return;
        }
        declaration_free(d);
    }
    CHECK(accepted > 500 && many > 0);
}

/* ---- plans as numbers and as text */

/* Some of a plan's words, in any order; those left out are the default's. */
static uint32_t shuffle_words(struct some_space *s, const struct declaration *d, uint32_t choice,
                              char *text)
{
    size_t from = some(s, (uint32_t)d->axes), step = some(s, 2) ? 1 : d->axes - 1;
    uint32_t said = d->default_choice;

    *text = 0;
    for (size_t n = 0; n < d->axes; n++) {
        size_t i = (from + n * step) % d->axes;
        uint32_t value = declaration_value(d, choice, i);

        if (!some(s, 4))
            continue;
        sprintf(text + strlen(text), "%s%s=%s",
                some(s, 3) ? " "
                : n        ? "  "
                           : "",
                d->axis[i].name, d->axis[i].text[value]);
        said = declaration_with_value(d, said, i, value);
    }
    return said;
}

static void plans_are_numbers_and_texts(void)
{
    static struct some_space s;

    for (uint32_t round = 0; round < 3000; round++) {
        char text[DECLARATION_PLAN_BYTES], cut[DECLARATION_PLAN_BYTES];
        struct declaration *d;
        uint32_t choice, other, read, size;

        some_space(random_bits(~seed, round), &s);
        if (declaration_read(s.text, &d, text, sizeof(text)))
            continue;
        choice = some(&s, d->combinations);
        other = some(&s, d->combinations);
        CHECK(declaration_format(d, choice, text, sizeof(text)) == (int)strlen(text));
        CHECK(declaration_scan(d, text, &read) && read == choice);
        size = some(&s, (uint32_t)strlen(text) + 2);
        memset(cut, '#', sizeof(cut));
        CHECK(declaration_format(d, choice, cut, size) == (int)strlen(text));
        CHECK(cut[size] == '#' &&
              (!size || (!cut[size - 1] + !strcmp(cut, text)) || !strncmp(cut, text, strlen(cut))));
        read = shuffle_words(&s, d, choice, text);
        CHECK(declaration_scan(d, text, &other) && other == read);
        for (size_t i = 0; i < d->axes; i++)
            CHECK(declaration_with_value(d, choice, i, declaration_value(d, choice, i)) == choice);
        declaration_free(d);
    }
}

static void texts_that_are_no_plan_leave_the_choice_alone(void)
{
    static const char *const wrong[] = { "nvl",
                                         "nvl=",
                                         "=8",
                                         "nvl=9",
                                         "nvl=8 nvl=8",
                                         "Nvl=8",
                                         "nvl=8,",
                                         "backend=deepe",
                                         "nvl=8x",
                                         "backend=8",
                                         "nvl==8",
                                         "nvl=8 x",
                                         "nvl=99999999999999999999" };
    struct declaration *d = read_space(deepep);
    uint32_t choice = 77;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        CHECK(!declaration_scan(d, wrong[i], &choice) && choice == 77);
    CHECK(declaration_scan(d, "", &choice) && choice == d->default_choice);
    CHECK(declaration_scan(d, " nvl=08  backend=deepep ", &choice));
    CHECK(choice == declaration_with_value(d, d->default_choice, 2, 1));
    declaration_free(d);
}

static void a_launch_is_the_same_where_no_axis_of_a_restart_differs(void)
{
    struct declaration *d = read_space(deepep);

    for (uint32_t a = 0; a < d->combinations; a++)
        for (uint32_t b = 0; b < d->combinations; b++)
            CHECK(declaration_same_launch(d, a, b) == (a % 3 == b % 3));
    declaration_free(d);
}

/* ---- buckets */

/* A space of so many edges. */
static struct declaration *some_edges(struct some_space *s, uint32_t edges, uint32_t class_edges)
{
    char text[4096] = "space b\naxis a 1 default 1\nkey k edges";
    uint64_t edge = some(s, 5);
    uint32_t class_edge = 0;

    for (uint32_t i = 0; i < edges; i++, edge += 1 + some(s, 1u << i % 30) * (1ull << i % 11))
        some_append(text, sizeof(text), " %llu", (unsigned long long)edge);
    some_append(text, sizeof(text), class_edges ? "\nclass c edges" : "");
    for (uint32_t i = 0; i < class_edges; i++) {
        class_edge += 1 + some(s, 3000);
        some_append(text, sizeof(text), " %u.%03u", class_edge / 1000, class_edge % 1000);
    }
    return read_space(text);
}

static uint32_t plain_bucket(const struct declaration *d, uint64_t key, uint32_t class)
{
    uint32_t range = 0, classes = 0;

    for (size_t i = d->key_edges; i-- > 0;)
        if (key > d->key_edge[i]) {
            range = (uint32_t)i + 1;
            break;
        }
    for (size_t i = 0; i < d->class_edges; i++)
        classes += d->class_edge[i] < class;
    return range * (uint32_t)(d->class_edges + 1) + classes;
}

static void buckets_hold_what_is_between_their_edges(void)
{
    struct some_space s = { .seed = seed + 1 };

    for (uint32_t round = 0; round < 300; round++) {
        uint32_t edges = 1 + some(&s, 64), class_edges = some(&s, 9);
        struct declaration *d = some_edges(&s, edges, class_edges);

        CHECK(declaration_buckets(d) == (edges + 1) * (class_edges + 1));
        for (uint32_t i = 0; i < 200; i++) {
            uint64_t key = d->key_edge[some(&s, edges)] + some(&s, 3);
            uint32_t class =
                class_edges ? d->class_edge[some(&s, class_edges)] + some(&s, 3) - 1 : some(&s, 9);

            key -= key > 0;
            CHECK(declaration_bucket(d, key, class) == plain_bucket(d, key, class));
        }
        for (uint32_t b = 0; b < declaration_buckets(d); b++) {
            CHECK(declaration_bucket(d, declaration_key(d, b), 0) == b - b % (class_edges + 1));
            CHECK(declaration_bucket(d, declaration_key(d, b),
                                     (uint32_t)lround(1e3 * declaration_class(d, b))) == b);
        }
        declaration_free(d);
    }
}

static void check_range(const struct declaration *d, uint32_t bucket, uint64_t key,
                        const char *expected)
{
    char text[96];

    CHECK(declaration_range(d, bucket, text, sizeof(text)) == (int)strlen(expected));
    CHECK(!strcmp(text, expected) && declaration_key(d, bucket) == key);
}

static void ranges_have_a_text_and_a_key(void)
{
    struct declaration *d = read_space(deepep);

    CHECK(declaration_buckets(d) == 15);
    check_range(d, 0, 64, "<=64 skew <=1.25");
    check_range(d, 4, 256, "65-256 skew 1.251-2");
    check_range(d, 14, 8192, ">4096 skew >2");
    declaration_free(d);
    d = read_space("space x\naxis a 1 default 1\nkey k edges 0 1 5");
    check_range(d, 0, 0, "<=0");
    check_range(d, 1, 1, "1");
    check_range(d, 2, 5, "2-5");
    check_range(d, 3, 10, ">5");
    declaration_free(d);
    d = read_space("space x\naxis a 1 default 1\nkey k edges 0");
    check_range(d, 1, 1, ">0");
    declaration_free(d);
}

/* ---- those that are known */

enum { THREADS = 4, SPACES = 40 };

static const struct declaration *registered[THREADS][SPACES];

static void *register_all(void *self)
{
    const struct declaration **mine = self;

    for (int i = 0; i < SPACES; i++) {
        int n = (i * 7 + (int)((mine - registered[0]) / SPACES) * 11) % SPACES;
        char text[128];

        snprintf(text, sizeof(text), "space known-%d # %d\naxis a 1 2 default %d\nkey k edges 1\n",
                 n / 2, i, 1 + n % 2);
        if (declaration_register(text, &mine[n]) || declaration_find(mine[n]->id) != mine[n])
            mine[n] = NULL;
    }
    return NULL;
}

static void threads_know_each_space_once(void)
{
    pthread_t threads[THREADS];
    char tag[DECLARATION_TAG_BYTES];

    for (int t = 0; t < THREADS; t++)
        CHECK(!pthread_create(&threads[t], NULL, register_all, registered[t]));
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (int i = 0; i < SPACES; i++) {
        const struct declaration *d = registered[0][i];

        CHECK(d && d->default_choice == (uint32_t)i % 2);
        for (int t = 0; t < THREADS && d; t++)
            CHECK(registered[t][i] == d);
        for (int j = 0; j < i && d; j++)
            CHECK(registered[0][j] != d);
        if (d && declaration_tag(d, tag))
            CHECK(declaration_named(tag, strlen(tag)) == d);
    }
}

/* The canonical texts of s66239 and s123994 have the same first 4 bytes of a SHA-256. */
static void spaces_are_known_by_tag_and_by_a_name_that_is_alone(void)
{
    static const char one[] = "space s66239\naxis a 1 2 default 1\nkey k edges 1\n",
                      same_id[] = "space s123994\naxis a 1 2 default 1\nkey k edges 1\n",
                      same_name[] = "space s66239\naxis a 1 default 1\nkey k edges 1\n";
    const struct declaration *d = NULL, *other = NULL;
    char said[DECLARATION_FAULT_BYTES] = "", tag[DECLARATION_TAG_BYTES];

    CHECK(!declaration_find(0x86866e5d) && !declaration_named("s66239", 6));
    CHECK(!declaration_register(one, &d) && d->id == 0x86866e5d);
    CHECK(!strcmp(declaration_tag(d, tag), "s66239@86866e5d"));
    CHECK(declaration_find(d->id) == d && declaration_named("s66239...", 6) == d);
    log_to(take_line, said);
    CHECK(declaration_register(same_id, &other) == ERR_FORMAT && !other);
    log_to(NULL, NULL);
    CHECK(!strcmp(said, "this declared space has the same id 86866e5d as the space s66239: "
                        "rename one of them"));
    CHECK(!declaration_register(same_name, &other) && other != d);
    CHECK(!declaration_named("s66239", 6) && declaration_named(tag, strlen(tag)) == d);
    CHECK(!declaration_named("s66239@", 7) && !declaration_named("s66239@86866e5", 14));
    CHECK(!declaration_named("s66239@86866e5d0", 16) && !declaration_named("", 0));
}

/* ep shards of n rows: all numbers of ranks, and what each of them leaves. */
static void needs_may_ask_for_the_ranks(void)
{
    static const char text[] =
        "space on-ranks\naxis ep 1 2 4 8 default 1 restart\naxis n 1 3 default 1\n"
        "need ep*n divides ranks | n=3 & ep=8\nkey k edges 1\n",
                      own[] = "space own-ranks\naxis ranks 1 2 default 2\naxis n 1 2 default 1\n"
                              "need n<=ranks\nkey k edges 1\n";
    const struct declaration *d = NULL, *other = NULL;
    struct moe_plan plans[16];
    struct moe_shape shape = { .struct_size = sizeof(shape) };

    CHECK(!declaration_register(text, &d) && d->plans == 8);
    shape.space = d->id;
    shape_set_none(&shape);
    for (shape.ranks = 1; shape.ranks <= 48; shape.ranks++) {
        size_t count = plan_list(&shape, plans, 16), at = 0;

        for (uint32_t choice = 0; choice < d->combinations; choice++) {
            uint32_t ep = 1u << declaration_value(d, choice, 0);
            uint32_t n = declaration_value(d, choice, 1) ? 3 : 1;
            bool legal = shape.ranks % (ep * n) == 0 || (n == 3 && ep == 8);
            struct moe_plan plan = declared_plan(d->id, choice);

            CHECK(plan_legal(&plan, &shape) == legal);
            CHECK(!legal || (at < count && plan_equal(&plans[at++], &plan)));
        }
        CHECK(at == count);
    }
    /* An axis of that name is meant. */
    CHECK(!declaration_register(own, &other) && other->plans == 3);
    CHECK(declaration_legal_on(other, other->plan[0], 1));
}

static void neighbouring_ranges_print_as_one(void)
{
    static const char plain[] = "space p\naxis a 1 default 1\nkey k edges 1 10 100\n",
                      classes[] =
                          "space c\naxis a 1 default 1\nkey k edges 1 10 100\nclass x edges 2\n";
    static const struct {
        const char *space;
        uint32_t first, last;
        const char *text;
    } cases[] = {
        { plain, 0, 0, "<=1" },
        { plain, 0, 2, "<=100" },
        { plain, 1, 2, "2-100" },
        { plain, 2, 3, ">10" },
        { plain, 0, 3, "any" },
        { plain, 3, 3, ">100" },
        { classes, 2, 5, "2-100" },
        { classes, 0, 7, "any" },
        { classes, 5, 5, "11-100 x >2" },
        { classes, 0, 0, "<=1 x <=2" },
        { classes, 1, 4, "<=1 x >2 to 11-100 x <=2" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct declaration *d = NULL;

        CHECK(!declaration_register(cases[i].space, &d));
        CHECK(!strcmp(BUCKETS_TEXT(((struct buckets){ d, 1 }), cases[i].first, cases[i].last),
                      cases[i].text));
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(neighbouring_ranges_print_as_one),
        TEST(needs_may_ask_for_the_ranks),
        TEST(legal_is_what_every_need_is_true_of),
        TEST(plans_are_numbers_and_texts),
        TEST(texts_that_are_no_plan_leave_the_choice_alone),
        TEST(a_launch_is_the_same_where_no_axis_of_a_restart_differs),
        TEST(buckets_hold_what_is_between_their_edges),
        TEST(ranges_have_a_text_and_a_key),
        TEST(threads_know_each_space_once),
        TEST(spaces_are_known_by_tag_and_by_a_name_that_is_alone),
    };

    seed = test_seed();
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
