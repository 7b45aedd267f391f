/* One layer's sweep: bucket by bucket, samples, decision, entry; then the buckets between.
 * Everything is remembered as it is learnt, and what is known is not measured again. */
#ifndef SWEEP_H
#define SWEEP_H

#include "campaign.h"
#include "dictionary.h"
#include "misses.h"
#include "search.h"
#include "space.h"
#include "traffic.h"

struct sweep_setup {
    struct campaign *campaign; /* borrowed, as all */
    const struct search_ops *strategy;
    const struct effort *effort;
    struct search_machine machine;
    double harm, margin; /* of decisions */
    uint32_t repeats;    /* of paper and exhaustive */
    int64_t limit_bytes;
    bool retune;
    /* By space: what trainers asked for; NULL: nobody knows. */
    const struct traffic_layer *const *asked;
};

/* What the table as a whole is worth. */
struct standing {
    struct standing_row row;
    const char *why; /* why nothing is known; NULL: the row says it */
};

struct too_wide {
    uint32_t buckets;
    uint32_t window; /* with which none of them would be; 0: there is none */
};

/* What a sweep adds up to. */
struct sweep_result {
    uint32_t measured, inferred, known; /* buckets: now, between, from earlier runs */
    uint32_t failed_trials, ruled_out;
    struct standing standing;
    struct too_wide too_wide;
};

/* ERR_CUT when the deadline or an interrupt came first; the table is usable all the same. */
int sweep_layer(const struct sweep_setup *setup, struct space *space, struct sweep_result *out);

/* These buckets of several layers, in this order, whose results are added up by layer.  Nothing
 * else is measured; what lies between is inferred where it has no entry. */
int sweep_misses(const struct sweep_setup *setup, struct space *spaces, size_t space_count,
                 const struct misses *misses, struct sweep_result *results);

/* ---- between sweep.c and its parts */

/* A layer's sweep under way. */
struct sweep {
    const struct sweep_setup *setup;
    struct space *space;
    struct dictionary dictionary;
    bool told;                         /* the ranks know the layer */
    bool misses;                       /* certain buckets alone */
    bool settled;                      /* the rounds of the whole table have begun */
    int64_t first_run;                 /* the first that this one goes on with */
    const struct traffic_layer *asked; /* what trainers asked for; NULL: nobody knows */
    struct sweep_result result;
};

#endif
