/* The table of all-to-all algorithms; opens, runs and closes one of them for the steps of a layer.
 */
#include "a2a.h"

#include "plan.h"
#include "shape.h"
#include "status.h"

#include <stdlib.h>

/* linear: every rank exchanges with every other at once. */
static int linear_build(struct a2a *a2a)
{
    const struct a2a_call *c = &a2a->call;
    size_t bytes = c->block * dtype_bytes(c->dtype);
    struct peers among = { c->among.first, 1, c->among.count };

    if (!among.count)
        among.count = c->wire->topology.ranks;
    return batch_add(&a2a->phases[0], c->wire, among, c->send, bytes, c->recv, bytes);
}

/* nccl: the communication library's own all-to-all, where the wire has one. */
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
        note("a=nccl does not apply: the wire %s has no all-to-all call; NCCL has one since 2.28",
             c->wire->ops->name);
    return UNSUPPORTED;
}

static const struct a2a_ops a2a_linear = { .build = linear_build },
                            a2a_library = { .build = library_build };

static const struct a2a_ops *const algorithms[] = {
    [MOE_A2A_LINEAR] = &a2a_linear,
    [MOE_A2A_2DH] = &a2a_2dh,
    [MOE_A2A_NCCL] = &a2a_library,
    [MOE_A2A_3DH] = &a2a_3dh,
};

/* NULL: blocks must be equal. */
static const struct a2a_uneven_ops *const uneven_algorithms[] = {
    [MOE_A2A_LINEAR] = &a2a_linear_uneven,
    [MOE_A2A_2DH] = &a2a_2dh_uneven,
    [MOE_A2A_NCCL] = NULL,
    [MOE_A2A_3DH] = NULL,
};

uint64_t a2a_scratch(uint32_t a, const struct topology *topology, uint64_t block)
{
    return algorithms[a]->scratch ? algorithms[a]->scratch(topology, block) : 0;
}

uint64_t a2a_scratch_rows(uint32_t a, const struct topology *topology, struct a2a_rows rows)
{
    const struct a2a_uneven_ops *ops = uneven_algorithms[a];

    return ops && ops->scratch_rows ? ops->scratch_rows(topology, rows) : 0;
}

uint64_t a2a_tables(uint32_t a, const struct topology *topology)
{
    const struct a2a_uneven_ops *ops = uneven_algorithms[a];

    return ops && ops->tables ? ops->tables(topology) : 0;
}

void a2a_fill_tables(uint32_t a, const struct topology *topology, struct a2a_rows rows,
                     struct row_block *to)
{
    if (a2a_tables(a, topology))
        uneven_algorithms[a]->fill(topology, rows, to);
}

static int build_batches(struct a2a *a2a)
{
    if (a2a->call.add_transfers)
        return a2a->call.add_transfers(a2a->call.self, &a2a->phases[0]);
    return a2a->uneven ? a2a->uneven->build(a2a) : a2a->ops->build(a2a);
}

/* Sets the algorithm of the call.  UNSUPPORTED: its blocks differ, and the algorithm needs equal
 * ones. */
static int choose_algorithm(struct a2a *a2a, uint32_t a)
{
    const struct wire *wire = a2a->call.wire;
    static const struct a2a_ops no_algorithm = { .build = NULL };

    if (a2a->call.add_transfers)
        a2a->ops = &no_algorithm;
    else if (a2a->call.naive && a == MOE_A2A_2DH)
        a2a->ops = &a2a_2dh_naive;
    else
        a2a->ops = algorithms[a];
    if (a2a->call.add_transfers || !a2a->call.rows.between)
        return OK;
    a2a->uneven = uneven_algorithms[a];
    if (a2a->uneven)
        return OK;
    if (wire->topology.rank == 0) /* every rank finds the same */
        note("a=%s does not apply: experts have different capacities, and this all-to-all sends "
             "the same number of rows to every rank",
             plan_axes[PLAN_A].words[a]);
    return UNSUPPORTED;
}

static int reserve_batches(struct a2a *a2a)
{
    for (int i = 0; i < A2A_PHASES; i++)
        TRY(wire_reserve(a2a->call.wire, &a2a->phases[i]));
    return OK;
}

int a2a_open(uint32_t a, const struct a2a_call *call, struct a2a **out)
{
    struct a2a *a2a = calloc(1, sizeof(*a2a));
    int rc;

    if (!a2a)
        return fail(ERR_NOMEM, "an all-to-all");
    a2a->call = *call;
    TRY_OUT(choose_algorithm(a2a, a));
    TRY_OUT(build_batches(a2a));
    for (int i = 0; i < A2A_PHASES; i++) {
        a2a->phases[i].ctas = call->ctas;
        a2a->phases[i].of_tokens = true;
        a2a->phases[i].staged = !batch_is_empty(&a2a->phases[1]);
    }
    TRY_OUT(reserve_batches(a2a));
    *out = a2a;
    return OK;
out:
    a2a_close(a2a);
    return rc;
}

int a2a_rebuild(struct a2a *a2a)
{
    for (int i = 0; i < A2A_PHASES; i++)
        a2a->phases[i].count = 0;
    TRY(build_batches(a2a));
    return reserve_batches(a2a);
}

int a2a_run(struct a2a *a2a, struct stream *stream)
{
    if (!a2a->call.block)
        return OK;
    if (a2a->uneven && a2a->uneven->run)
        return a2a->uneven->run(a2a, stream);
    return a2a->ops->run ? a2a->ops->run(a2a, stream)
                         : wire_exchange(a2a->call.wire, stream, &a2a->phases[0]);
}

void a2a_close(struct a2a *a2a)
{
    if (!a2a)
        return;
    for (int i = 0; i < A2A_PHASES; i++)
        batch_free(&a2a->phases[i]);
    free(a2a);
}
