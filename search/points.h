/* The plans of a search as points: the value that each plan has on each axis.  The strategy `blind`
 * knows nothing else of them. */
#ifndef POINTS_H
#define POINTS_H

#include "moelookup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POINT_AXES_MAX = 16, POINT_VALUES_MAX = 256 };

/* One axis on which plans differ. */
struct point_axis {
    size_t values;               /* how many */
    double at[POINT_VALUES_MAX]; /* the place of each value; neighbours are about 1 apart */
    bool words;                  /* the values have no order, and `at` has no meaning */
};

/* All plans of a search.  points_of_plans() or points_copy() allocates `value`, points_close()
 * frees it. */
struct points {
    size_t axes, count; /* of axes; of points */
    struct point_axis axis[POINT_AXES_MAX];
    uint16_t *value; /* value[i * axes + a]: the index of point i's value on axis a */
};

static inline uint16_t points_value(const struct points *p, int point, size_t axis)
{
    return p->value[(size_t)point * p->axes + axis];
}

/* Places the ascending numbers of an axis: by their logarithms if they grow by factors, else by
 * their differences. */
void points_place(struct point_axis *axis, const double *ascending, size_t count);

/* Turns plans into points on the axes on which they differ; with a declared space on all of its
 * axes.  ERR_NOMEM, or ERR_ARGUMENT for too many values, after a message. */
int points_of_plans(const struct moe_plan *plans, size_t count, struct points *out);

/* Copies points; ERR_NOMEM after a message. */
int points_copy(const struct points *from, struct points *out);
void points_close(struct points *points);

#endif
