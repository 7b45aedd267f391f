/* The wire on NCCL: one group of sends and receives per exchange, gathers and sums by the library's
 * own collectives, all of it enqueued by the driving thread.
 *
 * The communicator from which the others are split does not block: a call comes back, and who waits
 * looks at the alarm, at NCCL's own errors and at the clock.  Those that exchange do: without, NCCL
 * starts a thread for every exchange, which costs more than all the rest of it.  A guard aborts
 * them where a call does not come back.  An aborted communicator lets its kernels end, so that the
 * streams can be synced; the wire is of no more use then. */
#include "cuda.h"
#include "cuda_peers.h"
#include "fault.h"
#include "moelookup.h"
#include "shape.h"
#include "status.h"
#include "watch.h"
#include "wire.h"
#include "world.h"

#include <dlfcn.h>
#include <nccl.h>
#include <stdlib.h>
#include <string.h>

/* From here on communicators can be aborted as a group, see break_off(). */
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 22, 3)
#error "NCCL 2.22.3 or newer is needed"
#endif

/* What all ranks are divided into: blocks of `ranks`, each a communicator of its own.  CTAs 0: as
 * many as NCCL likes; NCCL rounds what it uses for sends up to a power of two. */
struct division {
    int ranks;
    uint32_t ctas, proto; /* enum moe_proto */
};

struct communicator {
    struct division is;
    ncclComm_t handle;
    int64_t free_before; /* free bytes of the GPU before it was made; 0: its own are counted */
};

/* One for each size of group that weights are gathered in (a divisor of the ranks per expert) and
 * each protocol by which they are, and each number of CTAs that all-to-alls are tried with. */
enum { COMMUNICATORS = 128 };

struct wire_nccl {
    struct wire base;
    struct world *world;
    struct device *device;
    ncclComm_t root; /* all ranks; carries nothing */
    struct communicator comms[COMMUNICATORS];
    int comm_count;
    int64_t comm_bytes, comm_most; /* of this GPU, that communicators took: all, and one */
    int64_t free, most; /* as nccl_survey() found them: what the poorest rank has, and the largest
                         * on any */
    bool tight;         /* there was too little memory for all communicators at a time */
    bool refused;       /* by all ranks alike, in this exchange */
    struct watch watch;
    struct guard *guard;
    bool broken;
};

/* NCCL 2.28 and newer have it; a program that was built with that one starts with an older one,
 * too. */
typedef ncclResult_t all_to_all_call(const void *from, void *to, size_t count, ncclDataType_t type,
                                     ncclComm_t comm, cudaStream_t stream);

static all_to_all_call *find_all_to_all(void)
{
    all_to_all_call *call;
    void *found;
    int version;

    ncclGetVersion(&version); /* the library is loaded by the first call of it */
    found = dlsym(RTLD_DEFAULT, "ncclAlltoAll");
    memcpy(&call, &found, sizeof(call));
    return call;
}

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

/* Waits until the communicator has taken up what was asked of it. */
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
    int rc = cuda_stream_done(l->stream);

    for (int i = 0; i < l->wire->comm_count && rc == UNSUPPORTED; i++) {
        int state = look_at_comm(l->wire->comms[i].handle);

        rc = state < 0 ? state : rc;
    }
    return rc;
}

static int drain(struct wire_nccl *wire, cudaStream_t stream, const char *what)
{
    struct stream_look look = { wire, stream };

    return watch_until(&wire->watch, look_at_stream, &look, what);
}

/* Lets calls and kernels that wait for other ranks end.
 *
 * As one group, which raises every abort flag before it waits for any kernel: a communicator's
 * abort waits for kernels of its own that may be queued behind another's.  First the one from which
 * the others are split: a split under way ends with it, and leaves its handle here or none. */
static void abort_all(void *self)
{
    struct wire_nccl *wire = self;

    ncclGroupStart();
    if (wire->root)
        ncclCommAbort(wire->root);
    for (int i = 0; i < COMMUNICATORS; i++)
        if (wire->comms[i].handle)
            ncclCommAbort(wire->comms[i].handle);
    cuda_graphs_drop(wire->device); /* whose kernels end now */
    ncclGroupEnd();
    wire->root = NULL;
    for (int i = 0; i < COMMUNICATORS; i++)
        wire->comms[i].handle = NULL;
    wire->comm_count = 0;
    wire->comm_bytes = 0;
    wire->broken = true;
}

/* Tells the other ranks too.  A guard that cuts may wait for the capture that this thread is in. */
static int break_off(struct wire_nccl *wire, int rc)
{
    world_alarm(wire->world);
    cuda_capture_drop(wire->device);
    guard_rest(wire->guard);
    abort_all(wire);
    return rc;
}

static int nccl_wait(struct wire *base, struct stream *stream)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;
    int rc;

    if (wire->broken)
        return ERR_WIRE;
    rc = drain(wire, cuda_stream(stream), "the exchanges of a step");
    return rc ? break_off(wire, rc) : OK;
}

/* ---- communicators */

static ncclConfig_t config_for(bool blocking, uint32_t ctas)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = blocking;
    if (ctas)
        config.minCTAs = config.maxCTAs = (int)ctas;
    return config;
}

static int open_root(struct wire_nccl *wire)
{
    const struct topology *t = &wire->base.topology;
    ncclConfig_t config = config_for(false, 0);
    ncclUniqueId id;
    int rc = OK;

    /* Rank 0 makes the name of a communicator for all ranks. */
    if (t->rank == 0)
        rc = nccl_check(ncclGetUniqueId(&id), NULL, "ncclGetUniqueId");
    TRY(world_settle(wire->world, rc));
    TRY(world_broadcast(wire->world, &id, sizeof(id)));
    TRY(nccl_check(ncclCommInitRankConfig(&wire->root, t->ranks, id, t->rank, &config), wire->root,
                   "ncclCommInitRankConfig"));
    return settle(wire, wire->root, "ncclCommInitRankConfig");
}

/* NCCL looks at this variable while it makes a communicator, and never again for that one. */
static const char *const proto_variable = "NCCL_PROTO";

static const char *const proto_names[] = {
    [MOE_PROTO_LL] = "LL", [MOE_PROTO_LL128] = "LL128", [MOE_PROTO_SIMPLE] = "Simple"
};

/* *before is what it was, for restore_proto(); NULL: not set.  For auto it stays as the user has
 * it. Only the driving thread makes communicators, one at a time, and nothing is under way then: of
 * NCCL's threads only those that make this one look at the environment. */
static int set_proto(uint32_t proto, char **before)
{
    const char *now = getenv(proto_variable);

    *before = NULL;
    if (proto == MOE_PROTO_AUTO)
        return OK;
    *before = now ? strdup(now) : NULL;
    if ((!now || *before) && !setenv(proto_variable, proto_names[proto], 1))
        return OK;
    free(*before);
    return fail(ERR_WIRE, "no memory for %s=%s", proto_variable, proto_names[proto]);
}

static void restore_proto(uint32_t proto, char *before)
{
    if (before)
        setenv(proto_variable, before, 1);
    else if (proto != MOE_PROTO_AUTO)
        unsetenv(proto_variable);
    free(before);
}

/* What one takes of the GPU is NCCL's own affair, and in no account of a plan: it depends on ranks,
 * links, protocols and versions.  So what its first exchange takes is measured (ranks that exchange
 * later connect later, and take more then), and one is made beside others only where every rank has
 * twice what the largest took.  Where one has not, the wire stays of use: who wants the exchange
 * may close what is open, and have all communicators ended (nccl_trim()); from then on as much as
 * the largest took is enough. */
static int room_for_another(struct wire_nccl *wire)
{
    int times = wire->tight || !wire->comm_count ? 1 : 2;

    wire->refused = wire->free / times < wire->most;
    if (wire->refused)
        return fail(ERR_NOMEM,
                    "no room for a communicator of NCCL: one took %lld MiB, %s is wanted, and "
                    "beside %d of them %lld MiB are free",
                    (long long)(wire->most >> 20), times == 2 ? "twice as much" : "as much",
                    wire->comm_count, (long long)(wire->free >> 20));
    wire->free -= wire->most;
    return OK;
}

/* Ranks decide alike because they have agreed before: none of them waits for another one here. */
static int nccl_survey(struct wire *base)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;
    int64_t agreed[] = { -device_free_bytes(wire->device), wire->comm_most };

    TRY(world_max(wire->world, agreed, 2));
    wire->free = -agreed[0];
    wire->most = agreed[1];
    return OK;
}

static void count_bytes(struct wire_nccl *wire, struct communicator *c)
{
    int64_t before = c->free_before, bytes = before - device_free_bytes(wire->device);

    c->free_before = 0;
    if (bytes <= 0 || before == INT64_MAX) /* the GPU did not say */
        return;
    wire->comm_bytes += bytes;
    wire->comm_most = bytes > wire->comm_most ? bytes : wire->comm_most;
}

/* The communicator of such a division.  It is made at the first exchange that asks for it: that is
 * a step which is not timed, and one which all ranks have agreed to take.  Making it earlier could
 * leave a rank alone that lacks memory.
 *
 * A split is one call of all ranks, those of other groups too: each gives its own group's number.
 * All of them come here, and in the same order: their batches hold the same sizes of groups in the
 * same order, and run in the same order.  Nothing may be under way, for memory is allocated. */
static int comm_for(struct wire_nccl *wire, cudaStream_t stream, const struct division *is,
                    struct communicator **out)
{
    ncclConfig_t config = config_for(true, is->ctas);
    int rank = wire->base.topology.rank, rc;
    struct communicator *c = wire->comms;
    char *before;

    for (int i = 0; i < wire->comm_count; i++, c++)
        if (c->is.ranks == is->ranks && c->is.ctas == is->ctas && c->is.proto == is->proto) {
            *out = c;
            return OK;
        }
    if (wire->comm_count == COMMUNICATORS)
        return fail(ERR_WIRE, "more than %d communicators", COMMUNICATORS);
    TRY(drain(wire, stream, "exchanges before a new communicator"));
    c->free_before = device_free_bytes(wire->device);
    TRY(room_for_another(wire));
    TRY(set_proto(is->proto, &before));
    rc = nccl_check(ncclCommSplit(wire->root, rank / is->ranks, rank, &c->handle, &config),
                    wire->root, "ncclCommSplit");
    if (!rc)
        rc = settle(wire, wire->root, "ncclCommSplit"); /* only then is there a new one */
    if (!rc)
        rc = settle(wire, c->handle, "ncclCommSplit");
    restore_proto(is->proto, before);
    if (rc)
        return rc;
    c->is = *is;
    wire->comm_count++;
    *out = c;
    return OK;
}

/* ---- exchanges */

static const ncclDataType_t nccl_types[] = {
    [MOE_F32] = ncclFloat32, [MOE_F16] = ncclFloat16, [MOE_BF16] = ncclBfloat16
};

static int call_collective(const struct collective *c, ncclComm_t comm, cudaStream_t stream)
{
    switch (c->kind) {
    case COLLECTIVE_GATHER:
        return nccl_check(ncclAllGather(c->send, c->recv, c->bytes, ncclUint8, comm, stream), comm,
                          "ncclAllGather");
    case COLLECTIVE_SUM:
        return nccl_check(ncclReduceScatter(c->send, c->recv, c->bytes / dtype_bytes(c->dtype),
                                            nccl_types[c->dtype], ncclSum, comm, stream),
                          comm, "ncclReduceScatter");
    case COLLECTIVE_ALL_TO_ALL:
        return nccl_check(find_all_to_all()(c->send, c->recv, c->bytes, ncclUint8, comm, stream),
                          comm, "ncclAlltoAll");
    }
    return ERR_WIRE;
}

/* What one communicator carries of a batch: all its transfers (`sends`), or the collectives of
 * groups of so many ranks. */
struct batch_share {
    bool sends;
    int ranks; /* of the communicator */
};

static int enqueue_share(const struct wire_nccl *wire, const struct batch *batch,
                         struct batch_share share, ncclComm_t comm, cudaStream_t stream)
{
    for (int i = 0; i < batch->count && share.sends; i++) {
        const struct transfer *t = &batch->transfers[i];

        if (t->peer == wire->base.topology.rank)
            continue;
        if (t->send_bytes)
            TRY(nccl_check(ncclSend(t->send, t->send_bytes, ncclUint8, t->peer, comm, stream), comm,
                           "ncclSend"));
        if (t->recv_bytes)
            TRY(nccl_check(ncclRecv(t->recv, t->recv_bytes, ncclUint8, t->peer, comm, stream), comm,
                           "ncclRecv"));
    }
    for (int i = 0; i < batch->collective_count && !share.sends; i++)
        if (batch->collectives[i].group.count == share.ranks)
            TRY(call_collective(&batch->collectives[i], comm, stream));
    return OK;
}

/* All of it is one group of NCCL, so that several tensors travel in one kernel. */
static int run_share(struct wire_nccl *wire, const struct batch *batch, struct batch_share share,
                     cudaStream_t stream)
{
    /* A send's protocol is one for the whole process, so there a communicator's says nothing. */
    struct division is = { share.ranks, batch->ctas, share.sends ? MOE_PROTO_AUTO : batch->proto };
    struct communicator *c = NULL;
    ncclResult_t result;
    ncclComm_t comm;
    int rc, ended;

    TRY(comm_for(wire, stream, &is, &c));
    comm = c->handle;
    TRY(nccl_check(ncclGroupStart(), comm, "ncclGroupStart"));
    rc = enqueue_share(wire, batch, share, comm, stream);
    /* A group must not stay open.  The first one of a communicator connects it, and comes back when
     * the other ranks have begun theirs; later ones are only enqueued. */
    guard_begin(wire->guard, "an exchange that is enqueued");
    result = ncclGroupEnd();
    ended = guard_end(wire->guard);
    if (!ended) /* else it was cut: there is no communicator that could say more */
        ended = nccl_check(result, comm, "ncclGroupEnd");
    if (!rc && !ended && c->free_before)
        count_bytes(wire, c);
    return rc ? rc : ended;
}

static int enqueue(struct wire_nccl *wire, cudaStream_t stream, const struct batch *batch)
{
    const struct topology *topology = &wire->base.topology;

    if (fault_hit("exchange"))
        return fail(ERR_WIRE, "an exchange of %d transfers (injected)", batch->count);
    for (int i = 0; i < batch->count; i++) {
        const struct transfer *t = &batch->transfers[i];

        if (t->peer == topology->rank && t->send != t->recv)
            TRY(CUDA(cudaMemcpyAsync(t->recv, t->send, t->send_bytes, cudaMemcpyDeviceToDevice,
                                     stream)));
    }
    if (batch->count)
        TRY(run_share(wire, batch, (struct batch_share){ true, topology->ranks }, stream));
    /* One communicator after the other, in the same order on every rank: in one group NCCL would
     * order them by a hash, which differs between groups of ranks. */
    for (int i = 0; i < batch->collective_count; i++) {
        int ranks = batch->collectives[i].group.count, first = 0;

        while (batch->collectives[first].group.count != ranks)
            first++;
        if (first == i)
            TRY(run_share(wire, batch, (struct batch_share){ false, ranks }, stream));
    }
    return OK;
}

static int nccl_exchange(struct wire *base, struct stream *stream, const struct batch *batch)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;
    int rc;

    if (wire->broken)
        return ERR_WIRE;
    /* What failed in this stream would leave the others waiting. */
    wire->refused = false;
    rc = cuda_stream_skips(stream) ? ERR_WIRE : enqueue(wire, cuda_stream(stream), batch);
    return rc && !wire->refused ? break_off(wire, rc) : rc;
}

/* ---- ending */

/* NCCL hears of a graph that is gone some time later.  It lets go of what it mapped for it while it
 * is called for work: at the next call, in newer versions at every eleventh.  So each communicator
 * gets bytes to send to itself. */
enum { RECLAIM_CALLS = 11 };

static int call_once(struct wire_nccl *wire, const struct communicator *c, struct stream *stream)
{
    int self = wire->base.topology.rank % c->is.ranks, rc;
    ncclComm_t comm = c->handle;
    char *scratch = cuda_scratch(stream);
    ncclResult_t result;

    TRY(nccl_check(ncclGroupStart(), comm, "ncclGroupStart"));
    rc = nccl_check(ncclSend(scratch, 1, ncclUint8, self, comm, cuda_stream(stream)), comm,
                    "ncclSend");
    if (!rc)
        rc = nccl_check(ncclRecv(scratch + 1, 1, ncclUint8, self, comm, cuda_stream(stream)), comm,
                        "ncclRecv");
    guard_begin(wire->guard, "a byte to itself");
    result = ncclGroupEnd();
    TRY(guard_end(wire->guard));
    return rc ? rc : nccl_check(result, comm, "ncclGroupEnd");
}

static int call_all(struct wire_nccl *wire, struct stream *stream)
{
    for (int i = 0; i < RECLAIM_CALLS * wire->comm_count; i++)
        TRY(call_once(wire, &wire->comms[i / RECLAIM_CALLS], stream));
    return drain(wire, cuda_stream(stream), "a byte to itself");
}

static int look_at_graphs(void *self)
{
    return cuda_graphs_gone(((const struct wire_nccl *)self)->device);
}

/* By default (NCCL_GRAPH_REGISTER) a rank maps what others name in an exchange that is captured. */
static int nccl_reclaim(struct wire *base, struct stream *stream)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;
    int rc = wire->broken ? ERR_WIRE
                          : watch_until(&wire->watch, look_at_graphs, wire, "the end of a graph");

    if (!rc)
        rc = call_all(wire, stream);
    if (rc)
        rc = break_off(wire, rc);
    return world_settle(wire->world, rc); /* also the wait for the others */
}

static int finalize(struct wire_nccl *wire, ncclComm_t comm)
{
    ncclResult_t result;

    guard_begin(wire->guard, "ncclCommFinalize");
    result = ncclCommFinalize(comm);
    TRY(guard_end(wire->guard));
    TRY(nccl_check(result, comm, "ncclCommFinalize"));
    TRY(settle(wire, comm, "ncclCommFinalize"));
    return nccl_check(ncclCommDestroy(comm), NULL, "ncclCommDestroy");
}

static int finalize_comms(struct wire_nccl *wire)
{
    while (wire->comm_count) {
        TRY(finalize(wire, wire->comms[wire->comm_count - 1].handle));
        wire->comms[--wire->comm_count].handle = NULL;
    }
    return OK;
}

/* Ends the root last, from which the others were split. */
static int finalize_all(struct wire_nccl *wire)
{
    TRY(finalize_comms(wire));
    if (wire->root)
        TRY(finalize(wire, wire->root));
    wire->root = NULL;
    return OK;
}

/* Communicators are made again by the exchanges that ask for them. */
static int nccl_trim(struct wire *base)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;
    int rc = wire->broken ? ERR_WIRE : (wire->comm_count ? OK : UNSUPPORTED);

    if (!rc)
        rc = finalize_comms(wire);
    if (rc < 0)
        rc = break_off(wire, rc);
    wire->comm_bytes = 0;
    wire->tight |= wire->refused; /* the memory may have lacked for something else */
    return world_settle(wire->world, rc);
}

static void nccl_close(struct wire *base)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;

    if (world_alarmed(wire->world) && !wire->broken)
        break_off(wire, OK);
    if (wire->base.topology.rank == 0 && wire->comm_bytes >> 20)
        note("NCCL's communicators, %d of them, took %lld MiB of this GPU beside what plans need",
             wire->comm_count, (long long)(wire->comm_bytes >> 20));
    if (finalize_all(wire))
        break_off(wire, OK);
    guard_close(wire->guard);
    free(wire);
}

static const struct wire_ops nccl_ops = {
    .name = "nccl",
    .close = nccl_close,
    .exchange = nccl_exchange,
    .wait = nccl_wait,
    .reclaim = nccl_reclaim,
    .survey = nccl_survey,
    .trim = nccl_trim,
    .graphs = true,
    .collectives = 1u << COLLECTIVE_GATHER | 1u << COLLECTIVE_SUM | 1u << COLLECTIVE_ALL_TO_ALL,
};

static const struct wire_ops older_nccl_ops = {
    .name = "nccl",
    .close = nccl_close,
    .exchange = nccl_exchange,
    .wait = nccl_wait,
    .reclaim = nccl_reclaim,
    .survey = nccl_survey,
    .trim = nccl_trim,
    .graphs = true,
    .collectives = 1u << COLLECTIVE_GATHER | 1u << COLLECTIVE_SUM,
};

int wire_nccl_open(struct world *world, struct device *device, struct wire **out)
{
    struct cuda_peer *peers = NULL;
    struct wire_nccl *wire;
    bool shared;
    int rc;

    /* NCCL refuses ranks that share a GPU, each with a message of its own; here it is said once. */
    TRY(cuda_peers(world, device, &peers));
    shared = cuda_peers_share_gpu(peers, world_topology(world)->ranks);
    free(peers);
    if (shared) {
        if (world_topology(world)->rank == 0)
            note("wire nccl does not apply: several ranks share one GPU");
        return UNSUPPORTED;
    }
    wire = calloc(1, sizeof(*wire));
    TRY(world_settle(world, wire ? OK : fail(ERR_NOMEM, "a wire")));
    rc = world_settle(world, find_all_to_all() ? OK : UNSUPPORTED);
    wire->base.ops = rc == OK ? &nccl_ops : &older_nccl_ops;
    wire->base.topology = *world_topology(world);
    wire->base.apart_bytes = CUDA_APART_BYTES;
    wire->world = world;
    wire->device = device;
    wire->watch = watch_of(world);
    if (rc >= 0)
        rc = world_settle(world, guard_open(&wire->watch, abort_all, wire, &wire->guard));
    if (!rc) {
        rc = open_root(wire);
        if (rc)
            break_off(wire, rc); /* the others would wait until the limit */
    }
    if (rc)
        nccl_close(&wire->base);
    else
        *out = &wire->base;
    return rc;
}
