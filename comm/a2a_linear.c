/* The all-to-all linear: every rank exchanges with every other at once, in one group. */
#include "a2a.h"
#include "shape.h"

static uint64_t linear_scratch(const struct topology *topology, uint64_t block)
{
    (void)topology, (void)block;
    return 0;
}

static int linear_build(struct a2a *a2a)
{
    const struct a2a_call *c = &a2a->call;
    size_t bytes = c->block * dtype_bytes(c->dtype);
    struct peers all = { .first = 0, .stride = 1, .count = c->wire->topology.ranks };

    return batch_add(&a2a->phases[0], c->wire, all, c->send, bytes, c->recv, bytes);
}

static int linear_run(struct a2a *a2a, struct stream *stream)
{
    return wire_exchange(a2a->call.wire, stream, &a2a->phases[0]);
}

const struct a2a_ops a2a_linear = {
    .name = "linear",
    .scratch = linear_scratch,
    .build = linear_build,
    .run = linear_run,
};
