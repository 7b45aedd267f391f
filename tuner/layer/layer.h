/* One rank's part of an MoE layer: parameters and their gradients.  Its layout never depends on the
 * plan: that is what makes switching free. */
#ifndef LAYER_H
#define LAYER_H

#include "device.h"
#include "moelookup.h"

/* The expert tensors.  A slice is (Eg, H/s, D) for the matrices, hidden-major; (Eg, H/s) for b1;
 * (Eg, ceil(D/s)) for b2, which has no hidden dimension and is cut along D. */
enum tensor { TENSOR_W1, TENSOR_W3, TENSOR_B1, TENSOR_W2, TENSOR_B2, TENSOR_COUNT };

struct layer {
    struct moe_shape shape;
    int rank;
    uint32_t tokens; /* of this rank */
    struct device *device;
    void *slice[TENSOR_COUNT]; /* storage type; NULL: the layer has none (W3) */
    void *grad[TENSOR_COUNT];  /* likewise; NULL in a forward-only layer */
    void *gate;                /* (E,D), the same on every rank, of layer_gate_type() */
    float *grad_gate;          /* (E,D), of this rank's tokens alone */
    void *memory;
    size_t memory_bytes;
};

/* The type of what the gate's products multiply; they give f32.  On a modelled device f32, for
 * which decisions are recorded. */
uint32_t layer_gate_type(const struct layer *layer);

/* Elements of one rank's slice; 0 when the layer has no such tensor. */
uint64_t layer_slice(const struct moe_shape *shape, enum tensor tensor);

/* Elements from one expert's b2 to the next one's where the slices are gathered: D, and padding. */
uint64_t layer_bias2_stride(const struct moe_shape *shape);

/* Bytes that layer_open will ask for; SIZE_MAX when no machine has them. */
size_t layer_bytes(const struct moe_shape *shape);

/* Parameters are not set. */
int layer_open(struct device *device, const struct moe_shape *shape, int rank, uint32_t tokens,
               struct layer **out);
void layer_close(struct layer *layer);

#endif
