/* The all-to-alls linear and 2dh for blocks of different sizes.  For equal blocks, a2a.c has linear
 * and a2a_levels.c has 2dh. */
#include "a2a.h"
#include "shape.h"
#include "status.h"

/* Rows that rank `from` sends rank `to`. */
static uint64_t rows_between(const struct a2a_call *c, int from, int to)
{
    return c->rows.between(c->rows.self, from, to);
}

static size_t bytes_of(const struct a2a_call *c, uint64_t rows)
{
    return rows * c->width * dtype_bytes(c->dtype);
}

/* The rows that this rank sends one peer and receives from it. */
struct part_of_rank {
    uint64_t send_rows, recv_rows;
};

struct ranks {
    int count, self, first, step; /* number i of them is rank first + i * step */
};

/* Adds a transfer with each of the ranks.  part_of() gives the rows of each; the parts lie one
 * behind the other in memory.  As in batch_add(), a rank begins with itself and its right
 * neighbour; the ranks before it come in a second turn. */
static int add_parts(struct a2a *a2a, int phase, struct ranks ranks, const void *send, void *recv,
                     void (*part_of)(const struct a2a_call *c, int i, struct part_of_rank *part))
{
    const struct a2a_call *c = &a2a->call;

    for (int turn = 0; turn < 2; turn++) {
        uint64_t send_row = 0, recv_row = 0; /* where the part begins */

        for (int i = 0; i < ranks.count; i++) {
            struct part_of_rank part;
            struct transfer transfer;

            part_of(c, i, &part);
            transfer = (struct transfer){ .peer = ranks.first + i * ranks.step,
                                          .send = (const char *)send + bytes_of(c, send_row),
                                          .recv = (char *)recv + bytes_of(c, recv_row),
                                          .send_bytes = bytes_of(c, part.send_rows),
                                          .recv_bytes = bytes_of(c, part.recv_rows) };
            if (turn ? i < ranks.self : i >= ranks.self)
                TRY(batch_add_transfer(&a2a->phases[phase], &transfer));
            send_row += part.send_rows;
            recv_row += part.recv_rows;
        }
    }
    return OK;
}

/* ---- linear */

static int rank_in_group(const struct a2a_call *c)
{
    return c->wire->topology.rank - c->among.first;
}

static void linear_part(const struct a2a_call *c, int i, struct part_of_rank *part)
{
    part->send_rows = rows_between(c, rank_in_group(c), i);
    part->recv_rows = rows_between(c, i, rank_in_group(c));
}

static int linear_build(struct a2a *a2a)
{
    const struct a2a_call *c = &a2a->call;
    int count = c->among.count ? c->among.count : c->wire->topology.ranks;

    return add_parts(a2a, 0, (struct ranks){ count, rank_in_group(c), c->among.first, 1 }, c->send,
                     c->recv, linear_part);
}

const struct a2a_uneven_ops a2a_linear_uneven = { .build = linear_build };

/* ---- 2dh */

/* The rank at place j of node i has number i * ranks_per_node + j. */
struct node_layout {
    int nodes, ranks_per_node, node, place; /* the last two are this rank's */
};

static struct node_layout node_layout_of(const struct topology *t)
{
    int m = t->ranks_per_node;

    return (struct node_layout){ t->ranks / m, m, t->rank / m, t->rank % m };
}

static int rank_at(const struct node_layout *l, int node, int place)
{
    return node * l->ranks_per_node + place;
}

/* The exchange inside the node: the rank at place j gets the rows for place j of every node. */
static void inside_part(const struct a2a_call *c, int j, struct part_of_rank *part)
{
    const struct topology *t = &c->wire->topology;
    const struct node_layout l = node_layout_of(t);

    part->send_rows = part->recv_rows = 0;
    for (int i = 0; i < l.nodes; i++) {
        part->send_rows += rows_between(c, t->rank, rank_at(&l, i, j));
        part->recv_rows += rows_between(c, rank_at(&l, l.node, j), rank_at(&l, i, l.place));
    }
}

/* The exchange between nodes: node i gets the rows that all ranks of this node have for the rank
 * at the same place in node i. */
static void between_part(const struct a2a_call *c, int i, struct part_of_rank *part)
{
    const struct topology *t = &c->wire->topology;
    const struct node_layout l = node_layout_of(t);

    part->send_rows = part->recv_rows = 0;
    for (int j = 0; j < l.ranks_per_node; j++) {
        part->send_rows += rows_between(c, rank_at(&l, l.node, j), rank_at(&l, i, l.place));
        part->recv_rows += rows_between(c, rank_at(&l, i, j), t->rank);
    }
}

/* Each half of the scratch memory must hold all rows that the first exchange sends, and all that it
 * receives. */
static uint64_t two_level_scratch(const struct topology *t, struct a2a_rows rows)
{
    struct wire wire = { .topology = *t };
    const struct a2a_call c = { .wire = &wire, .rows = rows };
    uint64_t sent = 0, received = 0;

    for (int j = 0; topology_two_levels(t) && j < t->ranks_per_node; j++) {
        struct part_of_rank part;

        inside_part(&c, j, &part);
        sent += part.send_rows;
        received += part.recv_rows;
    }
    return 2 * (sent > received ? sent : received);
}

static char *scratch_half(const struct a2a_call *c, int i)
{
    return (char *)c->scratch + (size_t)i * bytes_of(c, c->room / 2);
}

static int two_level_build(struct a2a *a2a)
{
    const struct a2a_call *c = &a2a->call;
    struct node_layout l;

    if (!topology_two_levels(&c->wire->topology))
        return UNSUPPORTED;
    l = node_layout_of(&c->wire->topology);
    TRY(add_parts(a2a, 0, (struct ranks){ l.ranks_per_node, l.place, l.node * l.ranks_per_node, 1 },
                  scratch_half(c, 0), scratch_half(c, 1), inside_part));
    return add_parts(a2a, 1, (struct ranks){ l.nodes, l.node, l.place, l.ranks_per_node },
                     scratch_half(c, 0), c->recv, between_part);
}

/* Each call needs two tables of W blocks.  The copy before the first exchange sorts blocks by
 * place, and the copy before the second sorts them by node. */
static uint64_t two_level_tables(const struct topology *t)
{
    return topology_two_levels(t) ? 2 * (uint64_t)t->ranks : 0;
}

/* Makes the table that turns blocks from order (rows, columns) into (columns, rows).  On entry,
 * each block's number of rows is in its `step`. */
static void fill_table(int rows, int columns, struct row_block *to)
{
    uint64_t from_row = 0, to_row = 0;

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            to[j * rows + i].from = from_row;
            from_row += to[j * rows + i].step;
        }
    for (int n = 0; n < rows * columns; n++) {
        to[n].first = to[n].to = to_row;
        to_row += to[n].step;
    }
}

static void two_level_fill(const struct topology *t, struct a2a_rows rows, struct row_block *to)
{
    const struct a2a_call c = { .rows = rows };
    const struct node_layout l = node_layout_of(t);
    struct row_block *second = to + t->ranks;

    for (int i = 0; i < l.nodes; i++)
        for (int j = 0; j < l.ranks_per_node; j++) {
            int by_place = j * l.nodes + i, by_node = rank_at(&l, i, j);

            to[by_place].step = rows_between(&c, t->rank, rank_at(&l, i, j));
            second[by_node].step =
                rows_between(&c, rank_at(&l, l.node, j), rank_at(&l, i, l.place));
        }
    fill_table(l.nodes, l.ranks_per_node, to);
    fill_table(l.ranks_per_node, l.nodes, second);
}

/* Makes one of the two copies.  The first reads what this rank sends, the second what the exchange
 * inside the node brought. */
static int sort_blocks(const struct a2a *a2a, struct stream *stream, bool is_second)
{
    const struct a2a_call *c = &a2a->call;
    const struct topology *t = &c->wire->topology;
    const struct node_layout l = node_layout_of(t);
    struct part_of_rank part;
    uint64_t rows = 0;

    for (int j = 0; j < l.ranks_per_node; j++) {
        inside_part(c, j, &part);
        rows += is_second ? part.recv_rows : part.send_rows;
    }
    return launch_move_rows(stream,
                            &(struct move_rows){ .from_type = c->dtype,
                                                 .to_type = c->dtype,
                                                 .width = c->width,
                                                 .rows = rows,
                                                 .terms = 1,
                                                 .count = (uint64_t)t->ranks,
                                                 .blocks = c->tables + (is_second ? t->ranks : 0),
                                                 .from = is_second ? scratch_half(c, 1) : c->send,
                                                 .to = scratch_half(c, 0) });
}

static int two_level_run(struct a2a *a2a, struct stream *stream)
{
    struct wire *wire = a2a->call.wire;

    TRY(sort_blocks(a2a, stream, false));
    TRY(wire_exchange(wire, stream, &a2a->phases[0]));
    TRY(sort_blocks(a2a, stream, true));
    return wire_exchange(wire, stream, &a2a->phases[1]);
}

const struct a2a_uneven_ops a2a_2dh_uneven = {
    .scratch_rows = two_level_scratch,
    .tables = two_level_tables,
    .fill = two_level_fill,
    .build = two_level_build,
    .run = two_level_run,
};
