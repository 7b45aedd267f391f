/* Where the plans of a search lie: for each axis the value that a plan has there.  It is all that a
 * search without a cost model knows of them. */
#ifndef POINTS_H
#define POINTS_H

#include "moelookup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POINT_AXES_MAX = 16, POINT_VALUES_MAX = 256 };

struct point_axis {
    size_t values;
    double at[POINT_VALUES_MAX]; /* where each value lies: neighbours are about 1 apart */
    bool words;                  /* values without an order: at is not looked at */
};

struct points {
    size_t axes, count;
    struct point_axis axis[POINT_AXES_MAX];
    uint16_t *value; /* of point i on axis a: value[i * axes + a] */
};

static inline uint16_t points_value(const struct points *p, int point, size_t axis)
{
    return p->value[(size_t)point * p->axes + axis];
}

/* Places for values that are numbers, ascending: by their logarithms where they grow by factors. */
void points_place(struct point_axis *axis, const double *ascending, size_t count);

/* Those of plans, over all axes on which they differ. */
int points_of_plans(const struct moe_plan *plans, size_t count, struct points *out);

/* A copy of one's own. */
int points_copy(const struct points *from, struct points *out);
void points_close(struct points *points);

#endif
