/* The map of winners: a lane for each value that an axis takes among a layer's plans. */
#ifndef LANES_H
#define LANES_H

#include "facts.h"

enum { LANES_MAX = 320 };

/* From below: the values of the last axis first, and a gap between two axes. */
struct lanes {
    struct lane {
        int axis; /* of plan_axes; -1: a gap */
        uint32_t value;
    } at[LANES_MAX];
    int count;
    int axes;       /* so many axes have lanes, a quiet one only where it varies */
    uint32_t shown; /* which of plan_axes they are, a bit each */
};

struct lanes lanes_of(const struct layer_facts *layer);

/* "r=4"; "" for a gap. */
void lane_name(const struct lane *lane, char text[32]);

/* False at r = 0 for all other axes: they mean nothing there, and no lane is marked for them. */
bool lane_counts(const struct moe_plan *plan, int axis);

/* The lane of a plan of the layer. */
int lane_of(const struct lanes *lanes, const struct moe_plan *plan, int axis);

#endif
