/* Formulas that a line of a .study file calls by name, "typical_mean(W, a, d)", for numbers that no
 * expression over one step can say.  formulas.c has one function for each, with its source. */
#ifndef FORMULAS_H
#define FORMULAS_H

#include "cluster.h"
#include "counts_replay.h"

/* FORMULA_HELD is one more rule for capacities behind those of enum counts_way: all experts hold
 * one capacity for the whole training. */
enum { FORMULA_ARGUMENTS = 3, FORMULA_CACHE = 16, FORMULA_VALUES = 24, FORMULA_HELD = COUNTS_WAYS };

enum formula_cached { CACHED_TYPICAL_LAYERS, CACHED_TRAINING };

/* What the formulas of one study share: the machine, and results that took long to compute.  The
 * caller sets the machine, which is borrowed, and calls formulas_close(). */
struct formulas {
    const struct cluster *machine;
    struct {
        enum formula_cached kind;
        double key[2]; /* the arguments that the values depend on */
        double values[FORMULA_VALUES];
    } cache[FORMULA_CACHE];
    int cached;                /* entries of `cache` that are filled */
    struct counts_trace trace; /* DynaMoE's Figure 8; no steps until a formula needs it */
};
void formulas_close(struct formulas *formulas);

/* One call of a formula: a plain value that borrows `formulas`. */
struct formula_call {
    struct formulas *formulas;
    double arguments[FORMULA_ARGUMENTS];
    int output; /* which of the numbers that the function computes together */
};

/* One name that lines may call.  Several names share a function and differ in `output`. */
struct formula {
    const char *name;
    int arguments; /* how many it takes */
    int (*compute)(const struct formula_call *call, double *out);
    int output;
};

extern const struct formula formula_list[]; /* ends with a NULL name */

/* Writes `machine` with two ranks of unequal speed.  seconds: what each rank takes for the proxy
 * task of HEXA-MoE's Table 3.  The machine's GFLOP/s become those of the slower rank. */
int formula_unequal(const struct cluster *machine, const double seconds[2], struct cluster *out);

#endif
