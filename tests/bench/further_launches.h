/* What follows a sweep: the plans that were chosen meet the default in further launches of the
 * ranks, as `tune` lets them (tuner/tune/standing.c). */
#ifndef FURTHER_LAUNCHES_H
#define FURTHER_LAUNCHES_H

#include "decision.h"
#include "entrants.h"

/* A bucket that was decided in launch 0. */
struct contender {
    struct bucket bucket;
    struct trial_of trial; /* arm -1: nothing but the default was a candidate */
};

struct further {
    struct value_column pairs;    /* of a bucket, in all further launches together */
    struct value_column launches; /* of a table, launch 0 not among them */
    struct value_column regret,
        harm; /* of what the table holds then; harm: against the default; in % */
};

/* One table: at most as many buckets as rounds.h allows.  Launches have luck of this deviation,
 * that of launch 0 is in the buckets.  Contenders are sorted by capacity; `search` chose them. */
void further_launches(struct contender *contenders, int count, struct search *search, double luck,
                      struct noise *noise, uint64_t seed, struct further *out);
void further_free(struct further *further);

#endif
