/* The gate chooses what a load says, on every rank and for every type; counts have the skew asked
 * for; files that say no load are refused with the line. */
#include "check.h"

#include "data.h"
#include "random.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char said[400];

static void hear(void *self, const char *line)
{
    (void)self;
    snprintf(said, sizeof(said), "%s", line);
}

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

        if (load_chooses(data->load, (uint32_t)rank, token, e)) {
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
        right &= count[e] == load_count(data->load, e);
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
    uint64_t fresh = (uint64_t)getpid();

    printf("  seed %llu\n", (unsigned long long)fresh);
    for (uint64_t i = 0; i < 96; i++)
        one_skew(fresh * 1000 + i, 1 + i % 4, 1 + i / 4 % 4);
}

static void the_largest_skew_gives_one_expert_every_token(void)
{
    for (uint32_t seed = 0; seed < 200; seed++) {
        struct moe_shape shape = layer_of(3 + seed % 30, 1 + seed % 3, 1 + seed, 1);
        struct load *load = NULL;
        uint64_t most = 0, sum = 0;

        CHECK(!load_open_skew(&shape, seed, (double)shape.experts / shape.top_k, &load));
        for (uint32_t e = 0; e < shape.experts; e++) {
            most = load_count(load, e) > most ? load_count(load, e) : most;
            sum += load_count(load, e);
        }
        CHECK(most == shape.tokens && sum == (uint64_t)shape.tokens * shape.top_k);
        load_close(load);
    }
}

static void a_skew_that_cannot_be_is_refused(void)
{
    struct moe_shape shape = layer_of(8, 2, 64, 2);
    struct load *load = NULL;

    CHECK(load_open_skew(&shape, 1, 4.01, &load) == ERR_ARGUMENT && strstr(said, "1 to E/k = 4"));
    CHECK(load_open_skew(&shape, 1, 0.99, &load) == ERR_ARGUMENT);
    CHECK(load_open_skew(&shape, 1, NAN, &load) == ERR_ARGUMENT);
    shape.model_dim = 7;
    CHECK(load_open_skew(&shape, 1, 2, &load) == ERR_ARGUMENT && strstr(said, "D >= E"));
    CHECK(load == NULL);
}

/* ---- files */

static int read_text(const struct moe_shape *shape, const char *text, struct load **out)
{
    char path[] = "/tmp/moetune-routing-XXXXXX";
    int file = mkstemp(path), rc;

    CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    said[0] = 0;
    rc = load_open_routing(shape, 1, path, out);
    unlink(path);
    return rc;
}

static void a_file_gives_the_step_with_the_median_skew(void)
{
    struct moe_shape shape = layer_of(4, 2, 50, 1);
    struct load *load = NULL;

    CHECK(!read_text(&shape,
                     "{\"step\": 1, \"counts\": [5, 5, 5, 5]}\n\n"
                     "{\"counts\": [10, 0, 10, 0], \"more\": {\"counts\": [1]}}\r\n"
                     "{\"counts\": [8, 4, 6, 2]}",
                     &load));
    if (!load)
        return;
    CHECK(load_count(load, 0) == 40 && load_count(load, 1) == 20);
    CHECK(load_count(load, 2) == 30 && load_count(load, 3) == 10);
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
    };
    struct moe_shape shape = layer_of(4, 2, 50, 1);
    struct load *load = NULL;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK(read_text(&shape, bad[i].text, &load) == ERR_FORMAT);
        CHECK(strstr(said, bad[i].says) != NULL);
    }
    CHECK(load_open_routing(&shape, 1, "/nowhere/at/all", &load) != OK);
    CHECK(load == NULL);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_gate_chooses_what_a_skew_says),
        TEST(the_largest_skew_gives_one_expert_every_token),
        TEST(a_skew_that_cannot_be_is_refused),
        TEST(a_file_gives_the_step_with_the_median_skew),
        TEST(a_bad_line_is_named),
    };

    log_to(hear, NULL);
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
