/* The values that moetune and a trainer share: a layer's shape and a plan for it.
 *
 * Clean under C89-style strictness, C11 and C++.  Structs grow only at the end. */
#ifndef MOELOOKUP_H
#define MOELOOKUP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum moe_status {
    MOE_OK = 0,
    MOE_ERR_ARGUMENT = -1,
    MOE_ERR_IO = -2,
    MOE_ERR_FORMAT = -3,
    MOE_ERR_AMBIGUOUS = -4,
    MOE_ERR_NOMEM = -5
};
enum moe_a2a { MOE_A2A_LINEAR = 0, MOE_A2A_2DH = 1 };
enum moe_dtype { MOE_F32 = 0, MOE_F16 = 1, MOE_BF16 = 2 };
enum moe_pass { MOE_FORWARD = 0, MOE_TRAIN = 1 };
enum moe_act { MOE_RELU = 0, MOE_GELU = 1, MOE_SWIGLU = 2 };

/* One MoE layer on its group of ranks. */
struct moe_shape {
    uint32_t struct_size;    /* sizeof(struct moe_shape) */
    uint32_t experts;        /* E, in all */
    uint32_t top_k;          /* k, experts per token */
    uint32_t model_dim;      /* D */
    uint32_t hidden_dim;     /* H of a whole expert */
    uint32_t ranks;          /* W */
    uint32_t ranks_per_node; /* m; 0 = nodes differ */
    uint32_t dtype;          /* enum moe_dtype, of tokens and weights */
    uint32_t pass;           /* enum moe_pass: MOE_TRAIN = forward + backward */
    uint32_t activation;     /* enum moe_act */
    uint32_t tokens;         /* T, per rank and step; 0 = any */
};

/* One way to run the layer. */
struct moe_plan {
    uint32_t struct_size;      /* sizeof(struct moe_plan) */
    uint32_t r;                /* parallelism degree; 0 = pure data parallel */
    uint32_t d;                /* pipelining degree: chunks in flight */
    uint32_t a;                /* enum moe_a2a */
    uint32_t source;           /* where it comes from */
    uint32_t bucket;           /* floor(capacity / R) it was measured for */
    float time_us, default_us; /* its step time and the default plan's; 0 = unknown */
};

/* Writes "r=2 d=4 a=2dh".  Returns the length as snprintf does, or MOE_ERR_ARGUMENT. */
int moe_plan_format(const struct moe_plan *plan, char *buf, size_t size);

/* Reads the same text, in any order; an axis left out takes its default.  On an error *out is
 * untouched. */
int moe_plan_parse(const char *text, struct moe_plan *out);

#ifdef __cplusplus
}
#endif

#endif
