/* The cost model of `guided`: the time of one MoE step under a plan, from thirteen constants of the
 * machine.  It only orders and prunes plans, and measurements decide.  So it leaves out what it
 * cannot know: tiles, protocols, interference by algorithm. */
#ifndef COSTS_H
#define COSTS_H

#include "cluster.h"
#include "search.h"

enum cost_constant {
    COST_MESSAGE,      /* s per message, in one group of all ranks */
    COST_MESSAGE_2DH,  /* s per message of the two smaller groups */
    COST_BYTE_BETWEEN, /* s per byte between nodes */
    COST_BYTE_INSIDE,
    COST_BYTE_COPIED,
    COST_BYTE_WEIGHT, /* s per byte of weights that a GEMM reads */
    COST_GATHER_STEP,
    COST_GATHER_BYTE, /* between nodes */
    COST_FLOP,
    COST_CHUNK,     /* s per chunk */
    COST_INTERFERE, /* how much compute and communication slow each other, a share */
    COST_STEP,      /* s per step, whatever the plan */
    COST_SCALE,     /* a common factor */
    COST_CONSTANTS
};

/* The sizes of a layer and the prior of the constants: all that the formula needs.  A plain value;
 * `load` is borrowed. */
struct costs {
    double ranks, per_node, nodes, racks, slices, experts, layers, local_experts, model_dim,
        hidden_dim;
    double choices; /* k T: rows that a rank sends to all experts together; 0: unknown */
    double top_k;
    double reach;   /* the chance that a token has an expert on a given node */
    bool by_hidden; /* MOE_LAYOUT_HIDDEN */
    double token_bytes, weight_matrices;
    /* Both as in struct search_setup. */
    uint64_t (*kept)(const void *load, uint64_t capacity, uint32_t experts);
    const void *load;
    bool train;
    double prior[COST_CONSTANTS], prior_sd[COST_CONSTANTS]; /* of the constants' logarithms */
};

/* The machine's constants from the numbers that its cluster records; `guess` for those that it does
 * not. */
struct search_machine known_machine(const struct cluster *cluster,
                                    const struct search_machine *guess);

/* The cost model of a layer on a machine. */
struct costs costs_of(const struct moe_shape *shape, const struct search_machine *machine);

/* log(ns) of one step, given the constants' logarithms. */
double costs_log_ns(const struct costs *costs, const double *constants, double capacity,
                    const struct moe_plan *plan);

/* log(ns) of one step, and its derivative by the logarithm of each constant. */
double costs_gradient(const struct costs *costs, const double *constants, double capacity,
                      const struct moe_plan *plan, double *gradient);

#endif
