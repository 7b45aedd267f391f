/* The table of wires, and what is common to all: batches and the count of what leaves. */
#include "wire.h"

#include "status.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For each device the one to prefer first. */
static const struct wire_row {
    const char *name, *device;
    int (*open)(struct world *world, struct device *device, struct wire **out);
} wires[] = {
    { "mpi", "host", wire_mpi_open },
#ifdef MOETUNE_CUDA
    { "nccl", "cuda", wire_nccl_open },
    { "ce", "cuda", wire_ce_open },
#endif
};
enum { WIRES = sizeof(wires) / sizeof(wires[0]) };

static int refuse(const char *name, const char *device)
{
    char known[64] = "";

    for (int i = 0; i < WIRES; i++)
        if (!strcmp(wires[i].device, device))
            snprintf(known + strlen(known), sizeof(known) - strlen(known), " %s", wires[i].name);
    return fail(ERR_ARGUMENT, "no wire \"%s\" for device %s in this build: there is%s", name,
                device, *known ? known : " none");
}

int wire_open(const char *name, struct world *world, struct device *device, struct wire **out)
{
    int rc = UNSUPPORTED;
    bool known = false;

    for (int i = 0; i < WIRES && rc == UNSUPPORTED; i++) {
        struct wire *wire = NULL;

        if (strcmp(wires[i].device, device->ops->name) != 0 ||
            (name && strcmp(wires[i].name, name) != 0))
            continue;
        known = true;
        rc = world_settle(world, wires[i].open(world, device, &wire));
        if (rc)
            wire_close(wire);
        else
            *out = wire;
    }
    return known ? rc : refuse(name ? name : "any", device->ops->name);
}

static int append(struct batch *batch, const struct transfer *transfer)
{
    if (batch->count == batch->room) {
        int room = batch->room ? 2 * batch->room : 8;
        struct transfer *grown =
            realloc(batch->transfers, (size_t)room * sizeof(*batch->transfers));

        if (!grown)
            return fail(ERR_NOMEM, "%d transfers", room);
        batch->transfers = grown;
        batch->room = room;
    }
    batch->transfers[batch->count++] = *transfer;
    return OK;
}

int batch_add(struct batch *batch, const struct wire *wire, struct peers peers, const void *send,
              size_t send_step, void *recv, size_t bytes)
{
    int self = (wire->topology.rank - peers.first) / peers.stride;

    for (int i = 0; i < peers.count && bytes; i++) {
        int at = (self + i) % peers.count;
        struct transfer transfer = {
            .peer = peers.first + at * peers.stride,
            .send = (const char *)send + (size_t)at * send_step,
            .recv = (char *)recv + (size_t)at * bytes,
            .bytes = bytes,
        };

        TRY(append(batch, &transfer));
    }
    return OK;
}

void batch_free(struct batch *batch)
{
    if (batch->kept)
        batch->forget(batch);
    free(batch->transfers);
    *batch = (struct batch){ 0 };
}

void wire_close(struct wire *wire)
{
    if (wire)
        wire->ops->close(wire);
}

int wire_reserve(struct wire *wire, struct batch *batch)
{
    return wire->ops->reserve(wire, batch);
}

int wire_exchange(struct wire *wire, struct stream *stream, const struct batch *batch)
{
    if (stream->muted || !batch->count)
        return OK;
    for (int i = 0; i < batch->count; i++)
        if (batch->transfers[i].peer != wire->topology.rank) {
            wire->sent_bytes += batch->transfers[i].bytes;
            wire->messages++;
        }
    return wire->ops->exchange(wire, stream, batch);
}

int wire_all_to_all(struct wire *wire, struct stream *stream, const struct all_to_all *blocks)
{
    uint64_t others = (uint64_t)wire->topology.ranks - 1;

    if (stream->muted || !blocks->bytes)
        return OK;
    wire->sent_bytes += others * blocks->bytes;
    wire->messages += others;
    return wire->ops->all_to_all(wire, stream, blocks);
}

int wire_wait(struct wire *wire, struct stream *stream)
{
    return wire->ops->wait ? wire->ops->wait(wire, stream) : OK;
}
