/* The kernels of tokens that go to a node once, however many of their choices lie there: the source
 * lists the nodes of its tokens and labels each row that it sends with the choices it stands for;
 * the relay on that node, which has the rows of several sources, gives them slots (struct recount).
 *
 * N nodes have E/N experts each, in order.  A token goes to F = min(k, N) nodes at most.  Rows for
 * a node lie together, and so do nodes, `pitch` bytes from one to the next. */
#ifndef RELAYED_H
#define RELAYED_H

#include "sparse.h"

#define RELAYED_KERNELS(row) row(list_nodes) row(label_rows) row(collect_gates)

struct listed_choices {
    uint32_t tokens, experts, top_k;
    uint32_t nodes;
    const int32_t *expert; /* (T,k), slot too: as route leaves them */
    const int64_t *slot;
};

/* The nodes of each token's kept choices, each once, in the order of the choices; then -1. */
struct list_nodes {
    struct listed_choices choices;
    struct sent_choice *to; /* (T,F) out: "expert" is the node, gate 1 */
};

/* Where the rows of listed nodes lie, as recount leaves it. */
struct node_rows {
    uint64_t rows;         /* for a node, at most */
    const int32_t *node;   /* (T,F) */
    const int64_t *slot;   /* (T,F) */
    const int64_t *needed; /* (N) */
};

/* Beside each row the k choices of its token: expert as the node counts its own, -1 where it was
 * dropped or lies elsewhere.  Rows that no token fills have none. */
struct label_rows {
    struct listed_choices choices;
    struct node_rows at;
    const float *gate; /* (T,k) */
    uint64_t pitch;
    void *to; /* (N) of (rows,k) struct sent_choice out */
};

/* The gradient of each choice's gate from where its row was; 0 if it was dropped. */
struct collect_gates {
    struct listed_choices choices;
    struct node_rows at;
    uint64_t pitch;
    const void *from; /* (N) of (rows,k) float */
    float *grad_gate; /* (T,k) out */
};

BOTH_SIDES static inline uint32_t listed_fan(const struct listed_choices *c)
{
    return c->top_k < c->nodes ? c->top_k : c->nodes;
}

#endif
