/* The ways: how a step computes, from tokens to results and back.  Each has a file of its own, and
 * exec.c chooses the way of a plan. */
#ifndef WAY_H
#define WAY_H

#include "arena.h"
#include "exec.h"

/* The largest state of a way, since exec_bytes() has one on its stack.  WAY_STATE_BYTES() does not
 * compile for a larger one. */
enum { WAY_STATE_MOST = 8192 };
#define WAY_STATE_BYTES(type)                                                                      \
    (sizeof(type) + 0 * sizeof(char[sizeof(type) <= WAY_STATE_MOST ? 1 : -1]))

/* The functions of one way; one constant for each. */
struct way_ops {
    bool waits; /* in each step the host waits for counts: each layer has its own rows, and a step
                 * cannot be queued before it runs */
    const char *why_no_known_routes; /* why it cannot use known routes; NULL: it can */
    uint32_t weight_rooms; /* pieces of weights for which all layers share memory; 0: each layer has
                            * memory for all its pieces */
    size_t state_bytes;    /* of one layer's state, which is zeroed before the first layout */

    /* Places the buffers: first without memory, to find their size, then with memory. */
    void (*layout)(struct exec *x, struct arena *arena);

    /* Opens events and exchanges, after the layout with memory.  NULL: there are none. */
    int (*open)(struct exec *x);
    void (*close)(struct exec *x); /* also of a half-open state */

    /* Enqueues the gathers of weights; NULL: those of all pieces. */
    int (*fetch)(struct exec *x);

    /* Enqueue a layer's passes.  forward() comes after the router; with known routes, the gates are
     * not computed yet.  backward() includes the router's gradients. */
    int (*forward)(struct exec *x, const void *tokens, void *y);
    int (*backward)(struct exec *x, const void *grad_y, void *grad_x);
};

extern const struct way_ops way_padded, /* padded.c: padded rows travel to their experts */
    way_counted,                        /* counted.c: only rows that exist travel */
    way_relayed,                        /* relay.c: a token goes once to each node (a=rail) */
    way_dense,                          /* baseline.c: dense products make the rows */
    way_sparse,                         /* sparse_experts.c: weights come to the tokens (r=0) */
    way_cached,                         /* sparse_experts.c: and layers share memory (w=cache) */
    way_tour;                           /* tour.c: tokens go to all ranks (r=W, layout=hidden) */

/* True where choices are known before the gates. */
static inline bool way_has_known_routes(const struct exec *x)
{
    return x->router.routes != ROUTES_FRESH;
}

#endif
