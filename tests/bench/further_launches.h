/* What follows a sweep in `tune` (tuner/tune/standing.c): the chosen plans are compared with the
 * default in further launches of the ranks. */
#ifndef FURTHER_LAUNCHES_H
#define FURTHER_LAUNCHES_H

#include "decision.h"
#include "rounds.h"
#include "surface.h"

/* A bucket that was decided in launch 0. */
struct contender {
    struct true_bucket bucket;
    struct decision decision;
};

/* One table: at most as many buckets as rounds.h allows, which `search` decided.  They are sorted
 * by capacity.  `how` has how many launches and cycles there are, what a verdict is worth, and the
 * seed.  Launches have luck of this deviation, that of launch 0 is in the buckets.  Tells what the
 * table holds then, and the pairs of each bucket (NULL: nobody asks).  Returns how many further
 * launches there were. */
int further_launches(const struct surface *surface, struct contender *contenders, int count,
                     struct search *search, const struct rounds_setup *how, double luck,
                     struct noise *noise, struct rounds_verdict *left, double *pairs);

#endif
