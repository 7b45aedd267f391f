/* Tests descriptions of layers: as text, which ones are illegal, and how many rows their experts
 * get. */
#include "check.h"
#include "heard.h"
#include "small_layer.h"

#include "node_rows.h"
#include "status.h"

#include <math.h>
#include <string.h>

static struct moe_shape routed(uint32_t groups, uint32_t limit, uint32_t router, uint32_t top_k)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = 16,
                               .top_k = top_k,
                               .model_dim = 10,
                               .hidden_dim = 48,
                               .ranks = 8,
                               .ranks_per_node = 4,
                               .groups = groups,
                               .group_limit = limit,
                               .router = router };
}

static struct moe_shape projected(uint32_t router, uint32_t projection)
{
    struct moe_shape p = routed(0, 0, router, 1);

    p.projection = projection;
    return p;
}

static struct moe_shape ordered(uint32_t order, uint32_t combine, uint32_t layers)
{
    struct moe_shape p = routed(0, 0, 0, 1);

    p.order = order;
    p.combine = combine;
    p.layers = layers;
    return p;
}

/* What says nothing is not written: a text from before these words means what it meant. */
static void order_projection_and_combine_are_written_where_they_say_something(void)
{
    struct moe_shape p = ordered(MOE_ORDER_PRIORITY, MOE_COMBINE_CHOICES, 0), again;
    char text[SHAPE_TEXT_BYTES];

    p.router = MOE_ROUTER_COSINE;
    shape_complete(&p);
    CHECK(p.projection == 10 && shape_check(&p) == OK); /* as many as D */
    shape_format(&p, text, sizeof(text));
    CHECK(strstr(text, " m=4 router=cosine order=priority P=10 combine=choices"));
    again = (struct moe_shape){ .struct_size = sizeof(again) };
    CHECK(shape_parse(text, &again) == OK && shape_equal(&p, &again));
    CHECK(shape_gate_rows(&p) == 10 && shape_gate_columns(&p) == 16 && shape_result_rows(&p) == 1);
    p.model_dim = 4096;
    p.projection = 0;
    p.top_k = 3;
    shape_complete(&p);
    CHECK(p.projection == 256 && shape_result_rows(&p) == 3);
    p = ordered(MOE_ORDER_TOKEN, MOE_COMBINE_SUM, 0);
    shape_complete(&p);
    shape_format(&p, text, sizeof(text));
    CHECK(!strstr(text, "order") && !strstr(text, "P=") && !strstr(text, "combine"));
}

static void racks_are_written_where_there_are_any(void)
{
    struct moe_shape p = routed(0, 0, 0, 1), again = { .struct_size = sizeof(again) };
    char text[SHAPE_TEXT_BYTES];

    p.ranks_per_node = 2;
    shape_format(&p, text, sizeof(text));
    CHECK(!strstr(text, "rack"));
    p.ranks_per_rack = 4;
    shape_format(&p, text, sizeof(text));
    CHECK(strstr(text, " m=2 rack=4"));
    CHECK(shape_parse(text, &again) == OK && shape_equal(&p, &again));
    again.ranks_per_rack = 0;
    CHECK(!shape_equal(&p, &again));
}

static void a_router_is_written_where_it_says_something(void)
{
    struct moe_shape p = routed(8, 4, MOE_ROUTER_SOFTMAX, 1), again;
    char text[SHAPE_TEXT_BYTES];

    shape_format(&p, text, sizeof(text));
    CHECK(strstr(text, " m=4 G=8 L=4") && !strstr(text, "router"));
    p.router = MOE_ROUTER_SIGMOID;
    shape_format(&p, text, sizeof(text));
    CHECK(strstr(text, " m=4 G=8 L=4 router=sigmoid"));
    again = (struct moe_shape){ .struct_size = sizeof(again) };
    CHECK(shape_parse(text, &again) == OK && shape_equal(&p, &again));
    again.router = MOE_ROUTER_SOFTMAX;
    CHECK(!shape_equal(&p, &again));
}

static void groups_and_routers_that_cannot_be_are_refused_with_a_sentence(void)
{
    const struct {
        struct moe_shape shape;
        int status;
        const char *says;
    } bad[] = {
        { routed(3, 1, 0, 1), ERR_ARGUMENT, "3 groups of 16 experts: groups must divide" },
        { routed(4, 5, 0, 1), ERR_ARGUMENT, "a limit of 5 groups: there are only 4" },
        { routed(4, 0, 0, 1), ERR_ARGUMENT, "4 groups without a limit" },
        { routed(0, 2, 0, 1), ERR_ARGUMENT, "a limit of 2 groups, but no groups" },
        { routed(8, 2, 0, 5), ERR_ARGUMENT, "top-k is 5: 2 groups of 2 experts have only 4" },
        { routed(0, 0, 4, 1), ERR_ARGUMENT, "unknown router 4" },
        { routed(0, 0, MOE_ROUTER_COSINE, 1), ERR_ARGUMENT, "P is 0: router=cosine projects" },
        { projected(0, 7), ERR_ARGUMENT, "P is 7 with router=softmax" },
        { projected(MOE_ROUTER_COSINE, 1 << 20), ERR_ARGUMENT, "P is 1048576: router=cosine" },
        { ordered(2, 0, 0), ERR_ARGUMENT, "unknown order 2 or combine 0" },
        { ordered(0, 2, 0), ERR_ARGUMENT, "unknown order 0 or combine 2" },
        { ordered(0, 1, 2), ERR_ARGUMENT, "combine=choices with layers=2" },
        { routed(4, 1, MOE_ROUTER_BILEVEL, 1), ERR_ARGUMENT, "G=4: a group is a node" },
        { routed(0, 0, MOE_ROUTER_BILEVEL, 1), ERR_ARGUMENT, "G=0: a group is a node" },
        { routed(2, 2, MOE_ROUTER_BILEVEL, 1), ERR_ARGUMENT, "both must be 1" },
        { routed(2, 1, MOE_ROUTER_BILEVEL, 2), ERR_ARGUMENT, "both must be 1" },
    };
    struct moe_shape s = routed(2, 1, MOE_ROUTER_BILEVEL, 1);

    CHECK(shape_check(&s) == OK && shape_gate_columns(&s) == 10);
    log_to(listen, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK(shape_check(&bad[i].shape) == bad[i].status);
        CHECK(strstr(last, bad[i].says));
    }
    s.ranks_per_node = 8; /* it is these ranks that lack a node */
    CHECK(shape_check(&s) == UNSUPPORTED && strstr(last, "several nodes"));
    s.ranks_per_node = 0;
    CHECK(shape_check(&s) == UNSUPPORTED);
    log_to(NULL, NULL);
    s = routed(8, 4, MOE_ROUTER_SIGMOID, 8);
    CHECK(shape_check(&s) == OK && shape_gate_columns(&s) == 16 && !shape_groups_straddle(&s));
    s = routed(1, 1, MOE_ROUTER_SOFTMAX, 8);
    CHECK(shape_check(&s) == OK && shape_groups_straddle(&s));
    s.layout = MOE_LAYOUT_HIDDEN; /* no expert lies anywhere alone */
    CHECK(!shape_groups_straddle(&s));
}

/* Words that came later are written only where they say something. */
static void the_text_of_a_layer_has_new_words_only_where_they_are_needed(void)
{
    struct moe_shape p = shape(2, 8, 4), again = { .struct_size = sizeof(again) };
    char text[SHAPE_TEXT_BYTES];

    shape_format(&p, text, sizeof(text));
    CHECK(!strstr(text, "layout") && !strstr(text, "shares") && !strstr(text, "layers"));
    p.layout = MOE_LAYOUT_HIDDEN;
    p.shares = MOE_SHARES_SPEED;
    p.layers = 4;
    shape_format(&p, text, sizeof(text));
    CHECK(strstr(text, " m=4 layout=hidden shares=speed layers=4"));
    CHECK(shape_parse(text, &again) == OK && shape_equal(&p, &again));
    again.layers = 3;
    CHECK(!shape_equal(&p, &again));
    for (p.shares = MOE_SHARES_TOKENS; p.shares <= MOE_SHARES_HIDDEN; p.shares++) {
        shape_format(&p, text, sizeof(text));
        CHECK(strstr(text, p.shares == MOE_SHARES_TOKENS ? " shares=tokens " : " shares=hidden "));
        CHECK(shape_parse(text, &again) == OK && shape_equal(&p, &again));
        CHECK(!shape_fault(&p, text, sizeof(text)));
        p.layout = MOE_LAYOUT_EXPERTS; /* tokens are all that there is: shares=speed */
        CHECK(shape_fault(&p, text, sizeof(text)) == ERR_ARGUMENT &&
              strstr(text, "needs layout=hidden"));
        p.layout = MOE_LAYOUT_HIDDEN;
    }
    CHECK(shape_fault(&p, text, sizeof(text)) == ERR_ARGUMENT); /* a word that there is not */
}

static void impossible_shapes_are_refused_with_the_value(void)
{
    struct {
        struct moe_shape shape;
        const char *says;
    } bad[] = {
        { shape(0, 4, 4), "experts is 0" },
        { shape(3, 4, 4), "3 experts on 4 ranks" },
        { shape(6, 4, 4), "6 experts on 4 ranks" },
        { shape(4, 0, 0), "ranks is 0" },
        { shape(4, 4, 4), "top-k is 5" },
        { shape(2, 8, 8), "hidden dimension 50" },
        { shape(4, 4, 4), "model dimension is 0" },
        { shape(4, 4, 4), "hidden dimension is 4294967295" },
    };

    bad[4].shape.top_k = 5;
    bad[5].shape.hidden_dim = 50;
    bad[6].shape.model_dim = 0;
    bad[7].shape.hidden_dim = UINT32_MAX;
    log_to(listen, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK(shape_check(&bad[i].shape) == ERR_ARGUMENT);
        CHECK(strstr(last, bad[i].says));
    }
    log_to(NULL, NULL);
}

static void capacity_follows_the_rule(void)
{
    CHECK(moe_capacity(1.0, 2, 8, 1000, 0) == 250);  /* 2 * trunc(1 * 125) */
    CHECK(moe_capacity(1.0, 2, 8, 1001, 0) == 252);  /* ceil before the product */
    CHECK(moe_capacity(1.25, 2, 8, 1001, 0) == 314); /* 2 * trunc(157.5) */
    CHECK(moe_capacity(0.1, 3, 8, 8, 0) == 0);
    CHECK(moe_capacity(1.0, 2, 8, 0, 0) == 0);
    CHECK(moe_capacity(0, 2, 8, 1000, 77) == 77);
    CHECK(moe_capacity(-1.0, 2, 8, 1000, 77) == 77);
    CHECK(moe_capacity(-1.0, 2, 8, 1000, 777) == 250);
    /* 1.1 * 10 is 11.000000000000002 in IEEE double, 2.3 * 10 is 23, 0.7 * 10 is 7.000..., 0.29 *
     * 100 is 28.999...: truncation is of the product as computed. */
    CHECK(moe_capacity(0.29, 1, 1, 100, 0) == 28);
}

/* The largest of 128, 64 .. 1 with which factor 1 lies in the eighth bucket or later, by trying. */
static uint32_t widest(uint64_t rows)
{
    for (uint32_t window = 128; window > 1; window /= 2)
        if (rows / window >= 8)
            return window;
    return 1;
}

static void the_width_of_buckets_follows_the_capacity_at_factor_1(void)
{
    CHECK(moe_window(2, 16, 65536) == 128); /* c = 8192 */
    CHECK(moe_window(2, 8, 4096) == 128);   /* c = 1024 = 8 * 128 */
    CHECK(moe_window(2, 8, 4088) == 64);    /* c = 1022 */
    CHECK(moe_window(2, 4096, 4096) == 1);  /* c = 2 */
    CHECK(moe_window(2, 4096, 65536) == 4); /* c = 32 */
    CHECK(moe_window(1, 1, 8) == 1);        /* c = 8 = 8 * 1 */
    CHECK(moe_window(1, 1, 15) == 1);
    CHECK(moe_window(1, 1, 16) == 2);
    CHECK(moe_window(2, 8, 0) == 128); /* unknown */
    CHECK(moe_window(2, 0, 0) == 128);
    CHECK(moe_window(1, 1, UINT64_MAX) == 128);
    for (uint32_t experts = 1; experts <= 4096; experts *= 2)
        for (uint32_t tokens = 1; tokens < 1 << 17; tokens += tokens / 7 + 1)
            for (uint32_t top_k = 1; top_k <= 4; top_k++) {
                struct moe_shape s = { .experts = experts, .top_k = top_k, .tokens = tokens };

                CHECK(shape_window(&s) == widest(moe_capacity(1, top_k, experts, tokens, 0)));
            }
}

/* Rows between nodes, rail's at the mean need over linear's, at the sizes of DeepSeek-V3. */
static double rail_over_linear(uint32_t nodes, uint32_t groups, uint32_t group_limit)
{
    struct moe_shape v3 = { .struct_size = sizeof(v3),
                            .experts = 256,
                            .top_k = 8,
                            .groups = groups,
                            .group_limit = group_limit };

    return shape_node_share(&v3, nodes) * nodes / v3.top_k;
}

static void a_token_reaches_fewer_nodes_than_experts(void)
{
    struct moe_shape one = { .struct_size = sizeof(one), .experts = 16, .top_k = 1 };

    CHECK(rail_over_linear(2, 0, 0) <= 0.27 && rail_over_linear(2, 0, 0) > 0.24);
    CHECK(rail_over_linear(8, 0, 0) <= 0.69 && rail_over_linear(8, 0, 0) > 0.6);
    CHECK(rail_over_linear(8, 8, 4) <= 0.53 && rail_over_linear(8, 8, 4) > 0.45);
    CHECK(fabs(shape_node_share(&one, 4) - 0.25) < 1e-12);
    one.top_k = 16;
    CHECK(shape_node_share(&one, 4) == 1);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(racks_are_written_where_there_are_any),
        TEST(a_router_is_written_where_it_says_something),
        TEST(order_projection_and_combine_are_written_where_they_say_something),
        TEST(groups_and_routers_that_cannot_be_are_refused_with_a_sentence),
        TEST(the_text_of_a_layer_has_new_words_only_where_they_are_needed),
        TEST(impossible_shapes_are_refused_with_the_value),
        TEST(capacity_follows_the_rule),
        TEST(the_width_of_buckets_follows_the_capacity_at_factor_1),
        TEST(a_token_reaches_fewer_nodes_than_experts),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
