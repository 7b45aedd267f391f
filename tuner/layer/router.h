/* The gate of a layer: which experts each token goes to, and in which slot.  Independent of the
 * plan: every plan drops the same tokens. */
#ifndef ROUTER_H
#define ROUTER_H

#include "arena.h"
#include "engine.h"
#include "layer.h"

struct router {
    const struct layer *layer;
    float *wide;        /* (T,D) of 16-bit tokens where the gate multiplies f32 */
    const void *x;      /* the tokens as its products read them */
    float *probability; /* (T,E); after backward of no use to anybody */
    float *gate;        /* (T,k) */
    int32_t *expert;    /* (T,k) */
    int64_t *slot;      /* (T,k) */
    int64_t *needed;    /* (E) */
    float *grad_gate;   /* (T,k) */
    float *grad_logits; /* (T,E) */
    float *grad_x;      /* (T,D): what the gate adds to the gradient of the tokens */
};

void router_layout(struct router *router, const struct layer *layer, struct arena *arena);

/* Enqueues gate and slots for tokens x (T,D, storage type). */
int router_forward(struct router *router, struct engine *engine, const void *x, uint64_t capacity);

/* From grad_gate: the gate's own gradient (into the layer) and grad_x.  x as in forward. */
int router_backward(struct router *router, struct engine *engine);

/* Rows of all tokens from one type to another. */
int router_convert(const struct router *router, struct stream *stream, uint64_t width,
                   uint32_t from_type, const void *from, uint32_t to_type, void *to);

/* What encode and decode need; `rows` per expert. */
struct routing router_routing(const struct router *router, uint64_t capacity, uint64_t rows);

/* Routes x once and waits: the largest count this rank sends to any expert. */
int router_needed(const struct layer *layer, struct engine *engine, const void *x, int64_t *most);

/* Choices that found no slot below the capacity; streams idle. */
int router_dropped(const struct router *router, uint64_t capacity, int64_t *dropped);

#endif
