/* A simple model of one MoE step, with thirteen constants of the machine.  It orders and prunes;
 * measurement decides, so it leaves out what it cannot know (tiles, protocols, interference by
 * algorithm). */
#ifndef COSTS_H
#define COSTS_H

#include "cluster.h"
#include "search.h"

enum cost_constant {
    COST_MESSAGE,      /* s per message, one group with all ranks */
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

struct costs {
    double ranks, per_node, nodes, racks, slices, experts, layers, local_experts, model_dim,
        hidden_dim;
    double choices; /* k T: rows that a rank sends to all experts together */
    double top_k;
    double reach;   /* the chance that a token has an expert on a given node */
    bool by_hidden; /* MOE_LAYOUT_HIDDEN */
    double token_bytes, weight_matrices;
    /* As in struct search_setup. */
    uint64_t (*kept)(const void *load, uint64_t capacity, uint32_t experts);
    const void *load;
    bool train;
    double prior[COST_CONSTANTS], prior_sd[COST_CONSTANTS]; /* of the constants' logarithms */
};

/* A machine by the model numbers of its cluster; where one is not known there stands the guess. */
struct search_machine known_machine(const struct cluster *cluster,
                                    const struct search_machine *guess);

struct costs costs_of(const struct moe_shape *shape, const struct search_machine *machine);

/* log(ns) of one step, given the constants' logarithms. */
double costs_log_ns(const struct costs *costs, const double *constants, double capacity,
                    const struct moe_plan *plan);

/* The same, and its derivative by each constant. */
double costs_gradient(const struct costs *costs, const double *constants, double capacity,
                      const struct moe_plan *plan, double *gradient);

#endif
