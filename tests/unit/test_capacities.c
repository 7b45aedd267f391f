/* Tests the controller of capacities against a slow and plain one on random feeds, and tests which
 * arguments it refuses. */
#include "check.h"
#include "heard.h"

#include "small_capacities.h"
#include "status.h"

#include <stdbool.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FEEDS = 300000, RIVALS = 300 };
#else
enum { FEEDS = 10000000, RIVALS = 3000 };
#endif

/* ---- the plain one: it keeps everything and works all of it out anew at every step */

struct plain {
    struct moe_capacities_options o;
    uint32_t feeds;
    uint64_t step[STEPS];
    uint32_t count[STEPS][EXPERTS_MOST];
    uint32_t plans; /* the first one is the start */
    uint64_t first[STEPS + 1];
    uint32_t decided[STEPS + 1]; /* after so many feeds */
    uint32_t rows[STEPS + 1][EXPERTS_MOST];
};

static void plain_open(struct plain *p, const struct moe_capacities_options *o)
{
    *p = (struct plain){ .o = *o, .plans = 1 };
    for (uint32_t e = 0; e < o->experts; e++)
        p->rows[0][e] = o->start ? o->start : o->most;
}

static uint32_t plain_plan(const struct plain *p, uint64_t step)
{
    uint32_t plan = 0;

    while (plan + 1 < p->plans && p->first[plan + 1] <= step)
        plan++;
    return plan;
}

static uint32_t plain_goal(const struct plain *p, uint32_t e)
{
    uint32_t window = (p->feeds - 1) / p->o.hold * p->o.hold, peak = 0;
    uint64_t rows;

    for (uint32_t i = window < p->o.hold ? 0 : window - p->o.hold; i < p->feeds; i++)
        peak = p->count[i][e] > peak ? p->count[i][e] : peak;
    rows = ((uint64_t)peak * (1000 + p->o.slack) + 999) / 1000;
    while (rows % p->o.grid)
        rows++;
    return rows < p->o.most ? (uint32_t)rows : p->o.most;
}

static bool plain_wants(const struct plain *p, uint32_t plan)
{
    double dropped = 0, total = 0, bound = p->o.drops * 1e-6;
    uint32_t begin = p->feeds > p->o.gap ? p->feeds - p->o.gap : 0;
    bool rested = p->plans == 1 || p->feeds - p->decided[p->plans - 1] >= p->o.gap;

    for (uint32_t i = begin; i < p->feeds; i++)
        for (uint32_t e = 0; e < p->o.experts; e++) {
            uint32_t n = p->count[i][e], rows = p->rows[plan][e];

            total += n;
            dropped += n > rows && plain_plan(p, p->step[i]) == plan ? n - rows : 0;
        }
    total *= (double)p->o.gap / (p->feeds - begin);
    if (dropped > bound * total * (1 + 1e-12) ||
        (rested && 4 * dropped > bound * total * (1 + 1e-12)))
        return true;
    for (uint32_t e = 0; e < p->o.experts; e++)
        if (p->feeds % p->o.hold == 0 && p->feeds >= 2 * p->o.hold && rested &&
            plain_goal(p, e) * 1000.0 < (double)p->o.low * p->rows[plan][e])
            return true;
    return false;
}

static void plain_feed(struct plain *p, uint64_t step, const uint32_t *counts)
{
    uint32_t plan = plain_plan(p, step), next = p->plans;

    memcpy(p->count[p->feeds], counts, p->o.experts * sizeof(*counts));
    p->step[p->feeds++] = step;
    if (plan + 1 < p->plans || !plain_wants(p, plan))
        return;
    for (uint32_t e = 0; e < p->o.experts; e++) {
        p->rows[next][e] = plain_goal(p, e);
        if (p->feeds < p->o.hold && p->rows[next][e] < p->rows[plan][e])
            p->rows[next][e] = p->rows[plan][e];
    }
    if (!memcmp(p->rows[next], p->rows[plan], p->o.experts * sizeof(*counts)))
        return;
    p->first[next] = step + p->o.delta;
    p->decided[next] = p->feeds;
    p->plans++;
}

/* Every way to deal the experts out would take long; greedily is what is promised. */
static uint64_t plain_balanced(const uint32_t *rows, uint32_t experts, uint32_t ranks)
{
    uint64_t load[EXPERTS_MOST] = { 0 }, most = 0;
    uint32_t held[EXPERTS_MOST] = { 0 };
    bool dealt[EXPERTS_MOST] = { false };

    for (uint32_t n = 0; n < experts; n++) {
        uint32_t largest = EXPERTS_MOST, rank = EXPERTS_MOST;

        for (uint32_t e = 0; e < experts; e++)
            if (!dealt[e] && (largest == EXPERTS_MOST || rows[e] > rows[largest]))
                largest = e;
        for (uint32_t q = 0; q < ranks; q++)
            if (held[q] < experts / ranks && (rank == EXPERTS_MOST || load[q] < load[rank]))
                rank = q;
        dealt[largest] = true;
        held[rank]++;
        load[rank] += rows[largest];
        most = load[rank] > most ? load[rank] : most;
    }
    return most;
}

static void sums_are_right(const struct moe_capacities_options *o, const uint32_t *rows,
                           const struct moe_capacities_state *state)
{
    uint64_t sum = 0, fullest = 0;
    uint32_t each = o->experts > o->ranks ? o->experts / o->ranks : 1;

    for (uint32_t e = 0; e < o->experts; e += each) {
        uint64_t rank = 0;

        for (uint32_t i = e; i < e + each; i++)
            rank += rows[i];
        sum += rank;
        fullest = rank > fullest ? rank : fullest;
    }
    CHECK(state->rows == sum && state->fullest == fullest);
    CHECK(state->key == (fullest + each - 1) / each);
    CHECK(state->balanced == (each > 1 ? plain_balanced(rows, o->experts, o->ranks) : fullest));
}

static bool rivals_agree(uint64_t key, uint32_t *replans)
{
    struct moe_capacities_options o = random_options(key);
    struct moe_capacities *c = open_with(&o);
    struct plain p;
    uint64_t step = random_below(key, 20, 3);
    uint32_t counts[EXPERTS_MOST];
    bool agree = true;

    plain_open(&p, &o);
    for (int i = 0; i < STEPS && agree; i++) {
        const uint32_t *rows;
        struct moe_capacities_state state;
        uint64_t asked;
        uint32_t plan;

        random_counts(key, step, o.experts, counts);
        CHECK(moe_capacities_feed(c, step, counts, o.experts) == MOE_OK);
        plain_feed(&p, step, counts);
        asked = step + random_below(key, 30 + i, o.delta + 1);
        state = state_at(c, asked, &rows);
        plan = plain_plan(&p, asked);
        agree = !memcmp(rows, p.rows[plan], o.experts * sizeof(*rows)) &&
                state.first == p.first[plan] && state.replans == plan &&
                state.pending == (plan + 1 < p.plans ? p.first[plan + 1] : UINT64_MAX);
        sums_are_right(&o, rows, &state);
        step += 1 + (random_below(key, 100 + i, 8) == 0);
    }
    *replans += p.plans - 1;
    moe_capacities_close(c);
    return agree;
}

static void a_plain_controller_finds_the_same(void)
{
    uint32_t replans = 0;

    for (uint64_t key = 1; key <= RIVALS; key++)
        if (!rivals_agree(key, &replans)) {
            printf("    seed %llu\n", (unsigned long long)key);
            CHECK(!"they agree");
            return;
        }
    CHECK(replans > RIVALS * 3);
}

/* ---- invariants over many feeds */

static void answers_keep_what_they_promise(void)
{
    struct moe_capacities_options o = options_of(4, 2, 900);
    struct moe_capacities *c, *other;
    uint32_t counts[4], before[4] = { 0 };
    uint64_t replans = 0;
    bool fine = true;

    o.hold = 30;
    o.gap = 10;
    o.grid = 8;
    o.delta = 3;
    c = open_with(&o);
    other = open_with(&o);
    for (uint64_t step = 0; step < FEEDS && fine; step++) {
        struct moe_capacities_state s = MOE_CAPACITIES_STATE_INIT, t = MOE_CAPACITIES_STATE_INIT;
        const uint32_t *rows, *same;

        for (uint32_t e = 0; e < 4; e++)
            counts[e] = random_below(e + (step >> 7), 0, 700) + random_below(e, step, 50);
        counts[0] += random_below(9, step, 500) == 0 ? 2000000000 : 1;
        fine &=
            !moe_capacities_feed(c, step, counts, 4) && !moe_capacities_at(c, step + 3, &rows, &s);
        if (step < FEEDS / 10) /* that of another rank */
            fine &= !moe_capacities_feed(other, step, counts, 4) &&
                    !moe_capacities_at(other, step + 3, &same, &t) && !memcmp(&s, &t, sizeof(s)) &&
                    !memcmp(rows, same, sizeof(before));
        fine &= s.first <= step + 3 && s.pending > step && s.dropped_ppm <= 1000000;
        fine &= s.replans == replans || (s.replans == replans + 1 && s.first > step &&
                                         memcmp(rows, before, sizeof(before)));
        fine &= s.replans != replans || !step || !memcmp(rows, before, sizeof(before));
        for (uint32_t e = 0; e < 4; e++)
            fine &= rows[e] <= 900 && (rows[e] % 8 == 0 || rows[e] == 900);
        fine &= s.key * 2 >= s.fullest && s.key * 2 <= s.fullest + 1 && s.fullest * 2 >= s.rows &&
                s.balanced * 2 >= s.rows;
        replans = s.replans;
        memcpy(before, rows, sizeof(before));
    }
    CHECK(fine && replans > FEEDS / 1000);
    moe_capacities_close(c);
    moe_capacities_close(other);
}

/* ---- single rules */

static void feed_same(struct moe_capacities *c, uint64_t *step, uint32_t steps,
                      const uint32_t *counts, uint32_t experts)
{
    const uint32_t *rows;

    for (uint32_t i = 0; i < steps; i++, ++*step) {
        CHECK(!moe_capacities_at(c, *step, &rows, NULL));
        CHECK(!moe_capacities_feed(c, *step, counts, experts));
    }
}

static void hot_experts_grow_at_once_and_cold_ones_shrink_after_two_windows(void)
{
    struct moe_capacities_options o = options_of(4, 2, 1000);
    static const uint32_t cold[] = { 100, 100, 100, 100 }, hot[] = { 100, 100, 100, 300 };
    struct moe_capacities *c;
    struct moe_capacities_state s;
    const uint32_t *rows;
    uint64_t step = 0;

    o.start = 250;
    o.hold = 20;
    o.gap = 5;
    c = open_with(&o);
    feed_same(c, &step, 39, cold, 4);
    s = state_at(c, step, &rows);
    CHECK(s.key == 250 && s.replans == 0 && s.rows == 1000 && s.digest != 0);
    feed_same(c, &step, 1, cold, 4);
    s = state_at(c, step, &rows);
    CHECK(s.replans == 1 && s.first == 40 && rows[0] == 100 && rows[3] == 100 && s.key == 100);
    feed_same(c, &step, 1, hot, 4);
    s = state_at(c, step, &rows);
    CHECK(s.replans == 2 && s.first == 41 && rows[2] == 100 && rows[3] == 300);
    CHECK(s.rows == 600 && s.fullest == 400 && s.key == 200 && s.balanced == 400);
    CHECK(s.dropped_ppm == 200u * 1000000 / (40 * 400 + 600));
    feed_same(c, &step, 80, hot, 4);
    CHECK(state_at(c, step, &rows).replans == 2); /* nothing to do */
    moe_capacities_close(c);
}

static void counts_act_delta_steps_later_and_never_earlier(void)
{
    static const uint32_t few[] = { 5, 5 }, many[] = { 50, 5 };

    for (uint32_t delta = 1; delta < 6; delta++) {
        struct moe_capacities_options o = options_of(2, 2, 100);
        struct moe_capacities *c;
        const uint32_t *rows;

        o.start = 10;
        o.delta = delta;
        c = open_with(&o);
        for (uint64_t t = 0; t < 20; t++) {
            CHECK(!moe_capacities_feed(c, t, t == 7 ? many : few, 2));
            CHECK(state_at(c, t + delta, &rows).replans == (t >= 7));
            CHECK(rows[0] == (t >= 7 ? 50 : 10));
            if (t >= 7 && t < 7 + delta) {
                CHECK(state_at(c, 7 + delta - 1, &rows).pending == 7 + delta);
                CHECK(rows[0] == 10);
            }
        }
        moe_capacities_close(c);
    }
}

/* ---- bad input: a status, and nothing has changed */

static void bad_feeds_change_nothing(void)
{
    struct moe_capacities_options o = options_of(3, 3, 100);
    static const uint32_t good[] = { 7, 0, 9 }, none[3], unknown[] = { 7, UINT32_MAX, 9 };
    static const uint32_t large[] = { 7, UINT32_MAX - 1, 9 };
    struct moe_capacities *c;
    const uint32_t *rows, *untouched = good;
    size_t size, after;
    void *bytes, *again;

    o.delta = 2;
    c = open_with(&o);
    CHECK(moe_capacities_at(c, UINT64_MAX, &rows, NULL) == MOE_ERR_ARGUMENT);
    CHECK(!moe_capacities_at(c, 5, &rows, NULL)); /* asked before anything was fed */
    CHECK(moe_capacities_feed(c, 3, good, 3) == MOE_ERR_ARGUMENT); /* would act at 5 */
    CHECK(!moe_capacities_feed(c, 4, good, 3));
    bytes = saved(c, &size);
    CHECK(moe_capacities_feed(NULL, 5, good, 3) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_feed(c, 5, NULL, 3) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_feed(c, 5, good, 2) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_feed(c, 5, good, 4) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_feed(c, 5, good, 0) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_feed(c, 5, good, UINT32_MAX) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_feed(c, 5, none, 3) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_feed(c, 5, unknown, 3) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_feed(c, 4, good, 3) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_feed(c, 0, good, 3) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_feed(c, UINT64_MAX - 2, good, 3) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_at(c, 7, &untouched, NULL) == MOE_ERR_ARGUMENT); /* 3 late */
    CHECK(moe_capacities_at(c, UINT64_MAX, &untouched, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_at(NULL, 6, &untouched, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_at(c, 6, NULL, NULL) == MOE_ERR_ARGUMENT);
    CHECK(untouched == good);
    again = saved(c, &after);
    CHECK(size == after && !memcmp(bytes, again, size));
    CHECK(!moe_capacities_at(c, 6, &rows, NULL)); /* 2 late: legal */
    CHECK(!moe_capacities_feed(c, 5, large, 3));
    CHECK(!moe_capacities_at(c, 7, &rows, NULL) && rows[1] <= 100);
    free(bytes);
    free(again);
    moe_capacities_close(c);
    moe_capacities_close(NULL);
}

static void options_that_make_no_sense_are_refused_in_one_line(void)
{
    static const struct bad {
        size_t at;
        uint32_t value;
    } bad[] = {
#define BAD(field, value) { offsetof(struct moe_capacities_options, field), value }
        BAD(experts, 0),       BAD(experts, 6),     BAD(experts, 65537),   BAD(ranks, 0),
        BAD(ranks, 3),         BAD(most, 0),        BAD(most, UINT32_MAX), BAD(start, 101),
        BAD(grid, 0),          BAD(hold, 0),        BAD(gap, 0),           BAD(gap, 32769),
        BAD(low, 1000),        BAD(slack, 1000001), BAD(drops, 1000001),   BAD(delta, 0),
        BAD(hold, UINT32_MAX),
#undef BAD
    };
    struct moe_capacities_options o = options_of(8, 4, 100);
    struct moe_capacities *c = NULL;

    log_to(listen, NULL);
    CHECK(moe_capacities_open(NULL, &c) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_open(&o, NULL) == MOE_ERR_ARGUMENT);
    said = 0;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct moe_capacities_options wrong = o;

        memcpy((char *)&wrong + bad[i].at, &bad[i].value, sizeof(bad[i].value));
        CHECK(moe_capacities_open(&wrong, &c) == MOE_ERR_ARGUMENT && !c);
        CHECK(said == (int)i + 1);
    }
    log_to(NULL, NULL);
}

static void structs_of_another_size_are_heeded(void)
{
    struct moe_capacities_options o = options_of(2, 1, 100);
    struct moe_capacities_state s = MOE_CAPACITIES_STATE_INIT;
    struct moe_capacities *c;
    const uint32_t *rows;

    o.struct_size = offsetof(struct moe_capacities_options, delta); /* 1 is meant */
    o.delta = 77;
    c = open_with(&o);
    s.struct_size = offsetof(struct moe_capacities_state, replans);
    s.replans = 5;
    CHECK(!moe_capacities_at(c, 0, &rows, &s) && s.replans == 5 && s.rows == 200 && s.key == 100);
    CHECK(!moe_capacities_feed(c, 0, (uint32_t[]){ 1, 1 }, 2));
    CHECK(!moe_capacities_at(c, 1, &rows, &s));
    CHECK(moe_capacities_at(c, 2, &rows, &s) == MOE_ERR_ARGUMENT);
    moe_capacities_close(c);
}

/* What a rank or another build finds has to be this number. */
static void the_digest_of_a_known_feed_is_known(void)
{
    struct moe_capacities_options o = options_of(8, 4, 4096);
    struct moe_capacities *c;
    struct moe_capacities_state s = MOE_CAPACITIES_STATE_INIT;
    uint32_t counts[8];
    const uint32_t *rows;

    o.start = 600;
    o.hold = 20;
    o.gap = 10;
    o.grid = 16;
    c = open_with(&o);
    for (uint64_t step = 0; step < 1000; step++) {
        for (uint32_t e = 0; e < 8; e++)
            counts[e] = 400 + random_below(5, step / 50 * 8 + e, 300) + random_below(e, step, 40);
        CHECK(!moe_capacities_feed(c, step, counts, 8));
    }
    s = state_at(c, 1000, &rows);
    if (s.digest != UINT64_C(0xd5c8a12f490f7a0f) || s.replans != 70)
        printf("    digest %llx, %llu re-plans\n", (unsigned long long)s.digest,
               (unsigned long long)s.replans);
    CHECK(s.digest == UINT64_C(0xd5c8a12f490f7a0f) && s.replans == 70);
    moe_capacities_close(c);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(hot_experts_grow_at_once_and_cold_ones_shrink_after_two_windows),
        TEST(counts_act_delta_steps_later_and_never_earlier),
        TEST(a_plain_controller_finds_the_same),
        TEST(answers_keep_what_they_promise),
        TEST(bad_feeds_change_nothing),
        TEST(options_that_make_no_sense_are_refused_in_one_line),
        TEST(structs_of_another_size_are_heeded),
        TEST(the_digest_of_a_known_feed_is_known),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
