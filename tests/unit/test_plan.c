/* Tests plans as text, as packed bytes, and as values of their axes. */
#include "check.h"

#include "plan.h"
#include "text.h"

#include <string.h>

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
        text_add(names, sizeof(names), "%s%s", axis ? ", " : "", plan_axes[axis].name);
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
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
