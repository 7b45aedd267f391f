/* Places the values of each axis as far apart as the times of their plans may be. */
#include "reach.h"

#include "declaration.h"
#include "plan.h"
#include "stats.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

/* The largest factor from one value to the next. */
static const double most_factor = 3;

/* Returns the value of an axis as a number; for a word this is its place in the list. */
static double number_of(const struct declaration *d, const struct moe_plan *plan, size_t axis)
{
    return d ? (double)declared_number(&d->axis[axis], declaration_value(d, plan->choice, axis))
             : (double)plan_value(plan, axis);
}

/* Replaces each value of an axis, `stride` apart in `numbers`, by its place: the sum of the
 * logarithms of the factors from value to value below it. */
static void place_values(double *numbers, size_t count, size_t stride, double *sorted)
{
    size_t distinct = 0;

    for (size_t i = 0; i < count; i++)
        sorted[i] = numbers[i * stride];
    sort_doubles(sorted, count);
    for (size_t i = 0; i < count; i++)
        if (!i || sorted[i] > sorted[distinct - 1])
            sorted[distinct++] = sorted[i];
    for (size_t i = 0; i < count; i++) {
        double sum = 0;

        for (size_t k = 1; k < distinct && sorted[k] <= numbers[i * stride]; k++)
            sum +=
                log(sorted[k - 1] > 0 ? fmin(most_factor, sorted[k] / sorted[k - 1]) : most_factor);
        numbers[i * stride] = sum;
    }
}

int reach_open(const struct moe_plan *arms, size_t count, struct reach *out)
{
    const struct declaration *d = count ? declaration_find(arms[0].space) : NULL;
    size_t axes = d ? d->axes : plan_axis_count;
    double *sorted = malloc((count + 1) * sizeof(*sorted));

    *out = (struct reach){ .axes = axes };
    out->places = malloc((count * axes + 1) * sizeof(*out->places));
    if (!sorted || !out->places) {
        free(sorted);
        return fail(ERR_NOMEM, "%zu plans", count);
    }
    for (size_t axis = 0; axis < axes; axis++) {
        bool has_words = d ? d->axis[axis].words : plan_axes[axis].words != NULL;

        for (size_t i = 0; i < count; i++)
            out->places[i * axes + axis] = number_of(d, &arms[i], axis);
        if (has_words)
            out->words |= 1u << axis;
        else
            place_values(out->places + axis, count, axes, sorted);
    }
    free(sorted);
    return OK;
}

void reach_close(struct reach *reach)
{
    free(reach->places);
    *reach = (struct reach){ 0 };
}

double reach_factor(const struct reach *reach, int from, int to)
{
    double log_factor = 0;

    for (size_t axis = 0; axis < reach->axes; axis++) {
        double distance = fabs(reach->places[(size_t)to * reach->axes + axis] -
                               reach->places[(size_t)from * reach->axes + axis]);

        log_factor += reach->words >> axis & 1 && distance > 0 ? log(most_factor) : distance;
    }
    return exp(log_factor);
}
