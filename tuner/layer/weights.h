/* The expert tensors of one step: gathered from the ranks that share them before the experts run,
 * their gradients reduced to the ranks that own them after.  Once per step, not once per chunk. */
#ifndef WEIGHTS_H
#define WEIGHTS_H

#include "arena.h"
#include "engine.h"
#include "geometry.h"
#include "layer.h"

/* One tensor under one plan.  Buffers that would hold the same bytes are the same buffer. */
struct weight {
    struct group group; /* who gathers it */
    uint64_t slice;     /* elements of one rank's slice */
    void *whole;        /* gathered, storage type */
    void *compute;      /* gathered, compute type */
    void *grad;         /* of the whole, compute type */
    void *grad_out;     /* of the whole, storage type */
    void *parts;        /* everybody's version of this rank's slice of the gradient; NULL: none
                         * needed, since the slice is whole here or the wire sums it */
};

struct weights {
    const struct layer *layer;
    uint32_t compute_type;
    struct weight tensors[TENSOR_COUNT];
    struct batch gather, scatter;
    struct event *gathered, *summed, *scattered;
};

/* wire: the one they will travel on; NULL: not known, for the most memory that any wire needs. */
void weights_layout(struct weights *weights, const struct layer *layer, const struct geometry *g,
                    uint32_t compute_type, const struct wire *wire, struct arena *arena);
int weights_open(struct weights *weights, struct engine *engine);
void weights_close(struct weights *weights);

/* Enqueues the gather on the communication stream: before the first send, so that it hides under
 * the encode. */
int weights_gather(struct weights *weights, struct engine *engine);

/* The compute stream waits for it, and converts. */
int weights_ready(struct weights *weights, struct engine *engine);

/* After the last chunk's gradients: sends them to their owners ... */
int weights_reduce(struct weights *weights, struct engine *engine);

/* ... and sums what came, in f32, into the layer's gradients.  What is enqueued on the compute
 * stream between the two hides the transfer. */
int weights_finish(struct weights *weights, struct engine *engine);

#endif
