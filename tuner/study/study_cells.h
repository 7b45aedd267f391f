/* Short forms of study_put(). */
#ifndef STUDY_CELLS_H
#define STUDY_CELLS_H

#include "study.h"

#include <math.h>

/* Nothing was published. */
static inline int put_value(struct study_table *t, const char *row, const char *column,
                            double value)
{
    return study_put(
        t, row, column,
        (struct study_cell){ .value = value, .published = NAN, .mark = STUDY_UNPUBLISHED });
}

/* Beside what was published, unless that is NAN. */
static inline int put_predicted(struct study_table *t, const char *row, const char *column,
                                double value, double published)
{
    return study_put(
        t, row, column,
        (struct study_cell){ .value = value,
                             .published = published,
                             .mark = isnan(published) ? STUDY_UNPUBLISHED : STUDY_PREDICTED });
}

static inline int put_fitted(struct study_table *t, const char *row, const char *column,
                             double value, double published)
{
    return study_put(
        t, row, column,
        (struct study_cell){ .value = value, .published = published, .mark = STUDY_FITTED });
}

#endif
