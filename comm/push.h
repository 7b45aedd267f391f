/* The protocol of copies into other ranks' memory: who copies when, and who knows that it is done.
 * It knows no device and no process: memory, events and copies are asked of push_device, and ranks
 * meet on a board in memory that all of them see.
 *
 * One exchange, for each pair of ranks, both ways:
 *     the receiver records READY (what was in its buffer is used up) and posts where the buffer is;
 *     the sender takes the post, has its stream await READY, copies, records DONE and says so;
 *     the receiver has its stream await DONE.
 * Posts are met while queueing, by the driving threads; the streams themselves wait only for events
 * that are recorded already.  A rank that dies may still leave a stream waiting for one that it has
 * recorded and never reached. */
#ifndef PUSH_H
#define PUSH_H

#include "watch.h"
#include "wire.h"

#include <stddef.h>

/* Where a receiver's buffer lies, in words that another rank of this host understands. */
struct push_place {
    unsigned char handle[64]; /* of a whole allocation */
    uint64_t offset;
    uint32_t loan; /* its owner's number for it, see below */
};

enum push_sign { PUSH_READY, PUSH_DONE, PUSH_SIGNS };

/* A sign is an event per pair: `record` records the one that `peer` awaits; `await` awaits the one
 * that `peer` recorded last for this rank. */
struct push_device {
    void *self;
    int (*place)(void *self, const struct transfer *transfer, struct push_place *out); /* recv */
    int (*reach)(void *self, const struct transfer *transfer, const struct push_place *place,
                 void **out); /* the peer's buffer for this transfer */
    int (*record)(void *self, struct stream *stream, enum push_sign sign, int peer);
    int (*await)(void *self, struct stream *stream, enum push_sign sign, int peer);
    int (*copy)(void *self, struct stream *stream, void *to, const void *from, size_t bytes);
};

struct push_board; /* shared by all ranks; zeroed memory is a board on which nothing is posted */
size_t push_board_bytes(int ranks);

struct push {
    struct push_board *board; /* borrowed */
    int rank, ranks;
    const struct push_device *device;
    const struct watch *watch;
};

/* Queues the batch's copies and waits until every peer has queued its own.  ERR_WIRE when a peer
 * does not come, ERR_WRONG when it brings another number of bytes. */
int push_exchange(const struct push *push, struct stream *stream, const struct batch *batch);

/* ---- loans
 *
 * What a rank lends to others of its host and may only end when all have given it back: memory and
 * events that their processes have open.  CUDA leaves undefined what becomes of a mapping whose
 * owner frees the memory first. */

enum { LOANS_MAX = 256 }; /* of one rank at a time */

struct loan_board; /* shared by all ranks; zeroed memory is a board on which nothing is lent */
size_t loan_board_bytes(int ranks);

struct loans {
    struct loan_board *board; /* borrowed */
    int rank;
    const struct watch *watch;
    bool lent[LOANS_MAX]; /* by this rank */
};

/* The lender's: a number, for borrowers to say.  ERR_NOMEM when there are too many. */
int loan_open(struct loans *loans, uint32_t *number);

/* The borrowers', any number of times; take before opening, give back after closing. */
void loan_take(const struct loans *loans, int lender, uint32_t number);
void loan_give_back(const struct loans *loans, int lender, uint32_t number);

/* The lender's: waits until all have given it back.  ERR_WIRE: they may never; then what was lent
 * must be left as it is, and so is the loan. */
int loan_end(struct loans *loans, uint32_t number);

#endif
