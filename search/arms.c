/* Axes, and the list. */
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
        size_t word = strcspn(axes, ","), i = 0;

        while (i < plan_axis_count &&
               (strlen(plan_axes[i].name) != word || memcmp(plan_axes[i].name, axes, word) != 0))
            i++;
        if (i == plan_axis_count)
            return fail(ERR_ARGUMENT, "axes: \"%.*s\" is not an axis; there are r, d, a", (int)word,
                        axes);
        axes += word + (axes[word] == ',');
    }
    return OK;
}

/* r = 0 stands for all of its d and a: it stays as long as r varies. */
static bool varies_only(const struct moe_plan *plan, const char *axes)
{
    struct moe_plan standard = plan_default();

    return (plan->r == standard.r || axis_named(axes, "r")) &&
           (plan->d == standard.d || axis_named(axes, "d")) &&
           (plan->a == standard.a || axis_named(axes, "a"));
}

int arms_list(const struct moe_shape *shape, const char *axes, struct moe_plan *arms, size_t *count)
{
    struct moe_plan all[SEARCH_ARMS_MAX];
    size_t legal = plan_list(shape, all, SEARCH_ARMS_MAX), kept = 0;

    TRY(check_axes(axes));
    if (legal > SEARCH_ARMS_MAX)
        return fail(ERR_ARGUMENT, "%zu plans: more than %d cannot be searched", legal,
                    SEARCH_ARMS_MAX);
    for (size_t i = 0; i < legal; i++)
        if (varies_only(&all[i], axes))
            arms[kept++] = all[i];
    *count = kept;
    return OK;
}

int arms_find(const struct moe_plan *arms, size_t count, const struct moe_plan *plan)
{
    for (size_t i = 0; i < count; i++)
        if (plan_equal(&arms[i], plan))
            return (int)i;
    return -1;
}
