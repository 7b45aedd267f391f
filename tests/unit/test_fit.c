/* Tests the fits of `moetune probe`: they find known constants again, and leave undetermined ones
 * unknown.  Also tests which ranks exchange with each other to get the times. */
#include "check.h"

#include "fits.h"
#include "probe.h"
#include "random.h"
#include "stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static uint64_t seed, drawn;

/* Uniform in (0, 1). */
static double uniform(void)
{
    return ((double)(random_bits(seed, drawn++) >> 11) + 0.5) * 0x1p-53;
}

static double normal(void)
{
    double radius = sqrt(-2 * log(uniform()));

    return radius * cos(2 * M_PI * uniform());
}

/* Between two numbers, evenly in the logarithm. */
static double between(double least, double most)
{
    return least * pow(most / least, uniform());
}

static bool near(double value, double truth, double share)
{
    return fabs(value - truth) <= share * fabs(truth);
}

static const double sizes[] = { 8, 512, 4096, 16384, 65536, 262144, 1048576, 4194304 };
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), SAMPLES = 2 * SIZES };

/* What a probe measures: every size, once with few messages and once with many. */
static size_t exchange(const struct link_fit *truth, int few, double noise,
                       struct link_sample *samples)
{
    size_t n = 0;

    for (int i = 0; i < SIZES; i++)
        for (int copies = 1; copies <= 4; copies += 3) {
            struct link_sample s = { few * copies, sizes[i], 0 };

            s.ns = link_ns(truth, s.messages, s.bytes) * exp(noise * normal());
            samples[n++] = s;
        }
    return n;
}

/* What wire_sim.c would be given; its half is large enough to be seen at the sizes above. */
static struct link_fit some_link(void)
{
    return (struct link_fit){ .latency_us = between(5, 100),
                              .message_us = between(1, 20),
                              .bandwidth_gbs = between(0.1, 50),
                              .half_kib = between(1, 64) };
}

/* Where the port's cost of a message is above that of issuing it, only the larger one shows. */
static double least_message_us(const struct link_fit *fit)
{
    return fmax(fit->message_us, fit->half_kib * 1024 / fit->bandwidth_gbs * 1e-3);
}

static double worst_error(const struct link_fit *fit, const struct link_fit *truth)
{
    double worst = 0;

    for (int messages = 1; messages <= 16; messages *= 2)
        for (double bytes = 8; bytes < 1e7; bytes *= 3)
            worst = fmax(worst,
                         fabs(link_ns(fit, messages, bytes) / link_ns(truth, messages, bytes) - 1));
    return worst;
}

static void a_link_without_noise_comes_out_as_it_went_in(void)
{
    for (int i = 0; i < 200; i++) {
        struct link_fit truth = some_link(), fit;
        struct link_sample samples[SAMPLES];

        fit = link_fit(samples, exchange(&truth, 1 + i % 4, 0, samples));
        CHECK(worst_error(&fit, &truth) < 1e-3);
        CHECK(near(fit.latency_us, truth.latency_us, 1e-3));
        CHECK(near(fit.bandwidth_gbs, truth.bandwidth_gbs, 1e-3));
        CHECK(near(least_message_us(&fit), least_message_us(&truth), 1e-2));
        CHECK(fit.error < 1e-3);
    }
}

static void a_link_comes_out_of_noise(void)
{
    double worst[200], latency[200], bandwidth[200];

    for (int i = 0; i < 200; i++) {
        struct link_fit truth = some_link(), fit;
        struct link_sample samples[SAMPLES];

        fit = link_fit(samples, exchange(&truth, 1 + i % 4, 0.02, samples));
        worst[i] = worst_error(&fit, &truth);
        latency[i] = fabs(fit.latency_us / truth.latency_us - 1);
        bandwidth[i] = fabs(fit.bandwidth_gbs / truth.bandwidth_gbs - 1);
        CHECK(worst[i] < 0.5 && bandwidth[i] < 0.25);
    }
    CHECK(median_of(worst, 200) < 0.05);
    CHECK(median_of(latency, 200) < 0.05);
    CHECK(median_of(bandwidth, 200) < 0.03);
}

static void a_few_samples_that_are_far_off_do_not_matter(void)
{
    for (int i = 0; i < 100; i++) {
        struct link_fit truth = some_link(), fit;
        struct link_sample samples[SAMPLES];
        size_t n = exchange(&truth, 3, 0.01, samples);

        samples[random_below(seed, (uint64_t)i, (uint32_t)n)].ns *= 5;
        fit = link_fit(samples, n);
        CHECK(near(fit.bandwidth_gbs, truth.bandwidth_gbs, 0.3));
    }
}

/* As a rate-limited link does: 128 KiB pass at ten times the rate that can be kept up. */
static void a_burst_does_not_pass_for_the_bandwidth(void)
{
    for (int i = 0; i < 100; i++) {
        struct link_fit truth = { between(5, 50), between(1, 20), between(0.01, 1), 0, 0 }, fit;
        struct link_sample samples[SAMPLES];
        size_t n = exchange(&truth, 1 + i % 3, 0.02, samples);

        for (size_t j = 0; j < n; j++)
            if (samples[j].messages * samples[j].bytes <= 131072)
                samples[j].ns =
                    truth.latency_us * 1e3 + (samples[j].ns - truth.latency_us * 1e3) / 10;
        fit = link_fit(samples, n);
        CHECK(near(fit.bandwidth_gbs, truth.bandwidth_gbs, 0.2));
    }
}

static bool all_unknown(struct link_fit fit)
{
    return isnan(fit.latency_us) && isnan(fit.message_us) && isnan(fit.bandwidth_gbs) &&
           isnan(fit.half_kib);
}

static void what_samples_do_not_tell_is_unknown(void)
{
    struct link_fit truth = { 10, 2, 5, 16, 0 };
    struct link_sample samples[SAMPLES], few[SAMPLES] = { { 0, 0, 0 } };
    size_t n = exchange(&truth, 3, 0, samples), single = 0;

    CHECK(all_unknown(link_fit(NULL, 0)));
    CHECK(all_unknown(link_fit(samples, 1)));
    CHECK(all_unknown(link_fit(samples, 3)));
    CHECK(all_unknown(link_fit(few, SAMPLES)));
    for (size_t i = 0; i < n; i++)
        if (samples[i].messages == 3)
            few[single++] = samples[i];
    CHECK(all_unknown(link_fit(few, single))); /* latency and messages cannot be told apart */
    for (size_t i = 0; i < n; i++)
        few[i] = (struct link_sample){ 1 + (int)(i % 5), 4096, 10000 + 1000 * (double)(i % 5) };
    CHECK(all_unknown(link_fit(few, n))); /* one size */
    for (size_t i = 0; i < n; i++) {
        few[i] = samples[i];
        few[i].ns = i % 3 ? NAN : (i % 2 ? 0 : -5);
    }
    CHECK(all_unknown(link_fit(few, n)));
    for (size_t i = 0; i < n; i++)
        few[i].ns = 1000; /* size does not matter: there is no bandwidth */
    CHECK(all_unknown(link_fit(few, n)));
}

static void samples_that_are_no_times_are_left_out(void)
{
    struct link_fit truth = { 10, 4, 5, 16, 0 }, fit;
    struct link_sample samples[SAMPLES];
    size_t n = exchange(&truth, 3, 0, samples);

    samples[0].ns = -100;
    samples[5].ns = NAN;
    samples[9].ns = INFINITY;
    samples[11].messages = 0;
    fit = link_fit(samples, n);
    CHECK(near(fit.bandwidth_gbs, 5, 1e-3) && near(fit.latency_us, 10, 1e-3));
    CHECK(near(fit.message_us, 4, 1e-3) && near(fit.half_kib, 16, 1e-2));
}

static void rates_of_products_come_out_of_noise(void)
{
    static const double rows[] = { 1, 4, 16, 64, 256, 512 };
    struct product_sample samples[6];

    for (int i = 0; i < 200; i++) {
        struct product_fit truth = { between(1, 1e5), between(2, 200) }, fit;

        for (int j = 0; j < 6; j++) {
            samples[j] = (struct product_sample){ rows[j], 2 * rows[j] * 512 * 512, 0, 0 };
            samples[j].ns = product_fit_ns(&truth, &samples[j]) * exp(0.01 * normal());
        }
        fit = product_fit(samples, 6);
        CHECK(near(fit.gflops, truth.gflops, 0.06) && near(fit.half_rows, truth.half_rows, 0.2));
        samples[0].floor_ns = samples[0].ns *= 30; /* waits for its bytes: says nothing */
        fit = product_fit(samples, 6);
        CHECK(near(fit.gflops, truth.gflops, 0.08));
        CHECK(isnan(product_fit(samples, 1).gflops) && isnan(product_fit(samples + 5, 1).gflops));
        samples[1] = samples[2] = samples[3];
        CHECK(isnan(product_fit(samples, 4).half_rows)); /* one size only */
    }
    CHECK(isnan(product_fit(NULL, 0).gflops));
}

/* sim.c's rule, for communication that is queued first. */
static double both_ns(double comm, double compute, double slower)
{
    double slow_end = compute * (1 + slower);

    return slow_end <= comm ? comm : compute + comm * slower / (1 + slower);
}

static void the_slow_down_of_an_overlap_comes_out(void)
{
    for (int i = 0; i < 200; i++) {
        double comm = between(1e3, 1e7), compute = comm * between(1, 3), slower = between(0.01, 20);

        CHECK(near(overlap_fit(comm, compute, both_ns(comm, compute, slower)), slower, 1e-6));
    }
    CHECK(overlap_fit(1000, 2000, 2000) == 0 && overlap_fit(1000, 2000, 1900) == 0);
    CHECK(overlap_fit(1000, 2000, 3000) == OVERLAP_MOST);
    CHECK(overlap_fit(1000, 2000, 9000) == OVERLAP_MOST);
    CHECK(isnan(overlap_fit(0, 2000, 2000)) && isnan(overlap_fit(1000, NAN, 2000)));
    CHECK(isnan(overlap_fit(1000, 2000, -1)));
}

enum { ROUNDS = 400, STEPS = 4 };

static void draw_steps(double noise, double outliers, double drift, int64_t *ns)
{
    double slow = 0;

    for (int i = 0; i < ROUNDS * STEPS; i++) {
        if (i % STEPS == 0)
            slow = normal();
        ns[i] = 1 + (int64_t)(1e7 * exp(noise * normal() + drift * slow) *
                              (uniform() < outliers ? 3 : 1));
    }
}

static void noise_outliers_and_drift_are_told_apart(void)
{
    static int64_t ns[ROUNDS * STEPS];
    struct noise_fit fit;

    draw_steps(0.05, 0, 0, ns);
    fit = noise_fit(ns, ROUNDS, STEPS);
    CHECK(near(fit.noise, 5, 0.2) && fit.outliers == 0 && fit.drift < 2.5);
    draw_steps(0.03, 0.05, 0, ns);
    fit = noise_fit(ns, ROUNDS, STEPS);
    CHECK(near(fit.noise, 3, 0.35) && near(fit.outliers, 5, 0.6) && fit.drift < 1.5);
    draw_steps(0.02, 0, 0.1, ns);
    fit = noise_fit(ns, ROUNDS, STEPS);
    CHECK(near(fit.noise, 2, 0.2) && near(fit.drift, 10, 0.3));
    draw_steps(0, 0, 0, ns);
    fit = noise_fit(ns, ROUNDS, STEPS);
    CHECK(fit.noise == 0 && fit.outliers == 0 && fit.drift == 0);
    draw_steps(3, 0, 3, ns);
    fit = noise_fit(ns, ROUNDS, STEPS);
    CHECK(fit.noise == NOISE_MOST && fit.drift == NOISE_MOST);
    CHECK(isnan(noise_fit(ns, 2, STEPS).noise) && isnan(noise_fit(ns, ROUNDS, 1).noise));
    ns[7] = 0;
    CHECK(isnan(noise_fit(ns, ROUNDS, STEPS).drift));
}

static void constants_are_never_negative(void)
{
    struct equation rows[8];
    double x[UNKNOWNS_MAX] = { 7, 7, 7, 7 };

    for (int i = 0; i < 8; i++) /* falls: a line would have a negative slope */
        rows[i] = (struct equation){ { 1 / (10.0 - i), i / (10.0 - i), 0, 0 }, 1 };
    CHECK(least_deviations(rows, 8, 2, x));
    CHECK(x[0] > 0 && x[1] == 0);
    CHECK(!least_deviations(rows, 8, 3, x) && x[2] == 7); /* nothing says what the third is */
    CHECK(!least_deviations(rows, 0, 1, x));
}

/* Whoever is my partner has me for his, and lies where the link wants him. */
static void check_partners(const int *node, int ranks, enum link_level level)
{
    int partners[PARTNERS_MAX], back[PARTNERS_MAX];

    for (int q = 0; q < ranks; q++) {
        int n = partners_find(node, ranks, q, level, partners);

        for (int i = 0; i < n; i++) {
            int m = partners_find(node, ranks, partners[i], level, back), mine = 0, twice = 0;

            for (int j = 0; j < m; j++)
                mine += back[j] == q;
            for (int j = 0; j < n; j++)
                twice += partners[j] == partners[i];
            CHECK(mine == 1 && twice == 1 && partners[i] != q);
            CHECK((node[partners[i]] == node[q]) == (level == LINK_INSIDE));
        }
    }
}

static void partners_are_mutual_however_ranks_lie(void)
{
    int node[64], partners[PARTNERS_MAX];

    for (uint64_t i = 0; i < 60; i++) {
        int ranks = 1 + (int)random_below(seed, 3 * i, 40);
        uint32_t nodes = 1 + random_below(seed, 3 * i + 1, 6);

        for (int q = 0; q < ranks; q++)
            node[q] = (int)random_below(seed ^ i, 1000 + (uint64_t)q, nodes);
        check_partners(node, ranks, LINK_INSIDE);
        check_partners(node, ranks, LINK_BETWEEN);
    }
    for (int q = 0; q < 64; q++)
        node[q] = q / 4;
    CHECK(partners_find(node, 64, 5, LINK_INSIDE, partners) == 3);
    CHECK(partners[0] == 6 && partners[1] == 7 && partners[2] == 4);
    CHECK(partners_find(node, 64, 5, LINK_BETWEEN, partners) == PARTNERS_MAX);
    CHECK(partners[0] == 9 && partners[1] == 1 && partners[2] == 13);
    CHECK(partners_find(node, 4, 2, LINK_BETWEEN, partners) == 0);
    CHECK(partners_find(node, 1, 0, LINK_INSIDE, partners) == 0);
}

static void medians_are_what_lies_in_the_middle(void)
{
    double values[] = { 5, 1, 3, 2 };

    CHECK(isnan(median_of(values, 0)));
    CHECK(median_of(values, 1) == 5);
    CHECK(median_of(values, 3) == 3);
    CHECK(median_of(values, 4) == 2.5);
}

/* A rank at a share of its time, beside others who take some of every product but each fifth. */
static void pace_and_quotas_are_seen_where_others_disturb(void)
{
    enum { COUNT = 100 };
    struct own_sample samples[COUNT];

    for (int i = 0; i < COUNT; i++) {
        int64_t ran = 1000000 + 1000 * (i % 7), others = i % 5 ? 300000 * (i % 11) : 0;

        samples[i] = (struct own_sample){ ran * 3 / 2 + others, ran };
    }
    CHECK(near(own_product_ns(samples, COUNT, 1), 1.5e6, 0.01));
    CHECK(near(own_product_ns(samples, COUNT, 0.35), 1e6 / 0.35, 0.01));
    CHECK(isnan(own_product_ns(samples, 0, 1)));
}

static void a_quota_is_what_most_of_its_periods_leave(void)
{
    struct quota_pause pauses[9];
    int64_t at = 123, ran = 45;

    for (size_t i = 0; i < 9; i++) { /* in two periods others took more than the quota did */
        at += i % 4 == 3 ? 10000 : 5000;
        ran += i % 4 == 3 ? 2000 : 1750;
        pauses[i] = (struct quota_pause){ at, ran };
    }
    CHECK(near(quota_share_of(pauses, 9), 0.35, 1e-9));
    CHECK(quota_share_of(pauses, 1) == 1 && quota_share_of(pauses, 0) == 1);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_link_without_noise_comes_out_as_it_went_in),
        TEST(a_link_comes_out_of_noise),
        TEST(a_few_samples_that_are_far_off_do_not_matter),
        TEST(a_burst_does_not_pass_for_the_bandwidth),
        TEST(what_samples_do_not_tell_is_unknown),
        TEST(samples_that_are_no_times_are_left_out),
        TEST(rates_of_products_come_out_of_noise),
        TEST(the_slow_down_of_an_overlap_comes_out),
        TEST(noise_outliers_and_drift_are_told_apart),
        TEST(constants_are_never_negative),
        TEST(partners_are_mutual_however_ranks_lie),
        TEST(pace_and_quotas_are_seen_where_others_disturb),
        TEST(a_quota_is_what_most_of_its_periods_leave),
        TEST(medians_are_what_lies_in_the_middle),
    };

    seed = test_seed();
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
