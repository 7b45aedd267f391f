/* The router of a layer: chooses each token's experts, their gates and slots.  It does not depend
 * on the plan, so every plan drops the same choices. */
#ifndef ROUTER_H
#define ROUTER_H

#include "arena.h"
#include "capacities.h"
#include "engine.h"
#include "layer.h"

/* The router's arrays in the device's memory, which the executor owns. */
struct router {
    const struct layer *layer;
    enum routes routes; /* from the layer */
    float *wide;        /* (T,D) 16-bit tokens as f32, where the gate multiplies f32 */
    const void *x;      /* the tokens that its products read */
    float *probability; /* (T,columns); backward overwrites it */
    float *importance;  /* (T) with MOE_ORDER_PRIORITY; else NULL */
    uint32_t *turn;     /* (T) tokens in order of importance; else NULL */
    float *gate;        /* (T,k) */
    int32_t *expert;    /* (T,k) */
    int32_t *live;      /* (T,k) with known routes: what tokens would choose now; else NULL */
    int64_t *slot;      /* (T,k) */
    int64_t *needed;    /* (E) */
    float *grad_gate;   /* (T,k) */
    float *grad_logits; /* (T,columns) */
    float *grad_x;      /* (T,D): what the gate adds to the gradient of the tokens */
    struct cosine_rows {
        float *token, *token_length;     /* (T,P) projected tokens of length 1; (T) */
        float *expert, *expert_length;   /* (E,P) experts' rows times the factor of cosines; (E) */
        float *grad_token;               /* (T,P); this and the next line in training only */
        float *grad_expert, *grad_scale; /* (E,P), (E) */
    } cosine;                            /* of MOE_ROUTER_COSINE */
    float *share, *mean;        /* (columns) of struct balance; NULL: there is no balance loss */
    const uint64_t *capacities; /* (E) where experts have different ones; borrowed; else NULL */
};

/* Places the arrays. */
void router_layout(struct router *router, const struct layer *layer, struct arena *arena);

/* Enqueues gate and slots for tokens x (T,D) in the storage type. */
int router_forward(struct router *router, struct engine *engine, const void *x, uint64_t capacity);

/* With known routes: enqueues their slots only. */
int router_slots(struct router *router, struct engine *engine, uint64_t capacity);

/* With known routes: enqueues their gates only, from tokens x. */
int router_gates(struct router *router, struct engine *engine, const void *x);

/* Sets known routes, (T,k) choices; streams must be idle.  ERR_ARGUMENT, after a message: a choice
 * is not an expert, or a token has an expert twice. */
int router_set_known_routes(struct router *router, const int32_t *expert);

/* Enqueues, from grad_gate, the gate's gradient (into the layer) and grad_x; with `keep`, it adds
 * to grad_x. */
int router_backward(struct router *router, struct engine *engine, bool keep);

/* Enqueues a conversion of the rows of all tokens from one type to another. */
int router_convert(const struct router *router, struct stream *stream, uint64_t width,
                   uint32_t from_type, const void *from, uint32_t to_type, void *to);

/* The routing for encode and decode, with `rows` per expert. */
struct routing router_routing(const struct router *router, uint64_t capacity, uint64_t rows);

/* The routing for rows of y: with MOE_COMBINE_CHOICES each choice is like a token of its own. */
struct routing router_choices(const struct router *router, struct routing routing);

/* Routes x once, waits, and gives the largest number of tokens that this rank sends to any expert.
 */
int router_needed(const struct layer *layer, struct engine *engine, const void *x, int64_t *most);

/* The balance loss of the last step; 0: there is none.  Streams must be idle. */
int router_balance(const struct router *router, double *loss);

/* Parses the weights of the balance loss: "A", or for the two levels of bilevel "A,B".  On each
 * rank's own tokens the loss is weight * n * sum of f P, over the n columns of a level of the gate
 * (kernels.h, struct balance).  ERR_ARGUMENT, after a message that names the range. */
int balance_parse(const char *text, const struct moe_shape *shape, double weight[2]);

/* Number of choices that the last step dropped on this rank; streams must be idle. */
int router_dropped(const struct router *router, const struct capacities *capacities,
                   int64_t *dropped);

#endif
