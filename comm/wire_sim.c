/* Lets virtual time pass. */
#include "wire_sim.h"

#include "sim.h"
#include "status.h"

#include <stdlib.h>

struct wire_sim {
    struct wire base;
    const struct sim_link *link;
};

static int simulated_exchange(struct wire *base, struct stream *stream, const struct batch *batch)
{
    const struct sim_link *link = ((struct wire_sim *)base)->link;

    sim_pass(stream, link->exchange_ns(link, batch));
    return OK;
}

static int simulated_reserve(struct wire *base, const struct batch *batch)
{
    (void)base, (void)batch;
    return OK;
}

static void simulated_close(struct wire *base)
{
    free(base);
}

static const struct wire_ops sim_wire_ops = {
    .name = "sim",
    .close = simulated_close,
    .reserve = simulated_reserve,
    .exchange = simulated_exchange,
};

int wire_sim_open(const struct sim_link *link, const struct topology *topology, struct wire **out)
{
    struct wire_sim *wire = calloc(1, sizeof(*wire));

    if (!wire)
        return fail(ERR_NOMEM, "a wire");
    wire->base.ops = &sim_wire_ops;
    wire->base.topology = *topology;
    wire->link = link;
    *out = &wire->base;
    return OK;
}
