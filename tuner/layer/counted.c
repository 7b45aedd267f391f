/* The way of a plan with r >= 1 and e=sparse.  padded.c sends and computes c rows of every expert;
 * here only the rows that exist travel and are computed.  In each step the ranks exchange how many
 * choices they kept for each expert.  Each host waits for these counts, and rebuilds the tables of
 * the rows that it copies and sends.
 *
 * Buffers have the size of the capacity, so a step allocates nothing.  Weights are gathered after
 * the counts: streams are in order, so the host would otherwise wait for the weights, too. */
#include "gather.h"
#include "load.h"
#include "padded.h"
#include "status.h"

#include <stdlib.h>

/* The state of way_counted. */
struct counted {
    struct padded padded; /* must be first, see padded.h */
    int64_t *counts;      /* (W,E) choices of each rank for each expert, in the device's memory */
    int64_t *host_counts; /* a copy in the host's memory, owned */
    struct batch gather;
    struct event *routed;
};

static uint64_t count_numbers(const struct exec *x)
{
    return (uint64_t)x->geometry.peers * x->layer->shape.experts;
}

static void layout(struct exec *x, struct arena *arena)
{
    struct counted *c = x->state;

    padded_layout(x, arena);
    c->counts = arena_alloc(arena, count_numbers(x), sizeof(*c->counts));
}

static int open_counted(struct exec *x)
{
    struct counted *c = x->state;
    size_t slice = x->layer->shape.experts * sizeof(*c->counts);

    c->host_counts = calloc(count_numbers(x), sizeof(*c->host_counts));
    if (!c->host_counts)
        return fail(ERR_NOMEM, "%llu counts", (unsigned long long)count_numbers(x));
    /* Before the first step, all counts are 0. */
    TRY(device_upload(x->engine->device, c->counts, c->host_counts,
                      count_numbers(x) * sizeof(*c->host_counts)));
    TRY(event_open(x->engine->device, &c->routed));
    TRY(gather_add(&c->gather, x->engine->wire, (struct group){ 0, (int)x->geometry.peers },
                   x->router.needed, c->counts, slice));
    TRY(wire_reserve(x->engine->wire, &c->gather));
    TRY(padded_open(x)); /* with the largest possible number of rows */
    return uneven_count(&x->uneven, &x->geometry, x->layer->shape.experts);
}

static void close_counted(struct exec *x)
{
    struct counted *c = x->state;

    padded_close(x);
    batch_free(&c->gather);
    event_close(c->routed);
    free(c->host_counts);
}

/* Fetches nothing: forward() gathers weights after the counts. */
static int fetch_nothing(struct exec *x)
{
    (void)x;
    return OK;
}

/* Computes the counts for a modelled device, which has no tokens: from the layer's load, or
 * balanced. */
static void model_counts(const struct exec *x, int64_t *counts)
{
    const struct load *load = load_counts(x->layer->load);
    uint32_t experts = x->layer->shape.experts, ranks = x->geometry.peers;

    for (uint32_t q = 0; q < ranks; q++) {
        uint64_t tokens = x->layer->parts->tokens[q], choices = tokens * x->layer->shape.top_k;

        for (uint32_t e = 0; e < experts; e++, counts++)
            *counts =
                (int64_t)(load && load->tokens ? load_kept_of(load, x->geometry.capacity, q, e) *
                                                     tokens / load->tokens
                                               : choices / experts + (e < choices % experts));
    }
}

/* Where one process stands for all ranks, gives this rank the counts of the fullest rank: a real
 * step waits for the rank whose experts get most rows. */
static void swap_in_fullest(struct exec *x)
{
    uint32_t experts = x->layer->shape.experts, local = x->geometry.local;
    uint32_t fullest_first = 0; /* first expert of the fullest rank */
    uint64_t rank_rows = 0, most_rows = 0, swapped;

    for (uint32_t e = 0; e < experts; e++) {
        if (e % local == 0) /* the next rank's experts begin */
            rank_rows = 0;
        for (uint32_t q = 0; q < x->geometry.peers; q++)
            rank_rows += x->uneven.rows[q * x->uneven.stride + e];
        if (rank_rows > most_rows) {
            most_rows = rank_rows;
            fullest_first = e / local * local;
        }
    }
    for (uint32_t q = 0; q < x->geometry.peers; q++)
        for (uint32_t l = 0; l < local; l++) {
            uint64_t *rows = x->uneven.rows + q * x->uneven.stride;

            swapped = rows[fullest_first + l];
            rows[fullest_first + l] = rows[x->geometry.first + l];
            rows[x->geometry.first + l] = swapped;
        }
}

/* Exchanges the counts, waits for them, and rebuilds tables and exchanges. */
static int exchange_counts(struct exec *x)
{
    const struct capacities agreed = uneven_capacities(&x->uneven, &x->geometry);
    struct engine *engine = x->engine;
    struct counted *c = x->state;

    TRY(event_record(c->routed, engine->compute));
    TRY(event_wait(c->routed, engine->comm));
    TRY(wire_exchange(engine->wire, engine->comm, &c->gather));
    TRY(wire_wait(engine->wire, engine->comm));
    TRY(stream_sync(engine->comm));
    if (engine->device->modelled)
        model_counts(x, c->host_counts);
    else
        TRY(device_download(engine->device, c->host_counts, c->counts,
                            count_numbers(x) * sizeof(*c->host_counts)));
    for (uint64_t i = 0; i < count_numbers(x); i++) {
        int64_t capacity = (int64_t)capacity_of(&agreed, i % x->layer->shape.experts);
        int64_t chosen = c->host_counts[i] > 0 ? c->host_counts[i] : 0;

        x->uneven.rows[i] = (uint64_t)(chosen < capacity ? chosen : capacity);
    }
    if (engine->device->modelled || engine->wire->pretends)
        swap_in_fullest(x);
    TRY(uneven_fill(&x->uneven, &x->layer->shape, &x->geometry, x->algorithm, x->topology,
                    engine->device));
    TRY(trip_rebuild(&c->padded.forward));
    return x->layer->shape.pass == MOE_TRAIN ? trip_rebuild(&c->padded.backward) : OK;
}

static int forward(struct exec *x, const void *tokens, void *y)
{
    TRY(exchange_counts(x));
    TRY(weights_gather(&x->weights, x->engine));
    return way_padded.forward(x, tokens, y);
}

static int backward(struct exec *x, const void *grad_y, void *grad_x)
{
    return way_padded.backward(x, grad_y, grad_x);
}

const struct way_ops way_counted = { .waits = true,
                                     .state_bytes = WAY_STATE_BYTES(struct counted),
                                     .layout = layout,
                                     .open = open_counted,
                                     .close = close_counted,
                                     .fetch = fetch_nothing,
                                     .forward = forward,
                                     .backward = backward };
