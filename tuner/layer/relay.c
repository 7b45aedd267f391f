/* Rows to a node and back, and the slots that they get there. */
#include "relay.h"

#include "node_rows.h"
#include "shape.h"
#include "status.h"

#include <stdlib.h>

static struct listed_choices choices_of(const struct router *router)
{
    const struct moe_shape *s = &router->layer->shape;

    return (struct listed_choices){ .tokens = router->layer->tokens,
                                    .experts = s->experts,
                                    .top_k = s->top_k,
                                    .nodes = shape_nodes(s),
                                    .expert = router->expert,
                                    .slot = router->slot };
}

static uint64_t even(uint64_t n)
{
    return n + n % 2;
}

static uint64_t most_tokens(const struct layer *layer)
{
    uint32_t most = 0;

    for (uint32_t q = 0; q < layer->shape.ranks; q++)
        most = layer->parts->tokens[q] > most ? layer->parts->tokens[q] : most;
    return most;
}

/* c1: shape_node_rows() with the need that the ranks agreed on; of capacities that differ, with the
 * mean of the node that has most. */
static uint64_t relay_rows(const struct layer *layer, const struct capacities *capacities)
{
    const struct moe_shape *s = &layer->shape;

    return shape_node_rows(s, most_tokens(layer), layer->node_need,
                           capacities_mean(capacities, s->experts, shape_nodes(s)));
}

/* ---- Memory and exchanges */

static size_t row_bytes(const struct layer *layer)
{
    return layer->shape.model_dim * dtype_bytes(layer->shape.dtype);
}

/* Labels take more than gradients.  Even, as rows are: what lies behind odd rows of 16 bits must be
 * aligned, too. */
static uint64_t pitch_rows(const struct layer *layer, uint64_t rows)
{
    uint64_t labels = size_product(rows * layer->shape.top_k, sizeof(struct sent_choice));

    return even(rows + (labels + row_bytes(layer) - 1) / row_bytes(layer));
}

static size_t pitch_bytes(const struct relay *relay)
{
    return relay->pitch * row_bytes(relay->layer);
}

static char *behind_rows(const struct relay *relay, char *base)
{
    return base + relay->rows * row_bytes(relay->layer);
}

/* As listed nodes are counted. */
static void layout_listed(struct relay *relay, uint64_t tokens, struct arena *arena)
{
    const struct moe_shape *s = &relay->layer->shape;
    const struct listed_choices c = { .top_k = s->top_k, .nodes = shape_nodes(s) };
    uint64_t listed = tokens * listed_fan(&c);

    relay->listed = arena_take(arena, listed, sizeof(*relay->listed));
    relay->node = arena_take(arena, listed, sizeof(*relay->node));
    relay->node_slot = arena_take(arena, listed, sizeof(*relay->node_slot));
    relay->ones = arena_take(arena, listed, sizeof(*relay->ones));
    relay->node_needed = arena_take(arena, c.nodes, sizeof(*relay->node_needed));
}

void relay_layout(struct relay *relay, struct arena *arena)
{
    const struct moe_shape *s = &relay->layer->shape;
    const struct capacities capacities = uneven_capacities(relay->uneven, relay->geometry);
    uint64_t all, choices;

    relay->rows = relay_rows(relay->layer, &capacities);
    relay->pitch = pitch_rows(relay->layer, relay->rows);
    all = size_product(relay->pitch, shape_nodes(s));
    choices = size_product(all, s->top_k);
    layout_listed(relay, relay->layer->tokens, arena);
    relay->home = arena_take(arena, all, row_bytes(relay->layer));
    relay->away = arena_take(arena, all, row_bytes(relay->layer));
    relay->done = arena_take(arena, all, row_bytes(relay->layer));
    relay->back = arena_take(arena, all, row_bytes(relay->layer));
    relay->expert = arena_take(arena, choices, sizeof(*relay->expert));
    relay->slot = arena_take(arena, choices, sizeof(*relay->slot));
    relay->gate = arena_take(arena, choices, sizeof(*relay->gate));
    relay->needed = arena_take(arena, s->experts / shape_nodes(s), sizeof(*relay->needed));
    if (s->pass == MOE_TRAIN)
        relay->grad_gate = arena_take(arena, choices, sizeof(*relay->grad_gate));
}

/* Node n's rows, and so many bytes behind them, from `send` to the relay there, whose own come to
 * the same place in `recv`.  A rank begins with its own node and the one after it. */
static int add_hop(struct relay *relay, struct engine *engine, struct batch *batch, char *send,
                   char *recv, size_t behind)
{
    const struct moe_shape *s = &relay->layer->shape;
    uint32_t m = s->ranks_per_node, n = shape_nodes(s), rank = (uint32_t)relay->layer->rank;
    size_t bytes = relay->rows * (row_bytes(relay->layer) + behind);

    batch->ctas = relay->ctas;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t node = (rank / m + i) % n;
        size_t at = node * pitch_bytes(relay);

        TRY(batch_add_transfer(batch, &(struct transfer){ (int)(node * m + rank % m), send + at,
                                                          recv + at, bytes, bytes }));
    }
    return wire_reserve(engine->wire, batch);
}

int relay_open(struct relay *relay, struct engine *engine)
{
    struct event **events[] = { &relay->packed, &relay->arrived, &relay->merged, &relay->returned };
    size_t k = relay->layer->shape.top_k;

    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        TRY(event_open(engine->device, events[i]));
    TRY(add_hop(relay, engine, &relay->labelled, relay->home, relay->away,
                k * sizeof(struct sent_choice)));
    TRY(add_hop(relay, engine, &relay->come, relay->done, relay->back, 0));
    if (relay->layer->shape.pass != MOE_TRAIN)
        return OK;
    TRY(add_hop(relay, engine, &relay->go, relay->home, relay->away, 0));
    return add_hop(relay, engine, &relay->graded, relay->done, relay->back, k * sizeof(float));
}

void relay_close(struct relay *relay)
{
    struct batch *batches[] = { &relay->labelled, &relay->go, &relay->come, &relay->graded };
    struct event *events[] = { relay->packed, relay->arrived, relay->merged, relay->returned };

    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++)
        batch_free(batches[i]);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        event_close(events[i]);
    *relay = (struct relay){ .layer = NULL };
}

/* ---- Where rows lie */

static struct node_rows node_rows(const struct relay *relay)
{
    return (struct node_rows){ relay->rows, relay->node, relay->node_slot, relay->node_needed };
}

/* A node is like an expert whose rows are all that goes there. */
static struct routing to_nodes(const struct relay *relay)
{
    const struct listed_choices c = choices_of(relay->router);

    return (struct routing){ .tokens = c.tokens,
                             .experts = c.nodes,
                             .top_k = listed_fan(&c),
                             .width = relay->layer->shape.model_dim,
                             .rows = relay->pitch,
                             .capacity = relay->rows,
                             .expert = relay->node,
                             .slot = relay->node_slot,
                             .needed = relay->node_needed };
}

/* And a relayed row like a token, those between the rows of two nodes like one without choices. */
static struct routing to_experts(const struct relay *relay)
{
    const struct moe_shape *s = &relay->layer->shape;
    const struct geometry *g = relay->geometry;

    return (struct routing){ .tokens = (uint32_t)(shape_nodes(s) * relay->pitch),
                             .experts = s->experts / shape_nodes(s),
                             .top_k = s->top_k,
                             .width = s->model_dim,
                             .rows = g->before ? relay->uneven->rows : g->rows,
                             .capacity = g->capacity * g->sources,
                             .first = relay->uneven->first,
                             .capacities = relay->uneven->room,
                             .expert = relay->expert,
                             .slot = relay->slot,
                             .needed = relay->needed };
}

static int list_nodes(struct relay *relay)
{
    const struct listed_choices c = choices_of(relay->router);

    TRY(launch_list_nodes(relay->stream, &(struct list_nodes){ c, relay->listed }));
    return launch_recount(relay->stream, &(struct recount){ .tokens = c.tokens,
                                                            .experts = c.nodes,
                                                            .top_k = listed_fan(&c),
                                                            .from = relay->listed,
                                                            .expert = relay->node,
                                                            .gate = relay->ones,
                                                            .slot = relay->node_slot,
                                                            .needed = relay->node_needed,
                                                            .capacity = relay->rows });
}

static int label_rows(struct relay *relay)
{
    return launch_label_rows(relay->stream,
                             &(struct label_rows){ .choices = choices_of(relay->router),
                                                   .at = node_rows(relay),
                                                   .gate = relay->router->gate,
                                                   .pitch = pitch_bytes(relay),
                                                   .to = behind_rows(relay, relay->home) });
}

static int read_labels(struct relay *relay)
{
    const struct routing r = to_experts(relay);
    const struct sent_groups groups = { relay->pitch, relay->rows, pitch_bytes(relay) };

    return launch_recount(relay->stream,
                          &(struct recount){ .tokens = r.tokens,
                                             .experts = r.experts,
                                             .top_k = r.top_k,
                                             .from = (const void *)behind_rows(relay, relay->away),
                                             .groups = groups,
                                             .expert = relay->expert,
                                             .gate = relay->gate,
                                             .slot = relay->slot,
                                             .needed = relay->needed,
                                             .capacity = r.capacity,
                                             .capacities = r.capacities });
}

/* ---- The hops */

static int exchange(struct relay *relay, struct engine *engine, struct event *ready,
                    const struct batch *batch, struct event *done)
{
    TRY(event_record(ready, relay->stream));
    TRY(event_wait(ready, engine->comm));
    TRY(wire_exchange(engine->wire, engine->comm, batch));
    TRY(event_record(done, engine->comm));
    return event_wait(done, relay->stream);
}

static int rows_by_node(struct relay *relay, const void *from)
{
    return launch_encode(relay->stream, &(struct encode){ .routing = to_nodes(relay),
                                                          .dtype = relay->layer->shape.dtype,
                                                          .from = from,
                                                          .to = relay->home });
}

/* to = what came home, summed over a token's nodes, and `add`. */
static int sum_nodes(struct relay *relay, const float *add, void *to)
{
    return launch_encode_backward(relay->stream,
                                  &(struct encode_backward){ .routing = to_nodes(relay),
                                                             .dtype = relay->layer->shape.dtype,
                                                             .from = relay->back,
                                                             .add = add,
                                                             .to = to });
}

int relay_send(struct relay *relay, struct engine *engine, const void *tokens, void *to)
{
    TRY(list_nodes(relay));
    TRY(rows_by_node(relay, tokens));
    TRY(label_rows(relay));
    TRY(exchange(relay, engine, relay->packed, &relay->labelled, relay->arrived));
    TRY(read_labels(relay));
    return launch_encode(relay->stream, &(struct encode){ .routing = to_experts(relay),
                                                          .dtype = relay->layer->shape.dtype,
                                                          .from = relay->away,
                                                          .to = to });
}

int relay_return(struct relay *relay, struct engine *engine, const void *from, void *y)
{
    TRY(launch_decode(relay->stream, &(struct decode){ .routing = to_experts(relay),
                                                       .dtype = relay->layer->shape.dtype,
                                                       .gate = relay->gate,
                                                       .from = from,
                                                       .to = relay->done }));
    TRY(exchange(relay, engine, relay->merged, &relay->come, relay->returned));
    return sum_nodes(relay, NULL, y);
}

int relay_send_grads(struct relay *relay, struct engine *engine, const void *grad_y,
                     const void *result, void *to)
{
    TRY(rows_by_node(relay, grad_y));
    TRY(label_rows(relay)); /* cleared with the rows, and sent again where only exchanges run */
    TRY(exchange(relay, engine, relay->packed, &relay->go, relay->arrived));
    return launch_decode_backward(relay->stream,
                                  &(struct decode_backward){ .routing = to_experts(relay),
                                                             .dtype = relay->layer->shape.dtype,
                                                             .gate = relay->gate,
                                                             .grad = relay->away,
                                                             .result = result,
                                                             .to = to,
                                                             .grad_gate = relay->grad_gate });
}

static int label_grads(struct relay *relay)
{
    uint64_t k = relay->layer->shape.top_k;

    return launch_move(
        relay->stream,
        &(struct move){ .block = 1,
                        .dims = { shape_nodes(&relay->layer->shape), relay->rows * k, 1 },
                        .from_stride = { relay->pitch * k, 1, 0 },
                        .to_stride = { pitch_bytes(relay) / sizeof(float), 1, 0 },
                        .terms = 1,
                        .from = relay->grad_gate,
                        .to = behind_rows(relay, relay->done) });
}

int relay_return_grads(struct relay *relay, struct engine *engine, const void *from)
{
    TRY(launch_encode_backward(relay->stream,
                               &(struct encode_backward){ .routing = to_experts(relay),
                                                          .dtype = relay->layer->shape.dtype,
                                                          .from = from,
                                                          .to = relay->done }));
    TRY(label_grads(relay));
    TRY(exchange(relay, engine, relay->merged, &relay->graded, relay->returned));
    return launch_collect_gates(relay->stream,
                                &(struct collect_gates){ .choices = choices_of(relay->router),
                                                         .at = node_rows(relay),
                                                         .pitch = pitch_bytes(relay),
                                                         .from = behind_rows(relay, relay->back),
                                                         .grad_gate = relay->router->grad_gate });
}

int relay_sum_grads(struct relay *relay, void *grad_x)
{
    return sum_nodes(relay, relay->router->grad_x, grad_x);
}

/* ---- How many rows a node needs */

static int count_rows(struct relay *relay, struct engine *engine, const void *x, int64_t *needed)
{
    uint32_t nodes = shape_nodes(&relay->layer->shape);

    TRY(router_forward(relay->router, engine, x, UINT64_MAX));
    TRY(list_nodes(relay));
    TRY(engine_sync(engine));
    return device_download(engine->device, needed, relay->node_needed, nodes * sizeof(*needed));
}

static void layout_counting(struct relay *relay, struct arena *arena)
{
    router_layout(relay->router, relay->layer, arena);
    layout_listed(relay, relay->layer->tokens, arena);
}

int relay_need(const struct layer *layer, struct engine *engine, const void *x, int64_t *most)
{
    struct router router = { 0 };
    struct relay relay = { .layer = layer, .router = &router, .stream = engine->compute };
    struct arena arena = { 0 };
    uint32_t nodes = shape_nodes(&layer->shape);
    int64_t *needed = calloc(nodes, sizeof(*needed));
    void *memory = NULL;
    int rc = needed ? OK : fail(ERR_NOMEM, "%u counts", nodes);

    TRY_OUT(rc);
    layout_counting(&relay, &arena);
    TRY_OUT(device_alloc(engine->device, arena.used_bytes, &memory));
    arena = (struct arena){ .base = memory };
    layout_counting(&relay, &arena);
    TRY_OUT(count_rows(&relay, engine, x, needed));
    *most = 0;
    for (uint32_t i = 0; i < nodes; i++)
        *most = needed[i] > *most ? needed[i] : *most;
out:
    device_release(engine->device, memory);
    free(needed);
    return rc;
}
