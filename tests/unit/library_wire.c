/* The wire of library_wire.h: performs each collective by point-to-point transfers, and adds sums
 * on the host. */
#include "library_wire.h"

#include "host.h"
#include "rows.h"
#include "shape.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

enum { KINDS = COLLECTIVE_ALL_TO_ALL + 1 };

struct library_wire {
    struct wire base, *inner;
    int calls[KINDS];
    int batches, withdrawn, withdrawn_early;
};

struct sum {
    const char *parts;
    void *to;
    size_t elements;
    int terms;
    uint32_t dtype;
};

/* What a batch becomes; kept with it. */
struct translation {
    struct library_wire *wire;
    struct batch direct;
    int sum_count;
    struct sum sums[1];
};

/* As a ring does it: each rank adds its own part and hands the sum on, in the type of the parts. */
static int run_sum(const void *args)
{
    const struct sum *s = args;

    memcpy(s->to, s->parts, s->elements * dtype_bytes(s->dtype));
    for (int j = 1; j < s->terms; j++)
        for (size_t i = 0; i < s->elements; i++) {
            float sum, part;

            row_load(s->dtype, s->to, i, &sum, 1);
            row_load(s->dtype, s->parts, (size_t)j * s->elements + i, &part, 1);
            sum += part;
            row_store(s->dtype, s->to, i, &sum, 1);
        }
    return OK;
}

static int add_sum(struct translation *t, struct wire *inner, struct peers peers,
                   const struct collective *c)
{
    char *parts = malloc((size_t)peers.count * c->bytes);

    if (!parts)
        return fail(ERR_NOMEM, "parts of a sum");
    t->sums[t->sum_count++] =
        (struct sum){ parts, c->recv, c->bytes / dtype_bytes(c->dtype), peers.count, c->dtype };
    return batch_add(&t->direct, inner, peers, c->send, c->bytes, parts, c->bytes);
}

static int translate(struct translation *t, struct wire *inner, const struct collective *c)
{
    struct peers peers = { c->group.first, 1, c->group.count };

    if (c->kind == COLLECTIVE_SUM)
        return add_sum(t, inner, peers, c);
    return batch_add(&t->direct, inner, peers, c->send,
                     c->kind == COLLECTIVE_ALL_TO_ALL ? c->bytes : 0, c->recv, c->bytes);
}

static void free_prepared(struct batch *batch)
{
    struct translation *t = batch->prepared;

    t->wire->batches--;
    for (int i = 0; i < t->sum_count; i++)
        free((void *)t->sums[i].parts);
    batch_free(&t->direct);
    free(t);
    batch->prepared = NULL;
}

static int library_reserve(struct wire *base, struct batch *batch)
{
    struct library_wire *wire = (struct library_wire *)base;
    struct translation *t =
        calloc(1, sizeof(*t) + (size_t)batch->collective_count * sizeof(t->sums[0]));

    if (!t)
        return fail(ERR_NOMEM, "a batch");
    t->wire = wire;
    batch->prepared = t;
    batch->free_prepared = free_prepared;
    wire->batches++;
    for (int i = 0; i < batch->count; i++)
        TRY(batch_add_transfer(&t->direct, &batch->transfers[i]));
    for (int i = 0; i < batch->collective_count; i++)
        TRY(translate(t, wire->inner, &batch->collectives[i]));
    return wire_reserve(wire->inner, &t->direct);
}

static int library_exchange(struct wire *base, struct stream *stream, const struct batch *batch)
{
    struct library_wire *wire = (struct library_wire *)base;
    const struct translation *t = batch->prepared;

    TRY(wire_exchange(wire->inner, stream, &t->direct));
    for (int i = 0; i < t->sum_count; i++)
        TRY(host_call(stream, run_sum, &t->sums[i], sizeof(t->sums[i])));
    for (int i = 0; i < batch->collective_count; i++)
        wire->calls[batch->collectives[i].kind]++;
    return OK;
}

static int library_withdraw(struct wire *base, const void *memory)
{
    struct library_wire *wire = (struct library_wire *)base;

    (void)memory;
    wire->withdrawn++;
    wire->withdrawn_early += wire->batches > 0;
    return OK;
}

static void library_close(struct wire *base)
{
    wire_close(((struct library_wire *)base)->inner);
    free(base);
}

static const struct wire_ops library_ops = {
    .name = "library",
    .close = library_close,
    .reserve = library_reserve,
    .exchange = library_exchange,
    .withdraw = library_withdraw,
    .collectives = 1u << COLLECTIVE_GATHER | 1u << COLLECTIVE_SUM | 1u << COLLECTIVE_ALL_TO_ALL,
};

int library_wire_open(struct wire *inner, struct wire **out)
{
    struct library_wire *wire = calloc(1, sizeof(*wire));

    if (!wire) {
        wire_close(inner);
        return fail(ERR_NOMEM, "a wire");
    }
    wire->base.ops = &library_ops;
    wire->base.topology = inner->topology;
    wire->inner = inner;
    *out = &wire->base;
    return OK;
}

bool library_wire_withdrew(const struct wire *wire)
{
    const struct library_wire *w = (const struct library_wire *)wire;

    return w->withdrawn && !w->withdrawn_early;
}

int library_wire_calls(const struct wire *wire, enum collective_kind kind)
{
    return ((const struct library_wire *)wire)->calls[kind];
}
