/* What is common to all wires: batches and the count of what leaves. */
#include "wire.h"

#include "status.h"

#include <stdlib.h>

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
    free(batch->transfers);
    *batch = (struct batch){ 0 };
}

void wire_close(struct wire *wire)
{
    if (wire)
        wire->ops->close(wire);
}

int wire_reserve(struct wire *wire, const struct batch *batch)
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
