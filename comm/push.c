/* The protocol of push.h: receivers post their buffers on a board, and senders read the posts and
 * copy.  The j-th transfer between two ranks belongs to round j.  A second board counts how many
 * ranks have each loan open. */
#include "push.h"

#include "status.h"

#include <stdatomic.h>

/* The posts for copies from one rank to one other.  The receiver makes the next post only after the
 * sender has taken the last one. */
struct mailbox {
    _Atomic uint64_t posted, taken; /* posts so far */
    _Atomic uint64_t done;          /* exchanges whose copies and whose DONE are enqueued */
    struct push_place place;        /* the latest post */
    uint64_t bytes;
};

struct push_board {
    struct mailbox mailboxes[1]; /* (from, to) */
};

size_t push_board_bytes(int ranks)
{
    return (size_t)ranks * (size_t)ranks * sizeof(struct mailbox);
}

static struct mailbox *mailbox_between(const struct push *push, int from, int to)
{
    return &push->board->mailboxes[from * push->ranks + to];
}

/* ---- waiting for a peer */

/* Waits until the count of a peer reaches a value. */
struct count_wait {
    const _Atomic uint64_t *count;
    uint64_t wanted;
};

static int count_is_reached(void *self)
{
    const struct count_wait *l = self;

    return atomic_load_explicit(l->count, memory_order_acquire) >= l->wanted ? OK : UNSUPPORTED;
}

static int await_count(const struct push *push, const _Atomic uint64_t *count, uint64_t wanted,
                       const char *what)
{
    struct count_wait l = { count, wanted };

    return watch_until(push->watch, count_is_reached, &l, what);
}

/* ---- one transfer */

static int post_buffer(const struct push *push, struct stream *stream, const struct transfer *t,
                       bool first)
{
    const struct push_device *d = push->device;
    struct mailbox *mine = mailbox_between(push, push->rank, t->peer);
    uint64_t turn = atomic_load(&mine->posted);

    /* Once the peer has taken the last post, its stream awaits the last READY, and this rank may
     * record READY again. */
    TRY(await_count(push, &mine->taken, turn, "a peer that takes up a buffer"));
    if (first)
        TRY(d->record(d->self, stream, PUSH_READY, t->peer));
    if (t->recv_bytes)
        TRY(d->place(d->self, t, &mine->place));
    mine->bytes = t->recv_bytes;
    atomic_store_explicit(&mine->posted, turn + 1, memory_order_release);
    return OK;
}

static int copy_to_peer(const struct push *push, struct stream *stream, const struct transfer *t,
                        bool first)
{
    const struct push_device *d = push->device;
    struct mailbox *theirs = mailbox_between(push, t->peer, push->rank);
    uint64_t turn = atomic_load(&theirs->taken) + 1;
    void *to = NULL;

    TRY(await_count(push, &theirs->posted, turn, "a peer that posts a buffer"));
    if (theirs->bytes != t->send_bytes)
        return fail(ERR_WRONG, "rank %d expects %llu bytes, but this rank sends it %zu", t->peer,
                    (unsigned long long)theirs->bytes, t->send_bytes);
    if (t->send_bytes)
        TRY(d->reach(d->self, t, &theirs->place, &to));
    if (first)
        TRY(d->await(d->self, stream, PUSH_READY, t->peer));
    if (t->send_bytes)
        TRY(d->copy(d->self, stream, to, t->send, t->send_bytes));
    atomic_store_explicit(&theirs->taken, turn, memory_order_release);
    return OK;
}

/* ---- a batch */

/* Round j has the j-th transfer with each peer; so round 0 has one transfer with each peer. */
static bool is_in_round(const struct push *push, const struct batch *batch, int at, int round)
{
    int peer = batch->transfers[at].peer, before = 0;

    for (int i = 0; i < at; i++)
        before += batch->transfers[i].peer == peer;
    return peer != push->rank && before == round;
}

int push_exchange(const struct push *push, struct stream *stream, const struct batch *batch)
{
    const struct push_device *d = push->device;
    bool more = true;

    for (int i = 0; i < batch->count; i++) {
        const struct transfer *t = &batch->transfers[i];

        if (t->peer == push->rank && t->send != t->recv)
            TRY(d->copy(d->self, stream, t->recv, t->send, t->send_bytes));
    }
    for (int round = 0; more; round++) {
        more = false;
        for (int i = 0; i < batch->count; i++)
            if (is_in_round(push, batch, i, round)) {
                TRY(post_buffer(push, stream, &batch->transfers[i], round == 0));
                more = true;
            }
        for (int i = 0; i < batch->count; i++)
            if (is_in_round(push, batch, i, round))
                TRY(copy_to_peer(push, stream, &batch->transfers[i], round == 0));
    }
    for (int i = 0; i < batch->count; i++) {
        int peer = batch->transfers[i].peer;

        if (!is_in_round(push, batch, i, 0))
            continue;
        TRY(d->record(d->self, stream, PUSH_DONE, peer));
        atomic_fetch_add_explicit(&mailbox_between(push, push->rank, peer)->done, 1,
                                  memory_order_release);
    }
    /* Both ranks of a pair take part in the same exchanges.  So the peer must reach the count that
     * this rank has reached. */
    for (int i = 0; i < batch->count; i++) {
        int peer = batch->transfers[i].peer;

        if (!is_in_round(push, batch, i, 0))
            continue;
        TRY(await_count(push, &mailbox_between(push, peer, push->rank)->done,
                        atomic_load(&mailbox_between(push, push->rank, peer)->done),
                        "a peer that completes a copy"));
        TRY(d->await(d->self, stream, PUSH_DONE, peer));
    }
    return OK;
}

/* ---- loans */

struct loan_board {
    _Atomic uint32_t holders[1][LOANS_MAX]; /* (lender, number) */
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

static int all_returned(void *holders)
{
    return atomic_load((_Atomic uint32_t *)holders) ? UNSUPPORTED : OK;
}

int loan_end(struct loans *loans, uint32_t number)
{
    TRY(watch_until(loans->watch, all_returned, holders_of(loans, loans->rank, number),
                    "other ranks to close what is to be freed"));
    loans->lent[number] = false;
    return OK;
}
