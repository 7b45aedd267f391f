/* nccl: the communication library's own all-to-all, where the wire has one. */
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
    const struct wire *wire = a2a->call.wire;

    if (wire->ops->all_to_all)
        return OK;
    if (wire->topology.rank == 0) /* every rank finds the same */
        note("a=nccl does not apply: the wire %s has no all-to-all of its own (NCCL 2.28 has)",
             wire->ops->name);
    return UNSUPPORTED;
}

static int library_run(struct a2a *a2a, struct stream *stream)
{
    const struct a2a_call *c = &a2a->call;

    return wire_all_to_all(c->wire, stream,
                           &(struct all_to_all){ .send = c->send,
                                                 .recv = c->recv,
                                                 .bytes = c->block * dtype_bytes(c->dtype),
                                                 .ctas = c->ctas });
}

const struct a2a_ops a2a_library = {
    .name = "nccl",
    .scratch = library_scratch,
    .build = library_build,
    .run = library_run,
};
