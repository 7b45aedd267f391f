/* Plans, shapes, capacities, geometry: the arithmetic everything else stands on. */
#include "check.h"

#include "geometry.h"
#include "node_rows.h"
#include "plan.h"
#include "random.h"
#include "stats.h"
#include "status.h"
#include <math.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct moe_shape shape(uint32_t experts, uint32_t ranks, uint32_t per_node)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = experts,
                               .top_k = 1,
                               .model_dim = 10,
                               .hidden_dim = 48,
                               .ranks = ranks,
                               .ranks_per_node = per_node };
}

static int said;
static char last[256];

static void listen(void *self, const char *line)
{
    (void)self;
    said++;
    snprintf(last, sizeof(last), "%s", line);
}

static void a_plan_survives_its_text_form(void)
{
    for (uint32_t r = 0; r < 40; r++)
        for (uint32_t d = 1; d <= 8; d *= 2)
            for (uint32_t a = 0; a < PLAN_A2A_COUNT; a++)
                for (uint32_t ctas = 0; ctas <= PLAN_MAX_CTAS; ctas = ctas ? 2 * ctas : 1) {
                    struct moe_plan in = plan_default(NULL), out = MOE_PLAN_INIT;
                    char text[PLAN_TEXT_BYTES];

                    in.r = r;
                    in.d = d;
                    in.a = a;
                    in.ctas = ctas;
                    CHECK(moe_plan_format(&in, text, sizeof(text)) == (int)strlen(text));
                    CHECK(!moe_plan_parse(text, &out) && plan_equal(&in, &out));
                    CHECK(!strstr(text, "ctas") == !ctas);
                }
}

/* What was compiled against the first header neither reads nor gets what lies behind its struct. */
static void a_plan_of_the_first_version_has_no_ctas(void)
{
    struct moe_plan plan = MOE_PLAN_INIT;
    char text[PLAN_TEXT_BYTES];

    plan.ctas = 8;
    CHECK(moe_plan_format(&plan, text, sizeof(text)) > 0 &&
          !strcmp(text, "r=1 d=1 a=linear ctas=8"));
    plan.struct_size = offsetof(struct moe_plan, ctas);
    CHECK(moe_plan_format(&plan, text, sizeof(text)) > 0 && !strcmp(text, "r=1 d=1 a=linear"));
    plan.ctas = 77;
    CHECK(!moe_plan_parse("r=2 ctas=4", &plan) && plan.r == 2 && plan.ctas == 77);
    CHECK(plan.struct_size == offsetof(struct moe_plan, ctas));
}

/* Likewise with a protocol, which is a hint as ctas is: the rest may be told. */
static void a_plan_of_the_third_version_has_no_protocol(void)
{
    struct moe_plan plan = MOE_PLAN_INIT;
    char text[PLAN_TEXT_BYTES];

    CHECK(!moe_plan_parse("r=2 d=2 w=keep proto=ll128", &plan) && plan.proto == MOE_PROTO_LL128);
    CHECK(moe_plan_format(&plan, text, sizeof(text)) > 0 &&
          !strcmp(text, "r=2 d=2 a=linear proto=ll128"));
    CHECK(plan_fits_struct(&plan, offsetof(struct moe_plan, proto)));
    plan.struct_size = offsetof(struct moe_plan, proto);
    CHECK(moe_plan_format(&plan, text, sizeof(text)) > 0 && !strcmp(text, "r=2 d=2 a=linear"));
    CHECK(!moe_plan_parse("r=4 proto=ll", &plan) && plan.r == 4 && plan.proto == MOE_PROTO_LL128);
    CHECK(plan.struct_size == offsetof(struct moe_plan, proto));
}

/* The longest text that a plan can have finds room. */
static void every_text_of_a_plan_fits(void)
{
    struct moe_plan plan = { .struct_size = sizeof(plan) };
    char text[PLAN_TEXT_BYTES];

    for (size_t axis = 0; axis < plan_axis_count; axis++)
        plan_set(&plan, axis, plan_axes[axis].max);
    CHECK(moe_plan_format(&plan, text, sizeof(text)) < (int)sizeof(text));
}

/* Nor does one that is cut off earlier. */
static void of_a_short_struct_only_whole_fields_are_written(void)
{
    for (uint32_t size = 16; size <= sizeof(struct moe_plan) + 8; size++) {
        struct moe_plan plan, untouched;
        size_t bytes = size < sizeof(plan) ? size & ~3u : sizeof(plan);

        memset(&untouched, '#', sizeof(untouched));
        plan = untouched;
        plan.struct_size = size;
        CHECK(!moe_plan_parse("r=2 d=4", &plan) && plan.r == 2 && plan.d == 4);
        CHECK(plan.struct_size == bytes);
        CHECK(!memcmp((char *)&plan + bytes, (char *)&untouched + bytes, sizeof(plan) - bytes));
    }
}

/* Of every axis the default, the least, the largest, and what lies between. */
static void every_axis_survives_text_and_packing(void)
{
    for (size_t axis = 0; axis < plan_axis_count; axis++)
        for (uint32_t value = plan_axes[axis].min; value <= plan_axes[axis].max;
             value = value < 99 ? plan_next_value(axis, value) : 2 * value) {
            struct moe_plan in = plan_default(NULL), out = MOE_PLAN_INIT, unpacked;
            char text[PLAN_TEXT_BYTES];

            plan_set(&in, axis, value);
            CHECK(plan_value(&in, axis) == value);
            CHECK(moe_plan_format(&in, text, sizeof(text)) > 0 && !moe_plan_parse(text, &out));
            unpacked = plan_unpack(plan_pack(&in), 0);
            CHECK(plan_equal(&in, &out) && plan_equal(&in, &unpacked));
        }
}

static void an_axis_has_bits_of_its_own_and_enough_of_them(void)
{
    uint64_t taken = 0;

    for (size_t axis = 0; axis < plan_axis_count; axis++) {
        const struct axis *a = &plan_axes[axis];
        uint64_t bits = (((uint64_t)1 << a->packed_bits) - 1) << a->packed_at;

        CHECK(!(taken & bits) && a->packed_at + a->packed_bits <= 8 * PLAN_PACKED_BYTES);
        CHECK(a->max < (uint64_t)1 << a->packed_bits);
        taken |= bits;
    }
}

/* What older tables say with zeros, and with nothing, must be its default. */
static void a_quiet_axis_has_the_default_zero(void)
{
    for (size_t axis = 0; axis < plan_axis_count; axis++)
        CHECK(!plan_axes[axis].quiet ||
              (!plan_axes[axis].fallback && !plan_axes[axis].min && plan_axes[axis].search_max));
}

static void messages_name_every_axis(void)
{
    char names[64] = "";

    for (size_t axis = 0; axis < plan_axis_count; axis++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", axis ? ", " : "",
                 plan_axes[axis].name);
    CHECK(!strcmp(names, PLAN_AXES));
}

static void plans_equal_but_on_an_axis_may_differ_there_alone(void)
{
    for (size_t differs = 0; differs < plan_axis_count; differs++)
        for (size_t but = 0; but < plan_axis_count; but++) {
            struct moe_plan a = plan_default(NULL), b = a;

            plan_set(&b, differs, plan_axes[differs].max);
            CHECK(plan_is_default(&a, NULL) && !plan_is_default(&b, NULL));
            CHECK(!plan_equal(&a, &b) && plan_order(&a, &b) == -plan_order(&b, &a));
            CHECK(plan_equal_but(&a, &b, but) == (but == differs) && plan_equal_but(&a, &a, but));
        }
}

static void formatting_never_writes_past_the_buffer(void)
{
    struct moe_plan plan = { .r = 12, .d = 4, .a = MOE_A2A_2DH };
    char whole[PLAN_TEXT_BYTES];
    int length = moe_plan_format(&plan, whole, sizeof(whole));

    CHECK(!strcmp(whole, "r=12 d=4 a=2dh"));
    for (size_t room = 0; room < sizeof(whole); room++) {
        char text[PLAN_TEXT_BYTES + 1];

        memset(text, '#', sizeof(text));
        CHECK(moe_plan_format(&plan, room ? text : NULL, room) == length);
        CHECK(text[room] == '#');
        if (room)
            CHECK(strlen(text) == ((size_t)length < room ? (size_t)length : room - 1));
    }
}

static void an_axis_left_out_takes_its_default_in_any_order(void)
{
    struct moe_plan out = MOE_PLAN_INIT;

    CHECK(!moe_plan_parse("a=2dh", &out) && out.r == 1 && out.d == 1 && out.a == MOE_A2A_2DH);
    CHECK(!moe_plan_parse("  d=8   r=0 ", &out) && out.r == 0 && out.d == 8);
}

static void malformed_plans_are_refused_and_leave_the_output_alone(void)
{
    static const char *const bad[] = {
        "",
        " ",
        "r",
        "r=",
        "=1",
        "r=1 r=1",
        "r=-1",
        "r=+1",
        "r=01",
        "r=1x",
        "d=3",
        "d=0",
        "d=16",
        "a=4dh",
        "a=",
        "a=LINEAR",
        "q=1",
        "r=99999999999",
        "r=1,d=2",
        "r=1\td=2",
        "r =1",
        "r=1 d",
        "ctas=3",
        "ctas=128",
        "ctas=",
        "e=dense",
        "e=",
        "e=1",
        "e=sparse e=sparse",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct moe_plan plan = { .d = 7 };

        CHECK(moe_plan_parse(bad[i], &plan));
        CHECK(plan.d == 7);
    }
    CHECK(moe_plan_parse(NULL, &(struct moe_plan){ 0 }) && moe_plan_parse("r=1", NULL));
}

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

static void sparse_experts_are_legal_where_tokens_stay(void)
{
    struct moe_shape p = shape(2, 8, 4);
    struct moe_plan plan = {
        .struct_size = sizeof(plan), .d = 1, .a = MOE_A2A_2DH, .e = MOE_SPARSE
    };
    struct moe_plan canonical = plan_canonical(plan, &p);

    CHECK(plan_legal(&plan, &p) && plan_check(&plan, &p) == OK);
    CHECK(canonical.d == 1 && canonical.a == MOE_A2A_LINEAR && canonical.e == MOE_SPARSE);
    plan.r = 2;
    log_to(listen, NULL);
    said = 0;
    CHECK(!plan_legal(&plan, &p) && plan_check(&plan, &p) == ERR_ARGUMENT && said == 1);
    CHECK(strstr(last, "e=sparse goes with r=0") && strstr(last, "r=2 with e=padded"));
    plan.r = 0;
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

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void the_median_interval_covers_what_it_says_and_no_more(void)
{
    for (size_t n = 6; n <= 60; n++) {
        size_t low, high;
        double outside = 0, wider = 0, p = 1;

        median_interval(n, 0.95, &low, &high);
        CHECK(low < n / 2 && high == n - 1 - low);
        for (size_t i = 0; i < n; i++)
            p /= 2;
        /* brute force: the chance that at most `low` of n fair coins fall heads, twice */
        for (size_t i = 0; i <= low + 1; i++) {
            if (i <= low)
                outside += 2 * p;
            wider += 2 * p;
            p = p * (double)(n - i) / (double)(i + 1);
        }
        CHECK(outside <= 0.05 && wider > 0.05);
    }
}

static void quantiles_agree_with_sorting(void)
{
    uint64_t seed = (uint64_t)time(NULL);

    for (uint64_t round = 0; round < 300; round++) {
        int64_t samples[64], sorted[64];
        size_t n = 1 + random_below(seed, round, 64);
        struct spread s;

        for (size_t i = 0; i < n; i++)
            samples[i] = (int64_t)random_below(seed + 1, round * 64 + i, 50);
        memcpy(sorted, samples, sizeof(sorted));
        qsort(sorted, n, sizeof(*sorted), ascending);
        s = spread_of(samples, n);
        CHECK(s.min_ns == sorted[0]);
        CHECK(s.median_ns == (n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2));
        CHECK(s.low_ns <= s.median_ns && s.median_ns <= s.high_ns);
        CHECK(s.p95_ns >= s.median_ns && s.p95_ns <= sorted[n - 1]);
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
        TEST(a_plan_survives_its_text_form),
        TEST(a_plan_of_the_first_version_has_no_ctas),
        TEST(a_plan_of_the_third_version_has_no_protocol),
        TEST(every_text_of_a_plan_fits),
        TEST(of_a_short_struct_only_whole_fields_are_written),
        TEST(every_axis_survives_text_and_packing),
        TEST(an_axis_has_bits_of_its_own_and_enough_of_them),
        TEST(a_quiet_axis_has_the_default_zero),
        TEST(messages_name_every_axis),
        TEST(plans_equal_but_on_an_axis_may_differ_there_alone),
        TEST(formatting_never_writes_past_the_buffer),
        TEST(an_axis_left_out_takes_its_default_in_any_order),
        TEST(malformed_plans_are_refused_and_leave_the_output_alone),
        TEST(legal_r_is_zero_and_the_divisors_of_the_slices),
        TEST(sparse_experts_are_legal_where_tokens_stay),
        TEST(of_a_layer_cut_by_hidden_units_two_degrees_are_legal),
        TEST(the_text_of_a_layer_has_new_words_only_where_they_are_needed),
        TEST(two_levels_are_offered_only_where_there_are_two),
        TEST(a_third_level_is_offered_only_in_racks),
        TEST(rail_is_offered_where_nodes_hold_whole_experts),
        TEST(the_list_of_plans_is_legal_complete_and_without_doubles),
        TEST(impossible_shapes_are_refused_with_the_value),
        TEST(capacity_follows_the_rule),
        TEST(the_width_of_buckets_follows_the_capacity_at_factor_1),
        TEST(proto_means_nothing_where_no_weights_are_gathered),
        TEST(the_geometry_covers_each_row_of_each_slice_once),
        TEST(the_median_interval_covers_what_it_says_and_no_more),
        TEST(quantiles_agree_with_sorting),
        TEST(a_token_reaches_fewer_nodes_than_experts),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
