/* Reduces a table with a plan for each range of a key to a few switch points: finds the best
 * sequence of plans that changes at most so many times, and estimates what it loses against the
 * table. */
#ifndef THRESHOLDS_H
#define THRESHOLDS_H

#include "stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { THRESHOLDS_SWITCHES_MAX = 8 };

/* The samples of one plan in one range: one trial. */
struct threshold_cell {
    uint32_t samples;
    double mean, squares; /* of log(ns); squares: sum of squares about the mean */
    bool failed;          /* the plan cannot run there */
};

/* Adds a sample. */
void threshold_cell_add(struct threshold_cell *cell, double ns);

/* One plan of the problem. */
struct threshold_plan {
    bool candidate;       /* false: a plan of the table that may not be chosen */
    uint32_t distance;    /* from the default: of equal plans the nearer one is chosen */
    uint32_t raised_axes; /* of the axes that may only rise along the key: a bit for each that this
                           * plan has risen */
};

/* What to reduce; all arrays are borrowed. */
struct thresholds_problem {
    size_t ranges, plans; /* counts */
    const struct threshold_plan *plan;
    const struct threshold_cell *cells; /* range * plans + plan */
    const double *weight;               /* by range, 0 or more */
    const size_t *table;                /* by range: the table's plan; `plans`: it has no cell */
    uint32_t switches;                  /* the most changes of the plan */
};

/* The result.  The caller owns `chosen`. */
struct thresholds {
    size_t *chosen;    /* by range: the plan's index */
    uint32_t switches; /* changes of the plan */
    double cost;       /* weighted sum of the chosen plans' times in ns */
    double judged;     /* share of the weight in ranges where `regret` is known */
    bool same;         /* in all of these the table's plan is chosen */
    /* Time / the table's time - 1 over ranges where both are known, with a 95 % interval.  NAN:
     * there is no such range; the interval is NAN if nothing was sampled twice. */
    struct gain regret;
};

/* Finds the sequence of least cost.  In a range without a sample of any candidate, every candidate
 * that did not fail may be chosen and costs nothing.  Of equal costs it chooses the fewest
 * switches, then the plans nearest to the default.  UNSUPPORTED, without a message: no sequence
 * with so few switches exists. */
int thresholds_find(const struct thresholds_problem *problem, struct thresholds *inout);

#endif
