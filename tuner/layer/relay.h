/* The first hop of a=rail: a token goes once to each node that holds an expert of its choice, to
 * the rank there with the sender's place in its node, the relay.  It forwards the rows of its
 * sources inside the node, as a trip among m ranks, and sums up a token's results before they go
 * back.
 *
 * Of each choice its expert and gate travel with the row, and the gate's gradient comes back with
 * the row's.  Both lie behind a node's rows, so that each pair of relays exchanges one message.
 * What is dropped is decided by the source, in its own slots: a relay has room for all that comes.
 */
#ifndef RELAY_H
#define RELAY_H

#include "padded.h"

/* State of way_relayed. */
struct relay {
    struct padded padded;       /* the trip inside the node */
    uint64_t rows;              /* c1: for a node from a source */
    uint64_t pitch;             /* with room for what travels behind them, in rows too */
    struct sent_choice *listed; /* (T,F) nodes of the tokens; as routing: */
    int32_t *node;
    int64_t *node_slot, *node_needed;
    float *ones;
    /* (N,pitch,D) by node: rows as they leave and as they reach the relay, as it sends them back
     * and as they come home.  Labels stay in place for a step with one stream muted. */
    char *home, *away, *done, *back;
    int32_t *expert; /* (N pitch,k) of the relayed rows, among the node's experts */
    int64_t *slot, *needed;
    float *gate, *grad_gate;
    struct batch labelled, go, come, graded;
    struct event *packed, *arrived, *merged, *returned;
};

/* c1 of an executor; 0: it takes another way. */
uint64_t relay_rows(const struct exec *x);

/* Routes x once and waits: the most tokens that this rank sends to any one node. */
int relay_need(const struct layer *layer, struct engine *engine, const void *x, int64_t *most);

#endif
