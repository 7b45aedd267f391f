/* How much alike the times of two plans are, by the values they have on each axis alone; and which
 * axes matter, found from samples.
 *
 * The covariance of two plans' log(ns) is  scale (prod_a (1 + weight_a like_a) - 1),  where like_a
 * is 1 for equal values on axis a and falls with their distance.  Multiplied out it is a sum over
 * all sets of axes: what each does alone, each pair together, and so on, the more axes the less. */
#ifndef LIKENESS_H
#define LIKENESS_H

#include "points.h"

struct likeness {
    double scale, weight[POINT_AXES_MAX], length[POINT_AXES_MAX];
    double noise; /* variance of one sample's log(ns) */
};

/* What is guessed of the noise, and what plans that ran once say of it, is worth so many samples
 * that repeat another. */
#define LIKENESS_FREEDOM 2.0

/* What is believed before there are samples. */
struct likeness likeness_guess(const struct points *points);

/* Variance of what a plan shares with no other one; of what all samples of a visit share, of which
 * nothing is known. */
#define LIKENESS_OWN 0.0001
#define LIKENESS_LEVEL 9.0

/* The likeness made ready for many pairs: 1 + weight_a like_a by pair of values. */
struct likeness_table {
    const struct points *points; /* borrowed */
    double scale, own;           /* own: of any point with itself */
    double *factor[POINT_AXES_MAX];
};

int likeness_table_open(const struct points *points, struct likeness_table *out);
void likeness_table_set(struct likeness_table *table, const struct likeness *likeness);
void likeness_table_close(struct likeness_table *table);

static inline double likeness_of(const struct likeness_table *t, int i, int j)
{
    double product = 1;

    for (size_t a = 0; a < t->points->axes; a++)
        product *= t->factor[a][(size_t)points_value(t->points, i, a) * t->points->axis[a].values +
                                points_value(t->points, j, a)];
    return t->scale * (product - 1) + (i == j ? LIKENESS_OWN : 0);
}

/* All samples of one point; the means ascend where there are several points. */
struct likeness_seen {
    int point;
    double mean, count;
    double squares; /* sum of squared distances of the samples from their mean */
};

/* At most so many are looked at: the fastest, and some of the others. */
enum { LIKENESS_SEEN_MAX = 192 };

struct likeness_workspace; /* what fitting needs */
int likeness_workspace_open(struct likeness_workspace **out);
void likeness_workspace_close(struct likeness_workspace *workspace);

/* Moves *inout to where it explains best what was seen, as far as a few steps lead; the table is
 * then set to it. */
void likeness_fit(struct likeness_table *table, const struct likeness_seen *ascending, size_t count,
                  struct likeness_workspace *workspace, struct likeness *inout);

#endif
