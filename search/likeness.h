/* How similar the times of two plans are, from their values on each axis alone.  Samples tell which
 * axes matter.  The strategy `blind` uses it instead of a cost model.
 *
 * The covariance of two plans' log(ns) is  scale (prod_a (1 + weight_a like_a) - 1).  like_a is 1
 * for equal values on axis a and falls with their distance.  Multiplied out, this is a sum over all
 * sets of axes: each axis alone, each pair together, and so on; larger sets weigh less. */
#ifndef LIKENESS_H
#define LIKENESS_H

#include "points.h"

/* The constants of that covariance; a plain value. */
struct likeness {
    double scale, weight[POINT_AXES_MAX];
    double length[POINT_AXES_MAX]; /* the distance over which like_a falls */
    double noise;                  /* variance of one sample's log(ns) */
};

/* The prior of the noise, together with plans that ran only once, counts like so many repeated
 * samples. */
#define LIKENESS_FREEDOM 2.0

/* The constants before there are samples. */
struct likeness likeness_guess(const struct points *points);

/* LIKENESS_OWN: the variance of log(ns) that a plan shares with no other plan.  LIKENESS_LEVEL: the
 * variance of the level that all samples of a bucket share, of which nothing is known. */
#define LIKENESS_OWN 0.0001
#define LIKENESS_LEVEL 9.0

/* The factors 1 + weight_a like_a for all pairs of values, computed once.  likeness_table_open()
 * allocates it, likeness_table_close() frees it. */
struct likeness_table {
    const struct points *points; /* borrowed */
    double scale, own;           /* own: the covariance of a point with itself */
    double *factor[POINT_AXES_MAX];
};

int likeness_table_open(const struct points *points, struct likeness_table *out);
void likeness_table_set(struct likeness_table *table, const struct likeness *likeness);
void likeness_table_close(struct likeness_table *table);

/* The covariance of the points i and j. */
static inline double likeness_of(const struct likeness_table *t, int i, int j)
{
    double product = 1;

    for (size_t a = 0; a < t->points->axes; a++)
        product *= t->factor[a][(size_t)points_value(t->points, i, a) * t->points->axis[a].values +
                                points_value(t->points, j, a)];
    return t->scale * (product - 1) + (i == j ? LIKENESS_OWN : 0);
}

/* All samples of one point.  In an array of them the means ascend. */
struct likeness_seen {
    int point;
    double mean, count;
    double squares; /* sum of squared distances of the samples from their mean */
};

/* likeness_fit() uses at most so many points: the fastest, and some of the others. */
enum { LIKENESS_SEEN_MAX = 192 };

struct likeness_workspace; /* the memory that likeness_fit() needs */
int likeness_workspace_open(struct likeness_workspace **out);
void likeness_workspace_close(struct likeness_workspace *workspace);

/* Moves the constants *inout by a few steps to where they explain the samples best, and sets the
 * table to them. */
void likeness_fit(struct likeness_table *table, const struct likeness_seen *ascending, size_t count,
                  struct likeness_workspace *workspace, struct likeness *inout);

#endif
