/* What tuning a layer is expected to save, before it is tuned: from what every plan takes on a
 * modelled machine, and from a handful of steps of the real one, which say how far the model is off
 * there.  Pure.
 *
 * What the model misses is taken to be as misfit_covariance between plans and capacities as guided
 * takes it to be (belief.h), whose mean is the modelled machine here.  How large it is the steps
 * say. */
#ifndef WORTH_H
#define WORTH_H

#include "belief.h"
#include "stats.h"

#include <stdbool.h>

enum { WORTH_BUCKETS_MAX = 64 };

struct worth_setup {
    const struct search_setup *search; /* arms, shape, machine; its model is not looked at */
    int default_arm;
    size_t bucket_count;
    const double *capacities, *weights; /* by bucket, in ascending order; of their logarithms */
    const double *log_ns; /* that arms take on the modelled machine: [bucket][arm]; NAN: an arm
                           * cannot run there */
    /* Real steps of arms at capacities of buckets, launch by launch: observation.group is the
     * launch of the ranks.  Only what arms of one launch differ by is used.  NULL and 0: there are
     * none. */
    const struct observation *steps;
    size_t step_count;
    double
        launch_variance; /* the variance of what a launch of the ranks adds to a plan's log time */
    double margin;       /* what saves a smaller share of the default's time is not taken */
    uint64_t seed;
};

/* Of 100 intervals as many as WORTH_HOLDS are to hold what tuning then saves. */
enum { WORTH_HOLDS = 90 };

struct worth {
    /* Of the table in one further launch of the ranks; with such an interval.  The best static plan
     * may save a little more than a table of plans that are each better than the default by the
     * margin. */
    struct gain over_default, over_static;
    int static_arm; /* that is expected to be the best for all buckets */
    double error;   /* of a modelled ratio of times: how far it is expected to be off */
    double off;     /* how far it was off in the steps, a root mean square; NAN: there are none */
};

/* UNSUPPORTED where the default, or any other plan, cannot run in any bucket; ERR_NOMEM. */
int worth_of(const struct worth_setup *setup, struct worth *out);

/* The plans of a bucket whose steps tell most of what tuning saves: the default, the modelled
 * winner, the best plan for all buckets, and the best of those that share no error with the winner,
 * because only one of them moves tokens.  Returns how many, WORTH_PLANS_MAX at most. */
enum { WORTH_PLANS_MAX = 4 };
int worth_plans(const struct worth_setup *setup, size_t bucket, int arms[WORTH_PLANS_MAX]);

#endif
