/* Receivers post their buffers on a board, senders take the posts and copy; the j-th transfer
 * between two ranks belongs to round j of their posts.  For everything that a rank lends, another
 * board counts which ranks have it open. */
#include "push.h"

#include "status.h"

#include <stdatomic.h>

/* From one rank to one other.  A post is taken before the next one is made. */
struct box {
    _Atomic uint64_t posted, taken;
    _Atomic uint64_t done; /* exchanges whose copies are queued and whose DONE is recorded */
    struct push_place place;
    uint64_t bytes;
};

struct push_board {
    struct box boxes[1]; /* (from, to) */
};

size_t push_board_bytes(int ranks)
{
    return (size_t)ranks * (size_t)ranks * sizeof(struct box);
}

static struct box *box_between(const struct push *push, int from, int to)
{
    return &push->board->boxes[from * push->ranks + to];
}

/* ---- waiting for a peer */

struct count_wait {
    const _Atomic uint64_t *count;
    uint64_t wanted;
};

static int look(void *self)
{
    const struct count_wait *l = self;

    return atomic_load_explicit(l->count, memory_order_acquire) >= l->wanted ? OK : UNSUPPORTED;
}

static int await_count(const struct push *push, const _Atomic uint64_t *count, uint64_t wanted,
                       const char *what)
{
    struct count_wait l = { count, wanted };

    return watch_until(push->watch, look, &l, what);
}

/* ---- one transfer */

static int post(const struct push *push, struct stream *stream, const struct transfer *t,
                bool first)
{
    const struct push_device *d = push->device;
    struct box *mine = box_between(push, push->rank, t->peer);
    uint64_t turn = atomic_load(&mine->posted);

    /* Only then is READY of the exchange before awaited, and may be recorded anew. */
    TRY(await_count(push, &mine->taken, turn, "a peer that takes up a buffer"));
    if (first)
        TRY(d->record(d->self, stream, PUSH_READY, t->peer));
    if (t->recv_bytes)
        TRY(d->place(d->self, t, &mine->place));
    mine->bytes = t->recv_bytes;
    atomic_store_explicit(&mine->posted, turn + 1, memory_order_release);
    return OK;
}

static int take(const struct push *push, struct stream *stream, const struct transfer *t,
                bool first)
{
    const struct push_device *d = push->device;
    struct box *theirs = box_between(push, t->peer, push->rank);
    uint64_t turn = atomic_load(&theirs->taken) + 1;
    void *to = NULL;

    TRY(await_count(push, &theirs->posted, turn, "a peer that posts a buffer"));
    if (theirs->bytes != t->send_bytes)
        return fail(ERR_WRONG, "rank %d expects %llu bytes, %zu are to be sent", t->peer,
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

/* Round j has the j-th transfer with each peer, so round 0 has each peer once. */
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
                TRY(post(push, stream, &batch->transfers[i], round == 0));
                more = true;
            }
        for (int i = 0; i < batch->count; i++)
            if (is_in_round(push, batch, i, round))
                TRY(take(push, stream, &batch->transfers[i], round == 0));
    }
    for (int i = 0; i < batch->count; i++) {
        int peer = batch->transfers[i].peer;

        if (!is_in_round(push, batch, i, 0))
            continue;
        TRY(d->record(d->self, stream, PUSH_DONE, peer));
        atomic_fetch_add_explicit(&box_between(push, push->rank, peer)->done, 1,
                                  memory_order_release);
    }
    /* Both of a pair take part in the same exchanges: what this rank has done for the peer is what
     * the peer is to do for it. */
    for (int i = 0; i < batch->count; i++) {
        int peer = batch->transfers[i].peer;

        if (!is_in_round(push, batch, i, 0))
            continue;
        TRY(await_count(push, &box_between(push, peer, push->rank)->done,
                        atomic_load(&box_between(push, push->rank, peer)->done),
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
    return fail(ERR_NOMEM, "more than %d allocations that others write to", LOANS_MAX);
}

void loan_take(const struct loans *loans, int lender, uint32_t number)
{
    atomic_fetch_add(holders_of(loans, lender, number), 1);
}

void loan_give_back(const struct loans *loans, int lender, uint32_t number)
{
    atomic_fetch_sub(holders_of(loans, lender, number), 1);
}

static int all_gave_back(void *holders)
{
    return atomic_load((_Atomic uint32_t *)holders) ? UNSUPPORTED : OK;
}

int loan_end(struct loans *loans, uint32_t number)
{
    TRY(watch_until(loans->watch, all_gave_back, holders_of(loans, loans->rank, number),
                    "other ranks to close what is to be freed"));
    loans->lent[number] = false;
    return OK;
}
