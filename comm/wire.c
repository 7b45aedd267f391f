/* The table of wires, and what all wires share: batches, and the counts of bytes and messages that
 * leave a rank. */
#include "wire.h"

#include "status.h"
#include "text.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The wires; the preferred one of each device comes first.  With fewer than `least_ranks` ranks,
 * moetune uses a wire only if it is named: one rank alone needs no network library to copy to
 * itself. */
static const struct wire_row {
    const char *name, *device;
    int least_ranks;
    int (*open)(struct world *world, struct device *device, struct wire **out);
} wires[] = {
    { "mpi", "host", 1, wire_mpi_open },
#ifdef MOETUNE_CUDA
    { "nccl", "cuda", 2, wire_nccl_open },
    { "ce", "cuda", 1, wire_ce_open },
#endif
};
enum { WIRES = sizeof(wires) / sizeof(wires[0]) };

int wire_open(const char *name, struct world *world, struct device *device, struct wire **out)
{
    const char *device_name = device->ops->name;
    int ranks = world_topology(world)->ranks;
    char wires_there[64] = "";
    int rc = UNSUPPORTED;
    bool is_known = false;

    for (int i = 0; i < WIRES && rc == UNSUPPORTED; i++) {
        struct wire *wire = NULL;

        if (strcmp(wires[i].device, device_name) != 0)
            continue;
        text_add(wires_there, sizeof(wires_there), " %s", wires[i].name);
        if (name ? strcmp(wires[i].name, name) != 0 : ranks < wires[i].least_ranks)
            continue;
        is_known = true;
        rc = world_settle(world, wires[i].open(world, device, &wire));
        if (rc)
            wire_close(wire);
        else
            *out = wire;
    }
    return is_known ? rc
                    : fail(ERR_ARGUMENT, "this build has no wire \"%s\" for device %s; it has:%s",
                           name ? name : "any", device_name, *wires_there ? wires_there : " none");
}

/* Makes room for one more element. */
static int make_room(void **elements, int count, int *room, size_t bytes)
{
    int new_room = *room ? 2 * *room : 8;
    void *grown;

    if (count < *room)
        return OK;
    grown = realloc(*elements, (size_t)new_room * bytes);
    if (!grown)
        return fail(ERR_NOMEM, "%d transfers", new_room);
    *elements = grown;
    *room = new_room;
    return OK;
}

int batch_add_transfer(struct batch *batch, const struct transfer *transfer)
{
    void *transfers = batch->transfers;

    if (!transfer->send_bytes && !transfer->recv_bytes)
        return OK;
    TRY(make_room(&transfers, batch->count, &batch->room, sizeof(*transfer)));
    batch->transfers = transfers;
    batch->transfers[batch->count++] = *transfer;
    return OK;
}

int batch_add(struct batch *batch, const struct wire *wire, struct peers peers, const void *send,
              size_t send_step, void *recv, size_t bytes)
{
    int own = (wire->topology.rank - peers.first) / peers.stride;

    for (int i = 0; i < peers.count; i++) {
        int peer = (own + i) % peers.count;

        TRY(batch_add_transfer(batch, &(struct transfer){
                                          .peer = peers.first + peer * peers.stride,
                                          .send = (const char *)send + (size_t)peer * send_step,
                                          .recv = (char *)recv + (size_t)peer * bytes,
                                          .send_bytes = bytes,
                                          .recv_bytes = bytes,
                                      }));
    }
    return OK;
}

bool wire_has(const struct wire *wire, enum collective_kind kind, struct group group)
{
    return wire->ops->collectives >> kind & 1 && wire->topology.ranks % group.count == 0 &&
           group.first % group.count == 0;
}

int batch_add_collective(struct batch *batch, const struct collective *collective)
{
    void *collectives = batch->collectives;

    if (!collective->bytes)
        return OK;
    TRY(make_room(&collectives, batch->collective_count, &batch->collective_room,
                  sizeof(*collective)));
    batch->collectives = collectives;
    batch->collectives[batch->collective_count++] = *collective;
    return OK;
}

bool batch_is_empty(const struct batch *batch)
{
    return !batch->count && !batch->collective_count;
}

void batch_free(struct batch *batch)
{
    if (batch->prepared)
        batch->free_prepared(batch);
    free(batch->transfers);
    free(batch->collectives);
    *batch = (struct batch){ 0 };
}

void wire_close(struct wire *wire)
{
    if (wire)
        wire->ops->close(wire);
}

int wire_reserve(struct wire *wire, struct batch *batch)
{
    if (batch->prepared)
        batch->free_prepared(batch);
    return wire->ops->reserve ? wire->ops->reserve(wire, batch) : OK;
}

static bool is_near(const struct topology *t, int rank)
{
    return rank == t->rank ||
           (t->ranks_per_node && rank / t->ranks_per_node == t->rank / t->ranks_per_node);
}

bool batch_leaves_node(const struct batch *batch, const struct topology *t)
{
    for (int i = 0; i < batch->count; i++)
        if (!is_near(t, batch->transfers[i].peer))
            return true;
    for (int i = 0; i < batch->collective_count; i++) {
        struct group group = batch->collectives[i].group;

        if (!is_near(t, group.first) || !is_near(t, group.first + group.count - 1))
            return true;
    }
    return false;
}

int wire_exchange(struct wire *wire, struct stream *stream, const struct batch *batch)
{
    if (stream->muted || batch_is_empty(batch))
        return OK;
    for (int i = 0; i < batch->count; i++)
        if (batch->transfers[i].peer != wire->topology.rank) {
            wire->sent_bytes += batch->transfers[i].send_bytes;
            wire->messages += batch->transfers[i].send_bytes > 0;
        }
    /* A ring sends as many slices as a direct exchange does, one after the other. */
    for (int i = 0; i < batch->collective_count; i++) {
        const struct collective *c = &batch->collectives[i];
        uint64_t others = (uint64_t)c->group.count - 1;

        wire->sent_bytes += others * c->bytes;
        wire->messages += others;
    }
    wire->exchanges++;
    TRY(wire->ops->exchange(wire, stream, batch));
    return stream->marks
               ? marks_add(stream,
                           batch_leaves_node(batch, &wire->topology) ? MARK_BETWEEN : MARK_INSIDE)
               : OK;
}

int wire_wait(struct wire *wire, struct stream *stream)
{
    return wire->ops->wait ? wire->ops->wait(wire, stream) : OK;
}

int wire_reclaim(struct wire *wire, struct stream *stream)
{
    return wire->ops->reclaim ? wire->ops->reclaim(wire, stream) : OK;
}

int wire_survey(struct wire *wire)
{
    return wire->ops->survey ? wire->ops->survey(wire) : OK;
}

int wire_trim(struct wire *wire)
{
    return wire->ops->trim ? wire->ops->trim(wire) : UNSUPPORTED;
}

int wire_withdraw(struct wire *wire, const void *memory)
{
    return wire->ops->withdraw ? wire->ops->withdraw(wire, memory) : OK;
}
