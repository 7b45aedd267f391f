/* All ranks of a modelled cluster, in one process.
 *
 * Where all have the same work, every step waits for the slowest one: it runs alone, at rank 0's
 * place, and a cluster's numbers are its numbers.  Where tokens and hidden units follow the ranks'
 * speeds (not MOE_SHARES_EQUAL), the executor runs once for each class of ranks that are equally
 * fast, for the first of them, at its own place: no other of the class has more.  All kernels of a
 * rank that is n times as fast as the slowest one take 1/n of the time.  Links are the same for
 * all.
 *
 * A step takes as long as that of the slowest class.  That is the least it can take: an exchange
 * begins when all of its partners are ready, and here each class finds them ready.  It is exact if
 * one class is the last at every exchange, as with equal work, and nearly so if shares make all
 * classes ready at about the same time, which is what shares are for.  A step in which now one
 * class and now another is late takes longer: at most the sum of the longest stretches between
 * exchanges. */
#ifndef MODELLED_RANKS_H
#define MODELLED_RANKS_H

#include "cluster.h"
#include "work.h"

struct modelled_ranks;

/* The cluster must have passed cluster_check_model(); it is not kept. */
int modelled_ranks_open(const struct cluster *cluster, uint64_t seed, struct modelled_ranks **out);
void modelled_ranks_close(struct modelled_ranks *ranks); /* NULL is fine */

/* Does the order as worker_do() does, on all of them. */
void modelled_ranks_do(struct modelled_ranks *ranks, const struct order *order,
                       struct reply *reply);

/* Starts all of them anew, as worker_relaunch() does. */
void modelled_ranks_relaunch(struct modelled_ranks *ranks, uint32_t number);

/* Kernels that were issued for the present classes: the work that modelling takes. */
uint64_t modelled_ranks_kernels(const struct modelled_ranks *ranks);

/* ---- ranks that have the same work and are equally fast: one of them is run */

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

/* The cluster as a rank sees it that is so many times as fast.  Links are the same for all. */
struct cluster cluster_at_pace(struct cluster cluster, double pace);

#endif
