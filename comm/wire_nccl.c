/* The wire on NCCL: one group of sends and receives per exchange, enqueued by the driving thread.
 *
 * Communicators do not block: every call comes back, and who waits also looks at the alarm, at
 * NCCL's own errors and at the clock.  An aborted communicator lets its kernels end, so that the
 * streams can be synced; the wire is of no more use then. */
#include "cuda.h"
#include "cuda_peers.h"
#include "fault.h"
#include "status.h"
#include "watch.h"
#include "wire.h"
#include "world.h"

#include <nccl.h>
#include <stdlib.h>

/* Communicator 0 leaves the number of CTAs to NCCL; communicator i has 2^(i-1).  NCCL rounds what
 * it uses for sends up to a power of two, so that others could not be told apart. */
enum { COMMUNICATORS = 8 };

/* ncclConfig_t's minCTAs and maxCTAs, and communicators that do not block, are from 2.17 on; what
 * users report of them, and what is tested, begins here. */
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 19, 0)
#error "NCCL 2.19 or newer is needed"
#endif

struct wire_nccl {
    struct wire base;
    struct world *world;
    ncclComm_t comms[COMMUNICATORS]; /* made when first asked for */
    struct watch watch;
    bool broken;
};

static int nccl_check(ncclResult_t result, ncclComm_t comm, const char *call)
{
    if (result == ncclSuccess || result == ncclInProgress)
        return OK;
    return fail(ERR_WIRE, "%s: %s%s%s", call, ncclGetErrorString(result),
                comm && *ncclGetLastError(comm) ? ": " : "", comm ? ncclGetLastError(comm) : "");
}

/* ---- waiting */

static int look_at_comm(void *self)
{
    ncclComm_t comm = self;
    ncclResult_t state = ncclSuccess;

    TRY(nccl_check(ncclCommGetAsyncError(comm, &state), comm, "ncclCommGetAsyncError"));
    return state == ncclInProgress ? UNSUPPORTED : nccl_check(state, comm, "NCCL");
}

/* Until what was asked of the communicator has been taken up. */
static int settle(struct wire_nccl *wire, ncclComm_t comm, const char *what)
{
    return watch_until(&wire->watch, look_at_comm, comm, what);
}

struct stream_look {
    struct wire_nccl *wire;
    cudaStream_t stream;
};

static int look_at_stream(void *self)
{
    const struct stream_look *l = self;
    cudaError_t code = cudaStreamQuery(l->stream);

    if (code != cudaErrorNotReady)
        return cuda_check(code, "cudaStreamQuery");
    for (int i = 0; i < COMMUNICATORS; i++) {
        ncclComm_t comm = l->wire->comms[i];
        int rc = comm ? look_at_comm(comm) : OK;

        if (rc < 0)
            return rc;
    }
    return UNSUPPORTED;
}

/* Lets kernels that wait for other ranks end; and tells those to do the same. */
static int break_off(struct wire_nccl *wire, int rc)
{
    for (int i = COMMUNICATORS - 1; i >= 0; i--) {
        if (wire->comms[i])
            ncclCommAbort(wire->comms[i]);
        wire->comms[i] = NULL;
    }
    wire->broken = true;
    world_alarm(wire->world);
    return rc;
}

static int nccl_wait(struct wire *base, struct stream *stream)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;
    struct stream_look look = { wire, cuda_stream(stream) };
    int rc;

    if (wire->broken)
        return ERR_WIRE;
    rc = watch_until(&wire->watch, look_at_stream, &look, "the exchanges of a step");
    return rc ? break_off(wire, rc) : OK;
}

/* ---- communicators */

static ncclConfig_t config_for(int ctas)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = 0;
    if (ctas)
        config.minCTAs = config.maxCTAs = ctas;
    return config;
}

/* Rank 0's name for all. */
static int agree_on_id(struct world *world, ncclUniqueId *id)
{
    int rc = OK;

    if (world_topology(world)->rank == 0)
        rc = nccl_check(ncclGetUniqueId(id), NULL, "ncclGetUniqueId");
    TRY(world_settle(world, rc));
    return world_broadcast(world, id, sizeof(*id));
}

static int first_comm(struct wire_nccl *wire)
{
    const struct topology *t = &wire->base.topology;
    ncclConfig_t config = config_for(0);
    ncclUniqueId id;

    TRY(agree_on_id(wire->world, &id));
    TRY(nccl_check(ncclCommInitRankConfig(&wire->comms[0], t->ranks, id, t->rank, &config),
                   wire->comms[0], "ncclCommInitRankConfig"));
    return settle(wire, wire->comms[0], "ncclCommInitRankConfig");
}

/* Made at the first exchange that asks for it: that is a step which is not timed, and one which all
 * ranks have agreed to take.  Making it earlier could leave a rank alone that lacks memory. */
static int comm_for(struct wire_nccl *wire, uint32_t ctas, ncclComm_t *out)
{
    ncclConfig_t config = config_for((int)ctas);
    int i = 0;

    for (uint32_t n = ctas; n; n /= 2)
        i++;
    if (i >= COMMUNICATORS)
        return fail(ERR_ARGUMENT, "%u CTAs: at most %d", ctas, 1 << (COMMUNICATORS - 2));
    if (!wire->comms[i]) {
        TRY(nccl_check(
            ncclCommSplit(wire->comms[0], 0, wire->base.topology.rank, &wire->comms[i], &config),
            wire->comms[0], "ncclCommSplit"));
        TRY(settle(wire, wire->comms[0], "ncclCommSplit"));
        TRY(settle(wire, wire->comms[i], "ncclCommSplit"));
    }
    *out = wire->comms[i];
    return OK;
}

/* ---- exchanges */

static int copy_own(const struct wire_nccl *wire, cudaStream_t stream, const struct batch *batch)
{
    for (int i = 0; i < batch->count; i++) {
        const struct transfer *t = &batch->transfers[i];

        if (t->peer == wire->base.topology.rank && t->send != t->recv)
            TRY(CUDA(
                cudaMemcpyAsync(t->recv, t->send, t->bytes, cudaMemcpyDeviceToDevice, stream)));
    }
    return OK;
}

static int send_and_receive(const struct wire_nccl *wire, ncclComm_t comm, cudaStream_t stream,
                            const struct batch *batch)
{
    for (int i = 0; i < batch->count; i++) {
        const struct transfer *t = &batch->transfers[i];

        if (t->peer == wire->base.topology.rank)
            continue;
        TRY(nccl_check(ncclSend(t->send, t->bytes, ncclUint8, t->peer, comm, stream), comm,
                       "ncclSend"));
        TRY(nccl_check(ncclRecv(t->recv, t->bytes, ncclUint8, t->peer, comm, stream), comm,
                       "ncclRecv"));
    }
    return OK;
}

static int group(struct wire_nccl *wire, ncclComm_t comm, cudaStream_t stream,
                 const struct batch *batch)
{
    int rc, ended;

    TRY(nccl_check(ncclGroupStart(), comm, "ncclGroupStart"));
    rc = send_and_receive(wire, comm, stream, batch);
    ended = nccl_check(ncclGroupEnd(), comm, "ncclGroupEnd"); /* a group must not stay open */
    TRY(rc ? rc : ended);
    return settle(wire, comm, "an exchange that is enqueued");
}

static int enqueue(struct wire_nccl *wire, cudaStream_t stream, const struct batch *batch)
{
    ncclComm_t comm = NULL;

    if (fault_hit("exchange"))
        return fail(ERR_WIRE, "an exchange of %d transfers (injected)", batch->count);
    TRY(comm_for(wire, batch->ctas, &comm));
    TRY(copy_own(wire, stream, batch));
    return group(wire, comm, stream, batch);
}

static int nccl_exchange(struct wire *base, struct stream *stream, const struct batch *batch)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;
    int rc;

    if (wire->broken)
        return ERR_WIRE;
    /* What failed in this stream would leave the others waiting. */
    rc = cuda_stream_skips(stream) ? ERR_WIRE : enqueue(wire, cuda_stream(stream), batch);
    return rc ? break_off(wire, rc) : OK;
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
static int enqueue_all_to_all(struct wire_nccl *wire, cudaStream_t stream,
                              const struct all_to_all *blocks)
{
    ncclComm_t comm = NULL;

    if (fault_hit("exchange"))
        return fail(ERR_WIRE, "an all-to-all (injected)");
    TRY(comm_for(wire, blocks->ctas, &comm));
    TRY(nccl_check(ncclAlltoAll(blocks->send, blocks->recv, blocks->bytes, ncclUint8, comm, stream),
                   comm, "ncclAlltoAll"));
    return settle(wire, comm, "an all-to-all that is enqueued");
}

static int nccl_all_to_all(struct wire *base, struct stream *stream,
                           const struct all_to_all *blocks)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;
    int rc;

    if (wire->broken)
        return ERR_WIRE;
    rc = cuda_stream_skips(stream) ? ERR_WIRE
                                   : enqueue_all_to_all(wire, cuda_stream(stream), blocks);
    return rc ? break_off(wire, rc) : OK;
}
#else
#define nccl_all_to_all NULL
#endif

static int nccl_reserve(struct wire *base, struct batch *batch)
{
    (void)base, (void)batch;
    return OK;
}

static void nccl_close(struct wire *base)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;

    if (world_alarmed(wire->world) && !wire->broken)
        break_off(wire, OK);
    for (int i = COMMUNICATORS - 1; i >= 0; i--) {
        ncclComm_t comm = wire->comms[i];

        if (!comm)
            continue;
        if (nccl_check(ncclCommFinalize(comm), comm, "ncclCommFinalize") ||
            settle(wire, comm, "ncclCommFinalize"))
            ncclCommAbort(comm);
        else
            ncclCommDestroy(comm);
    }
    free(wire);
}

static const struct wire_ops nccl_ops = {
    .name = "nccl",
    .close = nccl_close,
    .reserve = nccl_reserve,
    .exchange = nccl_exchange,
    .wait = nccl_wait,
    .all_to_all = nccl_all_to_all,
};

/* NCCL refuses ranks that share a GPU, each with a message of its own; here it is said once. */
static int check_gpus(struct world *world, struct device *device)
{
    struct cuda_peer *peers = NULL;
    bool shared;

    TRY(cuda_peers(world, device, &peers));
    shared = cuda_peers_share_gpu(peers, world_topology(world)->ranks);
    free(peers);
    if (!shared)
        return OK;
    if (world_topology(world)->rank == 0)
        note("wire nccl does not apply: several ranks share one GPU");
    return UNSUPPORTED;
}

int wire_nccl_open(struct world *world, struct device *device, struct wire **out)
{
    struct wire_nccl *wire;
    int rc;

    TRY(check_gpus(world, device));
    wire = calloc(1, sizeof(*wire));
    TRY(world_settle(world, wire ? OK : fail(ERR_NOMEM, "a wire")));
    wire->base.ops = &nccl_ops;
    wire->base.topology = *world_topology(world);
    wire->world = world;
    wire->watch = watch_of(world);
    rc = first_comm(wire);
    if (rc) {
        break_off(wire, rc); /* the others would wait until the limit */
        nccl_close(&wire->base);
        return rc;
    }
    *out = &wire->base;
    return OK;
}
