/* The wire of virtual ranks: copies inside one process, no faster than a stated link. */
#include "wire_virtual.h"

#ifdef MOETUNE_CUDA
#include "cuda.h"
#include "cuda_paced.h"
#endif
#include "fault.h"
#include "host.h"
#include "status.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct wire_virtual {
    struct wire base;
    struct virtual_link link;
    const struct pacer *pacer;
    void *clock; /* of a GPU: when the exchange under way began; its device's memory */
    struct device *device;
};

/* What copies at a pace on one kind of device. */
struct pacer {
    const char *device;
    int (*exchange)(const struct wire_virtual *wire, struct stream *stream,
                    const struct batch *batch);
};

/* Of a whole batch: both kinds of link carry their part at the same time. */
static double pace_ns_per_byte(const struct wire_virtual *wire, const struct batch *batch)
{
    const struct topology *t = &wire->base.topology;
    int per_node = t->ranks_per_node ? t->ranks_per_node : t->ranks;
    double inside = 0, between = 0, busy_ns;

    for (int i = 0; i < batch->count; i++) {
        int peer = batch->transfers[i].peer;

        if (peer != t->rank)
            *(peer / per_node == t->rank / per_node ? &inside : &between) +=
                (double)batch->transfers[i].bytes;
    }
    busy_ns = round(fmax(inside / wire->link.inside_gbs, between / wire->link.between_gbs));
    return inside + between > 0 ? busy_ns / (inside + between) : 0;
}

/* ---- host: the thread of the stream copies, and sleeps until the next piece is due */

enum { PIECE_BYTES = 64 << 10 };

struct host_args {
    const struct wire_virtual *wire;
    const struct batch *batch;
};

static void sleep_until(int64_t ns)
{
    struct timespec date = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &date, NULL) == EINTR)
        ;
}

static int run_on_host(const void *args)
{
    const struct host_args *a = args;
    double pace = pace_ns_per_byte(a->wire, a->batch);
    int64_t begun_ns = host_clock_ns();
    uint64_t done = 0;

    for (int i = 0; i < a->batch->count; i++) {
        const struct transfer *t = &a->batch->transfers[i];
        bool leaves = t->peer != a->wire->base.topology.rank;

        for (size_t at = 0; at < t->bytes && t->send != t->recv; at += PIECE_BYTES) {
            size_t n = t->bytes - at < PIECE_BYTES ? t->bytes - at : PIECE_BYTES;

            memcpy((char *)t->recv + at, (const char *)t->send + at, n);
            if (!leaves)
                continue;
            done += n;
            sleep_until(begun_ns + llround((double)done * pace));
        }
    }
    return OK;
}

static int pace_host(const struct wire_virtual *wire, struct stream *stream,
                     const struct batch *batch)
{
    struct host_args args = { wire, batch };

    return host_call(stream, run_on_host, &args, sizeof(args));
}

/* ---- cuda */

#ifdef MOETUNE_CUDA
static int pace_cuda(const struct wire_virtual *wire, struct stream *stream,
                     const struct batch *batch)
{
    uint32_t ctas = batch->ctas ? batch->ctas : wire->link.ctas;
    struct paced paced = { .clock = wire->clock,
                           .ns_per_byte = pace_ns_per_byte(wire, batch),
                           .ctas = ctas };

    if (cuda_stream_skips(stream))
        return OK;
    TRY(cuda_paced_begin(&paced, cuda_stream(stream)));
    for (int i = 0; i < batch->count; i++) {
        const struct transfer *t = &batch->transfers[i];

        if (t->peer != wire->base.topology.rank)
            TRY(cuda_paced_copy(&paced, t->recv, t->send, t->bytes, cuda_stream(stream)));
        else if (t->send != t->recv)
            TRY(CUDA(cudaMemcpyAsync(t->recv, t->send, t->bytes, cudaMemcpyDeviceToDevice,
                                     cuda_stream(stream))));
    }
    return cuda_paced_end(&paced, cuda_stream(stream));
}
#endif

static const struct pacer pacers[] = {
    { "host", pace_host },
#ifdef MOETUNE_CUDA
    { "cuda", pace_cuda },
#endif
};

/* ---- the wire */

static int virtual_exchange(struct wire *base, struct stream *stream, const struct batch *batch)
{
    const struct wire_virtual *wire = (const struct wire_virtual *)base;

    if (fault_hit("exchange"))
        return fail(ERR_WIRE, "an exchange of %d transfers (injected)", batch->count);
    return wire->pacer->exchange(wire, stream, batch);
}

static void virtual_close(struct wire *base)
{
    struct wire_virtual *wire = (struct wire_virtual *)base;

    device_release(wire->device, wire->clock);
    free(wire);
}

static const struct wire_ops virtual_ops = {
    .name = "virtual",
    .close = virtual_close,
    .exchange = virtual_exchange,
};

int wire_virtual_open(struct device *device, const struct topology *topology,
                      const struct virtual_link *link, struct wire **out)
{
    const struct pacer *pacer = NULL;
    struct wire_virtual *wire;
    int rc;

    for (size_t i = 0; i < sizeof(pacers) / sizeof(pacers[0]); i++)
        if (!strcmp(pacers[i].device, device->ops->name))
            pacer = &pacers[i];
    if (!pacer)
        return UNSUPPORTED;
    wire = calloc(1, sizeof(*wire));
    if (!wire)
        return fail(ERR_NOMEM, "a wire");
    *wire = (struct wire_virtual){
        .base = { .ops = &virtual_ops, .topology = *topology, .pretends = true },
        .link = *link,
        .pacer = pacer,
        .device = device
    };
    rc = device_alloc(device, sizeof(uint64_t), &wire->clock);
    if (rc)
        free(wire);
    else
        *out = &wire->base;
    return rc;
}
