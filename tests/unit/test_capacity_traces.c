/* Tests the controller of capacities on drifts and bursts, against one capacity for all experts and
 * against the rule of DynaMoE's authors; MOETUNE_TEST_VERBOSE=1 prints the figures. */
#include "capacity_traces.h"
#include "check.h"
#include "counts_replay.h"
#include "folder.h"
#include "status.h"

#include <string.h>

static struct counts_sum replay(const char *name, const struct counts_trace *t, enum counts_way way,
                                uint32_t slack)
{
    struct moe_capacities_options o = MOE_CAPACITIES_OPTIONS_INIT;
    struct counts_sum s = { 0 };

    o.slack = slack;
    CHECK(!counts_replay(t, &o, way, NULL, NULL, NULL, &s));
    if (getenv("MOETUNE_TEST_VERBOSE"))
        printf("    %s, %s: %.4f %% dropped, factor %.3f (fullest rank %.3f, balanced %.3f), %.2f "
               "re-plans per 1000\n",
               name, counts_words[way], 100 * s.dropped_share, s.factor, s.fullest_factor,
               s.balanced_factor, 1000. * (double)s.replans / (double)s.steps);
    return s;
}

static double per_thousand(const struct counts_sum *s)
{
    return 1000. * (double)s->replans / (double)s->steps;
}

/* 1,024 choices, and epochs of 200 steps: on them the authors' rule drops .033 %, at factor 1.27
 * and .26 re-plans in 1,000 steps. */
static void figure_8_is_followed_with_few_replans(void)
{
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct counts_trace t = trace_figure_8(seed, 200, 1024);
        struct counts_sum followed = replay("Figure 8", &t, COUNTS_FOLLOWED, 50);
        struct counts_sum fixed = replay("Figure 8", &t, COUNTS_STATIC, 50);
        struct counts_sum ema = replay("Figure 8", &t, COUNTS_EMA, 50);

        CHECK(followed.dropped_share <= .002e-2 && followed.factor <= 1.40);
        CHECK(per_thousand(&followed) <= .3 && followed.replans > 5);
        CHECK(fixed.dropped_share <= .002e-2 && fixed.factor > 2.49 && !fixed.replans);
        CHECK(ema.dropped_share > 10 * followed.dropped_share && ema.replans > followed.replans);
        /* Four ranks: placing experts by size is worth more than all else. */
        CHECK(followed.fullest_factor > followed.balanced_factor * 1.3);
        counts_free(&t);
    }
}

static void sixty_four_experts_that_drift_are_followed(void)
{
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct counts_trace t = trace_drift_64(seed, 20000, 8192, .7, 12000);
        struct counts_sum followed = replay("64 experts", &t, COUNTS_FOLLOWED, 0);
        struct counts_sum ema = replay("64 experts", &t, COUNTS_EMA, 0);

        CHECK(followed.dropped_share <= .04e-2 && followed.factor <= 1.35);
        CHECK(per_thousand(&followed) <= 12);
        CHECK(ema.dropped_share > followed.dropped_share && ema.replans > 2 * followed.replans);
        counts_free(&t);
    }
}

static void bursts_cost_little(void)
{
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct counts_trace t = trace_bursts(seed, 20000, 4096, 3, 500, 60);
        struct counts_sum followed = replay("bursts", &t, COUNTS_FOLLOWED, 0);
        struct counts_sum ema = replay("bursts", &t, COUNTS_EMA, 0);

        CHECK(followed.dropped_share <= .05e-2);
        CHECK(ema.dropped_share > 2 * followed.dropped_share);
        counts_free(&t);
    }
}

/* ---- files */

static struct counts_trace read_text(const char *text, uint32_t ranks, int *rc)
{
    struct counts_trace t = { 0 };
    const char *path = place("counts.jsonl");
    FILE *file = fopen(path, "w");

    fputs(text, file);
    fclose(file);
    *rc = counts_read(path, ranks, &t);
    return t;
}

static void files_are_read_step_by_step(void)
{
    int rc;
    struct counts_trace t = read_text("{\"step\": 1, \"counts\": [9, 3, 0, 4]}\n\n"
                                      "{\"counts\": [1, 1, 1, 1], \"largest\": [1, 0, 1, 1]}\n",
                                      2, &rc);

    CHECK(!rc && t.experts == 4 && t.ranks == 2 && t.steps == 2 && t.choices == 5);
    CHECK(t.counts[0] == 5 && t.counts[1] == 2 && t.counts[2] == 0 && t.counts[3] == 2);
    CHECK(t.counts[4] == 1 && t.counts[5] == 0);
    counts_free(&t);
}

static void files_that_are_wrong_are_refused_with_their_line(void)
{
    static const char *const wrong[] = {
        "",
        "no JSON\n",
        "{\"counts\": 7}\n",
        "{\"counts\": [1, 2]}\n{\"counts\": [1, 2, 3]}\n",
        "{\"counts\": [1, -2]}\n",
        "{\"counts\": [1, 4294967295]}\n",
        "{\"counts\": [0, 0]}\n",
        "{\"counts\": [1, \"2\"]}\n",
        "{\"counts\": [1, 2, 3]}\n", /* on two ranks */
        "{\"counts\": [2, 2], \"largest\": [1]}\n",
    };
    bool was = log_enable(false);

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int rc;
        struct counts_trace t = read_text(wrong[i], 2, &rc);

        CHECK(rc == ERR_FORMAT || rc == ERR_ARGUMENT);
        CHECK(!t.counts);
    }
    log_enable(was);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(figure_8_is_followed_with_few_replans),
        TEST(sixty_four_experts_that_drift_are_followed),
        TEST(bursts_cost_little),
        TEST(files_are_read_step_by_step),
        TEST(files_that_are_wrong_are_refused_with_their_line),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), NULL);
}
