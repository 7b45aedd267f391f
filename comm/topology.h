/* How the ranks are spread over nodes and racks. */
#ifndef TOPOLOGY_H
#define TOPOLOGY_H

#include <stdbool.h>

/* The place of one rank among all.  A plain value. */
struct topology {
    int rank, ranks;
    int ranks_per_node; /* 0: nodes have different numbers of ranks, or ranks are not in order */
    int ranks_per_rack; /* a rack has several nodes; 0: no racks are known */
};

/* True where there are several nodes of several ranks, and rank = node * ranks_per_node + place. */
static inline bool topology_two_levels(const struct topology *t)
{
    return t->ranks_per_node > 1 && t->ranks_per_node < t->ranks &&
           t->ranks % t->ranks_per_node == 0;
}

/* True where, in addition, there are several racks of several nodes. */
static inline bool topology_three_levels(const struct topology *t)
{
    int m = t->ranks_per_node, p = t->ranks_per_rack;

    return topology_two_levels(t) && p > m && p % m == 0 && p < t->ranks && t->ranks % p == 0;
}

#endif
