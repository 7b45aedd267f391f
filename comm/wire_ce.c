/* The wire of copy engines, for the GPUs of one host.  Every rank copies into the memory of the
 * others, which it opens by CUDA's inter-process handles.  Where the driver allows it, copy engines
 * do this and multiprocessors stay free.  The protocol is in push.c.
 *
 * Several ranks may share a GPU: a test of results without several GPUs.  Their copies then share
 * one memory, so their times say nothing about a link. */
#include "cuda.h"
#include "cuda_copy.h"
#include "cuda_peers.h"
#include "fault.h"
#include "push.h"
#include "status.h"
#include "world.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* An allocation of another rank that is open here.  The wire owns it; it is closed when no transfer
 * uses it any more. */
struct mapping {
    struct mapping *next;
    int peer, users; /* users: number of transfers */
    uint32_t loan;
    unsigned char handle[64];
    char *base;
};

/* An allocation of this rank that others may have open. */
struct export
{
    struct export *next;
    uint64_t base;
    uint32_t loan;
};

/* The driver puts small allocations into blocks of this size.  A handle opens the whole block to
 * another process, with everything else in it. */
enum { BLOCK_BYTES = 2 << 20 };

enum { EVENTS_LOAN = 0 }; /* every rank's first loan: the events that it records */

/* What the wire stores with a batch from its first exchange on, because the driver takes long to
 * make handles and mappings.  free_prepared() frees it. */
struct prepared {
    struct wire_ce *wire;
    int count;
    struct prepared_transfer {
        bool is_placed;          /* `place` is known */
        struct push_place place; /* of this rank's buffer */
        struct mapping *mapping; /* of the peer's buffer; NULL: the peer has not posted it yet */
    } transfers[];               /* `count`, one for each transfer of the batch */
};

/* An open wire of this kind; ce_close() frees it. */
struct wire_ce {
    struct wire base;
    struct wire_ops ops;
    struct world *world;
    struct device *gpu;
    struct push push;
    struct push_device device;
    struct loans loans;
    void *board; /* memory that all ranks share: the board of posts, then the board of loans */
    struct watch watch;
    bool is_broken;
    struct mapping *mappings;
    struct export *exports;
    const struct batch *current_batch; /* of the exchange that is being enqueued */
    /* One event for each peer: this rank records own_events and awaits peer_events. */
    cudaEvent_t *own_events[PUSH_SIGNALS], *peer_events[PUSH_SIGNALS];
};

_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(((struct push_place *)0)->handle),
               "a place holds a handle");

/* ---- memory */

/* Finds where the allocation of this memory begins: a handle is of a whole allocation, and only the
 * driver's library knows the beginning.  The program does not link that library, because it must
 * start on machines without it; on a GPU it is already loaded. */
static int allocation_of(const void *memory, uint64_t *base)
{
    typedef int get_range(uint64_t * base, size_t * bytes, uint64_t memory);
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = driver ? dlsym(driver, "cuMemGetAddressRange_v2") : NULL;
    get_range *get;
    size_t bytes;
    int code = -1;

    memcpy(&get, &symbol, sizeof(get));
    if (symbol)
        code = get(base, &bytes, (uint64_t)(uintptr_t)memory);
    if (driver)
        dlclose(driver);
    return code ? fail(ERR_DEVICE, "cuMemGetAddressRange: error %d", code) : OK;
}

static struct export *find_export(const struct wire_ce *wire, uint64_t base)
{
    struct export *e = wire->exports;

    while (e && e->base != base)
        e = e->next;
    return e;
}

/* Finds the place of a buffer of this rank, and lends its allocation. */
static int lend_allocation(struct wire_ce *wire, const void *memory, struct push_place *out)
{
    cudaIpcMemHandle_t handle;
    uint64_t base = 0;
    struct export *e;

    TRY(allocation_of(memory, &base));
    /* The offset counts from the allocation's beginning, so the handle must be of that, too. */
    TRY(CUDA(cudaIpcGetMemHandle(&handle, (void *)(uintptr_t)base)));
    e = find_export(wire, base);
    if (!e) {
        int rc;

        e = calloc(1, sizeof(*e));
        rc = e ? loan_open(&wire->loans, &e->loan) : fail(ERR_NOMEM, "an export");
        if (rc) {
            free(e);
            return rc;
        }
        e->base = base;
        e->next = wire->exports;
        wire->exports = e;
    }
    out->loan = e->loan;
    memcpy(out->handle, &handle, sizeof(handle));
    out->offset = (uint64_t)(uintptr_t)memory - base;
    return OK;
}

static struct prepared_transfer *prepared_of(const struct wire_ce *wire, const struct transfer *t)
{
    struct prepared *prepared = wire->current_batch->prepared;

    return &prepared->transfers[t - wire->current_batch->transfers];
}

static int ce_place(void *self, const struct transfer *transfer, struct push_place *out)
{
    struct prepared_transfer *prepared = prepared_of(self, transfer);

    if (!prepared->is_placed)
        TRY(lend_allocation(self, transfer->recv, &prepared->place));
    prepared->is_placed = true;
    *out = prepared->place;
    return OK;
}

/* Finds the open mapping of an allocation that a peer lends, or opens one. */
static int find_mapping(struct wire_ce *wire, int peer, const struct push_place *place,
                        struct mapping **out)
{
    struct mapping *m = wire->mappings;
    cudaIpcMemHandle_t handle;
    void *base;
    int rc;

    while (m && (m->peer != peer || memcmp(m->handle, place->handle, sizeof(m->handle)) != 0))
        m = m->next;
    if (m) {
        *out = m;
        return OK;
    }
    m = calloc(1, sizeof(*m));
    if (!m)
        return fail(ERR_NOMEM, "a mapping");
    memcpy(&handle, place->handle, sizeof(handle));
    memcpy(m->handle, place->handle, sizeof(m->handle));
    loan_borrow(&wire->loans, peer, place->loan);
    rc = CUDA(cudaIpcOpenMemHandle(&base, handle, cudaIpcMemLazyEnablePeerAccess));
    if (rc) {
        loan_return(&wire->loans, peer, place->loan);
        free(m);
        return rc;
    }
    m->peer = peer;
    m->loan = place->loan;
    m->base = base;
    m->next = wire->mappings;
    wire->mappings = m;
    *out = m;
    return OK;
}

static void release_mapping(struct wire_ce *wire, struct mapping *mapping)
{
    struct mapping **link = &wire->mappings;

    if (!mapping || --mapping->users)
        return;
    while (*link != mapping)
        link = &(*link)->next;
    *link = mapping->next;
    /* An abandoned stream may still copy to it, so it then stays open. */
    if (!wire->is_broken && !CUDA(cudaIpcCloseMemHandle(mapping->base)))
        loan_return(&wire->loans, mapping->peer, mapping->loan);
    free(mapping);
}

/* Opens the peer's buffer at the first exchange of a batch, which belongs to a step that is not
 * timed. */
static int ce_reach(void *self, const struct transfer *transfer, const struct push_place *place,
                    void **out)
{
    struct wire_ce *wire = self;
    struct mapping **used = &prepared_of(wire, transfer)->mapping;

    if (!*used || memcmp((*used)->handle, place->handle, sizeof(place->handle)) != 0) {
        struct mapping *mapping = NULL;

        TRY(find_mapping(wire, transfer->peer, place, &mapping));
        mapping->users++;
        release_mapping(wire, *used);
        *used = mapping;
    }
    *out = (*used)->base + place->offset;
    return OK;
}

/* ---- signals and copies */

static int ce_record(void *self, struct stream *stream, enum push_signal signal, int peer)
{
    return CUDA(
        cudaEventRecord(((struct wire_ce *)self)->own_events[signal][peer], cuda_stream(stream)));
}

static int ce_await(void *self, struct stream *stream, enum push_signal signal, int peer)
{
    return CUDA(cudaStreamWaitEvent(cuda_stream(stream),
                                    ((struct wire_ce *)self)->peer_events[signal][peer], 0));
}

static int ce_copy(void *self, struct stream *stream, void *to, const void *from, size_t bytes)
{
    (void)self;
    return cuda_copy_beside(to, from, bytes, cuda_stream(stream));
}

/* Makes the events that this rank records for each peer, and opens the events that each peer
 * records for this rank.  Collective, the same status on every rank. */
static int exchange_events(struct wire_ce *wire)
{
    int ranks = wire->base.topology.ranks, self = wire->base.topology.rank;
    size_t per_rank = PUSH_SIGNALS * (size_t)ranks;
    cudaIpcEventHandle_t *handles = calloc(per_rank, sizeof(*handles)); /* (signal, peer) */
    cudaIpcEventHandle_t *all_handles = calloc(per_rank * (size_t)ranks, sizeof(*all_handles));
    int rc = handles && all_handles ? OK : fail(ERR_NOMEM, "%zu events", per_rank * (size_t)ranks);

    for (int signal = 0; signal < PUSH_SIGNALS; signal++)
        for (int q = 0; q < ranks && !rc; q++) {
            if (q == self) /* a rank does not wait for itself */
                continue;
            rc = CUDA(cudaEventCreateWithFlags(&wire->own_events[signal][q],
                                               cudaEventDisableTiming | cudaEventInterprocess));
            if (!rc)
                rc = CUDA(cudaIpcGetEventHandle(&handles[signal * ranks + q],
                                                wire->own_events[signal][q]));
        }
    rc = world_settle(wire->world, rc);
    if (!rc)
        rc = world_gather(wire->world, handles, all_handles, per_rank * sizeof(*handles));
    for (int q = 0; q < ranks; q++)
        for (int signal = 0; signal < PUSH_SIGNALS && q != self && !rc; signal++) {
            rc = CUDA(
                cudaIpcOpenEventHandle(&wire->peer_events[signal][q],
                                       all_handles[(q * PUSH_SIGNALS + signal) * ranks + self]));
            if (!rc)
                loan_borrow(&wire->loans, q, EVENTS_LOAN);
        }
    free(handles);
    free(all_handles);
    return world_settle(wire->world, rc);
}

/* ---- the board: memory that all ranks of the host see */

/* Opens zeroed memory that all ranks share.  It has a name only until every rank has opened it.
 * Collective, the same status on every rank.  ERR_WIRE: the ranks do not share /dev/shm. */
static int open_shared_memory(struct world *world, size_t bytes, void **out)
{
    bool is_creator = world_topology(world)->rank == 0;
    void *memory = MAP_FAILED;
    struct stat found;
    char name[64];
    int file = -1, rc = OK;

    snprintf(name, sizeof(name), "/moetune-%ld-%lld", (long)getpid(), (long long)time(NULL));
    TRY(world_broadcast(world, name, sizeof(name)));
    if (is_creator) {
        file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (file < 0)
            rc = fail(ERR_WIRE, "cannot create shared memory %s: %s", name, strerror(errno));
        else if (ftruncate(file, (off_t)bytes))
            rc = fail(ERR_WIRE, "cannot make shared memory %s %zu bytes long: %s", name, bytes,
                      strerror(errno));
    }
    rc = world_settle(world, rc);
    if (!rc) {
        if (!is_creator) {
            file = shm_open(name, O_RDWR, 0);
            if (file < 0 || fstat(file, &found) || found.st_size != (off_t)bytes)
                rc = fail(ERR_WIRE,
                          "cannot open rank 0's shared memory %s: ranks must share /dev/shm", name);
        }
        if (!rc) {
            memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            if (memory == MAP_FAILED)
                rc = fail(ERR_NOMEM, "%zu bytes of shared memory: %s", bytes, strerror(errno));
        }
        rc = world_settle(world, rc);
    }
    if (file >= 0)
        close(file);
    if (is_creator)
        shm_unlink(name);
    if (rc && memory != MAP_FAILED)
        munmap(memory, bytes);
    if (!rc)
        *out = memory;
    return rc;
}

/* ---- the wire */

static size_t board_bytes(int ranks)
{
    return push_board_bytes(ranks) + loan_board_bytes(ranks);
}

static int break_off(struct wire_ce *wire, int rc)
{
    wire->is_broken = true;
    /* A rank that has ended completes none of its events, so streams may wait for ever. */
    cuda_abandon(wire->gpu);
    world_alarm(wire->world);
    return rc;
}

static int ce_exchange(struct wire *base, struct stream *stream, const struct batch *batch)
{
    struct wire_ce *wire = (struct wire_ce *)base;
    int rc = OK;

    if (wire->is_broken)
        return ERR_WIRE;
    if (fault_hit("exchange"))
        rc = fail(ERR_WIRE, "an exchange of %d transfers (injected)", batch->count);
    else if (cuda_stream_skips(stream))
        rc = ERR_WIRE; /* the others would wait for this rank's signals */
    wire->current_batch = batch;
    if (!rc)
        rc = push_exchange(&wire->push, stream, batch);
    return rc ? break_off(wire, rc) : OK;
}

static int poll_stream(void *stream)
{
    return cuda_stream_done(*(const cudaStream_t *)stream);
}

static int ce_wait(struct wire *base, struct stream *stream)
{
    struct wire_ce *wire = (struct wire_ce *)base;
    cudaStream_t handle = cuda_stream(stream);
    int rc = wire->is_broken ? ERR_WIRE
                             : watch_until(&wire->watch, poll_stream, &handle, "copies of a step");

    return rc && !wire->is_broken ? break_off(wire, rc) : rc;
}

static void free_prepared(struct batch *batch)
{
    struct prepared *prepared = batch->prepared;

    for (int i = 0; i < prepared->count; i++)
        release_mapping(prepared->wire, prepared->transfers[i].mapping);
    free(prepared);
    batch->prepared = NULL;
}

static int ce_reserve(struct wire *base, struct batch *batch)
{
    struct prepared *prepared =
        calloc(1, sizeof(*prepared) + (size_t)batch->count * sizeof(prepared->transfers[0]));

    if (!prepared)
        return fail(ERR_NOMEM, "%d mappings", batch->count);
    if (batch->prepared) /* the batch has changed: find its handles and mappings again */
        batch->free_prepared(batch);
    prepared->wire = (struct wire_ce *)base;
    prepared->count = batch->count;
    batch->prepared = prepared;
    batch->free_prepared = free_prepared;
    return OK;
}

/* Ends a loan; not after a failure, because a rank that does not know of it may be about to open
 * what is lent. */
static int end_loan(struct wire_ce *wire, uint32_t loan)
{
    int rc;

    if (wire->is_broken || world_alarmed(wire->world))
        return ERR_WIRE;
    rc = loan_end(&wire->loans, loan);
    return rc ? break_off(wire, rc) : OK;
}

static int ce_withdraw(struct wire *base, const void *memory)
{
    struct wire_ce *wire = (struct wire_ce *)base;
    struct export **link = &wire->exports, *e = find_export(wire, (uint64_t)(uintptr_t)memory);

    if (!e)
        return OK;
    TRY(end_loan(wire, e->loan));
    while (*link != e)
        link = &(*link)->next;
    *link = e->next;
    free(e);
    return OK;
}

static void ce_close(struct wire *base)
{
    struct wire_ce *wire = (struct wire_ce *)base;
    int ranks = wire->base.topology.ranks;

    if (wire->board) {
        /* As with memory, the owner destroys an event after the others have closed it.  Where it
         * cannot know that, the event stays until the process ends. */
        for (int signal = 0; signal < PUSH_SIGNALS; signal++)
            for (int q = 0; q < ranks; q++)
                if (wire->peer_events[signal][q]) {
                    cudaEventDestroy(wire->peer_events[signal][q]);
                    loan_return(&wire->loans, q, EVENTS_LOAN);
                }
        if (!end_loan(wire, EVENTS_LOAN))
            for (int signal = 0; signal < PUSH_SIGNALS; signal++)
                for (int q = 0; q < ranks; q++)
                    if (wire->own_events[signal][q])
                        cudaEventDestroy(wire->own_events[signal][q]);
        munmap(wire->board, board_bytes(ranks));
    }
    for (int signal = 0; signal < PUSH_SIGNALS; signal++) {
        free(wire->peer_events[signal]);
        free(wire->own_events[signal]);
    }
    while (wire->exports) { /* memory that could not be withdrawn */
        struct export *next = wire->exports->next;

        free(wire->exports);
        wire->exports = next;
    }
    free(wire);
}

static const struct wire_ops ce_ops = {
    .name = "ce",
    .close = ce_close,
    .reserve = ce_reserve,
    .exchange = ce_exchange,
    .wait = ce_wait,
    .withdraw = ce_withdraw,
};

static int check_peers(struct world *world, struct device *device)
{
    const struct topology *t = world_topology(world);
    struct cuda_peer *peers = NULL;
    bool one_host, shared, reach = true;
    int rc = OK;

    TRY(cuda_peers(world, device, &peers));
    one_host = cuda_peers_share_host(peers, t->ranks);
    shared = cuda_peers_share_gpu(peers, t->ranks);
    if (one_host)
        rc = cuda_peers_reach(device, peers, t->ranks, &reach);
    free(peers);
    rc = world_settle(world, rc || (one_host && reach) ? rc : UNSUPPORTED);
    if (t->rank == 0 && !one_host)
        note("wire ce does not apply: it copies inside one host, and the ranks are on several");
    else if (t->rank == 0 && rc == UNSUPPORTED)
        note("wire ce does not apply: a GPU cannot open another's memory (nvidia-smi topo -p2p)");
    else if (t->rank == 0 && shared) {
        note("several ranks share one GPU: results are right, but times say nothing about a link");
        cuda_note_copy_engines(); /* collective calls follow, in which the others wait */
    }
    return rc;
}

int wire_ce_open(struct world *world, struct device *device, struct wire **out)
{
    const struct topology *t = world_topology(world);
    struct wire_ce *wire;
    bool whole;
    uint32_t events;
    int rc;

    TRY(check_peers(world, device));
    wire = calloc(1, sizeof(*wire));
    whole = wire;
    for (int signal = 0; wire && signal < PUSH_SIGNALS; signal++) {
        wire->own_events[signal] = calloc((size_t)t->ranks, sizeof(cudaEvent_t));
        wire->peer_events[signal] = calloc((size_t)t->ranks, sizeof(cudaEvent_t));
        whole = whole && wire->own_events[signal] && wire->peer_events[signal];
    }
    TRY_OUT(world_settle(world, whole ? OK : fail(ERR_NOMEM, "a wire")));
    wire->ops = ce_ops;
    wire->ops.graphs = t->ranks == 1; /* one rank waits for no signals of others */
    wire->base = (struct wire){ .ops = &wire->ops,
                                .topology = *t,
                                .separate_bytes = CUDA_SEPARATE_BYTES,
                                .alloc_multiple_bytes = BLOCK_BYTES };
    wire->world = world;
    wire->gpu = device;
    wire->device = (struct push_device){ wire, ce_place, ce_reach, ce_record, ce_await, ce_copy };
    wire->watch = watch_of(world);
    TRY_OUT(open_shared_memory(world, board_bytes(t->ranks), &wire->board));
    wire->push = (struct push){ wire->board, t->rank, t->ranks, &wire->device, &wire->watch };
    wire->loans =
        (struct loans){ .board = (void *)((char *)wire->board + push_board_bytes(t->ranks)),
                        .rank = t->rank,
                        .watch = &wire->watch };
    TRY_OUT(loan_open(&wire->loans, &events));
    assert(events == EVENTS_LOAN);
    TRY_OUT(exchange_events(wire));
    *out = &wire->base;
    return OK;
out:
    if (wire)
        ce_close(&wire->base);
    return rc;
}
