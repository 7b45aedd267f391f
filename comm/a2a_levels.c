/* The all-to-alls 2dh (Tutel, arXiv 2206.03382, algorithm 2) and 3dh, for equal blocks.  In 2dh,
 * ranks exchange first inside their node, then with the ranks at the same place on other nodes.
 * 3dh splits the second step: first the nodes of the same rack, then the other racks.  On n nodes
 * of m ranks each rank sends m - 1 messages of n blocks, then n - 1 messages of m blocks; linear
 * sends W - 1 messages of one block.  With racks of q nodes, n - 1 becomes q - 1 and n/q - 1. */
#include "a2a.h"
#include "shape.h"
#include "status.h"

static uint64_t staged_scratch(const struct topology *topology, uint64_t block)
{
    return 2 * (uint64_t)topology->ranks * block;
}

/* Scratch memory has two halves of W blocks; this is where half i begins. */
static char *scratch_half(const struct a2a_call *c, int i)
{
    return (char *)c->scratch +
           (size_t)i * (size_t)c->wire->topology.ranks * c->block * dtype_bytes(c->dtype);
}

/* Adds one exchange, in which each peer gets an equal part of the W blocks. */
static int add_phase(struct a2a *a2a, int phase, struct peers peers)
{
    const struct a2a_call *c = &a2a->call;
    size_t bytes =
        (size_t)(c->wire->topology.ranks / peers.count) * c->block * dtype_bytes(c->dtype);
    bool is_last = phase == a2a->ops->levels - 1;

    return batch_add(&a2a->phases[phase], c->wire, peers, scratch_half(c, 0), bytes,
                     is_last ? c->recv : scratch_half(c, 1), bytes);
}

static int staged_build(struct a2a *a2a)
{
    const struct topology *t = &a2a->call.wire->topology;
    bool has_racks = a2a->ops->levels == 3;
    int m = t->ranks_per_node,
        p = has_racks ? t->ranks_per_rack : t->ranks; /* ranks of a node; of a rack */

    if (has_racks ? !topology_three_levels(t) : !topology_two_levels(t))
        return UNSUPPORTED;
    TRY(add_phase(a2a, 0, (struct peers){ t->rank - t->rank % m, 1, m }));
    TRY(add_phase(a2a, 1, (struct peers){ t->rank - t->rank % p + t->rank % m, m, p / m }));
    return has_racks ? add_phase(a2a, 2, (struct peers){ t->rank % p, p, t->ranks / p }) : OK;
}

/* Puts blocks for the same peer of the next exchange next to each other.  Their order goes from
 * (racks, nodes, places) to (places, racks, nodes), to (nodes, racks, places), and back to (racks,
 * nodes, places).  The index of a plain transpose is i % rows * columns + i / rows; the paper
 * prints i / columns, which is right only where rows = columns. */
static int sort_blocks(const struct a2a *a2a, struct stream *stream, int phase)
{
    const struct a2a_call *c = &a2a->call;
    const struct topology *t = &c->wire->topology;
    /* With two levels, all nodes belong to one rack. */
    int per_rack = a2a->ops->levels == 3 ? t->ranks_per_rack : t->ranks;
    uint64_t racks = (uint64_t)(t->ranks / per_rack),
             nodes = (uint64_t)(per_rack / t->ranks_per_node);
    uint64_t places = (uint64_t)t->ranks_per_node;
    struct move move = { .from_type = c->dtype,
                         .to_type = c->dtype,
                         .block = c->block,
                         .terms = 1,
                         .from = phase ? scratch_half(c, 1) : c->send,
                         .to = scratch_half(c, 0) };
    const struct {
        uint64_t dims[3], from[3], to[3];
    } orders[A2A_PHASES] = {
        { { racks * nodes, places, 1 }, { places, 1, 0 }, { 1, racks * nodes, 0 } },
        { { places, nodes, racks }, { racks * nodes, 1, nodes }, { 1, racks * places, places } },
        { { nodes, racks, places }, { racks * places, places, 1 }, { places, nodes * places, 1 } },
    };

    for (int i = 0; i < 3; i++) {
        move.dims[i] = orders[phase].dims[i];
        move.from_stride[i] = orders[phase].from[i];
        move.to_stride[i] = orders[phase].to[i];
    }
    return launch_move(stream, &move);
}

static int staged_run(struct a2a *a2a, struct stream *stream)
{
    for (int i = 0; i < a2a->ops->levels; i++) {
        TRY(sort_blocks(a2a, stream, i));
        TRY(wire_exchange(a2a->call.wire, stream, &a2a->phases[i]));
    }
    return OK;
}

const struct a2a_ops a2a_2dh = {
    .levels = 2,
    .scratch = staged_scratch,
    .build = staged_build,
    .run = staged_run,
};
const struct a2a_ops a2a_3dh = {
    .levels = 3,
    .scratch = staged_scratch,
    .build = staged_build,
    .run = staged_run,
};

/* Inside the node, sends every block as a message of its own, directly to its place among the
 * blocks for the same node. */
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
            size_t block_offset = (size_t)(node * m + place) * bytes;

            TRY(batch_add_transfer(&a2a->phases[0],
                                   &(struct transfer){ .peer = t->rank - local + place,
                                                       .send = (const char *)c->send + block_offset,
                                                       .recv = scratch_half(c, 0) + block_offset,
                                                       .send_bytes = bytes,
                                                       .recv_bytes = bytes }));
        }
    return add_phase(a2a, 1, (struct peers){ local, m, t->ranks / m });
}

static int naive_run(struct a2a *a2a, struct stream *stream)
{
    TRY(wire_exchange(a2a->call.wire, stream, &a2a->phases[0]));
    return wire_exchange(a2a->call.wire, stream, &a2a->phases[1]);
}

const struct a2a_ops a2a_2dh_naive = {
    .levels = 2,
    .scratch = staged_scratch,
    .build = naive_build,
    .run = naive_run,
};
