/* What the table saves, against static plans too, and what it cost. */
#ifndef GAINS_H
#define GAINS_H

#include "series.h"

/* The static plans that the table is held against, a line of them each: r=0, the (a, d) at r = 1 of
 * the paper's Table 6, then those of 3dh and rail where they were tried. */
enum { SERIES_LINES = 5, SERIES_LINE_PLANS = 4 };
struct static_line {
    const char *name; /* "r=0", or the all-to-all */
    struct moe_plan plans[SERIES_LINE_PLANS];
    int count; /* 1, or one for each d */
};
int series_lines(const struct scope *scope, struct static_line out[SERIES_LINES]); /* how many */

/* Over all layers of a scope on as many ranks; 0: on any. */
struct improvement;
struct improvement series_pooled(const struct scope *scope, uint32_t ranks,
                                 const struct moe_plan *plan);

/* Timed steps by what they were for, and what other searches would have taken. */
struct spent {
    uint64_t search, contest, rounds, paper, exhaustive;
    uint32_t trials;
};
struct spent series_spent_of(const struct scope *scope);

#endif
