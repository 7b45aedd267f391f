/* The expert tensors of one step: gathered from the ranks that share them before the experts run,
 * their gradients reduced to the ranks that own them after.  Once per step, not once per chunk.
 *
 * In MOE_LAYOUT_HIDDEN with r=0 they come in d pieces, each an exchange of its own: piece i is the
 * i-th d-th of every rank's hidden units, all ranks' one after the other, and b2 comes with piece
 * 0.  Elsewhere there is one piece.  Of that layout matrices stay as they lie, hidden units first;
 * biases, which are small, are turned round for the kernels: (E, units) and (E, D, padded). */
#ifndef WEIGHTS_H
#define WEIGHTS_H

#include "arena.h"
#include "engine.h"
#include "geometry.h"
#include "layer.h"

/* One tensor under one plan.  Buffers that would hold the same bytes are the same buffer. */
struct weight {
    struct group group; /* who gathers it */
    uint64_t slice;     /* elements of this rank's slice */
    uint64_t all;       /* of the whole */
    uint64_t unit;      /* of one hidden unit of all experts; 0: it comes with the first piece */
    void *whole;        /* gathered, storage type */
    void *compute;      /* gathered, compute type */
    void *grad;         /* of the whole, compute type */
    void *grad_out;     /* of the whole, storage type */
    void *parts;        /* everybody's version of this rank's slice of the gradient; NULL: none
                         * needed, since the slice is whole here or the wire sums it */
};

struct weights_piece {
    uint32_t first, units; /* hidden units of all ranks: of the pieces before it, and its own */
    uint32_t place;        /* units before it where it is gathered */
    struct batch gather;
    struct event *gathered;
};

struct weights {
    const struct layer *layer;
    const struct weights *first; /* of the first layer of a step, where gradients pass through the
                                  * same memory; NULL: these are it.  Set before the layout */
    uint32_t rooms; /* pieces that all layers have room for together; 0: each has it for all of its
                     * own.  Likewise */
    uint32_t piece_count;
    struct weights_piece pieces[PLAN_MAX_D];
    uint32_t compute_type;
    uint32_t proto; /* as struct batch has it.  Set before they are opened */
    struct weight tensors[TENSOR_COUNT];
    struct batch scatter;
    struct event *summed, *scattered;
};

/* wire: the one they will travel on; NULL: not known, for the most memory that any wire needs. */
void weights_layout(struct weights *weights, const struct layer *layer, const struct geometry *g,
                    uint32_t compute_type, const struct wire *wire, struct arena *arena);
int weights_open(struct weights *weights, struct engine *engine);
void weights_close(struct weights *weights);

/* Enqueues the gather of a piece on the communication stream. */
int weights_fetch(struct weights *weights, struct engine *engine, uint32_t piece);

/* Enqueues the gathers of all pieces: before the first send, so that they hide under the encode. */
int weights_gather(struct weights *weights, struct engine *engine);

/* The compute stream waits for a piece, and converts it. */
int weights_ready(struct weights *weights, struct engine *engine, uint32_t piece);

/* Where a piece is read, and where its gradient goes; b2 has but one place. */
const void *weights_of(const struct weights *weights, enum tensor tensor, uint32_t piece);
void *weights_grad_of(const struct weights *weights, enum tensor tensor, uint32_t piece);

/* After the last chunk's gradients: sends them to their owners ... */
int weights_reduce(struct weights *weights, struct engine *engine);

/* ... and sums what came, in f32, into the layer's gradients, where the wire did not sum it on the
 * way.  What is enqueued on the compute stream between the two hides the transfer. */
int weights_finish(struct weights *weights, struct engine *engine);

/* How often the wire may have rounded a sum of the tensor's gradients to their 16-bit type. */
int weights_roundings(const struct weights *weights, enum tensor tensor);

#endif
