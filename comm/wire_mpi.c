/* The wire on MPI, for ranks on cores: non-blocking messages, which the thread of the communication
 * stream drives to their end.
 *
 * Open MPI 4.1 makes no progress by itself: a thread must call MPI_Test() again and again.  This
 * thread must not take the core from the kernels that run beside the transfer. */
#include "wire.h"

#include "fault.h"
#include "host.h"
#include "status.h"
#include "world.h"

#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PIECE_BYTES = 1 << 30, /* MPI counts in int */
    TAG = 1,
    NAP_NS = 50000,            /* sleep between tests while kernels run on the same core */
    EAGER_TESTS = 64,          /* first tests without a yield: short messages arrive by then */
    SEPARATE_BYTES = 64 << 10, /* measured on one host: 4 KiB cost a tenth, 32 KiB nothing */
    ALARM_CHECK_TESTS = 256,   /* tests between two checks of the alarm */
};

/* An open wire of this kind; mpi_close() frees it. */
struct wire_mpi {
    struct wire base;
    struct world *world;
    MPI_Comm comm;
    MPI_Request *requests; /* for one exchange; `room` of them */
    int room;
};

struct exchange_call {
    struct wire_mpi *wire;
    const struct batch *batch;
    struct stream *stream;
};

static size_t bytes_of(const struct transfer *t, bool sends)
{
    return sends ? t->send_bytes : t->recv_bytes;
}

static int pieces_of(size_t bytes)
{
    return (int)((bytes + PIECE_BYTES - 1) / PIECE_BYTES);
}

static int post_piece(struct wire_mpi *wire, const struct transfer *t, int piece, bool sends,
                      MPI_Request *out)
{
    size_t offset = (size_t)piece * PIECE_BYTES, left = bytes_of(t, sends) - offset;
    int bytes = (int)(left < PIECE_BYTES ? left : PIECE_BYTES);

    if (sends)
        return world_check(MPI_Isend((const char *)t->send + offset, bytes, MPI_BYTE, t->peer, TAG,
                                     wire->comm, out),
                           "MPI_Isend");
    return world_check(
        MPI_Irecv((char *)t->recv + offset, bytes, MPI_BYTE, t->peer, TAG, wire->comm, out),
        "MPI_Irecv");
}

static int post_all(struct wire_mpi *wire, const struct batch *batch, bool sends, int *n)
{
    for (int i = 0; i < batch->count; i++) {
        const struct transfer *t = &batch->transfers[i];

        if (t->peer == wire->base.topology.rank)
            continue;
        for (int p = 0; p < pieces_of(bytes_of(t, sends)); p++)
            TRY(post_piece(wire, t, p, sends, &wire->requests[(*n)++]));
    }
    return OK;
}

static void yield_core(const struct wire_mpi *wire, const struct stream *stream)
{
    static const struct timespec nap = { .tv_nsec = NAP_NS };

    /* A nap leaves the core to the kernels and gets it back at its end.  A yield would leave it for
     * a whole time slice of the scheduler, several milliseconds. */
    if (!world_crowded(wire->world))
        return;
    if (host_other_streams_compute(stream))
        nanosleep(&nap, NULL);
    else
        sched_yield();
}

static int wait_for_requests(struct wire_mpi *wire, const struct stream *stream, int n)
{
    int done = 0;

    for (unsigned tests = 1; !done; tests++) {
        TRY(world_check(MPI_Testall(n, wire->requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall"));
        if (done)
            break;
        if (tests % ALARM_CHECK_TESTS == 0 && world_alarmed(wire->world)) {
            for (int i = 0; i < n; i++)
                if (wire->requests[i] != MPI_REQUEST_NULL) {
                    MPI_Cancel(&wire->requests[i]);
                    MPI_Request_free(&wire->requests[i]);
                }
            return ERR_WIRE; /* the rank that raised the alarm has printed the reason */
        }
        if (tests > EAGER_TESTS)
            yield_core(wire, stream);
    }
    return OK;
}

static int run_exchange(const void *args)
{
    const struct exchange_call *x = args;
    int n = 0, rc = OK;

    if (fault_hit("exchange"))
        rc = fail(ERR_WIRE, "an exchange of %d transfers (injected)", x->batch->count);
    for (int i = 0; i < x->batch->count && !rc; i++) {
        const struct transfer *t = &x->batch->transfers[i];

        if (t->peer == x->wire->base.topology.rank && t->send != t->recv)
            memcpy(t->recv, t->send, t->send_bytes);
    }
    if (!rc)
        rc = post_all(x->wire, x->batch, false, &n);
    if (!rc)
        rc = post_all(x->wire, x->batch, true, &n);
    if (!rc)
        rc = wait_for_requests(x->wire, x->stream, n);
    if (rc)
        world_alarm(x->wire->world);
    return rc;
}

static int mpi_exchange(struct wire *base, struct stream *stream, const struct batch *batch)
{
    struct exchange_call args = { (struct wire_mpi *)base, batch, stream };

    return host_call(stream, run_exchange, &args, sizeof(args));
}

static int mpi_reserve(struct wire *base, struct batch *batch)
{
    struct wire_mpi *wire = (struct wire_mpi *)base;
    MPI_Request *grown;
    int room = 0;

    for (int i = 0; i < batch->count; i++)
        room +=
            pieces_of(batch->transfers[i].send_bytes) + pieces_of(batch->transfers[i].recv_bytes);
    if (room <= wire->room)
        return OK;
    grown = realloc(wire->requests, (size_t)room * sizeof(*grown));
    if (!grown)
        return fail(ERR_NOMEM, "%d MPI requests", room);
    wire->requests = grown;
    wire->room = room;
    return OK;
}

static void mpi_close(struct wire *base)
{
    struct wire_mpi *wire = (struct wire_mpi *)base;

    if (!world_alarmed(wire->world))
        MPI_Comm_free(&wire->comm);
    free(wire->requests);
    free(wire);
}

static const struct wire_ops mpi_ops = {
    .name = "mpi",
    .close = mpi_close,
    .reserve = mpi_reserve,
    .exchange = mpi_exchange,
};

int wire_mpi_open(struct world *world, struct device *device, struct wire **out)
{
    struct wire_mpi *wire;
    MPI_Comm comm;

    (void)device;
    /* The collective call comes first: a rank that lacks memory must take part in it. */
    TRY(world_channel(world, &comm));
    wire = calloc(1, sizeof(*wire));
    if (!wire) {
        MPI_Comm_free(&comm);
        return fail(ERR_NOMEM, "a wire");
    }
    wire->base.ops = &mpi_ops;
    wire->base.topology = *world_topology(world);
    wire->base.separate_bytes = SEPARATE_BYTES;
    wire->world = world;
    wire->comm = comm;
    *out = &wire->base;
    return OK;
}
