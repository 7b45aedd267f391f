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

#include "geometry.h"
#include "router.h"
#include "uneven.h"

struct relay {
    const struct layer *layer;
    const struct geometry *geometry;
    const struct uneven *uneven; /* of experts that differ */
    struct router *router;
    struct stream *stream; /* compute */
    uint32_t ctas;
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

void relay_layout(struct relay *relay, struct arena *arena);

/* After the layout with real memory: exchanges and events. */
int relay_open(struct relay *relay, struct engine *engine);
void relay_close(struct relay *relay); /* a zeroed one is fine */

/* Tokens to the rows (E/N,C,D) that the trip inside the node begins with. */
int relay_send(struct relay *relay, struct engine *engine, const void *tokens, void *to);

/* y from the rows that the trip brought back. */
int relay_return(struct relay *relay, struct engine *engine, const void *from, void *y);

/* The same backward: `result` is what relay_return() had.  The gates' gradients are the router's
 * after relay_return_grads(); grad_x may be had when the router's part of it is there. */
int relay_send_grads(struct relay *relay, struct engine *engine, const void *grad_y,
                     const void *result, void *to);
int relay_return_grads(struct relay *relay, struct engine *engine, const void *from);
int relay_sum_grads(struct relay *relay, void *grad_x);

/* Routes x once and waits: the most tokens that this rank sends to any one node. */
int relay_need(const struct layer *layer, struct engine *engine, const void *x, int64_t *most);

#endif
