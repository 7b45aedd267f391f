/* Writes the plans of a layer as the text of a declared space (`plan --space moetune`). */
#include "own_space.h"

#include "plan.h"
#include "shape.h"
#include "stats.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char own_space_name[] = "moetune";

const char *own_space_axes(bool knows_ctas, bool knows_proto)
{
    if (knows_proto) /* only NCCL's communicators take proto, and they take ctas, too */
        return "r,d,a,ctas,e,w,proto";
    return knows_ctas ? "r,d,a,ctas,e,w" : "r,d,a,e,w";
}

enum { ROOM = DECLARATION_TEXT_BYTES + 1 };

static void add_value(char text[ROOM], size_t axis, uint32_t value)
{
    if (plan_axes[axis].words)
        text_add(text, ROOM, " %s", plan_axes[axis].words[value]);
    else
        text_add(text, ROOM, " %" PRIu32, value);
}

static void add_axis(char text[ROOM], const struct layer_plans *plans, size_t axis)
{
    uint32_t largest = 0;

    for (size_t i = 0; i < plans->arm_count; i++)
        if (plan_value(&plans->arms[i], axis) > largest)
            largest = plan_value(&plans->arms[i], axis);
    text_add(text, ROOM, "axis %s", plan_axes[axis].name);
    for (uint32_t value = 0; value <= largest; value++)
        for (size_t i = 0; i < plans->arm_count; i++)
            if (plan_value(&plans->arms[i], axis) == value) {
                add_value(text, axis, value);
                break;
            }
    text_add(text, ROOM, " default");
    add_value(text, axis, plan_value(&plans->arms[plans->default_arm], axis));
    text_add(text, ROOM, " live\n");
}

int own_space_text(const struct layer_plans *plans, char text[ROOM])
{
    uint32_t bucket[DECLARATION_KEY_EDGES_MAX];
    size_t count = plans->anchor_count;

    if (plans->arm_count > DECLARATION_PLANS_MAX)
        return fail(ERR_ARGUMENT,
                    "this layer has %zu plans, a declared space at most %d: name "
                    "fewer axes",
                    plans->arm_count, DECLARATION_PLANS_MAX);
    if (count > DECLARATION_KEY_EDGES_MAX)
        return fail(ERR_ARGUMENT,
                    "this layer has %zu measured capacities, the key of a declared space at most "
                    "%d edges: use less --effort, or fewer --buckets",
                    count, DECLARATION_KEY_EDGES_MAX);
    text_put(text, ROOM, "space %s\n", own_space_name);
    for (size_t axis = 0; axis < plan_axis_count; axis++)
        add_axis(text, plans, axis);
    /* The rules of plan_canonical() and plan_legal() between axes; all other rules follow from the
     * values that are listed. */
    text_add(text, ROOM, "need r>0 | a=linear\nneed r>0 | ctas=0\n");
    if (plans->shape.layout == MOE_LAYOUT_HIDDEN)
        text_add(text, ROOM, "need r=0 | w=keep\n");
    else
        text_add(text, ROOM, "need r>0 | d=1\nneed r=0 | e=padded\n");
    if (shape_slices(&plans->shape) == 1)
        text_add(text, ROOM, "need r=0 | proto=auto\n");
    memcpy(bucket, plans->anchors, count * sizeof(*bucket));
    sort_numbers(bucket, count);
    text_add(text, ROOM, "key capacity edges");
    for (size_t i = 0; i < count; i++)
        text_add(text, ROOM, " %" PRIu64, layer_plans_capacity(plans, bucket[i]));
    /* text_add() fails after a line that did not fit. */
    if (!text_add(text, ROOM, "\n"))
        return fail(ERR_ARGUMENT, "the text of this layer's space is longer than %d bytes",
                    DECLARATION_TEXT_BYTES);
    return OK;
}
