/* The table of all-to-all algorithms, and how one of them is opened, run and closed. */
#include "a2a.h"

#include "status.h"

#include <stdlib.h>

static const struct a2a_ops *const algorithms[] = {
    [MOE_A2A_LINEAR] = &a2a_linear,
    [MOE_A2A_2DH] = &a2a_2dh,
    [MOE_A2A_NCCL] = &a2a_library,
};

uint64_t a2a_scratch(uint32_t a, const struct topology *topology, uint64_t block)
{
    return algorithms[a]->scratch(topology, block);
}

int a2a_open(uint32_t a, const struct a2a_call *call, struct a2a **out)
{
    struct a2a *a2a = calloc(1, sizeof(*a2a));
    int rc;

    if (!a2a)
        return fail(ERR_NOMEM, "an all-to-all");
    a2a->ops = algorithms[a];
    a2a->call = *call;
    TRY_OUT(a2a->ops->build(a2a));
    for (int i = 0; i < A2A_PHASES; i++)
        a2a->phases[i].ctas = call->ctas;
    for (int i = 0; i < A2A_PHASES; i++)
        TRY_OUT(wire_reserve(call->wire, &a2a->phases[i]));
    *out = a2a;
    return OK;
out:
    a2a_close(a2a);
    return rc;
}

int a2a_run(struct a2a *a2a, struct stream *stream)
{
    return a2a->call.block ? a2a->ops->run(a2a, stream) : OK;
}

void a2a_close(struct a2a *a2a)
{
    if (!a2a)
        return;
    for (int i = 0; i < A2A_PHASES; i++)
        batch_free(&a2a->phases[i]);
    free(a2a);
}
