/* The all-to-all 2dh (Tutel, arXiv 2206.03382, algorithm 2): ranks exchange first inside their
 * node, then with the ranks of the same place on other nodes.  Of n nodes of m ranks each rank
 * sends m - 1 messages of n blocks, then n - 1 messages of m blocks, where linear sends W - 1
 * messages of one block. */
#include "a2a.h"
#include "shape.h"
#include "status.h"

static uint64_t hierarchical_scratch(const struct topology *topology, uint64_t block)
{
    return 2 * (uint64_t)topology->ranks * block;
}

static char *half(const struct a2a_call *c, int i)
{
    return (char *)c->scratch +
           (size_t)i * (size_t)c->wire->topology.ranks * c->block * dtype_bytes(c->dtype);
}

/* Each peer gets its share of the W blocks. */
static int add_phase(struct a2a *a2a, struct batch *phase, struct peers peers, const void *send,
                     void *recv)
{
    const struct a2a_call *c = &a2a->call;
    size_t bytes =
        (size_t)(c->wire->topology.ranks / peers.count) * c->block * dtype_bytes(c->dtype);

    return batch_add(phase, c->wire, peers, send, bytes, recv, bytes);
}

static int hierarchical_build(struct a2a *a2a)
{
    const struct a2a_call *c = &a2a->call;
    const struct topology *t = &c->wire->topology;
    int m = t->ranks_per_node, local;

    if (!topology_two_levels(t))
        return UNSUPPORTED;
    local = t->rank % m;
    TRY(add_phase(a2a, &a2a->phases[0], (struct peers){ t->rank - local, 1, m }, half(c, 0),
                  half(c, 1)));
    return add_phase(a2a, &a2a->phases[1], (struct peers){ local, m, t->ranks / m }, half(c, 0),
                     c->recv);
}

/* Stride copy: block (i,j) of (rows,columns) becomes block (j,i) of (columns,rows).  As index
 * arithmetic this is i % rows * columns + i / rows; the paper prints i / columns, which is right
 * only where rows = columns. */
static int transpose(const struct a2a_call *c, struct stream *stream, uint64_t rows,
                     uint64_t columns, const void *from, void *to)
{
    return launch_move(stream, &(struct move){ .from_type = c->dtype,
                                               .to_type = c->dtype,
                                               .block = c->block,
                                               .dims = { rows, columns, 1 },
                                               .from_stride = { columns, 1, 0 },
                                               .to_stride = { 1, rows, 0 },
                                               .terms = 1,
                                               .from = from,
                                               .to = to });
}

static int hierarchical_run(struct a2a *a2a, struct stream *stream)
{
    const struct a2a_call *c = &a2a->call;
    uint64_t m = (uint64_t)c->wire->topology.ranks_per_node;
    uint64_t n = (uint64_t)c->wire->topology.ranks / m;

    TRY(transpose(c, stream, n, m, c->send, half(c, 0))); /* blocks for one local rank together */
    TRY(wire_exchange(c->wire, stream, &a2a->phases[0]));
    TRY(transpose(c, stream, m, n, half(c, 1), half(c, 0))); /* blocks for one node together */
    return wire_exchange(c->wire, stream, &a2a->phases[1]);
}

const struct a2a_ops a2a_2dh = {
    .scratch = hierarchical_scratch,
    .build = hierarchical_build,
    .run = hierarchical_run,
};

/* Block by block, from where it lies to its place among those for the same node. */
static int naive_build(struct a2a *a2a)
{
    const struct a2a_call *c = &a2a->call;
    const struct topology *t = &c->wire->topology;
    size_t bytes = c->block * dtype_bytes(c->dtype);
    int m = t->ranks_per_node, local;

    if (!topology_two_levels(t))
        return UNSUPPORTED;
    local = t->rank % m;
    for (int node = 0; node < t->ranks / m; node++)
        for (int i = 0; i < m; i++) {
            int place = (local + i) % m;
            size_t theirs = (size_t)(node * m + place) * bytes;

            TRY(batch_add_transfer(&a2a->phases[0],
                                   &(struct transfer){ .peer = t->rank - local + place,
                                                       .send = (const char *)c->send + theirs,
                                                       .recv = half(c, 0) + theirs,
                                                       .send_bytes = bytes,
                                                       .recv_bytes = bytes }));
        }
    return add_phase(a2a, &a2a->phases[1], (struct peers){ local, m, t->ranks / m }, half(c, 0),
                     c->recv);
}

static int naive_run(struct a2a *a2a, struct stream *stream)
{
    TRY(wire_exchange(a2a->call.wire, stream, &a2a->phases[0]));
    return wire_exchange(a2a->call.wire, stream, &a2a->phases[1]);
}

const struct a2a_ops a2a_2dh_naive = {
    .scratch = hierarchical_scratch,
    .build = naive_build,
    .run = naive_run,
};
