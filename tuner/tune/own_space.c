#include "own_space.h"

#include "plan.h"
#include "shape.h"
#include "status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char own_space_name[] = "moetune";

const char *own_space_axes(bool knows_ctas, bool knows_proto)
{
    if (knows_proto) /* only NCCL's communicators do, and they know ctas, too */
        return "r,d,a,ctas,e,w,proto";
    return knows_ctas ? "r,d,a,ctas,e,w" : "r,d,a,e,w";
}

struct writer {
    char *text;
    size_t used; /* beyond the room: it does not fit */
};

__attribute__((format(printf, 2, 3))) static void say(struct writer *w, const char *format, ...)
{
    size_t room = w->used <= DECLARATION_TEXT_BYTES ? DECLARATION_TEXT_BYTES + 1 - w->used : 0;
    va_list args;

    va_start(args, format);
    w->used += (size_t)vsnprintf(room ? w->text + w->used : NULL, room, format, args);
    va_end(args);
}

static void say_value(struct writer *w, size_t axis, uint32_t value)
{
    if (plan_axes[axis].words)
        say(w, " %s", plan_axes[axis].words[value]);
    else
        say(w, " %" PRIu32, value);
}

static void say_axis(struct writer *w, const struct space *space, size_t axis)
{
    uint32_t most = 0;

    for (size_t i = 0; i < space->arm_count; i++)
        if (plan_value(&space->arms[i], axis) > most)
            most = plan_value(&space->arms[i], axis);
    say(w, "axis %s", plan_axes[axis].name);
    for (uint32_t value = 0; value <= most; value++)
        for (size_t i = 0; i < space->arm_count; i++)
            if (plan_value(&space->arms[i], axis) == value) {
                say_value(w, axis, value);
                break;
            }
    say(w, " default");
    say_value(w, axis, plan_value(&space->arms[space->default_arm], axis));
    say(w, " live\n");
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

int own_space_text(const struct space *space, char text[DECLARATION_TEXT_BYTES + 1])
{
    struct writer w = { text, 0 };
    uint32_t bucket[DECLARATION_KEY_EDGES_MAX];
    size_t count = space->anchor_count;

    if (space->arm_count > DECLARATION_PLANS_MAX)
        return fail(ERR_ARGUMENT, "%zu plans: a declared space has at most %d", space->arm_count,
                    DECLARATION_PLANS_MAX);
    if (count > DECLARATION_KEY_EDGES_MAX)
        return fail(ERR_ARGUMENT,
                    "%zu capacities are measured: the key of a declared space has at most %d edges",
                    count, DECLARATION_KEY_EDGES_MAX);
    say(&w, "space %s\n", own_space_name);
    for (size_t axis = 0; axis < plan_axis_count; axis++)
        say_axis(&w, space, axis);
    /* What plan_canonical() and plan_legal() say of values that the axes have; the rest follows
     * from which values there are. */
    say(&w, "need r>0 | a=linear\nneed r>0 | ctas=0\n");
    if (space->shape.layout == MOE_LAYOUT_HIDDEN)
        say(&w, "need r=0 | w=keep\n");
    else
        say(&w, "need r>0 | d=1\nneed r=0 | e=padded\n");
    if (shape_slices(&space->shape) == 1)
        say(&w, "need r=0 | proto=auto\n");
    memcpy(bucket, space->anchors, count * sizeof(*bucket));
    qsort(bucket, count, sizeof(*bucket), ascending);
    say(&w, "key capacity edges");
    for (size_t i = 0; i < count; i++)
        say(&w, " %" PRIu64, space_capacity(space, bucket[i]));
    say(&w, "\n");
    return w.used <= DECLARATION_TEXT_BYTES
               ? OK
               : fail(ERR_ARGUMENT, "the text of this layer's space is longer than %d bytes",
                      DECLARATION_TEXT_BYTES);
}
