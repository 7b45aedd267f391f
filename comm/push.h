/* The protocol of copies into other ranks' memory, for the wire ce: who copies when, and how the
 * receiver knows that a copy is done.  It knows no device: push_device does the memory, the events
 * and the copies.  Ranks exchange messages on a board, which is memory that all of them share.
 *
 * One exchange, for each pair of ranks, both ways:
 *     the receiver records READY (its buffer may be overwritten) and posts where the buffer is;
 *     the sender reads the post, makes its stream await READY, copies, records DONE, and counts it;
 *     the receiver makes its stream await DONE.
 * The threads that enqueue wait for posts; streams wait only for events that are already recorded.
 * A rank that dies may leave a stream waiting for an event that it recorded and never reached. */
#ifndef PUSH_H
#define PUSH_H

#include "watch.h"
#include "wire.h"

#include <stddef.h>

/* Where a receiver's buffer lies, in a form that other ranks of this host can open.  A plain value.
 */
struct push_place {
    unsigned char handle[64]; /* of a whole allocation */
    uint64_t offset;          /* of the buffer in it, in bytes */
    uint32_t loan;            /* the owner's number for this allocation; see loan_open() */
};

enum push_signal { PUSH_READY, PUSH_DONE, PUSH_SIGNALS };

/* What the protocol needs of a device.  A signal is one event for each pair of ranks. */
struct push_device {
    void *self; /* first argument of each function */
    /* Finds the place of this rank's receive buffer. */
    int (*place)(void *self, const struct transfer *transfer, struct push_place *out);
    /* Opens the peer's buffer for this transfer; *out is its address here. */
    int (*reach)(void *self, const struct transfer *transfer, const struct push_place *place,
                 void **out);
    /* Records the event that `peer` awaits. */
    int (*record)(void *self, struct stream *stream, enum push_signal signal, int peer);
    /* Makes the stream wait for the event that `peer` recorded last for this rank. */
    int (*await)(void *self, struct stream *stream, enum push_signal signal, int peer);
    int (*copy)(void *self, struct stream *stream, void *to, const void *from, size_t bytes);
};

/* The posts of all pairs of ranks, in memory that all ranks share.  Zeroed memory is an empty
 * board. */
struct push_board;
size_t push_board_bytes(int ranks);

/* One rank's side of the protocol.  A plain value; all that it points to is borrowed. */
struct push {
    struct push_board *board; /* borrowed */
    int rank, ranks;
    const struct push_device *device;
    const struct watch *watch;
};

/* Enqueues the batch's copies, and waits until every peer has enqueued its own.  ERR_WIRE: a peer
 * did not come in time.  ERR_WRONG: it expects another number of bytes. */
int push_exchange(const struct push *push, struct stream *stream, const struct batch *batch);

/* ---- loans
 *
 * A rank lends memory and events to the other ranks of its host.  It may free them only after all
 * ranks that opened them have closed them: CUDA does not define what happens to a mapping whose
 * owner frees the memory first. */

enum { LOANS_MAX = 256 }; /* open loans of one rank */

/* How many ranks have each loan open, in memory that all ranks share.  Zeroed memory is a board
 * without loans. */
struct loan_board;
size_t loan_board_bytes(int ranks);

/* One rank's loans.  A value that its owner changes; what it points to is borrowed. */
struct loans {
    struct loan_board *board; /* borrowed */
    int rank;
    const struct watch *watch;
    bool lent[LOANS_MAX]; /* numbers that this rank uses */
};

/* The lender opens a loan; *number names it on all ranks.  ERR_NOMEM: LOANS_MAX are open. */
int loan_open(struct loans *loans, uint32_t *number);

/* A borrower counts itself before it opens what `lender` lends. */
void loan_borrow(const struct loans *loans, int lender, uint32_t number);

/* A borrower calls this after it has closed it, once for each loan_borrow(). */
void loan_return(const struct loans *loans, int lender, uint32_t number);

/* The lender waits until all borrowers have returned the loan, and ends it.  ERR_WIRE: some may
 * never return it; then the loan stays open, and the lender must not free what it lent. */
int loan_end(struct loans *loans, uint32_t number);

#endif
