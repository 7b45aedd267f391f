/* Tests which plans a search chooses from, by the axes that vary, and what the cost model says of
 * a=rail. */
#include "check.h"
#include "heard.h"

#include "arms.h"
#include "costs.h"
#include "plan.h"
#include "random.h"
#include "shape.h"
#include "status.h"
#include "surface.h"
#include "text.h"

#include <math.h>
#include <string.h>

static void axes_that_vary_make_the_plans(void)
{
    static const struct {
        const char *axes;
        bool ctas;
        size_t sparse; /* r=0, and where r >= 1 each of 3 r, 4 d, 2 of 3 a; but none with ctas */
    } cases[] = { { "r,d,a", false, 0 },     { "r,d,a,e", false, 1 + 3 * 4 * 2 },
                  { "r,e", false, 1 + 3 },   { "d,a,e", false, 4 * 2 },
                  { "r,d,a,ctas", true, 0 }, { "r,d,a,ctas,e", true, 1 + 3 * 4 * 2 } };
    struct surface s = surface_make(1, &(struct surface_options){ .slices = 4 });
    struct moe_plan arms[SEARCH_ARMS_MAX];
    size_t usual = 0, with_ctas = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct arms_setup setup = { .axes = cases[i].axes, .knows_ctas = true };
        size_t count, sparse = 0, *base = cases[i].ctas ? &with_ctas : &usual;

        CHECK(!arms_list(&s.shape, &setup, arms, &count));
        for (size_t j = 0; j < count; j++) {
            struct moe_plan canonical = plan_canonical(arms[j], &s.shape);

            CHECK(plan_legal(&arms[j], &s.shape) && plan_equal(&arms[j], &canonical));
            CHECK(arms_find(arms, count, &arms[j]) == (int)j);
            sparse += arms[j].e == MOE_SPARSE;
        }
        CHECK(sparse == cases[i].sparse);
        if (strncmp(cases[i].axes, "r,d,a", 5) != 0)
            continue;
        *base = *base ? *base : count;
        CHECK(count == *base + cases[i].sparse);
    }
    CHECK(with_ctas > 2 * usual);
}

static const struct moe_shape two_nodes = { .struct_size = sizeof(struct moe_shape),
                                            .experts = 8,
                                            .top_k = 2,
                                            .model_dim = 64,
                                            .hidden_dim = 64,
                                            .ranks = 16,
                                            .ranks_per_node = 8 };

static void values_of_axes_make_the_plans(void)
{
    enum { ll = 1 << MOE_PROTO_LL, ll128 = 1 << MOE_PROTO_LL128, simple = 1 << MOE_PROTO_SIMPLE };
    static const struct {
        struct arms_setup setup;
        size_t plans;
    } cases[] = {
        { { .axes = "r,d,a" }, 1 + 2 * 4 * 3 },
        { { .axes = "r,d,a=linear:2dh" }, 1 + 2 * 4 * 2 },
        { { .axes = "a=rail" }, 2 },
        { { .axes = "a=linear,a=2dh" }, 2 },
        { { .axes = "r=0:2,d=8,a" }, 1 + 2 * 2 * 3 },
        { { .axes = "r=2,d" }, 2 * 4 },
        { { .axes = "r=3" }, 1 }, /* 3 is legal elsewhere */
        { { .axes = "r,e=sparse" }, 3 * 2 },
        { { .axes = "r,e=sparse", .padded = true }, 3 + 1 },
        { { .axes = "r,e=sparse", .foreign = true }, 3 + 1 },
        { { .axes = "r,d,a,e" }, 1 + 2 * 4 * 3 + 1 + 2 * 4 * 2 },
        { { .axes = "ctas=64", .knows_ctas = true }, 2 },
        { { .axes = "r,d,a,proto", .protocols = { ll | simple, ll | simple } }, 3 * (1 + 2 * 12) },
        { { .axes = "proto", .protocols = { ll | ll128, ll } }, 2 },
        { { .axes = "proto=ll:ll128", .protocols = { ll | ll128, ll } }, 3 },
        { { .axes = "proto=auto:ll", .protocols = { ll, ll } }, 2 },
        { { .axes = "r,d,a", .foreign = true }, 1 + 2 * 4 * 2 },
        { { .axes = "r,d,a=rail:2dh", .foreign = true }, 1 + 2 * 4 * 3 },
        { { .axes = "a", .library_a2a = true }, 4 },
        { { .axes = "a=2dh", .library_a2a = true }, 2 },
        { { .axes = "a=nccl", .library_a2a = true }, 2 },
        { { .axes = "a=nccl", .foreign = true }, 2 },
    };
    struct moe_plan arms[SEARCH_ARMS_MAX], usual = plan_default(&two_nodes);
    size_t count;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK(!arms_list(&two_nodes, &cases[i].setup, arms, &count));
        CHECK(count == cases[i].plans && arms_find(arms, count, &usual) >= 0);
    }
}

/* Every set of a's and d's, written out, against the same set picked from all plans. */
static void a_plan_is_tried_if_each_of_its_values_is_wanted(void)
{
    static const char *const words[] = { "linear", "2dh", NULL, "rail" };
    struct moe_plan all[SEARCH_ARMS_MAX], arms[SEARCH_ARMS_MAX];
    size_t total = plan_list(&two_nodes, all, SEARCH_ARMS_MAX);

    for (uint32_t set = 0; set < 1 << 8; set++) {
        char axes[80] = "r";
        size_t wanted = 0, count;

        for (uint32_t a = 0; a < 4; a++)
            if (words[a] && (set >> a & 1))
                text_add(axes, sizeof(axes), "%s%s", strstr(axes, "a=") ? ":" : ",a=", words[a]);
        for (uint32_t d = 0; d < 4; d++)
            if (set >> (4 + d) & 1)
                text_add(axes, sizeof(axes), "%s%u", strstr(axes, "d=") ? ":" : ",d=", 1u << d);
        CHECK(!arms_list(&two_nodes, &(struct arms_setup){ .axes = axes }, arms, &count));
        for (size_t i = 0; i < total; i++) {
            uint32_t log_d = all[i].d == 8 ? 3 : all[i].d / 2;
            bool want =
                (!all[i].a || (set >> all[i].a & 1)) && (!log_d || (set >> (4 + log_d) & 1));

            CHECK(!want || (wanted < count && plan_equal(&arms[wanted], &all[i])));
            wanted += want;
        }
        CHECK(count == wanted);
    }
}

static void a_value_that_no_plan_has_is_refused_with_the_legal_ones(void)
{
    static const char *const bad[][2] = {
        { "a=4dh", "linear, 2dh, nccl, rail or 3dh" },
        { "r,a=linear:", "linear, 2dh" },
        { "a=", "linear, 2dh" },
        { "a=linear=2dh", "linear, 2dh" },
        { "d=1:3,r", "1, 2, 4 or 8" },
        { "d=", "1, 2, 4 or 8" },
        { "r=-1", "divides the ranks" },
        { "ctas=3", "power of two" },
        { "e=dense", "sparse" },
        { "q=1", "not an axis" },
        { "=1", "not an axis" },
        { "a=nccl", "needs NCCL 2.28" },
        { "ctas=4", "only NCCL" },
        { "proto", "needs NCCL" },
        { "proto=ll256", "auto, ll, ll128 or simple" },
    };
    struct moe_plan arms[SEARCH_ARMS_MAX];
    size_t count = 7;

    log_to(listen, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct arms_setup setup = { .axes = bad[i][0] };

        last[0] = 0;
        CHECK(arms_list(&two_nodes, &setup, arms, &count) == ERR_ARGUMENT && count == 7);
        CHECK(strstr(last, bad[i][1]));
    }
    log_to(NULL, NULL);
}

/* Of a cluster that knows some protocols, another one is not tried in their place. */
static void a_protocol_that_nothing_is_known_of_is_refused(void)
{
    struct arms_setup setup = { .axes = "r,proto=simple:ll128",
                                .protocols = { 1 << MOE_PROTO_SIMPLE, 1 << MOE_PROTO_SIMPLE } };
    struct moe_plan arms[SEARCH_ARMS_MAX];
    size_t count = 7;

    log_to(listen, NULL);
    CHECK(arms_list(&two_nodes, &setup, arms, &count) == ERR_ARGUMENT && count == 7);
    CHECK(strstr(last, "proto=ll128") && strstr(last, "ll128_rate_percent"));
    log_to(NULL, NULL);
}

/* With a rank for each expert and more, r = 1 gathers nothing. */
static void where_nothing_is_gathered_no_protocol_is_tried(void)
{
    struct moe_shape shape = two_nodes;
    struct arms_setup setup = { .axes = "r,proto",
                                .protocols = { 1 << MOE_PROTO_LL, 1 << MOE_PROTO_LL } };
    struct moe_plan arms[SEARCH_ARMS_MAX];
    size_t count = 0;

    shape.experts = 16;
    CHECK(!arms_list(&shape, &setup, arms, &count) && count == 3);
    CHECK(!arms[0].r && !arms[0].proto && !arms[1].r && arms[1].proto == MOE_PROTO_LL);
    CHECK(arms[2].r == 1 && !arms[2].proto);
}

/* A layer cut by hidden units has no all-to-all but linear. */
static void a_librarys_all_to_all_is_tried_only_where_it_is_legal(void)
{
    struct arms_setup setup = { .axes = "r,d,a", .library_a2a = true };
    struct moe_plan arms[SEARCH_ARMS_MAX];
    struct moe_shape shape = two_nodes;
    size_t count = 0;

    CHECK(!arms_list(&shape, &setup, arms, &count) && count == 1 + 2 * 4 * 4);
    for (size_t i = 0; i < count; i++)
        CHECK((arms[i].a == MOE_A2A_NCCL) == (i >= 1 + 2 * 4 * 3)); /* after all others */
    shape.layout = MOE_LAYOUT_HIDDEN;
    CHECK(!arms_list(&shape, &setup, arms, &count) && count == 8);
    for (size_t i = 0; i < count; i++)
        CHECK(plan_legal(&arms[i], &shape));
}

/* ---- costs */

/* The share of tokens with one of their k experts on the first of n nodes, token by token. */
static double share_that_reaches(uint32_t experts, uint32_t k, uint32_t nodes)
{
    enum { TOKENS = 50000 };
    uint32_t reach = 0;

    for (uint64_t t = 0, at = 0; t < TOKENS; t++) {
        bool taken[256] = { false }, here = false;

        for (uint32_t i = 0; i < k;) {
            uint32_t e = random_below(experts + k, at++, experts);

            here = here || e < experts / nodes;
            i += !taken[e];
            taken[e] = true;
        }
        reach += here;
    }
    return (double)reach / TOKENS;
}

/* With bytes between nodes as all that costs anything: what rail moves of what linear moves. */
static void between_nodes_rail_costs_what_reaches_a_node(void)
{
    static const struct {
        uint32_t nodes, k;
        double of_linear; /* 0: by tokens alone */
    } cases[] = { { 2, 8, 0.249 }, { 4, 8, 0.452 }, { 8, 8, 0.662 }, { 4, 1, 1 }, { 8, 2, 0 } };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct moe_shape shape = { .experts = 256,
                                   .top_k = cases[i].k,
                                   .model_dim = 64,
                                   .hidden_dim = 64,
                                   .ranks = 8 * cases[i].nodes,
                                   .ranks_per_node = 8,
                                   .dtype = MOE_BF16,
                                   .pass = MOE_FORWARD };
        struct costs costs = costs_of(&shape, &(struct search_machine){ 0 });
        struct moe_plan plan = plan_default(&shape);
        double k[COST_CONSTANTS], linear, rail, n = cases[i].nodes, reach;

        for (int j = 0; j < COST_CONSTANTS; j++)
            k[j] = -200;
        k[COST_BYTE_BETWEEN] = k[COST_SCALE] = 0;
        linear = exp(costs_log_ns(&costs, k, 64, &plan));
        plan.a = MOE_A2A_RAIL;
        rail = exp(costs_log_ns(&costs, k, 64, &plan));
        reach = share_that_reaches(256, cases[i].k, cases[i].nodes);
        CHECK(fabs(rail / linear - reach * n / cases[i].k) < 0.03);
        CHECK(!(cases[i].of_linear > 0) || fabs(rail / linear - cases[i].of_linear) < 0.002);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(axes_that_vary_make_the_plans),
        TEST(values_of_axes_make_the_plans),
        TEST(a_plan_is_tried_if_each_of_its_values_is_wanted),
        TEST(a_value_that_no_plan_has_is_refused_with_the_legal_ones),
        TEST(a_protocol_that_nothing_is_known_of_is_refused),
        TEST(where_nothing_is_gathered_no_protocol_is_tried),
        TEST(a_librarys_all_to_all_is_tried_only_where_it_is_legal),
        TEST(between_nodes_rail_costs_what_reaches_a_node),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
