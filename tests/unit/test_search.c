/* Tests searches: what must hold for every strategy, and for the exhaustive and the guided one. */
#include "searches.h"

#include "costs.h"
#include "plan.h"
#include "random.h"
#include "stats.h"
#include "surface.h"

#include <math.h>
#include <string.h>

static struct search *search_on(const char *strategy, const struct surface *s, uint32_t repeats)
{
    return search_for(strategy, &s->shape, s->arms, s->arm_count, repeats);
}

static struct surface surface_with(uint64_t seed, uint32_t slices)
{
    return surface_make(seed, &(struct surface_options){ .slices = slices });
}

static void a_foreign_machine_has_a_time_for_each_plan_and_room_for_the_default(void)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct surface s = surface_make(seed, &(struct surface_options){ .foreign = true });

        for (double c = 8; c < 65536; c *= 1.4)
            for (int i = 0; i < (int)s.arm_count; i++) {
                double ns = surface_ns(&s, floor(c), i);

                CHECK(isfinite(ns) && ns > 0);
                CHECK(!plan_is_default(&s.arms[i], NULL) || surface_fits(&s, floor(c), i));
            }
    }
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

        search_begin(search, capacities[v], NULL, false);
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

        search_begin(search, 1000, NULL, false);
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
                search_begin(search, 300u << visit, usable, false);
                while ((arm = search_next(search)) != SEARCH_DONE && n < LONGEST) {
                    CHECK(arm >= 0 && (size_t)arm < s.arm_count && usable[arm]);
                    n++;
                    if (random_below(seed + 100, (uint64_t)n, 4) == 0 &&
                        (size_t)arm != s.arm_count / 2) {
                        usable[arm] = false;
                        search_drop(search, arm, true);
                    } else {
                        search_tell(search, arm, noisy(&s, 300u << visit, arm, 0, n));
                    }
                    CHECK(usable[search_result(search).winner]);
                }
                arm = search_result(search).winner;
                CHECK(usable[arm]);
                if ((size_t)arm == s.arm_count / 2)
                    continue;
                search_drop(search, arm, true); /* it may fail after the search was done */
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
        search_begin(search, 100, none, false);
        CHECK(search_next(search) == SEARCH_DONE && search_result(search).winner == -1);
        search_begin(search, 100, NULL, false);
        for (size_t i = 0; i < s.arm_count; i++)
            search_drop(search, (int)i, true);
        CHECK(search_next(search) == SEARCH_DONE && search_result(search).winner == -1);
        search_close(search);
    }
}

static void a_single_plan_wins_at_once(void)
{
    struct moe_shape shape = shared_by(1);
    struct moe_plan only = plan_default(NULL);

    for (size_t k = 0; search_strategies[k]; k++) {
        struct search *search = search_for(search_strategies[k]->name, &shape, &only, 1, 1);
        struct search_result v;
        int n = 0;

        search_begin(search, 0, NULL, false);
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

            search_begin(search, 2000, NULL, false);
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
            struct search_setup setup = surface_setup(&s, 0);
            struct search *search = NULL;
            struct search_result v;
            int arm, n = 0;

            setup.repeats = 3;
            setup.limit = limit;
            CHECK(!search_open(search_strategies[k], &setup, &search));
            search_begin(search, 2000, NULL, false);
            for (; (arm = search_next(search)) != SEARCH_DONE; n++)
                search_tell(search, arm, noisy(&s, 2000, arm, 0, n));
            v = search_result(search);
            CHECK(v.samples <= limit && (v.samples < limit || v.reason == SEARCH_LIMIT));
            search_close(search);
        }
}

static void impossible_setups_are_refused(void)
{
    struct moe_plan plan = plan_default(NULL);
    struct search_setup setup = { .shape = shared_by(1), .arms = &plan };
    struct search *search = NULL;

    log_enable(false);
    CHECK(search_open(search_find("guided"), &setup, &search) == ERR_ARGUMENT && !search);
    setup.arm_count = SEARCH_ARMS_MAX + 1;
    CHECK(search_open(search_find("guided"), &setup, &search) == ERR_ARGUMENT && !search);
    log_enable(true);
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

        search_begin(search, 900, NULL, false);
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

            search_begin(search, (uint64_t)c, NULL, false);
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

/* Whether the winner's loss is below its bound, in a bucket that is tuned with this noise. */
static bool bound_holds(const struct surface *s, struct search *search, struct noise *noise,
                        uint64_t capacity)
{
    struct search_result found;
    double best = INFINITY;
    int arm;

    search_begin(search, capacity, NULL, false);
    while ((arm = search_next(search)) != SEARCH_DONE)
        search_tell(search, arm, noise_sample(noise, surface_ns(s, (double)capacity, arm)));
    found = search_result(search);
    for (int i = 0; i < (int)s->arm_count; i++)
        best = fmin(best, surface_ns(s, (double)capacity, i));
    return surface_ns(s, (double)capacity, found.winner) / best - 1 <=
           search_bound(search, found.winner);
}

/* Noise of 20 % is taken for one of 5 % at first. */
static void the_first_bounds_hold_though_nobody_knows_the_noise_yet(void)
{
    int held = 0, buckets = 0;

    for (uint64_t seed = 1; seed <= 120; seed++) {
        struct surface s = surface_with(seed, 8);
        struct noise noise = noise_make(seed, 0.20, 0.01, true);
        struct search *search = search_on("guided", &s, 1);

        for (uint64_t i = 0; i < 2; i++, buckets++)
            held += bound_holds(&s, search, &noise, (uint64_t)surface_capacity(&s, i));
        search_close(search);
    }
    CHECK(held >= 0.84 * buckets);
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
            search_begin(search, capacities[visit], NULL, false);
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

    search_begin(search, 10, NULL, false);
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

        search_begin(search, visit % 3 ? visit * visit * 100 : UINT64_MAX >> visit, NULL, false);
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
        CHECK(h.past_count <= HISTORY_BUCKETS_MAX && h.record_count <= HISTORY_RECORDS_MAX);
        CHECK(h.past[h.past_count - 1].first + h.past[h.past_count - 1].count == h.record_count);
    }
    CHECK(h.past_count > 100);
}

static void outliers_leave_an_average_where_it_was(void)
{
    static struct history h;

    history_reset(&h, 1);
    history_begin(&h, 0);
    history_add(&h, 0, 10 + log(3), (struct normal){ 10, 0.05 });
    history_add(&h, 0, 10, (struct normal){ 10, 0.05 });
    CHECK(h.present[0].log_ns == 10 && h.present[0].weight == 1);
    history_add(&h, 0, 10.1, (struct normal){ 10, 0.05 });
    CHECK(fabs(h.present[0].log_ns - 10.05) < 1e-12 && h.present[0].weight == 2);
}

/* Where noise is known to be 20 %, a sample may be half as slow again; x3 is still an outlier. */
static void much_noise_is_not_taken_for_outliers(void)
{
    static struct history h;

    history_reset(&h, 1);
    history_begin(&h, 0);
    h.squares = 100 * 0.2 * 0.2; /* of earlier buckets */
    h.freedom = 100;
    for (int i = 0; i < 9; i++)
        history_add(&h, 0, i % 2 ? 10.5 : 10, (struct normal){ 10, 0.2 });
    CHECK(fabs(h.present[0].log_ns - 92 / 9.0) < 1e-12 && h.present[0].weight == 9);
    history_add(&h, 0, 10 + log(3), (struct normal){ 10, 0.2 });
    CHECK(fabs(h.present[0].log_ns - 92 / 9.0) < 1e-12 && h.present[0].weight == 9);
}

/* Before anything is measured; as the golden decisions on this machine turn out. */
static void the_prior_moves_tokens_where_they_are_few(void)
{
    struct search_machine machine = { .message_s = 8e-6,
                                      .bytes_per_s_between = 1e10,
                                      .bytes_per_s_inside = 1e10,
                                      .copy_bytes_per_s = 9e11,
                                      .flops = 1.4e14,
                                      .launch_s = 5e-6 };
    struct moe_plan tokens = { .struct_size = sizeof(tokens), .r = 4, .d = 1, .e = MOE_SPARSE };
    struct moe_plan weights = tokens;

    weights.r = 0;
    for (uint32_t t = 256; t <= 16384; t *= 4) {
        struct moe_shape shape = { .experts = 8,
                                   .top_k = 2,
                                   .tokens = t,
                                   .model_dim = 1024,
                                   .hidden_dim = 4096,
                                   .dtype = MOE_BF16,
                                   .pass = MOE_TRAIN,
                                   .ranks = 4,
                                   .ranks_per_node = 4,
                                   .layout = MOE_LAYOUT_HIDDEN };
        struct costs c = costs_of(&shape, &machine);
        double moved = costs_log_ns(&c, c.prior, t, &tokens);

        CHECK((moved < costs_log_ns(&c, c.prior, t, &weights)) == (t <= 4096));
        tokens.d = 4;
        CHECK(t < 4096 || costs_log_ns(&c, c.prior, t, &tokens) < moved);
        tokens.d = 1;
    }
}

/* A GPU multiplies f32 at a small part of the rate of bf16. */
static void a_rate_of_another_type_is_not_known(void)
{
    struct cluster c = cluster_unknown();
    struct search_machine machine;
    struct moe_shape shape = { .experts = 8,
                               .top_k = 2,
                               .tokens = 512,
                               .model_dim = 64,
                               .hidden_dim = 64,
                               .dtype = MOE_BF16,
                               .ranks = 4,
                               .ranks_per_node = 4 };
    struct costs of_any, same, other;

    c.gemm_gflops = 7e5;
    machine = known_machine(&c, &(struct search_machine){ 0 });
    of_any = costs_of(&shape, &machine);
    snprintf(c.gemm_dtype, sizeof(c.gemm_dtype), "bf16");
    machine = known_machine(&c, &(struct search_machine){ 0 });
    same = costs_of(&shape, &machine);
    shape.dtype = MOE_F32;
    other = costs_of(&shape, &machine);
    CHECK(of_any.prior[COST_FLOP] == log(1 / 7e14) && of_any.prior_sd[COST_FLOP] == 1);
    CHECK(same.prior[COST_FLOP] == of_any.prior[COST_FLOP] && same.prior_sd[COST_FLOP] == 1);
    CHECK(other.prior[COST_FLOP] > same.prior[COST_FLOP] && other.prior_sd[COST_FLOP] > 1);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_foreign_machine_has_a_time_for_each_plan_and_room_for_the_default),
        TEST(the_prior_moves_tokens_where_they_are_few),
        TEST(a_rate_of_another_type_is_not_known),
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
        TEST(the_first_bounds_hold_though_nobody_knows_the_noise_yet),
        TEST(guided_expects_what_it_measured_and_infers_between),
        TEST(strategies_without_a_model_say_so),
        TEST(guided_ends_and_stays_finite_whatever_it_is_told),
        TEST(memory_does_not_grow_with_visits),
        TEST(outliers_leave_an_average_where_it_was),
        TEST(much_noise_is_not_taken_for_outliers),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
