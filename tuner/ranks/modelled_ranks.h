/* Executes orders on all ranks of a modelled cluster, in one process.
 *
 * If all ranks have the same work, every step waits for the slowest rank.  Then only that rank
 * runs, at rank 0's place, and the cluster's numbers describe it.  If tokens and hidden units
 * follow the ranks' speeds (not MOE_SHARES_EQUAL), ranks of equal speed form a class.  The executor
 * runs once for each class, as its first rank, because no other rank of the class has more work.
 * All kernels of a rank that is n times as fast as the slowest one take 1/n of the time.  Links are
 * the same for all ranks.
 *
 * The time of a step is that of the slowest class.  This is a lower bound: a real exchange begins
 * when all partners are ready, and here each class finds its partners ready.  It is exact if one
 * class is the last at every exchange, as with equal work.  It is nearly exact if shares make all
 * classes ready at about the same time, which is the purpose of shares.  If different classes are
 * late at different exchanges, a real step takes longer: at most the sum of the longest stretches
 * between exchanges. */
#ifndef MODELLED_RANKS_H
#define MODELLED_RANKS_H

#include "cluster.h"
#include "work.h"

/* The modelled ranks and their layer.  modelled_ranks_open() makes it whole; modelled_ranks_close()
 * frees it. */
struct modelled_ranks;

/* Opens the ranks of a cluster, which must have passed cluster_check_model(), and is borrowed for
 * the call.  `seed`: of its noise.  ERR_NOMEM after a message. */
int modelled_ranks_open(const struct cluster *cluster, uint64_t seed, struct modelled_ranks **out);
void modelled_ranks_close(struct modelled_ranks *ranks); /* NULL is fine */

/* Executes an order on all modelled ranks, as worker_do() does on real ones. */
void modelled_ranks_do(struct modelled_ranks *ranks, const struct order *order,
                       struct reply *reply);

/* Begins another launch of all modelled ranks, as worker_relaunch() does for one. */
void modelled_ranks_relaunch(struct modelled_ranks *ranks, uint32_t number);

/* Counts the kernels issued for the present classes: a measure of how much work modelling takes. */
uint64_t modelled_ranks_kernels(const struct modelled_ranks *ranks);

/* ---- classes: ranks with the same work and the same speed, of which only the first runs */

enum { RANK_CLASSES_MOST = 100 }; /* speeds are whole percents */

/* One class.  A plain value. */
struct rank_class {
    int rank; /* the first of the class, which runs */
    double
        pace; /* speed, as a multiple of the slowest rank's, which the cluster's numbers describe */
};

/* All classes of a layer, in the order of their first ranks.  A plain value. */
struct rank_classes {
    struct rank_class at[RANK_CLASSES_MOST];
    int count;
};

/* Finds the classes of a layer.  `speeds`: of all ranks; NULL: not known.  With MOE_SHARES_EQUAL,
 * or without speeds, there is one class, at rank 0's place. */
struct rank_classes rank_classes_of(const struct moe_shape *shape, const double *speeds,
                                    uint32_t ranks);

/* The cluster as seen by a rank that is `pace` times as fast as the slowest; links stay the same.
 */
struct cluster cluster_at_pace(struct cluster cluster, double pace);

#endif
