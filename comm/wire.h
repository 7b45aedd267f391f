/* A wire moves bytes between ranks on a stream of the device.  All-to-alls and gathers are written
 * over its batches, and need nothing else of a transport. */
#ifndef WIRE_H
#define WIRE_H

#include "device.h"
#include "topology.h"

struct wire;
struct world;

/* Bytes to one peer and bytes from it.  A plain value that borrows its memory.  What one of the two
 * ranks sends, the other receives.  A transfer of a rank with itself is a copy; then both sizes are
 * equal. */
struct transfer {
    int peer;
    const void *send; /* ignored where there are no bytes */
    void *recv;
    size_t send_bytes, recv_bytes;
};

/* The ranks first to first + count - 1; the caller is one of them. */
struct group {
    int first, count;
};

/* Operations that a communication library may have as one call.  Elsewhere, transfers do the same.
 */
enum collective_kind {
    COLLECTIVE_GATHER,     /* slice i of recv becomes what the group's rank i has at send */
    COLLECTIVE_SUM,        /* recv becomes the group's sum of this rank's slice of send */
    COLLECTIVE_ALL_TO_ALL, /* block i of send goes to rank i, and block i of recv comes from it */
};

/* One call of such an operation.  A plain value that borrows its memory. */
struct collective {
    enum collective_kind kind;
    struct group group;
    const void *send;
    void *recv;
    size_t bytes;   /* of one slice or block */
    uint32_t dtype; /* enum moe_dtype of the elements to sum */
};

/* Transfers and collectives that start together and end together.  It is built once and run many
 * times.  It must outlive every exchange that is enqueued; batch_free() frees it. */
struct batch {
    struct transfer *transfers;
    int count, room;
    struct collective *collectives; /* only kinds that the wire has (wire_has()) */
    int collective_count, collective_room;
    uint32_t ctas;  /* number of GPU thread blocks that may copy; 0: the wire chooses */
    uint32_t proto; /* enum moe_proto of collectives; a wire that cannot set it chooses itself */
    bool of_tokens; /* it belongs to an all-to-all; else it carries weights */
    bool staged;    /* it is one of the several exchanges of one all-to-all */
    void *prepared; /* the wire's own data, since wire_reserve(); NULL: none */
    void (*free_prepared)(struct batch *batch); /* frees `prepared` */
};

/* The functions of one kind of wire; wire_...() below say what each does. */
struct wire_ops {
    const char *name;
    void (*close)(struct wire *wire);
    int (*reserve)(struct wire *wire, struct batch *batch); /* NULL: it needs nothing */
    int (*exchange)(struct wire *wire, struct stream *stream, const struct batch *batch);
    int (*wait)(struct wire *wire, struct stream *stream); /* NULL: stream_sync() is enough */
    int (*withdraw)(struct wire *wire,
                    const void *memory); /* NULL: ranks open no memory of others */
    /* NULL: ranks map no memory that graphs of other ranks name. */
    int (*reclaim)(struct wire *wire, struct stream *stream);
    /* Both NULL: an exchange allocates nothing. */
    int (*survey)(struct wire *wire);
    int (*trim)(struct wire *wire);
    unsigned collectives; /* bit 1 << kind: an exchange may have such collectives */
    bool graphs; /* an exchange that has run once may be part of a device's graph, and may be
                  * enqueued whole before any of it runs */
};

/* An open wire: the part that all kinds share, first member of each kind's own struct.
 * wire_close() frees it. */
struct wire {
    const struct wire_ops *ops;
    struct topology topology;
    /* From this size of block on, a transfer for each block is no slower than one transfer of all
     * blocks for a peer and a copy that puts them in place.  0: always one transfer. */
    size_t separate_bytes;
    size_t
        alloc_multiple_bytes; /* exchanges write to memory whose size is a multiple; 0: any size */
    bool pretends; /* the bytes that arrive are wrong (wire virtual), so no result can be checked */
    /* What left this rank, counted when enqueued; a collective counts as the transfers that it
     * replaces. */
    uint64_t sent_bytes, messages;
    uint64_t exchanges; /* enqueued */
};

/* Opens a wire by name for memory of this device: "mpi" (device host), "nccl" or "ce" (device
 * cuda).  NULL: the first that applies.  Collective, the same status on every rank.  ERR_ARGUMENT:
 * there is no such wire; the message lists those of the device.  UNSUPPORTED: the wire does not
 * apply to these ranks; a note says why.  World and device are borrowed and must outlive it. */
int wire_open(const char *name, struct world *world, struct device *device, struct wire **out);
void wire_close(struct wire *wire); /* NULL is fine */

/* The `count` ranks first, first + stride, ...; the caller is one of them. */
struct peers {
    int first, stride, count;
};

/* Adds a transfer of `bytes` each way with every peer.  The i-th peer gets the bytes at send + i *
 * send_step, and its own bytes go to recv + i * bytes.  Adds nothing for 0 bytes.  Each rank begins
 * with itself and its right neighbour; in one common order, all ranks would begin with rank 0.
 * ERR_NOMEM: memory is short. */
int batch_add(struct batch *batch, const struct wire *wire, struct peers peers, const void *send,
              size_t send_step, void *recv, size_t bytes);

/* Adds one transfer, whose two sizes may differ and may be 0.  Both ranks of a pair must add their
 * transfers in the same order.  Adds nothing where both sizes are 0.  A rank whose batch stays
 * empty takes no part in the exchange; over NCCL it must not be empty in the first exchange,
 * because all ranks make a communicator together. */
int batch_add_transfer(struct batch *batch, const struct transfer *transfer);

/* True where batch_add_collective() may be used.  A library divides all ranks into groups at once,
 * so every rank must be in a group, and all groups must have the same size. */
bool wire_has(const struct wire *wire, enum collective_kind kind, struct group group);

/* Adds a collective; nothing for 0 bytes.  Every rank must add as many, in the same order, of the
 * same kind and with the same size of group. */
int batch_add_collective(struct batch *batch, const struct collective *collective);

bool batch_is_empty(const struct batch *batch);

/* True where the batch exchanges bytes with another node.  Where ranks_per_node is 0, every rank
 * but the caller may be on another node. */
bool batch_leaves_node(const struct batch *batch, const struct topology *topology);

/* Frees a batch; its wire must still be open. */
void batch_free(struct batch *batch);

/* Prepares the wire for this batch, so that the exchange allocates nothing.  The stream must be
 * idle.  After the batch has changed, the caller must call it again. */
int wire_reserve(struct wire *wire, struct batch *batch);

/* Enqueues one exchange.  A wire runs one exchange at a time, in the order of its stream, which
 * must be the same on every rank.  ERR_NOMEM, on all ranks: the wire lacks memory for this exchange
 * (see wire_survey()), and can still be used. */
int wire_exchange(struct wire *wire, struct stream *stream, const struct batch *batch);

/* Waits until no other rank has this memory open.  Must be called before the memory is freed, and
 * after batch_free() of the batches that name it.  ERR_WIRE: another rank may keep it open, and the
 * caller must not free the memory. */
int wire_withdraw(struct wire *wire, const void *memory);

/* Waits until no rank has memory mapped for a graph that is closed.  Collective.  Must be called
 * after graphs with exchanges are closed, and before memory that they name is freed.  ERR_WIRE: a
 * rank may still have it mapped. */
int wire_reclaim(struct wire *wire, struct stream *stream);

/* Ranks agree on how much memory is free for what exchanges of new batches allocate.  Collective,
 * before the first of these exchanges. */
int wire_survey(struct wire *wire);

/* Frees what the wire keeps for later exchanges, where memory is short.  Collective, the same
 * status on all ranks; no graph with exchanges may be open.  UNSUPPORTED: there was nothing to
 * free. */
int wire_trim(struct wire *wire);

/* Waits for a stream that exchanges; must be called before stream_sync() of it.  ERR_WIRE: another
 * rank failed; the exchanges are ended, and the wire cannot be used any more. */
int wire_wait(struct wire *wire, struct stream *stream);

/* Each opens one kind of wire, for wire_open(): whole on every rank, or on none. */
int wire_mpi_open(struct world *world, struct device *device, struct wire **out);
int wire_nccl_open(struct world *world, struct device *device, struct wire **out);
int wire_ce_open(struct world *world, struct device *device, struct wire **out);

#endif
