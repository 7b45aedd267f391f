/* Groups and routers of a layer: as text, and which cannot be. */
#include "check.h"

#include "shape.h"
#include "status.h"

#include <string.h>

static char last[256];

static void listen(void *self, const char *line)
{
    (void)self;
    snprintf(last, sizeof(last), "%s", line);
}

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

int main(void)
{
    static const struct test tests[] = {
        TEST(racks_are_written_where_there_are_any),
        TEST(a_router_is_written_where_it_says_something),
        TEST(order_projection_and_combine_are_written_where_they_say_something),
        TEST(groups_and_routers_that_cannot_be_are_refused_with_a_sentence),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
