/* The wire on NCCL, for ranks with a GPU each.  The host thread enqueues everything: one NCCL group
 * of sends and receives per exchange; gathers and sums are the library's own collectives.
 *
 * The root communicator, from which all others are split, does not block: its calls come back, and
 * the caller polls the alarm, NCCL's errors and the clock.  The communicators that exchange do
 * block; else NCCL starts a thread for every exchange, which costs more than all the rest.  A guard
 * (watch.h) aborts them where a call does not come back.  The kernels of an aborted communicator
 * end, so the streams can be synced; the wire cannot be used any more. */
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

/* How all ranks are divided: into blocks of `ranks`, each with its own communicator.  A plain
 * value.  ctas 0: NCCL chooses; for sends NCCL rounds up to a power of two. */
struct division {
    int ranks;
    uint32_t ctas, proto; /* enum moe_proto */
};

struct communicator {
    struct division division;
    ncclComm_t handle;
    int64_t free_before; /* free bytes of the GPU before it was made; 0: its bytes are counted */
};

/* The most communicators of a rank.  A layer needs one for each size of group in which it gathers
 * weights (a divisor of the ranks per expert), each protocol, and each number of CTAs. */
enum { COMMUNICATORS = 128 };

/* An open wire of this kind; nccl_close() frees it. */
struct wire_nccl {
    struct wire base;
    struct world *world;
    struct device *device;
    ncclComm_t root; /* all ranks; carries nothing */
    struct communicator comms[COMMUNICATORS];
    int comm_count;
    /* GPU memory of all communicators, and of the largest. */
    int64_t comm_bytes, largest_comm_bytes;
    /* From nccl_survey(): the least free memory and the largest communicator of any rank. */
    int64_t agreed_free_bytes, agreed_largest_bytes;
    bool is_short;   /* memory was too short for all communicators at the same time */
    bool is_refused; /* in this exchange; all ranks refuse together */
    struct watch watch;
    struct guard *guard;
    bool is_broken; /* the communicators are aborted */
};

/* ncclAlltoAll() is looked up at run time, because NCCL has it only since 2.28; a program that was
 * built with 2.28 must also start with an older library. */
typedef ncclResult_t all_to_all_call(const void *from, void *to, size_t count, ncclDataType_t type,
                                     ncclComm_t comm, cudaStream_t stream);

static all_to_all_call *find_all_to_all(void)
{
    all_to_all_call *call;
    void *found;
    int version;

    ncclGetVersion(&version); /* loads the library, see nccl_loaded.c */
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

static int poll_comm(void *self)
{
    ncclComm_t comm = self;
    ncclResult_t state = ncclSuccess;

    TRY(nccl_check(ncclCommGetAsyncError(comm, &state), comm, "ncclCommGetAsyncError"));
    return state == ncclInProgress ? POLL_AGAIN : nccl_check(state, comm, "NCCL");
}

/* Waits until the communicator has finished its pending call. */
static int wait_for_comm(struct wire_nccl *wire, ncclComm_t comm, const char *what)
{
    return watch_until(&wire->watch, poll_comm, comm, what);
}

struct stream_poll {
    struct wire_nccl *wire;
    cudaStream_t stream;
};

/* While the stream works, an error of a communicator ends the wait. */
static int poll_stream(void *self)
{
    const struct stream_poll *poll = self;
    int rc = cuda_stream_done(poll->stream);

    for (int i = 0; i < poll->wire->comm_count && rc == POLL_AGAIN; i++) {
        int state = poll_comm(poll->wire->comms[i].handle);

        rc = state < 0 ? state : rc;
    }
    return rc;
}

static int wait_for_stream(struct wire_nccl *wire, cudaStream_t stream, const char *what)
{
    struct stream_poll poll = { wire, stream };

    return watch_until(&wire->watch, poll_stream, &poll, what);
}

/* Aborts all communicators, so that calls and kernels that wait for other ranks end.
 *
 * All aborts are one group, which sets every abort flag before it waits for a kernel: an abort
 * waits for the communicator's own kernels, which may be queued behind those of another one.  The
 * root comes first: a split that is in progress ends with it, and leaves its handle in `comms` or
 * none.
 */
static void abort_all(void *self)
{
    struct wire_nccl *wire = self;

    ncclGroupStart();
    if (wire->root)
        ncclCommAbort(wire->root);
    for (int i = 0; i < COMMUNICATORS; i++)
        if (wire->comms[i].handle)
            ncclCommAbort(wire->comms[i].handle);
    cuda_graphs_drop(wire->device); /* the kernels of open graphs end now */
    ncclGroupEnd();
    wire->root = NULL;
    for (int i = 0; i < COMMUNICATORS; i++)
        wire->comms[i].handle = NULL;
    wire->comm_count = 0;
    wire->comm_bytes = 0;
    wire->is_broken = true;
}

/* Ends the wire on this rank after a failure, and raises the alarm for the others.  An interrupt of
 * the guard may wait for this thread's capture, so the capture ends first. */
static int break_off(struct wire_nccl *wire, int rc)
{
    world_alarm(wire->world);
    cuda_capture_drop(wire->device);
    guard_wait_interrupt(wire->guard);
    abort_all(wire);
    return rc;
}

static int nccl_wait(struct wire *base, struct stream *stream)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;
    int rc;

    if (wire->is_broken)
        return ERR_WIRE;
    rc = wait_for_stream(wire, cuda_stream(stream), "the exchanges of a step");
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
    return wait_for_comm(wire, wire->root, "ncclCommInitRankConfig");
}

/* NCCL reads this variable while it makes a communicator, and not later. */
static const char *const proto_variable = "NCCL_PROTO";

static const char *const proto_names[] = {
    [MOE_PROTO_LL] = "LL", [MOE_PROTO_LL128] = "LL128", [MOE_PROTO_SIMPLE] = "Simple"
};

/* Sets NCCL's protocol for the next communicator; `auto` leaves the user's value.  *old_value is
 * for restore_proto(); NULL: there was none.  setenv() is safe here: one thread makes
 * communicators, one at a time, while nothing else runs, and of NCCL's threads only those that make
 * this communicator read the environment. */
static int set_proto(uint32_t proto, char **old_value)
{
    const char *value = getenv(proto_variable);

    *old_value = NULL;
    if (proto == MOE_PROTO_AUTO)
        return OK;
    *old_value = value ? strdup(value) : NULL;
    if ((!value || *old_value) && !setenv(proto_variable, proto_names[proto], 1))
        return OK;
    free(*old_value);
    return fail(ERR_WIRE, "no memory for %s=%s", proto_variable, proto_names[proto]);
}

static void restore_proto(uint32_t proto, char *old_value)
{
    if (old_value)
        setenv(proto_variable, old_value, 1);
    else if (proto != MOE_PROTO_AUTO)
        unsetenv(proto_variable);
    free(old_value);
}

/* Checks that memory suffices for another communicator.  How much GPU memory one takes depends on
 * ranks, links, protocols and NCCL's version, so no account of a plan contains it; it is measured
 * at the first exchange (ranks that exchange later connect later, and take more then).  A new one
 * beside others needs twice the memory of the largest, free on every rank.  Otherwise ERR_NOMEM,
 * and the wire can still be used: the caller may close what is open and end all communicators
 * (nccl_trim()).  After that, the memory of the largest suffices. */
static int check_room(struct wire_nccl *wire)
{
    int rooms = wire->is_short || !wire->comm_count ? 1 : 2;

    wire->is_refused = wire->agreed_free_bytes / rooms < wire->agreed_largest_bytes;
    if (wire->is_refused)
        return fail(ERR_NOMEM,
                    "no room for a communicator of NCCL: the largest took %lld MiB, %s must "
                    "be free, and %lld MiB are free (open communicators: %d)",
                    (long long)(wire->agreed_largest_bytes >> 20),
                    rooms == 2 ? "twice as much" : "as much",
                    (long long)(wire->agreed_free_bytes >> 20), wire->comm_count);
    wire->agreed_free_bytes -= wire->agreed_largest_bytes;
    return OK;
}

/* Ranks agree here once, so that check_room() decides the same on every rank and need not
 * communicate. */
static int nccl_survey(struct wire *base)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;
    int64_t largest[] = { -device_free_bytes(wire->device), wire->largest_comm_bytes };

    TRY(world_max(wire->world, largest, 2));
    wire->agreed_free_bytes = -largest[0];
    wire->agreed_largest_bytes = largest[1];
    return OK;
}

static void count_bytes(struct wire_nccl *wire, struct communicator *c)
{
    int64_t before = c->free_before, bytes = before - device_free_bytes(wire->device);

    c->free_before = 0;
    if (bytes <= 0 || before == INT64_MAX) /* free memory is unknown */
        return;
    wire->comm_bytes += bytes;
    wire->largest_comm_bytes = bytes > wire->largest_comm_bytes ? bytes : wire->largest_comm_bytes;
}

/* Finds the communicator of a division, or makes it.  It is made at the first exchange that needs
 * it, in a step that is not timed and that all ranks have agreed to run.  An earlier time could
 * leave a rank waiting for one that lacks memory.
 *
 * A split is one call of all ranks, in which each gives the number of its own group.  All ranks
 * come here in the same order, because their batches have the same sizes of groups in the same
 * order. It allocates memory, so no exchange may be in progress. */
static int comm_for(struct wire_nccl *wire, cudaStream_t stream, const struct division *division,
                    struct communicator **out)
{
    ncclConfig_t config = config_for(true, division->ctas);
    int rank = wire->base.topology.rank, rc;
    struct communicator *c = wire->comms;
    char *old_proto;

    for (int i = 0; i < wire->comm_count; i++, c++)
        if (c->division.ranks == division->ranks && c->division.ctas == division->ctas &&
            c->division.proto == division->proto) {
            *out = c;
            return OK;
        }
    if (wire->comm_count == COMMUNICATORS)
        return fail(ERR_WIRE, "more than %d communicators", COMMUNICATORS);
    TRY(wait_for_stream(wire, stream, "exchanges before a new communicator"));
    c->free_before = device_free_bytes(wire->device);
    TRY(check_room(wire));
    TRY(set_proto(division->proto, &old_proto));
    rc = nccl_check(ncclCommSplit(wire->root, rank / division->ranks, rank, &c->handle, &config),
                    wire->root, "ncclCommSplit");
    if (!rc)
        rc = wait_for_comm(wire, wire->root, "ncclCommSplit"); /* the new one exists only then */
    if (!rc)
        rc = wait_for_comm(wire, c->handle, "ncclCommSplit");
    restore_proto(division->proto, old_proto);
    if (rc)
        return rc;
    c->division = *division;
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

/* The part of a batch that one communicator carries: all transfers (`sends`), or all collectives in
 * groups of `ranks`. */
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

/* Enqueues this part as one NCCL group, so that one kernel carries several tensors. */
static int run_share(struct wire_nccl *wire, const struct batch *batch, struct batch_share share,
                     cudaStream_t stream)
{
    /* NCCL uses one protocol for all sends of a process, whatever the communicator has. */
    struct division division = { share.ranks, batch->ctas,
                                 share.sends ? MOE_PROTO_AUTO : batch->proto };
    struct communicator *c = NULL;
    ncclResult_t result;
    ncclComm_t comm;
    int rc, ended;

    TRY(comm_for(wire, stream, &division, &c));
    comm = c->handle;
    TRY(nccl_check(ncclGroupStart(), comm, "ncclGroupStart"));
    rc = enqueue_share(wire, batch, share, comm, stream);
    /* A group must not stay open, so it ends even after an error.  A communicator's first group
     * connects it, and comes back when the other ranks have begun theirs; later groups are only
     * enqueued. */
    guard_begin(wire->guard, "an exchange that is enqueued");
    result = ncclGroupEnd();
    ended = guard_end(wire->guard);
    if (!ended) /* else it was interrupted, and the communicator is gone */
        ended = nccl_check(result, comm, "ncclGroupEnd");
    if (!rc && !ended && c->free_before)
        count_bytes(wire, c);
    return rc ? rc : ended;
}

static int enqueue_batch(struct wire_nccl *wire, cudaStream_t stream, const struct batch *batch)
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
    /* One NCCL group for each communicator, in the same order on every rank.  Inside one group,
     * NCCL would order communicators by a hash, which differs between groups of ranks. */
    for (int i = 0; i < batch->collective_count; i++) {
        int ranks = batch->collectives[i].group.count, same_size = 0;

        while (batch->collectives[same_size].group.count != ranks)
            same_size++;
        if (same_size == i) /* the first collective of this size */
            TRY(run_share(wire, batch, (struct batch_share){ false, ranks }, stream));
    }
    return OK;
}

static int nccl_exchange(struct wire *base, struct stream *stream, const struct batch *batch)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;
    int rc;

    if (wire->is_broken)
        return ERR_WIRE;
    /* After a failure in this stream, the other ranks would wait for this exchange. */
    wire->is_refused = false;
    rc = cuda_stream_skips(stream) ? ERR_WIRE : enqueue_batch(wire, cuda_stream(stream), batch);
    return rc && !wire->is_refused ? break_off(wire, rc) : rc;
}

/* ---- ending */

/* NCCL learns some time later that a graph was destroyed.  It unmaps that graph's memory only
 * inside later calls: in the next one, in newer versions in every eleventh.  So each communicator
 * sends itself a byte that many times. */
enum { RECLAIM_CALLS = 11 };

static int send_byte_to_self(struct wire_nccl *wire, const struct communicator *c,
                             struct stream *stream)
{
    int self = wire->base.topology.rank % c->division.ranks, rc;
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

static int send_bytes_to_self(struct wire_nccl *wire, struct stream *stream)
{
    for (int i = 0; i < RECLAIM_CALLS * wire->comm_count; i++)
        TRY(send_byte_to_self(wire, &wire->comms[i / RECLAIM_CALLS], stream));
    return wait_for_stream(wire, cuda_stream(stream), "a byte to itself");
}

static int poll_graphs(void *self)
{
    return cuda_graphs_gone(((const struct wire_nccl *)self)->device);
}

/* By default (NCCL_GRAPH_REGISTER) a rank maps the memory that other ranks name in a captured
 * exchange; this unmaps it. */
static int nccl_reclaim(struct wire *base, struct stream *stream)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;
    int rc = wire->is_broken ? ERR_WIRE
                             : watch_until(&wire->watch, poll_graphs, wire, "the end of a graph");

    if (!rc)
        rc = send_bytes_to_self(wire, stream);
    if (rc)
        rc = break_off(wire, rc);
    return world_settle(wire->world,
                        rc); /* also waits until the other ranks have unmapped theirs */
}

static int finalize_comm(struct wire_nccl *wire, ncclComm_t comm)
{
    ncclResult_t result;

    guard_begin(wire->guard, "ncclCommFinalize");
    result = ncclCommFinalize(comm);
    TRY(guard_end(wire->guard));
    TRY(nccl_check(result, comm, "ncclCommFinalize"));
    TRY(wait_for_comm(wire, comm, "ncclCommFinalize"));
    return nccl_check(ncclCommDestroy(comm), NULL, "ncclCommDestroy");
}

static int finalize_comms(struct wire_nccl *wire)
{
    while (wire->comm_count) {
        TRY(finalize_comm(wire, wire->comms[wire->comm_count - 1].handle));
        wire->comms[--wire->comm_count].handle = NULL;
    }
    return OK;
}

/* Ends the root last, because the others were split from it. */
static int finalize_all(struct wire_nccl *wire)
{
    TRY(finalize_comms(wire));
    if (wire->root)
        TRY(finalize_comm(wire, wire->root));
    wire->root = NULL;
    return OK;
}

/* Ends all communicators; later exchanges make them again. */
static int nccl_trim(struct wire *base)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;
    int rc = wire->is_broken ? ERR_WIRE : (wire->comm_count ? OK : UNSUPPORTED);

    if (!rc)
        rc = finalize_comms(wire);
    if (rc < 0)
        rc = break_off(wire, rc);
    wire->comm_bytes = 0;
    wire->is_short |= wire->is_refused; /* else something other than NCCL lacked memory */
    return world_settle(wire->world, rc);
}

static void nccl_close(struct wire *base)
{
    struct wire_nccl *wire = (struct wire_nccl *)base;

    if (world_alarmed(wire->world) && !wire->is_broken)
        break_off(wire, OK);
    if (wire->base.topology.rank == 0 && wire->comm_bytes >> 20)
        note("NCCL's communicators (%d) took %lld MiB of GPU memory, besides the memory of plans",
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

    /* NCCL itself refuses ranks that share a GPU, with a message on each rank; this note is one. */
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
    wire->base.separate_bytes = CUDA_SEPARATE_BYTES;
    wire->world = world;
    wire->device = device;
    wire->watch = watch_of(world);
    if (rc >= 0)
        rc = world_settle(world, guard_open(&wire->watch, abort_all, wire, &wire->guard));
    if (!rc) {
        rc = open_root(wire);
        if (rc)
            break_off(wire, rc); /* else the other ranks wait until the limit */
    }
    if (rc)
        nccl_close(&wire->base);
    else
        *out = &wire->base;
    return rc;
}
