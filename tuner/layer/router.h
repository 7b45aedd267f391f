/* The gate of a layer: which experts each token goes to, and in which slot.  Independent of the
 * plan: every plan drops the same tokens. */
#ifndef ROUTER_H
#define ROUTER_H

#include "arena.h"
#include "capacities.h"
#include "engine.h"
#include "layer.h"

struct router {
    const struct layer *layer;
    enum routes routes; /* as the layer said when it was laid out */
    float *wide;        /* (T,D) of 16-bit tokens where the gate multiplies f32 */
    const void *x;      /* the tokens as its products read them */
    float *probability; /* (T,columns); after backward of no use to anybody */
    float *importance;  /* (T) of MOE_ORDER_PRIORITY, else NULL */
    uint32_t *turn;     /* likewise */
    float *gate;        /* (T,k) */
    int32_t *expert;    /* (T,k) */
    int32_t *live;      /* (T,k) that known routes would be now; else NULL */
    int64_t *slot;      /* (T,k) */
    int64_t *needed;    /* (E) */
    float *grad_gate;   /* (T,k) */
    float *grad_logits; /* (T,columns) */
    float *grad_x;      /* (T,D): what the gate adds to the gradient of the tokens */
    struct cosine_rows {
        float *token, *token_length;     /* (T,P) projected and of length 1, (T) */
        float *expert, *expert_length;   /* (E,P) and (E), times what cosines are multiplied by */
        float *grad_token;               /* (T,P), as grad_expert and grad_scale of training only */
        float *grad_expert, *grad_scale; /* (E,P), (E) */
    } cosine;                            /* of MOE_ROUTER_COSINE */
    float *share, *mean;        /* (columns) of struct balance; NULL: there is no such loss */
    const uint64_t *capacities; /* (E) of the device's memory, where experts differ; the caller's */
};

void router_layout(struct router *router, const struct layer *layer, struct arena *arena);

/* Enqueues gate and slots for tokens x (T,D, storage type). */
int router_forward(struct router *router, struct engine *engine, const void *x, uint64_t capacity);

/* The same in two parts, where choices are known: their slots, and their gates, for which tokens
 * must be there, but no slots. */
int router_slots(struct router *router, struct engine *engine, uint64_t capacity);
int router_gates(struct router *router, struct engine *engine, const void *x);

/* Makes (T,k) choices known; streams idle.  ERR_ARGUMENT after a message for what is no expert, or
 * one twice in a token. */
int router_know(struct router *router, const int32_t *expert);

/* From grad_gate: the gate's own gradient (into the layer) and grad_x, where `keep` adds to what is
 * there.  x as in forward. */
int router_backward(struct router *router, struct engine *engine, bool keep);

/* Rows of all tokens from one type to another. */
int router_convert(const struct router *router, struct stream *stream, uint64_t width,
                   uint32_t from_type, const void *from, uint32_t to_type, void *to);

/* What encode and decode need; `rows` per expert. */
struct routing router_routing(const struct router *router, uint64_t capacity, uint64_t rows);

/* The same for rows of y: with MOE_COMBINE_CHOICES each choice is like a token that has no other.
 */
struct routing router_choices(const struct router *router, struct routing routing);

/* Routes x once and waits: the largest count this rank sends to any expert. */
int router_needed(const struct layer *layer, struct engine *engine, const void *x, int64_t *most);

/* The loss of balance in the last step, 0 where there is none; streams idle. */
int router_balance(const struct router *router, double *loss);

/* The weights of a loss that keeps experts equally busy, added to what a step is trained for: of
 * each rank's own tokens, weight * n * sum of f P over the n columns of a level of the gate
 * (kernels.h, struct balance).  "A" or, for bilevel with its two levels, "A,B".  ERR_ARGUMENT after
 * a message that names the range. */
int balance_parse(const char *text, const struct moe_shape *shape, double weight[2]);

/* Choices that found no slot below the capacity; streams idle. */
int router_dropped(const struct router *router, const struct capacities *capacities,
                   int64_t *dropped);

#endif
