/* Lists the plans of a layer in which only the wanted axes vary. */
#include "arms.h"

#include "plan.h"
#include "status.h"

#include <string.h>

static bool axis_named(const char *axes, const char *name)
{
    size_t length = strlen(name);

    while (*axes) {
        size_t word = strcspn(axes, ",");

        if (word == length && !memcmp(axes, name, word))
            return true;
        axes += word + (axes[word] == ',');
    }
    return false;
}

static int check_axes(const char *axes)
{
    while (*axes) {
        size_t word = strcspn(axes, ",");

        if (plan_axis_find(axes, word) == plan_axis_count)
            return fail(ERR_ARGUMENT, "axes: \"%.*s\" is not an axis; there are " PLAN_AXES,
                        (int)word, axes);
        axes += word + (axes[word] == ',');
    }
    return OK;
}

/* r = 0 stands for all of its d and a: it stays as long as r varies. */
static bool varies_only(const struct moe_plan *plan, const char *axes)
{
    for (size_t i = 0; i < plan_axis_count; i++)
        if (plan_value(plan, i) != plan_axes[i].fallback && !axis_named(axes, plan_axes[i].name))
            return false;
    return true;
}

/* Is it legal, and has it no other name? */
static bool is_one_of_its_own(const struct moe_plan *plan, const struct moe_shape *shape)
{
    struct moe_plan canonical = plan_canonical(*plan);

    return plan_legal(plan, shape) && plan_equal(plan, &canonical);
}

/* The plan with every value of the quiet axes that vary, from this axis on; the defaults first. */
static int add_arms(const struct moe_shape *shape, struct moe_plan plan, size_t axis,
                    const char *axes, struct moe_plan *arms, size_t *count)
{
    while (axis < plan_axis_count &&
           !(plan_axes[axis].quiet && axis_named(axes, plan_axes[axis].name)))
        axis++;
    if (axis == plan_axis_count) {
        if (*count == SEARCH_ARMS_MAX)
            return fail(ERR_ARGUMENT, "more than %d plans cannot be searched: fewer axes",
                        SEARCH_ARMS_MAX);
        arms[(*count)++] = plan;
        return OK;
    }
    for (uint32_t value = 0; value <= plan_axes[axis].search_max;
         value = plan_next_value(axis, value)) {
        plan_set(&plan, axis, value);
        if (is_one_of_its_own(&plan, shape))
            TRY(add_arms(shape, plan, axis + 1, axes, arms, count));
    }
    return OK;
}

int arms_list(const struct moe_shape *shape, const struct arms_setup *setup, struct moe_plan *arms,
              size_t *count)
{
    struct moe_plan all[SEARCH_ARMS_MAX];
    size_t legal = plan_list(shape, all, SEARCH_ARMS_MAX);
    bool library = setup->library_a2a && axis_named(setup->axes, plan_axes[PLAN_A].name);

    TRY(check_axes(setup->axes));
    if (axis_named(setup->axes, plan_axes[PLAN_CTAS].name) && !setup->knows_ctas)
        return fail(ERR_ARGUMENT, "axes: only NCCL, and virtual ranks on a GPU, can limit how many "
                                  "CTAs an all-to-all takes (ctas)");
    if (legal > SEARCH_ARMS_MAX)
        return fail(ERR_ARGUMENT, "%zu plans: more than %d cannot be searched", legal,
                    SEARCH_ARMS_MAX);
    *count = 0;
    for (size_t i = 0; i < legal; i++)
        if (varies_only(&all[i], setup->axes))
            TRY(add_arms(shape, all[i], 0, setup->axes, arms, count));
    for (size_t i = 0; i < legal && library; i++)
        if (varies_only(&all[i], setup->axes) && all[i].r && all[i].a == MOE_A2A_LINEAR) {
            all[i].a = MOE_A2A_NCCL;
            TRY(add_arms(shape, all[i], 0, setup->axes, arms, count));
        }
    return OK;
}

int arms_find(const struct moe_plan *arms, size_t count, const struct moe_plan *plan)
{
    for (size_t i = 0; i < count; i++)
        if (plan_equal(&arms[i], plan))
            return (int)i;
    return -1;
}
