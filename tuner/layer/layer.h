/* One rank's part of an MoE layer: parameters and their gradients.  Its layout never depends on the
 * plan: that is what makes switching free. */
#ifndef LAYER_H
#define LAYER_H

#include "device.h"
#include "moelookup.h"
#include "parts.h"

struct load;

/* The expert tensors.  A slice is (Eg, H/s, D) for the matrices, hidden-major; (Eg, H/s) for b1;
 * (Eg, ceil(D/s)) for b2, which has no hidden dimension and is cut along D.  In MOE_LAYOUT_HIDDEN
 * hidden units come first: (h, E, D) and (h, E), so that slices of any sizes join one after the
 * other. */
enum tensor { TENSOR_W1, TENSOR_W3, TENSOR_B1, TENSOR_W2, TENSOR_B2, TENSOR_COUNT };

/* What MOE_ROUTER_COSINE has beside its projection (P,D), in f32: the projection's bias (P), a row
 * for each expert (E,P), and what cosines are multiplied by, as a logarithm that counts up to ln
 * 100. */
enum cosine { COSINE_BIAS, COSINE_ROWS, COSINE_SCALE, COSINE_COUNT };

/* Where a step's choices come from: fresh from its gate, or known before it.  Gates are always
 * those that the gate gives now, for the choices that are made; of a token that would choose other
 * experts now the gate has a gradient for those it went to, or none. */
enum routes { ROUTES_FRESH, ROUTES_KEEP, ROUTES_ZERO };

/* One of those that a step runs, which lie in an array, the first to run first. */
struct layer {
    struct moe_shape shape;
    int rank;
    uint32_t tokens, hidden;   /* of this rank */
    const struct parts *parts; /* of all ranks; borrowed */
    struct device *device;
    void *slice[TENSOR_COUNT]; /* storage type; NULL: the layer has none (W3) */
    void *grad[TENSOR_COUNT];  /* likewise; NULL in a forward-only layer */
    void *gate; /* (rows,D) as shape_gate_rows(); the same on every rank, of layer_gate_type() */
    float *grad_gate; /* (rows,D), of this rank's tokens alone */
    float *cosine[COSINE_COUNT], *grad_cosine[COSINE_COUNT]; /* likewise; NULL: another router */
    float *bias;             /* (E), of MOE_ROUTER_SIGMOID's choice; never trained; else NULL */
    const double *balance;   /* weights of the loss of balance, of both levels; borrowed, set by
                              * who opened the layer; NULL: there is none */
    enum routes routes;      /* set by who opened it, before executors */
    uint32_t baseline;       /* enum baseline, likewise; 0: what the plan says and no more */
    const float *losses;     /* (T,k), likewise, of MOE_COMBINE_CHOICES in training */
    const struct load *load; /* borrowed, set by who opened it; NULL: tokens choose at random */
    uint64_t
        node_need; /* likewise: the most tokens that any rank sends to one node; 0: not known */
    void *memory;  /* of all, in the first, as are its bytes */
    size_t memory_bytes;
};

/* The type of what the gate's products multiply; they give f32.  On a modelled device f32, for
 * which decisions are recorded. */
uint32_t layer_gate_type(const struct layer *layer);

/* Elements of a slice of so many hidden units; 0 when the layer has no such tensor. */
uint64_t layer_units(const struct moe_shape *shape, uint32_t hidden, enum tensor tensor);

/* Elements of one rank's slice, the largest where they differ. */
uint64_t layer_slice(const struct moe_shape *shape, enum tensor tensor);

/* Elements of one of a cosine router's, 0 of another one. */
uint64_t layer_cosine(const struct moe_shape *shape, enum cosine i);

/* Elements from one expert's b2 to the next one's where the slices are gathered: D, and padding. */
uint64_t layer_bias2_stride(const struct moe_shape *shape);

/* How many layers a step runs. */
uint32_t layer_count(const struct moe_shape *shape);

/* Bytes that layer_open will ask for on a rank with so many hidden units of its experts; SIZE_MAX
 * when no machine has them. */
size_t layer_bytes(const struct moe_shape *shape, uint32_t hidden);

/* All layers of a step, alike but for what they will hold.  Parameters are not set.  The parts must
 * outlive them. */
int layer_open(struct device *device, const struct moe_shape *shape, int rank,
               const struct parts *parts, struct layer **out);
void layer_close(struct layer *layers);

#endif
