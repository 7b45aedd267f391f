/* The ways that a step may take from tokens to results and back.  Each has a file of its own; which
 * one a plan takes is said in exec.c. */
#ifndef WAY_H
#define WAY_H

#include "arena.h"
#include "exec.h"

/* Of a state; what is too large for those who measure one on their stack is no legal array. */
enum { WAY_STATE_MOST = 8192 };
#define WAY_STATE_BYTES(type)                                                                      \
    (sizeof(type) + 0 * sizeof(char[sizeof(type) <= WAY_STATE_MOST ? 1 : -1]))

struct way_ops {
    bool waits; /* the host waits for counts before it issues the rest of a step: rows are each
                 * layer's own, and no step is queued before it runs */
    const char *refuses_known; /* why known routes do not go with it; NULL: they do */
    uint32_t weight_rooms; /* pieces of weights that all layers have room for together; 0: each has
                            * it for all of its own */
    size_t state_bytes;    /* of a layer; zeroed before the first layout */

    /* Cuts the device's memory: once without any, to measure it, and once more with it. */
    void (*layout)(struct exec *x, struct arena *arena);

    /* After the layout with real memory: events and exchanges.  NULL: there are none. */
    int (*open)(struct exec *x);
    void (*close)(struct exec *x); /* copes with a half */

    /* Enqueues the gathering of weights; NULL: all of them, each to its own place. */
    int (*fetch)(struct exec *x);

    /* Forward: after the router, which has not made the gates yet where routes are known.
     * Backward: the router's part as well. */
    int (*forward)(struct exec *x, const void *tokens, void *y);
    int (*backward)(struct exec *x, const void *grad_y, void *grad_x);
};

extern const struct way_ops way_padded, /* padded.c: rows of padded experts travel to them */
    way_counted,                        /* counted.c: as many of them as there are */
    way_relayed,                        /* relay.c: between nodes each token does once (a=rail) */
    way_dense,                          /* baseline.c: dense products make the rows */
    way_sparse,                         /* sparse_experts.c: weights come to the tokens (r=0) */
    way_cached,                         /* likewise, and layers share the room for them (w=cache) */
    way_tour;                           /* tour.c: tokens go to all ranks (r=W, layout=hidden) */

/* Whether choices are there before the gates. */
static inline bool way_is_known(const struct exec *x)
{
    return x->router.routes != ROUTES_FRESH;
}

#endif
