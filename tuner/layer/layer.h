/* One rank's part of an MoE layer: parameters and their gradients.  Its layout does not depend on
 * the plan, so changing the plan costs nothing. */
#ifndef LAYER_H
#define LAYER_H

#include "device.h"
#include "moelookup.h"
#include "parts.h"

struct load;

/* The tensors of experts.  A rank's slice is (Eg, H/s, D) of the matrices, hidden-major, and (Eg,
 * H/s) of b1.  b2 has no hidden dimension and is cut along D: (Eg, ceil(D/s)).  In
 * MOE_LAYOUT_HIDDEN hidden units come first, (h, E, D) and (h, E), so that slices of any sizes can
 * be joined. */
enum tensor { TENSOR_W1, TENSOR_W3, TENSOR_B1, TENSOR_W2, TENSOR_B2, TENSOR_COUNT };

/* The other tensors of MOE_ROUTER_COSINE besides its projection (P,D), in f32: the projection's
 * bias (P), a row for each expert (E,P), and the logarithm of the factor of cosines, limited to ln
 * 100. */
enum cosine { COSINE_BIAS, COSINE_ROWS, COSINE_SCALE, COSINE_COUNT };

/* Where a step's choices come from: the step's own gate (FRESH), or known before it.  Gates are
 * always computed in the step, for the choices that are used.  With known choices, a token may now
 * prefer other experts.  Its gate then has the gradient for the used experts (KEEP), or none
 * (ZERO). */
enum routes { ROUTES_FRESH, ROUTES_KEEP, ROUTES_ZERO };

/* One layer.  layer_open() makes an array of them, in the order in which a step runs them;
 * layer_close() frees it. */
struct layer {
    struct moe_shape shape;
    int rank;
    uint32_t tokens, hidden;   /* of this rank */
    const struct parts *parts; /* of all ranks; borrowed */
    struct device *device;
    void *slice[TENSOR_COUNT]; /* storage type; NULL: the layer has no such tensor (W3) */
    void *grad[TENSOR_COUNT];  /* storage type; NULL in a forward-only layer */
    void *gate;                /* (shape_gate_rows(),D) of layer_gate_type(); equal on all ranks */
    float *grad_gate;          /* (shape_gate_rows(),D), from this rank's tokens only */
    /* A cosine router's tensors, and their gradients from this rank's tokens; NULL: another router
     */
    float *cosine[COSINE_COUNT], *grad_cosine[COSINE_COUNT];
    float *bias; /* (E) by which MOE_ROUTER_SIGMOID chooses; never trained; else NULL */
    /* The caller sets the members below after layer_open(), before it opens executors. */
    const double *balance; /* weights of the balance loss, for both levels; borrowed; NULL: none */
    enum routes routes;    /* of executors that are opened from now on */
    uint32_t baseline;     /* enum baseline; 0: none */
    const float *losses;   /* (T,k) of MOE_COMBINE_CHOICES in training */
    const struct load *load; /* borrowed; NULL: tokens choose at random */
    uint64_t node_need;      /* the most tokens that any rank sends to one node; 0: unknown */
    /* Set in the first layer only. */
    void *memory; /* of all layers */
    size_t memory_bytes;
};

/* The type of the factors of the gate's products; the results are f32.  A modelled device uses f32,
 * since recorded decisions depend on it. */
uint32_t layer_gate_type(const struct layer *layer);

/* Elements of a slice of so many hidden units; 0 when the layer has no such tensor. */
uint64_t layer_units(const struct moe_shape *shape, uint32_t hidden, enum tensor tensor);

/* Elements of the largest slice of any rank. */
uint64_t layer_slice(const struct moe_shape *shape, enum tensor tensor);

/* Elements of a tensor of the cosine router; 0 for another router. */
uint64_t layer_cosine(const struct moe_shape *shape, enum cosine i);

/* Elements from one expert's b2 to the next where slices are gathered: D plus padding. */
uint64_t layer_bias2_stride(const struct moe_shape *shape);

/* Number of layers of a step. */
uint32_t layer_count(const struct moe_shape *shape);

/* Bytes that layer_open() allocates on a rank with so many hidden units of its experts; SIZE_MAX:
 * more than any machine has. */
size_t layer_bytes(const struct moe_shape *shape, uint32_t hidden);

/* Allocates all layers of a step.  It does not set the parameters.  `parts` must outlive them. */
int layer_open(struct device *device, const struct moe_shape *shape, int rank,
               const struct parts *parts, struct layer **out);
void layer_close(struct layer *layers);

#endif
