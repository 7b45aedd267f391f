/* Collects values axis by axis, in ascending order. */
#include "lanes.h"

#include "plan.h"

#include <stdio.h>

bool lane_counts(const struct moe_plan *plan, int axis)
{
    return plan->r != 0 || axis == PLAN_R;
}

static void add_lane(struct lanes *lanes, struct lane lane)
{
    int i = lanes->count;

    for (int j = 0; j < lanes->count; j++)
        if (lanes->at[j].axis == lane.axis && lanes->at[j].value == lane.value)
            return;
    if (lanes->count == LANES_MAX)
        return;
    for (; i && lanes->at[i - 1].axis == lane.axis && lanes->at[i - 1].value > lane.value; i--)
        lanes->at[i] = lanes->at[i - 1];
    lanes->at[i] = lane;
    lanes->count++;
}

static void add_plan(struct lanes *lanes, const struct moe_plan *plan, int axis)
{
    if (lane_counts(plan, axis))
        add_lane(lanes, (struct lane){ axis, plan_value(plan, (size_t)axis) });
}

static void add_axis(struct lanes *lanes, const struct layer_facts *layer, int axis)
{
    int before = lanes->count;

    for (size_t i = 0; i < layer->entry_count; i++)
        add_plan(lanes, &layer->entries[i].plan, axis);
    for (size_t i = 0; i < layer->plan_count; i++)
        add_plan(lanes, &layer->plans[i], axis);
    /* Who did not let it vary knows nothing of it. */
    if (plan_axes[axis].quiet && lanes->count == before + 1 &&
        lanes->at[before].value == plan_axes[axis].fallback)
        lanes->count = before;
}

struct lanes lanes_of(const struct layer_facts *layer)
{
    struct lanes lanes = { .count = 0 };

    for (int axis = (int)plan_axis_count - 1; axis >= 0; axis--) {
        int before = lanes.count;

        add_axis(&lanes, layer, axis);
        if (plan_axes[axis].quiet && lanes.count == before)
            continue;
        lanes.axes++;
        lanes.shown |= 1u << axis;
        if (axis > 0)
            add_lane(&lanes, (struct lane){ -1, (uint32_t)axis }); /* each gap is another */
    }
    return lanes;
}

void lane_name(const struct lane *lane, char text[32])
{
    const struct axis *axis = &plan_axes[lane->axis < 0 ? 0 : lane->axis];

    if (lane->axis < 0)
        text[0] = 0;
    else if (axis->words)
        snprintf(text, 32, "%s=%s", axis->name, axis->words[lane->value]);
    else
        snprintf(text, 32, "%s=%u", axis->name, lane->value);
}

int lane_of(const struct lanes *lanes, const struct moe_plan *plan, int axis)
{
    int i = 0;

    while (i < lanes->count - 1 &&
           (lanes->at[i].axis != axis || lanes->at[i].value != plan_value(plan, (size_t)axis)))
        i++;
    return i;
}
