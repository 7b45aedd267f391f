/* The wire of virtual ranks: copies inside one process, no faster than a stated link would be. */
#include "wire_virtual.h"

#ifdef MOETUNE_CUDA
#include "cuda.h"
#include "cuda_copy.h"
#include "cuda_paced.h"
#include "cuda_peers.h"
#endif
#include "fault.h"
#include "host.h"
#include "status.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* An open wire of this kind; virtual_close() frees it. */
struct wire_virtual {
    struct wire base;
    struct virtual_link link;
    const struct pacer *pacer;
    void *clock; /* device memory: on a GPU, the time when the current exchange began */
    struct device *device;
};

/* How one kind of device copies at a limited speed. */
struct pacer {
    const char *device;
    int (*exchange)(const struct wire_virtual *wire, struct stream *stream,
                    const struct batch *batch);
    void (*note_copy_engines)(void); /* prints what copy engines do here; NULL: there are none */
    size_t separate_bytes;           /* of the real wires for this device */
};

/* Bytes of a transfer that one process can copy. */
static size_t copied_bytes(const struct transfer *t)
{
    return t->send_bytes < t->recv_bytes ? t->send_bytes : t->recv_bytes;
}

/* How long the sent (or the received) bytes take.  Links inside and between nodes work at the same
 * time. */
static double one_way_ns(const struct wire_virtual *wire, const struct batch *batch, bool sent)
{
    const struct topology *t = &wire->base.topology;
    int per_node = t->ranks_per_node ? t->ranks_per_node : t->ranks;
    double inside = 0, between = 0; /* bytes */

    for (int i = 0; i < batch->count; i++) {
        const struct transfer *x = &batch->transfers[i];
        double bytes = (double)(sent ? x->send_bytes : x->recv_bytes);

        if (x->peer == t->rank)
            continue;
        if (x->peer / per_node == t->rank / per_node)
            inside += bytes;
        else
            between += bytes;
    }
    return round(fmax(inside / wire->link.inside_gbs, between / wire->link.between_gbs));
}

/* Time per copied byte.  Links carry both directions at the same time, so the slower direction
 * counts; each copied byte takes an equal part of it. */
static double pace_ns_per_byte(const struct wire_virtual *wire, const struct batch *batch)
{
    double busy_ns = fmax(one_way_ns(wire, batch, true), one_way_ns(wire, batch, false));
    double bytes = 0;

    for (int i = 0; i < batch->count; i++)
        if (batch->transfers[i].peer != wire->base.topology.rank)
            bytes += (double)copied_bytes(&batch->transfers[i]);
    return bytes > 0 ? busy_ns / bytes : 0;
}

/* ---- host: the stream's thread copies a piece, then sleeps until the link would have carried it
 */

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
    double ns_per_byte = pace_ns_per_byte(a->wire, a->batch);
    int64_t begun_ns = host_clock_ns();
    uint64_t carried_bytes = 0;

    for (int i = 0; i < a->batch->count; i++) {
        const struct transfer *t = &a->batch->transfers[i];
        bool uses_link = t->peer != a->wire->base.topology.rank;

        for (size_t offset = 0; offset < copied_bytes(t) && t->send != t->recv;
             offset += PIECE_BYTES) {
            size_t left = copied_bytes(t) - offset, n = left < PIECE_BYTES ? left : PIECE_BYTES;

            memcpy((char *)t->recv + offset, (const char *)t->send + offset, n);
            if (!uses_link)
                continue;
            carried_bytes += n;
            sleep_until(begun_ns + llround((double)carried_bytes * ns_per_byte));
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
/* Copies by copy engines, which run at full speed; kernels of one thread wait between pieces. */
static int copy_by_engine(const struct wire_virtual *wire, const struct virtual_copies *c,
                          cudaStream_t stream)
{
    struct paced paced = { .clock = wire->clock, .ns_per_byte = c->ns_per_byte };

    for (uint32_t i = c->own; i < c->count; i++)
        paced.all += c->copies[i].bytes;
    TRY(cuda_paced_begin(&paced, stream));
    for (uint32_t i = 0; i < c->count; i++) {
        const struct virtual_copy *x = &c->copies[i];

        if (i >= c->own)
            TRY(cuda_paced_copy(&paced, x->to, x->from, x->bytes, stream));
        else
            TRY(cuda_copy_beside(x->to, x->from, x->bytes, stream));
    }
    return cuda_paced_end(&paced, stream);
}

/* Copies that are collected and then enqueued together. */
struct copy_list {
    const struct wire_virtual *wire;
    struct virtual_copies copies;
    uint32_t ctas;
    cudaStream_t stream;
};

static int run_copies(struct copy_list *list)
{
    int rc = OK;

    if (list->copies.count)
        rc = list->ctas ? cuda_virtual_copy(&list->copies, list->ctas, list->stream)
                        : copy_by_engine(list->wire, &list->copies, list->stream);
    list->copies.count = list->copies.own = 0;
    return rc;
}

/* Appends a copy.  Blocks of neighbouring ranks mostly lie side by side at both ends; then they
 * become one copy. */
static int append_copy(struct copy_list *list, const struct transfer *t, bool is_own)
{
    struct virtual_copies *copies = &list->copies;
    bool first_of_kind = copies->count == (is_own ? 0 : copies->own);

    if (!first_of_kind) {
        struct virtual_copy *last = &copies->copies[copies->count - 1];

        if (last->to + last->bytes == t->recv && last->from + last->bytes == t->send) {
            last->bytes += copied_bytes(t);
            return OK;
        }
    }
    if (copies->count == VIRTUAL_COPIES)
        TRY(run_copies(list));
    copies->copies[copies->count++] = (struct virtual_copy){ t->recv, t->send, copied_bytes(t) };
    copies->own += is_own;
    return OK;
}

/* Copies in two passes: a rank's own bytes first, because they do not use the link. */
static int pace_cuda(const struct wire_virtual *wire, struct stream *stream,
                     const struct batch *batch)
{
    struct copy_list list = { .wire = wire,
                              .copies.ns_per_byte = pace_ns_per_byte(wire, batch),
                              .ctas = batch->ctas ? batch->ctas : wire->link.ctas,
                              .stream = cuda_stream(stream) };

    if (cuda_stream_skips(stream))
        return OK;
    for (int is_own = 1; is_own >= 0; is_own--)
        for (int i = 0; i < batch->count; i++) {
            const struct transfer *t = &batch->transfers[i];

            if ((t->peer == wire->base.topology.rank) == is_own && t->send != t->recv &&
                copied_bytes(t))
                TRY(append_copy(&list, t, is_own));
        }
    return run_copies(&list);
}
#endif

static const struct pacer pacers[] = {
    { "host", pace_host, NULL, 64 << 10 },
#ifdef MOETUNE_CUDA
    { "cuda", pace_cuda, cuda_note_copy_engines, CUDA_SEPARATE_BYTES },
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
    .graphs = true,
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
        .base = { .ops = &virtual_ops,
                  .topology = *topology,
                  /* Before each copy of an engine a kernel waits, so few large copies are best. */
                  .separate_bytes =
                      link->ctas || !pacer->note_copy_engines ? pacer->separate_bytes : 0,
                  .pretends = true },
        .link = *link,
        .pacer = pacer,
        .device = device
    };
    rc = device_alloc(device, sizeof(uint64_t), &wire->clock);
    if (rc) {
        free(wire);
        return rc;
    }
    if (!link->ctas && pacer->note_copy_engines)
        pacer->note_copy_engines();
    *out = &wire->base;
    return OK;
}
