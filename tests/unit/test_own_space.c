/* Tests moetune's own plans as a declared space: they are the same plans as the search's, for
 * random layers. */
#include "check.h"

#include "own_space.h"
#include "plan.h"
#include "random.h"
#include "shape.h"
#include "status.h"

#include <stdio.h>
#include <string.h>

static uint64_t seed, drawn;

static uint32_t one_of(const uint32_t *values, size_t count)
{
    return values[random_below(seed, drawn++, (uint32_t)count)];
}

#define ONE_OF(...)                                                                                \
    one_of((const uint32_t[]){ __VA_ARGS__ },                                                      \
           sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

/* Also layers that are none: the caller asks shape_fault(). */
static struct moe_shape draw_layer(void)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = ONE_OF(1, 2, 4, 8, 16),
                               .top_k = ONE_OF(1, 2),
                               .model_dim = 64,
                               .hidden_dim = 64,
                               .tokens = ONE_OF(64, 512),
                               .ranks = ONE_OF(1, 2, 3, 4, 8, 16, 32),
                               .ranks_per_node = ONE_OF(1, 2, 4, 8),
                               .layout = ONE_OF(0, 0, 1),
                               .combine = ONE_OF(0, 0, 0, 1),
                               .ranks_per_rack = ONE_OF(0, 0, 8, 16) };
}

/* "r=1 d=2 a=linear ctas=0 e=padded w=keep": every axis, quiet or not. */
static void every_axis(const struct moe_plan *plan, char *text, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < plan_axis_count; i++) {
        uint32_t value = plan_value(plan, i);

        used += (size_t)snprintf(text + used, size - used,
                                 plan_axes[i].words ? "%s=%s " : "%s=", plan_axes[i].name,
                                 plan_axes[i].words ? plan_axes[i].words[value] : "");
        if (!plan_axes[i].words)
            used += (size_t)snprintf(text + used, size - used, "%u ", value);
    }
    text[used - 1] = 0;
}

static void compare(const struct layer_plans *space)
{
    char text[DECLARATION_TEXT_BYTES + 1], plan[PLAN_TEXT_BYTES];
    struct declaration *d;
    uint32_t choice;

    CHECK(!own_space_text(space, text));
    CHECK(!declaration_parse(text, &d));
    CHECK(!strcmp(d->text, text)); /* it is canonical, so that a file's can be compared with it */
    CHECK(d->plans == space->arm_count);
    for (size_t i = 0; i < space->arm_count; i++) {
        every_axis(&space->arms[i], plan, sizeof(plan));
        CHECK(declaration_scan(d, plan, &choice) && declaration_legal(d, choice));
        CHECK((choice == d->default_choice) == ((int)i == space->default_arm));
    }
    for (size_t i = 0; i < space->anchor_count; i++)
        CHECK(declaration_bucket(d, layer_plans_capacity(space, space->anchors[i]), 0) + 1 <
              declaration_buckets(d));
    declaration_free(d);
}

static void declared_plans_are_those_of_the_search(void)
{
    char why[SHAPE_FAULT_BYTES];
    uint32_t layers = 0;

    seed = test_seed();
    while (layers < 200) {
        struct moe_shape shape = draw_layer();
        uint32_t knows = ONE_OF(0, 1, 2); /* ctas; and proto */
        const uint32_t protocols = knows == 2 ? 1u << MOE_PROTO_LL | 1u << MOE_PROTO_SIMPLE : 0;
        struct layer_plans_setup setup = { .window = 64,
                                           .max_factor = 8,
                                           .arms = { .axes = own_space_axes(knows > 0, knows > 1),
                                                     .padded = true,
                                                     .knows_ctas = knows > 0,
                                                     .protocols = { protocols, protocols } },
                                           .memory_limit_bytes = INT64_MAX,
                                           .effort = &efforts[1] };
        struct layer_plans space;

        if (shape_fault(&shape, why, sizeof(why)))
            continue;
        CHECK(!layer_plans_open(&shape, &setup, &space));
        compare(&space);
        layer_plans_close(&space);
        layers++;
    }
}

int main(void)
{
    static const struct test tests[] = { TEST(declared_plans_are_those_of_the_search) };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
