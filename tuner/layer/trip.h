/* A trip brings rows to their experts and back, in chunks on two streams: pack, send, arrange,
 * (experts), restore, return, unpack.  Forward and backward are the same trip with other rows.
 *
 * A copy that would move no row and keep the type is left out: its two buffers are one.  A *direct*
 * trip has no copies, except that results of slices are added up in the unpacking.  Each block
 * leaves from its place in `home` and arrives where the products read it.  With one expert on a
 * rank this takes the same messages.  With several experts it takes one message for each expert of
 * a peer, not one for all.  So blocks must be large enough for the wire (separate_bytes; the mean
 * of unequal blocks).  Other all-to-alls than linear, types that are converted on arrival, and
 * modelled ranks always pack, arrange and restore. */
#ifndef TRIP_H
#define TRIP_H

#include "a2a.h"
#include "arena.h"
#include "engine.h"
#include "geometry.h"
#include "uneven.h"

/* One of a chunk's two all-to-alls: to the experts, or back. */
struct trip_leg {
    struct uneven_leg rows; /* chunk and direction, and the rows of unequal experts */
    const struct trip *trip;
};

/* One trip.  The caller sets the members up to `ctas` (but not `direct`), then calls trip_layout()
 * and trip_open(); trip_close() frees what it owns. */
struct trip {
    const struct geometry *geometry;
    const struct uneven *uneven; /* rows of unequal experts; otherwise uneven_applies() is false */
    uint32_t experts, width;     /* experts that rows leave for: E, or those of a node; D */
    uint32_t dtype, compute_type;
    uint32_t algorithm;       /* enum moe_a2a */
    bool direct;              /* set by trip_layout() */
    bool rigid, naive;        /* baselines (baseline.h); rigid: `in` and `out` are (peers,
                               * local, rows, D) */
    uint32_t ctas;            /* of the all-to-alls; 0: the wire chooses */
    void *home;               /* (E,C,D) rows that leave; the caller fills it */
    struct chunks send, recv; /* (peers, local, rows, D) in the storage type */
    struct chunks in, out;    /* (local, peers, rows, D) in the compute type, for experts */
    struct chunks back_send, back_recv; /* as recv and send */
    void *back;                         /* (E,C,D) results that have come back, added up */
    void *scratch;                      /* of the all-to-alls */
    uint64_t scratch_rows;              /* its rows, with unequal experts */
    struct trip_leg send_legs[PLAN_MAX_D], return_legs[PLAN_MAX_D];
    struct a2a *sends[PLAN_MAX_D], *returns[PLAN_MAX_D];
    struct event *packed[PLAN_MAX_D], *arrived[PLAN_MAX_D], *done[PLAN_MAX_D],
        *returned[PLAN_MAX_D];
};

/* Places the buffers.  keep_in: backward still needs the rows in `in`.  wire NULL: as large as any
 * wire needs them. */
void trip_layout(struct trip *trip, const struct topology *topology, const struct wire *wire,
                 bool keep_in, struct arena *arena);

/* Opens the all-to-alls and events, after the layout with memory. */
int trip_open(struct trip *trip, struct engine *engine);
void trip_close(struct trip *trip);

/* Builds the all-to-alls again after the rows of experts have changed.  Every rank calls it, while
 * streams are idle. */
int trip_rebuild(struct trip *trip);

/* Computes the experts for a chunk: reads `in`, writes `out`. */
typedef int trip_experts(void *self, uint32_t chunk, const void *in, void *out);

/* The four steps of a trip; the caller enqueues them in this order.  On the communication stream
 * all sends come before all returns.  "Send, compute, return" for each chunk would overlap nothing:
 * the stream is in order, so a send behind a return would wait for the experts.  The host may issue
 * some sends later, in trip_compute(); that does not change the order on the stream, which is the
 * same on all ranks. */

/* Packs all chunks, and sends the first ones. */
int trip_depart(struct trip *trip, struct engine *engine);

/* Sends the other chunks, and computes each chunk that has arrived. */
int trip_compute(struct trip *trip, struct engine *engine, trip_experts *experts, void *self);

/* Sends the results back. */
int trip_return(struct trip *trip, struct engine *engine);

/* Adds up the results that come back, into `back`. */
int trip_unpack(struct trip *trip, struct engine *engine);

#endif
