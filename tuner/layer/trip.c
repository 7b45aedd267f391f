/* Packs, exchanges and unpacks the chunks of one trip: rows to their experts and back. */
#include "trip.h"

#include "shape.h"
#include "status.h"

static bool is_local(const struct geometry *g)
{
    return g->peers == 1;
}

/* True where experts have different numbers of rows, and tables give the places of rows. */
static bool is_uneven(const struct trip *trip)
{
    return uneven_applies(trip->uneven);
}

static size_t bytes_of(const struct trip *trip, uint64_t rows)
{
    return size_product(size_product(rows, trip->width), dtype_bytes(trip->dtype));
}

/* True where a direct trip pays.  With one expert per rank, each pair of ranks exchanges one block
 * in any case.  With unequal experts the mean block counts, which is the same on every rank. */
static bool can_be_direct(const struct trip *trip, const struct wire *wire)
{
    size_t sent_bytes = bytes_of(trip, geometry_before(trip->geometry, trip->experts));

    if (!wire || !wire->separate_bytes || trip->algorithm != MOE_A2A_LINEAR ||
        is_local(trip->geometry) || trip->rigid)
        return false;
    return trip->geometry->local == 1 || (trip->dtype == trip->compute_type &&
                                          sent_bytes / trip->experts >= wire->separate_bytes);
}

static bool needs_no_pack(const struct trip *trip)
{
    return trip->direct || (trip->geometry->copies == 1 && trip->geometry->chunks == 1);
}

static bool needs_no_unpack(const struct trip *trip)
{
    return trip->geometry->copies == 1 && needs_no_pack(trip);
}

/* True where experts can read rows as they arrive; (peers, local) equals (local, peers) if one of
 * them is 1. */
static bool arranged_as_received(const struct trip *trip)
{
    return trip->dtype == trip->compute_type &&
           (trip->direct || trip->rigid || trip->geometry->peers == 1 ||
            trip->geometry->local == 1);
}

/* Elements of scratch memory, which all all-to-alls of the trip share. */
static uint64_t scratch_elements(struct trip *trip, const struct topology *topology)
{
    const struct geometry *g = trip->geometry;

    if (!is_uneven(trip))
        return a2a_scratch(trip->algorithm, topology,
                           size_product(geometry_local_rows(g), trip->width));
    trip->scratch_rows = 0;
    for (uint32_t i = 0; i < 2 * g->chunks; i++) { /* each chunk has two legs: there and back */
        const struct uneven_leg leg = {
            .uneven = trip->uneven, .geometry = g, .chunk = i / 2, .back = i % 2
        };
        uint64_t rows = a2a_scratch_rows(trip->algorithm, topology, uneven_rows(&leg));

        trip->scratch_rows = rows > trip->scratch_rows ? rows : trip->scratch_rows;
    }
    return size_product(trip->scratch_rows, trip->width);
}

void trip_layout(struct trip *trip, const struct topology *topology, const struct wire *wire,
                 bool keep_in, struct arena *arena)
{
    const struct geometry *g = trip->geometry;
    uint64_t leaving = size_product(geometry_before(g, trip->experts), g->shares);
    uint64_t all = size_product(size_product(leaving, g->chunks), trip->width);
    uint64_t sent = size_product(size_product(leaving, g->copies), trip->width);
    uint64_t seen = size_product(geometry_seen_rows(g), trip->width);
    size_t width = dtype_bytes(trip->dtype);

    trip->direct = can_be_direct(trip, wire);
    trip->home = arena_alloc(arena, all, width);
    trip->send = needs_no_pack(trip) ? (struct chunks){ trip->home, 0 }
                                     : chunks_alloc(arena, sent, width, g->chunks);
    trip->recv = is_local(g) ? trip->send : chunks_alloc(arena, seen, width, g->chunks);
    trip->back_send = chunks_alloc(arena, seen, width, g->chunks);
    if (arranged_as_received(trip)) {
        trip->in = trip->recv;
        trip->out = trip->back_send;
    } else {
        trip->in =
            chunks_alloc(arena, seen, dtype_bytes(trip->compute_type), keep_in ? g->chunks : 1);
        trip->out = chunks_alloc(arena, seen, dtype_bytes(trip->compute_type), 1);
    }
    if (is_local(g))
        trip->back_recv = trip->back_send;
    else
        trip->back_recv = needs_no_unpack(trip)
                              ? (struct chunks){ arena_alloc(arena, all, width), 0 }
                              : chunks_alloc(arena, sent, width, g->chunks);
    trip->back = needs_no_unpack(trip) ? trip->back_recv.base : arena_alloc(arena, all, width);
    if (is_local(g))
        return;
    trip->scratch = arena_alloc(arena, scratch_elements(trip, topology), width);
}

/* A block of a direct trip: its number of rows, and where they begin in `home`, among packed rows,
 * and in `in`.  All count rows. */
struct block_place {
    uint64_t rows, home, sent, seen;
};

/* Block n that this rank sends in chunk i. */
static struct block_place sent_block(const struct trip *trip, uint32_t i, uint64_t n)
{
    const struct geometry *g = trip->geometry;
    uint64_t ranks_per_expert = (uint64_t)g->copies * g->shares, expert = n / ranks_per_expert;
    const struct block_table *pack = &trip->uneven->pack[i];

    if (is_uneven(trip))
        return (struct block_place){ .rows = block_rows(pack, n),
                                     .home = pack->host[n].from,
                                     .sent = pack->host[n].to };
    return (struct block_place){ .rows = g->chunk_rows,
                                 .home = geometry_home_row(g, expert, n % g->shares, i),
                                 .sent = geometry_sent_row(g, expert, n % ranks_per_expert) };
}

/* The block that it receives in chunk i from a peer for a local expert. */
static struct block_place received_block(const struct trip *trip, uint32_t i, uint64_t local,
                                         uint64_t peer)
{
    const struct geometry *g = trip->geometry;
    const struct block_table *arrange = &trip->uneven->arrange[i];
    uint64_t n = local * g->peers + peer;

    if (is_uneven(trip))
        return (struct block_place){ .rows = block_rows(arrange, n), .seen = arrange->host[n].to };
    return (struct block_place){ .rows = g->chunk_rows,
                                 .seen = geometry_seen_before(g, local) + peer * g->chunk_rows };
}

/* Adds the transfer with a peer for its expert number `local` and for this rank's; or the transfer
 * back.  Several slices of an expert get copies of the same rows; their partial results come back
 * to separate places, to be added up. */
static int add_block(const struct trip_leg *leg, uint64_t peer, uint64_t local, struct batch *batch)
{
    const struct trip *trip = leg->trip;
    const struct geometry *g = trip->geometry;
    uint32_t i = leg->rows.chunk;
    struct block_place out = sent_block(trip, i, peer * g->local + local);
    struct block_place in = received_block(trip, i, local, peer);
    bool home = needs_no_unpack(trip);
    struct transfer there = {
        .peer = g->first_peer + (int)peer,
        .send = (char *)trip->home + bytes_of(trip, out.home),
        .recv = (char *)chunk_at(trip->recv, i) + bytes_of(trip, in.seen),
        .send_bytes = bytes_of(trip, out.rows),
        .recv_bytes = bytes_of(trip, in.rows),
    };
    struct transfer back = {
        .peer = there.peer,
        .send = (char *)chunk_at(trip->back_send, i) + bytes_of(trip, in.seen),
        .recv = (char *)(home ? trip->back : chunk_at(trip->back_recv, i)) +
                bytes_of(trip, home ? out.home : out.sent),
        .send_bytes = there.recv_bytes,
        .recv_bytes = there.send_bytes,
    };

    return batch_add_transfer(batch, leg->rows.back ? &back : &there);
}

/* Adds the transfers of a direct trip's leg.  A rank begins with itself and its right neighbour, as
 * in batch_add(). */
static int add_direct_blocks(const void *self, struct batch *batch)
{
    const struct trip_leg *leg = self;
    const struct geometry *g = leg->trip->geometry;

    for (uint32_t local = 0; local < g->local; local++)
        for (uint32_t n = 0; n < g->peers; n++)
            TRY(add_block(leg, (g->self + n) % g->peers, local, batch));
    return OK;
}

static int open_leg(struct trip *trip, struct wire *wire, bool back, uint32_t i)
{
    const struct geometry *g = trip->geometry;
    struct trip_leg *leg = back ? &trip->return_legs[i] : &trip->send_legs[i];
    struct a2a_call call = { .wire = wire,
                             .dtype = trip->dtype,
                             .block = g->local * g->chunk_rows * trip->width,
                             .width = trip->width,
                             .send = chunk_at(back ? trip->back_send : trip->send, i),
                             .recv = chunk_at(back ? trip->back_recv : trip->recv, i),
                             .scratch = trip->scratch,
                             .room = trip->scratch_rows,
                             .naive = trip->naive,
                             .ctas = trip->ctas,
                             .among = { g->first_peer, (int)g->peers },
                             .add_transfers = trip->direct ? add_direct_blocks : NULL,
                             .self = leg };

    *leg = (struct trip_leg){
        .rows = { .uneven = trip->uneven, .geometry = g, .chunk = i, .back = back }, .trip = trip
    };
    if (is_uneven(trip)) {
        call.rows = uneven_rows(&leg->rows);
        call.tables = back ? trip->uneven->returns[i] : trip->uneven->sends[i];
    }
    return a2a_open(trip->algorithm, &call, back ? &trip->returns[i] : &trip->sends[i]);
}

int trip_open(struct trip *trip, struct engine *engine)
{
    for (uint32_t i = 0; i < trip->geometry->chunks; i++) {
        TRY(event_open(engine->device, &trip->packed[i]));
        TRY(event_open(engine->device, &trip->arrived[i]));
        TRY(event_open(engine->device, &trip->done[i]));
        TRY(event_open(engine->device, &trip->returned[i]));
        if (is_local(trip->geometry))
            continue;
        TRY(open_leg(trip, engine->wire, false, i));
        TRY(open_leg(trip, engine->wire, true, i));
    }
    return OK;
}

int trip_rebuild(struct trip *trip)
{
    for (uint32_t i = 0; i < trip->geometry->chunks && !is_local(trip->geometry); i++) {
        TRY(a2a_rebuild(trip->sends[i]));
        TRY(a2a_rebuild(trip->returns[i]));
    }
    return OK;
}

void trip_close(struct trip *trip)
{
    for (uint32_t i = 0; i < PLAN_MAX_D; i++) {
        a2a_close(trip->sends[i]);
        a2a_close(trip->returns[i]);
        event_close(trip->packed[i]);
        event_close(trip->arrived[i]);
        event_close(trip->done[i]);
        event_close(trip->returned[i]);
    }
    *trip = (struct trip){ 0 };
}

/* Copies rows by a table, for experts with different numbers of rows. */
static int copy_rows(const struct trip *trip, struct stream *stream,
                     const struct block_table *table, uint64_t terms, uint32_t from_type,
                     const void *from, uint32_t to_type, void *to)
{
    return launch_move_rows(stream, &(struct move_rows){ .from_type = from_type,
                                                         .to_type = to_type,
                                                         .width = trip->width,
                                                         .rows = table->rows,
                                                         .terms = terms,
                                                         .count = table->count,
                                                         .blocks = table->blocks,
                                                         .from = from,
                                                         .to = to });
}

/* Packs one chunk from `home` (E,C,D).  The packed block of expert e, slice p and share t has
 * number (e
 * * copies + p) * shares + t, which is the order of ranks. */
static int pack_chunk(struct trip *trip, struct stream *stream, uint32_t i)
{
    const struct geometry *g = trip->geometry;
    uint64_t block = g->chunk_rows * trip->width;
    size_t start = i * block * dtype_bytes(trip->dtype);

    if (is_uneven(trip))
        return copy_rows(trip, stream, &trip->uneven->pack[i], 1, trip->dtype, trip->home,
                         trip->dtype, chunk_at(trip->send, i));
    return launch_move(stream,
                       &(struct move){ .from_type = trip->dtype,
                                       .to_type = trip->dtype,
                                       .block = block,
                                       .dims = { trip->experts, g->copies, g->shares },
                                       .from_stride = { g->shares * g->chunks, 0, g->chunks },
                                       .to_stride = { g->copies * g->shares, g->shares, 1 },
                                       .terms = 1,
                                       .from = (const char *)trip->home + start,
                                       .to = chunk_at(trip->send, i) });
}

/* Unpacks one chunk to `back`, and adds up the partial results of slices. */
static int unpack_chunk(struct trip *trip, struct stream *stream, uint32_t i)
{
    const struct geometry *g = trip->geometry;
    uint64_t block = g->chunk_rows * trip->width;
    size_t start = i * block * dtype_bytes(trip->dtype);

    if (is_uneven(trip))
        return copy_rows(trip, stream, &trip->uneven->unpack[i], g->copies, trip->dtype,
                         chunk_at(trip->back_recv, i), trip->dtype, trip->back);
    return launch_move(stream, &(struct move){ .from_type = trip->dtype,
                                               .to_type = trip->dtype,
                                               .block = block,
                                               .dims = { trip->experts, g->shares, 1 },
                                               .from_stride = { g->copies * g->shares, 1, 0 },
                                               .to_stride = { g->shares * g->chunks, g->chunks, 0 },
                                               .terms = g->copies,
                                               .term_stride = g->shares,
                                               .from = chunk_at(trip->back_recv, i),
                                               .to = (char *)trip->back + start });
}

enum rearrangement { ARRANGE, RESTORE };

/* Reorders blocks from (peers, local), as received, to (local, peers), for experts; with
 * RESTORE, back.  It also converts the type. */
static int rearrange(const struct trip *trip, struct stream *stream, uint32_t i,
                     enum rearrangement how, uint32_t from_type, const void *from, uint32_t to_type,
                     void *to)
{
    const struct geometry *g = trip->geometry;
    uint64_t rows = how == RESTORE ? g->local : g->peers;
    uint64_t columns = how == RESTORE ? g->peers : g->local;

    if (arranged_as_received(trip))
        return OK;
    if (is_uneven(trip))
        return copy_rows(trip, stream,
                         how == RESTORE ? &trip->uneven->restore[i] : &trip->uneven->arrange[i], 1,
                         from_type, from, to_type, to);
    return launch_move(stream, &(struct move){ .from_type = from_type,
                                               .to_type = to_type,
                                               .block = g->chunk_rows * trip->width,
                                               .dims = { rows, columns, 1 },
                                               .from_stride = { columns, 1, 0 },
                                               .to_stride = { 1, rows, 0 },
                                               .terms = 1,
                                               .from = from,
                                               .to = to });
}

/* True where chunk i has its own event.  Chunks that need no packing are ready together, so the
 * first one's event serves all. */
static bool has_packed_event(const struct trip *trip, uint32_t i)
{
    return i == 0 || !needs_no_pack(trip);
}

/* True where chunk i has its own event.  Chunks that need no unpacking are needed together, so the
 * last one's event serves all. */
static bool has_returned_event(const struct trip *trip, uint32_t i)
{
    return !is_local(trip->geometry) && (i == trip->geometry->chunks - 1 || !needs_no_unpack(trip));
}

static int send_chunk(struct trip *trip, struct engine *engine, uint32_t i)
{
    if (is_local(trip->geometry) || i >= trip->geometry->chunks)
        return OK;
    if (has_packed_event(trip, i))
        TRY(event_wait(trip->packed[i], engine->comm));
    TRY(a2a_run(trip->sends[i], engine->comm));
    return event_record(trip->arrived[i], engine->comm);
}

/* Number of sends that the host issues before the first chunk's products.  For a GPU, issuing takes
 * as long as a small product.  So one send is issued first, to keep the communication stream busy,
 * and the others between products, which would otherwise wait.  On other devices issuing costs
 * nothing, so all come first; in a model the order of queueing matters. */
static uint32_t sends_ahead(const struct engine *engine)
{
    return engine->device->asynchronous ? 1 : PLAN_MAX_D;
}

int trip_depart(struct trip *trip, struct engine *engine)
{
    for (uint32_t i = 0; i < trip->geometry->chunks; i++) {
        if (!needs_no_pack(trip))
            TRY(pack_chunk(trip, engine->compute, i));
        if (has_packed_event(trip, i))
            TRY(event_record(trip->packed[i], engine->compute));
    }
    for (uint32_t i = 0; i < sends_ahead(engine); i++)
        TRY(send_chunk(trip, engine, i));
    return OK;
}

int trip_compute(struct trip *trip, struct engine *engine, trip_experts *experts, void *self)
{
    const struct geometry *g = trip->geometry;

    for (uint32_t i = 0; i < g->chunks; i++) {
        TRY(send_chunk(trip, engine, i + sends_ahead(engine)));
        if (!is_local(g))
            TRY(event_wait(trip->arrived[i], engine->compute));
        TRY(rearrange(trip, engine->compute, i, ARRANGE, trip->dtype, chunk_at(trip->recv, i),
                      trip->compute_type, chunk_at(trip->in, i)));
        TRY(experts(self, i, chunk_at(trip->in, i), chunk_at(trip->out, i)));
        TRY(rearrange(trip, engine->compute, i, RESTORE, trip->compute_type, chunk_at(trip->out, i),
                      trip->dtype, chunk_at(trip->back_send, i)));
        TRY(event_record(trip->done[i], engine->compute));
    }
    return OK;
}

int trip_return(struct trip *trip, struct engine *engine)
{
    uint32_t chunks = trip->geometry->chunks;

    for (uint32_t i = 0; i < chunks && !is_local(trip->geometry); i++) {
        TRY(event_wait(trip->done[i], engine->comm));
        TRY(a2a_run(trip->returns[i], engine->comm));
        if (has_returned_event(trip, i))
            TRY(event_record(trip->returned[i], engine->comm));
    }
    return OK;
}

int trip_unpack(struct trip *trip, struct engine *engine)
{
    for (uint32_t i = 0; i < trip->geometry->chunks; i++) {
        if (has_returned_event(trip, i))
            TRY(event_wait(trip->returned[i], engine->compute));
        if (!needs_no_unpack(trip))
            TRY(unpack_chunk(trip, engine->compute, i));
    }
    return OK;
}
