/* What a paper's study computes beside steps of a layer: formulas that its lines call by name. */
#ifndef FORMULAS_H
#define FORMULAS_H

#include "cluster.h"
#include "counts_replay.h"

/* A rule for capacities is an enum counts_way, or one capacity that is held. */
enum { FORMULA_ARGUMENTS = 3, FORMULA_KEPT = 16, FORMULA_HELD = COUNTS_WAYS };

enum formula_kept { KEPT_TYPICAL, KEPT_TRAINING };

/* On one machine; what took long to compute is kept for the next call. */
struct formulas {
    const struct cluster *machine;
    struct {
        enum formula_kept of;
        double key[2], values[24];
    } kept[FORMULA_KEPT];
    int kept_count;
    struct counts_trace trace; /* DynaMoE's Figure 8, once it is made */
};
void formulas_close(struct formulas *formulas);

struct formula {
    const char *name;
    int arguments;
    int (*of)(struct formulas *formulas, int part, const double *arguments, double *out);
    int part; /* of several numbers that are computed together */
};

extern const struct formula formula_list[]; /* ends with a NULL name; formulas.c explains each */

/* Two ranks that take so many seconds for the proxy task of HEXA-MoE's Table 3; else as `machine`,
 * whose rate of products becomes that of the slower one. */
int formula_unequal(const struct cluster *machine, const double seconds[2], struct cluster *out);

#endif
