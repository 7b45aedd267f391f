/* The first hop of a=rail.  A token goes once to each node that has an expert of its choice, to the
 * relay: the rank there with the sender's place in its node.  The relay forwards the rows of its
 * sources inside the node, as a trip among m ranks, and adds up a token's results before they go
 * back.
 *
 * Expert and gate of each choice (the labels) travel with the row, and the gates' gradients come
 * back with the row's gradient.  Both lie behind a node's rows, so that two relays exchange one
 * message. The source decides which choices are dropped; a relay has room for all rows that come.
 */
#ifndef RELAY_H
#define RELAY_H

#include "padded.h"

/* The state of way_relayed. */
struct relay {
    struct padded padded;       /* the trip inside the node; must be first */
    uint64_t rows;              /* c1: most rows for a node from a source */
    uint64_t pitch;             /* rows plus the labels behind them, counted in rows */
    struct sent_choice *listed; /* (T,F) nodes of each token */
    int32_t *node;              /* (T,F), as are node_slot and ones: listed, in recount's form */
    int64_t *node_slot, *node_needed; /* node_needed: (N) */
    float *ones;
    /* (N,pitch,D), by node: rows that the source sends, that the relay gets, that it sends back,
     * and that the source gets back.  Labels stay in place, for steps with one stream muted. */
    char *home, *away, *done, *back;
    int32_t *expert; /* (N pitch,k) choices of the relayed rows, among the node's experts */
    int64_t *slot, *needed;
    float *gate, *grad_gate;
    struct batch send_labelled, send_rows, return_rows, return_grads;
    struct event *packed, *arrived, *merged, *returned;
};

/* c1 of an executor; 0: its plan does not have a=rail. */
uint64_t relay_rows(const struct exec *x);

/* Routes x once, waits, and gives the most tokens that this rank sends to any one node. */
int relay_need(const struct layer *layer, struct engine *engine, const void *x, int64_t *most);

#endif
