/* Tests how a step's work is divided: tokens and hidden units add up, and are divided as evenly as
 * possible or by speed. */
#include "check.h"

#include "parts.h"

static struct moe_shape layer(uint32_t layout, uint32_t experts, uint32_t hidden)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = experts,
                               .top_k = 1,
                               .model_dim = 8,
                               .hidden_dim = hidden,
                               .ranks = 4,
                               .ranks_per_node = 4,
                               .tokens = 100,
                               .layout = layout };
}

static uint64_t sum(const uint32_t *of_ranks)
{
    return parts_sum(of_ranks, 4, 0, 1);
}

static void equal_shares_differ_by_one_unit_at_most(void)
{
    for (uint32_t hidden = 4; hidden < 40; hidden++) {
        struct moe_shape shape = layer(MOE_LAYOUT_HIDDEN, 3, hidden);
        struct parts p;
        uint32_t next = 0;

        CHECK(!parts_open(&shape, (const double[]){ 1, 2, 3, 4 }, &p));
        for (uint32_t q = 0; q < 4; q++) {
            CHECK(p.tokens[q] == 100);
            CHECK(p.first_unit[q] == next);
            CHECK(p.hidden[q] == hidden / 4 || p.hidden[q] == hidden / 4 + 1);
            next += p.hidden[q];
        }
        CHECK(next == hidden && parts_hidden_equal(&p) == (hidden % 4 == 0));
        parts_close(&p);
    }
}

static void faster_ranks_have_more(void)
{
    struct moe_shape shape = layer(MOE_LAYOUT_HIDDEN, 3, 50);
    struct parts p;

    shape.shares = MOE_SHARES_SPEED;
    CHECK(!parts_open(&shape, (const double[]){ 1, 2, 3, 4 }, &p));
    CHECK(sum(p.tokens) == 400 && sum(p.hidden) == 50);
    CHECK(p.tokens[0] == 40 && p.tokens[3] == 160);
    CHECK(p.hidden[0] == 5 && p.hidden[3] == 20 && p.first_unit[3] == 30);
    parts_close(&p);
    CHECK(!parts_open(&shape, NULL, &p)); /* speeds that nobody said */
    CHECK(p.tokens[0] == 100 && p.hidden[0] == 13 && p.hidden[3] == 12);
    parts_close(&p);
    CHECK(parts_open(&shape, (const double[]){ 1, 0, 3, 4 }, &p));
}

static void tokens_or_hidden_units_alone_follow_the_speeds(void)
{
    static const double speeds[] = { 1, 2, 3, 4 };
    struct moe_shape shape = layer(MOE_LAYOUT_HIDDEN, 3, 50);
    struct parts p;

    shape.shares = MOE_SHARES_TOKENS;
    CHECK(!parts_open(&shape, speeds, &p));
    CHECK(p.tokens[0] == 40 && p.tokens[3] == 160 && p.hidden[0] == 13 && p.hidden[3] == 12);
    parts_close(&p);
    shape.shares = MOE_SHARES_HIDDEN;
    CHECK(!parts_open(&shape, speeds, &p));
    CHECK(p.tokens[0] == 100 && p.tokens[3] == 100 && p.hidden[0] == 5 && p.hidden[3] == 20);
    parts_close(&p);
}

static void experts_keep_their_slices_whatever_the_speeds(void)
{
    struct moe_shape shape = layer(MOE_LAYOUT_EXPERTS, 2, 50);
    struct parts p;

    shape.shares = MOE_SHARES_SPEED;
    CHECK(!parts_open(&shape, (const double[]){ 1, 2, 3, 4 }, &p));
    CHECK(p.tokens[0] == 40 && p.hidden[0] == 25);
    CHECK(p.first_unit[0] == 0 && p.first_unit[1] == 25 && p.first_unit[2] == 0);
    parts_close(&p);
}

static void pieces_of_all_ranks_are_all_there_is(void)
{
    static const uint32_t of_ranks[] = { 7, 0, 1, 30 };
    uint64_t all = 0;

    for (uint32_t i = 0; i < 8; i++)
        all += parts_sum(of_ranks, 4, i, 8);
    CHECK(all == 38);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(equal_shares_differ_by_one_unit_at_most),
        TEST(faster_ranks_have_more),
        TEST(tokens_or_hidden_units_alone_follow_the_speeds),
        TEST(experts_keep_their_slices_whatever_the_speeds),
        TEST(pieces_of_all_ranks_are_all_there_is),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
