/* Ranks of a modelled cluster that have the same work and are equally fast: one of them is run. */
#ifndef RANK_CLASSES_H
#define RANK_CLASSES_H

#include "cluster.h"
#include "moelookup.h"

enum { RANK_CLASSES_MOST = 100 }; /* speeds are whole percents */

struct rank_class {
    int rank;    /* the first of it, which stands for it */
    double pace; /* beside the slowest rank, whose numbers are the cluster's */
};

struct rank_classes {
    struct rank_class at[RANK_CLASSES_MOST];
    int count;
};

/* `speeds` of all of the cluster's ranks; NULL: not known.  With MOE_SHARES_EQUAL all wait for
 * the slowest rank, and it runs alone, at rank 0's place. */
struct rank_classes rank_classes_of(const struct moe_shape *shape, const double *speeds,
                                    uint32_t ranks);

/* As a rank that is so many times as fast sees it.  Links are the same for all. */
struct cluster cluster_at_pace(struct cluster cluster, double pace);

#endif
