/* Packs, exchanges and unpacks the chunks of one trip. */
#include "trip.h"

#include "shape.h"
#include "status.h"

static bool stays(const struct geometry *g)
{
    return g->peers == 1;
}

/* Experts differ, and tables say where rows lie. */
static bool differs(const struct trip *trip)
{
    return uneven_applies(trip->uneven);
}

static size_t bytes_of(const struct trip *trip, uint64_t rows)
{
    return size_product(size_product(rows, trip->width), dtype_bytes(trip->dtype));
}

/* Where a rank has one expert, each pair of ranks exchanges one block in any case.  Of experts that
 * differ the mean block counts, which is the same on every rank. */
static bool goes_direct(const struct trip *trip, const struct wire *wire)
{
    size_t all = bytes_of(trip, geometry_before(trip->geometry, trip->experts));

    if (!wire || !wire->separate_bytes || trip->algorithm != MOE_A2A_LINEAR ||
        stays(trip->geometry) || trip->rigid)
        return false;
    return trip->geometry->local == 1 ||
           (trip->dtype == trip->compute_type && all / trip->experts >= wire->separate_bytes);
}

static bool leaves_as_it_lies(const struct trip *trip)
{
    return trip->direct || (trip->geometry->copies == 1 && trip->geometry->chunks == 1);
}

static bool comes_as_it_lies(const struct trip *trip)
{
    return trip->geometry->copies == 1 && leaves_as_it_lies(trip);
}

/* (peers, local) and (local, peers) are the same when one of them is 1. */
static bool arranged_as_received(const struct trip *trip)
{
    return trip->dtype == trip->compute_type &&
           (trip->direct || trip->rigid || trip->geometry->peers == 1 ||
            trip->geometry->local == 1);
}

/* Both ways share it: equal blocks, or as many rows as each two ranks exchange at most. */
static uint64_t scratch_elements(struct trip *trip, const struct topology *topology)
{
    const struct geometry *g = trip->geometry;

    if (!differs(trip))
        return a2a_scratch(trip->algorithm, topology,
                           size_product(geometry_local_rows(g), trip->width));
    trip->scratch_rows = 0;
    for (uint32_t i = 0; i < 2 * g->chunks; i++) {
        const struct uneven_leg leg = { trip->uneven, g, i / 2, i % 2 };
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

    trip->direct = goes_direct(trip, wire);
    trip->home = arena_take(arena, all, width);
    trip->send = leaves_as_it_lies(trip) ? (struct chunks){ trip->home, 0 }
                                         : chunks_take(arena, sent, width, g->chunks);
    trip->recv = stays(g) ? trip->send : chunks_take(arena, seen, width, g->chunks);
    trip->back_send = chunks_take(arena, seen, width, g->chunks);
    if (arranged_as_received(trip)) {
        trip->in = trip->recv;
        trip->out = trip->back_send;
    } else {
        trip->in =
            chunks_take(arena, seen, dtype_bytes(trip->compute_type), keep_in ? g->chunks : 1);
        trip->out = chunks_take(arena, seen, dtype_bytes(trip->compute_type), 1);
    }
    if (stays(g))
        trip->back_recv = trip->back_send;
    else
        trip->back_recv = comes_as_it_lies(trip)
                              ? (struct chunks){ arena_take(arena, all, width), 0 }
                              : chunks_take(arena, sent, width, g->chunks);
    trip->back = comes_as_it_lies(trip) ? trip->back_recv.base : arena_take(arena, all, width);
    if (stays(g))
        return;
    trip->scratch = arena_take(arena, scratch_elements(trip, topology), width);
}

/* A block of a direct trip in rows: how many, and where they lie at home, among those that leave or
 * come back, and as experts see them. */
struct placed {
    uint64_t rows, home, sent, seen;
};

/* Block n of a rank's own order, of a chunk: what it sends. */
static struct placed placed_out(const struct trip *trip, uint32_t i, uint64_t n)
{
    const struct geometry *g = trip->geometry;
    uint64_t each = (uint64_t)g->copies * g->shares, expert = n / each;
    const struct block_table *pack = &trip->uneven->pack[i];

    if (differs(trip))
        return (struct placed){ .rows = block_rows(pack, n),
                                .home = pack->host[n].from,
                                .sent = pack->host[n].to };
    return (struct placed){ .rows = g->chunk_rows,
                            .home = geometry_home_row(g, expert, n % g->shares, i),
                            .sent = geometry_sent_row(g, expert, n % each) };
}

/* What it receives of a peer for a local expert. */
static struct placed placed_in(const struct trip *trip, uint32_t i, uint64_t local, uint64_t peer)
{
    const struct geometry *g = trip->geometry;
    const struct block_table *arrange = &trip->uneven->arrange[i];
    uint64_t n = local * g->peers + peer;

    if (differs(trip))
        return (struct placed){ .rows = block_rows(arrange, n), .seen = arrange->host[n].to };
    return (struct placed){ .rows = g->chunk_rows,
                            .seen = geometry_seen_before(g, local) + peer * g->chunk_rows };
}

/* Adds what goes to a local expert of a peer, and what comes from it; or, back, the other way.
 * Ranks that have copies of rows get the same ones.  Partial results that are still to be summed
 * come home apart. */
static int add_block(const struct trip_leg *leg, uint64_t peer, uint64_t local, struct batch *batch)
{
    const struct trip *trip = leg->trip;
    const struct geometry *g = trip->geometry;
    uint32_t i = leg->rows.chunk;
    struct placed out = placed_out(trip, i, peer * g->local + local);
    struct placed in = placed_in(trip, i, local, peer);
    bool home = comes_as_it_lies(trip);
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

/* Of a direct trip.  A rank begins with itself and its right neighbour, as batch_add() has it. */
static int list_blocks(const void *self, struct batch *batch)
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
    struct trip_leg *leg = back ? &trip->legs_come[i] : &trip->legs_go[i];
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
                             .add_transfers = trip->direct ? list_blocks : NULL,
                             .self = leg };

    *leg = (struct trip_leg){ { trip->uneven, g, i, back }, trip };
    if (differs(trip)) {
        call.rows = uneven_rows(&leg->rows);
        call.tables = back ? trip->uneven->come[i] : trip->uneven->go[i];
    }
    return a2a_open(trip->algorithm, &call, back ? &trip->come[i] : &trip->go[i]);
}

int trip_open(struct trip *trip, struct engine *engine)
{
    for (uint32_t i = 0; i < trip->geometry->chunks; i++) {
        TRY(event_open(engine->device, &trip->packed[i]));
        TRY(event_open(engine->device, &trip->arrived[i]));
        TRY(event_open(engine->device, &trip->done[i]));
        TRY(event_open(engine->device, &trip->returned[i]));
        if (stays(trip->geometry))
            continue;
        TRY(open_leg(trip, engine->wire, false, i));
        TRY(open_leg(trip, engine->wire, true, i));
    }
    return OK;
}

int trip_rebuild(struct trip *trip)
{
    for (uint32_t i = 0; i < trip->geometry->chunks && !stays(trip->geometry); i++) {
        TRY(a2a_rebuild(trip->go[i]));
        TRY(a2a_rebuild(trip->come[i]));
    }
    return OK;
}

void trip_close(struct trip *trip)
{
    for (uint32_t i = 0; i < PLAN_MAX_D; i++) {
        a2a_close(trip->go[i]);
        a2a_close(trip->come[i]);
        event_close(trip->packed[i]);
        event_close(trip->arrived[i]);
        event_close(trip->done[i]);
        event_close(trip->returned[i]);
    }
    *trip = (struct trip){ 0 };
}

/* A copy of which a table says where rows go, since experts differ. */
static int copy(const struct trip *trip, struct stream *stream, const struct block_table *table,
                uint64_t terms, uint32_t from_type, const void *from, uint32_t to_type, void *to)
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

/* One chunk's rows inside (E,C,D): expert, share and first row of the chunk.  On the wire the block
 * of expert e, slice p and share t is (e * copies + p) * shares + t, which is the rank's own order.
 */
static int pack(struct trip *trip, struct stream *stream, uint32_t i)
{
    const struct geometry *g = trip->geometry;
    uint64_t block = g->chunk_rows * trip->width;
    size_t start = i * block * dtype_bytes(trip->dtype);

    if (differs(trip))
        return copy(trip, stream, &trip->uneven->pack[i], 1, trip->dtype, trip->home, trip->dtype,
                    chunk_at(trip->send, i));
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

/* The partial outputs of the slices are summed on the way. */
static int unpack(struct trip *trip, struct stream *stream, uint32_t i)
{
    const struct geometry *g = trip->geometry;
    uint64_t block = g->chunk_rows * trip->width;
    size_t start = i * block * dtype_bytes(trip->dtype);

    if (differs(trip))
        return copy(trip, stream, &trip->uneven->unpack[i], g->copies, trip->dtype,
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

/* As blocks are received, (peers, local), and as experts see them, (local, peers): one into the
 * other, and one type into the other. */
static int rearrange(const struct trip *trip, struct stream *stream, uint32_t i, bool restores,
                     uint32_t from_type, const void *from, uint32_t to_type, void *to)
{
    const struct geometry *g = trip->geometry;
    uint64_t rows = restores ? g->local : g->peers, columns = restores ? g->peers : g->local;

    if (arranged_as_received(trip))
        return OK;
    if (differs(trip))
        return copy(trip, stream, restores ? &trip->uneven->restore[i] : &trip->uneven->arrange[i],
                    1, from_type, from, to_type, to);
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

/* Chunks that leave as they lie are there all at once: the first one's event serves them all. */
static bool packed_alone(const struct trip *trip, uint32_t i)
{
    return i == 0 || !leaves_as_it_lies(trip);
}

/* Chunks that come as they lie are wanted all at once. */
static bool returned_alone(const struct trip *trip, uint32_t i)
{
    return !stays(trip->geometry) && (i == trip->geometry->chunks - 1 || !comes_as_it_lies(trip));
}

static int send(struct trip *trip, struct engine *engine, uint32_t i)
{
    if (stays(trip->geometry) || i >= trip->geometry->chunks)
        return OK;
    if (packed_alone(trip, i))
        TRY(event_wait(trip->packed[i], engine->comm));
    TRY(a2a_run(trip->go[i], engine->comm));
    return event_record(trip->arrived[i], engine->comm);
}

/* How many sends are issued before the first chunk's products.  Issuing costs a GPU's host as much
 * as a small product takes: one goes ahead, which keeps the communication stream busy, and the rest
 * between products, which would else wait for all of them.  Elsewhere issuing costs nothing; and a
 * model slows what is queued by what was queued before it, so its order counts. */
static uint32_t sends_ahead(const struct engine *engine)
{
    return engine->device->asynchronous ? 1 : PLAN_MAX_D;
}

int trip_depart(struct trip *trip, struct engine *engine)
{
    for (uint32_t i = 0; i < trip->geometry->chunks; i++) {
        if (!leaves_as_it_lies(trip))
            TRY(pack(trip, engine->compute, i));
        if (packed_alone(trip, i))
            TRY(event_record(trip->packed[i], engine->compute));
    }
    for (uint32_t i = 0; i < sends_ahead(engine); i++)
        TRY(send(trip, engine, i));
    return OK;
}

int trip_compute(struct trip *trip, struct engine *engine, trip_experts *experts, void *self)
{
    const struct geometry *g = trip->geometry;

    for (uint32_t i = 0; i < g->chunks; i++) {
        TRY(send(trip, engine, i + sends_ahead(engine)));
        if (!stays(g))
            TRY(event_wait(trip->arrived[i], engine->compute));
        TRY(rearrange(trip, engine->compute, i, false, trip->dtype, chunk_at(trip->recv, i),
                      trip->compute_type, chunk_at(trip->in, i)));
        TRY(experts(self, i, chunk_at(trip->in, i), chunk_at(trip->out, i)));
        TRY(rearrange(trip, engine->compute, i, true, trip->compute_type, chunk_at(trip->out, i),
                      trip->dtype, chunk_at(trip->back_send, i)));
        TRY(event_record(trip->done[i], engine->compute));
    }
    return OK;
}

int trip_return(struct trip *trip, struct engine *engine)
{
    uint32_t chunks = trip->geometry->chunks;

    for (uint32_t i = 0; i < chunks && !stays(trip->geometry); i++) {
        TRY(event_wait(trip->done[i], engine->comm));
        TRY(a2a_run(trip->come[i], engine->comm));
        if (returned_alone(trip, i))
            TRY(event_record(trip->returned[i], engine->comm));
    }
    return OK;
}

int trip_unpack(struct trip *trip, struct engine *engine)
{
    for (uint32_t i = 0; i < trip->geometry->chunks; i++) {
        if (returned_alone(trip, i))
            TRY(event_wait(trip->returned[i], engine->compute));
        if (!comes_as_it_lies(trip))
            TRY(unpack(trip, engine->compute, i));
    }
    return OK;
}
