/* linear and 2dh where blocks differ; a2a.c and a2a_levels.c have them where all are equal. */
#include "a2a.h"
#include "shape.h"
#include "status.h"

/* Rows that one rank sends another. */
static uint64_t rows_between(const struct a2a_call *c, int from, int to)
{
    return c->rows.between(c->rows.self, from, to);
}

static size_t bytes_of(const struct a2a_call *c, uint64_t rows)
{
    return rows * c->width * dtype_bytes(c->dtype);
}

/* What goes to a rank and comes from it, in rows from where all of it begins. */
struct rank_part {
    uint64_t send_at, send, recv_at, recv;
};

struct ranks {
    int count, self, first, step; /* number i of them is rank first + i * step */
};

/* Adds a transfer with each of the ranks, whose parts `part_of` says; they lie one behind the
 * other.  A rank begins with itself and its right neighbour, as batch_add() has it: those before it
 * come in a second turn. */
static int add_parts(struct a2a *a2a, int phase, struct ranks ranks, const void *send, void *recv,
                     void (*part_of)(const struct a2a_call *c, int i, struct rank_part *part))
{
    const struct a2a_call *c = &a2a->call;

    for (int turn = 0; turn < 2; turn++) {
        struct rank_part at = { 0, 0, 0, 0 };

        for (int i = 0; i < ranks.count; i++) {
            struct transfer transfer;

            part_of(c, i, &at);
            transfer = (struct transfer){ .peer = ranks.first + i * ranks.step,
                                          .send = (const char *)send + bytes_of(c, at.send_at),
                                          .recv = (char *)recv + bytes_of(c, at.recv_at),
                                          .send_bytes = bytes_of(c, at.send),
                                          .recv_bytes = bytes_of(c, at.recv) };
            if (turn ? i < ranks.self : i >= ranks.self)
                TRY(batch_add_transfer(&a2a->phases[phase], &transfer));
            at.send_at += at.send;
            at.recv_at += at.recv;
        }
    }
    return OK;
}

/* ---- linear */

static int own_number(const struct a2a_call *c)
{
    return c->wire->topology.rank - c->among.first;
}

static void linear_part(const struct a2a_call *c, int i, struct rank_part *part)
{
    part->send = rows_between(c, own_number(c), i);
    part->recv = rows_between(c, i, own_number(c));
}

static int linear_build(struct a2a *a2a)
{
    const struct a2a_call *c = &a2a->call;
    int count = c->among.count ? c->among.count : c->wire->topology.ranks;

    return add_parts(a2a, 0, (struct ranks){ count, own_number(c), c->among.first, 1 }, c->send,
                     c->recv, linear_part);
}

const struct a2a_uneven_ops a2a_linear_uneven = { .build = linear_build };

/* ---- 2dh: node i, place j in it, is rank i m + j */

struct levels {
    int nodes, each, node, place; /* the last two are this rank's */
};

static struct levels levels_of(const struct topology *t)
{
    int m = t->ranks_per_node;

    return (struct levels){ t->ranks / m, m, t->rank / m, t->rank % m };
}

static int rank_at(const struct levels *l, int node, int place)
{
    return node * l->each + place;
}

/* Inside the node place j gets what is for that place of every node. */
static void inside_part(const struct a2a_call *c, int j, struct rank_part *part)
{
    const struct topology *t = &c->wire->topology;
    const struct levels l = levels_of(t);

    part->send = part->recv = 0;
    for (int i = 0; i < l.nodes; i++) {
        part->send += rows_between(c, t->rank, rank_at(&l, i, j));
        part->recv += rows_between(c, rank_at(&l, l.node, j), rank_at(&l, i, l.place));
    }
}

/* Node i gets what all places of this one have for its rank of the same place. */
static void between_part(const struct a2a_call *c, int i, struct rank_part *part)
{
    const struct topology *t = &c->wire->topology;
    const struct levels l = levels_of(t);

    part->send = part->recv = 0;
    for (int j = 0; j < l.each; j++) {
        part->send += rows_between(c, rank_at(&l, l.node, j), rank_at(&l, i, l.place));
        part->recv += rows_between(c, rank_at(&l, i, j), t->rank);
    }
}

/* Each half of the scratch memory has room for all that is sent or received inside the node. */
static uint64_t hierarchical_scratch(const struct topology *t, struct a2a_rows rows)
{
    struct wire wire = { .topology = *t };
    const struct a2a_call c = { .wire = &wire, .rows = rows };
    uint64_t sent = 0, received = 0;

    for (int j = 0; topology_two_levels(t) && j < t->ranks_per_node; j++) {
        struct rank_part part;

        inside_part(&c, j, &part);
        sent += part.send;
        received += part.recv;
    }
    return 2 * (sent > received ? sent : received);
}

static char *room(const struct a2a_call *c, int i)
{
    return (char *)c->scratch + (size_t)i * bytes_of(c, c->room / 2);
}

static int hierarchical_build(struct a2a *a2a)
{
    const struct a2a_call *c = &a2a->call;
    struct levels l;

    if (!topology_two_levels(&c->wire->topology))
        return UNSUPPORTED;
    l = levels_of(&c->wire->topology);
    TRY(add_parts(a2a, 0, (struct ranks){ l.each, l.place, l.node * l.each, 1 }, room(c, 0),
                  room(c, 1), inside_part));
    return add_parts(a2a, 1, (struct ranks){ l.nodes, l.node, l.place, l.each }, room(c, 0),
                     c->recv, between_part);
}

/* Two tables for each call: before the first exchange, by places; before the second, by nodes. */
static uint64_t hierarchical_tables(const struct topology *t)
{
    return topology_two_levels(t) ? 2 * (uint64_t)t->ranks : 0;
}

/* Turns (rows, columns) of blocks into (columns, rows); each block's rows are in its `step`. */
static void fill_table(int rows, int columns, struct row_block *to)
{
    uint64_t from = 0, at = 0;

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            to[j * rows + i].from = from;
            from += to[j * rows + i].step;
        }
    for (int n = 0; n < rows * columns; n++) {
        to[n].first = to[n].to = at;
        at += to[n].step;
    }
}

static void hierarchical_fill(const struct topology *t, struct a2a_rows rows, struct row_block *to)
{
    const struct a2a_call c = { .rows = rows };
    const struct levels l = levels_of(t);
    struct row_block *second = to + t->ranks;

    for (int i = 0; i < l.nodes; i++)
        for (int j = 0; j < l.each; j++) {
            int by_place = j * l.nodes + i, by_node = rank_at(&l, i, j);

            to[by_place].step = rows_between(&c, t->rank, rank_at(&l, i, j));
            second[by_node].step =
                rows_between(&c, rank_at(&l, l.node, j), rank_at(&l, i, l.place));
        }
    fill_table(l.nodes, l.each, to);
    fill_table(l.each, l.nodes, second);
}

/* Makes one of the two copies: first of what is sent, then of what came inside the node. */
static int arrange(const struct a2a *a2a, struct stream *stream, int second)
{
    const struct a2a_call *c = &a2a->call;
    const struct topology *t = &c->wire->topology;
    const struct levels l = levels_of(t);
    struct rank_part part;
    uint64_t rows = 0;

    for (int j = 0; j < l.each; j++) {
        inside_part(c, j, &part);
        rows += second ? part.recv : part.send;
    }
    return launch_move_rows(stream, &(struct move_rows){ .from_type = c->dtype,
                                                         .to_type = c->dtype,
                                                         .width = c->width,
                                                         .rows = rows,
                                                         .terms = 1,
                                                         .count = (uint64_t)t->ranks,
                                                         .blocks = c->tables + second * t->ranks,
                                                         .from = second ? room(c, 1) : c->send,
                                                         .to = room(c, 0) });
}

static int hierarchical_run(struct a2a *a2a, struct stream *stream)
{
    struct wire *wire = a2a->call.wire;

    TRY(arrange(a2a, stream, 0));
    TRY(wire_exchange(wire, stream, &a2a->phases[0]));
    TRY(arrange(a2a, stream, 1));
    return wire_exchange(wire, stream, &a2a->phases[1]);
}

const struct a2a_uneven_ops a2a_2dh_uneven = {
    .scratch_rows = hierarchical_scratch,
    .tables = hierarchical_tables,
    .fill = hierarchical_fill,
    .build = hierarchical_build,
    .run = hierarchical_run,
};
