/* A made-up cluster and layer with known true step times, which a noisy clock measures.
 * Its formulas are not those of search/costs.c: two streams are played through chunk by chunk,
 * GEMMs come in tiles and saturate, messages switch protocol, nodes and links work at once.
 * A foreign machine goes further: no formula predicts which of its plans is faster. */
#ifndef SURFACE_H
#define SURFACE_H

#include "noise.h"
#include "plan.h"
#include "search.h"
#include "true_bucket.h"

enum { SURFACE_POCKETS_MAX = 8 };

struct surface_options {
    uint32_t slices;  /* W/E; 0 = any of 1 to 128 */
    double ripple;    /* sd per configuration; 0 = drawn from 0.5 to 3 % */
    int pockets;      /* regions in (r, d, a, c) that are 10 to 50 % faster or slower */
    double belief_sd; /* of the logarithm of each constant told to the search; 0 = 0.35 */
    bool foreign;     /* plans differ by random functions, steps and kinks, not by their costs */
    bool alike;       /* all plans take the same time */
};

struct surface {
    struct moe_shape shape;
    struct moe_plan arms[SEARCH_ARMS_MAX];
    size_t arm_count;
    struct search_machine machine; /* what the search is told: true values, blurred */
    uint64_t seed;
    double message_inside_s, message_between_s, inside, between, copy, flops, launch_s;
    double small_message_bytes, gather_between, gather_weight, rows_half, hidden_half;
    /* What overlap costs, by algorithm; nccl is none of the arms. */
    double slowed_compute[PLAN_A2A_COUNT], slowed_exchange[PLAN_A2A_COUNT];
    double crowd; /* rows of the fullest node, over the mean */
    double step_s, ripple, memory_bytes;
    double foreign_sd; /* of log time between the plans of a foreign machine; 0: not foreign */
    bool alike;
    struct pocket {
        double r_low, r_high, c_low, c_high, factor;
        uint32_t d, a;
    } pockets[SURFACE_POCKETS_MAX];
    int pocket_count;
};

struct surface surface_make(uint64_t seed, const struct surface_options *options);

/* The true time of a step, and whether it fits into memory. */
double surface_ns(const struct surface *surface, double capacity, int arm);
double surface_smooth_ns(const struct surface *surface, double capacity, int arm); /* no ripple */
bool surface_fits(const struct surface *surface, double capacity, int arm);

/* A capacity that this layer might see: 256 to 64k tokens per rank. */
double surface_capacity(const struct surface *surface, uint64_t index);

/* What a search is told: the layer, its plans, the blurred machine.  It borrows the surface. */
struct search_setup surface_setup(const struct surface *surface, uint64_t seed);

/* How lucky a plan is in one launch, a logarithm of standard deviation 1: where its ranks' memory
 * and threads came to lie. */
double surface_luck(const struct surface *surface, uint64_t capacity, int arm, uint64_t launch);

/* What all plans take there; what is seen of it in launch 0, with luck of this deviation.  False:
 * nothing fits. */
bool surface_bucket(const struct surface *surface, double capacity, double luck,
                    struct true_bucket *out);

#endif
