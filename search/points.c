/* Turns plans into points: finds the axes on which they differ, and places the values of each. */
#include "points.h"

#include "declaration.h"
#include "plan.h"
#include "stats.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers that grow by factors are placed by their logarithms.  0 has no logarithm, so it lies this
 * far below the next number. */
static const double zero_is_apart = 3;

/* The largest step from one value to the next over the smallest one. */
static double unevenness(const double *ascending, size_t count, bool of_logs)
{
    double least = INFINITY, most = 0;

    for (size_t i = 1; i < count; i++) {
        double step =
            of_logs ? log(ascending[i] / ascending[i - 1]) : ascending[i] - ascending[i - 1];

        least = fmin(least, step);
        most = fmax(most, step);
    }
    return most / least;
}

static bool grows_by_factors(const double *ascending, size_t count)
{
    size_t first = ascending[0] == 0;

    return count > first + 1 && ascending[first] > 0 &&
           unevenness(ascending + first, count - first, false) >
               unevenness(ascending + first, count - first, true) * (1 + 1e-9);
}

void points_place(struct point_axis *axis, const double *ascending, size_t count)
{
    bool factors = grows_by_factors(ascending, count);
    double span = ascending[count - 1] - ascending[0];

    axis->values = count;
    axis->words = false;
    for (size_t i = 0; i < count; i++) {
        if (!factors)
            axis->at[i] = span > 0 ? (ascending[i] - ascending[0]) / span * (double)(count - 1) : 0;
        else if (ascending[i] == 0)
            axis->at[i] = log2(ascending[1]) - zero_is_apart;
        else
            axis->at[i] = log2(ascending[i]);
    }
}

static size_t find(const double *values, size_t count, double value)
{
    size_t i = 0;

    while (i < count && values[i] != value)
        i++;
    return i;
}

/* Lists the different values of plans on an axis, ascending.  False: more than POINT_VALUES_MAX. */
static bool list_values(const struct moe_plan *plans, size_t count, size_t axis, double *values,
                        size_t *found)
{
    *found = 0;
    for (size_t i = 0; i < count; i++) {
        double value = plan_value(&plans[i], axis);

        if (find(values, *found, value) < *found)
            continue;
        if (*found == POINT_VALUES_MAX)
            return false;
        values[(*found)++] = value;
    }
    sort_doubles(values, *found);
    return true;
}

/* Points on all axes of a declared space, which says whether the values of an axis have an order.
 */
static void points_of_declared(const struct declaration *d, const struct moe_plan *plans,
                               size_t count, struct points *out)
{
    for (size_t a = 0; a < d->axes; a++) {
        const struct declared_axis *axis = &d->axis[a];
        double values[POINT_VALUES_MAX] = { 0 };

        for (size_t i = 0; i < axis->values && !axis->words; i++)
            values[i] = (double)axis->number[i];
        points_place(&out->axis[a], values, axis->values);
        out->axis[a].words = axis->words;
    }
    out->axes = d->axes;
    for (size_t i = 0; i < count; i++)
        for (size_t a = 0; a < d->axes; a++)
            out->value[i * d->axes + a] = (uint16_t)declaration_value(d, plans[i].choice, a);
}

int points_of_plans(const struct moe_plan *plans, size_t count, struct points *out)
{
    const struct declaration *d = count ? declaration_find(plans[0].space) : NULL;
    double values[POINT_VALUES_MAX];
    size_t found;

    *out = (struct points){ .count = count };
    out->value = calloc(count * POINT_AXES_MAX, sizeof(*out->value));
    if (!out->value)
        return fail(ERR_NOMEM, "%zu points", count);
    if (d) {
        points_of_declared(d, plans, count, out);
        return OK;
    }
    for (size_t axis = 0; axis < plan_axis_count; axis++) {
        if (!list_values(plans, count, axis, values, &found))
            return fail(ERR_ARGUMENT, "more than %d values of %s", POINT_VALUES_MAX,
                        plan_axes[axis].name);
        if (found < 2)
            continue;
        points_place(&out->axis[out->axes], values, found);
        out->axis[out->axes++].words = plan_axes[axis].words != NULL;
    }
    for (size_t axis = 0, a = 0; axis < plan_axis_count; axis++) {
        list_values(plans, count, axis, values, &found);
        for (size_t i = 0; i < count && found > 1; i++)
            out->value[i * out->axes + a] =
                (uint16_t)find(values, found, plan_value(&plans[i], axis));
        a += found > 1;
    }
    return OK;
}

int points_copy(const struct points *from, struct points *out)
{
    size_t bytes = from->count * from->axes * sizeof(*from->value);

    *out = *from;
    out->value = malloc(bytes + 1);
    if (!out->value)
        return fail(ERR_NOMEM, "%zu points", from->count);
    memcpy(out->value, from->value, bytes);
    return OK;
}

void points_close(struct points *points)
{
    free(points->value);
    *points = (struct points){ 0 };
}
