/* The searches, the contest, and the order statistics under them. */
#include "check.h"

#include "bound.h"
#include "contest.h"
#include "history.h"
#include "plan.h"
#include "random.h"
#include "shape.h"
#include "stats.h"
#include "status.h"
#include "surface.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct search *search_for(const char *strategy, const struct moe_shape *shape,
                                 const struct moe_plan *arms, size_t count, uint32_t repeats)
{
    struct search_setup setup = {
        .shape = *shape, .arms = arms, .arm_count = count, .repeats = repeats, .seed = 42
    };
    struct search *search = NULL;

    CHECK(search_open(search_find(strategy), &setup, &search) == OK);
    return search;
}

static struct search *search_on(const char *strategy, const struct surface *s, uint32_t repeats)
{
    return search_for(strategy, &s->shape, s->arms, s->arm_count, repeats);
}

static struct surface surface_with(uint64_t seed, uint32_t slices)
{
    return surface_make(seed, &(struct surface_options){ .slices = slices });
}

/* ---- paper */

/* Every divisor of s with four d and two a, and r = 0. */
static size_t all_arms(uint32_t s, struct moe_plan *arms)
{
    size_t n = 0;

    arms[n] = plan_default();
    arms[n++].r = 0;
    for (uint32_t r = 1; r <= s; r++)
        for (uint32_t d = 1; s % r == 0 && d <= 8; d *= 2)
            for (uint32_t a = 0; a < 2; a++) {
                arms[n] = plan_default();
                arms[n].r = r;
                arms[n].d = d;
                arms[n++].a = a;
            }
    return n;
}

static struct moe_shape shared_by(uint32_t slices)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = 1,
                               .top_k = 1,
                               .model_dim = 64,
                               .hidden_dim = slices,
                               .ranks = slices,
                               .ranks_per_node = 1 };
}

/* Falls and then rises along r below s in every (d, a); steps from `flattest`, which may be 0. */
static void unimodal(uint64_t seed, const struct moe_plan *arms, size_t n, int64_t flattest,
                     int64_t *ns)
{
    uint64_t at = 0;

    for (size_t i = 0; i < n; i++)
        ns[i] = 1000000 + (int64_t)random_below(seed, at++, 1000000);
    for (uint32_t line = 0; line < 8; line++) {
        int64_t value = 1000000000 + (int64_t)random_below(seed, at++, 1000);
        uint32_t count = 0, least;

        for (size_t i = 1; i < n; i++)
            count += arms[i].d == 1u << line / 2 && arms[i].a == line % 2;
        least = random_below(seed, at++, count);
        for (size_t i = 1, k = 0; i < n; i++) {
            int64_t step = flattest + (int64_t)random_below(seed, at++, flattest ? 1000000 : 3);

            if (arms[i].d != 1u << line / 2 || arms[i].a != line % 2)
                continue;
            if (k + 1 < count) /* r = s is measured apart and may be anything */
                ns[i] = value += k++ <= least ? -step : step;
            else
                ns[i] = 1000000000 + (int64_t)random_below(seed, at++, 1000000);
        }
    }
    ns[0] = 1000000000 + (int64_t)random_below(seed, at++, 1000000);
}

static int64_t least_of(const int64_t *ns, const bool *usable, size_t n)
{
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < n; i++)
        if ((!usable || usable[i]) && ns[i] < least)
            least = ns[i];
    return least;
}

static void the_paper_s_search_finds_the_least_within_its_count(void)
{
    static struct moe_plan arms[SEARCH_ARMS_MAX];
    int64_t ns[SEARCH_ARMS_MAX];

    for (uint32_t s = 1; s <= 2048; s++) {
        struct moe_shape shape = shared_by(s);
        size_t n = all_arms(s, arms);
        struct search *search = search_for("paper", &shape, arms, n, 1);
        struct search_result v;
        int arm;

        unimodal(s, arms, n, 1, ns);
        search_visit(search, 100, NULL);
        while ((arm = search_next(search)) != SEARCH_DONE)
            search_tell(search, arm, ns[arm]);
        v = search_result(search);
        CHECK(v.winner >= 0 && ns[v.winner] == least_of(ns, NULL, n));
        CHECK(v.samples <= shape_paper_trials(&shape) && v.samples == v.arms);
        search_close(search);
    }
}

static void the_paper_s_count_is_that_of_its_formula(void)
{
    static const uint32_t expected[][2] = {
        { 1, 16 }, { 2, 32 }, { 8, 64 }, { 32, 88 }, { 128, 112 }
    };

    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        struct moe_shape shape = shared_by(expected[i][0]);

        CHECK(shape_paper_trials(&shape) == expected[i][1]);
    }
}

static void plateaus_and_failures_do_not_lose_the_least(void)
{
    static struct moe_plan arms[SEARCH_ARMS_MAX];
    int64_t ns[SEARCH_ARMS_MAX];

    for (uint32_t trial = 0; trial < 1500; trial++) {
        uint32_t s = 1 + random_below(1, trial, 720);
        struct moe_shape shape = shared_by(s);
        size_t n = all_arms(s, arms);
        struct search *search = search_for("paper", &shape, arms, n, 1);
        bool fits[SEARCH_ARMS_MAX], dropped[SEARCH_ARMS_MAX] = { false };
        uint32_t from = random_below(2, trial, s + 1), mode = trial % 3;
        int arm;

        unimodal(trial, arms, n, trial % 2, ns);
        for (size_t i = 0; i < n; i++) /* out of memory for small r, for large r, or anywhere */
            fits[i] = mode == 0   ? arms[i].r >= from
                      : mode == 1 ? arms[i].r && arms[i].r <= from
                                  : random_below(trial, i, 4) > 0;
        fits[n - 1] = true;
        search_visit(search, 100, NULL);
        while ((arm = search_next(search)) != SEARCH_DONE) {
            CHECK(!dropped[arm]);
            dropped[arm] = !fits[arm];
            if (fits[arm])
                search_tell(search, arm, ns[arm]);
            else
                search_drop(search, arm);
        }
        arm = search_result(search).winner;
        CHECK(arm >= 0 && fits[arm] && ns[arm] == least_of(ns, fits, n));
        search_close(search);
    }
}

static void the_paper_s_search_takes_the_median_of_its_repeats(void)
{
    struct moe_shape shape = shared_by(2);
    struct moe_plan arms[2] = { plan_default(), plan_default() };
    static const int64_t ns[2][3] = { { 100, 900, 110 }, { 105, 106, 95 } };
    struct search *search;
    uint32_t told[2] = { 0, 0 };
    int arm;

    arms[1].r = 2;
    search = search_for("paper", &shape, arms, 2, 3);
    search_visit(search, 1, NULL);
    while ((arm = search_next(search)) != SEARCH_DONE)
        search_tell(search, arm, ns[arm][told[arm]++]);
    CHECK(told[0] == 3 && told[1] == 3 && search_result(search).winner == 1);
    search_close(search);
}

/* ---- what holds for every strategy */

enum { VISITS = 4, LONGEST = 4000 };

struct sample_log {
    int arm[VISITS][LONGEST];
    int64_t ns[VISITS][LONGEST];
    int count[VISITS];
    struct search_result verdict[VISITS];
};

static int64_t noisy(const struct surface *s, uint64_t capacity, int arm, int visit, int at)
{
    struct noise noise = noise_make((uint64_t)visit * LONGEST + (uint64_t)at, 0.05, 0.03, false);

    return noise_sample(&noise, surface_ns(s, (double)capacity, arm));
}

/* Replays the first `known` samples of `from`, then goes on by itself. */
static void run_logged(const char *strategy, const struct surface *s, const struct sample_log *from,
                       int last_visit, int known, struct sample_log *out)
{
    static const uint64_t capacities[VISITS] = { 500, 4000, 700, 560 };
    struct search *search = search_on(strategy, s, 3);

    for (int v = 0; v < VISITS; v++) {
        int arm, n = 0;

        search_visit(search, capacities[v], NULL);
        for (int i = 0; from && v <= last_visit && i < from->count[v]; i++) {
            if (v == last_visit && i == known)
                break;
            search_tell(search, from->arm[v][i], from->ns[v][i]);
            out->arm[v][n] = from->arm[v][i];
            out->ns[v][n++] = from->ns[v][i];
        }
        while ((arm = search_next(search)) != SEARCH_DONE && n < LONGEST) {
            CHECK(search_next(search) == arm);
            search_result(search);
            search_estimate(search, 1234, arm);
            out->arm[v][n] = arm;
            out->ns[v][n] = noisy(s, capacities[v], arm, v, n);
            search_tell(search, arm, out->ns[v][n]);
            n++;
        }
        out->count[v] = n;
        out->verdict[v] = search_result(search);
    }
    search_close(search);
}

static bool same_log(const struct sample_log *a, const struct sample_log *b)
{
    for (int v = 0; v < VISITS; v++) {
        if (a->count[v] != b->count[v] || a->verdict[v].winner != b->verdict[v].winner ||
            a->verdict[v].reason != b->verdict[v].reason)
            return false;
        for (int i = 0; i < a->count[v]; i++)
            if (a->arm[v][i] != b->arm[v][i] || a->ns[v][i] != b->ns[v][i])
                return false;
    }
    return true;
}

static void a_replayed_search_goes_on_as_if_it_had_not_been_cut(void)
{
    static struct sample_log whole, again;

    for (size_t k = 0; search_strategies[k]; k++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            struct surface s = surface_with(seed, seed < 3 ? 8 : 32);

            run_logged(search_strategies[k]->name, &s, NULL, 0, 0, &whole);
            for (int v = 0; v < VISITS; v++)
                for (int cut = 0; cut <= whole.count[v]; cut += 1 + whole.count[v] / 3) {
                    run_logged(search_strategies[k]->name, &s, &whole, v, cut, &again);
                    CHECK(same_log(&whole, &again));
                }
        }
}

static void samples_may_come_in_another_order_than_asked_for(void)
{
    struct surface s = surface_with(3, 8);

    for (size_t k = 0; search_strategies[k]; k++) {
        struct search *search = search_on(search_strategies[k]->name, &s, 2);
        int arm, n = 0;

        search_visit(search, 1000, NULL);
        for (int i = 0; i < 20; i++)
            search_tell(search, (int)random_below(9, (uint64_t)i, (uint32_t)s.arm_count),
                        1000000 + i);
        while ((arm = search_next(search)) != SEARCH_DONE && n++ < LONGEST)
            search_tell(search, arm, noisy(&s, 1000, arm, 0, n));
        CHECK(n < LONGEST && search_result(search).winner >= 0);
        search_close(search);
    }
}

static void what_failed_is_never_asked_for_and_never_wins(void)
{
    for (size_t k = 0; search_strategies[k]; k++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct surface s = surface_with(seed, 0);
            struct search *search = search_on(search_strategies[k]->name, &s, 2);
            bool usable[SEARCH_ARMS_MAX];
            int arm, n = 0;

            for (int visit = 0; visit < 3; visit++) {
                for (size_t i = 0; i < SEARCH_ARMS_MAX; i++)
                    usable[i] = random_below(seed, i + 1000 * (uint64_t)visit, 3) > 0;
                usable[s.arm_count / 2] = true;
                search_visit(search, 300u << visit, usable);
                while ((arm = search_next(search)) != SEARCH_DONE && n < LONGEST) {
                    CHECK(arm >= 0 && (size_t)arm < s.arm_count && usable[arm]);
                    n++;
                    if (random_below(seed + 100, (uint64_t)n, 4) == 0 &&
                        (size_t)arm != s.arm_count / 2) {
                        usable[arm] = false;
                        search_drop(search, arm);
                    } else {
                        search_tell(search, arm, noisy(&s, 300u << visit, arm, 0, n));
                    }
                    CHECK(usable[search_result(search).winner]);
                }
                arm = search_result(search).winner;
                CHECK(usable[arm]);
                if ((size_t)arm == s.arm_count / 2)
                    continue;
                search_drop(search, arm); /* it may fail after the search was done */
                usable[arm] = false;
                CHECK(usable[search_result(search).winner]);
            }
            search_close(search);
        }
}

static void with_nothing_usable_there_is_no_winner(void)
{
    struct surface s = surface_with(1, 8);
    static const bool none[SEARCH_ARMS_MAX];

    for (size_t k = 0; search_strategies[k]; k++) {
        struct search *search = search_on(search_strategies[k]->name, &s, 1);
        struct search_result out = { .winner = 7 };

        CHECK(search_next(search) == SEARCH_DONE && search_result(search).winner == -1);
        CHECK(!search_infer(search, 100, NULL, &out) && out.winner == 7);
        search_visit(search, 100, none);
        CHECK(search_next(search) == SEARCH_DONE && search_result(search).winner == -1);
        search_visit(search, 100, NULL);
        for (size_t i = 0; i < s.arm_count; i++)
            search_drop(search, (int)i);
        CHECK(search_next(search) == SEARCH_DONE && search_result(search).winner == -1);
        search_close(search);
    }
}

static void a_single_plan_wins_at_once(void)
{
    struct moe_shape shape = shared_by(1);
    struct moe_plan only = plan_default();

    for (size_t k = 0; search_strategies[k]; k++) {
        struct search *search = search_for(search_strategies[k]->name, &shape, &only, 1, 1);
        struct search_result v;
        int n = 0;

        search_visit(search, 0, NULL);
        for (; search_next(search) == 0 && n < 10; n++)
            search_tell(search, 0, 1000);
        v = search_result(search);
        CHECK(n <= 1 && v.winner == 0 && v.runner_up == -1);
        search_close(search);
    }
}

static void a_cut_visit_still_has_a_winner(void)
{
    struct surface s = surface_with(5, 32);

    for (size_t k = 0; search_strategies[k]; k++)
        for (int told = 0; told < 12; told++) {
            struct search *search = search_on(search_strategies[k]->name, &s, 2);
            struct search_result v;

            search_visit(search, 2000, NULL);
            for (int i = 0; i < told; i++) {
                int arm = search_next(search);

                if (arm != SEARCH_DONE)
                    search_tell(search, arm, noisy(&s, 2000, arm, 0, i));
            }
            search_cut(search);
            v = search_result(search);
            CHECK(search_next(search) == SEARCH_DONE && v.winner >= 0);
            CHECK(v.reason == (told ? SEARCH_CUT : SEARCH_INFERRED));
            search_close(search);
        }
}

static void a_limit_is_kept(void)
{
    struct surface s = surface_with(6, 32);

    for (size_t k = 0; search_strategies[k]; k++)
        for (uint32_t limit = 1; limit < 40; limit += 6) {
            struct search_setup setup = { .shape = s.shape,
                                          .arms = s.arms,
                                          .arm_count = s.arm_count,
                                          .machine = s.machine,
                                          .repeats = 3,
                                          .limit = limit };
            struct search *search = NULL;
            struct search_result v;
            int arm, n = 0;

            CHECK(!search_open(search_strategies[k], &setup, &search));
            search_visit(search, 2000, NULL);
            for (; (arm = search_next(search)) != SEARCH_DONE; n++)
                search_tell(search, arm, noisy(&s, 2000, arm, 0, n));
            v = search_result(search);
            CHECK(v.samples <= limit && (v.samples < limit || v.reason == SEARCH_LIMIT));
            search_close(search);
        }
}

static void impossible_setups_are_refused(void)
{
    struct moe_plan plan = plan_default();
    struct search_setup setup = { .shape = shared_by(1), .arms = &plan };
    struct search *search = NULL;

    log_only(false);
    CHECK(search_open(search_find("guided"), &setup, &search) == ERR_ARGUMENT && !search);
    setup.arm_count = SEARCH_ARMS_MAX + 1;
    CHECK(search_open(search_find("guided"), &setup, &search) == ERR_ARGUMENT && !search);
    log_only(true);
    CHECK(!search_find("best") && search_find("paper") && search_find("exhaustive"));
    search_close(NULL);
}

/* ---- exhaustive */

static void exhaustive_finds_the_least_median_in_interleaved_rounds(void)
{
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct surface s = surface_with(seed, 8);
        struct search *search = search_on("exhaustive", &s, 5);
        int64_t ns[SEARCH_ARMS_MAX][5];
        double least = INFINITY;
        int told[SEARCH_ARMS_MAX] = { 0 }, best = -1, arm;

        search_visit(search, 900, NULL);
        for (int n = 0; (arm = search_next(search)) != SEARCH_DONE; n++) {
            CHECK(told[arm] == n / (int)s.arm_count);
            ns[arm][told[arm]] = noisy(&s, 900, arm, 0, n);
            search_tell(search, arm, ns[arm][told[arm]++]);
        }
        for (int i = 0; i < (int)s.arm_count; i++) {
            struct spread spread = spread_of(ns[i], 5);

            CHECK(told[i] == 5);
            if ((double)spread.median_ns < least) {
                least = (double)spread.median_ns;
                best = i;
            }
        }
        CHECK(search_result(search).winner == best);
        search_close(search);
    }
}

/* ---- guided */

static void without_noise_guided_agrees_with_exhaustive_within_its_bound(void)
{
    int missed = 0, total = 0;

    for (uint64_t seed = 0; seed < 40; seed++) {
        struct surface s = surface_with(seed, 0);
        struct search *search = search_on("guided", &s, 1);

        for (uint64_t visit = 0; visit < 5; visit++) {
            double c = surface_capacity(&s, visit), best = INFINITY;
            struct search_result v;
            int arm;

            search_visit(search, (uint64_t)c, NULL);
            while ((arm = search_next(search)) != SEARCH_DONE)
                search_tell(search, arm, (int64_t)surface_ns(&s, c, arm));
            v = search_result(search);
            for (int i = 0; i < (int)s.arm_count; i++)
                best = fmin(best, surface_ns(&s, c, i));
            total++;
            missed += surface_ns(&s, c, v.winner) / best - 1 > v.bound + 1e-6;
        }
        search_close(search);
    }
    CHECK(missed * 20 <= total); /* the bound holds with 95 % */
}

static void guided_expects_what_it_measured_and_infers_between(void)
{
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct surface s = surface_with(seed, 8);
        struct search *search = search_on("guided", &s, 1);
        struct search_result v = { .winner = -1 };
        static const uint64_t capacities[2] = { 2000, 3000 };
        bool usable[SEARCH_ARMS_MAX];
        int arm;

        for (int visit = 0; visit < 2; visit++) {
            search_visit(search, capacities[visit], NULL);
            while ((arm = search_next(search)) != SEARCH_DONE)
                search_tell(search, arm, (int64_t)surface_ns(&s, (double)capacities[visit], arm));
        }
        arm = search_result(search).winner;
        CHECK(fabs(search_estimate(search, 3000, arm) / surface_ns(&s, 3000, arm) - 1) < 0.1);
        CHECK(search_infer(search, 2450, NULL, &v) && v.winner >= 0 && v.bound >= 0);
        CHECK(v.reason == SEARCH_INFERRED && v.samples == 0);
        CHECK(fabs(search_estimate(search, 2450, v.winner) / surface_ns(&s, 2450, v.winner) - 1) <
              0.2);
        memset(usable, true, sizeof(usable));
        usable[v.winner] = false;
        arm = v.winner;
        CHECK(search_infer(search, 2450, usable, &v) && v.winner != arm && v.winner >= 0);
        search_close(search);
    }
}

static void strategies_without_a_model_say_so(void)
{
    struct surface s = surface_with(0, 8);
    struct search *search = search_on("paper", &s, 1);
    struct search_result v;

    search_visit(search, 10, NULL);
    CHECK(isnan(search_estimate(search, 10, 0)) && !search_infer(search, 20, NULL, &v));
    search_close(search);
}

static void guided_ends_and_stays_finite_whatever_it_is_told(void)
{
    static const int64_t odd[] = { 0, 1, -5, INT64_MAX, 1000, 1000000000 };
    struct surface s = surface_with(2, 128);
    struct search *search = search_on("guided", &s, 1);

    for (uint64_t visit = 0; visit < 30; visit++) {
        struct search_result v;
        int arm, n = 0;

        search_visit(search, visit % 3 ? visit * visit * 100 : UINT64_MAX >> visit, NULL);
        for (; (arm = search_next(search)) != SEARCH_DONE && n < LONGEST; n++)
            search_tell(search, arm, odd[random_below(visit, (uint64_t)n, 6)]);
        v = search_result(search);
        CHECK(n < LONGEST && v.winner >= 0 && !isnan(v.bound));
    }
    search_close(search);
}

static void memory_does_not_grow_with_visits(void)
{
    static struct history h;

    history_reset(&h, 20);
    for (int visit = 0; visit < 5000; visit++) {
        history_begin(&h, (double)(visit % 700) / 100);
        for (int i = 0; i < 2000 * (visit == 7) + 12; i++)
            history_add(&h, i % 20, 10 + i % 3, (struct normal){ 11, 1 });
        history_end(&h, visit == 3);
        CHECK(h.visit_count <= HISTORY_VISITS_MAX && h.record_count <= HISTORY_RECORDS_MAX);
        CHECK(h.visits[h.visit_count - 1].first + h.visits[h.visit_count - 1].count ==
              h.record_count);
    }
    CHECK(h.visit_count > 100);
}

static void outliers_leave_an_average_where_it_was(void)
{
    static struct history h;

    history_reset(&h, 1);
    history_begin(&h, 0);
    history_add(&h, 0, 10 + log(3), (struct normal){ 10, 0.05 });
    history_add(&h, 0, 10, (struct normal){ 10, 0.05 });
    CHECK(h.now[0].log_ns == 10 && h.now[0].weight == 1);
    history_add(&h, 0, 10.1, (struct normal){ 10, 0.05 });
    CHECK(fabs(h.now[0].log_ns - 10.05) < 1e-12 && h.now[0].weight == 2);
}

/* ---- the contest */

static const struct moe_plan three_plans[3] = { { .r = 2 }, { .r = 1 }, { .r = 0 } };

struct contest_world {
    double times[3]; /* true */
    double sigma;
    bool drifts;
    int fails; /* contestant that fails when sampled, or -1 */
};

static struct contest contest_hold(const struct contest_settings *settings, int count,
                                   int default_index, int incumbent,
                                   const struct contest_world *world)
{
    struct contest c;
    struct noise noise = noise_make(settings->seed, world->sigma, 0.02, world->drifts);
    int i;

    contest_open(&c, settings, three_plans, count, default_index, incumbent);
    while ((i = contest_next(&c)) != CONTEST_DONE) {
        CHECK(contest_next(&c) == i && i != (c.dropped[i] ? i : -1));
        if (i == world->fails)
            contest_drop(&c, i);
        else
            contest_tell(&c, i, noise_sample(&noise, world->times[i]));
    }
    return c;
}

static struct contest_verdict contest_run(const struct contest_settings *settings, int count,
                                          int default_index, int incumbent,
                                          const struct contest_world *world)
{
    struct contest c = contest_hold(settings, count, default_index, incumbent, world);

    return contest_verdict(&c);
}

/* The exact chance is checked below; this is that the world is as the proof assumes. */
static void at_the_margin_about_one_in_a_hundred_is_adopted_at_most(void)
{
    static const uint32_t rounds[] = { 10, 20, 60, 200 };

    for (int k = 0; k < 4; k++) {
        struct contest_world world = {
            .times = { 0.97e7, 1e7 }, .sigma = 0.05, .drifts = k % 2, .fails = -1
        };
        int adopted = 0, runs = k == 3 ? 2000 : 6000;

        for (int i = 0; i < runs; i++) {
            struct contest_settings settings = { .margin = 0.03,
                                                 .rounds_max = rounds[k],
                                                 .seed = (uint64_t)i };

            adopted += contest_run(&settings, 2, 1, -1, &world).adopted == 0;
        }
        CHECK(adopted < 0.01 * runs + 2.5 * sqrt(0.01 * runs));
    }
}

static void what_is_adopted_is_hardly_ever_slower_than_the_default(void)
{
    int adopted = 0, slower = 0, missed = 0, good = 0;

    for (int i = 0; i < 6000; i++) {
        double ratio = exp(0.08 * normal_draw(77, (uint64_t)i));
        struct contest_world world = {
            .times = { 1e7 * ratio, 1e7 }, .sigma = 0.05, .drifts = true, .fails = -1
        };
        struct contest_settings settings = { .margin = 0.03, .seed = (uint64_t)i };
        struct contest_verdict v = contest_run(&settings, 2, 1, -1, &world);

        adopted += v.decision == CONTEST_ADOPTED;
        slower += v.decision == CONTEST_ADOPTED && ratio > 1;
        good += ratio < 0.9;
        missed += v.decision != CONTEST_ADOPTED && ratio < 0.9;
        CHECK((v.adopted == 0) == (v.decision == CONTEST_ADOPTED));
    }
    CHECK(adopted > 1000 && slower * 1000 < adopted && missed * 50 < good);
}

static void gains_lie_in_their_intervals(void)
{
    int inside = 0, inside_time = 0, runs = 3000;

    for (int i = 0; i < runs; i++) {
        double ratio = 0.8 + 0.001 * (i % 300);
        struct contest_world world = { .times = { 1e7 * ratio, 1e7 }, .sigma = 0.05, .fails = -1 };
        struct contest_settings settings = { .margin = 0.03, .seed = (uint64_t)i };
        struct contest_verdict v = contest_run(&settings, 2, 1, -1, &world);
        double truth = 1 - world.times[v.adopted] / 1e7;

        inside += v.gain_low <= truth && truth <= v.gain_high;
        inside_time += v.low_ns <= world.times[v.adopted] && world.times[v.adopted] <= v.high_ns;
        CHECK(v.gain_low <= v.gain && v.gain <= v.gain_high);
        CHECK(v.adopted == 0 ? v.missed_high == 0 : v.missed_high >= 0);
    }
    CHECK(inside >= runs * 0.98 && inside_time >= runs * 0.92);
}

/* As `moetune verify` asks: the plan is in force, and margin 0. */
static void a_plan_in_force_falls_to_a_faster_default_alone(void)
{
    int refuted[3] = { 0 }, inside = 0, runs = 1000;
    static const double ratios[] = { 0.95, 1, 1.1 };

    for (int i = 0; i < 3 * runs; i++) {
        double ratio = ratios[i % 3];
        struct contest_world world = { .times = { 1e7 * ratio, 1e7 }, .sigma = 0.05, .fails = -1 };
        struct contest_settings settings = { .seed = (uint64_t)i };
        struct contest_verdict v = contest_run(&settings, 2, 1, 0, &world);

        refuted[i % 3] += v.decision == CONTEST_DEFAULT;
        inside += v.challenge.low <= 1 - ratio && 1 - ratio <= v.challenge.high;
        CHECK((v.adopted == 1) == (v.decision == CONTEST_DEFAULT));
        CHECK(v.adopted == 1 || (v.challenge.gain == v.gain && v.challenge.low == v.gain_low));
    }
    CHECK(refuted[0] == 0 && refuted[1] * 50 < runs && refuted[2] * 100 > 95 * runs);
    CHECK(inside >= 3 * runs * 0.98);
}

static void clear_cases_end_soon(void)
{
    struct contest_world better = { .times = { 0.7e7, 1e7 }, .sigma = 0.05, .fails = -1 };
    struct contest_world worse = { .times = { 1.3e7, 1e7 }, .sigma = 0.05, .fails = -1 };
    struct contest_settings settings = { .margin = 0.03, .seed = 5 };
    struct contest_verdict v = contest_run(&settings, 2, 1, -1, &better);

    CHECK(v.decision == CONTEST_ADOPTED && v.rounds <= 10 && v.gain > 0.2 && v.gain < 0.4);
    CHECK(v.gain_low > 0.03 && v.default_ns > v.median_ns);
    v = contest_run(&settings, 2, 1, -1, &worse);
    CHECK(v.decision == CONTEST_DEFAULT && v.adopted == 1 && v.rounds <= 10 && v.gain == 0);
}

static void the_default_alone_is_timed_a_few_times(void)
{
    struct contest_world world = { .times = { 1e7 }, .sigma = 0.05, .fails = -1 };
    struct contest_settings settings = { .margin = 0.03, .seed = 5 };
    struct contest_verdict v = contest_run(&settings, 1, 0, -1, &world);

    CHECK(v.decision == CONTEST_DEFAULT && v.adopted == 0 && v.rounds == 5 && v.gain == 0);
    CHECK(v.low_ns <= v.median_ns && v.median_ns <= v.high_ns && v.missed_high == 0);
}

static void ties_go_to_the_incumbent_and_then_to_the_default(void)
{
    struct contest_world world = { .times = { 1e7, 1.03e7, 1e7 }, .sigma = 0.01, .fails = -1 };
    struct contest_settings settings = { .margin = 0.03, .rounds_max = 20, .seed = 5 };
    struct contest_verdict v;

    world.times[0] = world.times[1] * 0.97;
    v = contest_run(&settings, 2, 1, -1, &world);
    CHECK(v.decision == CONTEST_TIE && v.adopted == 1 && v.rounds == 20);
    world.times[0] = world.times[1] = 1e7;
    v = contest_run(&settings, 3, 1, 2, &world);
    CHECK(v.adopted == 2 && v.decision == CONTEST_INCUMBENT);
    world.times[0] = 0.8e7; /* beats both */
    CHECK(contest_run(&settings, 3, 1, 2, &world).adopted == 0);
    world.times[2] = 0.8e7; /* the winner is good, the incumbent as good */
    CHECK(contest_run(&settings, 3, 1, 2, &world).adopted == 2);
    world.times[0] = world.times[2] = 1.2e7; /* the incumbent has become bad */
    v = contest_run(&settings, 3, 1, 2, &world);
    CHECK(v.adopted == 1 && v.decision == CONTEST_DEFAULT);
    v = contest_run(&settings, 2, 1, 0, &world); /* the winner is the incumbent, and bad */
    CHECK(v.adopted == 1 && v.decision == CONTEST_DEFAULT);
}

static void a_contest_goes_on_without_those_that_fail(void)
{
    struct contest_world world = { .times = { 0.8e7, 1e7, 0.9e7 }, .sigma = 0.02 };
    struct contest_settings settings = { .margin = 0.03, .seed = 5 };
    struct contest_verdict v;

    v = contest_run(&settings, 3, 1, 2, &world); /* the winner fails */
    CHECK(v.adopted == 2 || v.adopted == 1);
    world.fails = 1;
    v = contest_run(&settings, 2, 1, -1, &world);
    CHECK(v.adopted == 0 && isnan(v.gain) && v.median_ns > 0);
    world.fails = 0;
    v = contest_run(&settings, 1, -1, -1, &world);
    CHECK(v.adopted == -1);
}

static void a_replayed_contest_goes_on_as_if_it_had_not_been_cut(void)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct contest_world world = { .times = { 0.95e7, 1e7, 0.97e7 },
                                       .sigma = 0.02,
                                       .fails = -1 };
        struct contest_settings settings = { .margin = 0.03, .seed = seed };
        struct contest whole = contest_hold(&settings, 3, 1, 2, &world), again;
        uint16_t part = whole.told[1] / 2;

        contest_open(&again, &settings, three_plans, 3, 1, 2);
        for (int i = 0; i < 3; i++) /* any order that keeps each contestant's own */
            for (int k = 0; k < part; k++)
                contest_tell(&again, i, whole.ns[i][k]);
        for (int i; (i = contest_next(&again)) != CONTEST_DONE;)
            contest_tell(&again, i, whole.ns[i][again.told[i]]);
        CHECK(!memcmp(&whole, &again, sizeof(whole)));
    }
}

/* The chance that fair coin tosses ever reach the planned numbers, by walking all of them. */
static void the_looks_spend_no_more_than_the_chance_of_error(void)
{
    static const double confidences[] = { 0.9, 0.95, 0.99 };

    for (int k = 0; k < 3; k++) {
        struct contest c;
        int reached = 0, rounds = 16;

        contest_open(&c,
                     &(struct contest_settings){ .confidence = confidences[k],
                                                 .rounds_max = (uint32_t)rounds },
                     three_plans, 2, 1, -1);
        for (uint32_t tosses = 0; tosses < 1u << rounds; tosses++) {
            int wins = 0;
            bool stopped = false;

            for (int n = 1; n <= rounds && !stopped; n++) {
                wins += tosses >> (n - 1) & 1;
                stopped = wins >= c.wins_needed[n];
            }
            reached += stopped;
        }
        CHECK((double)reached / (1 << rounds) <= 1 - confidences[k]);
        CHECK((double)reached / (1 << rounds) > (1 - confidences[k]) / 2);
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void paired_statistics_agree_with_brute_force(void)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct contest c;
        struct contest_verdict v;
        double ratio[CONTEST_ROUNDS_MAX], low = NAN, high = NAN;
        uint32_t n = 5 + random_below(seed, 0, 100);

        contest_open(&c, &(struct contest_settings){ .margin = 0.03, .rounds_max = 256 },
                     three_plans, 2, 1, -1);
        for (uint32_t k = 0; k < n; k++) {
            int64_t a = 500 + (int64_t)random_below(seed, 2 * k + 1, 100);
            int64_t b = 1000 + (int64_t)random_below(seed, 2 * k + 2, 100);

            contest_tell(&c, 0, a);
            contest_tell(&c, 1, b);
            ratio[k] = (double)a / (double)b;
        }
        v = contest_verdict(&c);
        qsort(ratio, n, sizeof(*ratio), ascending);
        for (uint32_t k = 0; k < n; k++) { /* a limit is refuted by enough ratios below it */
            if (isnan(high) && k + 1 >= c.wins_needed[n])
                high = ratio[k];
            if (isnan(low) && k + c.wins_needed[n] == n)
                low = ratio[k];
        }
        if (c.wins_needed[n] > n) {
            low = ratio[0];
            high = ratio[n - 1];
        }
        CHECK(v.adopted == 0 || n < 8);
        CHECK(v.adopted != 0 || (v.gain_low == 1 - high && v.gain_high == 1 - low));
        CHECK(v.adopted != 0 || fabs(1 - v.gain - (ratio[(n - 1) / 2] + ratio[n / 2]) / 2) < 1e-15);
    }
}

static void the_bound_is_where_the_chances_add_up(void)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        double mean[6], sd[6], u, sum = 0;

        for (uint64_t i = 0; i < 6; i++) {
            mean[i] = 0.1 * uniform_draw(seed, i);
            sd[i] = 0.001 + 0.1 * uniform_draw(seed, i + 10);
        }
        u = log1p(bound_of(mean, sd, 6, 0.05));
        for (int i = 0; i < 6; i++)
            sum += 0.5 * erfc((u + mean[i]) / sd[i] / sqrt(2));
        CHECK(u == 0 ? sum <= 0.05 : fabs(sum - 0.05) < 1e-4);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_paper_s_search_finds_the_least_within_its_count),
        TEST(the_paper_s_count_is_that_of_its_formula),
        TEST(plateaus_and_failures_do_not_lose_the_least),
        TEST(the_paper_s_search_takes_the_median_of_its_repeats),
        TEST(a_replayed_search_goes_on_as_if_it_had_not_been_cut),
        TEST(samples_may_come_in_another_order_than_asked_for),
        TEST(what_failed_is_never_asked_for_and_never_wins),
        TEST(with_nothing_usable_there_is_no_winner),
        TEST(a_single_plan_wins_at_once),
        TEST(a_cut_visit_still_has_a_winner),
        TEST(a_limit_is_kept),
        TEST(impossible_setups_are_refused),
        TEST(exhaustive_finds_the_least_median_in_interleaved_rounds),
        TEST(without_noise_guided_agrees_with_exhaustive_within_its_bound),
        TEST(guided_expects_what_it_measured_and_infers_between),
        TEST(strategies_without_a_model_say_so),
        TEST(guided_ends_and_stays_finite_whatever_it_is_told),
        TEST(memory_does_not_grow_with_visits),
        TEST(outliers_leave_an_average_where_it_was),
        TEST(at_the_margin_about_one_in_a_hundred_is_adopted_at_most),
        TEST(what_is_adopted_is_hardly_ever_slower_than_the_default),
        TEST(gains_lie_in_their_intervals),
        TEST(a_plan_in_force_falls_to_a_faster_default_alone),
        TEST(clear_cases_end_soon),
        TEST(the_default_alone_is_timed_a_few_times),
        TEST(ties_go_to_the_incumbent_and_then_to_the_default),
        TEST(a_contest_goes_on_without_those_that_fail),
        TEST(a_replayed_contest_goes_on_as_if_it_had_not_been_cut),
        TEST(the_looks_spend_no_more_than_the_chance_of_error),
        TEST(paired_statistics_agree_with_brute_force),
        TEST(the_bound_is_where_the_chances_add_up),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
