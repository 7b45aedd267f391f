/* The protocol of push.h: receivers post their buffers on a board, and senders read the posts and
 * copy.  The j-th transfer between two ranks belongs to round j.  A second board counts how many
 * ranks have each loan open. */
#include "push.h"

#include "status.h"

#include <stdatomic.h>

/* The mailbox of one rank, its owner, for one peer.  The owner posts its buffer; the peer copies
 * into it.  The owner makes the next post only after the peer has taken the last one.  The peer
 * writes `taken`; the owner writes all other members. */
struct mailbox {
    _Atomic uint64_t posted, taken; /* posts so far */
    _Atomic uint64_t done;   /* exchanges whose copies and whose DONE the owner has enqueued */
    struct push_place place; /* the latest post */
    uint64_t bytes;
};

struct push_board {
    struct mailbox mailboxes[1]; /* (owner, peer); [ranks * ranks] in truth */
};

size_t push_board_bytes(int ranks)
{
    return (size_t)ranks * (size_t)ranks * sizeof(struct mailbox);
}

static struct mailbox *mailbox_of(const struct push *push, int owner, int peer)
{
    return &push->board->mailboxes[owner * push->ranks + peer];
}

/* ---- waiting for a peer */

/* Waits until the count of a peer reaches a value. */
struct count_wait {
    const _Atomic uint64_t *count;
    uint64_t wanted;
};

static int count_is_reached(void *self)
{
    const struct count_wait *wait = self;

    return atomic_load_explicit(wait->count, memory_order_acquire) >= wait->wanted ? OK
                                                                                   : POLL_AGAIN;
}

static int await_count(const struct push *push, const _Atomic uint64_t *count, uint64_t wanted,
                       const char *what)
{
    struct count_wait wait = { count, wanted };

    return watch_until(push->watch, count_is_reached, &wait, what);
}

/* ---- one transfer */

/* Posts the buffer into which the peer copies.  An exchange records READY once for each peer. */
static int post_buffer(const struct push *push, struct stream *stream, const struct transfer *t,
                       bool records_ready)
{
    const struct push_device *d = push->device;
    struct mailbox *mine = mailbox_of(push, push->rank, t->peer);
    uint64_t posts = atomic_load(&mine->posted);

    /* Once the peer has taken the last post, its stream awaits the last READY, and this rank may
     * record READY again. */
    TRY(await_count(push, &mine->taken, posts, "a peer that takes up a buffer"));
    if (records_ready)
        TRY(d->record(d->self, stream, PUSH_READY, t->peer));
    if (t->recv_bytes)
        TRY(d->place(d->self, t, &mine->place));
    mine->bytes = t->recv_bytes;
    atomic_store_explicit(&mine->posted, posts + 1, memory_order_release);
    return OK;
}

/* Takes the peer's next post, and copies into its buffer. */
static int copy_to_peer(const struct push *push, struct stream *stream, const struct transfer *t,
                        bool awaits_ready)
{
    const struct push_device *d = push->device;
    struct mailbox *theirs = mailbox_of(push, t->peer, push->rank);
    uint64_t wanted_post = atomic_load(&theirs->taken) + 1;
    void *to = NULL;

    TRY(await_count(push, &theirs->posted, wanted_post, "a peer that posts a buffer"));
    if (theirs->bytes != t->send_bytes)
        return fail(ERR_WRONG, "rank %d expects %llu bytes, but this rank sends it %zu", t->peer,
                    (unsigned long long)theirs->bytes, t->send_bytes);
    if (t->send_bytes)
        TRY(d->reach(d->self, t, &theirs->place, &to));
    if (awaits_ready)
        TRY(d->await(d->self, stream, PUSH_READY, t->peer));
    if (t->send_bytes)
        TRY(d->copy(d->self, stream, to, t->send, t->send_bytes));
    atomic_store_explicit(&theirs->taken, wanted_post, memory_order_release);
    return OK;
}

/* ---- a batch */

/* Round j has the j-th transfer with each peer. */
static bool is_in_round(const struct push *push, const struct batch *batch, int index, int round)
{
    int peer = batch->transfers[index].peer, before = 0;

    for (int i = 0; i < index; i++)
        before += batch->transfers[i].peer == peer;
    return peer != push->rank && before == round;
}

/* True for one transfer with each peer. */
static bool is_first_with_peer(const struct push *push, const struct batch *batch, int index)
{
    return is_in_round(push, batch, index, 0);
}

int push_exchange(const struct push *push, struct stream *stream, const struct batch *batch)
{
    const struct push_device *d = push->device;
    bool round_is_empty = false;

    for (int i = 0; i < batch->count; i++) {
        const struct transfer *t = &batch->transfers[i];

        if (t->peer == push->rank && t->send != t->recv)
            TRY(d->copy(d->self, stream, t->recv, t->send, t->send_bytes));
    }
    for (int round = 0; !round_is_empty; round++) {
        round_is_empty = true;
        for (int i = 0; i < batch->count; i++)
            if (is_in_round(push, batch, i, round)) {
                TRY(post_buffer(push, stream, &batch->transfers[i], round == 0));
                round_is_empty = false;
            }
        for (int i = 0; i < batch->count; i++)
            if (is_in_round(push, batch, i, round))
                TRY(copy_to_peer(push, stream, &batch->transfers[i], round == 0));
    }
    for (int i = 0; i < batch->count; i++) {
        int peer = batch->transfers[i].peer;

        if (!is_first_with_peer(push, batch, i))
            continue;
        TRY(d->record(d->self, stream, PUSH_DONE, peer));
        atomic_fetch_add_explicit(&mailbox_of(push, push->rank, peer)->done, 1,
                                  memory_order_release);
    }
    /* Both ranks of a pair take part in the same exchanges.  So the peer must reach the count that
     * this rank has reached. */
    for (int i = 0; i < batch->count; i++) {
        int peer = batch->transfers[i].peer;

        if (!is_first_with_peer(push, batch, i))
            continue;
        TRY(await_count(push, &mailbox_of(push, peer, push->rank)->done,
                        atomic_load(&mailbox_of(push, push->rank, peer)->done),
                        "a peer that completes a copy"));
        TRY(d->await(d->self, stream, PUSH_DONE, peer));
    }
    return OK;
}

/* ---- loans */

struct loan_board {
    _Atomic uint32_t holders[1][LOANS_MAX]; /* (lender, number); [ranks][...] in truth */
};

size_t loan_board_bytes(int ranks)
{
    return (size_t)ranks * sizeof(((struct loan_board *)0)->holders[0]);
}

static _Atomic uint32_t *holders_of(const struct loans *loans, int lender, uint32_t number)
{
    return &loans->board->holders[lender][number];
}

int loan_open(struct loans *loans, uint32_t *number)
{
    for (uint32_t i = 0; i < LOANS_MAX; i++)
        if (!loans->lent[i]) {
            loans->lent[i] = true;
            *number = i;
            return OK;
        }
    return fail(ERR_NOMEM, "more than %d allocations that other ranks write to", LOANS_MAX);
}

void loan_borrow(const struct loans *loans, int lender, uint32_t number)
{
    atomic_fetch_add(holders_of(loans, lender, number), 1);
}

void loan_return(const struct loans *loans, int lender, uint32_t number)
{
    atomic_fetch_sub(holders_of(loans, lender, number), 1);
}

static int loan_is_returned(void *holders)
{
    return atomic_load((_Atomic uint32_t *)holders) ? POLL_AGAIN : OK;
}

int loan_end(struct loans *loans, uint32_t number)
{
    TRY(watch_until(loans->watch, loan_is_returned, holders_of(loans, loans->rank, number),
                    "other ranks to close what is to be freed"));
    loans->lent[number] = false;
    return OK;
}
