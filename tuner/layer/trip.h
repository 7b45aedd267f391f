/* The way of token rows to their experts and back, in chunks on two streams: pack, send, arrange,
 * (experts), restore, return, unpack.  Forward and backward make the same trip with different rows.
 *
 * A copy that would leave every row where it is, in the same type, is not made: its two buffers are
 * one.  A *direct* trip arranges nothing: each block leaves from where the rows lie and arrives
 * where the products of its expert read it, so only slices' results are still unpacked, since they
 * are summed.  With one expert on a rank that costs no message more.  With several it is a message
 * for each expert of a peer instead of one for all, so blocks must be large enough for the wire
 * (its separate_bytes, for the mean of blocks that differ); smaller ones, other all-to-alls than
 * linear, types that are converted on arrival and modelled ranks keep to packing, arranging and
 * restoring. */
#ifndef TRIP_H
#define TRIP_H

#include "a2a.h"
#include "arena.h"
#include "engine.h"
#include "geometry.h"
#include "uneven.h"

/* One of a chunk's two all-to-alls. */
struct trip_leg {
    struct uneven_leg rows; /* which it is, and of experts that differ what it carries */
    const struct trip *trip;
};

struct trip {
    const struct geometry *geometry;
    const struct uneven *uneven; /* of experts that differ; else it does not apply */
    uint32_t experts, width;     /* that rows leave for: E, or those of a node; D */
    uint32_t dtype, compute_type;
    uint32_t algorithm;                 /* enum moe_a2a */
    bool direct;                        /* found by trip_layout() */
    bool rigid, naive;                  /* baselines (baseline.h): `in` and `out` are (peers, local,
                                         * rows, D), too; 2dh does not align blocks */
    uint32_t ctas;                      /* of the all-to-alls; 0: as many as the wire likes */
    void *home;                         /* (E,C,D): rows as they leave; the caller fills it */
    struct chunks send, recv;           /* (peers, local, rows, D) storage type */
    struct chunks in, out;              /* (local, peers, rows, D) compute type: what experts see */
    struct chunks back_send, back_recv; /* as send and recv */
    void *back;                         /* (E,C,D): summed rows as they come home */
    void *scratch;
    uint64_t scratch_rows; /* of experts that differ */
    struct trip_leg legs_go[PLAN_MAX_D], legs_come[PLAN_MAX_D];
    struct a2a *go[PLAN_MAX_D], *come[PLAN_MAX_D];
    struct event *packed[PLAN_MAX_D], *arrived[PLAN_MAX_D], *done[PLAN_MAX_D],
        *returned[PLAN_MAX_D];
};

/* Cuts the buffers.  keep_in: the rows experts saw are still wanted after the trip.  Without a
 * wire: as large as any needs them. */
void trip_layout(struct trip *trip, const struct topology *topology, const struct wire *wire,
                 bool keep_in, struct arena *arena);

/* After the layout with real memory: all-to-alls and events. */
int trip_open(struct trip *trip, struct engine *engine);
void trip_close(struct trip *trip);

/* Once the rows of experts are other ones, on every rank: the next trip carries these.  The streams
 * are idle. */
int trip_rebuild(struct trip *trip);

/* What experts do to chunk i: reads `in`, writes `out`. */
typedef int trip_experts(void *self, uint32_t chunk, const void *in, void *out);

/* The four legs, in this order.  All sends go first on the communication stream, then all returns:
 * "send, compute, return" chunk by chunk overlaps nothing, since the stream is in order and a send
 * behind a return would wait for the experts.  Some sends are issued by trip_compute(): the order
 * in which the host issues to the two streams is another matter, the same on all ranks. */
int trip_depart(struct trip *trip, struct engine *engine);
int trip_compute(struct trip *trip, struct engine *engine, trip_experts *experts, void *self);
int trip_return(struct trip *trip, struct engine *engine);
int trip_unpack(struct trip *trip, struct engine *engine);

#endif
