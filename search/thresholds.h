/* A table with a plan for each range of a key as a few switch points: the best plans that change at
 * most so many times, and what they lose against the table.  Pure. */
#ifndef THRESHOLDS_H
#define THRESHOLDS_H

#include "stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { THRESHOLDS_SWITCHES_MAX = 8 };

/* One plan in one range. */
struct threshold_cell {
    uint32_t samples;
    double mean, squares; /* of log(ns); squares: sum of squared deviations from the mean */
    bool failed;          /* it failed there */
};

void threshold_cell_add(struct threshold_cell *cell, double ns);

struct threshold_plan {
    bool candidate;       /* false: it is the table's in some range, and none to choose */
    uint32_t distance;    /* how far it lies from the default: of equal ones the nearer is taken */
    uint32_t raised_axes; /* axes that may only rise along the key, a bit for each that has
                             raised_axes */
};

struct thresholds_problem {
    size_t ranges, plans;
    const struct threshold_plan *plan;
    const struct threshold_cell *cells; /* range * plans + plan */
    const double *weight;               /* of each range, 0 or more */
    const size_t *table;                /* the table's plan of each range; plans: it has no cell */
    uint32_t switches;                  /* at most */
};

struct thresholds {
    size_t *chosen;    /* of each range the plan's index; the caller's room */
    uint32_t switches; /* how often it changes */
    double cost;       /* weighted sum of the chosen plans' times in ns */
    double judged;     /* the share of the weight that lies in ranges that `regret` is about */
    bool same;         /* in all of them the table's own plan stands */
    /* Time / the table's time - 1, of ranges where both are known, with a 95 % interval.  NAN:
     * there is no such range; of the interval: nothing was sampled twice. */
    struct gain regret;
};

/* UNSUPPORTED, silently: no candidates reach from the first range to the last with so few switches.
 * In a range without a sample of any candidate each one may stand that is not failed, and costs
 * nothing.  Of equal costs the fewest switches are taken, before what lies nearest the default. */
int thresholds_find(const struct thresholds_problem *problem, struct thresholds *inout);

#endif
