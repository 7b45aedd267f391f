/* Lists the plans of a layer in which only the wanted axes vary. */
#include "arms.h"

#include "plan.h"
#include "status.h"

#include <string.h>

enum { MAX_CTAS = 32 };

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
            return fail(ERR_ARGUMENT, "axes: \"%.*s\" is not an axis; there are r, d, a, ctas",
                        (int)word, axes);
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

/* The wire's own choice first; then budgets, each twice the one before.  A plan without all-to-alls
 * has none to limit. */
static int add_arms(struct moe_plan plan, bool ctas_vary, struct moe_plan *arms, size_t *count)
{
    uint32_t most = ctas_vary && plan.r ? MAX_CTAS : 0;

    for (plan.ctas = 0; plan.ctas <= most; plan.ctas = plan.ctas ? 2 * plan.ctas : 1) {
        if (*count == SEARCH_ARMS_MAX)
            return fail(ERR_ARGUMENT, "more than %d plans cannot be searched: fewer axes",
                        SEARCH_ARMS_MAX);
        arms[(*count)++] = plan;
    }
    return OK;
}

int arms_list(const struct moe_shape *shape, const struct arms_setup *setup, struct moe_plan *arms,
              size_t *count)
{
    struct moe_plan all[SEARCH_ARMS_MAX];
    size_t legal = plan_list(shape, all, SEARCH_ARMS_MAX);
    bool ctas_vary = axis_named(setup->axes, "ctas");
    bool library = setup->library_a2a && axis_named(setup->axes, "a");

    TRY(check_axes(setup->axes));
    if (ctas_vary && !setup->knows_ctas)
        return fail(ERR_ARGUMENT, "axes: only NCCL, and virtual ranks on a GPU, can limit how many "
                                  "CTAs an all-to-all takes (ctas)");
    if (legal > SEARCH_ARMS_MAX)
        return fail(ERR_ARGUMENT, "%zu plans: more than %d cannot be searched", legal,
                    SEARCH_ARMS_MAX);
    *count = 0;
    for (size_t i = 0; i < legal; i++)
        if (varies_only(&all[i], setup->axes))
            TRY(add_arms(all[i], ctas_vary, arms, count));
    for (size_t i = 0; i < legal && library; i++)
        if (varies_only(&all[i], setup->axes) && all[i].r && all[i].a == MOE_A2A_LINEAR) {
            all[i].a = MOE_A2A_NCCL;
            TRY(add_arms(all[i], ctas_vary, arms, count));
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
