/* The way of a=rail: sends each token once to each node that it needs, and gives its choices slots
 * there. */
#include "relay.h"

#include "node_rows.h"
#include "shape.h"
#include "status.h"

#include <stdlib.h>

static const struct relay *relay_of(const struct exec *x)
{
    return x->state;
}

/* ---- Memory */

static size_t row_bytes(const struct exec *x)
{
    return x->layer->shape.model_dim * dtype_bytes(x->layer->shape.dtype);
}

static size_t pitch_bytes(const struct exec *x)
{
    return relay_of(x)->pitch * row_bytes(x);
}

static char *behind_rows(const struct exec *x, char *base)
{
    return base + relay_of(x)->rows * row_bytes(x);
}

/* Places the lists of nodes. */
static void layout_listed(struct exec *x, struct arena *arena)
{
    const struct moe_shape *s = &x->layer->shape;
    const struct listed_choices c = { .top_k = s->top_k, .nodes = shape_nodes(s) };
    uint64_t listed = (uint64_t)x->layer->tokens * most_nodes_per_token(&c);
    struct relay *r = x->state;

    r->listed = arena_alloc(arena, listed, sizeof(*r->listed));
    r->node = arena_alloc(arena, listed, sizeof(*r->node));
    r->node_slot = arena_alloc(arena, listed, sizeof(*r->node_slot));
    r->ones = arena_alloc(arena, listed, sizeof(*r->ones));
    r->node_needed = arena_alloc(arena, c.nodes, sizeof(*r->node_needed));
}

static void layout(struct exec *x, struct arena *arena)
{
    const struct moe_shape *s = &x->layer->shape;
    const struct capacities capacities = uneven_capacities(&x->uneven, &x->geometry);
    uint32_t tokens_most = 0;
    uint64_t all_rows, choices, labels;
    struct relay *r = x->state;

    padded_layout(x, arena);
    for (uint32_t q = 0; q < s->ranks; q++)
        if (x->layer->parts->tokens[q] > tokens_most)
            tokens_most = x->layer->parts->tokens[q];
    /* From the need that the ranks agreed on; with different capacities, from the mean of the
     * fullest node. */
    r->rows = shape_node_rows(s, tokens_most, x->layer->node_need,
                              capacities_mean(&capacities, s->experts, shape_nodes(s)));
    /* Labels need more room than gradients.  The pitch is even, so that labels behind rows of 16
     * bits are aligned. */
    labels = size_product(r->rows * s->top_k, sizeof(struct sent_choice));
    r->pitch = r->rows + (labels + row_bytes(x) - 1) / row_bytes(x);
    r->pitch += r->pitch % 2;
    all_rows = size_product(r->pitch, shape_nodes(s));
    choices = size_product(all_rows, s->top_k);
    layout_listed(x, arena);
    r->home = arena_alloc(arena, all_rows, row_bytes(x));
    r->away = arena_alloc(arena, all_rows, row_bytes(x));
    r->done = arena_alloc(arena, all_rows, row_bytes(x));
    r->back = arena_alloc(arena, all_rows, row_bytes(x));
    r->expert = arena_alloc(arena, choices, sizeof(*r->expert));
    r->slot = arena_alloc(arena, choices, sizeof(*r->slot));
    r->gate = arena_alloc(arena, choices, sizeof(*r->gate));
    r->needed = arena_alloc(arena, s->experts / shape_nodes(s), sizeof(*r->needed));
    if (s->pass == MOE_TRAIN)
        r->grad_gate = arena_alloc(arena, choices, sizeof(*r->grad_gate));
}

/* ---- Exchanges */

/* Adds the transfers of a hop: each node's rows, and `behind` bytes per row, go from `send` to the
 * relay there, and its rows come to the same place in `recv`.  A rank begins with its own node and
 * the next one. */
static int add_hop(struct exec *x, struct batch *batch, char *send, char *recv, size_t behind)
{
    const struct moe_shape *s = &x->layer->shape;
    uint32_t m = s->ranks_per_node, n = shape_nodes(s), rank = (uint32_t)x->layer->rank;
    size_t bytes = relay_of(x)->rows * (row_bytes(x) + behind);

    batch->ctas = x->plan.ctas;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t node = (rank / m + i) % n;
        size_t offset = node * pitch_bytes(x);

        TRY(batch_add_transfer(batch, &(struct transfer){ (int)(node * m + rank % m), send + offset,
                                                          recv + offset, bytes, bytes }));
    }
    return wire_reserve(x->engine->wire, batch);
}

static int open_hops(struct exec *x)
{
    struct relay *r = x->state;
    struct event **events[] = { &r->packed, &r->arrived, &r->merged, &r->returned };
    size_t k = x->layer->shape.top_k;

    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        TRY(event_open(x->engine->device, events[i]));
    TRY(add_hop(x, &r->send_labelled, r->home, r->away, k * sizeof(struct sent_choice)));
    TRY(add_hop(x, &r->return_rows, r->done, r->back, 0));
    if (x->layer->shape.pass == MOE_TRAIN) {
        TRY(add_hop(x, &r->send_rows, r->home, r->away, 0));
        TRY(add_hop(x, &r->return_grads, r->done, r->back, k * sizeof(float)));
    }
    return padded_open(x);
}

static void close_hops(struct exec *x)
{
    struct relay *r = x->state;
    struct batch *batches[] = { &r->send_labelled, &r->send_rows, &r->return_rows,
                                &r->return_grads };
    struct event *events[] = { r->packed, r->arrived, r->merged, r->returned };

    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++)
        batch_free(batches[i]);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        event_close(events[i]);
    padded_close(x);
}

/* Enqueues a hop after the compute stream's work, and makes the compute stream wait for it. */
static int enqueue_hop(struct exec *x, struct event *ready, const struct batch *batch,
                       struct event *done)
{
    TRY(event_record(ready, x->engine->compute));
    TRY(event_wait(ready, x->engine->comm));
    TRY(wire_exchange(x->engine->wire, x->engine->comm, batch));
    TRY(event_record(done, x->engine->comm));
    return event_wait(done, x->engine->compute);
}

/* ---- Routing to nodes, and from rows to experts */

static struct listed_choices choices_of(const struct exec *x)
{
    const struct moe_shape *s = &x->layer->shape;

    return (struct listed_choices){ .tokens = x->layer->tokens,
                                    .experts = s->experts,
                                    .top_k = s->top_k,
                                    .nodes = shape_nodes(s),
                                    .expert = x->router.expert,
                                    .slot = x->router.slot };
}

static struct node_rows node_rows(const struct exec *x)
{
    const struct relay *r = x->state;

    return (struct node_rows){ r->rows, r->node, r->node_slot, r->node_needed };
}

/* The routing from tokens to nodes: a node is like an expert that gets all rows for the node. */
static struct routing routing_to_nodes(const struct exec *x)
{
    const struct listed_choices c = choices_of(x);
    const struct relay *r = x->state;

    return (struct routing){ .tokens = c.tokens,
                             .experts = c.nodes,
                             .top_k = most_nodes_per_token(&c),
                             .width = x->layer->shape.model_dim,
                             .rows = r->pitch,
                             .capacity = r->rows,
                             .expert = r->node,
                             .slot = r->node_slot,
                             .needed = r->node_needed };
}

/* The routing from relayed rows to experts: a relayed row is like a token.  Rows between those of
 * two nodes (labels) are like tokens without choices. */
static struct routing routing_to_experts(const struct exec *x)
{
    const struct moe_shape *s = &x->layer->shape;
    const struct geometry *g = &x->geometry;
    const struct relay *r = x->state;

    return (struct routing){ .tokens = (uint32_t)(shape_nodes(s) * r->pitch),
                             .experts = s->experts / shape_nodes(s),
                             .top_k = s->top_k,
                             .width = s->model_dim,
                             .rows = uneven_applies(&x->uneven) ? x->uneven.total : g->rows,
                             .capacity = g->capacity * g->sources,
                             .first = x->uneven.first,
                             .capacities = x->uneven.room,
                             .expert = r->expert,
                             .slot = r->slot,
                             .needed = r->needed };
}

static int list_nodes(struct exec *x)
{
    const struct listed_choices c = choices_of(x);
    const struct relay *r = x->state;

    TRY(launch_list_nodes(x->engine->compute, &(struct list_nodes){ c, r->listed }));
    return launch_recount(x->engine->compute, &(struct recount){ .tokens = c.tokens,
                                                                 .experts = c.nodes,
                                                                 .top_k = most_nodes_per_token(&c),
                                                                 .from = r->listed,
                                                                 .expert = r->node,
                                                                 .gate = r->ones,
                                                                 .slot = r->node_slot,
                                                                 .needed = r->node_needed,
                                                                 .capacity = r->rows });
}

/* Writes the rows of tokens, or of their gradients, that leave for the nodes, and the labels behind
 * them. */
static int fill_home(struct exec *x, const void *from)
{
    const struct relay *r = x->state;
    struct encode encode = {
        .routing = routing_to_nodes(x), .dtype = x->layer->shape.dtype, .from = from, .to = r->home
    };
    struct label_rows label = { .choices = choices_of(x),
                                .at = node_rows(x),
                                .gate = x->router.gate,
                                .pitch = pitch_bytes(x),
                                .to = behind_rows(x, r->home) };

    TRY(launch_encode(x->engine->compute, &encode));
    return launch_label_rows(x->engine->compute, &label);
}

/* Writes to = the sum of a token's rows from all nodes, plus `add`. */
static int sum_nodes(struct exec *x, const float *add, void *to)
{
    struct encode_backward sum = { .routing = routing_to_nodes(x),
                                   .dtype = x->layer->shape.dtype,
                                   .from = relay_of(x)->back,
                                   .add = add,
                                   .to = to };

    return launch_encode_backward(x->engine->compute, &sum);
}

/* ---- The way */

static int forward(struct exec *x, const void *tokens, void *y)
{
    const struct relay *r = x->state;
    const struct routing routing = routing_to_experts(x);
    uint32_t dtype = x->layer->shape.dtype;
    struct recount labels = { .tokens = routing.tokens,
                              .experts = routing.experts,
                              .top_k = routing.top_k,
                              .from = (const void *)behind_rows(x, r->away),
                              .groups = { r->pitch, r->rows, pitch_bytes(x) },
                              .expert = r->expert,
                              .gate = r->gate,
                              .slot = r->slot,
                              .needed = r->needed,
                              .capacity = routing.capacity,
                              .capacities = routing.capacities };

    TRY(list_nodes(x));
    TRY(fill_home(x, tokens));
    TRY(enqueue_hop(x, r->packed, &r->send_labelled, r->arrived));
    TRY(launch_recount(x->engine->compute, &labels));
    TRY(launch_encode(x->engine->compute, &(struct encode){ .routing = routing,
                                                            .dtype = dtype,
                                                            .from = r->away,
                                                            .to = r->padded.forward.home }));
    TRY(padded_trip(x, tokens));
    TRY(launch_decode(x->engine->compute, &(struct decode){ .routing = routing,
                                                            .dtype = dtype,
                                                            .gate = r->gate,
                                                            .from = r->padded.forward.back,
                                                            .to = r->done }));
    TRY(enqueue_hop(x, r->merged, &r->return_rows, r->returned));
    return sum_nodes(x, NULL, y);
}

static int backward(struct exec *x, const void *grad_y, void *grad_x)
{
    const struct relay *r = x->state;
    uint64_t k = x->layer->shape.top_k;
    struct decode_backward decode = { .routing = routing_to_experts(x),
                                      .dtype = x->layer->shape.dtype,
                                      .gate = r->gate,
                                      .grad = r->away,
                                      .result = r->padded.forward.back,
                                      .to = r->padded.backward.home,
                                      .grad_gate = r->grad_gate };
    struct encode_backward encode = { .routing = routing_to_experts(x),
                                      .dtype = x->layer->shape.dtype,
                                      .from = r->padded.backward.back,
                                      .to = r->done };
    /* Copies the gradients of gates behind the rows that go back. */
    struct move label = { .block = 1,
                          .dims = { shape_nodes(&x->layer->shape), r->rows * k, 1 },
                          .from_stride = { r->pitch * k, 1, 0 },
                          .to_stride = { pitch_bytes(x) / sizeof(float), 1, 0 },
                          .terms = 1,
                          .from = r->grad_gate,
                          .to = behind_rows(x, r->done) };
    struct collect_gates collect = { .choices = choices_of(x),
                                     .at = node_rows(x),
                                     .pitch = pitch_bytes(x),
                                     .from = behind_rows(x, r->back),
                                     .grad_gate = x->router.grad_gate };

    /* fill_home() writes the labels again, since the rows between those of nodes are cleared; a
     * step of only exchanges sends them. */
    TRY(fill_home(x, grad_y));
    TRY(enqueue_hop(x, r->packed, &r->send_rows, r->arrived));
    TRY(launch_decode_backward(x->engine->compute, &decode));
    TRY(padded_trip_back(x, false)); /* the gates' gradients come with the last hop */
    TRY(launch_encode_backward(x->engine->compute, &encode));
    TRY(launch_move(x->engine->compute, &label));
    TRY(enqueue_hop(x, r->merged, &r->return_grads, r->returned));
    TRY(launch_collect_gates(x->engine->compute, &collect));
    TRY(router_backward(&x->router, x->engine, false));
    return sum_nodes(x, x->router.grad_x, grad_x);
}

const struct way_ops way_relayed = { .why_no_known_routes =
                                         "rows travel to a node together with their gates",
                                     .state_bytes = WAY_STATE_BYTES(struct relay),
                                     .layout = layout,
                                     .open = open_hops,
                                     .close = close_hops,
                                     .forward = forward,
                                     .backward = backward };

uint64_t relay_rows(const struct exec *x)
{
    return x->way == &way_relayed ? relay_of(x)->rows : 0;
}

/* ---- How many rows a node needs */

int relay_need(const struct layer *layer, struct engine *engine, const void *x, int64_t *most)
{
    struct relay relay = { .rows = 0 };
    struct exec counting = { .engine = engine, .layer = layer, .state = &relay };
    struct arena arena = { 0 };
    uint32_t nodes = shape_nodes(&layer->shape);
    int64_t *needed = calloc(nodes, sizeof(*needed));
    void *memory = NULL;
    int rc = needed ? OK : fail(ERR_NOMEM, "%u counts", nodes);

    TRY_OUT(rc);
    router_layout(&counting.router, layer, &arena);
    layout_listed(&counting, &arena);
    TRY_OUT(device_alloc(engine->device, arena.used_bytes, &memory));
    arena = (struct arena){ .base = memory };
    router_layout(&counting.router, layer, &arena);
    layout_listed(&counting, &arena);
    TRY_OUT(router_forward(&counting.router, engine, x, UINT64_MAX));
    TRY_OUT(list_nodes(&counting));
    TRY_OUT(engine_sync(engine));
    TRY_OUT(device_download(engine->device, needed, relay.node_needed, nodes * sizeof(*needed)));
    *most = 0;
    for (uint32_t i = 0; i < nodes; i++)
        *most = needed[i] > *most ? needed[i] : *most;
out:
    device_release(engine->device, memory);
    free(needed);
    return rc;
}
