/* How ranks lie on nodes. */
#ifndef TOPOLOGY_H
#define TOPOLOGY_H

#include <stdbool.h>

struct topology {
    int rank, ranks;
    int ranks_per_node; /* 0: nodes hold different numbers, or ranks are not node by node */
    int ranks_per_rack; /* of several nodes; 0: nodes are all as near to each other */
};

/* Two levels that both mean something, and rank = node * ranks_per_node + local. */
static inline bool topology_two_levels(const struct topology *t)
{
    return t->ranks_per_node > 1 && t->ranks_per_node < t->ranks &&
           t->ranks % t->ranks_per_node == 0;
}

/* And a third: racks of several nodes. */
static inline bool topology_three_levels(const struct topology *t)
{
    int m = t->ranks_per_node, p = t->ranks_per_rack;

    return topology_two_levels(t) && p > m && p % m == 0 && p < t->ranks && t->ranks % p == 0;
}

#endif
