/* Grouped send and receive on a stream: all that the algorithms of this folder need of a transport.
 */
#ifndef WIRE_H
#define WIRE_H

#include "device.h"
#include "topology.h"

struct wire;
struct world;

/* To one peer and from it: what one of the two sends is what the other receives.  A transfer with
 * oneself is a copy, of as many bytes. */
struct transfer {
    int peer;
    const void *send; /* not looked at where there are no bytes */
    void *recv;
    size_t send_bytes, recv_bytes;
};

/* Ranks first .. first + count - 1, the caller among them. */
struct group {
    int first, count;
};

/* What a communication library may have as one call; elsewhere transfers do it. */
enum collective_kind {
    COLLECTIVE_GATHER,     /* slice i of recv becomes what the group's rank i has at send */
    COLLECTIVE_SUM,        /* recv becomes the group's sum of this rank's slice of send */
    COLLECTIVE_ALL_TO_ALL, /* block i of send goes to rank i, whose own becomes block i of recv */
};

struct collective {
    enum collective_kind kind;
    struct group group;
    const void *send;
    void *recv;
    size_t bytes;   /* of one slice or block */
    uint32_t dtype; /* enum moe_dtype, of what is summed */
};

/* Transfers and collectives that start together and are complete together.  Built once, run many
 * times; it must outlive every exchange that is queued. */
struct batch {
    struct transfer *transfers;
    int count, room;
    struct collective *collectives; /* only those that its wire has */
    int collective_count, collective_room;
    uint32_t ctas;  /* blocks of a GPU's threads that may copy; 0: as many as the wire likes */
    uint32_t proto; /* enum moe_proto, of collectives; a wire that cannot set it chooses itself */
    bool of_tokens; /* of an all-to-all; else of weights */
    bool staged;    /* one of an all-to-all's several exchanges */
    void *kept;     /* what the wire keeps for it since wire_reserve(); NULL: nothing */
    void (*forget)(struct batch *batch); /* frees that */
};

struct wire_ops {
    const char *name;
    void (*close)(struct wire *wire);
    int (*reserve)(struct wire *wire, struct batch *batch); /* NULL: it needs nothing */
    int (*exchange)(struct wire *wire, struct stream *stream, const struct batch *batch);
    int (*wait)(struct wire *wire, struct stream *stream);  /* NULL: stream_sync() is enough */
    int (*withdraw)(struct wire *wire, const void *memory); /* NULL: no rank opens another's */
    /* NULL: no rank maps what another one's graphs name. */
    int (*reclaim)(struct wire *wire, struct stream *stream);
    int (*survey)(struct wire *wire);
    int (*trim)(struct wire *wire); /* NULL, both: it allocates nothing in an exchange */
    unsigned collectives;           /* 1 << kind: what an exchange may carry besides transfers */
    bool graphs; /* once it has run, an exchange may be part of a device's graph, and be
                  * queued whole before any of it runs */
};

struct wire {
    const struct wire_ops *ops;
    struct topology topology;
    size_t apart_bytes; /* from here on a transfer for each block is no slower than one transfer of
                         * all blocks for a peer, and a copy that puts them in place; 0: they go
                         * together in any case */
    size_t lent_bytes;  /* memory that exchanges come into is a multiple of this; 0: of any size */
    bool pretends; /* what arrives is not what the others would send: no result can be checked */
    uint64_t sent_bytes, messages; /* that left this rank, counted when enqueued; of a collective
                                    * what transfers in its place would be */
    uint64_t exchanges;            /* enqueued */
};

/* Opens a wire by name for memory of this device: "mpi" (Open MPI, device host); "nccl" and "ce"
 * (copy engines of one node, device cuda).  NULL: the first that applies.  Collective, the same
 * status on every rank: ERR_ARGUMENT lists what there is; UNSUPPORTED says why the wire that was
 * asked for does not apply to these ranks.  World and device are borrowed and must outlive it. */
int wire_open(const char *name, struct world *world, struct device *device, struct wire **out);
void wire_close(struct wire *wire); /* NULL is fine */

/* Ranks first, first + stride, ...: `count` of them, the caller among them. */
struct peers {
    int first, stride, count;
};

/* Adds a transfer of `bytes` each way with every peer: the i-th gets what lies at send + i *
 * send_step, and what it sends goes to recv + i * bytes.  Nothing is added for no bytes.  Each rank
 * begins with itself and its right neighbour: in the same order all would begin with one rank. */
int batch_add(struct batch *batch, const struct wire *wire, struct peers peers, const void *send,
              size_t send_step, void *recv, size_t bytes);

/* One transfer, whose sizes may differ, 0 among them.  Both of a pair add theirs in the same order;
 * nothing is added for no bytes either way.  A rank whose batch stays empty takes no part at all:
 * not for the first exchange over NCCL, whose communicators all ranks make together. */
int batch_add_transfer(struct batch *batch, const struct transfer *transfer);

/* True where batch_add_collective() may be used.  A library divides all ranks into groups at once,
 * so all ranks must be in one, and all groups be as large. */
bool wire_has(const struct wire *wire, enum collective_kind kind, struct group group);

/* Every rank adds as many, in the same order, of the same kind and size of group.  Nothing is added
 * for no bytes. */
int batch_add_collective(struct batch *batch, const struct collective *collective);

bool batch_is_empty(const struct batch *batch);

/* Some of it goes to or comes from another node.  Where nodes differ (no ranks_per_node), so may
 * all but what a rank gives itself. */
bool batch_leaves_node(const struct batch *batch, const struct topology *topology);
void batch_free(struct batch *batch); /* while its wire is open */

/* Makes what the wire needs for this batch, so that the exchange allocates nothing.  The stream
 * must be idle.  Of a batch that has changed it is called again: what it kept is made anew. */
int wire_reserve(struct wire *wire, struct batch *batch);

/* One exchange at a time per wire: its stream runs them in order, the same on every rank.
 * ERR_NOMEM, on all ranks: the wire lacks memory for it (wire_survey()), and stays of use. */
int wire_exchange(struct wire *wire, struct stream *stream, const struct batch *batch);

/* To be called before memory that exchanges came into is released, after the batches that named it
 * are freed: waits until no other rank has it open.  ERR_WIRE: one may have it for ever, and the
 * memory must not be released. */
int wire_withdraw(struct wire *wire, const void *memory);

/* Collective.  To be called after graphs with exchanges were closed and before memory that they
 * named is released: waits until no rank has it mapped for one of them.  ERR_WIRE: one may have it.
 */
int wire_reclaim(struct wire *wire, struct stream *stream);

/* Collective, before the first exchange of new batches: ranks agree on the memory that is left for
 * what the wire makes in it. */
int wire_survey(struct wire *wire);

/* Collective, where memory is short: gives back what it keeps for exchanges to come.  No graph with
 * exchanges may be open.  The same status on all ranks; UNSUPPORTED: there was nothing. */
int wire_trim(struct wire *wire);

/* To be called before stream_sync() of a stream that exchanges: waits for it, and ends what other
 * ranks will never complete.  ERR_WIRE then; the wire is of no more use. */
int wire_wait(struct wire *wire, struct stream *stream);

/* The wires themselves, for wire_open(): what each opens is whole on every rank, or on none. */
int wire_mpi_open(struct world *world, struct device *device, struct wire **out);
int wire_nccl_open(struct world *world, struct device *device, struct wire **out);
int wire_ce_open(struct world *world, struct device *device, struct wire **out);

#endif
