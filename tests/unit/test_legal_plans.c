/* Tests which plans a layer can run, and that each of them computes every row once. */
#include "check.h"
#include "heard.h"
#include "small_layer.h"

#include "geometry.h"
#include "plan.h"
#include "status.h"

#include <string.h>

static void legal_r_is_zero_and_the_divisors_of_the_slices(void)
{
    log_to(listen, NULL);
    for (uint32_t s = 1; s <= 24; s++) {
        struct moe_shape p = shape(1, s, s);

        p.hidden_dim = s;
        for (uint32_t r = 0; r <= 2 * s; r++) {
            struct moe_plan plan = { .r = r, .d = 1 };
            bool legal = r == 0 || (r <= s && s % r == 0);

            said = 0;
            CHECK((plan_check(&plan, &p) == OK) == legal);
            CHECK(said == (legal ? 0 : 1));
        }
    }
    CHECK(plan_check(&(struct moe_plan){ .r = 5, .d = 1 },
                     &(struct moe_shape){ .experts = 1, .ranks = 12 }));
    CHECK(strstr(last, "0, 1, 2, 3, 4, 6, 12"));
    log_to(NULL, NULL);
}

static void sparse_experts_are_legal_with_all_to_alls_of_blocks_that_differ(void)
{
    struct moe_shape p = shape(2, 8, 4);
    struct moe_plan plan = {
        .struct_size = sizeof(plan), .d = 1, .a = MOE_A2A_2DH, .e = MOE_SPARSE
    };
    struct moe_plan canonical = plan_canonical(plan, &p);

    CHECK(plan_legal(&plan, &p) && plan_check(&plan, &p) == OK);
    CHECK(canonical.d == 1 && canonical.a == MOE_A2A_LINEAR && canonical.e == MOE_SPARSE);
    log_to(listen, NULL);
    for (plan.r = 1; plan.r <= 4; plan.r *= 2)
        for (plan.d = 1; plan.d <= 8; plan.d *= 2)
            for (plan.a = 0; plan.a < PLAN_A2A_COUNT; plan.a++) {
                bool legal = plan.a == MOE_A2A_LINEAR || plan.a == MOE_A2A_2DH;

                CHECK(plan_legal(&plan, &p) == legal && plan_is_counted(&plan, &p));
                CHECK(legal == (plan_check(&plan, &p) == OK));
            }
    plan.r = 2;
    plan.d = 1;
    plan.a = MOE_A2A_2DH;
    plan.ctas = 8;
    said = 0;
    CHECK(!plan_legal(&plan, &p) && plan_check(&plan, &p) == ERR_ARGUMENT && said == 1);
    CHECK(strstr(last, "a must be linear or 2dh, and ctas 0"));
    plan.ctas = 0;
    plan.r = 0;
    CHECK(!plan_is_counted(&plan, &p));
    plan.d = 2;
    CHECK(!plan_legal(&plan, &p) && plan_check(&plan, &p) == ERR_ARGUMENT && said == 2);
    plan.d = 1;
    plan.w = MOE_CACHE;
    CHECK(!plan_legal(&plan, &p) && plan_check(&plan, &p) == ERR_ARGUMENT && said == 3);
    CHECK(strstr(last, "layout=hidden and r=0"));
    log_to(NULL, NULL);
    CHECK(!plan_fits_struct(&plan, offsetof(struct moe_plan, w)));
    CHECK(plan_fits_struct(&plan, offsetof(struct moe_plan, proto)));
    plan.w = MOE_KEEP;
    CHECK(!plan_fits_struct(&plan, offsetof(struct moe_plan, e)));
    CHECK(plan_fits_struct(&plan, offsetof(struct moe_plan, w)));
}

/* Every rank holds a part of every expert: 0 gathers weights, W gathers tokens. */
static void of_a_layer_cut_by_hidden_units_two_degrees_are_legal(void)
{
    struct moe_shape p = shape(3, 6, 3);
    struct moe_plan plans[64], usual;
    struct moe_plan bad[] = {
        { .r = 3, .d = 1 },
        { .r = 0, .d = 1 },
        { .r = 1, .d = 1, .e = MOE_SPARSE },
        { .r = 3, .d = 1, .a = MOE_A2A_2DH, .e = MOE_SPARSE },
        { .r = 3, .d = 1, .e = MOE_SPARSE, .w = MOE_CACHE },
    };
    size_t n;

    p.layout = MOE_LAYOUT_HIDDEN;
    p.hidden_dim = 7;
    CHECK(shape_check(&p) == OK && shape_slices(&p) == 6 && shape_local_experts(&p) == 3);
    usual = plan_default(&p);
    CHECK(usual.r == 0 && usual.e == MOE_SPARSE && plan_legal(&usual, &p));
    CHECK(plan_is_default(&usual, &p) && !plan_is_default(&usual, NULL));
    n = plan_list(&p, plans, 64);
    CHECK(n == 8);
    for (size_t i = 0; i < n; i++)
        CHECK(plan_legal(&plans[i], &p) && plan_check(&plans[i], &p) == OK);
    usual.w = MOE_CACHE;
    usual.d = 4;
    CHECK(plan_legal(&usual, &p));
    usual = plan_canonical(usual, &p);
    CHECK(usual.d == 4 && usual.w == MOE_CACHE);
    log_to(listen, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        bad[i].struct_size = sizeof(bad[i]);
        said = 0;
        CHECK(!plan_legal(&bad[i], &p) && plan_check(&bad[i], &p) == ERR_ARGUMENT && said == 1);
        CHECK(strstr(last, "r=0 e=sparse") && strstr(last, "r=6 e=sparse"));
    }
    p.hidden_dim = 5;
    CHECK(shape_check(&p) == ERR_ARGUMENT && strstr(last, "at least 6 units"));
    log_to(NULL, NULL);
}

static void two_levels_are_offered_only_where_there_are_two(void)
{
    struct moe_plan plan = { .r = 1, .d = 1, .a = MOE_A2A_2DH };
    static const struct {
        uint32_t ranks, per_node;
        bool applies;
    } cases[] = {
        { 1, 1, false }, { 4, 4, false }, { 4, 1, false }, { 4, 2, true },
        { 8, 4, true },  { 6, 0, false }, { 6, 4, false },
    };

    log_to(listen, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct moe_shape p = shape(cases[i].ranks, cases[i].ranks, cases[i].per_node);

        CHECK(plan_check(&plan, &p) == (cases[i].applies ? OK : UNSUPPORTED));
    }
    log_to(NULL, NULL);
}

static void a_third_level_is_offered_only_in_racks(void)
{
    struct moe_plan plan = { .r = 1, .d = 1, .a = MOE_A2A_3DH }, plans[64];
    static const struct {
        uint32_t ranks, per_node, per_rack;
        int rules;
        bool applies;
    } cases[] = {
        { 8, 2, 0, OK, false },           { 8, 2, 4, OK, true },
        { 8, 1, 2, OK, false },           { 12, 2, 6, OK, true },
        { 8, 2, 2, ERR_ARGUMENT, false }, { 8, 2, 8, ERR_ARGUMENT, false },
        { 8, 2, 3, ERR_ARGUMENT, false }, { 12, 2, 8, ERR_ARGUMENT, false },
        { 8, 0, 4, ERR_ARGUMENT, false },
    };

    log_to(listen, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct moe_shape p = shape(cases[i].ranks, cases[i].ranks, cases[i].per_node);
        size_t flat = plan_list(&p, plans, 64), count;

        p.ranks_per_rack = cases[i].per_rack;
        CHECK(shape_check(&p) == cases[i].rules);
        if (cases[i].rules)
            continue;
        CHECK(plan_check(&plan, &p) == (cases[i].applies ? OK : UNSUPPORTED));
        count = plan_list(&p, plans, 64);
        CHECK(count == flat + (cases[i].applies ? 4 : 0));
    }
    log_to(NULL, NULL);
}

/* Whether all ranks of each expert lie on one node, rank by rank. */
static bool experts_stay_on_nodes(const struct moe_shape *p)
{
    uint32_t each = p->experts < p->ranks ? p->ranks / p->experts : 1;

    for (uint32_t q = 0; q < p->ranks; q++)
        if (q / each * each / p->ranks_per_node != q / p->ranks_per_node)
            return false;
    return true;
}

static void rail_is_offered_where_nodes_hold_whole_experts(void)
{
    struct moe_plan plan = { .r = 1, .d = 2, .a = MOE_A2A_RAIL }, plans[256];
    size_t offered = 0;

    log_to(listen, NULL);
    for (uint32_t ranks = 1; ranks <= 24; ranks++)
        for (uint32_t each = 1; each <= ranks; each++)
            for (uint32_t m = 1; m <= ranks; m++) {
                struct moe_shape p = shape(ranks / each, ranks, m);
                bool levels = m > 1 && ranks > m && ranks % m == 0, listed = false;
                size_t n;

                if (ranks % each)
                    continue;
                p.hidden_dim = ranks;
                said = 0;
                CHECK(plan_check(&plan, &p) ==
                      (levels && experts_stay_on_nodes(&p) ? OK : UNSUPPORTED));
                CHECK(said == !plan_legal(&plan, &p));
                CHECK(!said || strstr(last, levels ? "all ranks of an expert on one node"
                                                   : "several nodes with the same number"));
                n = plan_list(&p, plans, 256);
                for (size_t i = 0; i < n; i++)
                    listed = listed || plan_equal(&plans[i], &plan);
                CHECK(n <= 256 && listed == plan_legal(&plan, &p));
                offered += listed;
            }
    CHECK(offered > 50);
    log_to(NULL, NULL);
}

static void the_list_of_plans_is_legal_complete_and_without_doubles(void)
{
    struct moe_shape p = shape(2, 16, 4);
    struct moe_plan plans[64];
    size_t n = plan_list(&p, plans, 64);

    CHECK(n == 1 + 4 * 4 * 2); /* r = 0, and 4 divisors of 8 x d x a */
    for (size_t i = 0; i < n; i++) {
        CHECK(plan_check(&plans[i], &p) == OK && plans[i].a != MOE_A2A_NCCL);
        for (size_t j = 0; j < i; j++)
            CHECK(!plan_equal(&plans[i], &plans[j]));
    }
    CHECK(plan_list(&p, plans, 3) == n);
}

/* A protocol keeps its meaning exactly where the layer, as it is run, has a group that gathers. */
static void proto_means_nothing_where_no_weights_are_gathered(void)
{
    for (uint32_t ranks = 1; ranks <= 8; ranks++)
        for (uint32_t experts = 1; experts <= 16; experts++)
            for (uint32_t layout = 0; layout <= MOE_LAYOUT_HIDDEN; layout++) {
                struct moe_shape p = shape(experts, ranks, ranks);
                struct moe_plan plans[64];
                size_t n;

                p.layout = layout;
                p.hidden_dim = 840;
                if (!layout && (experts < ranks ? ranks % experts : experts % ranks))
                    continue;
                n = plan_list(&p, plans, 64);
                for (size_t i = 0; i < n; i++) {
                    struct geometry g = geometry_of(&p, &plans[i], 0, 8);

                    plans[i].proto = MOE_PROTO_LL128;
                    CHECK(plan_canonical(plans[i], &p).proto ==
                          (g.weights.count > 1 || g.bias2.count > 1 ? MOE_PROTO_LL128
                                                                    : MOE_PROTO_AUTO));
                    CHECK(plan_canonical(plans[i], NULL).proto == MOE_PROTO_LL128);
                    CHECK(plan_legal(&plans[i], &p));
                }
            }
}

/* Every row of every expert is computed exactly once per model slice, by somebody. */
static void the_geometry_covers_each_row_of_each_slice_once(void)
{
    for (uint32_t ranks = 1; ranks <= 8; ranks++)
        for (uint32_t experts = 1; experts <= 16; experts++) {
            struct moe_shape p = shape(experts, ranks, ranks);
            struct moe_plan plans[64];
            size_t n;

            if (experts < ranks ? ranks % experts : experts % ranks)
                continue;
            p.hidden_dim = 840;
            n = plan_list(&p, plans, 64);
            for (size_t i = 0; i < n; i++)
                for (uint64_t c = 0; c < 40; c += 13) {
                    uint64_t rows = 0, units = 0;

                    for (uint32_t q = 0; q < ranks; q++) {
                        struct geometry g = geometry_of(&p, &plans[i], (int)q, c);

                        CHECK(g.rows >= c && g.rows < c + (uint64_t)g.shares * g.chunks);
                        CHECK(g.rows == g.chunk_rows * g.shares * g.chunks);
                        CHECK(g.weights.first <= (int)q &&
                              (int)q < g.weights.first + g.weights.count);
                        rows += g.chunk_rows * g.chunks * g.peers * g.local * g.hidden;
                        units = g.rows;
                    }
                    CHECK(rows == units * experts * ranks * p.hidden_dim);
                }
        }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(legal_r_is_zero_and_the_divisors_of_the_slices),
        TEST(sparse_experts_are_legal_with_all_to_alls_of_blocks_that_differ),
        TEST(of_a_layer_cut_by_hidden_units_two_degrees_are_legal),
        TEST(two_levels_are_offered_only_where_there_are_two),
        TEST(a_third_level_is_offered_only_in_racks),
        TEST(rail_is_offered_where_nodes_hold_whole_experts),
        TEST(the_list_of_plans_is_legal_complete_and_without_doubles),
        TEST(proto_means_nothing_where_no_weights_are_gathered),
        TEST(the_geometry_covers_each_row_of_each_slice_once),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
