/* The all-to-all nccl: the communication library's own, where the wire has one. */
#include "a2a.h"
#include "shape.h"
#include "status.h"

static uint64_t library_scratch(const struct topology *topology, uint64_t block)
{
    (void)topology, (void)block;
    return 0;
}

static int library_build(struct a2a *a2a)
{
    const struct a2a_call *c = &a2a->call;
    struct collective all = { COLLECTIVE_ALL_TO_ALL,
                              { 0, c->wire->topology.ranks },
                              c->send,
                              c->recv,
                              c->block * dtype_bytes(c->dtype) };

    if (wire_has(c->wire, all.kind, all.group))
        return batch_add_collective(&a2a->phases[0], &all);
    if (c->wire->topology.rank == 0) /* every rank finds the same */
        note("a=nccl does not apply: the wire %s has no all-to-all of its own (NCCL 2.28 has)",
             c->wire->ops->name);
    return UNSUPPORTED;
}

static int library_run(struct a2a *a2a, struct stream *stream)
{
    return wire_exchange(a2a->call.wire, stream, &a2a->phases[0]);
}

const struct a2a_ops a2a_library = {
    .name = "nccl",
    .scratch = library_scratch,
    .build = library_build,
    .run = library_run,
};
