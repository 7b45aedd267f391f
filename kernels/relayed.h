/* The kernels of the all-to-all `rail`, in which a token goes once to each node that has some of
 * its experts.  The source lists the nodes of each token, and labels each row with the choices that
 * the row stands for.  The relay on the node gets rows of several sources, and gives their choices
 * slots (struct recount).
 *
 * N nodes have E/N experts each, in order.  A token goes to at most F = min(k, N) nodes.  Rows for
 * a node lie together, and nodes are `pitch` bytes apart. */
#ifndef RELAYED_H
#define RELAYED_H

#include "sparse.h"

#define RELAYED_KERNELS(row) row(list_nodes) row(label_rows) row(collect_gates)

/* The choices of the tokens of one source: an argument of all three kernels. */
struct listed_choices {
    uint32_t tokens, experts, top_k;
    uint32_t nodes;
    const int32_t *expert; /* (T,k), from route */
    const int64_t *slot;   /* (T,k), from route */
};

/* Lists the nodes of each token's kept choices, each node once, in the order of the choices; the
 * rest is -1. */
struct list_nodes {
    struct listed_choices choices;
    struct sent_choice *to; /* (T,F) out: "expert" is the node, gate 1 */
};

/* Where the row of each listed node lies; recount writes it. */
struct node_rows {
    uint64_t rows;         /* most rows for a node */
    const int32_t *node;   /* (T,F) */
    const int64_t *slot;   /* (T,F) */
    const int64_t *needed; /* (N) */
};

/* Writes, for each row, the k choices of its token.  The expert is counted from the node's first
 * one; it is -1 where the choice was dropped or goes to another node, and in rows without a token.
 */
struct label_rows {
    struct listed_choices choices;
    struct node_rows at;
    const float *gate; /* (T,k) */
    uint64_t pitch;
    void *to; /* (N) of (rows,k) struct sent_choice out */
};

/* Copies the gradient of each choice's gate from its row; 0 for a dropped choice. */
struct collect_gates {
    struct listed_choices choices;
    struct node_rows at;
    uint64_t pitch;
    const void *from; /* (N) of (rows,k) float */
    float *grad_gate; /* (T,k) out */
};

/* F, the most nodes to which a token goes. */
BOTH_SIDES static inline uint32_t most_nodes_per_token(const struct listed_choices *c)
{
    return c->top_k < c->nodes ? c->top_k : c->nodes;
}

#endif
