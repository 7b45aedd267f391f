/* Estimates what tuning a layer would save, before it is tuned (`moetune plan --worth`).  It needs
 * the time of every plan on a modelled machine, and a few steps of the real machine, which tell how
 * far the model is off.
 *
 * The errors of the model are correlated between plans and capacities as in belief.h, whose mean is
 * the modelled machine here.  The steps tell how large these errors are. */
#ifndef WORTH_H
#define WORTH_H

#include "belief.h"
#include "stats.h"

#include <stdbool.h>

enum { WORTH_BUCKETS_MAX = 64 };

/* What to estimate; all pointers are borrowed. */
struct worth_setup {
    const struct search_setup *search; /* arms, shape, machine; its model is ignored */
    int default_arm;
    size_t bucket_count;
    const double *capacities; /* by bucket, ascending */
    const double *weights;    /* by bucket: of the logarithm of its time */
    const double *log_ns;     /* on the modelled machine: [bucket][arm]; NAN: cannot run there */
    /* Real steps at capacities of buckets, sorted by launch of the ranks (observation.group).  Only
     * differences within a launch are used.  NULL and 0: none. */
    const struct observation *steps;
    size_t step_count;
    double launch_variance; /* that a launch of the ranks adds to a plan's log time */
    double margin;          /* a plan must save this share of the default's time to be chosen */
    uint64_t seed;
};

/* WORTH_HOLDS of 100 intervals contain what tuning then saves. */
enum { WORTH_HOLDS = 90 };

/* The estimate; a plain value. */
struct worth {
    /* The table's gain in one further launch of the ranks, with that interval.  over_static may be
     * below 0, because each plan of the table has to beat the default by the margin. */
    struct gain over_default, over_static;
    int static_arm; /* expected to be the best for all buckets */
    double error;   /* expected error of a modelled ratio of times */
    double off;     /* its root mean square error in the steps; NAN: no steps */
};

/* UNSUPPORTED if the default cannot run in some bucket; ERR_NOMEM after a message. */
int worth_of(const struct worth_setup *setup, struct worth *out);

/* Lists the plans of a bucket whose steps tell most: the default, the modelled winner, the best
 * plan for all buckets, and the best plan whose error is independent of the winner's (only one of
 * the two moves tokens).  Returns how many, at most WORTH_PLANS_MAX. */
enum { WORTH_PLANS_MAX = 4 };
int worth_plans(const struct worth_setup *setup, size_t bucket, int arms[WORTH_PLANS_MAX]);

#endif
