/* Grouped send and receive on a stream: all that the algorithms of this folder need of a transport.
 */
#ifndef WIRE_H
#define WIRE_H

#include "device.h"
#include "topology.h"

struct wire;
struct world;

/* `bytes` to one peer and as many from it.  A transfer with oneself is a copy. */
struct transfer {
    int peer;
    const void *send;
    void *recv;
    size_t bytes;
};

/* Transfers that start together and are complete together.  Built once, run many times; it must
 * outlive every exchange that is queued. */
struct batch {
    struct transfer *transfers;
    int count, room;
};

struct wire_ops {
    const char *name;
    void (*close)(struct wire *wire);
    int (*reserve)(struct wire *wire, const struct batch *batch);
    int (*exchange)(struct wire *wire, struct stream *stream, const struct batch *batch);
};

struct wire {
    const struct wire_ops *ops;
    struct topology topology;
    uint64_t sent_bytes, messages; /* that left this rank, counted when enqueued */
};

/* The wire `mpi`: Open MPI on host memory.  The world is borrowed and must outlive it. */
int wire_mpi_open(struct world *world, struct wire **out);
void wire_close(struct wire *wire);

/* Ranks first, first + stride, ...: `count` of them, the caller among them. */
struct peers {
    int first, stride, count;
};

/* Adds a transfer of `bytes` each way with every peer: the i-th gets what lies at send + i *
 * send_step, and what it sends goes to recv + i * bytes.  Nothing is added for no bytes.  Each rank
 * begins with itself and its right neighbour: in the same order all would begin with one rank. */
int batch_add(struct batch *batch, const struct wire *wire, struct peers peers, const void *send,
              size_t send_step, void *recv, size_t bytes);
void batch_free(struct batch *batch);

/* Makes what the wire needs for this batch, so that the exchange allocates nothing.  The stream
 * must be idle. */
int wire_reserve(struct wire *wire, const struct batch *batch);

/* One exchange at a time per wire: its stream runs them in order, the same on every rank. */
int wire_exchange(struct wire *wire, struct stream *stream, const struct batch *batch);

#endif
