/* The wire of one node's copy engines: every rank copies into the others' memory, which CUDA's
 * inter-process handles open to it; where the driver lets them, no multiprocessor takes part.  The
 * protocol is push.c's.
 *
 * Several ranks may share a GPU, which shows that results are right; their copies then take turns
 * in one memory, and no time of theirs says anything of a link. */
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

/* An allocation of another rank, open here as long as a batch needs it. */
struct mapping {
    struct mapping *next;
    int peer, users; /* users: transfers */
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

/* The driver cuts smaller allocations out of blocks of this size, and what opens one to another
 * process opens its block: with all that lies there, and under one handle. */
enum { BLOCK_BYTES = 2 << 20 };

enum { EVENTS_LOAN = 0 }; /* every rank's first: the events that it records */

/* What a batch keeps, since its first exchange: handles and mappings take the driver's time. */
struct kept {
    struct wire_ce *wire;
    int count;
    struct kept_transfer {
        bool placed;
        struct push_place place; /* of this rank's buffer */
        struct mapping *mapping; /* of the peer's; NULL: the peer has not posted it yet */
    } transfers[1];
};

struct wire_ce {
    struct wire base;
    struct wire_ops ops;
    struct world *world;
    struct device *gpu;
    struct push push;
    struct push_device device;
    struct loans loans;
    void *board; /* shared: of posts, then of loans */
    struct watch watch;
    bool broken;
    struct mapping *mappings;
    struct export *exports;
    const struct batch *current; /* under exchange */
    /* Of each peer: what it awaits of us, what we await of it. */
    cudaEvent_t *ours[PUSH_SIGNS], *theirs[PUSH_SIGNS];
};

_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(((struct push_place *)0)->handle),
               "a place holds a handle");

/* ---- memory */

/* Handles are of whole allocations, and the runtime does not say where one begins.  The driver's
 * library is loaded already; linked, it would have to be there to start this program at all. */
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

/* Tells where a buffer of this rank lies.  Its allocation is lent from then on. */
static int lend(struct wire_ce *wire, const void *memory, struct push_place *out)
{
    cudaIpcMemHandle_t handle;
    uint64_t base = 0;
    struct export *e;

    TRY(allocation_of(memory, &base));
    /* The handle is asked of the allocation's beginning, to which the offset is counted. */
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

static struct kept_transfer *kept_of(const struct wire_ce *wire, const struct transfer *t)
{
    struct kept *kept = wire->current->kept;

    return &kept->transfers[t - wire->current->transfers];
}

static int ce_place(void *self, const struct transfer *transfer, struct push_place *out)
{
    struct kept_transfer *kept = kept_of(self, transfer);

    if (!kept->placed)
        TRY(lend(self, transfer->recv, &kept->place));
    kept->placed = true;
    *out = kept->place;
    return OK;
}

/* The mapping of an allocation that a peer lends: the one that is open, or a new one. */
static int find_mapping(struct wire_ce *wire, int peer, const struct push_place *place,
                        struct mapping **out)
{
    struct mapping *m = wire->mappings;
    cudaIpcMemHandle_t theirs;
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
    memcpy(&theirs, place->handle, sizeof(theirs));
    memcpy(m->handle, place->handle, sizeof(m->handle));
    loan_take(&wire->loans, peer, place->loan);
    rc = CUDA(cudaIpcOpenMemHandle(&base, theirs, cudaIpcMemLazyEnablePeerAccess));
    if (rc) {
        loan_give_back(&wire->loans, peer, place->loan);
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
    /* What a stream that was abandoned still copies to stays open. */
    if (!wire->broken && !CUDA(cudaIpcCloseMemHandle(mapping->base)))
        loan_give_back(&wire->loans, mapping->peer, mapping->loan);
    free(mapping);
}

/* Opened at the first exchange of a batch, which is in a step that is not timed. */
static int ce_reach(void *self, const struct transfer *transfer, const struct push_place *place,
                    void **out)
{
    struct wire_ce *wire = self;
    struct mapping **m = &kept_of(wire, transfer)->mapping;

    if (!*m || memcmp((*m)->handle, place->handle, sizeof(place->handle)) != 0) {
        struct mapping *now = NULL;

        TRY(find_mapping(wire, transfer->peer, place, &now));
        now->users++;
        release_mapping(wire, *m);
        *m = now;
    }
    *out = (*m)->base + place->offset;
    return OK;
}

/* ---- signs and copies */

static int ce_record(void *self, struct stream *stream, enum push_sign sign, int peer)
{
    return CUDA(cudaEventRecord(((struct wire_ce *)self)->ours[sign][peer], cuda_stream(stream)));
}

static int ce_await(void *self, struct stream *stream, enum push_sign sign, int peer)
{
    return CUDA(
        cudaStreamWaitEvent(cuda_stream(stream), ((struct wire_ce *)self)->theirs[sign][peer], 0));
}

static int ce_copy(void *self, struct stream *stream, void *to, const void *from, size_t bytes)
{
    (void)self;
    return cuda_copy_beside(to, from, bytes, cuda_stream(stream));
}

/* Makes the events that this rank records for each other, and opens those that they record for it.
 * Collective, the same status on every rank. */
static int exchange_events(struct wire_ce *wire)
{
    int ranks = wire->base.topology.ranks, self = wire->base.topology.rank;
    size_t each = PUSH_SIGNS * (size_t)ranks;
    cudaIpcEventHandle_t *handles = calloc(each, sizeof(*handles)); /* (sign, for whom) */
    cudaIpcEventHandle_t *all = calloc(each * (size_t)ranks, sizeof(*all));
    int rc = handles && all ? OK : fail(ERR_NOMEM, "%zu events", each * (size_t)ranks);

    for (int sign = 0; sign < PUSH_SIGNS; sign++)
        for (int q = 0; q < ranks && !rc; q++) {
            if (q == self) /* nobody waits for himself */
                continue;
            rc = CUDA(cudaEventCreateWithFlags(&wire->ours[sign][q],
                                               cudaEventDisableTiming | cudaEventInterprocess));
            if (!rc)
                rc = CUDA(cudaIpcGetEventHandle(&handles[sign * ranks + q], wire->ours[sign][q]));
        }
    rc = world_settle(wire->world, rc);
    if (!rc)
        rc = world_gather(wire->world, handles, all, each * sizeof(*handles));
    for (int q = 0; q < ranks; q++)
        for (int sign = 0; sign < PUSH_SIGNS && q != self && !rc; sign++) {
            rc = CUDA(cudaIpcOpenEventHandle(&wire->theirs[sign][q],
                                             all[(q * PUSH_SIGNS + sign) * ranks + self]));
            if (!rc)
                loan_take(&wire->loans, q, EVENTS_LOAN);
        }
    free(handles);
    free(all);
    return world_settle(wire->world, rc);
}

/* ---- the board: memory that all ranks of the host see */

/* Zeroed; the same bytes on every rank.  The object has a name only until every rank has opened it.
 * Collective, the same status on every rank: ERR_WIRE where ranks do not share /dev/shm. */
static int open_shared_memory(struct world *world, size_t bytes, void **out)
{
    bool first = world_topology(world)->rank == 0;
    void *memory = MAP_FAILED;
    struct stat there;
    char name[64];
    int file = -1, rc = OK;

    snprintf(name, sizeof(name), "/moetune-%ld-%lld", (long)getpid(), (long long)time(NULL));
    TRY(world_broadcast(world, name, sizeof(name)));
    if (first) {
        file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (file < 0)
            rc = fail(ERR_WIRE, "shared memory %s: %s", name, strerror(errno));
        else if (ftruncate(file, (off_t)bytes))
            rc = fail(ERR_WIRE, "shared memory %s of %zu bytes: %s", name, bytes, strerror(errno));
    }
    rc = world_settle(world, rc);
    if (!rc) {
        if (!first) {
            file = shm_open(name, O_RDWR, 0);
            if (file < 0 || fstat(file, &there) || there.st_size != (off_t)bytes)
                rc = fail(ERR_WIRE,
                          "shared memory of rank 0 (%s) is not here: ranks must share /dev/shm",
                          name);
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
    if (first)
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
    wire->broken = true;
    /* A rank that is gone completes none of the events which it has promised. */
    cuda_abandon(wire->gpu);
    world_alarm(wire->world);
    return rc;
}

static int ce_exchange(struct wire *base, struct stream *stream, const struct batch *batch)
{
    struct wire_ce *wire = (struct wire_ce *)base;
    int rc = OK;

    if (wire->broken)
        return ERR_WIRE;
    if (fault_hit("exchange"))
        rc = fail(ERR_WIRE, "an exchange of %d transfers (injected)", batch->count);
    else if (cuda_stream_skips(stream))
        rc = ERR_WIRE; /* the others would wait for its signs */
    wire->current = batch;
    if (!rc)
        rc = push_exchange(&wire->push, stream, batch);
    return rc ? break_off(wire, rc) : OK;
}

static int look_at_stream(void *stream)
{
    return cuda_stream_done(*(const cudaStream_t *)stream);
}

static int ce_wait(struct wire *base, struct stream *stream)
{
    struct wire_ce *wire = (struct wire_ce *)base;
    cudaStream_t handle = cuda_stream(stream);
    int rc = wire->broken ? ERR_WIRE
                          : watch_until(&wire->watch, look_at_stream, &handle, "copies of a step");

    return rc && !wire->broken ? break_off(wire, rc) : rc;
}

static void forget(struct batch *batch)
{
    struct kept *kept = batch->kept;

    for (int i = 0; i < kept->count; i++)
        release_mapping(kept->wire, kept->transfers[i].mapping);
    free(kept);
    batch->kept = NULL;
}

static int ce_reserve(struct wire *base, struct batch *batch)
{
    struct kept *kept =
        calloc(1, sizeof(*kept) + (size_t)batch->count * sizeof(kept->transfers[0]));

    if (!kept)
        return fail(ERR_NOMEM, "%d mappings", batch->count);
    if (batch->kept) /* it has grown: its handles and mappings are looked up anew */
        batch->forget(batch);
    kept->wire = (struct wire_ce *)base;
    kept->count = batch->count;
    batch->kept = kept;
    batch->forget = forget;
    return OK;
}

/* After a failure a rank that has not heard of it may be about to open what is lent. */
static int end_loan(struct wire_ce *wire, uint32_t loan)
{
    int rc;

    if (wire->broken || world_alarmed(wire->world))
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
        /* Like memory: the owner destroys an event when the others have closed it, and leaves it to
         * the end of the process where that cannot be known. */
        for (int sign = 0; sign < PUSH_SIGNS; sign++)
            for (int q = 0; q < ranks; q++)
                if (wire->theirs[sign][q]) {
                    cudaEventDestroy(wire->theirs[sign][q]);
                    loan_give_back(&wire->loans, q, EVENTS_LOAN);
                }
        if (!end_loan(wire, EVENTS_LOAN))
            for (int sign = 0; sign < PUSH_SIGNS; sign++)
                for (int q = 0; q < ranks; q++)
                    if (wire->ours[sign][q])
                        cudaEventDestroy(wire->ours[sign][q]);
        munmap(wire->board, board_bytes(ranks));
    }
    for (int sign = 0; sign < PUSH_SIGNS; sign++) {
        free(wire->theirs[sign]);
        free(wire->ours[sign]);
    }
    while (wire->exports) { /* of memory that could not be withdrawn */
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
        note("wire ce does not apply: it copies inside one host, and ranks are on several");
    else if (t->rank == 0 && rc == UNSUPPORTED)
        note("wire ce does not apply: a GPU cannot open another's memory (nvidia-smi topo -p2p)");
    else if (t->rank == 0 && shared) {
        note("several ranks share one GPU: results are right, times say nothing of any link");
        cuda_copies_say(); /* the others wait: the next step is taken together */
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
    for (int sign = 0; wire && sign < PUSH_SIGNS; sign++) {
        wire->ours[sign] = calloc((size_t)t->ranks, sizeof(cudaEvent_t));
        wire->theirs[sign] = calloc((size_t)t->ranks, sizeof(cudaEvent_t));
        whole = whole && wire->ours[sign] && wire->theirs[sign];
    }
    TRY_OUT(world_settle(world, whole ? OK : fail(ERR_NOMEM, "a wire")));
    wire->ops = ce_ops;
    wire->ops.graphs = t->ranks == 1; /* it has no signs of others to wait for */
    wire->base = (struct wire){ .ops = &wire->ops,
                                .topology = *t,
                                .apart_bytes = CUDA_APART_BYTES,
                                .lent_bytes = BLOCK_BYTES };
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
