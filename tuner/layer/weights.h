/* The tensors of experts in one step.  Before the experts run, ranks gather them; afterwards, their
 * gradients are reduced to the ranks that own them.  This happens once per step, not once per
 * chunk.
 *
 * In MOE_LAYOUT_HIDDEN with r=0 they come in d pieces, each with its own exchange.  Piece i has the
 * i-th of d parts of every rank's hidden units, in the order of ranks; b2 comes with piece 0.
 * Otherwise there is one piece.  In this layout matrices stay as they are, hidden units first.
 * Biases, which are small, are transposed for the kernels: (E, units) and (E, D with padding). */
#ifndef WEIGHTS_H
#define WEIGHTS_H

#include "arena.h"
#include "engine.h"
#include "geometry.h"
#include "layer.h"

/* One tensor under one plan.  Buffers that would have the same contents are one buffer. */
struct weight {
    struct group group; /* ranks that gather it */
    uint64_t slice;     /* elements of this rank's slice */
    uint64_t all;       /* elements of the whole tensor */
    uint64_t unit;      /* elements of one hidden unit of all experts; 0: not cut into pieces */
    void *whole;        /* gathered, in the storage type */
    void *compute;      /* gathered, in the compute type */
    void *grad;         /* gradient of the whole tensor, in the compute type */
    void *grad_out;     /* gradient of the whole tensor, in the storage type */
    void *parts; /* every rank's gradient of this rank's slice; NULL: not needed, because this
                  * rank has the whole tensor or the wire adds the gradients up */
};

/* One piece of all tensors. */
struct weights_piece {
    uint32_t first, units; /* hidden units of earlier pieces, and of this one, of all ranks */
    uint32_t place;        /* units before it in the buffer */
    struct batch gather;
    struct event *gathered;
};

/* All tensors of one layer.  The caller sets first, rooms and proto before weights_layout(); the
 * buffers belong to the executor; weights_close() frees exchanges and events. */
struct weights {
    const struct layer *layer;
    const struct weights *first; /* the first layer's, whose gradient buffers all layers share;
                                  * NULL: this is the first */
    uint32_t rooms; /* pieces for which all layers share buffers; 0: each layer has its own */
    uint32_t piece_count;
    struct weights_piece pieces[PLAN_MAX_D];
    uint32_t compute_type;
    uint32_t proto; /* as in struct batch */
    struct weight tensors[TENSOR_COUNT];
    struct batch scatter;
    struct event *summed, *scattered;
};

/* Places the buffers.  wire NULL: it is not known, so they get the most memory that any wire needs.
 */
void weights_layout(struct weights *weights, const struct layer *layer, const struct geometry *g,
                    uint32_t compute_type, const struct wire *wire, struct arena *arena);

/* Opens exchanges and events, after the layout with memory. */
int weights_open(struct weights *weights, struct engine *engine);
void weights_close(struct weights *weights);

/* Enqueues the gather of a piece on the communication stream. */
int weights_fetch(struct weights *weights, struct engine *engine, uint32_t piece);

/* Enqueues the gathers of all pieces; to be called before the first send, so that the encode hides
 * them. */
int weights_gather(struct weights *weights, struct engine *engine);

/* Makes the compute stream wait for a piece, and converts it. */
int weights_ready(struct weights *weights, struct engine *engine, uint32_t piece);

/* Where kernels read a piece of a tensor; b2 has only one piece. */
const void *weights_of(const struct weights *weights, enum tensor tensor, uint32_t piece);

/* Where kernels write its gradient. */
void *weights_grad_of(const struct weights *weights, enum tensor tensor, uint32_t piece);

/* Enqueues the exchange of gradients, after the last chunk's gradients. */
int weights_reduce(struct weights *weights, struct engine *engine);

/* Enqueues the sum, in f32, of the received gradients into the layer's, unless the wire has added
 * them up.  Work on the compute stream between weights_reduce() and this hides the exchange. */
int weights_finish(struct weights *weights, struct engine *engine);

/* How often the wire may have rounded a sum of the tensor's gradients to their 16-bit type. */
int weights_roundings(const struct weights *weights, enum tensor tensor);

#endif
