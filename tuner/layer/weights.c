/* Gathers the tensors of experts, converts them, and reduces their gradients, piece by piece. */
#include "weights.h"

#include "phase.h"
#include "shape.h"
#include "status.h"

static bool units_first(const struct weights *weights)
{
    return weights->layer->shape.layout == MOE_LAYOUT_HIDDEN;
}

static bool is_bias(enum tensor tensor)
{
    return tensor == TENSOR_B1 || tensor == TENSOR_B2;
}

/* True where the wire adds the gradients up; it can do so only with equal slices. */
static bool is_summed_by_wire(const struct weights *weights, const struct wire *wire,
                              const struct weight *w)
{
    return wire && reduce_applies(wire, w->group) &&
           (!w->unit || parts_hidden_equal(weights->layer->parts));
}

int weights_roundings(const struct weights *weights, enum tensor tensor)
{
    const struct weight *w = &weights->tensors[tensor];
    bool by_wire = w->group.count > 1 && w->grad && !w->parts;

    return by_wire && weights->layer->shape.dtype != MOE_F32 ? w->group.count - 1 : 0;
}

/* Gives `theirs` if this buffer shares the memory of another layer, else a new one. */
static void *take_or_share(struct arena *arena, bool shares, void *theirs, uint64_t elements,
                           size_t width)
{
    return shares ? theirs : arena_alloc(arena, elements, width);
}

/* Units of the largest piece, which is the size of a shared buffer. */
static uint32_t units_most(const struct weights *weights)
{
    uint32_t largest = 0;

    for (uint32_t i = 0; i < weights->piece_count; i++)
        largest = weights->pieces[i].units > largest ? weights->pieces[i].units : largest;
    return largest;
}

static void layout_tensor(struct weights *weights, enum tensor i, const struct wire *wire,
                          struct arena *arena)
{
    const struct layer *layer = weights->layer;
    struct weight *w = &weights->tensors[i];
    const struct weight *first = weights->first ? &weights->first->tensors[i] : w;
    size_t storage = dtype_bytes(layer->shape.dtype), compute = dtype_bytes(weights->compute_type);
    /* True where kernels can read the tensor as it is stored. */
    bool is_read_as_stored =
        weights->compute_type == layer->shape.dtype && !(is_bias(i) && units_first(weights));
    bool shared = w->group.count > 1;
    bool is_later_layer = weights->first != NULL, shares_pieces = is_later_layer && weights->rooms;
    uint64_t gathered = w->all; /* elements that are gathered at the same time */

    if (weights->rooms && w->unit && shared)
        gathered = size_product(w->unit, (uint64_t)weights->rooms * units_most(weights));
    w->whole = shared ? take_or_share(arena, shares_pieces, first->whole, gathered, storage)
                      : layer->slice[i];
    w->compute = is_read_as_stored
                     ? w->whole
                     : take_or_share(arena, shares_pieces, first->compute, gathered, compute);
    if (layer->shape.pass != MOE_TRAIN)
        return;
    w->grad = shared || !is_read_as_stored
                  ? take_or_share(arena, is_later_layer, first->grad, w->all, compute)
                  : layer->grad[i];
    if (!shared) {
        w->grad_out = layer->grad[i];
        return;
    }
    w->grad_out = is_read_as_stored
                      ? w->grad
                      : take_or_share(arena, is_later_layer, first->grad_out, w->all, storage);
    w->parts = is_summed_by_wire(weights, wire, w)
                   ? NULL
                   : take_or_share(arena, is_later_layer, first->parts,
                                   size_product(w->slice, (uint64_t)w->group.count), storage);
}

/* Cuts the hidden units of all ranks into pieces; elsewhere there is one piece. */
static void cut_pieces(struct weights *weights, const struct geometry *g)
{
    const struct parts *parts = weights->layer->parts;
    bool joined = units_first(weights) && g->weights.count > 1;
    uint32_t before = 0;

    weights->piece_count = joined ? g->chunks : 1;
    if (weights->rooms > weights->piece_count)
        weights->rooms = weights->piece_count;
    for (uint32_t i = 0; i < weights->piece_count; i++) {
        struct weights_piece *p = &weights->pieces[i];

        p->first = before;
        p->units = joined ? (uint32_t)parts_sum(parts->hidden, parts->ranks, i, g->chunks)
                          : weights->layer->hidden;
        before += p->units;
    }
    /* Pieces lie one after the other, or use the shared buffers in turn. */
    for (uint32_t i = 0; i < weights->piece_count; i++) {
        struct weights_piece *p = &weights->pieces[i];

        p->place = weights->rooms ? i % weights->rooms * units_most(weights) : p->first;
    }
}

void weights_layout(struct weights *weights, const struct layer *layer, const struct geometry *g,
                    uint32_t compute_type, const struct wire *wire, struct arena *arena)
{
    const struct moe_shape *shape = &layer->shape;

    weights->layer = layer;
    weights->compute_type = compute_type;
    cut_pieces(weights, g);
    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        struct weight *w = &weights->tensors[i];

        w->group = i == TENSOR_B2 ? g->bias2 : g->weights;
        w->slice = layer_units(shape, layer->hidden, i);
        w->unit = units_first(weights) && i != TENSOR_B2 ? layer_units(shape, 1, i) : 0;
        w->all = w->unit && w->group.count > 1 ? size_product(w->unit, shape->hidden_dim)
                                               : size_product(w->slice, (uint64_t)w->group.count);
        if (layer_slice(shape, i))
            layout_tensor(weights, i, wire, arena);
    }
}

/* ---- Gathering */

/* Units of rank q in piece i. */
static uint32_t units_of(const struct weights *weights, uint32_t i, uint32_t q)
{
    return part_piece(weights->layer->parts->hidden[q], i, weights->piece_count);
}

static size_t unit_bytes(const struct weights *weights, const struct weight *w)
{
    return w->unit * dtype_bytes(weights->layer->shape.dtype);
}

/* This rank's part of piece i, in its slice. */
static char *own_piece(const struct weights *weights, const struct weight *w, uint32_t i,
                       void *slice)
{
    return (char *)slice +
           part_cut(weights->layer->hidden, i, weights->piece_count) * unit_bytes(weights, w);
}

static struct parts_exchange exchange_of(const struct weights *weights, const struct weight *w,
                                         uint32_t i)
{
    return (struct parts_exchange){ .of_ranks = weights->layer->parts->hidden,
                                    .ranks = weights->layer->parts->ranks,
                                    .self = (uint32_t)weights->layer->rank,
                                    .piece = i,
                                    .pieces = weights->piece_count,
                                    .unit = unit_bytes(weights, w) };
}

static int add_gather(struct weights *weights, const struct wire *wire, enum tensor t, uint32_t i)
{
    const struct weight *w = &weights->tensors[t];
    struct batch *batch = &weights->pieces[i].gather;
    void *slice = weights->layer->slice[t];
    struct parts_exchange exchange = exchange_of(weights, w, i);

    if (!w->unit)
        return i ? OK
                 : gather_add(batch, wire, w->group, slice, w->whole,
                              w->slice * dtype_bytes(weights->layer->shape.dtype));
    exchange.own = own_piece(weights, w, i, slice);
    exchange.whole = (char *)w->whole + weights->pieces[i].place * unit_bytes(weights, w);
    if (parts_hidden_equal(weights->layer->parts))
        return gather_add(batch, wire, w->group, exchange.own, exchange.whole,
                          units_of(weights, i, 0) * unit_bytes(weights, w));
    return parts_gather(&exchange, batch);
}

static int add_scatter(struct weights *weights, const struct wire *wire, enum tensor t, uint32_t i)
{
    const struct weight *w = &weights->tensors[t];
    uint32_t dtype = weights->layer->shape.dtype;
    size_t slice = w->slice * dtype_bytes(dtype);
    struct parts_exchange exchange = exchange_of(weights, w, i);
    void *grad = weights->layer->grad[t];

    if (!w->unit && i)
        return OK;
    if (!w->unit && is_summed_by_wire(weights, wire, w))
        return reduce_add(&weights->scatter, w->group, w->grad_out, grad, slice, dtype);
    if (!w->unit)
        return scatter_add(&weights->scatter, wire, w->group, w->grad_out, w->parts, slice);
    exchange.whole = (char *)w->grad_out + weights->pieces[i].first * unit_bytes(weights, w);
    if (is_summed_by_wire(weights, wire, w))
        return reduce_add(&weights->scatter, w->group, exchange.whole,
                          own_piece(weights, w, i, grad),
                          units_of(weights, i, 0) * unit_bytes(weights, w), dtype);
    exchange.own = own_piece(weights, w, i, w->parts);
    exchange.own_step = slice;
    return parts_scatter(&exchange, &weights->scatter);
}

int weights_open(struct weights *weights, struct engine *engine)
{
    TRY(event_open(engine->device, &weights->summed));
    TRY(event_open(engine->device, &weights->scattered));
    weights->scatter.proto = weights->proto;
    for (uint32_t i = 0; i < weights->piece_count; i++) {
        weights->pieces[i].gather.proto = weights->proto;
        TRY(event_open(engine->device, &weights->pieces[i].gathered));
        for (enum tensor t = 0; t < TENSOR_COUNT; t++) {
            const struct weight *w = &weights->tensors[t];

            if (!layer_slice(&weights->layer->shape, t) || w->group.count == 1)
                continue;
            TRY(add_gather(weights, engine->wire, t, i));
            if (w->grad)
                TRY(add_scatter(weights, engine->wire, t, i));
        }
        TRY(wire_reserve(engine->wire, &weights->pieces[i].gather));
    }
    return wire_reserve(engine->wire, &weights->scatter);
}

void weights_close(struct weights *weights)
{
    for (uint32_t i = 0; i < weights->piece_count; i++) {
        batch_free(&weights->pieces[i].gather);
        event_close(weights->pieces[i].gathered);
    }
    batch_free(&weights->scatter);
    event_close(weights->summed);
    event_close(weights->scattered);
    *weights = (struct weights){ 0 };
}

int weights_fetch(struct weights *weights, struct engine *engine, uint32_t piece)
{
    struct weights_piece *p = &weights->pieces[piece];

    if (batch_is_empty(&p->gather))
        return OK;
    TRY(wire_exchange(engine->wire, engine->comm, &p->gather));
    return event_record(p->gathered, engine->comm);
}

int weights_gather(struct weights *weights, struct engine *engine)
{
    for (uint32_t i = 0; i < weights->piece_count; i++)
        TRY(weights_fetch(weights, engine, i));
    return OK;
}

/* ---- Converting */

/* Launches a copy that counts as phase `other`; copies of rows count as `encode`. */
static int launch_weight_move(struct stream *stream, const struct move *m)
{
    int rc;

    stream->purpose = PHASE_OTHER;
    rc = launch_move(stream, m);
    stream->purpose = 0;
    return rc;
}

/* Adds up `terms` tensors of `elements`, which lie one after the other; one term is a conversion.
 */
static int sum_terms(struct stream *stream, uint64_t elements, uint64_t terms, uint32_t from_type,
                     const void *from, uint32_t to_type, void *to)
{
    return launch_weight_move(stream, &(struct move){ .from_type = from_type,
                                                      .to_type = to_type,
                                                      .block = elements,
                                                      .dims = { 1, 1, 1 },
                                                      .terms = terms,
                                                      .term_stride = 1,
                                                      .from = from,
                                                      .to = to });
}

/* A conversion of a tensor, or of a piece of it: elements from `first` on. */
struct conversion {
    enum tensor tensor;
    uint64_t first, elements;
    uint32_t from_type, to_type;
    const void *from;
    void *to;
    bool home; /* from the compute form to the stored form */
};

static struct conversion conversion_of(const struct weights *weights, enum tensor t, uint32_t i)
{
    const struct weight *w = &weights->tensors[t];
    const struct weights_piece *p = &weights->pieces[i];

    if (!w->unit)
        return (struct conversion){ .tensor = t, .elements = i ? 0 : w->all };
    return (struct conversion){ .tensor = t,
                                .first = p->first * w->unit,
                                .elements = p->units * w->unit };
}

/* Transposes a bias between its stored form (rows, E, block) and its compute form (E, rows, block).
 * Rows are units of b1, or the ranks' columns of b2. */
static int turn_bias(const struct weights *weights, struct stream *stream,
                     const struct conversion *c)
{
    const struct moe_shape *s = &weights->layer->shape;
    uint64_t block = c->tensor == TENSOR_B2 ? shape_bias2_slice(s) : 1;
    uint64_t rows = c->elements / s->experts / block, experts = s->experts;
    struct move m = { .from_type = c->from_type,
                      .to_type = c->to_type,
                      .block = block,
                      .dims = { experts, rows, 1 },
                      .from_stride = { 1, experts, 0 },
                      .to_stride = { rows, 1, 0 },
                      .terms = 1,
                      .from = c->from,
                      .to = c->to };

    if (c->home) {
        m.from_stride[0] = m.to_stride[0];
        m.from_stride[1] = m.to_stride[1];
        m.to_stride[0] = 1;
        m.to_stride[1] = experts;
    }
    return launch_weight_move(stream, &m);
}

static int convert_tensor(const struct weights *weights, struct stream *stream, struct conversion c)
{
    c.from = (const char *)c.from + c.first * dtype_bytes(c.from_type);
    c.to = (char *)c.to + c.first * dtype_bytes(c.to_type);
    if (!c.elements)
        return OK;
    if (is_bias(c.tensor) && units_first(weights))
        return turn_bias(weights, stream, &c);
    return sum_terms(stream, c.elements, 1, c.from_type, c.from, c.to_type, c.to);
}

int weights_ready(struct weights *weights, struct engine *engine, uint32_t piece)
{
    if (!batch_is_empty(&weights->pieces[piece].gather))
        TRY(event_wait(weights->pieces[piece].gathered, engine->compute));
    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        const struct weight *w = &weights->tensors[i];
        struct conversion c = conversion_of(weights, i, piece);

        c.from_type = weights->layer->shape.dtype;
        c.from = w->whole;
        c.to_type = weights->compute_type;
        c.to = w->compute;
        c.first = weights->pieces[piece].place * w->unit;
        if (w->compute != w->whole)
            TRY(convert_tensor(weights, engine->compute, c));
    }
    return OK;
}

const void *weights_of(const struct weights *weights, enum tensor tensor, uint32_t piece)
{
    const struct weight *w = &weights->tensors[tensor];
    uint64_t first = weights->pieces[piece].place * w->unit;

    return w->compute ? (char *)w->compute + first * dtype_bytes(weights->compute_type) : NULL;
}

void *weights_grad_of(const struct weights *weights, enum tensor tensor, uint32_t piece)
{
    const struct weight *w = &weights->tensors[tensor];
    uint64_t first = weights->pieces[piece].first * w->unit;

    return w->grad ? (char *)w->grad + first * dtype_bytes(weights->compute_type) : NULL;
}

/* ---- Reducing */

int weights_reduce(struct weights *weights, struct engine *engine)
{
    for (uint32_t i = 0; i < weights->piece_count; i++)
        for (enum tensor t = 0; t < TENSOR_COUNT; t++) {
            const struct weight *w = &weights->tensors[t];
            struct conversion c = conversion_of(weights, t, i);

            c.from_type = weights->compute_type;
            c.from = w->grad;
            c.to_type = weights->layer->shape.dtype;
            c.to = w->grad_out;
            c.home = true;
            if (w->grad_out != w->grad)
                TRY(convert_tensor(weights, engine->compute, c));
        }
    if (batch_is_empty(&weights->scatter))
        return OK;
    TRY(event_record(weights->summed, engine->compute));
    TRY(event_wait(weights->summed, engine->comm));
    TRY(wire_exchange(engine->wire, engine->comm, &weights->scatter));
    return event_record(weights->scattered, engine->comm);
}

int weights_finish(struct weights *weights, struct engine *engine)
{
    uint32_t storage = weights->layer->shape.dtype;

    if (!batch_is_empty(&weights->scatter))
        TRY(event_wait(weights->scattered, engine->compute));
    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        const struct weight *w = &weights->tensors[i];

        if (w->slice && w->parts)
            TRY(sum_terms(engine->compute, w->slice, (uint64_t)w->group.count, storage, w->parts,
                          storage, weights->layer->grad[i]));
    }
    return OK;
}
