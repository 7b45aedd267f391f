/* Lists the plans of a layer: only the axes that --axes names vary, over the values named there. */
#include "arms.h"

#include "plan.h"
#include "status.h"

#include <string.h>

/* One word of "r,d,a=linear:2dh": an axis, alone or with some of its values.  Borrows the text. */
struct axis_word {
    size_t axis;
    const char *values, *end; /* values is NULL: the axis alone */
};

/* Reads the word at *axes and moves *axes behind it.  False: the text has ended. */
static bool next_word(const char **axes, struct axis_word *word)
{
    size_t length = strcspn(*axes, ","), name = strcspn(*axes, ",=");

    if (!**axes)
        return false;
    word->axis = plan_axis_find(*axes, name);
    word->end = *axes + length;
    word->values = name < length ? *axes + name + 1 : NULL;
    *axes = word->end + (*word->end == ',');
    return true;
}

/* Reads the first value of "linear:2dh" and moves *rest behind it; NULL after the last value. */
static bool next_value(const char **rest, const struct axis_word *word, uint32_t *value)
{
    const char *begin = *rest;
    size_t length = strcspn(begin, ",:");

    *rest = begin + length < word->end ? begin + length + 1 : NULL;
    return plan_parse_value(word->axis, begin, length, value);
}

/* Whether the text names the value, as in "a=2dh". */
static bool value_named(const char *axes, size_t axis, uint32_t value)
{
    struct axis_word word;
    uint32_t named;

    while (next_word(&axes, &word))
        for (const char *rest = word.axis == axis ? word.values : NULL; rest;)
            if (next_value(&rest, &word, &named) && named == value)
                return true;
    return false;
}

/* Whether the text names the axis; `alone`: without values. */
static bool axis_named(const char *axes, size_t axis, bool alone)
{
    struct axis_word word;

    while (next_word(&axes, &word))
        if (word.axis == axis && !(alone && word.values))
            return true;
    return false;
}

/* Whether the text names the value, or names its axis alone: then every usual value is listed. */
static bool varies_to(const void *self, size_t axis, uint32_t value)
{
    const struct arms_setup *setup = self;

    if (value_named(setup->axes, axis, value))
        return true;
    if (!axis_named(setup->axes, axis, true))
        return false;
    if (axis == PLAN_PROTO)
        return setup->protocols.usual >> value & 1;
    /* An axis that plans write only where it differs is tried up to search_max. */
    if (axis != PLAN_A)
        return !plan_axes[axis].quiet || value <= plan_axes[axis].search_max;
    if (plan_a2a_needs[value].library)
        return setup->library_a2a;
    /* Another program runs the layer: it has no all-to-all that only our executor has. */
    return !setup->foreign || !plan_a2a_needs[value].ours;
}

static int check_axes(const struct arms_setup *setup)
{
    const char *axes = setup->axes, *begin = axes;
    struct axis_word word;
    uint32_t value;

    for (; next_word(&axes, &word); begin = axes) {
        if (word.axis == plan_axis_count)
            return fail(ERR_ARGUMENT, "axes: \"%.*s\" is not an axis; the axes are " PLAN_AXES,
                        (int)strcspn(begin, ",="), begin);
        for (const char *rest = word.values; rest;)
            if (!next_value(&rest, &word, &value))
                return fail(ERR_ARGUMENT,
                            "axes: \"%.*s\" is not legal: %s is %s; write several values "
                            "as %s=X:Y",
                            (int)(word.end - begin), begin, plan_axes[word.axis].name,
                            plan_axes[word.axis].legal, plan_axes[word.axis].name);
    }
    if (axis_named(setup->axes, PLAN_CTAS, false) && !setup->knows_ctas)
        return fail(ERR_ARGUMENT, "axes: only NCCL, and virtual ranks on a GPU, can limit how many "
                                  "CTAs an all-to-all takes (ctas)");
    if (axis_named(setup->axes, PLAN_PROTO, false) && !setup->protocols.all)
        return fail(ERR_ARGUMENT, "axes: proto needs NCCL, or a modelled cluster of NCCL whose "
                                  "file has ring_step_us and ll_rate_percent");
    for (uint32_t i = MOE_PROTO_AUTO + 1; i <= MOE_PROTO_SIMPLE; i++)
        if (value_named(setup->axes, PLAN_PROTO, i) && !(setup->protocols.all >> i & 1))
            return fail(ERR_ARGUMENT,
                        "axes: proto=%s: the file of this modelled cluster has no "
                        "%s_rate_percent",
                        plan_axes[PLAN_PROTO].words[i], plan_axes[PLAN_PROTO].words[i]);
    if (value_named(setup->axes, PLAN_A, MOE_A2A_NCCL) && !setup->library_a2a && !setup->foreign)
        return fail(ERR_ARGUMENT, "axes: a=nccl needs NCCL 2.28 or later, which this cluster "
                                  "does not have");
    return OK;
}

static bool is_left_out(const struct moe_plan *plan, const struct moe_shape *shape,
                        const struct arms_setup *setup)
{
    return (setup->padded || setup->foreign) && !shape->space && plan_is_counted(plan, shape);
}

/* In a declared space the default plan comes first, because a search begins with the first arm.  In
 * other layers the library's all-to-all comes after the others. */
static bool comes_late(const struct moe_plan *plan, const struct moe_shape *shape)
{
    return shape->space ? !plan_is_default(plan, shape) : plan_a2a_needs[plan->a].library;
}

int arms_list(const struct moe_shape *shape, const struct arms_setup *setup, struct moe_plan *arms,
              size_t *count)
{
    struct moe_plan all[SEARCH_ARMS_MAX];
    size_t found, kept = 0, n = 0;

    if (!shape->space)
        TRY(check_axes(setup));
    found = plan_list_wanted(shape, varies_to, setup, all, SEARCH_ARMS_MAX);
    if (found > SEARCH_ARMS_MAX)
        return fail(ERR_ARGUMENT,
                    "--axes makes more than %d plans, the most that a search takes: "
                    "name fewer axes or values",
                    SEARCH_ARMS_MAX);
    for (size_t i = 0; i < found; i++)
        if (!is_left_out(&all[i], shape, setup))
            all[kept++] = all[i];
    found = kept;
    for (int late = 0; late < 2; late++)
        for (size_t i = 0; i < found; i++)
            if (comes_late(&all[i], shape) == late)
                arms[n++] = all[i];
    *count = n;
    return OK;
}

int arms_find(const struct moe_plan *arms, size_t count, const struct moe_plan *plan)
{
    for (size_t i = 0; i < count; i++)
        if (plan_equal(&arms[i], plan))
            return (int)i;
    return -1;
}
