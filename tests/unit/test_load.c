/* Tests the load of experts: the gate chooses what a load says, on every rank and for every dtype;
 * counts have the requested skew; a file that is no load is refused with its line. */
#include "check.h"
#include "heard.h"

#include "costs.h"
#include "crew.h"
#include "data.h"
#include "random.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct moe_shape layer_of(uint32_t experts, uint32_t top_k, uint32_t tokens, uint32_t ranks)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = experts,
                               .top_k = top_k,
                               .tokens = tokens,
                               .model_dim = experts + 8,
                               .hidden_dim = 8,
                               .ranks = ranks,
                               .ranks_per_node = ranks };
}

static double logit(const struct data *data, int rank, uint64_t token, uint64_t expert)
{
    double sum = 0;

    for (uint64_t c = 0; c < data->shape.model_dim; c++)
        sum += (double)data_token(data, rank, token, c) * (double)data_gate(data, expert, c);
    return sum;
}

/* The gate of one token: `chosen` experts have a larger logit than all others. */
static bool token_is_routed(const struct data *data, int rank, uint64_t token, uint64_t *count)
{
    double least = INFINITY, most = -INFINITY;
    uint32_t chosen = 0;

    for (uint32_t e = 0; e < data->shape.experts; e++) {
        double value = logit(data, rank, token, e);

        if (load_chooses(data->load, data->replayed, (uint32_t)rank, token, e)) {
            least = fmin(least, value);
            chosen++;
            count[e]++;
        } else {
            most = fmax(most, value);
        }
    }
    return chosen == data->shape.top_k && least > most + 1;
}

static bool rank_is_routed(const struct data *data, int rank)
{
    uint64_t count[64] = { 0 };
    bool right = true;

    for (uint64_t t = 0; t < data->shape.tokens; t++)
        right &= token_is_routed(data, rank, t, count);
    for (uint32_t e = 0; e < data->shape.experts; e++)
        right &= count[e] == load_count(data->load, data->replayed, (uint32_t)rank, e);
    return right;
}

static double drawn(uint64_t seed, uint64_t index, double least, double most)
{
    return least + (most - least) * ((double)random_unit(seed, index) + 1) / 2;
}

static void one_skew(uint64_t seed, uint32_t top_k, uint32_t ranks)
{
    uint32_t experts = top_k + random_below(seed, 0, 24), tokens = 1 + random_below(seed, 1, 90);
    struct data data = { .shape = layer_of(experts, top_k, tokens, ranks), .seed = seed };
    double skew = drawn(seed, 2, 1, (double)experts / top_k), mean;
    struct load *load = NULL;

    data.shape.dtype = random_below(seed, 3, 3);
    CHECK(!load_open_skew(&data.shape, seed, skew, &load));
    data.load = load;
    mean = (double)top_k * tokens / experts;
    CHECK(fabs(load_skew(load) - skew) * mean <= 1);
    for (uint32_t q = 0; q < ranks; q++)
        CHECK(rank_is_routed(&data, (int)q));
    load_close(load);
}

static void the_gate_chooses_what_a_skew_says(void)
{
    uint64_t first = 1000 * test_seed();

    for (uint64_t i = 0; i < 96; i++)
        one_skew(first + i, 1 + i % 4, 1 + i / 4 % 4);
}

static void the_largest_skew_gives_one_expert_every_token(void)
{
    for (uint32_t seed = 0; seed < 200; seed++) {
        struct moe_shape shape = layer_of(3 + seed % 30, 1 + seed % 3, 1 + seed, 1);
        struct load *load = NULL;
        uint64_t most = 0, sum = 0;

        CHECK(!load_open_skew(&shape, seed, (double)shape.experts / shape.top_k, &load));
        for (uint32_t e = 0; e < shape.experts; e++) {
            most = load_count(load, 0, 0, e) > most ? load_count(load, 0, 0, e) : most;
            sum += load_count(load, 0, 0, e);
        }
        CHECK(most == shape.tokens && sum == (uint64_t)shape.tokens * shape.top_k);
        load_close(load);
    }
}

static void a_skew_that_cannot_be_is_refused(void)
{
    struct moe_shape shape = layer_of(8, 2, 64, 2);
    struct load *load = NULL;

    CHECK(load_open_skew(&shape, 1, 4.01, &load) == ERR_ARGUMENT && strstr(last, "1 to E/k = 4"));
    CHECK(load_open_skew(&shape, 1, 0.99, &load) == ERR_ARGUMENT);
    CHECK(load_open_skew(&shape, 1, NAN, &load) == ERR_ARGUMENT);
    shape.model_dim = 7;
    CHECK(load_open_skew(&shape, 1, 2, &load) == ERR_ARGUMENT && strstr(last, "D >= E"));
    CHECK(load == NULL);
}

/* ---- files */

static int read_text(const struct moe_shape *shape, const char *text, struct load **out)
{
    char path[] = "/tmp/moetune-routing-XXXXXX";
    int file = mkstemp(path), rc;

    CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    last[0] = 0;
    rc = load_open_routing(shape, 16, 1, &(struct option_list){ .items = { path }, .count = 1 },
                           out);
    unlink(path);
    return rc;
}

/* Where there are columns for one step only. */
static void a_file_gives_the_step_with_the_median_skew(void)
{
    struct moe_shape shape = layer_of(4, 2, 50, 1);
    struct load *load = NULL;

    shape.model_dim = 7;
    CHECK(!read_text(&shape,
                     "{\"step\": 1, \"counts\": [5, 5, 5, 5]}\n\n"
                     "{\"counts\": [10, 0, 10, 0], \"more\": {\"counts\": [1]}}\r\n"
                     "{\"counts\": [8, 4, 6, 2]}",
                     &load));
    if (!load)
        return;
    CHECK(load_count(load, 0, 0, 0) == 40 && load_count(load, 0, 0, 1) == 20);
    CHECK(load_count(load, 0, 0, 2) == 30 && load_count(load, 0, 0, 3) == 10);
    load_close(load);
}

static void a_bad_line_is_named(void)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "", "no step" },
        { "{\"counts\": [1, 1, 1, 1]}\n{\"counts\": [1, 1, 1", ":2 is no JSON" },
        { "[1, 1, 1, 1]", ":1 has no \"counts\"" },
        { "\n{\"counts\": [1, 1, 1]}", ":2 has not one count" },
        { "{\"counts\": [1, 1, 1, 1, 1]}", ":1 has not one count" },
        { "{\"counts\": [1, -1, 1, 1]}", "no number from 0 on" },
        { "{\"counts\": [1, \"1\", 1, 1]}", "no number from 0 on" },
        { "{\"counts\": [0, 0, 0, 0]}", "counts nothing" },
        { "{\"counts\": [5, 1, 1, 1]}", "chose it twice" },
        { "{\"ranks\": 1, \"tokens\": 50, \"counts\": [25, 25, 25, 24]}",
          ":1 counts 99 choices; W T k = 1 x 50 x 2 = 100" },
        { "{\"ranks\": 1, \"tokens\": 49, \"counts\": [25, 25, 25, 23]}",
          ":1 was recorded with T=49, but the layer has T=50" },
        { "{\"ranks\": 0, \"counts\": [1, 1, 1, 1]}", ":1 has \"ranks\", \"tokens\"" },
        { "{\"capacity\": 1.5, \"counts\": [1, 1, 1, 1]}", ":1 has \"ranks\", \"tokens\"" },
        { "{\"largest\": [1, 1, 1, 1]}", ":1 has no \"counts\"" },
    };
    const struct option_list nowhere = { .items = { "/nowhere/at/all" }, .count = 1 };
    struct moe_shape shape = layer_of(4, 2, 50, 1);
    struct load *load = NULL;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK(read_text(&shape, bad[i].text, &load) == ERR_FORMAT);
        CHECK(strstr(last, bad[i].says) != NULL);
    }
    CHECK(load_open_routing(&shape, 16, 1, &nowhere, &load) != OK);
    CHECK(load == NULL);
}

static void check_text(const struct moe_shape *shape, const struct load *load, const char *name,
                       size_t name_bytes)
{
    char text[LOAD_TEXT_BYTES], again[LOAD_TEXT_BYTES], its[LOAD_NAME_BYTES];
    struct load *copy = NULL;

    CHECK(!load_text(load, text) && !load_open_text(shape, 1, text, &copy) && copy);
    if (!copy)
        return;
    for (uint32_t e = 0; e < shape->experts; e++)
        CHECK(load_count(copy, 0, 0, e) == load_count(load, 0, 0, e));
    CHECK(!load_text(copy, again) && !strcmp(again, text));
    load_name(copy, its);
    CHECK(!strncmp(its, name, name_bytes));
    load_close(copy);
}

static void a_load_is_made_again_from_its_text(void)
{
    struct moe_shape shape = layer_of(4, 2, 50, 1);
    char one[LOAD_NAME_BYTES], other[LOAD_NAME_BYTES], text[LOAD_TEXT_BYTES] = "?";
    struct load *load = NULL;

    CHECK(!load_open_skew(&shape, 1, 1.5, &load));
    check_text(&shape, load, "skew 1.5", LOAD_NAME_BYTES);
    load_close(load);
    CHECK(!read_text(&shape, "{\"counts\": [8, 4, 6, 2]}", &load));
    check_text(&shape, load, "max/mean 1.6 ", 13);
    load_name(load, one);
    load_close(load);
    CHECK(!read_text(&shape, "{\"counts\": [8, 6, 4, 2]}", &load));
    load_name(load, other);
    CHECK(strcmp(one, other) != 0); /* as skewed, and another recording */
    load_close(load);
    CHECK(!load_text(NULL, text) && !*text);
    CHECK(!load_open_text(&shape, 1, "", &load) && !load);
}

static void what_ranks_are_given_and_what_is_between_stand_in_one_text(void)
{
    static const char *const texts[] = { "speeds 1x100 1x50", "between 0.6", "skew 1.5; between 2",
                                         "counts 40 30 20 10; between 0.25",
                                         "speeds 1x100 1x50; between 0.125" };
    struct moe_shape shape = layer_of(4, 2, 50, 2);
    char text[LOAD_TEXT_BYTES], name[LOAD_NAME_BYTES];
    struct load *load = NULL;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        CHECK(!load_open_text(&shape, 1, texts[i], &load) && !load_text(load, text));
        CHECK(!strcmp(text, texts[i]));
        CHECK((load_speeds(load) != NULL) == !strncmp(text, "speeds", 6));
        CHECK((load_counts(load) != NULL) == (i == 2 || i == 3));
        CHECK((load_between(load) > 0) == (i > 0));
        load_name(load, name);
        CHECK(i == 3 ? !strncmp(name, "max/mean 1.6 ", 13) && strstr(name, "; between 0.25") != NULL
                     : !strcmp(name, text));
        load_close(load);
    }
    shape.ranks = 8;
    CHECK(!load_open_text(&shape, 1, "speeds 1x100 1x50 1x90 1x40 1x80 1x30 1x70 1x20", &load));
    load_name(load, name);
    CHECK(!strncmp(name, "speeds 1x100 1x50 1x... ", 20) && strlen(name) < LOAD_NAME_BYTES);
    load_close(load);
}

static void what_is_no_text_of_a_load_is_refused(void)
{
    static const char *const bad[] = { "skew",
                                       "skew 2.1",
                                       "skew 0",
                                       "skew nan",
                                       "counts",
                                       "counts 1 1 1",
                                       "counts 1 1 1 x",
                                       "counts 1 1 1 1 1",
                                       "counts 0 0 0 0",
                                       "counts 9 1 1 1",
                                       "counts 1 -1 1 1",
                                       "replay 8: 9 25 25 25 25,",
                                       "replay 8: 9 25 25 25 24, 10 25 25 25 25",
                                       "replay 8: 9 25 25 25 25, 8 25 25 25 25",
                                       "replay 8: 9 51 25 24 0, 10 25 25 25 25",
                                       "replay 0: 9 25 25 25 25, 10 25 25 25 25",
                                       "max/mean 2 12345678",
                                       "speeds 2x100",
                                       "speeds",
                                       "between 0",
                                       "between x",
                                       "skew 1.5 between 1",
                                       "; between 1",
                                       "skew 1.5;between 1" };
    struct moe_shape shape = layer_of(4, 2, 50, 1);
    struct load *load = NULL;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(load_open_text(&shape, 1, bad[i], &load) < 0 && !load);
}

/* 32768 characters hold some 8000 experts' counts of three digits. */
static void counts_that_are_too_long_for_a_text_are_refused(void)
{
    struct moe_shape shape = layer_of(9000, 1, 9000 * 200, 1);
    char text[LOAD_TEXT_BYTES] = "?", *counts = calloc(9000, 8);
    struct load *load = NULL;

    for (int i = 0; counts && i < 9000; i++)
        strcat(counts, " 1");
    CHECK(counts && !load_open_text(&shape, 1, "skew 1", &load));
    load_close(load);
    load = NULL;
    if (counts)
        memmove(counts + 6, counts, strlen(counts) + 1), memcpy(counts, "counts", 6);
    CHECK(counts && !load_open_text(&shape, 1, counts, &load) && load);
    CHECK(load_text(load, text) == ERR_ARGUMENT && !strcmp(text, "?"));
    load_close(load);
    free(counts);
}

/* ---- what it costs */

static const char four_gpus[] = "tests/data/clusters/workstation-4x4090.txt";
static const struct moe_plan padded = { sizeof(padded), .r = 1, .d = 1 };
static const struct moe_plan sparse = { sizeof(sparse), .d = 1, .e = MOE_SPARSE };
static const struct moe_plan counted = { sizeof(counted), .r = 1, .d = 1, .e = MOE_SPARSE };

static struct moe_shape skewed_layer(void)
{
    struct moe_shape shape = layer_of(16, 2, 2048, 4);

    shape.model_dim = 512;
    shape.hidden_dim = 1024;
    shape.pass = MOE_TRAIN;
    return shape;
}

static double predicted(const struct load *load, double capacity, const struct moe_plan *plan)
{
    struct moe_shape shape = skewed_layer();
    struct search_machine machine = { 0 };
    struct costs costs = costs_of(&shape, &machine);

    costs.kept = load ? load_kept : NULL;
    costs.load = load;
    return costs_log_ns(&costs, costs.prior, capacity, plan);
}

/* Of so many neighbours the most that they keep, counted out. */
static uint64_t kept_by_hand(const struct load *load, uint64_t capacity, uint32_t group)
{
    uint64_t most = 0;

    for (uint32_t first = 0; first < 16; first += group) {
        uint64_t sum = 0;

        for (uint32_t e = first; e < first + group; e++)
            sum += load_kept_of(load, capacity, 0, e);
        most = sum > most ? sum : most;
    }
    return most;
}

/* The mean is 256, the hottest expert has 1024. */
static void a_search_expects_the_rows_that_are_kept(void)
{
    struct moe_shape shape = skewed_layer();
    struct load *load = NULL;

    CHECK(!load_open_skew(&shape, 1, 4, &load));
    CHECK(load_kept(load, 0, 16) == 0 && load_kept(load, 1024, 16) == 4096);
    CHECK(load_kept(load, 256, 16) < 4096 && load_kept(load, 256, 16) > 1024);
    for (uint32_t group = 1; group <= 16; group *= 2)
        for (uint64_t capacity = 1; capacity <= 1024; capacity = capacity * 5 / 2 + 1)
            CHECK(load_kept(load, capacity, group) == kept_by_hand(load, capacity, group));
    CHECK(load_most(load) == 1024 && load_kept(load, 1024, 4) < 4 * 1024);
    /* Without padding rows are those of the fullest rank, and of no more than the capacity. */
    CHECK(predicted(load, 1024, &counted) < predicted(load, 1024, &padded));
    CHECK(predicted(load, 1024, &counted) > predicted(NULL, 1024, &counted));
    CHECK(predicted(load, 64, &counted) > predicted(load, 64, &padded));
    CHECK(predicted(load, 256, &sparse) < predicted(NULL, 256, &sparse));
    CHECK(predicted(load, 1024, &sparse) == predicted(NULL, 1024, &sparse));
    CHECK(predicted(load, 256, &padded) == predicted(NULL, 256, &padded));
    CHECK(predicted(load, 1024, &sparse) < predicted(load, 1024, &padded));
    load_close(load);
}

/* Without noise; 0 where it failed. */
static int64_t modelled_ns(const char *load, uint64_t capacity, const struct moe_plan *plan)
{
    struct order order = {
        .kind = ORDER_LAYER, .shape = skewed_layer(), .seed = 1, .memory_limit_bytes = INT64_MAX
    };
    struct reply reply = { .state = TRIAL_FAILED };
    struct cluster cluster;
    struct crew *crew = NULL;

    CHECK(!cluster_read(four_gpus, &cluster));
    cluster_remove_noise(&cluster);
    snprintf(order.load, sizeof(order.load), "%s", load);
    CHECK(!crew_open(&(struct crew_setup){ .model = &cluster, .seed = 1 }, &crew));
    CHECK(!crew_do(crew, &order, &reply) && reply.state == TRIAL_OK);
    order.kind = ORDER_STEP;
    order.capacity = capacity;
    order.plan = *plan;
    CHECK(!crew_do(crew, &order, &reply) && reply.state == TRIAL_OK);
    crew_close(crew);
    return reply.state == TRIAL_OK ? reply.ns : 0;
}

static void a_modelled_device_computes_the_rows_that_are_kept(void)
{
    static const char skew[] = "skew 4";

    CHECK(modelled_ns(skew, 256, &sparse) < modelled_ns("", 256, &sparse));
    CHECK(modelled_ns(skew, 1024, &sparse) == modelled_ns("", 1024, &sparse));
    CHECK(modelled_ns(skew, 256, &padded) == modelled_ns("", 256, &padded));
    /* From here on nothing is dropped: padded goes on to grow, sparse does not. */
    CHECK(modelled_ns(skew, 1024, &sparse) < modelled_ns(skew, 1024, &padded));
    CHECK(modelled_ns(skew, 2048, &sparse) == modelled_ns(skew, 1024, &sparse));
    CHECK(modelled_ns(skew, 2048, &padded) > modelled_ns(skew, 1024, &padded));
    CHECK(modelled_ns(skew, 256, &sparse) > modelled_ns(skew, 256, &padded));
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_gate_chooses_what_a_skew_says),
        TEST(the_largest_skew_gives_one_expert_every_token),
        TEST(a_skew_that_cannot_be_is_refused),
        TEST(a_file_gives_the_step_with_the_median_skew),
        TEST(a_bad_line_is_named),
        TEST(a_load_is_made_again_from_its_text),
        TEST(what_ranks_are_given_and_what_is_between_stand_in_one_text),
        TEST(what_is_no_text_of_a_load_is_refused),
        TEST(counts_that_are_too_long_for_a_text_are_refused),
        TEST(a_search_expects_the_rows_that_are_kept),
        TEST(a_modelled_device_computes_the_rows_that_are_kept),
    };

    log_to(listen, NULL);
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
