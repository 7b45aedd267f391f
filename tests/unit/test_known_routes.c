/* Tests the cache of routes against a list that is searched from end to end, and tests when the
 * cache is used. */
#include "check.h"

#include "moelookup.h"
#include "random.h"
#include "status.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ROOMS = 5, ROWS = 6, TOP_K = 3, EXPERTS = 9, CALLS = 200000 };

static int lines_said;

static void count_line(void *self, const char *line)
{
    (void)self, (void)line;
    lines_said++;
}

static struct moe_routes *open_small(void)
{
    struct moe_routes_options o = MOE_ROUTES_OPTIONS_INIT;
    struct moe_routes *r = NULL;

    o.experts = EXPERTS;
    o.top_k = TOP_K;
    o.rooms = ROOMS;
    o.rows = ROWS;
    CHECK(!moe_routes_open(&o, &r));
    return r;
}

static void random_ids(uint64_t key, uint64_t call, uint32_t rows, int32_t *ids)
{
    for (uint32_t t = 0; t < rows; t++) {
        /* Few different ones, so that some stay. */
        uint32_t kind = random_below(key + t, call, 4);

        for (int i = 0; i < TOP_K; i++)
            ids[t * TOP_K + (i + random_below(key, call + t, TOP_K)) % TOP_K] =
                (int32_t)((kind * 2 + i) % EXPERTS);
    }
}

static bool equal_sets(const int32_t *a, const int32_t *b)
{
    int common = 0;

    for (int i = 0; i < TOP_K; i++)
        for (int j = 0; j < TOP_K; j++)
            common += a[i] == b[j];
    return common == TOP_K;
}

/* The newest is last. */
struct kept {
    uint64_t key;
    uint32_t rows;
    int32_t ids[ROWS * TOP_K];
};

static void a_plain_list_remembers_the_same(void)
{
    struct moe_routes *r = open_small();
    struct kept list[ROOMS + 1];
    int count = 0;
    uint64_t kept = 0;

    log_to(count_line, NULL);
    lines_said = 0;
    for (uint64_t call = 0; call < CALLS; call++) {
        uint64_t key = random_below(1, call, 8) * UINT64_C(0x100000000), same = 77, compared = 77;
        uint32_t rows = 1 + random_below(2, call, 10) % ROWS, got = 77, wanted = 0;
        int32_t ids[ROWS * TOP_K], back[ROWS * TOP_K];
        struct kept put = { key, rows, { 0 } };
        int at = 0;

        random_ids(3, call, rows, ids);
        memcpy(put.ids, ids, rows * TOP_K * sizeof(*ids));
        while (at < count && list[at].key != key)
            at++;
        CHECK(!moe_routes_get(r, key, back, ROWS * TOP_K, &got));
        CHECK(got == (at < count ? list[at].rows : 0));
        CHECK(!memcmp(back, list[at < count ? at : 0].ids, got * TOP_K * sizeof(*back)));
        for (uint32_t t = 0; at < count && list[at].rows == rows && t < rows; t++)
            wanted += equal_sets(&list[at].ids[t * TOP_K], &ids[t * TOP_K]);
        CHECK(!moe_routes_put(r, key, ids, rows, TOP_K, &same, &compared));
        CHECK(same == wanted && compared == (at < count && list[at].rows == rows ? rows : 0));
        kept += same;
        if (at == count && count == ROOMS)
            at = 0; /* the oldest goes */
        if (at < count)
            memmove(&list[at], &list[at + 1], (size_t)(--count - at) * sizeof(*list));
        list[count++] = put;
        if (check_failures)
            break;
    }
    log_to(NULL, NULL);
    CHECK(kept > CALLS / 20 && lines_said == 1);
    moe_routes_close(r);
}

static void bad_puts_change_nothing(void)
{
    static const int32_t good[] = { 0, 1, 2, 3, 4, 5 }, turned[] = { 2, 0, 1, 3, 5, 4 };
    static const int32_t bad[][6] = {
        { 0, 1, 2, 3, 4, EXPERTS }, { 0, 1, 2, 3, 4, -1 },        { 0, 1, 2, 3, 4, 3 },
        { 7, 7, 2, 3, 4, 5 },       { 0, 1, INT32_MIN, 3, 4, 5 }, { INT32_MAX, 1, 2, 3, 4, 5 },
    };
    struct moe_routes *r = open_small();
    uint64_t same = 5, compared = 5;
    int32_t back[6] = { 9, 9, 9, 9, 9, 9 };
    uint32_t rows = 9;

    CHECK(!moe_routes_put(r, 42, good, 2, TOP_K, &same, &compared) && !same && !compared);
    same = compared = 5;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(moe_routes_put(r, 42, bad[i], 2, TOP_K, &same, &compared) == MOE_ERR_ARGUMENT);
    CHECK(moe_routes_put(r, 42, good, 3, 2, &same, &compared) == MOE_ERR_ARGUMENT); /* another k */
    CHECK(moe_routes_put(r, 42, good, 0, TOP_K, &same, &compared) == MOE_ERR_ARGUMENT);
    CHECK(moe_routes_put(r, 42, good, ROWS + 1, TOP_K, &same, &compared) == MOE_ERR_ARGUMENT);
    CHECK(moe_routes_put(r, 42, NULL, 2, TOP_K, &same, &compared) == MOE_ERR_ARGUMENT);
    CHECK(moe_routes_put(NULL, 42, good, 2, TOP_K, &same, &compared) == MOE_ERR_ARGUMENT);
    CHECK(same == 5 && compared == 5);
    CHECK(moe_routes_get(r, 42, back, 5, &rows) == MOE_ERR_ARGUMENT && rows == 9 && back[0] == 9);
    CHECK(!moe_routes_get(r, 42, back, 6, &rows) && rows == 2 && !memcmp(back, good, sizeof(good)));
    CHECK(!moe_routes_put(r, 42, turned, 2, TOP_K, &same, NULL) && same == 2);
    CHECK(!moe_routes_get(r, 42, back, 6, &rows) && !memcmp(back, turned, sizeof(turned)));
    moe_routes_close(r);
    moe_routes_close(NULL);
}

static void options_that_make_no_sense_are_refused(void)
{
    static const uint32_t bad[][6] = {
        /* experts, k, rooms, rows, on, off */
        { 0, 1, 1, 1, 960, 900 },     { 65537, 1, 1, 1, 960, 900 }, { 4, 0, 1, 1, 960, 900 },
        { 4, 5, 1, 1, 960, 900 },     { 100, 65, 1, 1, 960, 900 },  { 4, 1, 0, 1, 960, 900 },
        { 4, 1, 1, 0, 960, 900 },     { 4, 1, 1, 1, 1001, 900 },    { 4, 1, 1, 1, 900, 901 },
        { 4, 1, 1u << 31, 1, 96, 9 }, { 4, 1, 1, 1u << 31, 96, 9 },
    };
    struct moe_routes *r = NULL;

    log_to(count_line, NULL);
    lines_said = 0;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct moe_routes_options o = { sizeof(o), bad[i][0], bad[i][1], bad[i][2],
                                        bad[i][3], bad[i][4], bad[i][5], 10 };

        CHECK(moe_routes_open(&o, &r) == MOE_ERR_ARGUMENT && !r && lines_said == (int)i + 1);
    }
    CHECK(moe_routes_open(&(struct moe_routes_options){ sizeof(struct moe_routes_options), 64, 64,
                                                        1u << 30, 1u << 30, 960, 900, 10 },
                          &r) == MOE_ERR_NOMEM &&
          !r);
    log_to(NULL, NULL);
}

/* What Figure 10 of the DynaMoE paper shows: assignments settle within a few epochs, fall below
 * 90 % for a moment at epoch 48, and settle again. */
static double figure_10(uint64_t seed, uint32_t epoch)
{
    double settled = 1 - .9 * exp(-(double)epoch / 3.5), noise = .004 * random_unit(seed, epoch);

    return settled - .025 + noise - (epoch == 48 ? .1 : epoch == 49 ? .04 : 0);
}

static void figure_10_switches_at_its_first_crossings_and_nowhere_else(void)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct moe_routes *r = open_small();
        uint32_t on = 9, state = 0, switches = 0;

        for (uint32_t epoch = 0; epoch < 140; epoch++) {
            uint64_t same = (uint64_t)(figure_10(seed, epoch) * 50000);
            uint32_t wanted = state ? same >= 45000 : epoch >= 10 && same >= 48000;

            CHECK(!moe_routes_decide(r, epoch, same, 50000, &on) && on == wanted);
            switches += on != state;
            CHECK(on == state || epoch == 48 || on); /* off at 48 alone */
            state = on;
        }
        CHECK(switches == 3 && state);
        moe_routes_close(r);
    }
}

static void values_between_both_thresholds_never_switch(void)
{
    struct moe_routes *r = open_small();
    uint32_t on = 9;

    for (uint64_t pass = 0; pass < 10; pass++)
        CHECK(!moe_routes_decide(r, pass, 1000, 1000, &on) && !on); /* too early */
    for (uint64_t i = 0; i < 1000; i++)
        CHECK(!moe_routes_decide(r, 10, 9000 + random_below(1, i, 600), 10000, &on) && !on);
    CHECK(!moe_routes_decide(r, 10, 9600, 10000, &on) && on);
    for (uint64_t i = 0; i < 1000; i++)
        CHECK(!moe_routes_decide(r, 11 + i, 9000 + random_below(2, i, 601), 10000, &on) && on);
    CHECK(!moe_routes_decide(r, 2000, 0, 0, &on) && on); /* nothing was compared */
    CHECK(moe_routes_decide(r, 1999, 1, 1, &on) == MOE_ERR_ARGUMENT);
    CHECK(moe_routes_decide(r, 2000, 2, 1, &on) == MOE_ERR_ARGUMENT);
    CHECK(moe_routes_decide(NULL, 2000, 1, 1, &on) == MOE_ERR_ARGUMENT);
    CHECK(moe_routes_decide(r, 2000, 1, 1, NULL) == MOE_ERR_ARGUMENT);
    CHECK(!moe_routes_decide(r, 2000, 8999, 10000, &on) && !on);
    CHECK(!moe_routes_decide(r, 2000, UINT64_MAX, UINT64_MAX, &on) && on);
    moe_routes_close(r);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_plain_list_remembers_the_same),
        TEST(bad_puts_change_nothing),
        TEST(options_that_make_no_sense_are_refused),
        TEST(figure_10_switches_at_its_first_crossings_and_nowhere_else),
        TEST(values_between_both_thresholds_never_switch),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
